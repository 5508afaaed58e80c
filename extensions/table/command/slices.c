// SPDX-License-Identifier: MIT
/*
 * hetmap run table: makes the columns ready, and finds the slices, rows that are consecutive in
 * memory in each column.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/command.h"
#include "common/text.h"
#include "table_job.h"

#define POLL_NS 100000000

/* ---- progress ---- */

/* The library decodes in one call: a thread asks it how far it is. */
struct watcher {
	struct hm_table *table;
	pthread_t thread;
	bool started;
	sem_t over;
};

static void *watch(void *user)
{
	struct hm_table_info info = { .struct_size = sizeof(info) };
	struct watcher *watcher = user;
	struct timespec next;
	uint64_t told = 0;

	for (;;) {
		clock_gettime(CLOCK_REALTIME, &next);
		next.tv_nsec += POLL_NS;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		if (!sem_timedwait(&watcher->over, &next))
			return NULL;
		if (hm_table_query(watcher->table, &info) || info.bytes_read <= told)
			continue;
		progress_add(info.bytes_read - told);
		told = info.bytes_read;
	}
}

static void watcher_begin(struct watcher *watcher, struct hm_table *table, uint64_t bytes)
{
	*watcher = (struct watcher){ .table = table };
	progress_begin("decoding", bytes);
	sem_init(&watcher->over, 0, 0);
	/* Without a thread there is no bar, and all else is the same. */
	watcher->started = !pthread_create(&watcher->thread, NULL, watch, watcher);
}

static void watcher_end(struct watcher *watcher)
{
	sem_post(&watcher->over);
	if (watcher->started)
		pthread_join(watcher->thread, NULL);
	sem_destroy(&watcher->over);
	progress_end();
}

/* ---- columns ---- */

void column_count(struct job_column *column, const struct hm_table_chunk *chunk)
{
	if (!column->chunks)
		snprintf(column->why, sizeof(column->why), "%s", chunk->why);
	else
		column->mixed |= strcmp(column->why, chunk->why) != 0;
	column->chunks++;
	column->chunks_in_place += chunk->in_place;
	column->nulls += chunk->nulls;
}

static int count_column(struct job_column *column, struct hm_column *ready)
{
	struct hm_table_chunk chunk = { .struct_size = sizeof(chunk) };
	struct hm_column_info info = { .struct_size = sizeof(info) };
	uint64_t i;
	int r;

	r = hm_column_query(ready, &info);
	for (i = 0; !r && i < info.chunks; i++) {
		r = hm_column_chunk(ready, i, &chunk);
		if (!r)
			column_count(column, &chunk);
	}
	column->placed = info.placed;
	column->decoded = info.decoded;
	column->nulls = info.nulls;
	return r;
}

/* Bytes in the files that the wanted columns are decoded from, for the progress bar. */
static uint64_t stored_bytes(struct table_job *job)
{
	struct hm_table_stored_info info = { .struct_size = sizeof(info) };
	uint64_t group, sum = 0;
	uint32_t i;

	/* More groups would take longer to ask than the bar is worth. */
	for (group = 0; group < job->info.groups && group < 1000; group++)
		for (i = 0; i < job->n_column; i++)
			if (!hm_table_stored(job->table, group, i, &info) && !info.in_place)
				sum += info.stored;
	return sum;
}

static int ready_columns(struct table_job *job, int *ret_status)
{
	struct watcher watcher;
	double begin = job_now();
	uint32_t i;
	int r;

	job->ready = calloc(job->n_column, sizeof(*job->ready));
	if (!job->ready) {
		*ret_status = fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for columns");
		return 0;
	}
	watcher_begin(&watcher, job->table, stored_bytes(job));
	/* There is nothing to clean up, and the call has no end before the last column. */
	signals_end_at_once(true);
	r = hm_table_columns(job->table, NULL, job->n_column, job->ready);
	signals_end_at_once(false);
	job->decode_seconds = job_now() - begin;
	watcher_end(&watcher);
	if (r)
		memset(job->ready, 0, job->n_column * sizeof(*job->ready));
	if (r == -EFBIG)
		return r;
	for (i = 0; !r && i < job->n_column; i++)
		r = count_column(&job->column[i], job->ready[i]);
	if (r)
		*ret_status = table_failed(r, "cannot have the columns");
	return 0;
}

