// SPDX-License-Identifier: MIT
/*
 * Tiering of maps: looks and moves on a machine with two nodes that this program plays; and in a
 * machine that has them (tests/vm/tiers), with the nodes of each page.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"
#include "core/core.h"
#include "core/map_repair.h"
#include "lib/inject.h"
#include "lib/rig.h"
#include "lib/support.h"
#include "tier/tier.h"
#include "tiering/tiering.h"

#define BLOCK (64u * 1024)
#define BLOCKS 32u
#define SIZE ((uint64_t)BLOCKS * BLOCK)
#define PAGES (SIZE / PAGE)

/* ---- a machine that is played ---- */

static char *base;
static uint8_t nodes[PAGES]; /* nodes of the pages from base on */
static bool pinned;          /* no page moves */
static int (*real_open)(const char *path, int flags, mode_t mode);
static long (*real_move)(int pid, unsigned long count, void **pages, const int *to, int *status,
			 int flags);

static const char *text_of(const char *path)
{
	if (!strstr(path, "/devices/system/node/"))
		return strcmp(path, "/sys/bus/dax/devices") &&
				       strcmp(path, "/proc/self/mountinfo") &&
				       strcmp(path, "/proc/self/status") ?
			       NULL :
			       "Mems_allowed_list:\t0-1\n";
	if (strstr(path, "has_memory"))
		return "0-1\n";
	if (strstr(path, "meminfo"))
		return "Node 0 MemTotal: 1048576 kB\nNode 0 MemFree: 524288 kB\n";
	if (strstr(path, "read_latency"))
		return strstr(path, "node0") ? "100\n" : "300\n";
	return strstr(path, "cpulist") && strstr(path, "node0") ? "0\n" : "";
}

static int open_played(const char *path, int flags, mode_t mode)
{
	const char *text = text_of(path);
	int fd;

	if (!text)
		return real_open(path, flags, mode);
	fd = memfd_create("played", MFD_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET))
		return -1;
	return fd;
}

static long move_played(int pid, unsigned long count, void **pages, const int *to, int *status,
			int flags)
{
	unsigned long i;

	(void)pid, (void)flags;
	for (i = 0; i < count; i++) {
		uint64_t page = (uint64_t)((char *)pages[i] - base) / PAGE;

		if (page >= PAGES)
			return real_move(pid, count, pages, to, status, flags);
		if (to && !pinned)
			nodes[page] = (uint8_t)to[i];
		status[i] = to && pinned ? -EBUSY : nodes[page];
	}
	return 0;
}

static void play_begin(void)
{
	real_open = sys_table.open;
	sys_table.open = open_played;
	real_move = sys_table.move_pages;
	sys_table.move_pages = move_played;
	memset(nodes, 1, sizeof(nodes));
	pinned = false;
}

static void play_end(void)
{
	sys_table.open = real_open;
	sys_table.move_pages = real_move;
}

/* A map whose pages are all in memory. */
static struct hm_map *make_map(uint32_t flags, uint64_t size, uint32_t tier)
{
	struct hm_device *device = rig_device("host");
	struct hm_buffer *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = size,
							   .flags = flags, .tier = tier));
	struct hm_map *map = rig_map(buffer, NULL);

	hm_buffer_unref(buffer);
	hm_device_unref(device);
	base = hm_map_address(map);
	/* A huge page is touched as a whole. */
	CHECK_OK(hm_range_advise(base, size, NULL, HM_RANGE_GRANULE, PAGE));
	pattern_write(base, 0, size, 7);
	return map;
}

static struct hm_tiering_info info_of(struct hm_tiering *tiering)
{
	struct hm_tiering_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_tiering_query(tiering, &info));
	return info;
}

static const struct hm_tiering_desc manual = {
	.struct_size = sizeof(manual),
	.flags = HM_TIERING_MANUAL,
	.fast_bytes = 4 * BLOCK,
	.bytes_per_second = 1ull << 30,
};

/* Reads a page of each of the first @n blocks from block @first on. */
static void touch(uint32_t first, uint32_t n)
{
	uint32_t i;

	for (i = first; i < first + n; i++)
		(void)*(volatile char *)(base + (size_t)i * BLOCK + 5 * PAGE);
}

/* Steps until the moves are done: budgets are of time. */
static void step_while_touching(struct hm_tiering *tiering, uint32_t first, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < 12; i++) {
		touch(first, n);
		usleep(2000);
		CHECK_OK(hm_tiering_step(tiering));
	}
}

