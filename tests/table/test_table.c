// SPDX-License-Identifier: MIT
/*
 * hm_table: columns in place and decoded, without pyarrow. The library itself wrote the files;
 * tests/table/peer_*.py have files of other writers.
 */
#ifdef HAVE_TABLE
#include <errno.h>
#include <fcntl.h>
#include <hetmap/table.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/rig.h"
#include "lib/support.h"

AUTO_UNREF(hm_table)

#define ROWS 300000u
#define GROUP 100000u

/* Code of libarrow is not instrumented, and fills vectors that code in its headers reads. */
const char *__asan_default_options(void);
__attribute__((used, visibility("default"))) const char *__asan_default_options(void)
{
	return "detect_container_overflow=0";
}

struct sample {
	int64_t *numbers;
	int32_t *offsets;
	char *texts; /* 8 bytes each */
};

static struct sample sample_make(void)
{
	struct sample sample = {
		.numbers = malloc(ROWS * sizeof(int64_t)),
		.offsets = malloc((ROWS + 1) * sizeof(int32_t)),
		.texts = malloc(ROWS * 8 + 1),
	};
	uint32_t i;

	for (i = 0; i < ROWS; i++) {
		sample.numbers[i] = (int64_t)i * 3 - 1000;
		sample.offsets[i] = (int32_t)i * 8;
		snprintf(sample.texts + (size_t)i * 8, 9, "%08u", i % 1000);
	}
	sample.offsets[ROWS] = (int32_t)ROWS * 8;
	return sample;
}

static void sample_free(struct sample *sample)
{
	free(sample->numbers);
	free(sample->offsets);
	free(sample->texts);
}

AUTO_END(sample, sample_free)

/* A folder of the test's own, which the process leaves empty. */
static char folder[64];

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void folder_begin(void)
{
	snprintf(folder, sizeof(folder), "/tmp/test-table-XXXXXX");
	CHECK_FATAL(mkdtemp(folder));
}

static void folder_end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	CHECK_EQUAL(system(command), 0);
}

/* A file of @format of the sample, in three groups. */
static void write_sample(const char *name, uint32_t format, const char *codec)
{
	struct hm_table_write_info info = { .struct_size = sizeof(info) };
	AUTO(sample) sample = sample_make();
	struct hm_table_buffers columns[] = {
		{ .name = "number", .format = "l", .values = sample.numbers },
		{ .name = "text",
		  .format = "u",
		  .offsets = sample.offsets,
		  .values = sample.texts },
	};
	AUTO(hm_table) *table = NULL;

	CHECK_OK_FATAL(hm_table_from_buffers(columns, 2, ROWS, NULL, &table));
	CHECK_OK_FATAL(hm_table_write(table, path_of(name),
				      DESC(hm_table_write_desc, .format = format,
					   .codec = codec, .group_rows = GROUP),
				      &info));
	CHECK_EQUAL(info.rows, ROWS);
	CHECK_EQUAL(info.groups, 3);
}

static struct hm_table *open_with(const char *name, const struct hm_table_desc *desc)
{
	const char *path = path_of(name);
	struct hm_table *table;

	CHECK_OK_FATAL(hm_table_open(&path, 1, desc, &table));
	return table;
}

static struct hm_table_info info_of(struct hm_table *table)
{
	struct hm_table_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_table_query(table, &info));
	return info;
}

static struct hm_table_chunk chunk_of(struct hm_column *column, uint64_t number)
{
	struct hm_table_chunk chunk = { .struct_size = sizeof(chunk) };

	CHECK_OK_FATAL(hm_column_chunk(column, number, &chunk));
	return chunk;
}

/* All bytes of a buffer are in one allocation of a map. */
static void check_pointer(const void *pointer, uint64_t bytes)
{
	struct hm_pointer_info info;
	const char *begin = pointer;

	CHECK_OK_FATAL(hm_pointer_find(pointer, &info));
	CHECK(begin + bytes <= (const char *)info.base + info.length);
	CHECK(info.access & HM_READ);
}

