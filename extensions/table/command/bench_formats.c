// SPDX-License-Identifier: MIT
/*
 * formats: the same eight columns of numbers as .npy, Arrow, Parquet and CSV: the time from a
 * file's name to the sums of all columns, the size on disk, the bytes that are copied or decoded,
 * and the memory beside the page cache.
 */
#include <errno.h>
#include <glob.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <hetmap/hetmap.h>
#include <hetmap/table.h>

#include "bench_data.h"
#include "bench_tables.h"
#include "common/command.h"
#include "common/process_memory.h"
#include "common/text.h"
#include "peer_tables.h"
#include "perf/bench/bench.h"
#include "perf/bench/bench_folder.h"
#include "perf/bench/bench_options.h"
#include "sum_cpu.h"

#define BYTES MIB(128)
#define BYTES_SHORT MIB(4)
#define ROUNDS 7

struct file {
	const char *label; /* ".npy", "Arrow" */
	const char *kind;  /* for the peer */
	const char *name;  /* in the folder; "": the folder itself */
	uint32_t format;   /* enum hm_table_format; HM_TABLE_AUTO: .npy */
	const char *codec;
};

static const struct file files[] = {
	{ ".npy", "npy", "", HM_TABLE_AUTO, NULL },
	{ "Arrow", "arrow", "bars.arrow", HM_TABLE_ARROW, NULL },
	{ "Arrow, zstd", "arrow", "bars.zstd.arrow", HM_TABLE_ARROW, "zstd" },
	{ "Parquet", "parquet", "bars.parquet", HM_TABLE_PARQUET, NULL },
	{ "Parquet, zstd", "parquet", "bars.zstd.parquet", HM_TABLE_PARQUET, "zstd" },
	{ "CSV", "csv", "bars.csv", HM_TABLE_CSV, NULL },
};

#define N_FILE (sizeof(files) / sizeof(files[0]))

/* Figures of a format. */
struct figures {
	double ns;
	uint64_t disk, copied, memory;
	bool measured;
};

struct scene {
	char *folder, *python;
	uint64_t rows;
	const struct file *file; /* the one that is measured */
	char *path;
	double sum; /* of all columns */
	uint64_t copied, memory;
	struct figures figures[N_FILE];
};

/* ---- ours ---- */

/* As peer_sum(): eight sums at a time. */
static double sum_singles(const float *values, uint64_t n)
{
	double sums[8] = { 0 }, sum = 0;
	uint64_t i;
	int k;

	for (i = 0; i + 8 <= n; i += 8)
		for (k = 0; k < 8; k++)
			sums[k] += (double)values[i + k];
	for (; i < n; i++)
		sum += (double)values[i];
	for (k = 0; k < 8; k++)
		sum += sums[k];
	return sum;
}

static double sum_chunk(enum sum_type type, const void *values, uint64_t n)
{
	const int64_t *integers = values;
	int64_t whole = 0;
	uint64_t i;

	switch (type) {
	case SUM_F64:
		return peer_sum(values, n);
	case SUM_F32:
		return sum_singles(values, n);
	default:
		for (i = 0; i < n; i++)
			whole += integers[i];
		return (double)whole;
	}
}

static int sum_column(struct hm_column *column, enum sum_type type, double *sum)
{
	struct hm_table_chunk chunk = { .struct_size = sizeof(chunk) };
	struct hm_column_info info = { .struct_size = sizeof(info) };
	uint64_t i;
	int r;

	r = hm_column_query(column, &info);
	for (i = 0; !r && i < info.chunks; i++) {
		r = hm_column_chunk(column, i, &chunk);
		if (!r)
			*sum += sum_chunk(type,
					  (const char *)chunk.values +
						  chunk.offset * sum_type_bits(type) / 8,
					  chunk.rows);
	}
	return r;
}

/* CSV has its own types: times are integers there, and floats double. */
static int type_of(struct hm_table *table, uint32_t column, enum sum_type *ret_type)
{
	struct hm_table_field_info field = { .struct_size = sizeof(field) };
	int r = hm_table_field(table, column, &field);

	if (!r)
		*ret_type = *field.format == 'f' ? SUM_F32 :
			    *field.format == 'g' ? SUM_F64 :
						   SUM_I64;
	return r;
}

