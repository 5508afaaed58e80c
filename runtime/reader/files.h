/* SPDX-License-Identifier: MIT */
/*
 * Several files as one range of bytes. One of them is open at a time, however many there
 * are: what was announced is read on when its descriptor is gone.
 */
#ifndef HETMAP_READER_FILES_H
#define HETMAP_READER_FILES_H

#include <stdint.h>

struct files;

/* Looks at all of them. Errors have the file's path in their text. */
int files_open(const char *const *paths, uint64_t n, struct files **ret_files);
/* NULL is allowed. */
void files_close(struct files *files);

uint64_t files_count(const struct files *files);
/* In the range: where file @i begins; of files_count() it is the range's end. */
uint64_t files_start(const struct files *files, uint64_t i);

/* All @length bytes at @offset, or an error with a text. */
int files_read(struct files *files, void *to, uint64_t length, uint64_t offset);
/* The same, if all of them are in memory, and that can be told: else an error. */
int files_read_now(struct files *files, void *to, uint64_t length, uint64_t offset);
/* Tells of a range what posix_fadvise(2) takes, @step bytes at a time. */
void files_advise(const struct files *files, uint64_t offset, uint64_t length, uint64_t step,
		  int advice);

#endif