static uint32_t pages_on(uint32_t node, uint32_t first, uint32_t n)
{
	uint32_t i, sum = 0;

	for (i = first * (BLOCK / PAGE); i < (first + n) * (BLOCK / PAGE); i++)
		sum += nodes[i] == node;
	return sum;
}

static void test_reads_promote(void)
{
	struct hm_tiering_move moves[64];
	struct hm_tiering *tiering;
	struct hm_tiering_info info;
	struct hm_map *map;
	uint32_t n;

	play_begin();
	map = make_map(0, SIZE, 0);
	CHECK_OK_FATAL(hm_tiering_create(map, &manual, &tiering));
	info = info_of(tiering);
	CHECK_EQUAL(info.source, HM_TIERING_BY_ENTRIES);
	CHECK_EQUAL(info.blocks, BLOCKS);
	CHECK_EQUAL(info.slow_bytes, SIZE);
	CHECK_EQUAL(info.fast_bytes, 0);
	step_while_touching(tiering, 8, 4);
	CHECK_EQUAL(pages_on(0, 8, 4), 4 * BLOCK / PAGE);
	CHECK_EQUAL(pages_on(0, 0, BLOCKS), 4 * BLOCK / PAGE);
	info = info_of(tiering);
	CHECK_EQUAL(info.fast_bytes, 4 * BLOCK);
	CHECK_EQUAL(info.promoted, 4 * BLOCK);
	CHECK_EQUAL(info.demoted, 0);
	CHECK_EQUAL(info.touched, 12 * 4);
	CHECK_EQUAL(info.heat_fast, info.heat);
	/* Other blocks become hot: they replace those that are cold by then. */
	step_while_touching(tiering, 20, 4);
	step_while_touching(tiering, 20, 4);
	CHECK_EQUAL(pages_on(0, 20, 4), 4 * BLOCK / PAGE);
	CHECK_EQUAL(pages_on(0, 0, BLOCKS), 4 * BLOCK / PAGE);
	CHECK_OK(hm_tiering_moves(tiering, moves, 64, &n));
	CHECK_EQUAL(n, 12);
	CHECK_EQUAL(moves[0].why, HM_TIERING_HOT);
	CHECK_EQUAL(moves[0].node, 0);
	CHECK_EQUAL(moves[0].length, BLOCK);
	CHECK_EQUAL(moves[1].why, HM_TIERING_COLD);
	CHECK_EQUAL(moves[1].node, 1);
	CHECK(pattern_holds(base, 0, SIZE, 7));
	hm_tiering_unref(tiering);
	hm_map_unref(map);
	play_end();
}

/* Bytes moved stay below the rate times the time, whatever is hot. */
static void test_budget(void)
{
	struct hm_tiering_desc desc = manual;
	struct hm_tiering *tiering;
	struct hm_tiering_info info;
	struct hm_map *map;
	double start;
	uint32_t n;

	play_begin();
	map = make_map(0, SIZE, 0);
	desc.fast_bytes = SIZE;
	desc.bytes_per_second = 8 * BLOCK;
	start = test_now();
	CHECK_OK_FATAL(hm_tiering_create(map, &desc, &tiering));
	for (n = 0; n < 12 || test_now() - start < 0.5; n++) {
		touch(0, BLOCKS);
		usleep(5000);
		CHECK_OK(hm_tiering_step(tiering));
	}
	info = info_of(tiering);
	CHECK(info.promoted >= BLOCK);
	CHECK((double)info.promoted <= (test_now() - start) * 8 * BLOCK);
	hm_tiering_unref(tiering);
	/* Over the budget of bytes: the coldest leave. */
	memset(nodes, 0, sizeof(nodes));
	CHECK_OK_FATAL(hm_tiering_create(map, &manual, &tiering));
	CHECK_EQUAL(info_of(tiering).fast_bytes, SIZE);
	step_while_touching(tiering, 3, 4);
	CHECK_EQUAL(pages_on(0, 3, 4), 4 * BLOCK / PAGE);
	CHECK_EQUAL(info_of(tiering).fast_bytes, 4 * BLOCK);
	CHECK_EQUAL(info_of(tiering).demoted, SIZE - 4 * BLOCK);
	hm_tiering_unref(tiering);
	hm_map_unref(map);
	play_end();
}