/* ---- slices ---- */

/* A place in a column's chunks. */
struct cursor {
	struct hm_table_chunk chunk;
	uint64_t next; /* number of the chunk behind it */
	uint64_t left; /* rows of it that are in no slice yet */
};

static int cursor_move(struct cursor *cursor, struct hm_column *column, uint64_t n_chunk)
{
	int r = 0;

	/* Chunks without rows have nothing to add up. */
	while (!r && !cursor->left && cursor->next < n_chunk) {
		cursor->chunk.struct_size = sizeof(cursor->chunk);
		r = hm_column_chunk(column, cursor->next++, &cursor->chunk);
		cursor->left = r ? 0 : cursor->chunk.rows;
	}
	return r;
}

static int append_slice(struct table_job *job, struct cursor *cursors, uint64_t rows)
{
	struct slice *slices = job->slice, *slice;
	uint32_t i;

	/* Room grows by powers of two. */
	if (!(job->n_slice & (job->n_slice - 1))) {
		slices = realloc(slices,
				 (job->n_slice ? 2 * job->n_slice : 1) * sizeof(*slices));
		if (!slices)
			return -ENOMEM;
		job->slice = slices;
	}
	slice = &slices[job->n_slice];
	*slice = (struct slice){ .first_row = job->rows, .rows = rows };
	slice->chunk = calloc(job->n_column, sizeof(*slice->chunk));
	if (!slice->chunk)
		return -ENOMEM;
	for (i = 0; i < job->n_column; i++) {
		slice->chunk[i] = cursors[i].chunk;
		slice->chunk[i].offset += cursors[i].chunk.rows - cursors[i].left;
		slice->chunk[i].rows = rows;
		cursors[i].left -= rows;
	}
	job->n_slice++;
	job->rows += rows;
	return 0;
}

/* Columns of one file may have their chunks end at different rows. */
static int cut_slices(struct table_job *job, struct cursor *cursors)
{
	uint64_t rows;
	uint32_t i;
	int r = 0;

	for (;;) {
		rows = UINT64_MAX;
		for (i = 0; !r && i < job->n_column; i++) {
			r = cursor_move(&cursors[i], job->ready[i], job->column[i].chunks);
			rows = cursors[i].left < rows ? cursors[i].left : rows;
		}
		if (r || !rows)
			return r;
		r = append_slice(job, cursors, rows);
		if (r)
			return r;
	}
}

int slices_make(struct table_job *job, int *ret_status)
{
	struct cursor *cursors;
	int r;

	*ret_status = 0;
	r = ready_columns(job, ret_status);
	if (r || *ret_status)
		return r;
	cursors = calloc(job->n_column, sizeof(*cursors));
	r = cursors ? cut_slices(job, cursors) : -ENOMEM;
	free(cursors);
	if (r)
		*ret_status = table_failed(r, "cannot find the rows of the columns");
	return 0;
}

void slices_free(struct table_job *job)
{
	uint64_t i;
	uint32_t k;

	for (i = 0; i < job->n_slice; i++)
		free(job->slice[i].chunk);
	free(job->slice);
	job->slice = NULL;
	job->n_slice = 0;
	for (k = 0; job->ready && k < job->n_column; k++)
		hm_column_unref(job->ready[k]);
	free(job->ready);
	job->ready = NULL;
}

struct sum_column slice_column(const struct table_job *job, const struct slice *slice,
			       uint32_t column)
{
	const struct hm_table_chunk *chunk = &slice->chunk[column];

	return (struct sum_column){
		.type = job->column[column].type.sum,
		.values = chunk->values,
		.first = chunk->offset,
		.valid = chunk->validity,
		.valid_first = chunk->offset,
	};
}
