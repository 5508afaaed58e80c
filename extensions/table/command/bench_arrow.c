// SPDX-License-Identifier: MIT
/* arrow_open, arrow_scan: a file of Arrow that is used where it lies. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hetmap/hetmap.h>
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
#define BATCH_ROWS (1u << 20)
#define SCANNED "volume"

struct scene {
	char *folder, *path, *python;
	struct hm_table *table;
	struct hm_column *column;
	struct hm_column_info info;

	/* The peer's own map, and where the chunks are in it. */
	char *map;
	size_t size;
	const double **chunk;
	uint64_t *chunk_rows;
	double sum;
};

static const char *name_of_open(void)
{
	return bench_options.small ? "16 MiB" : "1 GiB";
}

static int make_file(struct scene *scene, const char *name)
{
	uint64_t bytes = bench_options.small ? BYTES_SHORT : BYTES;
	struct bars bars;
	int r;

	scene->folder = bench_folder_make(name, bytes + MIB(64));
	if (!scene->folder)
		return -ENOSPC;
	scene->path = text_format("%s/bars.arrow", scene->folder);
	r = bars_make(bytes / BARS_ROW, &bars);
	if (!r)
		r = bars_write(&bars, 0, bars.rows, false, scene->path, HM_TABLE_ARROW, NULL,
			       BATCH_ROWS);
	bars_end(&bars);
	return r ? bench_fail(name, r, true) : 0;
}

static void end(struct scene *scene)
{
	hm_column_unref(scene->column);
	hm_table_unref(scene->table);
	if (scene->map)
		munmap(scene->map, scene->size);
	free(scene->chunk);
	free(scene->chunk_rows);
	free(scene->python);
	free(scene->path);
	bench_folder_remove(scene->folder);
}

/* ---- arrow_open ---- */

/* The first value of a chunk, whatever its type: its bytes are touched. */
static int touch(struct hm_column *column)
{
	struct hm_table_chunk chunk = { .struct_size = sizeof(chunk) };
	int r = hm_column_chunk(column, 0, &chunk);

	if (r)
		return r;
	return *(volatile const char *)chunk.values == 127 && chunk.offsets &&
			       *(const int32_t *)chunk.offsets < 0 ?
		       -EBADMSG :
		       0;
}

static int open_ours(void *user, double *ret_ns)
{
	const struct scene *scene = user;
	struct hm_column *columns[BARS_COLUMNS];
	const char *path = scene->path;
	double begin = bench_now();
	struct hm_table *table;
	uint32_t i;
	int r;

	r = hm_table_open(&path, 1, NULL, &table);
	if (r)
		return r;
	r = hm_table_columns(table, NULL, BARS_COLUMNS, columns);
	for (i = 0; i < BARS_COLUMNS && !r; i++)
		r = touch(columns[i]);
	*ret_ns = bench_now() - begin;
	for (i = 0; i < BARS_COLUMNS; i++)
		hm_column_unref(columns[i]);
	hm_table_unref(table);
	return r;
}

static int open_peer(void *user, double *ret_ns)
{
	const struct scene *scene = user;
	const char *const arguments[] = { scene->path, NULL };

	return bench_python_run(scene->python, peer_arrow_open, arguments, ret_ns, NULL);
}

int bench_arrow_open(void)
{
	const struct bench_pair pair = {
		.name = name_of_open(),
		.peer = "pyarrow.memory_map, ipc.open_file, by its own clock",
		.ours = open_ours,
		.peer_side = open_peer,
		.rounds = 15,
		.warm_up = 1,
	};
	struct scene scene = { 0 };
	int r;

	if (!bench_has_memory(pair.name, 3 * (bench_options.small ? BYTES_SHORT : BYTES)))
		return 0;
	scene.python = bench_python(pair.name);
	if (!scene.python)
		return 0;
	r = make_file(&scene, pair.name);
	if (!r)
		r = bench_compare(&pair, &scene, "us", 1e3, TARGET_RATIO, 1.0);
	r = scene.folder ? r : 0;
	end(&scene);
	return r;
}

