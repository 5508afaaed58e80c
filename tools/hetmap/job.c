// SPDX-License-Identifier: MIT
/* Shared by the jobs: accelerators, launches, measuring. */
#include "job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "common/command.h"

#define ROUNDS_MAX 1000 /* saxpy's numbers stay exact up to there */
#define ROUNDS_CHOSEN 9
#define SECONDS_CHOSEN 2.0
/* Nine rounds of a small file are noise: more, until there is that much of them. */
#define ROUNDS_CHOSEN_MAX 101
#define SECONDS_ENOUGH 0.3

/*
 * A launch covers no more than this, so that progress moves, Ctrl-C is heard
 * and the 32-bit counters of a kernel can't overflow.
 */
#define SLICE (256ull << 20)
/* An engine resets work of more than two seconds: short enough on a slow machine, too. */
#define ENGINE_SLICE (16ull << 20)

double job_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int job_status_of(int r)
{
	switch (-r) {
	case ENOENT:
	case ENOTDIR:
	case EISDIR:
	case ELOOP:
	case ENAMETOOLONG:
		return STATUS_USAGE;
	default:
		return STATUS_ENVIRONMENT;
	}
}

/* ---- opening ---- */

static int open_side(struct job_side *side, const char *name, uint32_t flags, uint64_t window)
{
	struct hm_accel_desc desc = {
		.struct_size = sizeof(desc),
		.flags = flags,
		.window = window,
	};
	int r;

	r = hm_accel_open(name, &desc, &side->accel);
	if (r)
		return r;
	side->info.struct_size = sizeof(side->info);
	r = hm_accel_query(side->accel, &side->info);
	if (!r)
		r = hm_queue_create(side->accel, 0, &side->queue);
	if (r) {
		hm_accel_unref(side->accel);
		side->accel = NULL;
	}
	return r;
}

static void close_side(struct job_side *side)
{
	hm_queue_unref(side->queue);
	hm_accel_unref(side->accel);
	side->queue = NULL;
	side->accel = NULL;
}

/* The one that was named, or else the best there is, and a remark on it. */
static int open_in_place(struct job *job)
{
	const char *name = job->options->accel;
	char *reason;
	int r;

	if (name) {
		r = open_side(&job->in_place, name, 0, job->options->window);
		if (r)
			return fail_library(STATUS_ENVIRONMENT, r,
					    r == -ENODEV ?
						    "hetmap devices lists the accelerators; "
						    "hetmap doctor says why one is missing" :
						    NULL,
					    "cannot open the accelerator");
		return 0;
	}
	r = open_side(&job->in_place, "opencl:0", 0, job->options->window);
	if (!r)
		return 0;
	/* The CPU takes the place of a missing device, and not of one that the policy refused. */
	if (output.refused)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot open the accelerator");
	reason = strdup(hm_errmsg());
	if (r == -ENODEV)
		remark("no OpenCL device here: running on the CPU (see hetmap doctor)");
	else
		remark("OpenCL can't be used: running on the CPU (%s)", reason ? reason : "");
	free(reason);
	r = open_side(&job->in_place, "cpu", 0, job->options->window);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot use the CPU");
	return 0;
}

int job_open(struct job *job, const struct job_options *options)
{
	int status;

	memset(job, 0, sizeof(*job));
	job->options = options;
	status = open_in_place(job);
	if (status)
		return status;
	/* A side that can't be opened is left out of the report: no failure. */
	open_side(&job->copies, job->in_place.info.name, HM_ACCEL_FORCE_COPY, options->window);
	job->window = job->in_place.info.window;
	if (job->copies.accel && job->copies.info.window < job->window)
		job->window = job->copies.info.window;
	return 0;
}

void job_close(struct job *job)
{
	close_side(&job->copies);
	close_side(&job->in_place);
	free(job->reason);
	job->reason = NULL;
}

int job_build(struct job *job, struct hm_kernel *kernel)
{
	int r;

	r = hm_kernel_build(kernel, job->in_place.accel);
	if (!r && job->copies.accel)
		r = hm_kernel_build(kernel, job->copies.accel);
	if (r == -EOPNOTSUPP)
		return fail_library(STATUS_ENVIRONMENT, r, "--accel cpu, or --accel opencl:0",
				    "cannot run the kernel there");
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r,
				    "try --accel cpu, which needs no compiler",
				    "cannot build the kernel");
	return 0;
}

const char *job_less(int r, const char *remedy)
{
	return r == -ENOMEM || r == -ENOSPC || r == -EFBIG ? remedy : NULL;
}

