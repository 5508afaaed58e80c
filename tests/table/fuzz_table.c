// SPDX-License-Identifier: MIT
/*
 * Fuzzes libhetmap-table. The input is a file: Arrow IPC, Parquet or CSV, by its first bytes.
 * It is opened, described and read in each way. All may fail; a failure has a text with the
 * file's name. A chunk that was read has all the bytes that it names.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#ifdef HAVE_TABLE
#include <errno.h>
#include <hetmap/table.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/rig.h"

AUTO_UNREF(hm_table)
AUTO_UNREF(hm_table_batches)

#define LIMIT (64u << 20)
#define WINDOW (1u << 20)
#define COLUMNS 16u /* that are looked at */
#define CHUNKS 16u  /* likewise, and batches */

/* Code of libarrow is not instrumented, and fills vectors that code in its headers reads. */
const char *__asan_default_options(void);
__attribute__((used, visibility("default"))) const char *__asan_default_options(void)
{
	return "detect_container_overflow=0";
}

static char path[32];

static int file_of(const uint8_t *data, size_t size)
{
	int fd = memfd_create("table", MFD_CLOEXEC);

	if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fd;
}

/* A call that failed says of which file. Its own arguments are right. */
static int told(int r)
{
	if (r && (!strstr(hm_errmsg(), path) || r == -EINVAL || r == -EFAULT)) {
		fprintf(stderr, "%d: %s\n", r, hm_errmsg());
		abort();
	}
	return r;
}

/* The first and the last byte, and some in between. */
static void touch(const void *bytes, uint64_t n)
{
	const volatile char *at = bytes;
	uint64_t i;

	for (i = 0; i < n; i += n / 8 + 1)
		(void)at[i];
	if (n)
		(void)at[n - 1];
}

static void touch_chunk(const struct hm_table_chunk *chunk)
{
	touch(chunk->validity, chunk->validity_bytes);
	touch(chunk->offsets, chunk->offsets_bytes);
	touch(chunk->values, chunk->values_bytes);
	if (chunk->rows && chunk->validity && chunk->validity_bytes * 8 < chunk->rows)
		abort();
}

static void read_columns(struct hm_table *table, uint32_t n)
{
	struct hm_column_info info = { .struct_size = sizeof(info) };
	struct hm_table_chunk chunk = { .struct_size = sizeof(chunk) };
	struct hm_column *column;
	uint32_t i;
	uint64_t k;

	for (i = 0; i < n; i++) {
		if (told(hm_table_column(table, i, &column)))
			continue;
		if (!told(hm_column_query(column, &info)))
			for (k = 0; k < info.chunks && k < CHUNKS; k++)
				if (!told(hm_column_chunk(column, k, &chunk)))
					touch_chunk(&chunk);
		hm_column_unref(column);
	}
}

static void describe(struct hm_table *table, uint32_t columns, uint64_t groups)
{
	struct hm_table_field_info field = { .struct_size = sizeof(field) };
	struct hm_table_group_info group = { .struct_size = sizeof(group) };
	struct hm_table_stored_info stored = { .struct_size = sizeof(stored) };
	struct hm_table_file_info file = { .struct_size = sizeof(file) };
	uint64_t i;
	uint32_t k;

	told(hm_table_file(table, 0, &file));
	for (k = 0; k < columns; k++)
		if (hm_table_field(table, k, &field))
			abort();
	for (i = 0; i < groups; i++) {
		told(hm_table_group(table, i, &group));
		for (k = 0; k < columns; k++)
			told(hm_table_stored(table, i, k, &stored));
	}
}

/* A window may be too small for the file. */
static void read_batches(struct hm_table *table, uint32_t columns)
{
	struct hm_table_batch batch = { .struct_size = sizeof(batch) };
	struct hm_table_chunk chunk = { .struct_size = sizeof(chunk) };
	AUTO(hm_table_batches) *batches = NULL;
	uint32_t i, k;

	if (hm_table_batches_create(table, DESC(hm_table_batches_desc, .window = WINDOW),
				    &batches))
		abort();
	for (i = 0; i < CHUNKS; i++) {
		if (told(hm_table_batches_next(batches, &batch)) || !batch.rows)
			break;
		for (k = 0; k < columns; k++) {
			if (hm_table_batches_chunk(batches, k, &chunk))
				abort();
			touch_chunk(&chunk);
		}
	}
}

/* Other libraries get the rows, and end them. */
static void leave(struct hm_table *table)
{
	struct ArrowArrayStream stream;
	struct ArrowArray array;
	struct ArrowSchema schema;
	uint32_t i;

	if (hm_table_export(table, &stream))
		return;
	if (!stream.get_schema(&stream, &schema))
		schema.release(&schema);
	for (i = 0; i < CHUNKS && !stream.get_next(&stream, &array) && array.release; i++)
		array.release(&array);
	stream.release(&stream);
}

static void read_all(const struct hm_table_desc *desc)
{
	struct hm_table_info info = { .struct_size = sizeof(info) };
	const char *paths = path;
	AUTO(hm_table) *table = NULL;
	uint32_t columns;

	if (told(hm_table_open(&paths, 1, desc, &table)))
		return;
	if (!told(hm_table_query(table, &info))) {
		columns = info.columns < COLUMNS ? info.columns : COLUMNS;
		describe(table, columns, info.groups < CHUNKS ? info.groups : CHUNKS);
		read_columns(table, columns);
		read_batches(table, columns);
		leave(table);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t flags[] = {
		0,
		HM_TABLE_CHECK,
		HM_TABLE_READ | HM_TABLE_CHECK,
		HM_TABLE_DICTIONARY | HM_TABLE_CSV_WHOLE,
	};
	int fd = file_of(data, size);

	read_all(DESC(hm_table_desc, .flags = flags[size % 4], .threads = 1, .limit = LIMIT));
	close(fd);
	return 0;
}
#else
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	puts("fuzz_table: Arrow C++ was not there when it was built: make table");
	exit(0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)data;
	(void)size;
	return 0;
}
#endif
