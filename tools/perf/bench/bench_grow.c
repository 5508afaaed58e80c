// SPDX-License-Identifier: MIT
/* grow, first_touch: 1 GiB of host memory, step by step and at once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define PAGE KIB(4)
#define STEP MIB(64)
#define STEPS 16u
#define TOTAL (STEPS * STEP)

struct grower {
	struct hm_device *device;
	bool touch;
	uint32_t flags; /* first_touch: HM_BUFFER_* */
};

static int buffer_and_map(const struct grower *grower, size_t size, uint32_t map_flags,
			  struct hm_buffer **ret_buffer, struct hm_map **ret_map)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = grower->flags,
		.size = size,
		.max_size = TOTAL,
	};
	const struct hm_map_desc map_desc = {
		.struct_size = sizeof(map_desc),
		.flags = map_flags,
		.access = HM_READ | HM_WRITE,
	};
	int r;

	r = hm_buffer_create(grower->device, &desc, ret_buffer);
	if (r)
		return r;
	r = hm_map_create(*ret_buffer, &map_desc, ret_map);
	if (r)
		hm_buffer_unref(*ret_buffer);
	return r;
}

/* ---- grow ---- */

static int grow_steps(const struct grower *grower, struct hm_buffer *buffer, struct hm_map *map)
{
	char *address = hm_map_address(map);
	size_t i, old = PAGE;
	int r;

	for (i = 1; i <= STEPS; i++) {
		r = hm_buffer_resize(buffer, i * STEP, 0);
		if (!r && grower->touch)
			r = hm_map_prefetch(map, old, i * STEP - old, HM_READ | HM_WRITE);
		if (r)
			return r;
		if (grower->touch)
			bench_touch(address + old, i * STEP - old, PAGE);
		old = i * STEP;
	}
	return hm_map_address(map) == address ? 0 : -EFAULT;
}

static int grow_ours(void *user, double *ret_ns)
{
	const struct grower *grower = user;
	struct hm_buffer *buffer;
	struct hm_map *map;
	double start;
	int r;

	r = buffer_and_map(grower, PAGE, 0, &buffer, &map);
	if (r)
		return r;
	start = bench_now();
	r = grow_steps(grower, buffer, map);
	*ret_ns = (bench_now() - start) / STEPS;
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	return r;
}

static int grow_peer(void *user, double *ret_ns)
{
	struct peer_map map;
	double start;
	size_t i;
	int r;

	(void)user;
	r = peer_map_create(&map, PAGE, TOTAL);
	if (r)
		return r;
	start = bench_now();
	for (i = 1; i <= STEPS && !r; i++)
		r = peer_grow(&map, i * STEP);
	*ret_ns = (bench_now() - start) / STEPS;
	peer_map_destroy(&map);
	return r;
}

static int grow_peer_realloc(void *user, double *ret_ns)
{
	char *address = malloc(PAGE);
	size_t i, old = PAGE;
	double start;
	int r = address ? 0 : -ENOMEM;

	(void)user;
	start = bench_now();
	for (i = 1; i <= STEPS && !r; i++) {
		r = peer_grow_realloc(&address, old, i * STEP, PAGE);
		old = i * STEP;
	}
	*ret_ns = (bench_now() - start) / STEPS;
	free(address);
	return r;
}

int bench_grow(void)
{
	struct bench_pair pair = {
		.name = "a step of 64 MiB",
		.peer = "ftruncate, mmap(MAP_FIXED)",
		.ours = grow_ours,
		.peer_side = grow_peer,
		.rounds = 200,
		.warm_up = 10,
	};
	struct grower grower = { 0 };
	int r;

	r = hm_device_open("host", &grower.device);
	if (r)
		return bench_fail("device", r, true);
	r = bench_compare(&pair, &grower, "us", 1e3, TARGET_RATIO, 1.3);
	if (r)
		goto out;
	pair.name = "a step, touched";
	pair.peer = "realloc";
	pair.peer_side = grow_peer_realloc;
	pair.rounds = 7;
	pair.warm_up = 1;
	grower.touch = true;
	pair.warm_each = true;
	r = bench_compare(&pair, &grower, "ms", 1e6, TARGET_RATIO, 1.10);
out:
	hm_device_unref(grower.device);
	return r;
}

/* ---- first_touch ---- */

static int touch_ours(void *user, double *ret_ns)
{
	const struct grower *grower = user;
	struct hm_buffer *buffer;
	struct hm_map *map;
	double start = bench_now();
	int r;

	r = buffer_and_map(grower, TOTAL, HM_MAP_POPULATE, &buffer, &map);
	if (r)
		return r;
	bench_touch(hm_map_address(map), TOTAL, PAGE);
	*ret_ns = bench_now() - start;
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	return 0;
}

static int touch_peer(void *user, double *ret_ns)
{
	double start = bench_now();
	struct peer_map map;
	int r;

	(void)user;
	r = peer_first_touch(&map, TOTAL);
	if (r)
		return r;
	*ret_ns = bench_now() - start;
	peer_map_destroy(&map);
	return 0;
}

/* Is a word other than @off chosen in a file of /sys/kernel/mm/transparent_hugepage? */
static bool huge_pages(const char *file, const char *const *off)
{
	char path[128], line[128] = "";
	FILE *stream;

	snprintf(path, sizeof(path), "/sys/kernel/mm/transparent_hugepage/%s", file);
	stream = fopen(path, "re");
	if (!stream)
		return false;
	if (!fgets(line, sizeof(line), stream))
		line[0] = 0;
	fclose(stream);
	for (; *off; off++)
		if (strstr(line, *off))
			return false;
	return line[0] != 0;
}

int bench_first_touch(void)
{
	static const char *const off[] = { "[never]", "[deny]", NULL };
	struct bench_pair pair = {
		.peer = "memfd of 4 KiB pages, touched page by page",
		.ours = touch_ours,
		.peer_side = touch_peer,
		.rounds = 7,
		.warm_up = 1,
		.warm_each = true,
	};
	struct grower grower = { 0 };
	bool huge;
	int r;

	r = hm_device_open("host", &grower.device);
	if (r)
		return bench_fail("device", r, true);
	huge = huge_pages("shmem_enabled", off);
	pair.name = huge ? "shared, huge pages" : "shared, no huge pages";
	r = bench_compare(&pair, &grower, "ms", 1e6, TARGET_RATIO, huge ? 0.35 : 0.80);
	if (r)
		goto out;
	huge = huge_pages("enabled", off);
	pair.name = huge ? "private" : "private, no huge pages";
	grower.flags = HM_BUFFER_PRIVATE;
	r = bench_compare(&pair, &grower, "ms", 1e6, huge ? TARGET_RATIO : TARGET_NONE, 0.35);
out:
	hm_device_unref(grower.device);
	return r;
}
