/* SPDX-License-Identifier: MIT */
/* A trace that is made up: as many faults as a benchmark wants, none of which happened. */
#ifndef HETMAP_MADE_TRACE_H
#define HETMAP_MADE_TRACE_H

#include <stdint.h>

#include "trace_folder.h"

/*
 * Writes @n faults into a folder @path, as hetmap trace records them: their beginnings with
 * call chains and their ends, of four threads on two CPUs, in rounds. The caller closes
 * the folder. *ret_bytes: of its records. 0 or a negative errno.
 */
int made_trace(const char *path, uint64_t n, struct trace_folder *ret_folder,
	       uint64_t *ret_bytes);

#endif
