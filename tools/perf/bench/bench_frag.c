// SPDX-License-Identifier: MIT
/*
 * frag_effect: map_cycle, first_touch and the share of huge pages, while 0, 50 and 90% of the
 * machine's free memory are in pieces below 2 MiB.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "common/command.h"
#include "common/text.h"
#include "peer.h"
#include "perf/stat/fragments.h"

#define PAGE KIB(4)
#define CYCLE KIB(64)
/*
 * Share of free memory: more than a half and a tenth of whole memory leave, so that broken
 * pieces are met, and too little for the kernel to take memory from elsewhere.
 */
#define TOUCH_SHARE 0.6

static const unsigned int percents[] = { 0, 50, 90 };

#define LEVELS (sizeof(percents) / sizeof(percents[0]))

/* Figures of one level. */
struct level {
	struct bench_figures cycle, touch;
	double base;      /* percent of our memory that came by base pages */
	double peer_base; /* and of the peer's */
};

struct frag {
	struct hm_device *device;
	size_t touch;           /* bytes of first_touch */
	double base, peer_base; /* times of the last sample */
	struct level level[LEVELS];
};

/* ---- map_cycle ---- */

static int cycle_ours(void *user, double *ret_ns)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = CYCLE };
	const struct frag *frag = user;
	double start = bench_now();
	struct hm_buffer *buffer;
	struct hm_map *map;
	int r;

	r = hm_buffer_create(frag->device, &desc, &buffer);
	if (r)
		return r;
	r = hm_map_create(buffer, NULL, &map);
	if (!r)
		bench_touch(hm_map_address(map), CYCLE, PAGE);
	hm_map_unref(r ? NULL : map);
	hm_buffer_unref(buffer);
	*ret_ns = bench_now() - start;
	return r;
}

static int cycle_peer(void *user, double *ret_ns)
{
	double start = bench_now();
	int r = peer_map_cycle(CYCLE, PAGE);

	(void)user;
	*ret_ns = bench_now() - start;
	return r;
}

/* ---- first_touch ---- */

static int touch_ours(void *user, double *ret_ns)
{
	struct frag *frag = user;
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_BUFFER_PRIVATE,
		.size = frag->touch,
	};
	const struct hm_map_desc map_desc = {
		.struct_size = sizeof(map_desc),
		.flags = HM_MAP_POPULATE,
		.access = HM_READ | HM_WRITE,
	};
	struct hm_map_info info = { .struct_size = sizeof(info), .fields = HM_MAP_RESIDENT };
	double start = bench_now();
	struct hm_buffer *buffer;
	struct hm_map *map;
	int r;

	r = hm_buffer_create(frag->device, &desc, &buffer);
	if (r)
		return r;
	r = hm_map_create(buffer, &map_desc, &map);
	hm_buffer_unref(buffer);
	if (r)
		return r;
	bench_touch(hm_map_address(map), frag->touch, PAGE);
	*ret_ns = bench_now() - start;
	r = hm_map_query(map, &info);
	frag->base = 100 - 100 * (double)info.huge / (double)frag->touch;
	hm_map_unref(map);
	return r;
}

/* Bytes in huge pages of the mapping at @address [proc_pid_smaps(5)]. */
static uint64_t huge_at(const char *address)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	uint64_t huge = 0, begin, end, kib;
	bool inside = false;
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
			inside = (uintptr_t)address >= begin && (uintptr_t)address < end;
		else if (inside && sscanf(line, "AnonHugePages: %lu kB", &kib) == 1)
			huge = kib << 10;
	}
	if (file)
		fclose(file);
	return huge;
}

static int touch_peer(void *user, double *ret_ns)
{
	struct frag *frag = user;
	double start = bench_now();
	char *address;
	int r = peer_touch_huge(frag->touch, &address);

	if (r)
		return r;
	*ret_ns = bench_now() - start;
	frag->peer_base = 100 - 100 * (double)huge_at(address) / (double)frag->touch;
	munmap(address, frag->touch);
	return 0;
}

/* ---- a level ---- */

static int measure(struct frag *frag, struct level *level)
{
	struct bench_pair pair = {
		.name = "map_cycle",
		.peer = "memfd_create, ftruncate, mmap, touch, munmap, close",
		.ours = cycle_ours,
		.peer_side = cycle_peer,
		.rounds = 300,
		.warm_up = 20,
	};
	int r = bench_measure(&pair, frag, &level->cycle);

	if (r)
		return r;
	pair.name = "first_touch";
	pair.ours = touch_ours;
	pair.peer_side = touch_peer;
	pair.rounds = 5;
	pair.warm_up = 0;
	r = bench_measure(&pair, frag, &level->touch);
	level->base = frag->base;
	level->peer_base = frag->peer_base;
	return r;
}

