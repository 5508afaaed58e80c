/* SPDX-License-Identifier: MIT */
/* What is known of an open file, asked of the kernel. */
#ifndef HETMAP_READER_FACTS_H
#define HETMAP_READER_FACTS_H

#include <sys/stat.h>

#include "choose.h"
#include "core.h"

/* "0x5a3c69f0", for a file system without a name here. */
#define FS_NAME_MAX 16

/*
 * Of the file at @fd, whose range has @length bytes; @whole, a map of all of it, or NULL, is
 * what a sample is taken by. @fs_name is where facts->fs may point to. What can't be found
 * out is as unknown as it is: nothing here fails.
 */
void facts_find(int fd, const struct stat *st, uint64_t length, const struct hm_map *whole,
		char fs_name[FS_NAME_MAX], struct reader_facts *ret_facts);

/* What the process may have: MemTotal, or the least memory.max above it, if that is less. */
uint64_t facts_ram(void);

/* Of @length bytes at @offset of @whole: are all resident? Where it can't be told: no. */
bool facts_are_resident(const struct hm_map *whole, uint64_t offset, uint64_t length);

#endif
