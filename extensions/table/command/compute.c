// SPDX-License-Identifier: MIT
/*
 * hetmap run table: the launches. Each adds one column's rows to the tables of its parts; the
 * parts are added up here, in their order, so that a result does not change from pass to pass.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/input.h"
#include "common/text.h"
#include "table_job.h"

/* ---- keys ---- */

static bool is_integer(const struct column_type *type)
{
	return type->sum && !type->layout && !sum_type_is_float(type->sum);
}

/* The least and the greatest key. *@ret_any: there is one. */
static void find_range(const struct table_job *job, uint32_t column, int64_t *ret_least,
		       int64_t *ret_most, bool *ret_any)
{
	const enum sum_type type = job->column[column].type.sum;
	int64_t least = INT64_MAX, most = INT64_MIN, value;
	const struct hm_table_chunk *chunk;
	const unsigned char *valid;
	uint64_t i, k, at;
	bool any = false;

	for (i = 0; i < job->n_slice; i++) {
		chunk = &job->slice[i].chunk[column];
		valid = chunk->validity;
		for (k = 0; k < chunk->rows; k++) {
			at = chunk->offset + k;
			if (valid && !(valid[at >> 3] >> (at & 7) & 1))
				continue;
			value = key_number(type, chunk->values, at);
			least = value < least ? value : least;
			most = value > most ? value : most;
			any = true;
		}
	}
	*ret_least = least;
	*ret_most = most;
	*ret_any = any;
}

/*
 * Keys that are numbers near each other are numbers of groups themselves. Of a table that comes
 * batch by batch the range is not known before its end, except that of a short type.
 */
static int choose_direct(struct table_job *job)
{
	const struct job_column *column = &job->column[job->plan.key];
	const enum sum_type type = column->type.sum;
	int64_t least = 0, most = 0;
	bool any = true;

	if (column->index || !is_integer(&column->type) || job->keys.span)
		return 0;
	if (type == SUM_BIT) {
		most = 1;
	} else if (type == SUM_U8 || type == SUM_I8) {
		least = type == SUM_U8 ? 0 : INT8_MIN;
		most = least + 255;
	} else if (job->streamed || type == SUM_U64) {
		return 0;
	} else {
		find_range(job, (uint32_t)job->plan.key, &least, &most, &any);
	}
	if (!any || (uint64_t)most - (uint64_t)least >= SPAN_DIRECT)
		return 0;
	return keys_direct(&job->keys, least, most);
}

/* Offsets of a broken file must not lead out of the column. */
static int check_texts(const struct table_job *job, int number)
{
	const struct job_column *column;
	const struct hm_table_chunk *chunk;
	char *shown;
	uint64_t i;
	int r = 0;

	if (number < 0)
		return 0;
	column = &job->column[number];
	for (i = 0; !r && i < job->n_slice; i++) {
		chunk = &job->slice[i].chunk[number];
		if (chunk->dictionary)
			r = key_texts_check(column->type.layout, chunk->dictionary, 0,
					    (uint64_t)chunk->dictionary->length);
		else
			r = key_texts_check(column->type.layout, chunk->array,
					    chunk->offset - (uint64_t)chunk->array->offset,
					    chunk->rows);
	}
	if (!r)
		return 0;
	shown = text_escape(column->name);
	fail(STATUS_WRONG, r, FILE_CUT, "run: column '%s' has texts outside of its bytes",
	     shown);
	free(shown);
	return STATUS_WRONG;
}

static int bind_keys(struct table_job *job)
{
	const uint32_t column = (uint32_t)job->plan.key;
	uint64_t i;
	int r;

	if (job->plan.key < 0)
		return 0;
	job->keys.type = job->column[column].type;
	job->keys.index = job->column[column].index;
	job->keys.arena = &job->arena;
	r = choose_direct(job);
	for (i = 0; !r && i < job->n_slice; i++)
		r = keys_bind(&job->keys, &job->slice[i].chunk[column], &job->slice[i].key);
	return r;
}

/* All rows are of one group from now on. */
static void drop_key(struct table_job *job)
{
	uint64_t i;

	remark("column '%s' has more than %u values: the rows are one group; --group-by names "
	       "another column",
	       job->column[job->plan.key].name, GROUPS_MOST);
	key_set_end(&job->keys.set);
	job->plan.key = -1;
	for (i = 0; i < job->n_slice; i++)
		job->slice[i].key = (struct sum_keys){ 0 };
}

static int key_failed(struct table_job *job, int r)
{
	char *shown;

	/* The command drops a key that it chose itself, as long as no batch was summed by it. */
	if (r == -E2BIG && job->plan.key_chosen && !job->batches) {
		drop_key(job);
		return 0;
	}
	if (r != -E2BIG)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "no memory for the groups");
	shown = text_escape(job->column[job->plan.key].name);
	fail(STATUS_USAGE, r, "group by a column with fewer values, or by none: --group-by ''",
	     "run: column '%s' has more than %u values", shown, GROUPS_MOST);
	free(shown);
	return STATUS_USAGE;
}

