/* SPDX-License-Identifier: MIT */
/* File systems by the number that statfs(2) has for them: what is different about each. */
#ifndef HETMAP_FILE_SYSTEM_H
#define HETMAP_FILE_SYSTEM_H

#include <stdint.h>

#include <hetmap/file.h>

/* file_system.flags */
#define FS_NETWORK (1u << 0) /* another machine's: its errors come late, its pages age */
#define FS_SERVED (1u << 1)  /* a process's: each fault is a question to it */
#define FS_MEMORY (1u << 2)  /* is itself memory: nothing is read ahead, O_DIRECT is none */
/* A lock drops what the kernel has of the file, pages of maps, too [do_setlk() of fs/nfs]. */
#define FS_LOCK_DROPS (1u << 3)
/*
 * Its page cache has no large folios before Linux 6.16 [ext4: commit 7ac67301e82f; btrfs:
 * cc38d178ff33, as an experiment].
 */
#define FS_PAGES_BEFORE_6_16 (1u << 4)

struct file_system {
	uint32_t type; /* f_type; some are longer where they have a sign */
	const char *name;
	enum hm_coherence coherence;
	uint32_t flags;
};

/* NULL: it is not in the table, and taken for a local one. */
const struct file_system *file_system_find(uint32_t type);

#endif
