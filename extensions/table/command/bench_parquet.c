// SPDX-License-Identifier: MIT
/*
 * parquet_columns, parquet_skip: columns of Parquet that are decoded into memory which an
 * accelerator reads, and row groups that are not read.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <hetmap/table.h>

#include "bench_data.h"
#include "bench_tables.h"
#include "common/text.h"
#include "peer_tables.h"
#include "perf/bench/bench.h"
#include "perf/bench/bench_folder.h"
#include "perf/bench/bench_options.h"

#define BYTES GIB(1)
#define BYTES_SHORT MIB(16)
#define GROUP_ROWS (1u << 20)
#define ROUNDS 7

/* ---- parquet_columns ---- */

/* A way to read the file. */
struct reading {
	char *path, *python;
	uint32_t n_column, threads;
	bool copied; /* the peer copies to a device's memory, where ours is already */
};

static const char *const wanted[] = { "money", "open", "frame", "close" };

static int read_ours(void *user, double *ret_ns)
{
	const struct reading *reading = user;
	const struct hm_table_desc desc = {
		.struct_size = sizeof(desc),
		.threads = reading->threads,
		.columns = wanted,
		.n_columns = reading->n_column,
	};
	struct hm_column *columns[4];
	const char *path = reading->path;
	double begin = bench_now();
	struct hm_table *table;
	uint32_t i;
	int r;

	r = hm_table_open(&path, 1, &desc, &table);
	if (r)
		return r;
	r = hm_table_columns(table, NULL, reading->n_column, columns);
	*ret_ns = bench_now() - begin;
	for (i = 0; !r && i < reading->n_column; i++)
		hm_column_unref(columns[i]);
	hm_table_unref(table);
	return r;
}

static int read_peer(void *user, double *ret_ns)
{
	const struct reading *reading = user;
	char threads[16], columns[64] = "";
	const char *const arguments[] = { reading->path, threads, reading->copied ? "1" : "0",
					  columns, NULL };
	size_t n = 0;
	uint32_t i;

	snprintf(threads, sizeof(threads), "%u", reading->threads);
	for (i = 0; i < reading->n_column; i++)
		n += (size_t)snprintf(columns + n, sizeof(columns) - n, "%s%s", i ? "," : "",
				      wanted[i]);
	return bench_python_run(reading->python, peer_parquet_columns, arguments, ret_ns, NULL);
}

static int compare(struct reading *reading, const char *codec)
{
	char *name = text_format("%u of 9 columns, %s, %u thread%s%s", reading->n_column, codec,
				 reading->threads, reading->threads == 1 ? "" : "s",
				 reading->copied ? ", in a device" : "");
	const struct bench_pair pair = {
		.name = name,
		.peer = reading->copied ? "pyarrow's read_table(), and a copy" :
					  "pyarrow's read_table(), by its own clock",
		.ours = read_ours,
		.peer_side = read_peer,
		.rounds = ROUNDS,
		.warm_up = 1,
	};
	double target = !reading->copied ? 1.02 : !strcmp(codec, "plain") ? 0.75 : 1.00;
	int r = bench_compare(&pair, reading, "ms", 1e6, TARGET_RATIO, target);

	free(name);
	return r;
}

static int compare_all(struct reading *reading, const char *codec)
{
	static const uint32_t columns[] = { 1, 4 }, threads[] = { 1, 2 };
	size_t c, t;
	int r = 0;

	for (c = 0; c < 2; c++)
		for (t = 0; t < 2 && !r; t++) {
			reading->n_column = columns[c];
			reading->threads = threads[t];
			reading->copied = false;
			r = compare(reading, codec);
			reading->copied = true;
			if (!r)
				r = compare(reading, codec);
		}
	return r;
}

static int measure_codec(const struct bars *bars, const char *folder, char *python,
			 const char *codec)
{
	struct reading reading = { .python = python };
	const char *name = strcmp(codec, "plain") ? codec : NULL;
	int r;

	reading.path = text_format("%s/%s.parquet", folder, codec);
	r = bars_write(bars, 0, bars->rows, false, reading.path, HM_TABLE_PARQUET, name,
		       GROUP_ROWS);
	r = r ? bench_fail(codec, r, true) : compare_all(&reading, codec);
	bench_folder_clear(reading.path);
	free(reading.path);
	return r;
}