/* ---- arrow_scan ---- */

static int scan_ours(void *user, double *ret_ns)
{
	struct hm_table_chunk chunk = { .struct_size = sizeof(chunk) };
	const struct scene *scene = user;
	double begin = bench_now(), sum = 0;
	uint64_t i;
	int r = 0;

	for (i = 0; i < scene->info.chunks && !r; i++) {
		r = hm_column_chunk(scene->column, i, &chunk);
		if (!r)
			sum += peer_sum((const double *)chunk.values + chunk.offset,
					chunk.rows);
	}
	*ret_ns = bench_now() - begin;
	return r ? r : sum == scene->sum ? 0 : -EBADMSG;
}

static int scan_peer(void *user, double *ret_ns)
{
	const struct scene *scene = user;
	double begin = bench_now(), sum = 0;
	uint64_t i;

	for (i = 0; i < scene->info.chunks; i++)
		sum += peer_sum(scene->chunk[i], scene->chunk_rows[i]);
	*ret_ns = bench_now() - begin;
	return sum == scene->sum ? 0 : -EPROTO;
}

static int map_plainly(struct scene *scene)
{
	int fd = open(scene->path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st)) {
		close(fd);
		return -errno;
	}
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return -errno;
	scene->map = map;
	scene->size = (size_t)st.st_size;
	return 0;
}

/* The same bytes of the file in the plain map. */
static int find_chunks(struct scene *scene)
{
	struct hm_table_chunk chunk = { .struct_size = sizeof(chunk) };
	struct hm_pointer_info where;
	uint64_t i;
	int r = 0;

	scene->chunk = calloc(scene->info.chunks + 1, sizeof(*scene->chunk));
	scene->chunk_rows = calloc(scene->info.chunks + 1, sizeof(*scene->chunk_rows));
	if (!scene->chunk || !scene->chunk_rows)
		return -ENOMEM;
	for (i = 0; i < scene->info.chunks && !r; i++) {
		r = hm_column_chunk(scene->column, i, &chunk);
		if (!r)
			r = hm_pointer_find(chunk.values, &where);
		if (r)
			return r;
		scene->chunk[i] =
			(const double *)(const void *)(scene->map + where.buffer_offset) +
			chunk.offset;
		scene->chunk_rows[i] = chunk.rows;
		scene->sum += peer_sum(scene->chunk[i], chunk.rows);
	}
	return 0;
}

static int prepare_scan(struct scene *scene)
{
	const char *path = scene->path;
	uint32_t index;
	int r;

	r = hm_table_open(&path, 1, NULL, &scene->table);
	if (!r)
		r = hm_table_find(scene->table, SCANNED, &index);
	if (!r)
		r = hm_table_column(scene->table, index, &scene->column);
	scene->info.struct_size = sizeof(scene->info);
	if (!r)
		r = hm_column_query(scene->column, &scene->info);
	if (!r && scene->info.in_place != scene->info.chunks)
		r = -EPROTO;
	if (!r)
		r = map_plainly(scene);
	return r ? r : find_chunks(scene);
}

int bench_arrow_scan(void)
{
	const struct bench_pair pair = {
		.name = bench_options.small ? "a column of 16 MiB" : "a column of 1 GiB",
		.peer = "a plain loop over the bytes of a map",
		.ours = scan_ours,
		.peer_side = scan_peer,
		.rounds = 41,
		.warm_up = 2,
	};
	struct scene scene = { 0 };
	int r;

	if (!bench_has_memory(pair.name, 3 * (bench_options.small ? BYTES_SHORT : BYTES)))
		return 0;
	r = make_file(&scene, pair.name);
	if (!r) {
		r = prepare_scan(&scene);
		r = r ? bench_fail(pair.name, r, true) :
			bench_compare(&pair, &scene, "ms", 1e6, TARGET_RATIO, 1.05);
	}
	r = scene.folder ? r : 0;
	end(&scene);
	return r;
}
