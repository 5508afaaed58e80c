/* SPDX-License-Identifier: MIT */
/* The folder that a trace is in: see perf_data.h. */
#ifndef HETMAP_TRACE_FOLDER_H
#define HETMAP_TRACE_FOLDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "record.h"

#define TRACE_FOLDER "hetmap.trace" /* where none was named */

struct trace_folder {
	char *path;  /* absolute */
	char *aside; /* where the trace is that was there before; NULL: none is aside */
	int fd;      /* of the folder, with its lock: all files go there */
	int data_fd;
	bool begun; /* see trace_folder_begun() */
};

/*
 * Makes it. A trace or an empty folder that is there is put aside, but for a trace that another
 * process writes to; that, and anything else that is there, stays and is refused. A status; the
 * user was told.
 */
int trace_folder_create(const char *path, struct trace_folder *ret_folder);
/*
 * The new one has begun: a trace that was put aside becomes PATH.old, in the place of the one
 * before it, and an empty folder ends. Until then trace_folder_close() has it all as it was.
 */
void trace_folder_begun(struct trace_folder *folder);
/* PATH/name: free() it. */
char *trace_folder_file(const char *path, const char *name);
/* Writes about.json. 0 or a negative errno. */
int trace_folder_about(const struct trace_folder *folder, const json_t *about);
/*
 * @whole: it is one. Else its files stay if it has begun, as after a kill; if not, none does,
 * and the trace put aside comes back.
 */
void trace_folder_close(struct trace_folder *folder, bool whole);

#endif
