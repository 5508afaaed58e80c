// SPDX-License-Identifier: MIT
/*
 * The kernel of hetmap run table in each of its forms, against a plain loop: all types of values,
 * of keys and of filters, with missing ones, from any first row on; keys, and types as text. The
 * form for GPUs runs on PoCL, too: the accelerator is only said to be a GPU.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../extensions/table/command/arena.h"
#include "../../extensions/table/command/keys.h"
#include "../../extensions/table/command/sum.h"
#include "../../extensions/table/command/types.h"
#include "accel/accel_support.h"

#define ROWS 20011
#define FIRST 13 /* rows before the first one: no column begins where its memory does */
#define GROUPS 50
#define ALL (FIRST + ROWS)

/* ---- columns ---- */

struct column {
	enum sum_type type;
	unsigned char *values, *valid;
	double *real;     /* plain values, of floats */
	int64_t *integer; /* and of all other types */
	bool *there;
};

struct bench {
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_device *host;
	struct hm_accel_info info;
	struct arena arena;
	struct sum_kernels *kernels;
	struct sum_tables tables;
	void *nothing;
	uint64_t random;
};

static void *take(struct bench *b, uint64_t bytes)
{
	void *piece = NULL;

	CHECK_OK_FATAL(arena_take(&b->arena, bytes, &piece));
	memset(piece, 0, bytes);
	return piece;
}

static struct bench bench_open(const char *accel, uint32_t kind)
{
	struct bench b = { 0 };

	b.info.struct_size = sizeof(b.info);
	CHECK_OK_FATAL(hm_accel_open(accel, NULL, &b.accel));
	CHECK_OK_FATAL(hm_accel_query(b.accel, &b.info));
	b.info.kind = kind;
	b.info.units = 3;
	CHECK_OK_FATAL(hm_queue_create(b.accel, 0, &b.queue));
	CHECK_OK_FATAL(hm_device_open("host", &b.host));
	b.arena.device = b.host;
	CHECK_OK_FATAL(sum_kernels_create(&b.info, &b.kernels));
	b.tables.groups = GROUPS;
	b.tables.parts = sum_parts(&b.info, GROUPS, ROWS);
	CHECK(b.tables.parts > 1);
	b.nothing = take(&b, 8);
	b.tables.sums = take(&b, b.tables.parts * (GROUPS + 1) * 8ull);
	b.tables.counts = take(&b, b.tables.parts * (GROUPS + 1) * 8ull);
	b.random = test_seed();
	return b;
}

static void bench_close(struct bench *b)
{
	sum_kernels_free(b->kernels);
	arena_end(&b->arena);
	hm_queue_unref(b->queue);
	hm_accel_unref(b->accel);
	hm_device_unref(b->host);
}

AUTO_END(bench, bench_close)

static void column_end(struct column *column)
{
	free(column->real);
	free(column->integer);
	free(column->there);
}

AUTO_END(column, column_end)

/* Small halves: each is exact in the type, and so is each sum. */
static uint16_t half_of(int value)
{
	uint16_t sign = value < 0 ? 0x8000 : 0;
	int exponent = 0, size = abs(value);

	if (!size)
		return sign;
	while (size >> (exponent + 1))
		exponent++;
	return (uint16_t)(sign | (exponent + 15) << 10 | ((size << (10 - exponent)) & 0x3ff));
}

static void put(struct column *column, uint64_t i, int64_t value)
{
	uint16_t half;
	float single;

	column->integer[i] = value;
	column->real[i] = (double)value;
	switch (column->type) {
	case SUM_BIT:
		column->values[i / 8] |= (unsigned char)((value & 1) << i % 8);
		column->integer[i] = value & 1;
		break;
	case SUM_F16:
		half = half_of((int)value);
		memcpy(column->values + 2 * i, &half, 2);
		break;
	case SUM_F32:
		single = (float)value;
		memcpy(column->values + 4 * i, &single, 4);
		break;
	case SUM_F64:
		memcpy(column->values + 8 * i, &column->real[i], 8);
		break;
	default:
		memcpy(column->values + i * sum_type_bits(column->type) / 8, &value,
		       sum_type_bits(column->type) / 8);
	}
}

