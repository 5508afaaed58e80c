/* SPDX-License-Identifier: MIT */
/* hetmap run saxpy --pointer: any pointer of the process, see run_pointer.c. */
#ifndef HETMAP_RUN_POINTER_H
#define HETMAP_RUN_POINTER_H

#include "job.h"

#define POINTER_KINDS "malloc, stack, file or map"
#define POINTER_ADVICES                                                      \
	"accessed-by, read-mostly, prefer-device, prefer-host, granule-4K, " \
	"granule-64K or granule-2M"

bool pointer_kind_known(const char *name);
bool pointer_advice_known(const char *name);

/* Returns an exit status, and has printed the result, or the failure. */
int run_pointer(const struct job_options *options);

#endif
