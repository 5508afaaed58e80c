// SPDX-License-Identifier: MIT
/* map_cycle, alloc_cycle, protect_pair, lock_pair: maps of 64 KiB against bare system calls. */
#include <errno.h>
#include <sys/mman.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define LENGTH KIB(64)
#define PAGE KIB(4)

/* Pairs of calls in one sample: a clock reading costs as much as one of them. */
#define PAIRS 32

struct maps {
	struct hm_device *device;
	size_t stride;      /* map_cycle: bytes between touches */
	bool touch;         /* protect_pair: all pages after every pair */
	struct hm_map *map; /* protect_pair, lock_pair */
	struct peer_map bare;
};

/* ---- map_cycle ---- */

static int cycle_ours(void *user, double *ret_ns)
{
	const struct maps *maps = user;
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = LENGTH };
	double start = bench_now();
	struct hm_buffer *buffer;
	struct hm_map *map;
	int r;

	r = hm_buffer_create(maps->device, &desc, &buffer);
	if (r)
		return r;
	r = hm_map_create(buffer, NULL, &map);
	if (!r)
		bench_touch(hm_map_address(map), LENGTH, maps->stride);
	hm_map_unref(r ? NULL : map);
	hm_buffer_unref(buffer);
	*ret_ns = bench_now() - start;
	return r;
}

static int cycle_peer(void *user, double *ret_ns)
{
	const struct maps *maps = user;
	double start = bench_now();
	int r = peer_map_cycle(LENGTH, maps->stride);

	*ret_ns = bench_now() - start;
	return r;
}

int bench_map_cycle(void)
{
	struct bench_pair pair = {
		.peer = "memfd_create, ftruncate, mmap, touch, munmap, close",
		.ours = cycle_ours,
		.peer_side = cycle_peer,
		.rounds = 8000,
		.warm_up = 500,
	};
	struct maps maps = { 0 };
	int r;

	r = hm_device_open("host", &maps.device);
	if (r)
		return bench_fail("device", r, true);
	pair.name = "every page written";
	maps.stride = PAGE;
	r = bench_compare(&pair, &maps, "us", 1e3, TARGET_RATIO, 1.10);
	if (r)
		goto out;
	pair.name = "one byte written";
	maps.stride = LENGTH;
	r = bench_compare(&pair, &maps, "us", 1e3, TARGET_RATIO, 1.35);
out:
	hm_device_unref(maps.device);
	return r;
}

/* ---- alloc_cycle ---- */

static int alloc_ours(void *user, double *ret_ns)
{
	const struct maps *maps = user;
	double start = bench_now();
	char *bytes;
	int r;

	r = hm_alloc(maps->device, LENGTH, HM_READ | HM_WRITE, &bytes);
	if (r)
		return r;
	bench_touch(bytes, LENGTH, maps->stride);
	r = hm_free(bytes);
	*ret_ns = bench_now() - start;
	return r;
}

int bench_alloc_cycle(void)
{
	struct bench_pair pair = {
		.name = "against map_cycle",
		.peer = "hm_buffer_create, hm_map_create, one byte, hm_map_unref, hm_buffer_unref",
		.ours = alloc_ours,
		.peer_side = cycle_ours,
		.rounds = 8000,
		.warm_up = 500,
	};
	struct maps maps = { .stride = LENGTH };
	int r;

	r = hm_device_open("host", &maps.device);
	if (r)
		return bench_fail("device", r, true);
	r = bench_compare(&pair, &maps, "us", 1e3, TARGET_RATIO, 1.25);
	if (r)
		goto out;
	pair.name = "against bare calls";
	pair.peer = "memfd_create, ftruncate, mmap, one byte, munmap, close";
	pair.peer_side = cycle_peer;
	r = bench_compare(&pair, &maps, "us", 1e3, TARGET_NONE, 0);
out:
	hm_device_unref(maps.device);
	return r;
}

/* ---- the maps of the pairs: one of ours, one bare ---- */

static int maps_create(struct maps *maps, bool touch)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = LENGTH };
	struct hm_buffer *buffer;
	int r;

	r = hm_device_open("host", &maps->device);
	if (r)
		return bench_fail("device", r, true);
	r = hm_buffer_create(maps->device, &desc, &buffer);
	if (r) {
		bench_fail("buffer", r, true);
		goto unref_device;
	}
	r = hm_map_create(buffer, NULL, &maps->map);
	hm_buffer_unref(buffer);
	if (r) {
		bench_fail("map", r, true);
		goto unref_device;
	}
	r = peer_map_create(&maps->bare, LENGTH, LENGTH);
	if (r) {
		bench_fail("map", r, false);
		goto unref_map;
	}
	maps->touch = touch;
	if (touch) {
		bench_touch(hm_map_address(maps->map), LENGTH, PAGE);
		bench_touch(maps->bare.address, LENGTH, PAGE);
	}
	return 0;