/* Values of @least to @least + @span - 1; one in @missing is not there, 0: all are. */
static struct column column_make(struct bench *b, enum sum_type type, int64_t least,
				 uint64_t span, unsigned int missing)
{
	struct column column = { .type = type };
	uint64_t i;

	column.values = take(b, ALL * 8);
	column.valid = missing ? take(b, ALL / 8 + 1) : NULL;
	column.real = calloc(ALL, sizeof(*column.real));
	column.integer = calloc(ALL, sizeof(*column.integer));
	column.there = calloc(ALL, sizeof(*column.there));
	CHECK_FATAL(column.real && column.integer && column.there);
	for (i = 0; i < ALL; i++) {
		put(&column, i, least + (int64_t)(test_random(&b->random) % span));
		column.there[i] = !missing || test_random(&b->random) % missing;
		if (missing)
			column.valid[i / 8] |= (unsigned char)(column.there[i] << i % 8);
	}
	return column;
}

static struct sum_column view(const struct column *column)
{
	return (struct sum_column){ column->type, column->values, FIRST, column->valid, FIRST };
}

/* ---- running ---- */

static void run(struct bench *b, struct sum_launch *launch)
{
	struct hm_kernel *kernel;
	struct hm_fence *fence;
	uint64_t rows = ROWS;

	memset(b->tables.sums, 0, b->tables.parts * (GROUPS + 1) * 8ull);
	memset(b->tables.counts, 0, b->tables.parts * (GROUPS + 1) * 8ull);
	launch->tables = b->tables;
	launch->nothing = b->nothing;
	while (rows) {
		CHECK_OK_FATAL(sum_rows_most(&b->info, launch, rows, &launch->rows));
		CHECK_FATAL(launch->rows > 0 && launch->rows <= rows);
		CHECK_OK_FATAL(sum_kernel_find(b->kernels, launch, &kernel));
		CHECK_OK_FATAL(sum_launch(b->queue, &b->info, kernel, launch, &fence));
		finish(fence);
		rows -= launch->rows;
		sum_column_skip(&launch->keys.column, launch->rows);
		sum_column_skip(&launch->value, launch->rows);
		sum_column_skip(&launch->filtered, launch->rows);
	}
}

static void check(const struct bench *b, const double *sums, const uint64_t *counts,
		  bool is_float)
{
	uint32_t group, part, at;
	uint64_t count, whole;
	double real;

	for (group = 0; group <= GROUPS; group++) {
		count = whole = 0;
		real = 0;
		for (part = 0; part < b->tables.parts; part++) {
			at = part * (GROUPS + 1) + group;
			count += b->tables.counts[at];
			whole += b->tables.sums[at].u64;
			real += b->tables.sums[at].f64;
		}
		CHECK_EQUAL(count, counts[group]);
		if (is_float)
			CHECK(real == sums[group]);
		else
			CHECK_EQUAL((int64_t)whole, (int64_t)sums[group]);
	}
}

/* The sums and counts of a launch, from the plain values. */
static void expect(const struct column *key, int64_t base, const struct column *value,
		   const bool *kept, double *sums, uint64_t *counts)
{
	uint64_t i, group;

	memset(sums, 0, (GROUPS + 1) * sizeof(*sums));
	memset(counts, 0, (GROUPS + 1) * sizeof(*counts));
	for (i = FIRST; i < ALL; i++) {
		if ((kept && !kept[i]) || (value && !value->there[i]))
			continue;
		group = !key ? 0 :
			!key->there[i] || (uint64_t)(key->integer[i] - base) >= GROUPS ?
			       GROUPS :
			       (uint64_t)(key->integer[i] - base);
		counts[group]++;
		if (value)
			sums[group] += sum_type_is_float(value->type) ?
					       value->real[i] :
					       (double)value->integer[i];
	}
}

