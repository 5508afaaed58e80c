// SPDX-License-Identifier: MIT
/* Grouped sum: the kernel in OpenCL C, and launches of it. */
#include "sum.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sum_cpu.h"

#define TABLES_BYTES (64ull << 20)
#define PART_ROWS 4096 /* fewer are not worth a part */
/* Rows of a launch: so that a signal is seen soon, and products fit 64 bits. */
#define ROWS_MOST (1u << 26)
#define KERNELS_MOST 64

/*
 * KEY, VALUE and FILTER are types, or none. A work item has a table of its own. STRIDED (GPUs):
 * neighbours read neighbouring rows; otherwise each reads a stretch.
 */
static const char source[] =
	"#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
	"#define JOIN_(a, b) a##b\n"
	"#define JOIN(a, b) JOIN_(a, b)\n"
	"#define IN __global const uchar *\n"
	"\n"
	"int bit_of(IN p, ulong i) { return p[i >> 3] >> (i & 7) & 1; }\n"
	"long load_bit(IN p, ulong i) { return bit_of(p, i); }\n"
	"long load_i8(IN p, ulong i) { return ((__global const char *)p)[i]; }\n"
	"long load_u8(IN p, ulong i) { return p[i]; }\n"
	"long load_i16(IN p, ulong i) { return ((__global const short *)p)[i]; }\n"
	"long load_u16(IN p, ulong i) { return ((__global const ushort *)p)[i]; }\n"
	"long load_i32(IN p, ulong i) { return ((__global const int *)p)[i]; }\n"
	"long load_u32(IN p, ulong i) { return ((__global const uint *)p)[i]; }\n"
	"long load_i64(IN p, ulong i) { return ((__global const long *)p)[i]; }\n"
	"ulong load_u64(IN p, ulong i) { return ((__global const ulong *)p)[i]; }\n"
	"double load_f16(IN p, ulong i) { return vload_half(i, (__global const half *)p); }\n"
	"double load_f32(IN p, ulong i) { return ((__global const float *)p)[i]; }\n"
	"double load_f64(IN p, ulong i) { return ((__global const double *)p)[i]; }\n"
	"#define LOAD(type, p, i) JOIN(load_, type)(p, i)\n"
	"#define KEEPS(op, a, b) ((op) == 0 ? (a) < (b) : (op) == 1 ? (a) <= (b) : \\\n"
	"	(op) == 2 ? (a) == (b) : (op) == 3 ? (a) != (b) : (op) == 4 ? (a) >= (b) : (a) > (b))\n"
	"#if defined(LIMIT_REAL)\n"
	"#define LIMIT as_double(limit)\n"
	"#elif defined(LIMIT_UNSIGNED)\n"
	"#define LIMIT ((ulong)limit)\n"
	"#else\n"
	"#define LIMIT limit\n"
	"#endif\n"
	"\n"
	"__kernel void grouped_sum(IN keys, ulong key_first, IN key_valid,\n"
	"	ulong key_valid_first, long base, ulong span, __global const uint *remap,\n"
	"	IN values, ulong value_first, IN value_valid, ulong value_valid_first,\n"
	"	IN filter, ulong filter_first, IN filter_valid, ulong filter_valid_first,\n"
	"	long limit, ulong rows, uint has, uint types, uint groups,\n"
	"	__global SUM *sums, __global ulong *counts)\n"
	"{\n"
	"	const ulong me = get_global_id(0), all = get_global_size(0);\n"
	"#ifdef STRIDED\n"
	"	const ulong begin = me, end = rows, step = all;\n"
	"#else\n"
	"	const ulong begin = rows * me / all, end = rows * (me + 1) / all, step = 1;\n"
	"#endif\n"
	"\n"
	"	sums += me * (groups + 1);\n"
	"	counts += me * (groups + 1);\n"
	"	for (ulong i = begin; i < end; i += step) {\n"
	"		uint group = 0;\n"
	"\n"
	"#ifdef FILTER\n"
	"		if ((has & 4) && !bit_of(filter_valid, filter_valid_first + i))\n"
	"			continue;\n"
	"		if (!KEEPS(types >> 24, LOAD(FILTER, filter, filter_first + i), LIMIT))\n"
	"			continue;\n"
	"#endif\n"
	"		if ((has & 2) && !bit_of(value_valid, value_valid_first + i))\n"
	"			continue;\n"
	"#ifdef KEY\n"
	"		const ulong key = (ulong)LOAD(KEY, keys, key_first + i) - (ulong)base;\n"
	"\n"
	"		group = groups;\n"
	"		if (key < span && (!(has & 1) || bit_of(key_valid, key_valid_first + i)))\n"
	"			group = min(has & 8 ? remap[key] : (uint)key, groups);\n"
	"#endif\n"
	"#ifdef VALUE\n"
	"		sums[group] += (SUM)LOAD(VALUE, values, value_first + i);\n"
	"#endif\n"
	"		counts[group]++;\n"
	"	}\n"
	"}\n";

