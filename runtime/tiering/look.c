// SPDX-License-Identifier: MIT
/*
 * Looks: which blocks were touched in a window.
 *
 * MADV_DONTNEED on shared memory takes page-table entries away and leaves the pages; a touch brings
 * its entry back, with those around it that the kernel maps ahead (64 KiB of a file's pages). On
 * private memory it would throw the bytes away: the soft-dirty bits are asked there, which all
 * readers of this process' pagemap share [soft-dirty.rst]. The map's change is held meanwhile, so
 * that nothing else comes to its addresses, and a map that shows replaced bytes, which are private
 * memory, is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/sys.h"
#include "fault/repair.h"
#include "map/map.h"
#include "map/remap.h"
#include "tiering/tiering.h"

#define PAGE 4096ull

/* [pagemap.rst, linux/fs.h of 6.7] */
struct page_region {
	uint64_t start, end, categories;
};
struct pm_scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_PAGEMAP _IOWR('f', 16, struct pm_scan)
#define SCAN_PRESENT (1u << 3)
#define REGIONS 128u

#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_SOFT_DIRTY (1ull << 55)
#define ENTRIES 512u

uint64_t look_block(const struct hm_tiering *tiering, uint32_t block, uint64_t *ret_length)
{
	const uint64_t offset = block * tiering->block;

	*ret_length = min_u64(tiering->block, tiering->length - offset);
	return (uintptr_t)tiering->map->address + offset;
}

/* The caller holds map->change. */
static int check_map(struct hm_tiering *tiering)
{
	struct hm_map *map = tiering->map;
	int r;

	if (round_up(hm_map_length(map), PAGE) < tiering->length)
		return err_set(-ENODEV,
			       "%s: the map has %" PRIu64 " bytes, and had %" PRIu64
			       " when its tiering began: make another one",
			       map->buffer->name, hm_map_length(map), tiering->length);
	r = repair_check(map, 0, hm_map_length(map), NULL);
	return r == -EIO ? -ENODEV : r;
}

/* ---- faults of the process ---- */

/*
 * Each touch in a window is a fault of a thread of this process [getrusage(2)]. Where there were
 * none at all, no page table has to be read. 0: the kernel does not count them.
 */
static uint64_t count_faults(void)
{
	struct rusage usage;

	if (sys_getrusage(RUSAGE_SELF, &usage))
		return 0;
	return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

/* Does a touch of a page that is away count? The page is never written. */
bool look_probe_faults(void)
{
	static _Alignas(PAGE) volatile char page[PAGE];
	uint64_t before;

	if (sys_madvise((void *)(uintptr_t)page, PAGE, MADV_DONTNEED))
		return false;
	before = count_faults();
	(void)page[0];
	return before && count_faults() > before;
}

/* ---- opening ---- */

static int clear_soft_dirty(void)
{
	int fd = sys_open("/proc/self/clear_refs", O_WRONLY, 0);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = sys_write(fd, "4", 1);
	sys_close(fd);
	return n < 0 ? (int)n : 0;
}

/* Does the bit of a page of the library's own go, and come back with a store? */
int look_probe_soft_dirty(void)
{
	int fd = sys_open("/proc/self/pagemap", O_RDONLY, 0), r;
	uint64_t before = 0, after = 0, at;
	void *page;

	if (fd < 0)
		return err_set(-EOPNOTSUPP, "/proc/self/pagemap can't be opened: %s",
			       err_name(fd));
	r = sys_mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0,
		     &page);
	if (r)
		goto out;
	at = (uintptr_t)page / PAGE * sizeof(before);
	*(volatile char *)page = 1;
	r = clear_soft_dirty();
	if (!r && sys_pread(fd, &before, sizeof(before), at) != sizeof(before))
		r = -EIO;
	*(volatile char *)page = 2;
	if (!r && sys_pread(fd, &after, sizeof(after), at) != sizeof(after))
		r = -EIO;
	sys_munmap(page, PAGE);
out:
	sys_close(fd);
	if (r || before & PAGEMAP_SOFT_DIRTY || !(after & PAGEMAP_SOFT_DIRTY))
		return err_set(
			-EOPNOTSUPP,
			"this kernel has no soft-dirty bits, which tell writes to private "
			"memory: make the buffer without HM_BUFFER_PRIVATE");
	return 0;
}

static int take_entries(struct hm_tiering *tiering)
{
	return sys_madvise(tiering->map->address, tiering->length, MADV_DONTNEED);
}

static void unlock_map(struct hm_tiering *tiering)
{
	repair_release(tiering->map);
	remap_unlock(tiering->map);
}

/*
 * Holds the map's change, and claims its blocks, after success: until unlock_map() no handler
 * replaces bytes of it, which MADV_DONTNEED would throw away.
 */