static int64_t least_of(enum sum_type type)
{
	switch (type) {
	case SUM_BIT:
	case SUM_U8:
	case SUM_U16:
	case SUM_U32:
	case SUM_U64:
		return 0;
	default:
		return -20;
	}
}

/* ---- tests of the kernel ---- */

/* All types, or each @step-th: a compiler takes a second for one. */
static void check_values(const char *accel, uint32_t kind, unsigned int step)
{
	double sums[GROUPS + 1];
	uint64_t counts[GROUPS + 1];
	struct sum_launch launch;
	struct column key, value;
	enum sum_type type;
	AUTO(bench) b = bench_open(accel, kind);

	key = column_make(&b, SUM_I16, 3, GROUPS, 9);
	for (type = SUM_NONE; type < SUM_TYPES; type += step) {
		value = column_make(&b, type ? type : SUM_U8, least_of(type), 100,
				    type % 2 * 7);
		launch = (struct sum_launch){
			.keys = { .column = view(&key), .base = 3, .span = GROUPS },
		};
		if (type)
			launch.value = view(&value);
		run(&b, &launch);
		expect(&key, 3, type ? &value : NULL, NULL, sums, counts);
		check(&b, sums, counts, sum_type_is_float(type));
		column_end(&value);
	}
	column_end(&key);
}

static void check_keys(const char *accel, uint32_t kind)
{
	double sums[GROUPS + 1];
	uint64_t counts[GROUPS + 1];
	struct column key, value;
	struct sum_launch launch;
	enum sum_type type;
	uint32_t *remap, i;
	AUTO(bench) b = bench_open(accel, kind);

	value = column_make(&b, SUM_F32, -5, 50, 5);
	for (type = SUM_BIT; type <= SUM_U64; type++) {
		/* Some keys are beyond the groups, and one in seven is missing, or none. */
		key = column_make(&b, type, least_of(type), type == SUM_BIT ? 2 : GROUPS + 9,
				  type % 2 * 7);
		launch = (struct sum_launch){
			.keys = { .column = view(&key), .base = least_of(type), .span = GROUPS },
			.value = view(&value),
		};
		run(&b, &launch);
		expect(&key, least_of(type), &value, NULL, sums, counts);
		check(&b, sums, counts, true);
		column_end(&key);
	}
	/* Without a key, and through a table that turns the groups round; an entry is missing. */
	launch = (struct sum_launch){ .value = view(&value) };
	run(&b, &launch);
	expect(NULL, 0, &value, NULL, sums, counts);
	check(&b, sums, counts, true);
	key = column_make(&b, SUM_U8, 0, GROUPS, 0);
	remap = take(&b, GROUPS * sizeof(*remap));
	for (i = 0; i < GROUPS; i++)
		remap[i] = i == 7 ? UINT32_MAX : GROUPS - 1 - i;
	launch = (struct sum_launch){
		.keys = { .column = view(&key), .span = GROUPS, .remap = remap },
		.value = view(&value),
	};
	run(&b, &launch);
	for (i = 0; i < ALL; i++) {
		key.there[i] = key.integer[i] != 7;
		key.integer[i] = GROUPS - 1 - key.integer[i];
	}
	expect(&key, 0, &value, NULL, sums, counts);
	check(&b, sums, counts, true);
	column_end(&key);
	column_end(&value);
}

static bool holds(enum sum_compare compare, double a, double b)
{
	const bool results[] = { a<b, a <= b, a == b, a != b, a >= b, a> b };

	return results[compare];
}