static int sum_table(struct scene *scene, double *sum)
{
	struct hm_column *columns[BARS_NUMBERS];
	struct hm_table_info info = { .struct_size = sizeof(info) };
	const char *path = scene->path;
	enum sum_type type = SUM_NONE;
	struct hm_table *table;
	uint32_t i;
	int r;

	r = hm_table_open(&path, 1, NULL, &table);
	if (r)
		return r;
	r = hm_table_columns(table, NULL, BARS_NUMBERS, columns);
	if (r) {
		hm_table_unref(table);
		return r;
	}
	for (i = 0; i < BARS_NUMBERS; i++) {
		if (!r)
			r = type_of(table, i, &type);
		if (!r)
			r = sum_column(columns[i], type, sum);
	}
	if (!r)
		r = hm_table_query(table, &info);
	scene->copied = info.bytes_decoded;
	scene->memory = info.peak;
	for (i = 0; i < BARS_NUMBERS; i++)
		hm_column_unref(columns[i]);
	hm_table_unref(table);
	return r;
}

/* Arrays in place: each file is a map. */
static int sum_array(const struct scene *scene, uint32_t column, double *sum)
{
	struct hm_pieces_file_info file = { .struct_size = sizeof(file) };
	struct hm_piece_info piece = { .struct_size = sizeof(piece) };
	char *path = text_format("%s/%s.npy", scene->folder, bars_names[column]);
	struct hm_pieces *pieces;
	enum sum_type type;
	int r;

	r = hm_pieces_open(path, NULL, &pieces);
	free(path);
	if (r)
		return r;
	r = hm_pieces_at(pieces, 0, &piece);
	if (!r)
		r = hm_pieces_file(pieces, 0, &file);
	if (!r) {
		type = piece.dtype == HM_DTYPE_F32 ? SUM_F32 :
		       piece.dtype == HM_DTYPE_F64 ? SUM_F64 :
						     SUM_I64;
		*sum += sum_chunk(type, (const char *)hm_map_address(file.map) + piece.offset,
				  scene->rows);
	}
	hm_pieces_unref(pieces);
	return r;
}

static int read_ours(void *user, double *ret_ns)
{
	struct scene *scene = user;
	double begin = bench_now(), sum = 0;
	uint32_t i;
	int r = 0;

	scene->copied = scene->memory = 0;
	if (scene->file->format)
		r = sum_table(scene, &sum);
	for (i = 1; !scene->file->format && !r && i < BARS_COLUMNS; i++)
		r = sum_array(scene, i, &sum);
	*ret_ns = bench_now() - begin;
	/* The order of additions differs between chunks of different lengths. */
	return r || (sum - scene->sum < 1e-6 * scene->sum && scene->sum - sum < 1e-6 * sum) ?
		       r :
		       -EBADMSG;
}

static int read_peer(void *user, double *ret_ns)
{
	const struct scene *scene = user;
	const char *const arguments[] = { scene->file->kind, scene->path, NULL };

	return bench_python_run(scene->python, peer_formats, arguments, ret_ns, NULL);
}

/* ---- files ---- */

static void add_sums(struct scene *scene, const struct bars *bars)
{
	const void *values;
	uint32_t i, width;

	for (i = 1; i < BARS_COLUMNS; i++) {
		values = bars_values(bars, i, &width);
		scene->sum += sum_chunk(i == 1     ? SUM_I64 :
					width == 4 ? SUM_F32 :
						     SUM_F64,
					values, bars->rows);
	}
}

static char *path_of(const struct scene *scene, const struct file *file)
{
	return text_format("%s%s%s", scene->folder, *file->name ? "/" : "", file->name);
}

static int write_file(const struct scene *scene, const struct bars *bars,
		      const struct file *file)
{
	char *path;
	uint32_t i;
	int r = 0;

	for (i = 1; !file->format && !r && i < BARS_COLUMNS; i++) {
		path = text_format("%s/%s.npy", scene->folder, bars_names[i]);
		r = bars_write_npy(bars, i, path);
		free(path);
	}
	if (!file->format)
		return r;
	path = path_of(scene, file);
	if (file->format == HM_TABLE_CSV)
		r = bars_write_csv(bars, path);
	else
		r = bars_write(bars, 0, bars->rows, true, path, file->format, file->codec, 0);
	free(path);
	return r;
}

static int make_files(struct scene *scene)
{
	struct bars bars;
	size_t i;
	int r;

	r = bars_make(scene->rows, &bars);
	if (!r)
		add_sums(scene, &bars);
	for (i = 0; !r && i < N_FILE; i++)
		r = write_file(scene, &bars, &files[i]);
	bars_end(&bars);
	malloc_trim(0);
	return r;
}