/* ---- types ---- */

static const struct {
	const char *name; /* in the source */
	uint32_t bits;
} types[SUM_TYPES] = {
	[SUM_NONE] = { NULL, 0 },  [SUM_BIT] = { "bit", 1 },  [SUM_I8] = { "i8", 8 },
	[SUM_U8] = { "u8", 8 },    [SUM_I16] = { "i16", 16 }, [SUM_U16] = { "u16", 16 },
	[SUM_I32] = { "i32", 32 }, [SUM_U32] = { "u32", 32 }, [SUM_I64] = { "i64", 64 },
	[SUM_U64] = { "u64", 64 }, [SUM_F16] = { "f16", 16 }, [SUM_F32] = { "f32", 32 },
	[SUM_F64] = { "f64", 64 },
};

uint32_t sum_type_bits(enum sum_type type)
{
	return types[type].bits;
}

bool sum_type_is_float(enum sum_type type)
{
	return type >= SUM_F16;
}

/* ---- kernels ---- */

struct sum_kernels {
	bool strided;
	struct {
		uint32_t types; /* TYPES_OF() */
		struct hm_kernel *kernel;
	} made[KERNELS_MOST];
	uint32_t n;
};

int sum_kernels_create(const struct hm_accel_info *accel, struct sum_kernels **ret_kernels)
{
	struct sum_kernels *kernels = calloc(1, sizeof(*kernels));

	if (!kernels)
		return -ENOMEM;
	kernels->strided = accel->kind == HM_ACCEL_GPU;
	*ret_kernels = kernels;
	return 0;
}

void sum_kernels_free(struct sum_kernels *kernels)
{
	uint32_t i;

	if (!kernels)
		return;
	for (i = 0; i < kernels->n; i++)
		hm_kernel_unref(kernels->made[i].kernel);
	free(kernels);
}

static uint32_t types_of(const struct sum_launch *launch)
{
	return TYPES_OF(launch->keys.column.type, launch->value.type, launch->filtered.type,
			launch->filtered.type ? launch->filter.compare : 0);
}

/* " -DKEY=i32", or nothing. Returns the characters. */
static int define(char *to, size_t size, const char *name, enum sum_type type)
{
	return type ? snprintf(to, size, " -D%s=%s", name, types[type].name) : 0;
}

static void options_of(const struct sum_kernels *kernels, const struct sum_launch *launch,
		       char *to, size_t size)
{
	enum sum_type value = launch->value.type, filter = launch->filtered.type;
	const char *limit = sum_type_is_float(filter) ? " -DLIMIT_REAL" :
			    filter == SUM_U64         ? " -DLIMIT_UNSIGNED" :
							"";
	size_t n = (size_t)snprintf(to, size, "-DSUM=%s%s",
				    sum_type_is_float(value) ? "double" : "ulong",
				    kernels->strided ? " -DSTRIDED" : "");

	n += (size_t)define(to + n, size - n, "KEY", launch->keys.column.type);
	n += (size_t)define(to + n, size - n, "VALUE", value);
	n += (size_t)define(to + n, size - n, "FILTER", filter);
	if (filter)
		snprintf(to + n, size - n, "%s", limit);
}