static void test_dry_run(void)
{
	struct hm_tiering_desc desc = manual;
	struct hm_tiering *tiering;
	struct hm_tiering_info info;
	struct hm_map *map;

	play_begin();
	map = make_map(0, SIZE, 0);
	desc.flags |= HM_TIERING_DRY_RUN;
	CHECK_OK_FATAL(hm_tiering_create(map, &desc, &tiering));
	step_while_touching(tiering, 8, 4);
	info = info_of(tiering);
	CHECK_EQUAL(pages_on(1, 0, BLOCKS), PAGES);
	CHECK_EQUAL(info.promoted, 0);
	CHECK_EQUAL(info.heat_fast, 0);
	CHECK(info.heat > 0);
	CHECK_EQUAL(info.heat_best, info.heat);
	hm_tiering_unref(tiering);
	hm_map_unref(map);
	play_end();
}

/* Writes count in private memory, and its bytes stay. */
static void test_private(void)
{
	struct hm_tiering *tiering;
	struct hm_map *map;
	uint32_t i;
	int r;

	play_begin();
	map = make_map(HM_BUFFER_PRIVATE, SIZE, 0);
	r = hm_tiering_create(map, &manual, &tiering);
	if (r == -EOPNOTSUPP) {
		test_skip("numa", "%s", hm_errmsg());
		hm_map_unref(map);
		play_end();
		return;
	}
	CHECK_OK_FATAL(r);
	CHECK_EQUAL(info_of(tiering).source, HM_TIERING_BY_SOFT_DIRTY);
	for (i = 0; i < 12; i++) {
		touch(0, 4);
		pattern_write(base, 8 * BLOCK, 9 * BLOCK, 7);
		usleep(2000);
		CHECK_OK(hm_tiering_step(tiering));
	}
	CHECK_EQUAL(pages_on(0, 8, 1), BLOCK / PAGE);
	CHECK_EQUAL(pages_on(0, 0, BLOCKS), BLOCK / PAGE);
	CHECK(pattern_holds(base, 0, 8 * BLOCK, 7));
	hm_tiering_unref(tiering);
	hm_map_unref(map);
	play_end();
}

/* Pages that can't move are counted, and rest. */
static void test_pinned(void)
{
	struct hm_tiering *tiering;
	struct hm_tiering_info info;
	struct hm_map *map;

	play_begin();
	map = make_map(0, SIZE, 0);
	CHECK_OK_FATAL(hm_tiering_create(map, &manual, &tiering));
	pinned = true;
	step_while_touching(tiering, 0, 2);
	info = info_of(tiering);
	CHECK_EQUAL(info.promoted, 0);
	CHECK_EQUAL(info.refused, 2 * BLOCK);
	hm_tiering_unref(tiering);
	hm_map_unref(map);
	play_end();
}

static void test_map_changes(void)
{
	struct hm_tiering_info info;
	struct hm_tiering *tiering;
	struct hm_map *map;

	play_begin();
	map = make_map(0, SIZE, 0);
	CHECK_OK_FATAL(hm_tiering_create(map, &manual, &tiering));
	CHECK_OK(hm_tiering_step(tiering));
	CHECK_OK(hm_tiering_step(tiering));
	touch(0, 1);
	CHECK_OK_FATAL(hm_map_lock(map, 0, PAGE, 0, NULL));
	CHECK_ERROR(-EOPNOTSUPP, hm_tiering_step(tiering));
	CHECK_OK(hm_map_unlock(map, 0, PAGE));
	CHECK_ERROR(-EOPNOTSUPP, hm_tiering_step(tiering));
	info = info_of(tiering);
	CHECK_EQUAL((uint64_t)-info.status, EOPNOTSUPP);
	hm_tiering_unref(tiering);
	CHECK(pattern_holds(base, 0, SIZE, 7));
	hm_map_unref(map);
	/* A map that gets shorter ends the looks, also while nothing is touched. */
	map = make_map(0, SIZE, 0);
	CHECK_OK_FATAL(hm_tiering_create(map, &manual, &tiering));
	CHECK_OK(hm_buffer_resize(map->buffer, SIZE / 2, 0));
	CHECK_ERROR(-ENODEV, hm_tiering_step(tiering));
	CHECK_EQUAL((uint64_t)-info_of(tiering).status, ENODEV);
	hm_tiering_unref(tiering);
	CHECK(pattern_holds(base, 0, SIZE / 2, 7));
	hm_map_unref(map);
	play_end();
}

