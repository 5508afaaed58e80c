// SPDX-License-Identifier: MIT
/* What the kernel says of an address range: read line by line, nothing kept. */
#include "smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"
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
		return err_set(fd, "cannot open %s: %s", path, err_name(fd));
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

/* "Key:      12 kB" gives 12 KiB. */
static bool value_of(const char *line, const char *key, uint64_t *ret_bytes)
{
	size_t length = strlen(key);

	if (strncmp(line, key, length) || line[length] != ':')
		return false;
	*ret_bytes = strtoull(line + length + 1, NULL, 10) * 1024;
	return true;
}

/* @bytes of a mapping of @size, of which @part lies in the range asked for. */
static uint64_t share(uint64_t bytes, uint64_t part, uint64_t size)
{
	return part == size ? bytes : (uint64_t)((double)bytes * (double)part / (double)size);
}

/*
 * What is there of a locked mapping is locked. The kernel's "Locked:" is no measure of
 * it: pages that others map, too, count by their share there, as in Pss.
 */
static void add_flags(struct smaps_sum *sum, const char *line, uint64_t resident)
{
	/* Two letters a flag, with a blank behind each [proc(5)]. */
	if (!strstr(line, " lo "))
		return;
	sum->marked = true;
	sum->locked += resident;
}

/* @resident: of this mapping, so far; its flags come last. */
static void add_line(struct smaps_sum *sum, const char *line, uint64_t part, uint64_t size,
		     uint64_t *resident)
{
	static const char *const huge[] = { "AnonHugePages", "ShmemPmdMapped",
					    "FilePmdMapped" };
	static const char *const pool[] = { "Shared_Hugetlb", "Private_Hugetlb" };
	uint64_t bytes;
	size_t i;

	if (!strncmp(line, "VmFlags:", 8))
		add_flags(sum, line, *resident);
	if (value_of(line, "Rss", &bytes)) {
		*resident = share(bytes, part, size);
		sum->resident += *resident;
	} else if (value_of(line, "KernelPageSize", &bytes)) {
		sum->page_size = max_u64(sum->page_size, bytes);
	}
	for (i = 0; i < ARRAY_SIZE(huge); i++)
		if (value_of(line, huge[i], &bytes))
			sum->huge += share(bytes, part, size);
	for (i = 0; i < ARRAY_SIZE(pool); i++)
		if (value_of(line, pool[i], &bytes)) {
			sum->huge += share(bytes, part, size);
			sum->resident += share(bytes, part, size);
		}
}

int smaps_read(const void *address, uint64_t length, struct smaps_sum *ret_sum)
{
	uint64_t start = (uintptr_t)address, end = start + length;
	uint64_t from = 0, to = 0, part = 0, resident = 0;
	struct smaps_sum sum = { 0 };
	struct lines lines;
	char *line;
	int r;

	r = lines_open(&lines, "/proc/self/smaps");
	if (r)
		return r;
	while ((line = lines_next(&lines))) {
		/* A mapping's header begins with a hexadecimal digit in lower case. */
		if ((line[0] >= '0' && line[0] <= '9') || (line[0] >= 'a' && line[0] <= 'f')) {
			if (sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) != 2)
				continue;
			if (from >= end)
				break;
			part = 0;
			resident = 0;
			if (to > start)
				part = min_u64(to, end) - max_u64(from, start);
			sum.mapped += part;
		} else if (part) {
			add_line(&sum, line, part, to - from, &resident);
		}
	}
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
		if (value_of(line, key, &bytes))
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

int number_read(const char *path, uint64_t *ret_number)
{
	struct lines lines;
	char *line, *end;
	uint64_t number;
	int r;

	r = lines_open(&lines, path);
	if (r)
		return r;
	line = lines_next(&lines);
	if (!line) {
		/* A number without a newline at its end. */
		lines.buffer[lines.end] = '\0';
		line = lines.buffer;
	}
	number = strtoull(line, &end, 10);
	lines_close(&lines);
	if (end == line)
		return err_set(-EINVAL, "%s holds no number", path);
	*ret_number = number;
	return 0;
}
