/* SPDX-License-Identifier: MIT */
/* The light work of a node adds tensors to tensors, by the rule in graph_job.h. */
#ifndef HETMAP_LIGHT_H
#define HETMAP_LIGHT_H

#include "graph_job.h"

/* A launch is far from an engine's limit of time. */
#define LIGHT_LAUNCH_BYTES (4ull << 20)

/* A number for the two. */
uint32_t light_mix(uint32_t a, uint32_t b);
/* The factor of node @node for its k-th pair of a read and a written tensor. It is odd. */
uint32_t light_factor(uint32_t node, uint32_t k);
bool light_reads(const struct operation *node, uint32_t tensor);
/* Whether the checksums of @from bytes are added to @to bytes, and not they themselves. */
bool light_by_checksum(uint64_t to, uint64_t from);
/* Length of these checksums. */
uint64_t light_digest_bytes(uint64_t length);

typedef int light_add(void *user, bool own, uint64_t to, uint64_t from, uint64_t length);

/*
 * Calls @add for each piece of @from that is added to a piece of @to. A longer @from goes round in
 * @to. Behind a shorter one, what is ahead in @to itself is added (@own), each time as much as is
 * there: so few pieces carry all of @from to the end of @to, be @from as short as 64 bytes.
 */
int light_pieces(uint64_t to, uint64_t from, light_add *add, void *user);

static inline uint64_t light_smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif
