/* SPDX-License-Identifier: MIT */
/*
 * Several files as one range of bytes. One of them is open at a time, whatever their number:
 * announced bytes are read even when their descriptor is closed.
 */
#ifndef HETMAP_READER_FILES_H
#define HETMAP_READER_FILES_H

#include <stdint.h>

struct files;

/* Looks at all files. Errors have the file's path in their text. */
int files_open(const char *const *paths, uint64_t n, struct files **ret_files);
/* NULL is allowed. */
void files_close(struct files *files);

uint64_t files_count(const struct files *files);
/* Beginning of file @i in the range; for @i of files_count(), the range's end. */
uint64_t files_start(const struct files *files, uint64_t i);

/* Reads all @length bytes at @offset, or fails with a text. */
int files_read(struct files *files, void *to, uint64_t length, uint64_t offset);
/* The same, if all of them are known to be in memory; an error if not. */
int files_read_now(struct files *files, void *to, uint64_t length, uint64_t offset);
/* Calls posix_fadvise(2) with @advice for a range, @step bytes at a time. */
void files_advise(const struct files *files, uint64_t offset, uint64_t length, uint64_t step,
		  int advice);

#endif