/* Returns a sentence on the cost against the first level; free() it. */
static char *cost(const struct frag *frag, size_t i, double share)
{
	const struct level *level = &frag->level[i], *whole = &frag->level[0];
	char touch[TEXT_MAX], before[TEXT_MAX], cycle[TEXT_MAX];

	text_seconds(level->touch.ours.median / 1e9, touch);
	text_seconds(level->cycle.ours.median / 1e9, cycle);
	if (!i)
		return text_format("With %.1f%% of free memory in pieces below 2 MiB %.0f%% of "
				   "%zu MiB come by huge pages; bringing them in takes %s, and "
				   "a cycle %s.",
				   100 * share, 100 - level->base, frag->touch >> 20, touch,
				   cycle);
	text_seconds(whole->touch.ours.median / 1e9, before);
	return text_format(
		"With %.1f%% of free memory in pieces below 2 MiB %.0f%% of %zu MiB "
		"come by huge pages in place of %.0f%%: bringing them in takes %s in "
		"place of %s, %.2f times as long (the bare calls: %.2f times), and a "
		"cycle %s, %.2f times as long.",
		100 * share, 100 - level->base, frag->touch >> 20, 100 - whole->base, touch,
		before, level->touch.ours.median / whole->touch.ours.median,
		level->touch.peer.median / whole->touch.peer.median, cycle,
		level->cycle.ours.median / whole->cycle.ours.median);
}

static void report(const struct frag *frag, size_t i, const struct free_memory *memory)
{
	const struct level *level = &frag->level[i];
	char name[32], *note = cost(frag, i, free_memory_share(memory));
	struct bench_pair pair = {
		.name = name,
		.peer = "memfd_create, ftruncate, mmap, touch, munmap, close",
	};
	const struct bench_result base = {
		.name = name,
		.unit = "%",
		.value = level->base,
		.peer = "the same by bare mmap, madvise(MADV_HUGEPAGE), touch",
		.peer_value = level->peer_base,
		.note = note,
	};

	snprintf(name, sizeof(name), "map_cycle, %u%%", percents[i]);
	bench_report_pair(&pair, &level->cycle, "us", 1e3, TARGET_NONE, 0);
	snprintf(name, sizeof(name), "first_touch, %u%%", percents[i]);
	pair.peer = "mmap, madvise(MADV_HUGEPAGE), touch";
	bench_report_pair(&pair, &level->touch, "ms", 1e6, TARGET_NONE, 0);
	snprintf(name, sizeof(name), "in 4 KiB pages, %u%%", percents[i]);
	bench_report(&base);
	free(note);
}

static int at_level(struct frag *frag, size_t i)
{
	struct free_memory memory = { 0 };
	struct fragments *fragments;
	char name[32];
	int r;

	snprintf(name, sizeof(name), "%u%%", percents[i]);
	r = fragment_begin(percents[i] / 100.0, &fragments, &memory);
	if (r == -ERANGE) {
		bench_skip(name, "%.1f%% of free memory came to lie in pieces below 2 MiB",
			   100 * free_memory_share(&memory));
		return 0;
	}
	if (r)
		return bench_fail(name, r, false);
	r = measure(frag, &frag->level[i]);
	fragment_end(fragments);
	if (!r)
		report(frag, i, &memory);
	return r;
}

int bench_frag_effect(void)
{
	char *refusal = fragment_refusal();
	struct free_memory memory;
	struct frag frag = { 0 };
	size_t i;
	int r;

	if (refusal) {
		bench_skip("map_cycle, 0%", "%s", refusal);
		free(refusal);
		return 0;
	}
	r = free_memory_read(&memory);
	if (r)
		return bench_fail("free memory", r, false);
	frag.touch = (size_t)((double)memory.bytes * TOUCH_SHARE) & ~(MIB(2) - 1);
	r = hm_device_open("host", &frag.device);
	if (r)
		return bench_fail("device", r, true);
	for (i = 0; i < LEVELS && !r; i++)
		r = at_level(&frag, i);
	hm_device_unref(frag.device);
	return r;
}
