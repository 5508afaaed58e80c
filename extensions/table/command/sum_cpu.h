/* SPDX-License-Identifier: MIT */
/* Grouped sum: arguments of the kernel, and its form for CPUs. */
#ifndef HETMAP_TABLE_SUM_CPU_H
#define HETMAP_TABLE_SUM_CPU_H

#include "sum.h"

enum sum_arg {
	ARG_KEYS,
	ARG_KEY_FIRST,
	ARG_KEY_VALID,
	ARG_KEY_VALID_FIRST,
	ARG_BASE,
	ARG_SPAN,
	ARG_REMAP,
	ARG_VALUES,
	ARG_VALUE_FIRST,
	ARG_VALUE_VALID,
	ARG_VALUE_VALID_FIRST,
	ARG_FILTER,
	ARG_FILTER_FIRST,
	ARG_FILTER_VALID,
	ARG_FILTER_VALID_FIRST,
	ARG_LIMIT,
	ARG_ROWS,
	ARG_HAS,
	ARG_TYPES,
	ARG_GROUPS,
	ARG_SUMS,
	ARG_COUNTS,
	SUM_ARGS,
};

/* Bits of ARG_HAS. */
#define HAS_KEY_VALID (1u << 0)
#define HAS_VALUE_VALID (1u << 1)
#define HAS_FILTER_VALID (1u << 2)
#define HAS_REMAP (1u << 3)

/* ARG_TYPES: types of key, value and filter in a byte each, and the comparison. */
#define TYPES_OF(key, value, filter, compare)                                  \
	((uint32_t)(key) | (uint32_t)(value) << 8 | (uint32_t)(filter) << 16 | \
	 (uint32_t)(compare) << 24)

int sum_cpu(const struct hm_cpu_range *range, const struct hm_arg *args);

#endif
