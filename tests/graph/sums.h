/* SPDX-License-Identifier: MIT */
/* Graphs of sums: the kernel, for CPUs and engines, and the parts of a plan. */
#ifndef TESTS_GRAPH_SUMS_H
#define TESTS_GRAPH_SUMS_H

#include <hetmap/plan.h>

#include "lib/rig.h"

AUTO_UNREF(hm_plan)
AUTO_UNREF(hm_schedule)
AUTO_UNREF(hm_run)

/* "in in out": the third range is the sum of the first two, word by word. */
extern const struct hm_kernel_desc sums_add;

uint32_t sums_range(struct hm_plan *plan, const char *name, uint32_t flags, void *home,
		    uint64_t length);
/* A node of @words of @add, made of sums_add. */
uint32_t sums_node(struct hm_plan *plan, struct hm_kernel *add, uint64_t words,
		   const char *name, uint32_t a, uint32_t b, uint32_t sum);

#endif