/* A file, or all .npy files. */
static uint64_t disk_bytes(const struct scene *scene, const struct file *file)
{
	char *path = file->format ? path_of(scene, file) :
				    text_format("%s/*.npy", scene->folder);
	uint64_t bytes = 0;
	glob_t found;
	struct stat st;
	size_t i;

	if (!glob(path, 0, NULL, &found))
		for (i = 0; i < found.gl_pathc; i++)
			bytes += !stat(found.gl_pathv[i], &st) ? (uint64_t)st.st_size : 0;
	globfree(&found);
	free(path);
	return bytes;
}

/* ---- measuring ---- */

static void report_size(const char *label, const char *what, const char *peer, uint64_t bytes,
			uint64_t peer_bytes)
{
	char *name = text_format("%s: %s", label, what);
	const struct bench_result result = {
		.name = name,
		.unit = "MiB",
		.value = (double)bytes / MIB(1),
		.peer = peer,
		.peer_value = (double)peer_bytes / MIB(1),
	};

	bench_report(&result);
	free(name);
}

static int measure_time(struct scene *scene, struct figures *figures)
{
	char *name = text_format("%s: name to sums", scene->file->label);
	const struct bench_pair pair = {
		.name = name,
		.peer = scene->file->format ? "pyarrow, by its own clock" :
					      "numpy's memmap, by its own clock",
		.ours = read_ours,
		.peer_side = read_peer,
		.rounds = ROUNDS,
		.warm_up = 1,
	};
	struct bench_figures measured;
	int r;

	if (scene->python) {
		r = bench_measure(&pair, scene, &measured);
		if (!r) {
			bench_report_pair(&pair, &measured, "ms", 1e6, TARGET_NONE, 0);
			figures->ns = measured.ours.median;
		}
	} else {
		r = read_ours(scene, &figures->ns);
		if (!r)
			r = read_ours(scene, &figures->ns);
		if (r)
			bench_fail(name, r, true);
	}
	free(name);
	return r;
}

static int measure_file(struct scene *scene, size_t i)
{
	struct figures *figures = &scene->figures[i];
	uint64_t plain = scene->rows * (BARS_ROW - 15);
	int r;

	scene->file = &files[i];
	scene->path = path_of(scene, scene->file);
	r = measure_time(scene, figures);
	free(scene->path);
	if (r)
		return r;
	figures->disk = disk_bytes(scene, scene->file);
	figures->copied = scene->copied;
	figures->memory = scene->memory;
	figures->measured = true;
	report_size(scene->file->label, "on disk", "the columns' bytes", figures->disk, plain);
	report_size(scene->file->label, "copied or decoded", "the columns' bytes",
		    figures->copied, plain);
	report_size(scene->file->label, "memory", "the columns' bytes", figures->memory, plain);
	return 0;
}

/* For people: all of it at a glance. */
static void print_table(const struct scene *scene)
{
	char time[TEXT_MAX], disk[TEXT_MAX], copied[TEXT_MAX], memory[TEXT_MAX];
	const struct figures *figures;
	size_t i;

	if (output.json || bench_options.markdown)
		return;
	printf("\n  %-15s %12s %12s %12s %12s\n", "format", "to the sums", "on disk", "copied",
	       "memory");
	for (i = 0; i < N_FILE; i++) {
		figures = &scene->figures[i];
		if (figures->measured)
			printf("  %-15s %12s %12s %12s %12s\n", files[i].label,
			       text_seconds(figures->ns / 1e9, time),
			       text_bytes(figures->disk, disk),
			       text_bytes(figures->copied, copied),
			       text_bytes(figures->memory, memory));
	}
}

int bench_formats(void)
{
	static const char name[] = "the same table";
	uint64_t bytes = bench_options.small ? BYTES_SHORT : BYTES;
	struct scene scene = { .rows = bytes / (BARS_ROW - 15) };
	size_t i;
	int r;

	if (!bench_has_memory(name, 4 * bytes))
		return 0;
	scene.folder = bench_folder_make(name, 8 * bytes);
	if (!scene.folder)
		return 0;
	scene.python = bench_python(NULL);
	if (!scene.python)
		bench_skip("beside pyarrow", "no python3 with pyarrow and numpy, for which "
					     "tests/table/test_table_command.sh makes an "
					     "environment");
	r = make_files(&scene);
	if (r)
		bench_fail(name, r, true);
	for (i = 0; !r && i < N_FILE; i++)
		r = measure_file(&scene, i);
	if (!r)
		print_table(&scene);
	free(scene.python);
	bench_folder_remove(scene.folder);
	return r;
}
