/* SPDX-License-Identifier: MIT */
/* What this process has of memory, and had at its most. */
#ifndef HETMAP_PROCESS_MEMORY_H
#define HETMAP_PROCESS_MEMORY_H

#include <stdint.h>

/* Bytes, as /proc/self/status counts them. */
struct process_memory {
	uint64_t peak; /* VmHWM */
	uint64_t file, anonymous, shared;
};

/* What it has now. */
struct process_memory process_memory_now(void);
/* Each figure the larger of both. */
void process_memory_most(struct process_memory *most, const struct process_memory *now);
/* From here on the peak is that of what comes. 0 or a negative errno. */
int process_memory_reset_peak(void);
/*
 * What it took at its most beside what was there @before and what the device got, of
 * @device bytes: simulated and host memory is shared and in the figures, a driver's is in
 * none. Below 0 where memory that was there before was given back first.
 */
int64_t process_memory_beside(const struct process_memory *before,
			      const struct process_memory *most, uint64_t device);

#endif
