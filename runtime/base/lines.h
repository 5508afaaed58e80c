/* SPDX-License-Identifier: MIT */
/* Lines of a file of /proc through a small buffer: no stdio, no allocation. */
#ifndef HETMAP_LINES_H
#define HETMAP_LINES_H

#include <stddef.h>

struct lines {
	const char *path;
	int fd;
	int error; /* of a failed read, as opposed to the end of the file */
	size_t start, end;
	char buffer[4096];
};

/* Errors, with a text: those of opening the file. */
int lines_open(struct lines *lines, const char *path);
/* The next line without its newline, or NULL. A line longer than the buffer comes in pieces. */
char *lines_next(struct lines *lines);
/* Returns 0, or the error, with a text, that kept the remaining lines from being read. */
int lines_close(struct lines *lines);

#endif