static void check_filters(const char *accel, uint32_t kind)
{
	bool *kept = calloc(ALL, sizeof(*kept));
	double sums[GROUPS + 1];
	uint64_t counts[GROUPS + 1], i;
	struct column filtered, value;
	struct sum_launch launch;
	enum sum_compare compare;
	enum sum_type type;
	AUTO(bench) b = { 0 };

	CHECK_FATAL(kept != NULL);
	b = bench_open(accel, kind);
	value = column_make(&b, SUM_I32, -5, 50, 0);
	for (type = SUM_BIT; type < SUM_TYPES; type++) {
		compare = (enum sum_compare)(type % 6);
		filtered = column_make(&b, type, least_of(type), 40, 5);
		launch = (struct sum_launch){
			.value = view(&value),
			.filtered = view(&filtered),
			.filter = { .compare = compare, .limit = { .i64 = 1 } },
		};
		if (sum_type_is_float(type))
			launch.filter.limit.f64 = 1;
		for (i = 0; i < ALL; i++)
			kept[i] = filtered.there[i] &&
				  holds(compare,
					sum_type_is_float(type) ? filtered.real[i] :
								  (double)filtered.integer[i],
					1);
		run(&b, &launch);
		expect(NULL, 0, &value, kept, sums, counts);
		check(&b, sums, counts, false);
		column_end(&filtered);
	}
	column_end(&value);
	free(kept);
}

static void check_all(const char *accel, uint32_t kind)
{
	check_values(accel, kind, 1);
	check_keys(accel, kind);
	check_filters(accel, kind);
}

static void cpu(void)
{
	check_all("cpu", HM_ACCEL_CPU);
}

static void stretches(void)
{
	if (use_pocl("pthread"))
		check_all("opencl:0", HM_ACCEL_CPU);
}

static void strides(void)
{
	if (use_pocl("pthread"))
		check_values("opencl:0", HM_ACCEL_GPU, 4);
}

/* Large and negative numbers, halves, NaN: small sums do not show their errors. */
static void odd_values(void)
{
	static const uint16_t halves[] = { 0x0001, 0x03ff, 0x7bff, 0xfbff, 0x8000, 0x3555 };
	struct sum_launch launch = { 0 };
	uint64_t i;
	AUTO(bench) b = bench_open("cpu", HM_ACCEL_CPU);
	uint64_t *large = take(&b, ALL * 8);
	uint16_t *half = take(&b, ALL * 8);
	double *real = take(&b, ALL * 8);

	for (i = 0; i < ALL; i++) {
		large[i] = UINT64_MAX - i;
		half[i] = i < FIRST + 6 && i >= FIRST ? halves[i - FIRST] : 0;
		real[i] = i == FIRST + 100 ? NAN : 1;
	}
	launch.value = (struct sum_column){ SUM_U64, large, FIRST, NULL, 0 };
	run(&b, &launch);
	for (i = 1; i < b.tables.parts; i++)
		b.tables.sums[0].u64 += b.tables.sums[i * (GROUPS + 1)].u64;
	/* Modulo 2^64. */
	CHECK_EQUAL(b.tables.sums[0].i64,
		    -(int64_t)(ROWS * (uint64_t)(FIRST + 1) + ROWS * (uint64_t)(ROWS - 1) / 2));
	launch.value = (struct sum_column){ SUM_F16, half, FIRST, NULL, 0 };
	run(&b, &launch);
	CHECK(b.tables.sums[0].f64 ==
	      0x1p-24 + 0x3ffp-24 + 65504.0 - 65504.0 - 0.0 + 0x555p-12);
	launch.value = (struct sum_column){ SUM_F64, real, FIRST, NULL, 0 };
	run(&b, &launch);
	CHECK(isnan(b.tables.sums[0].f64));
}

/* A window of the accelerator ends a launch, and the next one goes on behind it. */
static void window(void)
{
	struct column key, value;
	double sums[GROUPS + 1];
	uint64_t counts[GROUPS + 1];
	struct sum_launch launch;
	AUTO(bench) b = bench_open("cpu", HM_ACCEL_CPU);

	hm_queue_unref(b.queue);
	hm_accel_unref(b.accel);
	CHECK_OK_FATAL(hm_accel_open("cpu", DESC(hm_accel_desc, .window = 16384), &b.accel));
	CHECK_OK_FATAL(hm_accel_query(b.accel, &b.info));
	CHECK_EQUAL(b.info.window, 16384);
	CHECK_OK_FATAL(hm_queue_create(b.accel, 0, &b.queue));
	key = column_make(&b, SUM_I64, 0, GROUPS, 7);
	value = column_make(&b, SUM_F64, -9, 99, 3);
	launch = (struct sum_launch){
		.keys = { .column = view(&key), .span = GROUPS },
		.value = view(&value),
	};
	run(&b, &launch);
	CHECK(launch.rows < ROWS / 4);
	expect(&key, 0, &value, NULL, sums, counts);
	check(&b, sums, counts, true);
	column_end(&key);
	column_end(&value);
}