int sum_kernel_find(struct sum_kernels *kernels, const struct sum_launch *launch,
		    struct hm_kernel **ret_kernel)
{
	char options[160];
	struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "grouped_sum",
		.opencl = source,
		.options = options,
		.cpu = sum_cpu,
		.signature = "in u64 in u64 i64 u64 in in u64 in u64 in u64 in u64 i64 u64 "
			     "u32 u32 u32 inout inout",
	};
	/* The comparison is an argument. */
	uint32_t wanted = types_of(launch) & 0xffffff, i;
	int r;

	for (i = 0; i < kernels->n; i++)
		if (kernels->made[i].types == wanted) {
			*ret_kernel = kernels->made[i].kernel;
			return 0;
		}
	/* The oldest one goes: a table with so many types is rare, and waits for its kernels. */
	if (kernels->n == KERNELS_MOST) {
		hm_kernel_unref(kernels->made[0].kernel);
		kernels->made[0] = kernels->made[--kernels->n];
	}
	options_of(kernels, launch, options, sizeof(options));
	r = hm_kernel_create(&desc, &kernels->made[kernels->n].kernel);
	if (r)
		return r;
	kernels->made[kernels->n].types = wanted;
	*ret_kernel = kernels->made[kernels->n++].kernel;
	return 0;
}

/* ---- launches ---- */

uint32_t sum_parts(const struct hm_accel_info *accel, uint32_t groups, uint64_t rows)
{
	uint64_t units = accel->units ? accel->units : 1;
	uint64_t parts = accel->kind == HM_ACCEL_GPU ? units * 512 : units * 4;
	uint64_t row = ((uint64_t)groups + 1) * (sizeof(union sum_limit) + sizeof(uint64_t));

	if (parts > TABLES_BYTES / row)
		parts = TABLES_BYTES / row;
	if (parts > rows / PART_ROWS)
		parts = rows / PART_ROWS;
	return parts ? (uint32_t)parts : 1;
}

void sum_column_skip(struct sum_column *column, uint64_t rows)
{
	column->first += rows;
	column->valid_first += rows;
}

/* The range of memory that rows of a column take, and the number of the first value in it. */
struct extent {
	const char *from;
	uint64_t length;
	uint64_t first;
};

/*
 * An accelerator takes a pointer in place at multiples of its alignment: the range begins earlier,
 * inside of the same allocation, where values are aligned for their type.
 */
static int extent_of(const struct hm_accel_info *accel, const void *values, uint32_t bits,
		     uint64_t first, uint64_t rows, struct extent *ret_extent)
{
	const char *from = (const char *)values + first * bits / 8, *aligned;
	uint64_t skipped, align = accel->alignment ? accel->alignment : 1;
	struct hm_pointer_info info;
	int r;

	r = hm_pointer_find(from, &info);
	if (r)
		return r;
	aligned = from - (uintptr_t)from % align;
	skipped = (uint64_t)(from - aligned);
	if (aligned < (const char *)info.base || skipped * 8 % bits)
		skipped = 0;
	ret_extent->from = from - skipped;
	ret_extent->first = skipped * 8 / bits + (first * bits % 8);
	ret_extent->length = ((ret_extent->first + rows) * bits + 7) / 8;
	return 0;
}

/* Fewer @rows, if the range of these would cross a window, which follow each other in a map. */
static int limit_rows(const struct hm_accel_info *accel, const void *values, uint32_t bits,
		      uint64_t first, uint64_t *rows)
{
	struct hm_pointer_info info;
	struct extent extent;
	uint64_t room;
	int r;

	if (!values || !accel->window)
		return 0;
	r = extent_of(accel, values, bits, first, *rows, &extent);
	if (!r)
		r = hm_pointer_find(extent.from, &info);
	if (r)
		return r;
	room = accel->window - info.map_offset % accel->window;
	if (extent.length > room)
		*rows = room * 8 / bits > extent.first ? room * 8 / bits - extent.first : 1;
	return 0;
}

