// SPDX-License-Identifier: MIT
/* Reads the kernel's files about the process line by line, and keeps nothing. */
#include "base/smaps.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"
#include "base/util.h"

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
