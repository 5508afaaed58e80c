/* SPDX-License-Identifier: MIT */
/*
 * Interleaving by weights: each node gets pages in proportion to its bandwidth.
 *
 * The kernel does that page by page from 6.9 on, with the weights that the administrator gives to
 * nodes [Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave]. Where they are
 * others than the bandwidths say, or the kernel is older, shared memory is placed by ranges: the
 * bytes have rounds, and each node has one range of a round. Rounds are 2 MiB long up to offset
 * 16 MiB, and an eighth of the offset, rounded down to a power of two, from there on. So each
 * doubling of a buffer has eight rounds, and a buffer of any length few ranges.
 */
#ifndef HETMAP_WEIGHTS_H
#define HETMAP_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#define WEIGHTS_NODES 64

/* Notes the bandwidth of a node. The first figure of a process counts: rounds must not change. */
void weights_set_bandwidth(uint32_t node, uint64_t bytes_a_second);
/* Those of @nodes without a bandwidth yet. */
uint64_t weights_unknown(uint64_t nodes);
/*
 * Small numbers, 1 to 255, within 5% of the proportion of the bandwidths where they can be. 0 for
 * nodes that are not in @nodes.
 */
void weights_find(uint64_t nodes, uint8_t weights[WEIGHTS_NODES]);

/* How the kernel places pages of @nodes by these weights: a mode of mbind(2); -1: it does not. */
int weights_kernel_mode(uint64_t nodes);

/* Calls @each with the ranges of bytes [0, length) and their nodes until it returns not 0. */
int weights_each_range(uint64_t length, uint64_t nodes,
		       int (*each)(void *user, uint64_t offset, uint64_t length, uint32_t node),
		       void *user);

/*
 * Gives the file of shared memory its policy, by ranges, through a mapping that ends at once: the
 * kernel keeps the policy with the file, for all maps of it. Errors, with a text: those of mmap(2)
 * and mbind(2).
 */
int weights_place_file(int fd, uint64_t offset, uint64_t length, uint64_t nodes);

#endif