/* A thread does all of it, and ends with the last reference. */
static void test_thread(void)
{
	struct hm_tiering_desc desc = manual;
	struct hm_tiering *tiering;
	struct hm_map *map;
	double start;

	play_begin();
	map = make_map(0, SIZE, 0);
	desc.flags = 0;
	desc.interval_ms = 5;
	CHECK_OK_FATAL(hm_tiering_create(map, &desc, &tiering));
	CHECK_ERROR(-EBUSY, hm_tiering_step(tiering));
	start = test_now();
	while (info_of(tiering).promoted < 2 * BLOCK && test_now() - start < 8) {
		touch(10, 2);
		usleep(200);
	}
	CHECK_EQUAL(pages_on(0, 10, 2), 2 * BLOCK / PAGE);
	CHECK(info_of(tiering).cpu_ns > 0);
	/* Nothing is touched: it looks less often. */
	start = test_now();
	while (info_of(tiering).interval_ns < 40000000 && test_now() - start < 8)
		usleep(10000);
	CHECK(info_of(tiering).interval_ns >= 40000000);
	hm_tiering_unref(hm_tiering_ref(tiering));
	hm_tiering_unref(tiering);
	CHECK(pattern_holds(base, 0, SIZE, 7));
	hm_map_unref(map);
	play_end();
}

/* ---- windows without a touch ---- */

static unsigned int n_pagemap; /* times that it was opened */

static int open_counted(const char *path, int flags, mode_t mode)
{
	n_pagemap += !strcmp(path, "/proc/self/pagemap");
	return open_played(path, flags, mode);
}

static long n_faults;  /* that the kernel has counted, or 0: it counts none */
static bool has_fault; /* before each look at them */

static int play_faults(int who, struct rusage *ret_usage)
{
	(void)who;
	memset(ret_usage, 0, sizeof(*ret_usage));
	n_faults += has_fault;
	ret_usage->ru_minflt = n_faults;
	return 0;
}

/* Touches one block after another; none is missed, and none is found twice. */
static void check_touches(struct hm_tiering *tiering)
{
	uint64_t touched;
	uint32_t i;

	for (i = 0; i < 8; i++) {
		touched = info_of(tiering).touched;
		touch(3 * i, 1);
		n_faults += n_faults > 0;
		CHECK_OK(hm_tiering_step(tiering));
		CHECK_EQUAL(info_of(tiering).touched, touched + 1);
		CHECK_OK(hm_tiering_step(tiering));
		CHECK_EQUAL(info_of(tiering).touched, touched + 1);
	}
}

/*
 * A window in which the process had no fault needs no look at page tables. The real count has the
 * faults of this program's other pages, too: a sanitizer's, those that the host takes.
 */
static void test_no_faults(void)
{
	enum { REAL, PLAYED, NONE, N_COUNTS };
	struct sys_table real = sys_table;
	struct hm_tiering *tiering;
	struct hm_map *map;
	uint32_t i, count;

	for (count = 0; count < N_COUNTS; count++) {
		play_begin();
		sys_table.open = open_counted;
		n_faults = 0;
		has_fault = count == PLAYED;
		if (count != REAL)
			sys_table.getrusage = play_faults;
		map = make_map(0, SIZE, 0);
		CHECK_OK_FATAL(hm_tiering_create(map, &manual, &tiering));
		has_fault = false;
		for (i = 0; i < 4; i++)
			CHECK_OK(hm_tiering_step(tiering));
		n_pagemap = 0;
		for (i = 0; i < 8; i++)
			CHECK_OK(hm_tiering_step(tiering));
		if (count != REAL)
			CHECK_EQUAL(n_pagemap, (count == NONE ? 8 : 0));
		check_touches(tiering);
		hm_tiering_unref(tiering);
		hm_map_unref(map);
		play_end();
		sys_table.getrusage = real.getrusage;
	}
}

/* ---- blocks that a handler may replace ---- */

static int (*real_madvise)(void *address, size_t length, int advice);
static struct hm_map *zapped;
static uint32_t n_zaps, n_unclaimed;

static int madvise_watched(void *address, size_t length, int advice)
{
	if (advice == MADV_DONTNEED && (char *)address == base) {
		n_zaps++;
		n_unclaimed += atomic_load(&repair_states(zapped)->state[0]) != BLOCK_CHANGING;
	}
	return real_madvise(address, length, advice);
}

