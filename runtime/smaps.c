// SPDX-License-Identifier: MIT
/* What the kernel says of an address range: read line by line, nothing kept. */
#include "smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"
#include "rlimits.h"
#include "sys.h"
#include "util.h"

/* Lines of a /proc file through a small buffer: no stdio, no allocation. */
struct lines {
	int fd;
	size_t start, end;
	char buffer[4096];
};

static int lines_open(struct lines *lines, const char *path)
{
	int fd = sys_open(path, O_RDONLY, 0);

	if (fd < 0)
		return rlimits_explain_fd(fd, path);
	lines->fd = fd;
	lines->start = 0;
	lines->end = 0;
	return 0;
}

/* The next line without its newline, or NULL. Longer ones come in pieces. */
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
		if (n <= 0)
			return NULL;
		lines->end += (size_t)n;
	}
}

static void lines_close(struct lines *lines)
{
	sys_close(lines->fd);
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
	/* The last one, unless that has lain behind the range. */
	smaps_sum_add(&sum, &mapping, start, end);
	lines_close(&lines);
	*ret_sum = sum;
	return 0;
}

static uint64_t key_read(const char *path, const char *key)
{
	struct lines lines;
	uint64_t bytes = 0;
	char *line;

	if (lines_open(&lines, path))
		return 0;
	while ((line = lines_next(&lines)))
		if (smaps_value(line, key, &bytes))
			break;
	lines_close(&lines);
	return bytes;
}

uint64_t status_read(const char *key)
{
	return key_read("/proc/self/status", key);
}

bool capable_read(uint32_t capability)
{
	static const char key[] = "CapEff:";
	struct lines lines;
	uint64_t set = 0;
	char *line;

	if (lines_open(&lines, "/proc/self/status"))
		return false;
	while ((line = lines_next(&lines)))
		if (!strncmp(line, key, sizeof(key) - 1)) {
			set = strtoull(line + sizeof(key) - 1, NULL, 16);
			break;
		}
	lines_close(&lines);
	return set >> capability & 1;
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
	lines_close(&lines);
	return n;
}