/* Both columns have the values of the sample. */
static void check_columns(struct hm_table *table, bool in_place)
{
	struct hm_column_info info = { .struct_size = sizeof(info) };
	AUTO(sample) sample = sample_make();
	struct hm_table_chunk chunk;
	struct hm_column *columns[2];
	uint64_t i, row = 0;

	CHECK_OK_FATAL(hm_table_columns(table, NULL, 2, columns));
	CHECK_OK_FATAL(hm_column_query(columns[0], &info));
	CHECK_EQUAL(info.rows, ROWS);
	CHECK_EQUAL(info.nulls, 0);
	CHECK_EQUAL(info.chunks, 3);
	CHECK_EQUAL(info.in_place, in_place ? 3 : 0);
	CHECK(in_place ? !info.decoded : !info.placed);
	for (i = 0; i < info.chunks; i++) {
		chunk = chunk_of(columns[0], i);
		CHECK_EQUAL(chunk.in_place, in_place);
		CHECK_EQUAL(chunk.first_row, row);
		CHECK_EQUAL(chunk.rows, GROUP);
		CHECK_FATAL(chunk.values_bytes >= (chunk.offset + chunk.rows) * 8);
		check_pointer(chunk.values, chunk.values_bytes);
		CHECK(!memcmp((const int64_t *)chunk.values + chunk.offset,
			      sample.numbers + row, GROUP * sizeof(int64_t)));
		chunk = chunk_of(columns[1], i);
		check_pointer(chunk.offsets, chunk.offsets_bytes);
		check_pointer(chunk.values, chunk.values_bytes);
		CHECK(!memcmp((const char *)chunk.values +
				      ((const int32_t *)chunk.offsets)[chunk.offset],
			      sample.texts + row * 8, (size_t)GROUP * 8));
		row += GROUP;
	}
	hm_column_unref(columns[0]);
	hm_column_unref(columns[1]);
}

static const struct {
	uint32_t format;
	const char *codec;
	bool in_place;
} kinds[] = {
	{ HM_TABLE_ARROW, NULL, true },    { HM_TABLE_ARROW_STREAM, NULL, true },
	{ HM_TABLE_ARROW, "zstd", false }, { HM_TABLE_ARROW_STREAM, "lz4", false },
	{ HM_TABLE_PARQUET, NULL, false }, { HM_TABLE_PARQUET, "zstd", false },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void reads(void)
{
	struct hm_table_desc desc = { .struct_size = sizeof(desc) };
	struct hm_table *table;
	uint32_t i, column;

	folder_begin();
	for (i = 0; i < N_KINDS; i++) {
		write_sample("sample", kinds[i].format, kinds[i].codec);
		for (desc.threads = 0; desc.threads <= 3; desc.threads++) {
			table = open_with("sample", &desc);
			CHECK_EQUAL(info_of(table).rows, ROWS);
			CHECK_EQUAL(info_of(table).groups, 3);
			CHECK_EQUAL(info_of(table).format, kinds[i].format);
			check_columns(table, kinds[i].in_place);
			CHECK_EQUAL(info_of(table).memory, 0);
			CHECK_OK(hm_table_find(table, "text", &column));
			CHECK_EQUAL(column, 1);
			hm_table_unref(table);
		}
		desc.threads = 0;
		desc.flags = HM_TABLE_READ | HM_TABLE_CHECK;
		table = open_with("sample", &desc);
		check_columns(table, false);
		hm_table_unref(table);
		desc.flags = 0;
	}
	folder_end();
}

/* All memory of columns comes from a pool of the caller, or from another device. */
static void places(void)
{
	struct hm_table_desc desc = { .struct_size = sizeof(desc) };
	struct hm_pool_info info = { .struct_size = sizeof(info) };
	struct hm_pointer_info found;
	struct hm_column *column;
	struct hm_device *device;
	struct hm_table *table;

	folder_begin();
	write_sample("sample", HM_TABLE_PARQUET, NULL);
	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_pool_create(device, NULL, &desc.pool));
	table = open_with("sample", &desc);
	check_columns(table, false);
	CHECK_OK_FATAL(hm_table_column(table, 0, &column));
	CHECK_OK(hm_pointer_find(chunk_of(column, 0).values, &found));
	CHECK(found.pool == desc.pool);
	hm_column_unref(column);
	CHECK_OK(hm_pool_query(desc.pool, &info));
	CHECK_EQUAL(info.live, 0);
	hm_table_unref(table);
	hm_pool_unref(desc.pool);
	hm_device_unref(device);

	desc.pool = NULL;
	desc.flags = HM_TABLE_SHAREABLE;
	table = open_with("sample", &desc);
	check_columns(table, false);
	hm_table_unref(table);

	CHECK_OK_FATAL(hm_device_open("soft:0", &desc.device));
	table = open_with("sample", &desc);
	check_columns(table, false);
	CHECK_OK_FATAL(hm_table_column(table, 0, &column));
	CHECK_OK(hm_pointer_find(chunk_of(column, 0).values, &found));
	CHECK(found.device == desc.device);
	hm_column_unref(column);
	hm_table_unref(table);
	hm_device_unref(desc.device);
	folder_end();
}

