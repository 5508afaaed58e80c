// SPDX-License-Identifier: MIT
/*
 * hetmap run table: a grouped sum on an accelerator, over columns in place, checked by the CPU,
 * beside the same with copies.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"
#include "table_job.h"

/*
 * A pass leaves the totals of its side. The parts are the same each time, and so is the order of
 * all additions: each pass must give the bits of the first one, which is checked.
 */
static int table_pass(void *user, struct job_side *side, struct job_pass *ret_pass)
{
	struct table_job *job = user;
	uint64_t sum;
	int status;

	job->bytes = 0;
	compute_clear(job);
	status = compute_slices(job, side, ret_pass);
	if (status)
		return status;
	sum = compute_checksum(job);
	if (!job->passed)
		job->checksum = sum;
	job->passed = true;
	return sum == job->checksum ?
		       0 :
		       fail(STATUS_WRONG, EIO,
			    "if a program wrote to the file meanwhile: run it again when none "
			    "does",
			    "wrong result: the sums of %s differ from those of its first pass",
			    side->info.name);
}

/* Checks the totals of the first pass in place. */
static int check_first(void *user)
{
	struct table_job *job = user;
	struct check *check;
	int status;

	progress_begin("checking on the CPU", job->rows);
	status = check_begin(job, &check);
	if (status)
		return status;
	status = check_slices(check);
	if (!status)
		status = check_compare(check);
	check_end(check);
	progress_end();
	return status;
}

/* How the accelerator reaches the first column, and why it copies, if it does. */
static int look_at_way(struct table_job *job)
{
	const struct hm_table_chunk *chunk;
	struct hm_pointer_info info;
	uint32_t way;
	uint64_t i;
	int r;

	for (i = 0; i < job->n_slice; i++) {
		chunk = &job->slice[i].chunk[job->n_column - 1];
		if (chunk->rows && chunk->values)
			break;
	}
	if (i == job->n_slice)
		return 0;
	r = hm_pointer_find(chunk->values, &info);
	if (!r)
		r = hm_accel_way_in(job->job.in_place.accel, info.base, 1, &way);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL,
				    "the accelerator can't reach the columns");
	if (way == HM_WAY_COPY)
		job->job.reason = strdup(hm_warning());
	return 0;
}

/*
 * A column where it lies is a map of the file: a file that is cut off meanwhile is told. The
 * compiler inside a driver installs handlers of its own: before ours.
 */
static void watch_files(struct table_job *job)
{
	const char *name = job->options->n_files == 1 ? job->options->files[0] :
							"one of the files";

	job->watched = open(job->options->files[0], O_RDONLY | O_CLOEXEC);
	if (job->watched >= 0)
		lost_watch(job->watched, name);
}

int table_build(struct table_job *job)
{
	struct hm_kernel *kernel;
	struct sum_launch launch;
	int r, status = 0;
	uint32_t i;

	if (job->watched >= 0)
		return 0;
	for (i = 0; job->n_slice && i <= job->plan.n_value && !status; i++) {
		launch = compute_launch(job, &job->slice[0], i);
		r = sum_kernel_find(job->kernels, &launch, &kernel);
		status = r ? fail_library(STATUS_ENVIRONMENT, r, NULL, "no kernel") :
			     job_build(&job->job, kernel);
	}
	if (!status)
		watch_files(job);
	return status;
}

static int run_whole(struct table_job *job)
{
	int r, status;

	status = compute_prepare(job, job->rows);
	if (!status)
		status = table_build(job);
	if (!status)
		status = look_at_way(job);
	r = hm_table_query(job->table, &job->info);
	if (!status && r)
		status = table_failed(r, "cannot describe the table");
	/* Totals of the last pass are those that are shown; each pass gives the same. */
	if (!status)
		status = job_measure(&job->job, compute_bytes(job), table_pass, check_first,
				     job);
	return status;
}

/* ---- all of it ---- */

static int open_device(struct table_job *job)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	int r;

	r = hm_device_open(job->options->device, &job->device);
	if (!r)
		r = hm_device_query(job->device, &info);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, "hetmap devices lists the devices",
				    "cannot open the device");
	snprintf(job->job.device, sizeof(job->job.device), "%s", info.name);
	if (!(info.caps & HM_CAP_CREATE))
		return fail(
			STATUS_USAGE, EOPNOTSUPP, "--device host",
			"run: table decodes into a device's memory, and device %s makes none",
			info.name);
	job->arena.device = job->device;
	return 0;
}

/* Decoded columns that don't fit in memory go through a window. */
static int run_somehow(struct table_job *job)
{
	char window[TEXT_MAX];
	int r, status;

	if (job->options->window)
		return stream_run(job);
	r = slices_make(job, &status);
	if (r != -EFBIG)
		return status ? status : run_whole(job);
	slices_free(job);
	remark("the columns don't fit in memory: they go through a window of %s (--window)",
	       text_bytes(WINDOW_CHOSEN, window));
	return stream_run(job);
}

static int run_job(struct table_job *job)
{
	char device[sizeof(job->job.device)];
	int r, status;

	/* job_open() clears its struct. */
	memcpy(device, job->job.device, sizeof(device));
	status = job_open(&job->job, &job->job_options);
	if (status)
		return status;
	memcpy(job->job.device, device, sizeof(device));
	job->info.struct_size = sizeof(job->info);
	r = hm_table_query(job->table, &job->info);
	if (r)
		return table_failed(r, "cannot describe the table");
	status = run_somehow(job);
	lost_watch(-1, NULL);
	if (job->watched >= 0)
		close(job->watched);
	return status;
}

int table_run(const struct table_options *options)
{
	struct table_job job = {
		.options = options,
		.job_options = { .device = options->device,
				 .accel = options->accel,
				 .rounds = options->rounds },
		.plan = { .key = -1, .filter = -1 },
		.watched = -1,
	};
	int status;

	status = open_device(&job);
	if (!status)
		status = plan_make(&job);
	if (!status) {
		status = run_job(&job);
		progress_end();
		if (!status)
			report_table(&job);
		job_close(&job.job);
	}
	slices_free(&job);
	compute_end(&job);
	arena_end(&job.arena);
	plan_end(&job);
	hm_device_unref(job.device);
	return status;
}