static int limit_column(const struct hm_accel_info *accel, const struct sum_column *column,
			uint64_t *rows)
{
	int r = 0;

	if (column->type)
		r = limit_rows(accel, column->values, types[column->type].bits, column->first,
			       rows);
	if (!r && column->type)
		r = limit_rows(accel, column->valid, 1, column->valid_first, rows);
	return r;
}

int sum_rows_most(const struct hm_accel_info *accel, const struct sum_launch *launch,
		  uint64_t rows, uint64_t *ret_rows)
{
	int r;

	rows = rows < ROWS_MOST ? rows : ROWS_MOST;
	r = limit_column(accel, &launch->keys.column, &rows);
	if (!r)
		r = limit_column(accel, &launch->value, &rows);
	if (!r)
		r = limit_column(accel, &launch->filtered, &rows);
	if (!r)
		*ret_rows = rows;
	return r;
}

/* Fills in four arguments: values, the first one's number, bitmap, the first bit's number. */
static int column_args(const struct hm_accel_info *accel, const struct sum_launch *launch,
		       const struct sum_column *column, struct hm_arg *args)
{
	struct extent extent = { launch->nothing, 8, 0 };
	int r = 0;

	if (column->type)
		r = extent_of(accel, column->values, types[column->type].bits, column->first,
			      launch->rows, &extent);
	if (r)
		return r;
	args[0] = HM_RANGE(extent.from, extent.length, HM_READ);
	args[1] = HM_U64(extent.first);
	extent = (struct extent){ launch->nothing, 8, 0 };
	if (column->type && column->valid)
		r = extent_of(accel, column->valid, 1, column->valid_first, launch->rows,
			      &extent);
	if (r)
		return r;
	args[2] = HM_RANGE(extent.from, extent.length, HM_READ);
	args[3] = HM_U64(extent.first);
	return 0;
}

static uint32_t has_of(const struct sum_launch *launch)
{
	return (launch->keys.column.valid ? HAS_KEY_VALID : 0) |
	       (launch->value.type && launch->value.valid ? HAS_VALUE_VALID : 0) |
	       (launch->filtered.type && launch->filtered.valid ? HAS_FILTER_VALID : 0) |
	       (launch->keys.remap ? HAS_REMAP : 0);
}

int sum_launch(struct hm_queue *queue, const struct hm_accel_info *accel,
	       struct hm_kernel *kernel, const struct sum_launch *launch,
	       struct hm_fence **ret_fence)
{
	const struct sum_tables *tables = &launch->tables;
	uint64_t cells = ((uint64_t)tables->groups + 1) * tables->parts;
	const uint64_t grid[3] = { tables->parts, 1, 1 };
	const struct sum_keys *keys = &launch->keys;
	struct hm_arg args[SUM_ARGS];
	int r;

	r = column_args(accel, launch, &keys->column, &args[ARG_KEYS]);
	if (!r)
		r = column_args(accel, launch, &launch->value, &args[ARG_VALUES]);
	if (!r)
		r = column_args(accel, launch, &launch->filtered, &args[ARG_FILTER]);
	if (r)
		return r;
	args[ARG_BASE] = HM_I64(keys->base);
	args[ARG_SPAN] = HM_U64(keys->span);
	args[ARG_REMAP] =
		keys->remap ? HM_RANGE(keys->remap, keys->span * sizeof(uint32_t), HM_READ) :
			      HM_RANGE(launch->nothing, 8, HM_READ);
	args[ARG_LIMIT] = HM_I64(launch->filter.limit.i64);
	args[ARG_ROWS] = HM_U64(launch->rows);
	args[ARG_HAS] = HM_U32(has_of(launch));
	args[ARG_TYPES] = HM_U32(types_of(launch));
	args[ARG_GROUPS] = HM_U32(tables->groups);
	args[ARG_SUMS] =
		HM_RANGE(tables->sums, cells * sizeof(*tables->sums), HM_READ | HM_WRITE);
	args[ARG_COUNTS] =
		HM_RANGE(tables->counts, cells * sizeof(*tables->counts), HM_READ | HM_WRITE);
	return hm_queue_launch(queue, kernel, grid, args, SUM_ARGS, ret_fence);
}