/* ---- keys ---- */

static void key_sets(void)
{
	struct key_set set = { 0 };
	uint32_t group, i;
	char text[16];
	int n;

	CHECK_EQUAL(key_set_find(&set, "a", 1, &group), -ENOENT);
	for (i = 0; i < GROUPS_MOST; i++) {
		n = snprintf(text, sizeof(text), "%u", i);
		CHECK_OK(key_set_add(&set, text, (uint32_t)n, &group));
		CHECK_EQUAL(group, i);
	}
	CHECK_EQUAL(key_set_add(&set, "x", 1, &group), -E2BIG);
	/* Those that are there are found, also beside a full set. */
	CHECK_OK(key_set_add(&set, "4711", 4, &group));
	CHECK_EQUAL(group, 4711);
	CHECK_OK(key_set_find(&set, "65535", 5, &group));
	CHECK_EQUAL(group, 65535);
	CHECK_EQUAL(key_set_find(&set, "65536", 5, &group), -ENOENT);
	key_set_end(&set);
	/* The empty text is a key, and so is a byte of 0. */
	CHECK_OK(key_set_add(&set, "", 0, &group));
	CHECK_OK(key_set_add(&set, "\0", 1, &group));
	CHECK_EQUAL(group, 1);
	key_set_end(&set);
}

/* Texts in each layout: the same groups, in the order in which they came. */
static void texts(void)
{
	static const char bytes[] = "onetwoonethirteen lettersone";
	static const int32_t small[] = { 0, 3, 6, 6, 9, 25, 28 };
	int64_t large[7];
	char views[6][16] = { 0 };
	const unsigned char valid = 0x3b; /* the third is missing */
	const void *buffers[3];
	struct ArrowArray array = { .length = 6, .n_buffers = 3, .buffers = buffers };
	struct hm_table_chunk chunk = { .rows = 6, .validity = &valid, .array = &array };
	static const struct {
		const char *format;
		int layout;
	} layouts[] = { { "u", 0 }, { "Z", 1 }, { "vu", 2 } };
	struct arena arena = { 0 };
	struct keys keys;
	struct sum_keys binding;
	const uint32_t *numbers;
	int32_t number;
	uint32_t i, k;
	char *shown;
	AUTO(hm_device) *host = rig_device("host");

	arena.device = host;
	for (i = 0; i < 7; i++)
		large[i] = small[i];
	for (i = 0; i < 6; i++) {
		number = small[i + 1] - small[i];
		memcpy(views[i], &number, 4);
		if (number <= 12) {
			memcpy(views[i] + 4, bytes + small[i], (size_t)number);
			continue;
		}
		memcpy(views[i] + 4, bytes + small[i], 4);
		memcpy(views[i] + 12, &small[i], 4);
	}
	buffers[0] = &valid;
	buffers[2] = bytes;
	for (k = 0; k < 3; k++) {
		buffers[1] = k == 0 ? (const void *)small :
			     k == 1 ? (const void *)large :
				      (const void *)views;
		chunk.offsets = k < 2 ? buffers[1] : NULL;
		chunk.values = k < 2 ? bytes : (const void *)views;
		keys = (struct keys){ .type = type_of_format(layouts[k].format),
				      .arena = &arena };
		CHECK_OK_FATAL(keys_bind(&keys, &chunk, &binding));
		CHECK_EQUAL(keys.set.n, 3);
		CHECK_EQUAL(binding.column.type, SUM_U32);
		numbers = binding.column.values;
		CHECK(numbers[0] == 0 && numbers[1] == 1 && numbers[2] == UINT32_MAX &&
		      numbers[3] == 0 && numbers[4] == 2 && numbers[5] == 0);
		shown = key_shown(&keys, 2, false);
		CHECK(!strcmp(shown, "thirteen letters"));
		free(shown);
		key_set_end(&keys.set);
	}
	arena_end(&arena);
}

