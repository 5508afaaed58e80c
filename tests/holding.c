// SPDX-License-Identifier: MIT
/*
 * The leak oracle: descriptors, mappings, locked memory and live objects of this
 * process, to be compared from round to round.
 */
#include "holding.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/base.h>

/* Absent in programs that do not use the library. */
extern int hm_stats_get(struct hm_stats *ret_stats) __attribute__((weak));
extern int hm_retire_flush(void) __attribute__((weak));

static void append_line(struct holding *holding, const char *line)
{
	size_t length = strlen(line), room = holding->room;
	char *lines = holding->lines;

	if (room < holding->used + length + 2) {
		room = 2 * (holding->used + length) + 8192;
		lines = realloc(holding->lines, room);
		if (!lines)
			return;
		holding->lines = lines;
		holding->room = room;
	}
	holding->used += (size_t)sprintf(lines + holding->used, "%s\n", line);
}

static void take_fds(struct holding *holding)
{
	char path[300], target[200], line[520];
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");
	ssize_t n;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(dir))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		snprintf(line, sizeof(line), "fd %s -> %s", entry->d_name, target);
		append_line(holding, line);
		holding->now.fds++;
	}
	if (dir)
		closedir(dir);
}

/* The heap grows by brk and the main stack by itself: neither is a leak of maps. */
static bool is_mapping_noise(const char *line)
{
	return strstr(line, "[heap]") || strstr(line, "[stack]");
}

static void take_mappings(struct holding *holding)
{
	char line[512], *dash;
	uint64_t begin, end;
	FILE *file = fopen("/proc/self/maps", "re");

	/* At each injected failure, some hundred lines: sscanf() takes longer than the kernel. */
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		begin = strtoull(line, &dash, 16);
		if (is_mapping_noise(line) || *dash != '-')
			continue;
		end = strtoull(dash + 1, NULL, 16);
		append_line(holding, line);
		holding->now.mappings++;
		holding->now.mapped += end - begin;
	}
	if (file)
		fclose(file);
}

void holding_take(struct holding *holding)
{
	struct hm_stats stats = { .struct_size = sizeof(stats) };

	memset(holding, 0, sizeof(*holding));
	/* A thread is still at what was dropped; tests of retirement know what they expect. */
	if (getenv("HETMAP_RETIRE") && hm_retire_flush)
		hm_retire_flush();
	if (hm_stats_get && hm_stats_get(&stats) == 0) {
		holding->slabs = stats.slab_bytes;
		holding->now.objects = stats.devices + stats.buffers + stats.maps + stats.views;
	}
	holding->now.locked = test_status_bytes("VmLck");
	take_fds(holding);
	/* The sanitizers' own allocators map as they please. */
	if (!TEST_ASAN && !TEST_TSAN) {
		take_mappings(holding);
		holding->now.mapped -= holding->slabs;
	}
}

struct test_holding test_holding_now(void)
{
	struct holding holding;

	holding_take(&holding);
	free(holding.lines);
	return holding.now;
}

void test_holding_same(const struct test_holding *before)
{
	struct test_holding now = test_holding_now();

	CHECK_EQUAL(now.fds, before->fds);
	CHECK_EQUAL(now.mappings, before->mappings);
	CHECK_EQUAL(now.objects, before->objects);
}

bool holding_grown(const struct holding *old, const struct holding *now)
{
	return now->now.fds > old->now.fds || now->now.locked > old->now.locked ||
	       now->now.objects > old->now.objects || now->now.mapped > old->now.mapped ||
	       (now->now.mappings > old->now.mappings && now->slabs == old->slabs);
}

void holding_report(const struct holding *old, const struct holding *now)
{
	char *line, *rest;
	int shown = 0;

	test_fail("holding", 0,
		  "leak from round to round: fds %u -> %u, mappings %u -> %u, mapped %" PRIu64
		  " -> %" PRIu64 ", locked %" PRIu64 " -> %" PRIu64 ", objects %" PRIu64
		  " -> %" PRIu64,
		  old->now.fds, now->now.fds, old->now.mappings, now->now.mappings,
		  old->now.mapped, now->now.mapped, old->now.locked, now->now.locked,
		  old->now.objects, now->now.objects);
	for (line = strtok_r(now->lines, "\n", &rest); line && shown < 6;
	     line = strtok_r(NULL, "\n", &rest))
		if (!old->lines || !strstr(old->lines, line)) {
			test_fail("holding", 0, "new: %s", line);
			shown++;
		}
}