/* An export outlives column, table and all. */
static void exported(void)
{
	struct ArrowDeviceArrayStream stream;
	struct ArrowDeviceArray array, next;
	struct ArrowSchema schema;
	struct hm_column *column;
	struct hm_table *table, *again;
	uint32_t i;

	folder_begin();
	for (i = 0; i < N_KINDS; i++) {
		write_sample("sample", kinds[i].format, kinds[i].codec);
		table = open_with("sample", NULL);
		CHECK_OK_FATAL(hm_table_column(table, 0, &column));
		CHECK_OK_FATAL(hm_column_export(column, 1, &schema, &array));
		CHECK_OK_FATAL(hm_table_export_device(table, &stream));
		hm_column_unref(column);
		hm_table_unref(table);
		CHECK(!strcmp(schema.format, "l") && !strcmp(schema.name, "number"));
		CHECK_EQUAL(array.device_type, ARROW_DEVICE_CPU);
		CHECK_EQUAL(array.array.length, GROUP);
		CHECK_EQUAL(((const int64_t *)array.array.buffers[1])[array.array.offset],
			    (int64_t)GROUP * 3 - 1000);
		schema.release(&schema);
		array.array.release(&array.array);
		/* The stream of one table is another table. */
		CHECK_EQUAL(stream.get_next(&stream, &next), 0);
		CHECK_EQUAL(next.array.length, GROUP);
		next.array.release(&next.array);
		CHECK_OK_FATAL(hm_table_import_device(&stream, NULL, &again));
		CHECK(!stream.release);
		CHECK_EQUAL(info_of(again).rows, ROWS - GROUP);
		CHECK_EQUAL(info_of(again).format, HM_TABLE_MEMORY);
		hm_table_unref(again);
	}
	folder_end();
}

static void batches(void)
{
	struct hm_table_batches_desc desc = { .struct_size = sizeof(desc), .window = 8 << 20 };
	struct hm_table_batch batch = { .struct_size = sizeof(batch) };
	struct hm_table_chunk chunk = { .struct_size = sizeof(chunk) };
	struct hm_table_batches *own;
	struct hm_table *table;
	int64_t expected, sum;
	uint64_t row;
	uint32_t i;

	folder_begin();
	for (i = 0; i < 2 * N_KINDS; i++) {
		write_sample("sample", kinds[i / 2].format, kinds[i / 2].codec);
		table = open_with("sample", NULL);
		desc.ahead = i % 2;
		desc.rows = 7000;
		CHECK_OK_FATAL(hm_table_batches_create(table, &desc, &own));
		CHECK_ERROR(-ERANGE, hm_table_batches_chunk(own, 0, &chunk));
		hm_table_unref(table);
		sum = expected = 0;
		for (;;) {
			CHECK_OK_FATAL(hm_table_batches_next(own, &batch));
			if (!batch.rows)
				break;
			CHECK(batch.rows <= 7000);
			CHECK_OK_FATAL(hm_table_batches_chunk(own, 0, &chunk));
			CHECK_EQUAL(chunk.in_place, kinds[i / 2].in_place);
			check_pointer(chunk.values, chunk.values_bytes);
			for (row = 0; row < batch.rows; row++)
				sum += ((const int64_t *)chunk.values)[chunk.offset + row];
			CHECK_ERROR(-ERANGE, hm_table_batches_chunk(own, 2, &chunk));
		}
		CHECK_OK(hm_table_batches_next(own, &batch));
		CHECK(!batch.rows && !batch.array);
		for (row = 0; row < ROWS; row++)
			expected += (int64_t)row * 3 - 1000;
		CHECK_EQUAL(sum, expected);
		hm_table_batches_unref(own);
	}
	/* One that is left early, with a batch under way. */
	table = open_with("sample", NULL);
	CHECK_OK_FATAL(hm_table_batches_create(table, &desc, &own));
	CHECK_OK(hm_table_batches_next(own, &batch));
	hm_table_batches_unref(own);
	hm_table_unref(table);
	folder_end();
}