/* ---- types ---- */

static void times(void)
{
	static const struct {
		const char *format, *text;
		int64_t value;
	} cases[] = {
		{ "tdD", "1970-01-01", 0 },
		{ "tdD", "2024-02-29", 19782 },
		{ "tdD", "1969-12-31", -1 },
		{ "tdD", "0001-01-01", -719162 },
		{ "tdm", "2024-01-02T09:31:00", 1704187860000 },
		{ "tsm:", "2024-01-02T09:31:00.250", 1704187860250 },
		{ "tss:UTC", "1960-01-01T00:00:01", -315619199 },
		{ "tsn:", "2024-01-02", 1704153600000000000 },
		{ "tts", "23:59:59", 86399 },
		{ "ttn", "00:00:00.000000001", 1 },
	};
	struct column_type type;
	char text[TYPE_TEXT_MAX];
	union sum_limit value;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		type = type_of_format(cases[i].format);
		CHECK_EQUAL(type.class, TYPE_TIME);
		CHECK(!strcmp(type_value_text(&type, cases[i].value, text), cases[i].text));
		CHECK_OK(type_value_parse(&type, cases[i].text, &value));
		CHECK_EQUAL(value.i64, cases[i].value);
	}
}

static void parsed(void)
{
	static const struct {
		const char *format, *text;
		int r;
	} cases[] = {
		{ "c", "127", 0 },
		{ "c", "128", -ERANGE },
		{ "c", "-128", 0 },
		{ "c", "-129", -ERANGE },
		{ "C", "255", 0 },
		{ "C", "-1", -ERANGE },
		{ "I", "4294967296", -ERANGE },
		{ "l", "9223372036854775808", -ERANGE },
		{ "L", "18446744073709551615", 0 },
		{ "L", "-1", -ERANGE },
		{ "i", "1x", -EINVAL },
		{ "i", "", -EINVAL },
		{ "f", "1e3", 0 },
		{ "f", "1,5", -EINVAL },
		{ "b", "true", 0 },
		{ "b", "1", -EINVAL },
		{ "tdD", "2024-13-01", -EINVAL },
		{ "tdD", "2024-01-01T10:00", -ERANGE },
		{ "tdD", "2024-01-01 00:00", 0 },
		{ "tsm:", "2024-01-01T10:00:00.0001", -ERANGE },
		{ "tsm:", "2024-01-01T10", -EINVAL },
		{ "tts", "10:60", -EINVAL },
		{ "u", "text", -EOPNOTSUPP },
		{ "+l", "1", -EOPNOTSUPP },
		{ "d:10,2", "1", -EOPNOTSUPP },
	};
	struct column_type type;
	union sum_limit value;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		type = type_of_format(cases[i].format);
		if (type_value_parse(&type, cases[i].text, &value) != cases[i].r)
			test_fail(__FILE__, __LINE__, "'%s' of type %s: not %d", cases[i].text,
				  cases[i].format, cases[i].r);
	}
}

static const struct test tests[] = {
	{ .name = "cpu", cpu, 60 },
	{ .name = "stretches", stretches, 300, TEST_ONCE },
	{ .name = "strides", strides, 300, TEST_ONCE },
	{ .name = "odd_values", odd_values, 60 },
	{ .name = "window", window, 60 },
	{ .name = "key_sets", key_sets, 60 },
	{ .name = "texts", texts, 20 },
	{ .name = "times", times, 20 },
	{ .name = "parsed", parsed, 20 },
	{ 0 },
};

TEST_MAIN(harness_main, "table_sum", tests)