/* The bytes that a handler puts there are private: none comes between the check and the call. */
static void test_claimed(void)
{
	struct hm_tiering *tiering;

	play_begin();
	CHECK_OK_FATAL(hm_handler_install(0));
	zapped = make_map(0, SIZE, 0);
	real_madvise = sys_table.madvise;
	sys_table.madvise = madvise_watched;
	CHECK_OK_FATAL(hm_tiering_create(zapped, &manual, &tiering));
	step_while_touching(tiering, 8, 4);
	CHECK(n_zaps >= 10);
	CHECK_EQUAL(n_unclaimed, 0);
	CHECK_EQUAL(atomic_load(&repair_states(zapped)->state[0]), BLOCK_OK);
	CHECK(pattern_holds(base, 0, SIZE, 7));
	/* A block that was replaced ends the looks, and keeps its bytes. */
	n_zaps = 0;
	atomic_store(&repair_states(zapped)->state[0], BLOCK_POISONED);
	CHECK_ERROR(-ENODEV, hm_tiering_step(tiering));
	CHECK_EQUAL(n_zaps, 0);
	atomic_store(&repair_states(zapped)->state[0], BLOCK_OK);
	hm_tiering_unref(tiering);
	sys_table.madvise = real_madvise;
	hm_map_unref(zapped);
	CHECK_OK(hm_handler_remove());
	play_end();
}

static void test_bad_input(void)
{
	struct {
		struct hm_tiering_desc desc;
		int error;
	} rows[] = {
		{ { .flags = 1u << 7 }, -EINVAL },
		{ { .reserved = 1 }, -EINVAL },
		{ { .interval_ms = 60001 }, -EINVAL },
		{ { .block = 5000 }, -EINVAL },
		{ { .fast_bytes = BLOCK - 1 }, -EINVAL },
		{ { .fast_bytes = BLOCK, .bytes_per_second = BLOCK - 1 }, -EINVAL },
		{ { .fast = HM_TIER_FAR }, -EINVAL },
		{ { .slow = 17 }, -EINVAL },
		{ { .struct_size = 4096 }, -E2BIG },
	};
	struct hm_tiering_info info = { .struct_size = 4 };
	struct hm_tiering *tiering = NULL;
	struct hm_map *map;
	size_t i;

	play_begin();
	map = make_map(0, SIZE, 0);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!rows[i].desc.struct_size)
			rows[i].desc.struct_size = sizeof(rows[i].desc);
		CHECK_ERROR(rows[i].error, hm_tiering_create(map, &rows[i].desc, &tiering));
	}
	CHECK_ERROR(-EINVAL, hm_tiering_create(map, NULL, &tiering));
	CHECK_ERROR(-EINVAL, hm_tiering_create(NULL, &manual, &tiering));
	CHECK(!tiering);
	CHECK_ERROR(-EINVAL, hm_tiering_step(NULL));
	CHECK_OK_FATAL(hm_tiering_create(map, &manual, &tiering));
	CHECK_ERROR(-EINVAL, hm_tiering_query(tiering, &info));
	CHECK_ERROR(-EINVAL, hm_tiering_moves(tiering, NULL, 1, NULL));
	hm_tiering_unref(tiering);
	hm_tiering_unref(NULL);
	hm_map_unref(map);
	play_end();
}

/* ---- prefetch ---- */