/* ---- room ---- */

static uint32_t groups_of(const struct table_job *job)
{
	return job->plan.key < 0 ? 1 : job->keys.set.n;
}

/* One more than groups, the first one: for rows without a key. */
static int grow_totals(struct table_job *job)
{
	uint32_t wanted = groups_of(job) + 1, room, i;
	struct totals *totals;
	void *grown;

	if (!job->totals) {
		job->totals = calloc(job->plan.n_value + 1, sizeof(*job->totals));
		if (!job->totals)
			return -ENOMEM;
	}
	if (wanted <= job->groups_room)
		return 0;
	room = wanted < 64 ? 64 : 2 * wanted;
	for (i = 0; i <= job->plan.n_value; i++) {
		totals = &job->totals[i];
		grown = realloc(totals->sums, room * sizeof(*totals->sums));
		if (!grown)
			return -ENOMEM;
		totals->sums = grown;
		grown = realloc(totals->counts, room * sizeof(*totals->counts));
		if (!grown)
			return -ENOMEM;
		totals->counts = grown;
		memset(totals->sums + job->groups_room, 0,
		       (room - job->groups_room) * sizeof(*totals->sums));
		memset(totals->counts + job->groups_room, 0,
		       (room - job->groups_room) * sizeof(*totals->counts));
	}
	job->groups_room = room;
	return 0;
}

static uint64_t cells_of(const struct sum_tables *tables)
{
	return ((uint64_t)tables->groups + 1) * tables->parts;
}

/* The tables of a launch, which both sides use. */
static int grow_tables(struct table_job *job, uint64_t rows)
{
	struct sum_tables *tables = &job->tables;
	int r;

	tables->groups = groups_of(job);
	tables->parts = sum_parts(&job->job.in_place.info, tables->groups, rows);
	if (cells_of(tables) <= job->cells_room)
		return 0;
	hm_free(tables->sums);
	hm_free(tables->counts);
	tables->sums = NULL;
	tables->counts = NULL;
	job->cells_room = 2 * cells_of(tables);
	r = hm_alloc(job->device, job->cells_room * sizeof(*tables->sums), HM_READ | HM_WRITE,
		     &tables->sums);
	if (!r)
		r = hm_alloc(job->device, job->cells_room * sizeof(*tables->counts),
			     HM_READ | HM_WRITE, &tables->counts);
	return r;
}

int compute_prepare(struct table_job *job, uint64_t rows)
{
	double begin = job_now();
	uint64_t i;
	int r, status;

	status = check_texts(job, job->plan.key);
	if (!status)
		status = check_texts(job, job->plan.filter);
	if (status)
		return status;
	r = bind_keys(job);
	if (r) {
		status = key_failed(job, r);
		if (status)
			return status;
	}
	for (i = 0; i < job->n_slice; i++) {
		status = filter_bind(job, &job->slice[i]);
		if (status)
			return status;
		if (signals_pending())
			return 128 + signals_pending();
	}
	job->key_seconds += job_now() - begin;
	r = grow_totals(job);
	if (!r)
		r = grow_tables(job, rows);
	if (!r && !job->nothing)
		r = hm_alloc(job->device, 8, HM_READ | HM_WRITE, &job->nothing);
	if (!r && !job->kernels)
		r = sum_kernels_create(&job->job.in_place.info, &job->kernels);
	return r ? fail_library(STATUS_ENVIRONMENT, r, NULL, "no memory for the sums") : 0;
}

/* ---- launches ---- */

static int launch_failed(int r)
{
	if (r == -EOPNOTSUPP)
		return fail_library(STATUS_ENVIRONMENT, r, "--accel cpu, or --accel opencl:0",
				    "cannot run the kernel there");
	return fail_library(STATUS_ENVIRONMENT, r,
			    r == -ENOEXEC ? "try --accel cpu, which needs no compiler" : NULL,
			    "cannot launch the kernel");
}

/* Bytes that a row takes in a column. */
static uint64_t row_bits(const struct sum_column *column)
{
	return column->type ? sum_type_bits(column->type) + (column->valid ? 1 : 0) : 0;
}

static uint64_t launch_bytes(const struct sum_launch *launch)
{
	return launch->rows *
	       (row_bits(&launch->keys.column) + row_bits(&launch->value) +
		row_bits(&launch->filtered)) /
	       8;
}

/* The rows of a slice, in as many launches as windows of the accelerator ask for. */
static int launch_slice(struct table_job *job, struct job_side *side, struct sum_launch *launch,
			uint64_t rows, struct job_pass *ret_pass)
{
	struct hm_kernel *kernel;
	struct hm_fence *fence;
	int r, status;

	while (rows) {
		r = sum_rows_most(&side->info, launch, rows, &launch->rows);
		if (!r)
			r = sum_kernel_find(job->kernels, launch, &kernel);
		if (!r)
			r = sum_launch(side->queue, &side->info, kernel, launch, &fence);
		if (r)
			return launch_failed(r);
		job->bytes += launch_bytes(launch);
		status = job_wait(fence, launch_bytes(launch), ret_pass);
		if (status)
			return status;
		rows -= launch->rows;
		sum_column_skip(&launch->keys.column, launch->rows);
		sum_column_skip(&launch->value, launch->rows);
		sum_column_skip(&launch->filtered, launch->rows);
	}
	return 0;
}

