/* SPDX-License-Identifier: MIT */
/* NUMA nodes of the machine that is traced: whose CPUs and whose memory they are. */
#ifndef HETMAP_NODES_H
#define HETMAP_NODES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Nodes beyond are as if not known: a kernel has as many at most. */
#define NODES_MOST 1024
#define NODE_UNKNOWN UINT32_MAX

struct node_span {
	uint64_t begin, end; /* physical addresses */
	uint32_t node;
};

struct nodes {
	uint32_t n; /* the highest number, and 1; 0: nothing is known of nodes */
	struct node_span *spans;
	uint32_t n_span;
	uint32_t *of_cpu;
	uint32_t n_cpu;
};

/* Has this machine more than one with memory? */
bool nodes_several(void);

/*
 * [{"node", "cpus": [...], "memory": [[begin, end], ...]}, ...], as about.json has them;
 * NULL: it can't be known.
 */
json_t *nodes_here(void);

/*
 * Reads the output of nodes_here(), maybe of another machine. Parts that make no sense are left
 * out. 0 or -ENOMEM.
 */
int nodes_load(const json_t *list, struct nodes *ret_nodes);
void nodes_free(struct nodes *nodes);

uint32_t nodes_of_memory(const struct nodes *nodes, uint64_t physical);
uint32_t nodes_of_cpu(const struct nodes *nodes, uint32_t cpu);
bool nodes_has_memory(const struct nodes *nodes, uint32_t node);

/*
 * The time that a CPU of one node takes to read 4 KiB of another's memory: 0 or a negative
 * errno.
 */
int nodes_measure(uint32_t cpu_node, uint32_t memory_node, double *ret_ns);

#endif
