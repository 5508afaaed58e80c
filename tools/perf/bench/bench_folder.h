/* SPDX-License-Identifier: MIT */
/* A folder of the benchmark, for cases that need files. */
#ifndef HETMAP_BENCH_FOLDER_H
#define HETMAP_BENCH_FOLDER_H

#include <stdint.h>

/*
 * Makes one in TMPDIR, or in /tmp, which has room for @bytes; bench_folder_remove() ends it,
 * and so does the end of this process, however it comes.
 * NULL: it was told, as the case @name that is skipped.
 */
char *bench_folder_make(const char *name, uint64_t bytes);
/* With all that is in it. NULL is allowed. */
void bench_folder_remove(char *folder);
/* With all that is in it, whether it is there or not. */
void bench_folder_clear(const char *path);

#endif