/* ---- launching ---- */

uint64_t job_slice_end(const struct job *job, uint64_t offset, uint64_t size)
{
	uint64_t end = offset;

	end += job->in_place.info.kind == HM_ACCEL_ENGINE ? ENGINE_SLICE : SLICE;
	/* A launch may not reach across two windows, which begin at multiples. */
	if (job->window && end > offset - offset % job->window + job->window)
		end = offset - offset % job->window + job->window;
	return end < size ? end : size;
}

int job_wait(struct hm_fence *fence, uint64_t bytes, struct job_pass *pass)
{
	return job_waited(fence, hm_fence_wait(fence, UINT64_MAX), bytes, pass);
}

int job_waited(struct hm_fence *fence, int r, uint64_t bytes, struct job_pass *pass)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };

	if (!r)
		r = hm_fence_query(fence, &info);
	hm_fence_unref(fence);
	if (r)
		return fail_library(STATUS_WRONG, r, NULL, "the accelerator failed under way");
	pass->bytes_copied += info.bytes_copied;
	if (info.way_in > pass->way_in)
		pass->way_in = info.way_in;
	progress_add(bytes);
	return signals_pending() ? 128 + signals_pending() : 0;
}

/* ---- measuring ---- */

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, uint64_t n)
{
	qsort(values, n, sizeof(*values), compare_doubles);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static int timed(job_pass_function *pass, void *user, struct job_side *side,
		 double *ret_seconds, struct job_pass *ret_pass)
{
	struct job_pass cost = { 0 };
	double begin = job_now();
	int status;

	status = pass(user, side, &cost);
	if (status)
		return status;
	*ret_seconds = job_now() - begin;
	*ret_pass = cost;
	return 0;
}

/* By the duration of a round. An odd number, so that the median is one of them. */
static uint64_t choose_rounds(double seconds)
{
	uint64_t n = ROUNDS_CHOSEN;

	while (n > 1 && (double)n * seconds > SECONDS_CHOSEN)
		n -= 2;
	return n;
}

static int measure_rounds(struct job *job, uint64_t bytes, job_pass_function *pass, void *user)
{
	uint64_t n = job->options->rounds, most = n ? n : ROUNDS_CHOSEN_MAX, i;
	double *in_place, *with_copies, begin = job_now();
	bool choose = !n;
	struct job_pass cost;
	int status = 0;

	in_place = calloc(most, 2 * sizeof(*in_place));
	if (!in_place)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory for the times");
	with_copies = in_place + most;
	for (i = 0; !n || i < n; i++) {
		status = timed(pass, user, &job->in_place, &in_place[i], &cost);
		if (!status && job->copies.accel)
			status = timed(pass, user, &job->copies, &with_copies[i], &cost);
		if (status)
			goto out;
		if (!n)
			n = choose_rounds(in_place[0] + with_copies[0]);
		/* Still an odd number. */
		if (choose && i + 1 == n && n + 2 <= most && job_now() - begin < SECONDS_ENOUGH)
			n += 2;
		if (!i)
			progress_begin("measuring",
				       bytes * (n - 1) * (job->copies.accel ? 2 : 1));
	}
	job->rounds = n;
	job->passes += n * (job->copies.accel ? 2 : 1);
	job->in_place.seconds = median(in_place, n);
	job->copies.seconds = median(with_copies, n);
out:
	free(in_place);
	return status;
}

int job_measure(struct job *job, uint64_t bytes, job_pass_function *pass,
		int (*after_first)(void *user), void *user)
{
	struct rusage before, after;
	struct job_pass cost;
	double seconds;
	int status;

	progress_begin("first pass", bytes * (job->copies.accel ? 2 : 1));
	getrusage(RUSAGE_SELF, &before);
	status = timed(pass, user, &job->in_place, &seconds, &job->pass);
	getrusage(RUSAGE_SELF, &after);
	if (status)
		goto out;
	job->first_seconds = seconds;
	job->minor = after.ru_minflt - before.ru_minflt;
	job->major = after.ru_majflt - before.ru_majflt;
	status = after_first ? after_first(user) : 0;
	if (!status && job->copies.accel)
		status = timed(pass, user, &job->copies, &seconds, &cost);
	if (status)
		goto out;
	job->passes = job->copies.accel ? 2 : 1;
	/* "cpu" has nowhere to copy to: there is nothing to compare with. */
	if (job->copies.accel && cost.way_in != HM_WAY_COPY)
		close_side(&job->copies);

	status = measure_rounds(job, bytes, pass, user);
out:
	progress_end();
	return status;
}
