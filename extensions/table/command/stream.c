// SPDX-License-Identifier: MIT
/*
 * hetmap run table --window: batch after batch through bounded memory. All of the table goes
 * through it twice, in place and with copies; decoding is a part of either time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/command.h"
#include "common/text.h"
#include "table_job.h"

/* The batch as the one slice of the job. */
static int take_batch(struct table_job *job, struct hm_table_batches *batches,
		      const struct hm_table_batch *batch)
{
	struct slice *slice = job->slice;
	uint32_t i;
	int r = 0;

	slice->first_row = batch->first_row;
	slice->rows = batch->rows;
	for (i = 0; !r && i < job->n_column; i++) {
		slice->chunk[i].struct_size = sizeof(slice->chunk[i]);
		r = hm_table_batches_chunk(batches, i, &slice->chunk[i]);
	}
	return r ? table_failed(r, "cannot have the columns of a batch") : 0;
}

static void count_batch(struct table_job *job)
{
	uint32_t i;

	for (i = 0; i < job->n_column; i++)
		column_count(&job->column[i], &job->slice->chunk[i]);
	job->batches++;
	job->rows += job->slice->rows;
}

/* @check: NULL for the pass with copies, which adds up the same again. */
static int add_batch(struct table_job *job, struct job_side *side, struct check *check,
		     struct job_pass *ret_pass)
{
	int status;

	/* The numbers of groups stay: the second pass finds the same keys. */
	arena_reset(&job->arena);
	status = compute_prepare(job, job->slice->rows);
	if (!status)
		status = table_build(job);
	if (!status)
		status = compute_slices(job, side, ret_pass);
	if (!status && check)
		status = check_slices(check);
	return status;
}

static int next_failed(const struct table_job *job, int r)
{
	char *remedy;

	if (r != -ENOSPC)
		return table_failed(r, "no further batch");
	remedy = text_format("raise --window %llu", (unsigned long long)job->window);
	fail_library(STATUS_ENVIRONMENT, r, remedy, "the window is too small");
	free(remedy);
	return STATUS_ENVIRONMENT;
}

static int pass_batches(struct table_job *job, struct hm_table_batches *batches,
			struct job_side *side, struct check *check, struct job_pass *ret_pass)
{
	struct hm_table_batch batch = { .struct_size = sizeof(batch) };
	struct hm_table_info now = { .struct_size = sizeof(now) };
	uint64_t told = 0;
	double begin;
	int r, status = 0;

	while (!status) {
		begin = job_now();
		r = hm_table_batches_next(batches, &batch);
		if (r)
			return next_failed(job, r);
		if (check)
			job->decode_seconds += job_now() - begin;
		if (!batch.rows)
			return 0;
		status = take_batch(job, batches, &batch);
		if (!status)
			status = add_batch(job, side, check, ret_pass);
		if (!status && check)
			count_batch(job);
		if (!status && !hm_table_query(job->table, &now) && now.bytes_read > told) {
			progress_add(now.bytes_read - told);
			told = now.bytes_read;
		}
		if (!status && signals_pending())
			status = 128 + signals_pending();
	}
	return status;
}

/* The seconds of a pass, without those of the check. */
static int timed_pass(struct table_job *job, struct job_side *side, struct check *check,
		      struct job_pass *ret_pass)
{
	const struct hm_table_batches_desc desc = {
		.struct_size = sizeof(desc),
		.window = job->window,
	};
	struct hm_table_batches_info info = { .struct_size = sizeof(info) };
	double begin = job_now(), checked = job->check_seconds;
	struct hm_table_batches *batches;
	int r, status;

	compute_clear(job);
	r = hm_table_batches_create(job->table, &desc, &batches);
	if (r)
		return r == -EINVAL ? fail_library(STATUS_USAGE, r, NULL, "--window") :
				      table_failed(r, "no batches");
	status = pass_batches(job, batches, side, check, ret_pass);
	side->seconds = job_now() - begin - (job->check_seconds - checked);
	if (!hm_table_batches_query(batches, &info) && check) {
		job->window_peak = info.peak;
		job->window_rows = info.rows;
	}
	hm_table_batches_unref(batches);
	return status;
}

static int first_pass(struct table_job *job)
{
	struct rusage before, after;
	struct check *check;
	int status;

	status = check_begin(job, &check);
	if (status)
		return status;
	progress_begin("in place", job->info.stored);
	getrusage(RUSAGE_SELF, &before);
	status = timed_pass(job, &job->job.in_place, check, &job->job.pass);
	getrusage(RUSAGE_SELF, &after);
	progress_end();
	job->job.minor = after.ru_minflt - before.ru_minflt;
	job->job.major = after.ru_majflt - before.ru_majflt;
	job->job.first_seconds = job->job.in_place.seconds;
	job->job.rounds = 1;
	if (!status && job->totals)
		status = check_compare(check);
	check_end(check);
	return status;
}

static int second_pass(struct table_job *job)
{
	uint64_t bytes = job->bytes;
	struct job_pass cost = { 0 };
	int status;

	if (!job->job.copies.accel || !job->totals)
		return 0;
	progress_begin("with copies", job->info.stored);
	status = timed_pass(job, &job->job.copies, NULL, &cost);
	progress_end();
	job->bytes = bytes;
	/* "cpu" has nowhere to copy to: there is nothing to compare with. */
	if (!status && cost.way_in != HM_WAY_COPY)
		job->job.copies.seconds = 0;
	return status;
}

int stream_run(struct table_job *job)
{
	struct hm_table_info info = { .struct_size = sizeof(info) };
	int status;

	job->streamed = true;
	job->window = job->options->window ? job->options->window : WINDOW_CHOSEN;
	job->slice = calloc(1, sizeof(*job->slice));
	if (job->slice)
		job->slice->chunk = calloc(job->n_column, sizeof(*job->slice->chunk));
	if (!job->slice || !job->slice->chunk)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for a batch");
	job->n_slice = 1;
	status = first_pass(job);
	/* Before the second pass reads and decodes all of it once more. */
	if (!status && !hm_table_query(job->table, &info))
		job->info = info;
	return status ? status : second_pass(job);
}
