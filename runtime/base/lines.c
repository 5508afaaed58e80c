// SPDX-License-Identifier: MIT
/* Reads a file of /proc line by line. */
#include "base/lines.h"

#include <fcntl.h>
#include <string.h>

#include "base/rlimits.h"
#include "base/sys.h"

int lines_open(struct lines *lines, const char *path)
{
	int fd = sys_open(path, O_RDONLY, 0);

	if (fd < 0)
		return rlimits_explain_fd(fd, path);
	lines->path = path;
	lines->fd = fd;
	lines->error = 0;
	lines->start = 0;
	lines->end = 0;
	return 0;
}

char *lines_next(struct lines *lines)
{
	char *line, *newline;
	ssize_t n;

	for (;;) {
		line = lines->buffer + lines->start;
		newline = memchr(line, '\n', lines->end - lines->start);
		if (newline) {
			*newline = '\0';
			lines->start = (size_t)(newline + 1 - lines->buffer);
			return line;
		}
		if (lines->start) {
			memmove(lines->buffer, line, lines->end - lines->start);
			lines->end -= lines->start;
			lines->start = 0;
		}
		if (lines->end == sizeof(lines->buffer) - 1) {
			lines->buffer[lines->end] = '\0';
			lines->start = lines->end;
			return lines->buffer;
		}
		n = sys_read(lines->fd, lines->buffer + lines->end,
			     sizeof(lines->buffer) - 1 - lines->end);
		if (n < 0)
			lines->error = (int)n;
		if (n <= 0)
			return NULL;
		lines->end += (size_t)n;
	}
}

int lines_close(struct lines *lines)
{
	sys_close(lines->fd);
	return lines->error ? rlimits_explain_fd(lines->error, lines->path) : 0;
}