static int lock_map(struct hm_tiering *tiering)
{
	struct hm_map *map = tiering->map;
	int r = remap_trylock(map);

	if (r)
		return r == -EBUSY ?
			       err_set(r, "%s: the map is being changed", map->buffer->name) :
			       r;
	if (atomic_load(&map->lost)) {
		r = remap_refuse_lost(map);
		remap_unlock(map);
		return r;
	}
	repair_claim(map, 0, map->span);
	r = check_map(tiering);
	if (r)
		unlock_map(tiering);
	return r;
}

int look_go_on(struct hm_tiering *tiering)
{
	int r = lock_map(tiering);

	if (!r)
		unlock_map(tiering);
	return r;
}

int look_open(struct hm_tiering *tiering)
{
	int r = lock_map(tiering);

	if (r)
		return r;
	/* Before the entries go: a touch from then on is a fault that comes on top of these. */
	tiering->faults = count_faults();
	r = tiering->source == HM_TIERING_BY_ENTRIES ? take_entries(tiering) :
						       clear_soft_dirty();
	if (r)
		r = err_set(-EOPNOTSUPP,
			    "%s: touches of this memory can't be told: %s: %s (memory of a "
			    "device, or locked by mlock(2)?)",
			    tiering->map->buffer->name,
			    tiering->source == HM_TIERING_BY_ENTRIES ? "MADV_DONTNEED" :
								       "clear_refs",
			    err_name(r));
	unlock_map(tiering);
	return r;
}

/* ---- closing ---- */

static void note(struct hm_tiering *tiering, uint64_t start, uint64_t end)
{
	const uint64_t base = (uintptr_t)tiering->map->address;
	uint64_t i, last = (end - 1 - base) / tiering->block;

	for (i = (start - base) / tiering->block; i <= last && i < tiering->n; i++)
		tiering->blocks[i].touched = true;
}

/* -ENOTTY, -EINVAL: the kernel is older than 6.7. */
static int scan(struct hm_tiering *tiering, int fd)
{
	const uint64_t start = (uintptr_t)tiering->map->address;
	struct page_region regions[REGIONS];
	struct pm_scan scan = {
		.size = sizeof(scan),
		.start = start,
		.end = start + tiering->length,
		.vec = (uintptr_t)regions,
		.vec_len = REGIONS,
		.category_anyof_mask = SCAN_PRESENT,
		.return_mask = SCAN_PRESENT,
	};
	int n, i;

	while (scan.start < scan.end) {
		n = sys_ioctl(fd, SCAN_PAGEMAP, &scan);
		if (n < 0)
			return n;
		for (i = 0; i < n; i++)
			note(tiering, regions[i].start, regions[i].end);
		if (scan.walk_end <= scan.start)
			break;
		scan.start = scan.walk_end;
	}
	return 0;
}

static int read_pagemap(struct hm_tiering *tiering, int fd)
{
	const uint64_t bit = tiering->source == HM_TIERING_BY_ENTRIES ? PAGEMAP_PRESENT :
									PAGEMAP_SOFT_DIRTY;
	uint64_t at = (uintptr_t)tiering->map->address, end = at + tiering->length, n, i;
	uint64_t entries[ENTRIES];

	for (; at < end; at += n * PAGE) {
		n = min_u64((end - at) / PAGE, ENTRIES);
		if (sys_pread(fd, entries, n * sizeof(entries[0]),
			      at / PAGE * sizeof(entries[0])) !=
		    (ssize_t)(n * sizeof(entries[0])))
			return err_set(-EOPNOTSUPP,
				       "/proc/self/pagemap can't be read at 0x%" PRIx64, at);
		for (i = 0; i < n; i++)
			if (entries[i] & bit)
				note(tiering, at + i * PAGE, at + (i + 1) * PAGE);
	}
	return 0;
}

int look_close(struct hm_tiering *tiering, uint32_t *ret_touched)
{
	const uint64_t faults = count_faults();
	uint32_t i, touched = 0;
	int fd, r = -ENOTTY;

	for (i = 0; i < tiering->n; i++)
		tiering->blocks[i].touched = false;
	if (tiering->counts_faults && faults && faults == tiering->faults) {
		*ret_touched = 0;
		return 0;
	}
	fd = sys_open("/proc/self/pagemap", O_RDONLY, 0);
	if (fd < 0)
		return err_set(-EOPNOTSUPP, "/proc/self/pagemap can't be opened: %s",
			       err_name(fd));
	if (tiering->source == HM_TIERING_BY_ENTRIES && !tiering->no_scan) {
		r = scan(tiering, fd);
		tiering->no_scan = r != 0;
	}
	if (r)
		r = read_pagemap(tiering, fd);
	sys_close(fd);
	if (r)
		return r;
	for (i = 0; i < tiering->n; i++)
		touched += tiering->blocks[i].touched;
	/* Faults elsewhere are known by now: the window may go on. */
	tiering->faults = faults;
	*ret_touched = touched;
	return 0;
}
