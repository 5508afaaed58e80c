/* SPDX-License-Identifier: MIT */
/* hetmap run load: shared by its parts. */
#ifndef HETMAP_RUN_LOAD_H
#define HETMAP_RUN_LOAD_H

#include <hetmap/load.h>

#include "checksum.h"
#include "common/process_memory.h"
#include "job.h"

/* Launches in flight: a further submission waits for the oldest. */
#define LOAD_LAUNCHES 256

struct run_load {
	struct job job;
	const char *path;
	char *shown; /* the same, fit for a terminal */
	struct hm_pieces *pieces;
	struct hm_pieces_info model;
	struct hm_load *load;
	struct hm_load_info info;

	struct hm_kernel *kernel;
	enum checksum checksum;
	uint32_t *sums;       /* sums of all pieces' parts, CHECKSUM_STRIDE words each */
	uint64_t n_sum;       /* slots */
	uint64_t *slot;       /* the first of each piece */
	uint64_t by_cpu;      /* bytes at pieces' ends that the accelerator can't take */
	uint64_t way_in_seen; /* launches */
	struct hm_fence *fence[LOAD_LAUNCHES];
	uint64_t launched, waited;
	int status; /* exit status of a launch that failed in the load; printed already */

	/* The layer that is being completed. */
	char *layer;
	uint64_t n_layer;
	uint64_t first, n; /* its pieces */
	void **address;    /* address of each piece */

	double compute_after; /* seconds until the last was done, behind the load */
	double check_seconds;
	struct process_memory before, most; /* most: of each kind, as sampled */
	bool own_peak;                      /* most.peak is the load's, not the process's */
	double sampled;                     /* when, last */
};

/*
 * Where the launch over a piece that begins with byte @at of @whole ends, of one that is
 * at @offset in its map. From there on its parts begin anew.
 */
uint64_t load_launch_end(const struct run_load *l, uint64_t offset, uint64_t at,
			 uint64_t whole);

/* ---- run_load_check.c ---- */

/*
 * Checks every piece's sums, and the bytes that no accelerator takes, against the files'
 * bytes.
 */
int load_verify(struct run_load *l);

/* ---- run_load_report.c ---- */

/* From here on the peak is the load's own. */
void load_memory_begin(struct run_load *l);
/* Every now and then. */
void load_memory_sample(struct run_load *l);

void load_print(const struct run_load *l);

#endif
