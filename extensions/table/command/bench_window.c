// SPDX-License-Identifier: MIT
/*
 * table_window: a table of Parquet through a bounded window: the time and the peak of memory. By
 * default 1 GiB through 64 MiB; HETMAP_BENCH_TABLE=8G is the long form of make soak, in 512 MiB.
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

#define BYTES GIB(1)
#define BYTES_SHORT MIB(32)
#define FILES 4
/* The window is that part of the table: 64 MiB of 1 GiB, 512 MiB of 8 GiB. */
#define PART 16
/* Nine columns by pages of 1 MiB take about 3 MiB. */
#define WINDOW_LEAST MIB(8)
#define GROUP_ROWS (64u << 10)

struct scene {
	char *folder, *python, *name;
	char *path[FILES];
	uint64_t bytes, window;
	uint64_t rows_of_batch; /* which ours chose, and the peer gets, too */
	uint64_t peak;          /* of memory beside that from before */
	double peer_peak;
};

static int make_files(struct scene *scene)
{
	struct bars bars;
	uint32_t i;
	int r;

	scene->folder = bench_folder_make(scene->name, scene->bytes + MIB(64));
	if (!scene->folder)
		return -ENOSPC;
	r = bars_make(scene->bytes / FILES / BARS_ROW, &bars);
	for (i = 0; i < FILES; i++) {
		scene->path[i] = text_format("%s/%u.parquet", scene->folder, i);
		if (!r)
			r = bars_write(&bars, 0, bars.rows, false, scene->path[i],
				       HM_TABLE_PARQUET, "zstd", GROUP_ROWS);
	}
	bars_end(&bars);
	return r ? bench_fail(scene->name, r, true) : 0;
}

static int take_batches(struct scene *scene, struct hm_table *table)
{
	const struct hm_table_batches_desc desc = { .struct_size = sizeof(desc),
						    .window = scene->window };
	struct hm_table_batches_info info = { .struct_size = sizeof(info) };
	struct hm_table_batch batch = { .struct_size = sizeof(batch) };
	struct hm_table_batches *batches;
	int r;

	r = hm_table_batches_create(table, &desc, &batches);
	if (r)
		return r;
	do {
		r = hm_table_batches_next(batches, &batch);
	} while (!r && batch.rows);
	if (!r)
		r = hm_table_batches_query(batches, &info);
	scene->rows_of_batch = info.rows;
	hm_table_batches_unref(batches);
	return r;
}

static int read_ours(void *user, double *ret_ns)
{
	struct process_memory before, now;
	struct scene *scene = user;
	struct hm_table *table;
	double begin;
	int r;

	malloc_trim(0);
	process_memory_reset_peak();
	before = process_memory_now();
	begin = bench_now();
	r = hm_table_open((const char *const *)scene->path, FILES, NULL, &table);
	if (r)
		return r;
	r = take_batches(scene, table);
	*ret_ns = bench_now() - begin;
	now = process_memory_now();
	scene->peak = now.peak - (before.file + before.anonymous + before.shared);
	hm_table_unref(table);
	return r;
}

static int read_peer(void *user, double *ret_ns)
{
	struct scene *scene = user;
	char rows[32];
	const char *const arguments[] = { rows,           scene->path[0], scene->path[1],
					  scene->path[2], scene->path[3], NULL };

	snprintf(rows, sizeof(rows), "%llu",
		 (unsigned long long)(scene->rows_of_batch ? scene->rows_of_batch :
							     GROUP_ROWS));
	return bench_python_run(scene->python, peer_table_window, arguments, ret_ns,
				&scene->peer_peak);
}

static int measure(struct scene *scene)
{
	const struct bench_pair pair = {
		.name = scene->name,
		.peer = "pyarrow's iter_batches() of as many rows, by its own clock",
		.ours = read_ours,
		.peer_side = read_peer,
		.rounds = 5,
		.warm_up = 1,
	};
	struct bench_result peak = {
		.name = "memory, at its most",
		.unit = "MiB",
		.peer = "the window",
		.kind = TARGET_RATIO,
		.target = 1.1,
	};
	char *note;
	double ns;
	int r;

	if (scene->python)
		r = bench_compare(&pair, scene, "ms", 1e6, TARGET_RATIO, 1.05);
	else
		r = read_ours(scene, &ns) ? bench_fail(scene->name, -EIO, true) : 0;
	if (r)
		return r;
	peak.value = (double)scene->peak / MIB(1);
	peak.peer_value = (double)scene->window / MIB(1);
	note = text_format("the growth of VmHWM; pyarrow's own is %.1f MiB",
			   scene->peer_peak / MIB(1));
	peak.note = scene->python ? note : NULL;
	bench_report(&peak);
	free(note);
	return 0;
}

int bench_table_window(void)
{
	const char *wanted = getenv("HETMAP_BENCH_TABLE");
	struct scene scene = { .bytes = bench_options.small ? BYTES_SHORT : BYTES };
	char all[TEXT_MAX], window[TEXT_MAX];
	uint32_t i;
	int r;

	if (wanted && *wanted && option_bytes(wanted, &scene.bytes)) {
		fprintf(stderr, "hetmap: HETMAP_BENCH_TABLE is '%s': bytes, as 8G\n", wanted);
		return -EINVAL;
	}
	scene.window = scene.bytes / PART > WINDOW_LEAST ? scene.bytes / PART : WINDOW_LEAST;
	scene.name = text_format("%s through %s", text_bytes(scene.bytes, all),
				 text_bytes(scene.window, window));
	scene.python = bench_python(scene.name);
	r = make_files(&scene);
	if (!r)
		r = measure(&scene);
	r = scene.folder ? r : 0;
	for (i = 0; i < FILES; i++)
		free(scene.path[i]);
	bench_folder_remove(scene.folder);
	free(scene.python);
	free(scene.name);
	return r;
}
