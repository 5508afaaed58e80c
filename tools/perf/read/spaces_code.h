/* SPDX-License-Identifier: MIT */
/* Files that code was mapped from: one of a name each, as long as it was the same file. */
#ifndef HETMAP_SPACES_CODE_H
#define HETMAP_SPACES_CODE_H

#include <stddef.h>

#include "recording.h"
#include "table.h"

/* The key by which it is known again; the recording does not tell members that are 0. */
struct code_file {
	uint32_t pid; /* that had it first */
	uint64_t inode, generation;
	uint8_t n_build_id;
	uint8_t build_id[RECORDED_BUILD_ID];
	char name[];
};

/* The name of that mapping's file in @files, to be kept in ranges and places. NULL: no memory. */
const char *code_file_name(struct table *files, const struct recorded_event *event);

/* The known facts of the file of such a name. */
static inline const struct code_file *code_file_of(const char *name)
{
	return (const struct code_file *)(const void *)(name -
							offsetof(struct code_file, name));
}

#endif
