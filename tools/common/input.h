/* SPDX-License-Identifier: MIT */
/* Input: the file that a job reads, opened with everything checked. */
#ifndef HETMAP_INPUT_H
#define HETMAP_INPUT_H

#include <stdbool.h>
#include <sys/stat.h>

#include <hetmap/map.h>
#include <hetmap/pieces.h>

struct input {
	char *path;  /* as given, or found */
	char *shown; /* the same, fit for a terminal */
	int fd;
	struct stat stat; /* when it was opened */
};

/*
 * Opens @path, or for NULL the largest of a few files that every Debian has.
 * Never blocks. Returns an exit status; a failure is reported already.
 */
int input_open(const char *path, struct input *ret_input);
void input_close(struct input *input);

/* The remedy for a file that has less in it than it says. */
#define FILE_CUT "get the file again: it is cut off or damaged"

/*
 * Opens the pieces of a file or a folder of any format, and remarks on entries that the model does
 * not use. An exit status; a failure is told already.
 */
int input_pieces(const char *path, struct hm_pieces **ret_pieces);

/* All of a file, to read: nothing of it is touched. 0, or the library's error. */
int input_map(const char *path, struct hm_map **ret_map);

/* Is the file shorter than when it was opened? */
bool input_cut(const struct input *input);

#endif
