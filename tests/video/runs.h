/* SPDX-License-Identifier: MIT */
/* Runs of `hetmap run video`, and their results. */
#ifndef HETMAP_TESTS_RUNS_H
#define HETMAP_TESTS_RUNS_H

#include "lib/command.h"

/*
 * clip_make() for clips that only the command reads. NULL under TSan, too: the command's
 * threads and those of FFmpeg share counts that TSan does not see.
 */
char *run_clip(const char *folder, const char *name, unsigned int width, unsigned int height,
	       const char *const *options);
/* The JSON of a run; NULL: it failed, and the test with it. */
json_t *run_video(const struct command *command);
/* A run that fails with @status, and says @part. */
void check_failure(const struct command *command, int status, const char *part);

/* The PNG file as BGR0, in @to. False: it is no picture of that size. */
bool read_png(const char *path, unsigned int width, unsigned int height, uint8_t *to,
	      int stride);
/* All of the file, ended by a NUL; free() it. */
char *file_text(const char *path);

#endif
