// SPDX-License-Identifier: MIT
/*
 * The leak oracle: descriptors, mappings, locked memory and live objects of this
 * process, to be compared from round to round.
 */
#include "lib/holding.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/base.h>

/* Absent in programs that do not use the library. */
extern int hm_stats_get(struct hm_stats *ret_stats) __attribute__((weak));
extern int hm_retire_flush(void) __attribute__((weak));

/* Without stdio, which takes longer than the kernel: it is read at each injected failure. */
static ssize_t read_some(int fd, char *to, size_t size)
{
	ssize_t n = fd < 0 ? 0 : read(fd, to, size - 1);

	to[n > 0 ? n : 0] = '\0';
	return n;
}

uint64_t test_status_bytes(const char *field)
{
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	char text[4096], name[32];
	const char *found;

	read_some(fd, text, sizeof(text));
	if (fd >= 0)
		close(fd);
	snprintf(name, sizeof(name), "\n%s:", field);
	found = strstr(text, name);
	return found ? strtoull(found + strlen(name), NULL, 10) << 10 : 0;
}

static void take_fds(struct holding *holding)
{
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");
	unsigned int fd;

	while (dir && (entry = readdir(dir))) {
		fd = (unsigned int)atoi(entry->d_name);
		if (entry->d_name[0] == '.' || fd == (unsigned int)dirfd(dir))
			continue;
		if (fd < HOLDING_FDS)
			holding->is_open[fd] = true;
		holding->now.fds++;
	}
	if (dir)
		closedir(dir);
}

/* The heap grows by brk and the main stack by itself: neither is a leak of maps. */
static bool is_mapping_noise(const char *end)
{
	return !memcmp(end - 6, "[heap]", 6) || !memcmp(end - 7, "[stack]", 7);
}

static void read_mappings(struct holding *holding)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t used = 0, room = 0;
	ssize_t n = fd >= 0;
	char *maps;

	while (n > 0) {
		if (room - used < 4096) {
			room = 2 * room + 16384;
			maps = realloc(holding->maps, room);
			if (!maps)
				break;
			holding->maps = maps;
		}
		n = read_some(fd, holding->maps + used, room - used);
		used += n > 0 ? (size_t)n : 0;
	}
	if (fd >= 0)
		close(fd);
}

static void take_mappings(struct holding *holding)
{
	const char *line, *end;
	uint64_t begin;
	char *dash;

	read_mappings(holding);
	for (line = holding->maps; line && (end = strchr(line, '\n')); line = end + 1) {
		begin = strtoull(line, &dash, 16);
		if (is_mapping_noise(end) || *dash != '-')
			continue;
		holding->now.mappings++;
		holding->now.mapped += strtoull(dash + 1, NULL, 16) - begin;
	}
}

void holding_take(struct holding *holding)
{
	struct hm_stats stats = { .struct_size = sizeof(stats) };

	memset(holding, 0, sizeof(*holding));
	/* A thread is still freeing dropped objects; tests of retirement flush by themselves. */
	if (getenv("HETMAP_RETIRE") && hm_retire_flush)
		hm_retire_flush();
	if (hm_stats_get && hm_stats_get(&stats) == 0) {
		holding->now.slabs = stats.slab_bytes;
		holding->now.objects = stats.devices + stats.buffers + stats.maps + stats.views;
	}
	holding->now.locked = test_status_bytes("VmLck");
	take_fds(holding);
	/* The sanitizers' own allocators map as they please. */
	if (!TEST_ASAN && !TEST_TSAN) {
		take_mappings(holding);
		holding->now.mapped -= holding->now.slabs;
	}
}

void holding_drop(struct holding *holding)
{
	free(holding->maps);
	holding->maps = NULL;
}

struct test_holding test_holding_now(void)
{
	struct holding holding;

	holding_take(&holding);
	holding_drop(&holding);
	return holding.now;
}

void test_holding_same(const struct test_holding *before)
{
	struct test_holding now = test_holding_now();

	CHECK_EQUAL(now.fds, before->fds);
	/* Where addresses lie, a slab more may be needed: that is a mapping, and no leak. */
	if (now.slabs == before->slabs)
		CHECK_EQUAL(now.mappings, before->mappings);
	else
		CHECK_EQUAL(now.mapped, before->mapped);
	CHECK_EQUAL(now.objects, before->objects);
}

bool holding_grown(const struct holding *old, const struct holding *now)
{
	return now->now.fds > old->now.fds || now->now.locked > old->now.locked ||
	       now->now.objects > old->now.objects || now->now.mapped > old->now.mapped ||
	       (now->now.mappings > old->now.mappings && now->now.slabs == old->now.slabs);
}

static void show_new_fds(const struct holding *old, const struct holding *now)
{
	char path[40], target[200];
	unsigned int fd;
	ssize_t n;

	for (fd = 0; fd < HOLDING_FDS; fd++) {
		if (!now->is_open[fd] || old->is_open[fd])
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%u", fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		test_fail("holding", 0, "new: fd %u -> %s", fd, target);
	}
}

static void show_new_mappings(const struct holding *old, const struct holding *now)
{
	const char *line, *end;
	char text[520];
	int shown = 0;

	for (line = now->maps; line && (end = strchr(line, '\n')) && shown < 6;
	     line = end + 1) {
		snprintf(text, sizeof(text), "%.*s", (int)(end - line), line);
		if (is_mapping_noise(end) || (old->maps && strstr(old->maps, text)))
			continue;
		test_fail("holding", 0, "new: %s", text);
		shown++;
	}
}

void holding_report(const struct holding *old, const struct holding *now)
{
	test_fail("holding", 0,
		  "leak from round to round: fds %u -> %u, mappings %u -> %u, mapped %" PRIu64
		  " -> %" PRIu64 ", locked %" PRIu64 " -> %" PRIu64 ", objects %" PRIu64
		  " -> %" PRIu64,
		  old->now.fds, now->now.fds, old->now.mappings, now->now.mappings,
		  old->now.mapped, now->now.mapped, old->now.locked, now->now.locked,
		  old->now.objects, now->now.objects);
	show_new_fds(old, now);
	show_new_mappings(old, now);
}