int bench_parquet_columns(void)
{
	static const char name[] = "columns of Parquet";
	uint64_t bytes = bench_options.small ? BYTES_SHORT : BYTES;
	struct bars bars = { 0 };
	char *folder, *python;
	int r;

	if (!bench_has_memory(name, 3 * bytes))
		return 0;
	python = bench_python(name);
	folder = python ? bench_folder_make(name, bytes + MIB(64)) : NULL;
	if (!folder) {
		free(python);
		return 0;
	}
	r = bars_make(bytes / BARS_ROW, &bars);
	if (r)
		bench_fail(name, r, false);
	if (!r)
		r = measure_codec(&bars, folder, python, "plain");
	if (!r)
		r = measure_codec(&bars, folder, python, "zstd");
	bars_end(&bars);
	bench_folder_remove(folder);
	free(python);
	return r;
}

/* ---- parquet_skip ---- */

#define SKIP_GROUPS 200

/* Sorted by a number: one group in a hundred has rows that the filter keeps. */
static int write_sorted(const char *path, uint64_t rows)
{
	const struct hm_table_write_desc desc = {
		.struct_size = sizeof(desc),
		.format = HM_TABLE_PARQUET,
		.encoding = "PLAIN",
		.group_rows = rows / SKIP_GROUPS,
	};
	struct hm_table_buffers columns[2] = { { .name = "at", .format = "l" },
					       { .name = "value", .format = "g" } };
	int64_t *at = malloc(rows * sizeof(*at));
	double *value = malloc(rows * sizeof(*value));
	struct hm_table *table;
	uint64_t i;
	int r = at && value ? 0 : -ENOMEM;

	for (i = 0; !r && i < rows; i++) {
		at[i] = (int64_t)i;
		value[i] = (double)i / 3;
	}
	columns[0].values = at;
	columns[1].values = value;
	if (!r)
		r = hm_table_from_buffers(columns, 2, rows, NULL, &table);
	if (!r) {
		r = hm_table_write(table, path, &desc, NULL);
		hm_table_unref(table);
	}
	free(at);
	free(value);
	return r;
}

static int read_kept(const char *path, uint64_t rows, struct hm_table_info *ret_info)
{
	char *least = text_format("%llu", (unsigned long long)(rows - rows / 100));
	const struct hm_table_filter filter = { .column = "at",
						.value = least,
						.compare = HM_TABLE_GREATER_EQUAL };
	const struct hm_table_desc desc = { .struct_size = sizeof(desc),
					    .filters = &filter,
					    .n_filters = 1 };
	struct hm_column *columns[2];
	struct hm_table *table;
	int r;

	r = hm_table_open(&path, 1, &desc, &table);
	free(least);
	if (r)
		return r;
	r = hm_table_columns(table, NULL, 2, columns);
	ret_info->struct_size = sizeof(*ret_info);
	if (!r) {
		r = hm_table_query(table, ret_info);
		hm_column_unref(columns[0]);
		hm_column_unref(columns[1]);
	}
	hm_table_unref(table);
	return r;
}

int bench_parquet_skip(void)
{
	struct bench_result result = {
		.name = "bytes read, 1% of the rows",
		.unit = "MiB",
		.peer = "all bytes of the file",
		.kind = TARGET_RATIO,
		.target = 0.03,
	};
	uint64_t rows = (bench_options.small ? MIB(8) : MIB(256)) / 16;
	char *folder = bench_folder_make(result.name, MIB(320)), *path, *note;
	struct hm_table_info info = { 0 };
	struct stat st = { 0 };
	int r;

	if (!folder)
		return 0;
	path = text_format("%s/sorted.parquet", folder);
	r = write_sorted(path, rows);
	if (!r)
		r = read_kept(path, rows, &info);
	if (!r && stat(path, &st))
		r = -errno;
	if (r) {
		bench_fail(result.name, r, true);
	} else {
		note = text_format("%llu of %llu row groups are skipped",
				   (unsigned long long)info.skipped,
				   (unsigned long long)info.groups);
		result.value = (double)info.bytes_read / MIB(1);
		result.peer_value = (double)st.st_size / MIB(1);
		result.note = note;
		bench_report(&result);
		free(note);
	}
	free(path);
	bench_folder_remove(folder);
	return r;
}
