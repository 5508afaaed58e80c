/* SPDX-License-Identifier: MIT */
/*
 * Grouped sum: for each group of rows the sum of a column and the number of its values, as a
 * kernel in OpenCL C and for CPUs. Columns are Arrow's: values one behind another, and a bitmap of
 * the rows that have one.
 */
#ifndef HETMAP_TABLE_SUM_H
#define HETMAP_TABLE_SUM_H

#include <stdbool.h>
#include <stdint.h>

#include <hetmap/hetmap.h>

/* Types of values that the kernel reads. */
enum sum_type {
	SUM_NONE = 0, /* no such column */
	SUM_BIT,      /* Arrow's bool: a bit a row */
	SUM_I8,
	SUM_U8,
	SUM_I16,
	SUM_U16,
	SUM_I32,
	SUM_U32,
	SUM_I64,
	SUM_U64,
	SUM_F16,
	SUM_F32,
	SUM_F64,
	SUM_TYPES,
};

/* A comparison of the filter. */
enum sum_compare { SUM_LT, SUM_LE, SUM_EQ, SUM_NE, SUM_GE, SUM_GT };

/* Rows of a column. NULL values: there is no such column. */
struct sum_column {
	enum sum_type type;
	const void *values;
	uint64_t first;             /* number of the first row's value behind values */
	const unsigned char *valid; /* bitmap; NULL: every row has a value */
	uint64_t valid_first;       /* number of the first row's bit */
};

/* A value of a filter, in the form that its column's type is compared in. */
union sum_limit {
	int64_t i64;  /* of integers */
	uint64_t u64; /* of SUM_U64 */
	double f64;   /* of floats */
};

struct sum_filter {
	enum sum_compare compare;
	union sum_limit limit;
};

/* How rows find their groups: group = remap[key - base], or key - base without a remap. */
struct sum_keys {
	struct sum_column column; /* of integers or bits; SUM_NONE: all rows are of group 0 */
	int64_t base;
	uint64_t span;         /* keys below base + span exist; others have no group */
	const uint32_t *remap; /* span of them; NULL: none */
};

/*
 * Tables of a launch: for each part one row of groups + 1, the last of which is of rows without a
 * key. Sums are doubles for floats and integers of 64 bits otherwise, modulo 2^64.
 */
struct sum_tables {
	union sum_limit *sums;
	uint64_t *counts;
	uint32_t groups; /* without the last one */
	uint32_t parts;
};

/* A launch: one column over rows in consecutive memory. */
struct sum_launch {
	struct sum_keys keys;
	struct sum_column value; /* SUM_NONE: rows are counted, and nothing is added */
	struct sum_column filtered;
	struct sum_filter filter; /* of filtered */
	uint64_t rows;
	struct sum_tables tables;
	const void *nothing; /* memory of 8 bytes in a map, in the place of missing columns */
};

/* Bits of a value. */
uint32_t sum_type_bits(enum sum_type type);
bool sum_type_is_float(enum sum_type type);

/* Kernels by types of key, value and filter, each made when it is wanted first. */
struct sum_kernels;
int sum_kernels_create(const struct hm_accel_info *accel, struct sum_kernels **ret_kernels);
void sum_kernels_free(struct sum_kernels *kernels);
/* The kernel of a launch; it belongs to @kernels. */
int sum_kernel_find(struct sum_kernels *kernels, const struct sum_launch *launch,
		    struct hm_kernel **ret_kernel);

/* Parts that a launch should have: tables of @groups take 64 MiB at most. */
uint32_t sum_parts(const struct hm_accel_info *accel, uint32_t groups, uint64_t rows);

/*
 * Rows, @rows at most, that one launch can take: ranges of its columns must not cross a window of
 * the accelerator. *@ret_rows: 1 at least.
 */
int sum_rows_most(const struct hm_accel_info *accel, const struct sum_launch *launch,
		  uint64_t rows, uint64_t *ret_rows);

/* Adds to the tables, which the caller has cleared. *@ret_fence as of hm_launch(). */
int sum_launch(struct hm_queue *queue, const struct hm_accel_info *accel,
	       struct hm_kernel *kernel, const struct sum_launch *launch,
	       struct hm_fence **ret_fence);

/* The column from row @rows on. */
void sum_column_skip(struct sum_column *column, uint64_t rows);

#endif