unref_map:
	hm_map_unref(maps->map);
unref_device:
	hm_device_unref(maps->device);
	return r;
}

static void maps_destroy(struct maps *maps)
{
	peer_map_destroy(&maps->bare);
	hm_map_unref(maps->map);
	hm_device_unref(maps->device);
}

/* ---- protect_pair ---- */

static int protect_ours(void *user, double *ret_ns)
{
	const struct maps *maps = user;
	char *address = hm_map_address(maps->map);
	double start = bench_now();
	int i, r;

	for (i = 0; i < PAIRS; i++) {
		r = hm_map_protect(maps->map, 0, LENGTH, HM_READ);
		if (!r)
			r = hm_map_protect(maps->map, 0, LENGTH, HM_READ | HM_WRITE);
		if (r)
			return r;
		if (maps->touch)
			bench_touch(address, LENGTH, PAGE);
	}
	*ret_ns = (bench_now() - start) / PAIRS;
	return 0;
}

static int protect_peer(void *user, double *ret_ns)
{
	const struct maps *maps = user;
	double start = bench_now();
	int i, r;

	for (i = 0; i < PAIRS; i++) {
		r = peer_protect_pair(maps->bare.address, LENGTH);
		if (r)
			return r;
		if (maps->touch)
			bench_touch(maps->bare.address, LENGTH, PAGE);
	}
	*ret_ns = (bench_now() - start) / PAIRS;
	return 0;
}

int bench_protect_pair(void)
{
	struct bench_pair pair = {
		.name = "touched",
		.peer = "mprotect, mprotect, touch every page",
		.ours = protect_ours,
		.peer_side = protect_peer,
		.rounds = 1000,
		.warm_up = 100,
	};
	struct bench_figures figures;
	struct maps maps = { 0 };
	int r;

	r = maps_create(&maps, true);
	if (r)
		return r;
	r = bench_compare(&pair, &maps, "us", 1e3, TARGET_RATIO, 1.05);
	maps_destroy(&maps);
	if (r)
		return r;

	pair.name = "untouched";
	pair.peer = "mprotect, mprotect";
	r = maps_create(&maps, false);
	if (r)
		return r;
	r = bench_measure(&pair, &maps, &figures);
	maps_destroy(&maps);
	if (r)
		return r;
	bench_report_pair(&pair, &figures, "us", 1e3, TARGET_NONE, 0);
	/* Each sample is of two calls. */
	pair.name = "untouched, added a call";
	pair.peer = "one mprotect";
	bench_report_added(&pair, &figures, "ns", 2, 80);
	return 0;
}

/* ---- lock_pair ---- */

static int lock_ours(void *user, double *ret_ns)
{
	const struct maps *maps = user;
	double start = bench_now();
	int i, r;

	for (i = 0; i < PAIRS; i++) {
		r = hm_map_lock(maps->map, 0, LENGTH, 0, NULL);
		if (!r)
			r = hm_map_unlock(maps->map, 0, LENGTH);
		if (r)
			return r;
	}
	*ret_ns = (bench_now() - start) / PAIRS;
	return 0;
}

static int lock_peer(void *user, double *ret_ns)
{
	const struct maps *maps = user;
	double start = bench_now();
	int i, r;

	for (i = 0; i < PAIRS; i++) {
		r = peer_lock_pair(maps->bare.address, LENGTH);
		if (r)
			return r;
	}
	*ret_ns = (bench_now() - start) / PAIRS;
	return 0;
}

int bench_lock_pair(void)
{
	const struct bench_pair pair = {
		.name = "64 KiB",
		.peer = "mlock, munlock",
		.ours = lock_ours,
		.peer_side = lock_peer,
		.rounds = 1000,
		.warm_up = 100,
	};
	struct maps maps = { 0 };
	int r;

	r = maps_create(&maps, true);
	if (r)
		return r;
	r = hm_map_lock(maps.map, 0, LENGTH, 0, NULL);
	if (r == -EPERM || r == -ENOMEM) {
		bench_skip(pair.name, "%s", hm_errmsg());
		r = 0;
		goto out;
	}
	r = bench_compare(&pair, &maps, "us", 1e3, TARGET_RATIO, 1.10);
out:
	maps_destroy(&maps);
	return r;
}