static struct hm_table *shared;

static void *read_often(void *user)
{
	struct hm_column *column;
	int i;

	(void)user;
	for (i = 0; i < 5; i++) {
		if (hm_table_column(shared, (uint32_t)i % 2, &column)) {
			test_fail(__FILE__, __LINE__, "%s", hm_errmsg());
			break;
		}
		hm_column_unref(column);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[4];
	uint32_t i;

	folder_begin();
	write_sample("sample", HM_TABLE_PARQUET, "zstd");
	shared = open_with("sample", NULL);
	for (i = 0; i < 4; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, read_often, NULL));
	for (i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	CHECK_EQUAL(info_of(shared).memory, 0);
	hm_table_unref(shared);
	folder_end();
}

/* The caller touches a column in place of a file that is cut off: an error in a guarded scope. */
static void cut_in_place(void)
{
	struct hm_table_chunk chunk;
	struct hm_guard guard;
	struct hm_column *column;
	struct hm_table *table;
	volatile int64_t sum = 0;
	uint64_t i;
	int r;
	AUTO(rig_handler) handler = rig_handler(0);

	folder_begin();
	write_sample("sample", HM_TABLE_ARROW, NULL);
	table = open_with("sample", NULL);
	CHECK_OK_FATAL(hm_table_column(table, 0, &column));
	chunk = chunk_of(column, 2);
	CHECK_FATAL(!truncate(path_of("sample"), 4096));
	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (!r) {
		for (i = 0; i < chunk.rows; i++)
			sum += ((const int64_t *)chunk.values)[chunk.offset + i];
		hm_guard_end(&guard);
	}
	CHECK_EQUAL(r, -ERANGE);
	CHECK_EQUAL(sum, 0); /* the first touch already failed */
	hm_column_unref(column);
	hm_table_unref(table);
	folder_end();
}

/* The library itself reads, and so has an error. */
static void cut_while_read(void)
{
	struct hm_column *columns[2];
	struct hm_table *table;
	struct stat st;
	uint32_t i;

	folder_begin();
	for (i = 0; i < N_KINDS; i++) {
		write_sample("sample", kinds[i].format, kinds[i].codec);
		table = open_with("sample", NULL);
		CHECK_FATAL(!stat(path_of("sample"), &st));
		CHECK_FATAL(!truncate(path_of("sample"), st.st_size / 2));
		if (!kinds[i].in_place) {
			CHECK_ERROR(-ENODATA, hm_table_columns(table, NULL, 2, columns));
			CHECK(strstr(hm_errmsg(), "sample") &&
			      strstr(hm_errmsg(), "row group") &&
			      strstr(hm_errmsg(), "cut off"));
			/* To count the rows of an Arrow file its headers are read. */
			if (kinds[i].format == HM_TABLE_PARQUET)
				CHECK_EQUAL(info_of(table).memory, 0);
		}
		CHECK_ERROR(-ENODATA, hm_table_write(table, path_of("out"), NULL, NULL));
		CHECK(access(path_of("out"), F_OK) && errno == ENOENT);
		hm_table_unref(table);
	}
	folder_end();
}

static void in_child(void *user)
{
	struct hm_column *column;

	CHECK_ERROR(-EOWNERDEAD, hm_table_column(user, 0, &column));
	hm_table_unref(user);
}

static void forked(void)
{
	struct hm_table *table;

	folder_begin();
	write_sample("sample", HM_TABLE_PARQUET, NULL);
	table = open_with("sample", NULL);
	CHECK_EQUAL(test_fork(in_child, table), 0);
	check_columns(table, false);
	hm_table_unref(table);
	folder_end();
}

static void refusals(void)
{
	struct hm_table_desc desc = { .struct_size = sizeof(desc) }, *larger;
	struct hm_table_info info = { .struct_size = sizeof(info) + 8 };
	struct hm_table_filter filter = { "number", "1", HM_TABLE_NOT_NULL + 1, 0 };
	struct hm_table_write_desc writing = { .struct_size = sizeof(writing) };
	struct hm_table_chunk chunk = { .struct_size = sizeof(chunk) };
	struct hm_table *table, *other = NULL;
	struct hm_column *column, *none = NULL;
	const char *path;
	uint32_t number;

	folder_begin();
	write_sample("sample", HM_TABLE_PARQUET, NULL);
	path = path_of("sample");
	CHECK_ERROR(-EINVAL, hm_table_open(NULL, 1, NULL, &other));
	CHECK_ERROR(-EINVAL, hm_table_open(&path, 0, NULL, &other));
	CHECK_ERROR(-EINVAL, hm_table_open(&path, 1, NULL, NULL));
	desc.flags = 1u << 31;
	CHECK_ERROR(-EINVAL, hm_table_open(&path, 1, &desc, &other));
	desc.flags = 0;
	desc.threads = 65;
	CHECK_ERROR(-EINVAL, hm_table_open(&path, 1, &desc, &other));
	desc.threads = 0;
	desc.filters = &filter;
	desc.n_filters = 1;
	CHECK_ERROR(-EINVAL, hm_table_open(&path, 1, &desc, &other));
	desc.n_filters = 0;
	desc.format = HM_TABLE_ARROW;
	CHECK_ERROR(-EBADMSG, hm_table_open(&path, 1, &desc, &other));
	desc.format = HM_TABLE_AUTO;
	larger = calloc(1, sizeof(desc) + 8);
	larger->struct_size = sizeof(desc) + 8;
	CHECK_OK(hm_table_open(&path, 1, larger, &other));
	hm_table_unref(other);
	other = NULL;
	((char *)larger)[sizeof(desc)] = 1;
	CHECK_ERROR(-E2BIG, hm_table_open(&path, 1, larger, &other));
	free(larger);

	table = open_with("sample", NULL);
	CHECK_ERROR(-E2BIG, hm_table_query(table, &info));
	CHECK_ERROR(-ERANGE, hm_table_column(table, 2, &none));
	CHECK_ERROR(-ENOENT, hm_table_find(table, "price", &number));
	CHECK(strstr(hm_errmsg(), "price"));
	CHECK_OK_FATAL(hm_table_column(table, 0, &column));
	CHECK_ERROR(-ERANGE, hm_column_chunk(column, 3, &chunk));
	hm_column_unref(column);
	writing.flags = 4;
	CHECK_ERROR(-EINVAL, hm_table_write(table, path_of("out"), &writing, NULL));
	CHECK_ERROR(-EINVAL, hm_table_write(table, "", NULL, NULL));
	CHECK_ERROR(-ENOENT, hm_table_write(table, path_of("no/out"), NULL, NULL));
	CHECK(!other && !none);
	hm_table_unref(table);
	hm_table_unref(NULL);
	hm_column_unref(NULL);
	hm_table_batches_unref(NULL);
	CHECK(!hm_table_ref(NULL) && !hm_column_ref(NULL) && !hm_table_batches_ref(NULL));
	CHECK(!strcmp(hm_table_format_name(HM_TABLE_PARQUET), "parquet"));
	CHECK(!hm_table_format_name(HM_TABLE_AUTO) && !hm_table_format_name(99));
	folder_end();
}

static const struct test tests[] = {
	{ .name = "reads", reads, 120 },
	{ .name = "places", places, 60 },
	{ .name = "exported", exported, 60 },
	{ .name = "batches", batches, 120 },
	{ .name = "threads", threads, 60 },
	{ .name = "cut_in_place", cut_in_place, 60 },
	{ .name = "cut_while_read", cut_while_read, 60 },
	{ .name = "forked", forked, 60 },
	{ .name = "refusals", refusals, 60 },
	{ 0 },
};

TEST_MAIN(harness_main, "table", tests)
#else
#include "table/not_built.h"
#endif
