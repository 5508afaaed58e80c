/* SPDX-License-Identifier: MIT */
/* Properties of file systems, by the f_type that statfs(2) returns for them. */
#ifndef HETMAP_FILE_SYSTEM_H
#define HETMAP_FILE_SYSTEM_H

#include <stdint.h>

#include <hetmap/file.h>

/* file_system.flags */
#define FS_NETWORK (1u << 0) /* on another machine: its errors come late, its pages go stale */
#define FS_SERVED (1u << 1)  /* served by a process: each fault is a request to it */
#define FS_MEMORY (1u << 2)  /* is itself memory: no readahead, no O_DIRECT */
/*
 * A lock drops the kernel's cached pages of the file, those of maps, too [do_setlk() of fs/nfs].
 */
#define FS_LOCK_DROPS (1u << 3)
/*
 * The page cache has no large folios before Linux 6.16 [ext4: commit 7ac67301e82f; btrfs:
 * cc38d178ff33, as an experiment].
 */
#define FS_PAGES_BEFORE_6_16 (1u << 4)

struct file_system {
	uint32_t type; /* f_type, as 32 bits: some would be sign-extended */
	const char *name;
	enum hm_coherence coherence;
	uint32_t flags;
};

/* Returns NULL where the table has no row: the file system counts as a local one. */
const struct file_system *file_system_find(uint32_t type);

#endif