/* Adds the parts' tables to the totals of a value. */
static void add_parts(struct table_job *job, uint32_t value, bool is_float)
{
	const struct sum_tables *tables = &job->tables;
	struct totals *totals = &job->totals[value];
	const uint32_t width = tables->groups + 1;
	const union sum_limit *sums;
	const uint64_t *counts;
	uint32_t part, i, to;

	for (part = 0; part < tables->parts; part++) {
		sums = tables->sums + (uint64_t)part * width;
		counts = tables->counts + (uint64_t)part * width;
		for (i = 0; i < width; i++) {
			to = i == tables->groups ? 0 : i + 1;
			if (is_float)
				totals->sums[to].f64 += sums[i].f64;
			else
				totals->sums[to].u64 += sums[i].u64;
			totals->counts[to] += counts[i];
		}
	}
}

struct sum_launch compute_launch(const struct table_job *job, const struct slice *slice,
				 uint32_t value)
{
	struct sum_launch launch = {
		.keys = slice->key,
		.filtered = slice->filtered,
		.filter = slice->test,
		.tables = job->tables,
		.nothing = job->nothing,
	};

	if (value < job->plan.n_value)
		launch.value = slice_column(job, slice, job->plan.value[value]);
	return launch;
}

/* One column, or with value == n_value the number of rows. */
static int compute_value(struct table_job *job, struct job_side *side, uint32_t value,
			 struct job_pass *ret_pass)
{
	const bool rows_only = value == job->plan.n_value;
	const uint32_t column = rows_only ? 0 : job->plan.value[value];
	struct sum_tables *tables = &job->tables;
	struct sum_launch launch;
	int status = 0;
	uint64_t i;

	memset(tables->sums, 0, cells_of(tables) * sizeof(*tables->sums));
	memset(tables->counts, 0, cells_of(tables) * sizeof(*tables->counts));
	for (i = 0; i < job->n_slice && !status; i++) {
		launch = compute_launch(job, &job->slice[i], value);
		/* Without memory for its values a slice has none. */
		if (!launch.value.type || launch.value.values)
			status = launch_slice(job, side, &launch, job->slice[i].rows, ret_pass);
	}
	if (!status)
		add_parts(job, value,
			  !rows_only && sum_type_is_float(job->column[column].type.sum));
	return status;
}

int compute_slices(struct table_job *job, struct job_side *side, struct job_pass *ret_pass)
{
	int status = 0;
	uint32_t i;

	for (i = 0; i <= job->plan.n_value && !status; i++)
		status = compute_value(job, side, i, ret_pass);
	return status;
}

uint64_t compute_bytes(const struct table_job *job)
{
	struct sum_launch launch;
	uint64_t bytes = 0, i;
	uint32_t v;

	for (i = 0; i < job->n_slice; i++)
		for (v = 0; v <= job->plan.n_value; v++) {
			launch = compute_launch(job, &job->slice[i], v);
			launch.rows = job->slice[i].rows;
			bytes += launch_bytes(&launch);
		}
	return bytes;
}

/* FNV-1a by words. */
static uint64_t add_checksum(uint64_t sum, const uint64_t *words, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		sum = (sum ^ words[i]) * 0x100000001b3;
	return sum;
}

uint64_t compute_checksum(const struct table_job *job)
{
	const uint32_t n = groups_of(job) + 1;
	uint64_t sum = 0xcbf29ce484222325;
	uint32_t i;

	for (i = 0; i <= job->plan.n_value; i++) {
		sum = add_checksum(sum, &job->totals[i].sums->u64, n);
		sum = add_checksum(sum, job->totals[i].counts, n);
	}
	return sum;
}

void compute_clear(struct table_job *job)
{
	uint32_t i;

	for (i = 0; job->totals && i <= job->plan.n_value; i++) {
		memset(job->totals[i].sums, 0, job->groups_room * sizeof(*job->totals[i].sums));
		memset(job->totals[i].counts, 0,
		       job->groups_room * sizeof(*job->totals[i].counts));
	}
}

void compute_end(struct table_job *job)
{
	uint32_t i;

	for (i = 0; job->totals && i <= job->plan.n_value; i++) {
		free(job->totals[i].sums);
		free(job->totals[i].counts);
	}
	free(job->totals);
	job->totals = NULL;
	hm_free(job->tables.sums);
	hm_free(job->tables.counts);
	hm_free(job->nothing);
	sum_kernels_free(job->kernels);
	key_set_end(&job->keys.set);
}
