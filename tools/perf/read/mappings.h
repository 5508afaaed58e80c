/* SPDX-License-Identifier: MIT */
/* The mappings of a process, with the kernel's figures of each [proc_pid_smaps(5)]. */
#ifndef HETMAP_MAPPINGS_H
#define HETMAP_MAPPINGS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../../runtime/base/smaps_mapping.h"

/* The kernel has no such line. */
#define MAPPING_UNKNOWN UINT64_MAX

struct mapping {
	struct smaps_mapping smaps;
	char rights[5]; /* "rw-s" */
	uint64_t offset;
	uint32_t major, minor; /* of the file system's device */
	uint64_t inode;
	const char *path;  /* as the kernel writes it; "": none */
	const char *flags; /* "VmFlags", with a blank before and behind each; "": not told */
	uint64_t anonymous;
	uint64_t swap;
	uint64_t dirty;
	uint64_t thp_eligible; /* 0, 1 or MAPPING_UNKNOWN */
};

struct mappings {
	char *text; /* the text that the strings are parts of */
	struct mapping *rows;
	size_t n; /* by address */
};

/* 0 or a negative errno: -ENOENT, -ESRCH the process is gone. mappings_free() it. */
int mappings_read(pid_t pid, struct mappings *ret_mappings);
void mappings_free(struct mappings *mappings);

/* The sums of [start, end). */
void mappings_sum(const struct mappings *mappings, uint64_t start, uint64_t end,
		  struct smaps_sum *ret_sum);

/* The first one that ends behind @address; NULL: there is none. */
const struct mapping *mappings_at(const struct mappings *mappings, uint64_t address);

#endif