static void test_prefetch(void)
{
	struct hm_fence *fence;
	struct hm_accel *accel;
	struct hm_map *map;

	play_begin();
	map = make_map(0, SIZE, 0);
	CHECK_OK(hm_range_prefetch(base + BLOCK, 2 * BLOCK, NULL,
				   HM_READ | HM_RANGE_TIER(HM_TIER_FAST), NULL));
	CHECK_EQUAL(pages_on(0, 1, 2), 2 * BLOCK / PAGE);
	CHECK_EQUAL(pages_on(0, 0, BLOCKS), 2 * BLOCK / PAGE);
	CHECK_OK_FATAL(hm_range_prefetch(
		base, SIZE, NULL, HM_READ | HM_WRITE | HM_RANGE_TIER(HM_TIER_FAR), &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	CHECK_EQUAL(pages_on(1, 0, BLOCKS), PAGES);
	CHECK_ERROR(-EINVAL,
		    hm_range_prefetch(base, SIZE, NULL, HM_READ | HM_RANGE_TIER(9), NULL));
	CHECK_ERROR(-EINVAL,
		    hm_range_prefetch(base, SIZE, NULL, HM_RANGE_TIER(HM_TIER_FAST), NULL));
	pinned = true;
	CHECK_ERROR(-EBUSY, hm_range_prefetch(base, SIZE, NULL,
					      HM_READ | HM_RANGE_TIER(HM_TIER_FAST), NULL));
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
	pinned = false;
	CHECK_OK(hm_range_prefetch(base, SIZE, accel, HM_READ | HM_RANGE_TIER(HM_TIER_FAST),
				   NULL));
	hm_accel_unref(accel);
	CHECK_EQUAL(pages_on(0, 0, BLOCKS), PAGES);
	hm_map_unref(map);
	play_end();
}

/* ---- a machine with two nodes ---- */

static uint64_t truly_on(int32_t node, uint32_t first, uint32_t n)
{
	static struct hm_range_page pages[PAGES];
	uint64_t i, count, sum = 0;

	/* Pages without an entry have no node to tell. */
	CHECK_OK(hm_range_prefetch(base, SIZE, NULL, HM_READ, NULL));
	CHECK_OK(hm_range_query(base, SIZE, NULL, pages, PAGES, &count));
	for (i = first * (BLOCK / PAGE); i < (first + n) * (BLOCK / PAGE); i++)
		sum += pages[i].node == node;
	return sum;
}

static void check_truly(uint32_t flags)
{
	uint32_t i, k;
	AUTO(hm_map) *map = make_map(flags, SIZE, HM_TIER_FAR);
	struct hm_tiering_info info;
	struct hm_tiering *tiering;

	CHECK_OK_FATAL(hm_tiering_create(map, &manual, &tiering));
	info = info_of(tiering);
	CHECK_EQUAL(info.slow_bytes, SIZE);
	CHECK_EQUAL(truly_on((int32_t)info.slow_node, 0, BLOCKS), PAGES);
	CHECK_OK(hm_tiering_step(tiering));
	for (i = 0; i < 14; i++) {
		for (k = 8; k < 12; k++)
			pattern_write(base, k * BLOCK, (k + 1) * BLOCK, 7);
		usleep(2000);
		CHECK_OK(hm_tiering_step(tiering));
	}
	CHECK_EQUAL(truly_on((int32_t)info.fast_node, 8, 4), 4 * BLOCK / PAGE);
	CHECK_EQUAL(truly_on((int32_t)info.slow_node, 0, BLOCKS), PAGES - 4 * BLOCK / PAGE);
	hm_tiering_unref(tiering);
	CHECK_OK(hm_range_prefetch(base, SIZE, NULL, HM_READ | HM_RANGE_TIER(HM_TIER_FAST),
				   NULL));
	CHECK_EQUAL(truly_on((int32_t)info.fast_node, 0, BLOCKS), PAGES);
}

static void test_two_nodes(void)
{
	uint64_t usable = node_usable();

	if (!(usable & (usable - 1))) {
		test_skip("numa", "this machine has memory of one node only");
		return;
	}
	check_truly(0);
	check_truly(HM_BUFFER_PRIVATE);
}

/* A creation in which a call fails leaves the map as it was, and its bytes. */
static void test_undo(void)
{
	struct hm_tiering *tiering = NULL;
	unsigned int n, refused = 0;
	struct hm_map *map;
	int r = 0;

	inject_install();
	play_begin();
	map = make_map(0, SIZE, 0);
	for (n = 1; n < 1000; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_tiering_create(map, &manual, &tiering);
		if (!inject_disarm())
			break;
		if (r) {
			CHECK(!tiering && *hm_errmsg());
			refused++;
		} else {
			hm_tiering_unref(tiering);
			tiering = NULL;
		}
		CHECK(pattern_holds(base, 0, SIZE, 7));
	}
	CHECK_EQUAL(r, 0);
	CHECK(refused >= 3);
	step_while_touching(tiering, 8, 4);
	CHECK_EQUAL(pages_on(0, 8, 4), 4 * BLOCK / PAGE);
	hm_tiering_unref(tiering);
	hm_map_unref(map);
	play_end();
}

static const struct test tests[] = {
	{ .name = "reads_promote", .run = test_reads_promote },
	{ .name = "budget", .run = test_budget },
	{ .name = "dry_run", .run = test_dry_run },
	{ .name = "private", .run = test_private },
	{ .name = "pinned", .run = test_pinned },
	{ .name = "map_changes", .run = test_map_changes },
	{ .name = "thread", .run = test_thread, .seconds = 40 },
	{ .name = "no_faults", .run = test_no_faults },
	{ .name = "claimed", .run = test_claimed },
	{ .name = "bad_input", .run = test_bad_input },
	{ .name = "undo", .run = test_undo },
	{ .name = "prefetch", .run = test_prefetch },
	{ .name = "two_nodes", .run = test_two_nodes },
	{ 0 },
};

TEST_MAIN(harness_main, "tiering", tests)
