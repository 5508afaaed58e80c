/* SPDX-License-Identifier: MIT */
/* Memory of this process, now and at its peak. */
#ifndef HETMAP_PROCESS_MEMORY_H
#define HETMAP_PROCESS_MEMORY_H

#include <stdint.h>

/* Bytes, as /proc/self/status counts them. */
struct process_memory {
	uint64_t peak; /* VmHWM */
	uint64_t file, anonymous, shared;
};

/* Present figures. */
struct process_memory process_memory_now(void);
/* Each figure the larger of both. */
void process_memory_most(struct process_memory *most, const struct process_memory *now);
/* Begins the peak anew. Returns 0 or a negative errno. */
int process_memory_reset_peak(void);
/*
 * Returns the peak less the memory that was there @before and less the @device bytes that the
 * device got: simulated and host memory is shared and counts in the figures, a driver's does
 * not. Negative if memory from before was given back first.
 */
int64_t process_memory_beside(const struct process_memory *before,
			      const struct process_memory *most, uint64_t device);

#endif
