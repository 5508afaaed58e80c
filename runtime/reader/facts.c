// SPDX-License-Identifier: MIT
/* Facts about an open file: its file system, its device, memory, residency. */
#include "reader/facts.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "map/announce.h"
#include "fault/handler.h"
#include "base/proc.h"
#include "base/smaps.h"
#include "base/sys.h"

/* ---- memory ---- */

/* The least value of @file in the group at @root/@group and the groups above it. */
static uint64_t least_limit(const char *root, char *group, const char *file)
{
	uint64_t least = UINT64_MAX, limit;
	char path[PATH_MAX], *slash;

	for (;;) {
		/* "max", which is no number, means no limit. */
		snprintf(path, sizeof(path), "%s%s/%s", root, group, file);
		if (proc_number(path, &limit))
			least = min_u64(least, limit);
		slash = strrchr(group, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

/*
 * One line of /proc/self/cgroup: number, controllers, group [cgroups(7)]. @file is the limit's name
 * in groups of version 2, @file_of_v1 in those of version 1; NULL: there is none.
 */
static uint64_t limit_of_line(char *line, const char *file, const char *file_of_v1)
{
	char *controllers = strchr(line, ':'), *group;

	group = controllers ? strchr(++controllers, ':') : NULL;
	if (!group)
		return UINT64_MAX;
	*group++ = '\0';
	if (!*controllers && file)
		return least_limit("/sys/fs/cgroup", group, file);
	if (!strcmp(controllers, "memory") && file_of_v1)
		return least_limit("/sys/fs/cgroup/memory", group, file_of_v1);
	return UINT64_MAX;
}

static uint64_t limit_of_groups(const char *file, const char *file_of_v1)
{
	char text[4096], *line, *rest = text;
	uint64_t least = UINT64_MAX;

	if (!proc_read("/proc/self/cgroup", text, sizeof(text)))
		return least;
	while ((line = strsep(&rest, "\n")))
		least = min_u64(least, limit_of_line(line, file, file_of_v1));
	return least;
}

uint64_t facts_ram(void)
{
	uint64_t ram = meminfo_read("MemTotal");

	return min_u64(ram ? ram : UINT64_MAX,
		       limit_of_groups("memory.max", "memory.limit_in_bytes"));
}

uint64_t facts_ram_and_swap(void)
{
	uint64_t swap =
		min_u64(meminfo_read("SwapTotal"), limit_of_groups("memory.swap.max", NULL));
	uint64_t ram = facts_ram();

	return min_u64(ram > UINT64_MAX - swap ? UINT64_MAX : ram + swap,
		       limit_of_groups(NULL, "memory.memsw.limit_in_bytes"));
}

/* ---- the device ---- */

/*
 * The unit of O_DIRECT's offsets, lengths and addresses where the kernel does not tell: Linux
 * before 6.1, and file systems that don't report it.
 */
#define DIRECT_UNIT 4096

static bool has_direct(int fd)
{
	char path[32];
	int other;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = sys_open(path, O_RDONLY | O_DIRECT, 0);
	if (other < 0)
		return false;
	sys_close(other);
	return true;
}

/*
 * One unit for offsets, lengths and addresses, the larger of the kernel's two. A file may have
 * none though it can be opened with O_DIRECT [statx(2), stx_dio_mem_align].
 */
static uint64_t direct_unit(int fd)
{
	struct statx statx;

	if (!has_direct(fd))
		return 0;
	if (sys_fstatx(fd, STATX_DIOALIGN, &statx) || !(statx.stx_mask & STATX_DIOALIGN))
		return DIRECT_UNIT;
	if (!statx.stx_dio_mem_align || !statx.stx_dio_offset_align)
		return 0;
	return max_u64(statx.stx_dio_mem_align, statx.stx_dio_offset_align);
}

/* ---- faults ---- */

/* Linux's default [mm/memory.c], and its rounding to whole pages. */
#define FAULT_AROUND KIB(64)

static bool is_before(unsigned int major, unsigned int minor)
{
	unsigned int version[2];
	char release[80];

	if (!proc_read("/proc/sys/kernel/osrelease", release, sizeof(release)) ||
	    sscanf(release, "%u.%u", &version[0], &version[1]) != 2)
		return false;
	return version[0] < major || (version[0] == major && version[1] < minor);
}

uint64_t facts_fault_most(int fd)
{
	uint64_t page = page_size(), table = page / sizeof(uint64_t) * page;
	unsigned long long around = 0;
	const struct file_system *fs;
	struct statfs statfs;
	char text[32];

	if (sys_fstatfs(fd, &statfs))
		return table;
	fs = file_system_find((uint32_t)statfs.f_type);
	if (!fs || !(fs->flags & FS_PAGES_BEFORE_6_16) || !is_before(6, 16))
		return table;
	/* Root may have set more, and only root can read it. */
	if (proc_read("/sys/kernel/debug/fault_around_bytes", text, sizeof(text)))
		around = strtoull(text, NULL, 10);
	return min_u64(max_u64(max_u64(around, FAULT_AROUND), page), table);
}

/* ---- residency ---- */

/* A sample: so many places, of so many pages each. */
#define SAMPLE_PLACES 64
#define SAMPLE_PAGES 16

/*
 * A process that neither owns a file nor may write to it is told that all of it is resident
 * [mincore(2), "VERSIONS"].
 */
static bool may_tell(int fd, const struct stat *st)
{
	char path[32];

	if (st->st_uid == geteuid())
		return true;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return !sys_access(path, W_OK);
}

static uint32_t sample(const struct hm_map *whole)
{
	uint64_t page = page_size(), pages = round_up(hm_map_length(whole), page) / page;
	uint64_t step = max_u64(pages / SAMPLE_PLACES, SAMPLE_PAGES), at, n;
	uint64_t resident = 0, seen = 0;
	unsigned char vector[SAMPLE_PAGES];
	uint32_t i;

	for (at = 0; at < pages; at += step) {
		n = min_u64(SAMPLE_PAGES, pages - at);
		if (sys_mincore(whole->address + at * page, n * page, vector))
			return RESIDENT_UNKNOWN;
		for (i = 0; i < n; i++)
			resident += vector[i] & 1;
		seen += n;
	}
	return seen ? (uint32_t)(100 * resident / seen) : 0;
}

bool facts_are_resident(const struct hm_map *whole, uint64_t offset, uint64_t length)
{
	uint64_t page = page_size(), at = round_down(offset, page);
	uint64_t end = round_up(offset + length, page), n, i;
	unsigned char vector[256];

	for (; at < end; at += n * page) {
		n = min_u64(ARRAY_SIZE(vector), (end - at) / page);
		if (sys_mincore(whole->address + at, n * page, vector))
			return false;
		for (i = 0; i < n; i++)
			if (!(vector[i] & 1))
				return false;
	}
	return true;
}

/* ---- all facts ---- */

void facts_find(int fd, const struct stat *st, uint64_t length, const struct hm_map *whole,
		char fs_name[FS_NAME_MAX], struct reader_facts *ret_facts)
{
	const struct file_system *fs;
	struct statfs statfs;

	*ret_facts = (struct reader_facts){
		.size = (uint64_t)st->st_size,
		.length = length,
		.ram = facts_ram(),
		.read_ahead = announce_read_ahead(st->st_dev),
		.announce = announce_step(st->st_dev),
		.resident = RESIDENT_UNKNOWN,
		.fs = "an unknown file system",
		.mappable = whole || !st->st_size,
		.guarded = handler_flags() != HANDLER_NONE && !handler_unchained(),
		.direct = direct_unit(fd),
		.page = page_size(),
		.fault = facts_fault_most(fd),
	};
	if (whole) {
		ret_facts->private_map = buffer_is(whole->buffer, MEMORY_PRIVATE);
		if (may_tell(fd, st))
			ret_facts->resident = sample(whole);
	}
	if (sys_fstatfs(fd, &statfs))
		return;
	fs = file_system_find((uint32_t)statfs.f_type);
	if (fs) {
		ret_facts->fs = fs->name;
		ret_facts->fs_flags = fs->flags;
		return;
	}
	snprintf(fs_name, FS_NAME_MAX, "0x%08x", (uint32_t)statfs.f_type);
	ret_facts->fs = fs_name;
}
