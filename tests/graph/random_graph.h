/* SPDX-License-Identifier: MIT */
/* Random graphs of operations, the fewest bytes that any schedule moves, and a simulator. */
#ifndef HETMAP_TESTS_RANDOM_GRAPH_H
#define HETMAP_TESTS_RANDOM_GRAPH_H

#include <hetmap/plan.h>
#include <stdbool.h>

#define GRAPH_UNIT 64 /* bytes: places are multiples of it */
#define GRAPH_NODES 12
#define GRAPH_ROOTS 8
#define GRAPH_VIEWS 4
#define GRAPH_RANGES (GRAPH_ROOTS + GRAPH_VIEWS)
#define GRAPH_ARGS 4
#define GRAPH_UNITS 16 /* in the longest range */

struct graph_range {
	uint32_t root, offset, units; /* a root's are its own index, 0 */
	uint32_t flags;
};

struct graph_arg {
	uint32_t range, access;
};

struct graph_node {
	struct graph_arg arg[GRAPH_ARGS];
	uint32_t n_arg;
};

struct graph {
	struct graph_range range[GRAPH_RANGES];
	struct graph_node node[GRAPH_NODES];
	uint32_t n_root, n_range, n_node;
	char home[GRAPH_ROOTS][GRAPH_UNITS * GRAPH_UNIT];
};

void graph_random(struct graph *graph, uint64_t *random);
/* The plan of the graph, whose nodes are calls of @call with their index as user. */
struct hm_plan *graph_plan(struct graph *graph, hm_plan_function *call);
/* The fewest units that cross with a budget of so many units, by trying everything. */
uint32_t graph_optimum(const struct graph *graph, uint32_t budget);
/* Units of the node that needs the most, and of all used roots together. */
uint32_t graph_smallest(const struct graph *graph);
uint32_t graph_all(const struct graph *graph);
/*
 * Runs the steps in a random order that their lanes and @after allow. False: a read did not see the
 * last write, an output is not home, or a place is beyond the peak; that is a failure of the test.
 */
bool graph_simulate(const struct graph *graph, struct hm_schedule *schedule, uint64_t *random);

#endif
