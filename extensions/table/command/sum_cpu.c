// SPDX-License-Identifier: MIT
/*
 * Grouped sum on CPUs: blocks of rows become group numbers and values in two arrays, whatever
 * their types, and one loop adds those up.
 */
#include "sum_cpu.h"

#include <string.h>

#define BLOCK 512

/* Rows of a block: the group of each, with the last one for rows that have none. */
struct block {
	uint64_t n;
	uint32_t group[BLOCK];
	union {
		int64_t integer[BLOCK];
		double real[BLOCK];
	};
	unsigned char counts[BLOCK]; /* 1: the row's value counts */
};

/* Values need not be aligned in a file: memcpy() of a constant size is a plain load. */
#define LOAD_LOOP(type, to, conversion)                                                   \
	do {                                                                              \
		for (i = 0; i < n; i++) {                                                 \
			type value;                                                       \
                                                                                          \
			memcpy(&value, (const char *)values + (first + i) * sizeof(type), \
			       sizeof(type));                                             \
			(to)[i] = (conversion)value;                                      \
		}                                                                         \
	} while (0)

static bool bit(const unsigned char *bits, uint64_t i)
{
	return bits[i >> 3] >> (i & 7) & 1;
}

static void load_integers(int64_t *to, enum sum_type type, const void *values, uint64_t first,
			  uint64_t n)
{
	uint64_t i;

	switch (type) {
	case SUM_BIT:
		for (i = 0; i < n; i++)
			to[i] = bit(values, first + i);
		break;
	case SUM_I8:
		LOAD_LOOP(int8_t, to, int64_t);
		break;
	case SUM_U8:
		LOAD_LOOP(uint8_t, to, int64_t);
		break;
	case SUM_I16:
		LOAD_LOOP(int16_t, to, int64_t);
		break;
	case SUM_U16:
		LOAD_LOOP(uint16_t, to, int64_t);
		break;
	case SUM_I32:
		LOAD_LOOP(int32_t, to, int64_t);
		break;
	case SUM_U32:
		LOAD_LOOP(uint32_t, to, int64_t);
		break;
	default:
		LOAD_LOOP(uint64_t, to, int64_t);
		break;
	}
}

/* By the meaning of the bits [IEEE 754]. */
static double half_value(uint16_t half)
{
	uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
	double value = exponent ? 1024 + fraction : fraction;

	if (exponent == 31)
		value = fraction ? __builtin_nan("") : __builtin_inf();
	else
		value = __builtin_ldexp(value, (exponent ? (int)exponent : 1) - 25);
	return half & 0x8000 ? -value : value;
}

static void load_reals(double *to, enum sum_type type, const void *values, uint64_t first,
		       uint64_t n)
{
	uint16_t half;
	uint64_t i;

	switch (type) {
	case SUM_F16:
		for (i = 0; i < n; i++) {
			memcpy(&half, (const char *)values + (first + i) * 2, 2);
			to[i] = half_value(half);
		}
		break;
	case SUM_F32:
		LOAD_LOOP(float, to, double);
		break;
	default:
		LOAD_LOOP(double, to, double);
		break;
	}
}

static void find_groups(struct block *block, const struct hm_arg *args, uint64_t at)
{
	const enum sum_type type = args[ARG_TYPES].u32 & 255;
	const unsigned char *valid = args[ARG_KEY_VALID].pointer;
	const uint32_t *remap = args[ARG_REMAP].pointer, last = args[ARG_GROUPS].u32;
	const uint32_t has = args[ARG_HAS].u32;
	uint64_t i, key;

	if (type == SUM_NONE) {
		memset(block->group, 0, sizeof(block->group));
		return;
	}
	load_integers(block->integer, type, args[ARG_KEYS].pointer,
		      args[ARG_KEY_FIRST].u64 + at, block->n);
	for (i = 0; i < block->n; i++) {
		key = (uint64_t)block->integer[i] - (uint64_t)args[ARG_BASE].i64;
		if (key >= args[ARG_SPAN].u64 ||
		    (has & HAS_KEY_VALID &&
		     !bit(valid, args[ARG_KEY_VALID_FIRST].u64 + at + i)))
			block->group[i] = last;
		else
			block->group[i] = has & HAS_REMAP ? remap[key] : (uint32_t)key;
		/* Bytes that change meanwhile must not lead out of the tables. */
		if (block->group[i] > last)
			block->group[i] = last;
	}
}

