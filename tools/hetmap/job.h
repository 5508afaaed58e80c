/* SPDX-License-Identifier: MIT */
/*
 * Job: shared by the `hetmap run` jobs. Opens the accelerator twice, to work in place and to
 * work on copies, measures both in turn, and reports.
 */
#ifndef HETMAP_JOB_H
#define HETMAP_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <hetmap/hetmap.h>

#include "raw_tokens.h"

struct job_options {
	const char *file;     /* NULL: not given */
	const char *device;   /* NULL: the job's default */
	const char *accel;    /* NULL: opencl:0, or else cpu */
	const char *policy;   /* a file of rules; NULL: everything is allowed */
	uint64_t window;      /* 0: the accelerator's limit */
	uint64_t load_window; /* load: of the files under way; 0: chosen */
	uint64_t ahead;       /* histogram: read ahead of the count; 0: not */
	uint64_t rounds;      /* 0: job_measure() chooses by their duration */
	uint64_t size;        /* size of each vector of saxpy; 0: not given */
	const char *pointer;  /* saxpy: the kind of memory; NULL: the device's */
	const char *advise;   /* the advice for it; NULL: none */
	bool prefetch;        /* it is prefetched, too */
	bool unplug;          /* saxpy: takes its device away */
	uint64_t unplug_at;   /* when: percent of the work */

	/* For tokens. */
	const char *const *files;
	unsigned int n_files;
	struct raw_tokens raw;
	uint32_t to;    /* type in the device; or TYPE_NOT_GIVEN */
	uint32_t order; /* enum hm_batches_order */
	bool ramp;
	bool read;
	bool documents; /* no block reaches into the next document */
	uint64_t block, batch, batches, seed;
	uint64_t vocab;  /* tokens are below it; 0: not given */
	uint64_t budget; /* for maps of the files; 0: the library's default */
};

/* One way to run a job. */
struct job_side {
	struct hm_accel *accel; /* NULL: there is no such way here */
	struct hm_queue *queue;
	struct hm_accel_info info;
	double seconds; /* median of the rounds; set by job_measure() */
};

/* Figures of one pass over the data. */
struct job_pass {
	uint64_t bytes_copied;
	uint32_t way_in; /* worst of its launches */
};

struct job {
	const struct job_options *options;
	struct job_side in_place;
	struct job_side copies;
	uint64_t window; /* longest range of one launch */

	char device[64];       /* where the bytes live */
	uint64_t bytes_loaded; /* copied there first, outside the launches */
	uint64_t rounds;
	uint64_t passes;      /* number of passes of both sides, first ones included */
	struct job_pass pass; /* the first in place */
	char *reason;         /* why it was a copy; NULL otherwise; free() */
	double first_seconds; /* the first pass in place, */
	long minor, major;    /* and its page faults */
};

/*
 * One pass over all the data by @side. Returns an exit status, a failure
 * reported already; 128 + n when signal n came.
 */
typedef int job_pass_function(void *user, struct job_side *side, struct job_pass *ret_pass);

/* The functions below return exit statuses; failures are reported already. */
int job_open(struct job *job, const struct job_options *options);
void job_close(struct job *job);

/* @remedy, which is to want less, where that helps against @r; else NULL. */
const char *job_less(int r, const char *remedy);

/* Builds @kernel for both sides. */
int job_build(struct job *job, struct hm_kernel *kernel);

/* The end of the launch that begins at @offset of @size bytes. */
uint64_t job_slice_end(const struct job *job, uint64_t offset, uint64_t size);

/* Waits for a launch of @bytes and adds its cost to @pass; drops @fence. */
int job_wait(struct hm_fence *fence, uint64_t bytes, struct job_pass *pass);
/* Likewise of one that was waited for already, with the result @r. */
int job_waited(struct hm_fence *fence, int r, uint64_t bytes, struct job_pass *pass);

/*
 * First passes of both sides, not counted in the times; @after_first, where
 * given, follows the one in place. Then rounds of both in turn: 9, more until
 * they took 0.3 seconds or are 101, fewer where 9 would take over 2 seconds.
 */
int job_measure(struct job *job, uint64_t bytes, job_pass_function *pass,
		int (*after_first)(void *user), void *user);

/* @bytes: of data that a pass reads and writes, for the rate. */
void job_print(const struct job *job, uint64_t bytes);
void job_json(const struct job *job, json_t *object);

/* How an enum hm_way_in is called in JSON; "" where nothing was launched. */
const char *job_way_json(uint32_t way);
/* How an enum hm_way_in is called in a few words. */
const char *job_way_name(uint32_t way);

/* The exit status of a failure of the library before any work was done. */
int job_status_of(int r);

double job_now(void);

/* The jobs. Each prints its result. */
int run_histogram(const struct job_options *options);
int run_load(const struct job_options *options);
int run_saxpy(const struct job_options *options);
int run_tokens(const struct job_options *options);

#endif
