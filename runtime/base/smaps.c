// SPDX-License-Identifier: MIT
/* Reads the kernel's files about the process line by line, and keeps nothing. */
#include "base/smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/rlimits.h"
#include "base/sys.h"
#include "base/util.h"

/* Lines of a /proc file through a small buffer: no stdio, no allocation. */
struct lines {
	const char *path;
	int fd;
	int error; /* of a failed read, as opposed to the end of the file */
	size_t start, end;
	char buffer[4096];
};

static int lines_open(struct lines *lines, const char *path)
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

/* The next line without its newline, or NULL. A line longer than the buffer comes in pieces. */
static char *lines_next(struct lines *lines)
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

/* Returns 0, or the error that kept the remaining lines from being read. */
static int lines_close(struct lines *lines)
{
	sys_close(lines->fd);
	return lines->error ? rlimits_explain_fd(lines->error, lines->path) : 0;
}

int smaps_read(const void *address, uint64_t length, struct smaps_sum *ret_sum)
{
	uint64_t start = (uintptr_t)address, end = start + length;
	struct smaps_mapping mapping = { 0 }, next;
	struct smaps_sum sum = { 0 };
	struct lines lines;
	char *line;
	int r;

	r = lines_open(&lines, "/proc/self/smaps");
	if (r)
		return r;
	while ((line = lines_next(&lines))) {
		if (smaps_mapping_begin(&next, line)) {
			smaps_sum_add(&sum, &mapping, start, end);
			mapping = next;
			if (mapping.start >= end)
				break;
		} else if (mapping.end > start) {
			smaps_mapping_line(&mapping, line);
		}
	}
	/* The last mapping, unless it lies behind the range. */
	smaps_sum_add(&sum, &mapping, start, end);
	r = lines_close(&lines);
	if (r)
		return r;
	*ret_sum = sum;
	return 0;
}

static int key_get(const char *path, const char *key, uint64_t *ret_bytes)
{
	struct lines lines;
	uint64_t bytes = 0;
	char *line;
	int r;

	r = lines_open(&lines, path);
	if (r)
		return r;
	while ((line = lines_next(&lines)))
		if (smaps_value(line, key, &bytes))
			break;
	r = lines_close(&lines);
	if (!r)
		*ret_bytes = bytes;
	return r;
}

static uint64_t key_read(const char *path, const char *key)
{
	uint64_t bytes = 0;

	key_get(path, key, &bytes);
	return bytes;
}

uint64_t status_read(const char *key)
{
	return key_read("/proc/self/status", key);
}

int status_get(const char *key, uint64_t *ret_bytes)
{
	return key_get("/proc/self/status", key, ret_bytes);
}

int capable_get(uint32_t capability, uint32_t *ret_capable)
{
	static const char key[] = "CapEff:";
	struct lines lines;
	uint64_t set = 0;
	char *line;
	int r;

	r = lines_open(&lines, "/proc/self/status");
	if (r)
		return r;
	while ((line = lines_next(&lines)))
		if (!strncmp(line, key, sizeof(key) - 1)) {
			set = strtoull(line + sizeof(key) - 1, NULL, 16);
			break;
		}
	r = lines_close(&lines);
	if (!r)
		*ret_capable = set >> capability & 1;
	return r;
}

uint64_t meminfo_read(const char *key)
{
	return key_read("/proc/meminfo", key);
}

uint64_t maps_count(void)
{
	struct lines lines;
	uint64_t n = 0;

	if (lines_open(&lines, "/proc/self/maps"))
		return 0;
	while (lines_next(&lines))
		n++;
	return lines_close(&lines) ? 0 : n;
}