#define COMPARE_LOOP(values, limit)                                                        \
	do {                                                                               \
		for (i = 0; i < block->n; i++)                                             \
			block->counts[i] = holds(                                          \
				compare,                                                   \
				(values)[i]<(limit), (values)[i] == (limit), (values)[i]>( \
					limit));                                           \
	} while (0)

static bool holds(enum sum_compare compare, bool less, bool equal, bool greater)
{
	switch (compare) {
	case SUM_LT:
		return less;
	case SUM_LE:
		return less || equal;
	case SUM_EQ:
		return equal;
	case SUM_NE:
		return !equal;
	case SUM_GE:
		return greater || equal;
	default:
		return greater;
	}
}

/* Sets block->counts; a row without a value in the filter's column is not counted. */
static void apply_filter(struct block *block, const struct hm_arg *args, uint64_t at)
{
	const enum sum_type type = args[ARG_TYPES].u32 >> 16 & 255;
	const enum sum_compare compare = args[ARG_TYPES].u32 >> 24;
	const unsigned char *valid = args[ARG_FILTER_VALID].pointer;
	const void *values = args[ARG_FILTER].pointer;
	const uint64_t first = args[ARG_FILTER_FIRST].u64 + at;
	double limit;
	uint64_t i;

	memset(block->counts, 1, sizeof(block->counts));
	if (type == SUM_NONE)
		return;
	if (sum_type_is_float(type)) {
		load_reals(block->real, type, values, first, block->n);
		memcpy(&limit, &args[ARG_LIMIT].i64, sizeof(limit));
		COMPARE_LOOP(block->real, limit);
	} else {
		load_integers(block->integer, type, values, first, block->n);
		if (type == SUM_U64)
			COMPARE_LOOP((uint64_t *)block->integer, args[ARG_LIMIT].u64);
		else
			COMPARE_LOOP(block->integer, args[ARG_LIMIT].i64);
	}
	if (args[ARG_HAS].u32 & HAS_FILTER_VALID)
		for (i = 0; i < block->n; i++)
			block->counts[i] &=
				bit(valid, args[ARG_FILTER_VALID_FIRST].u64 + at + i);
}

static void add_up(struct block *block, const struct hm_arg *args, uint64_t at,
		   union sum_limit *sums, uint64_t *counts)
{
	const enum sum_type type = args[ARG_TYPES].u32 >> 8 & 255;
	const unsigned char *valid = args[ARG_VALUE_VALID].pointer;
	const uint64_t first = args[ARG_VALUE_FIRST].u64 + at;
	uint64_t i;

	if (args[ARG_HAS].u32 & HAS_VALUE_VALID)
		for (i = 0; i < block->n; i++)
			block->counts[i] &=
				bit(valid, args[ARG_VALUE_VALID_FIRST].u64 + at + i);
	for (i = 0; i < block->n; i++)
		counts[block->group[i]] += block->counts[i];
	if (type == SUM_NONE)
		return;
	if (sum_type_is_float(type)) {
		load_reals(block->real, type, args[ARG_VALUES].pointer, first, block->n);
		for (i = 0; i < block->n; i++)
			if (block->counts[i])
				sums[block->group[i]].f64 += block->real[i];
		return;
	}
	load_integers(block->integer, type, args[ARG_VALUES].pointer, first, block->n);
	for (i = 0; i < block->n; i++)
		if (block->counts[i])
			sums[block->group[i]].u64 += (uint64_t)block->integer[i];
}

/* A work item is a part: consecutive rows, and a table of their own. */
int sum_cpu(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const uint64_t rows = args[ARG_ROWS].u64, all = range->global[0];
	const uint64_t width = (uint64_t)args[ARG_GROUPS].u32 + 1;
	uint64_t part, at, end;
	struct block block;

	for (part = range->begin[0]; part < range->end[0]; part++) {
		/* Rows of a launch and parts are below 2^32 each. */
		end = rows * (part + 1) / all;
		for (at = rows * part / all; at < end; at += block.n) {
			block.n = end - at < BLOCK ? end - at : BLOCK;
			find_groups(&block, args, at);
			apply_filter(&block, args, at);
			add_up(&block, args, at,
			       (union sum_limit *)args[ARG_SUMS].pointer + part * width,
			       (uint64_t *)args[ARG_COUNTS].pointer + part * width);
		}
	}
	return 0;
}
