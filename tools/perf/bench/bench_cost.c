// SPDX-License-Identifier: MIT
/*
 * publish_cost: the price of the published table in map_cycle. Two copies of the library in one
 * process: one publishes its maps, one does not.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "library.h"

#define LENGTH KIB(64)
#define PAGE KIB(4)
#define PUBLISH "HETMAP_PUBLISH"

struct side {
	struct library library;
	struct hm_device *device;
};

struct cost {
	struct side with, without;
	size_t stride; /* bytes between touches */
};

static int cycle(const struct side *side, size_t stride, double *ret_ns)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = LENGTH };
	const struct library *library = &side->library;
	double start = bench_now();
	struct hm_buffer *buffer;
	struct hm_map *map;
	int r;

	r = library->buffer_create(side->device, &desc, &buffer);
	if (r)
		return r;
	r = library->map_create(buffer, NULL, &map);
	if (!r)
		bench_touch(library->map_address(map), LENGTH, stride);
	library->map_unref(r ? NULL : map);
	library->buffer_unref(buffer);
	*ret_ns = bench_now() - start;
	return r;
}

static int cycle_with(void *user, double *ret_ns)
{
	const struct cost *cost = user;

	return cycle(&cost->with, cost->stride, ret_ns);
}

static int cycle_without(void *user, double *ret_ns)
{
	const struct cost *cost = user;

	return cycle(&cost->without, cost->stride, ret_ns);
}

/* Loads it, and makes it map something, so that it reads the environment now. */
static bool prepare(struct side *side)
{
	const char *why;
	double ns;
	int r;

	if (!library_load("libhetmap.so", &side->library, &why)) {
		bench_skip("every page written", "%s", why);
		return false;
	}
	r = side->library.device_open("host", &side->device);
	if (!r)
		r = cycle(side, PAGE, &ns);
	if (!r)
		return true;
	bench_skip("every page written", "libhetmap.so: %s", side->library.errmsg());
	return false;
}

static int measure(struct cost *cost)
{
	struct bench_pair pair = {
		.name = "every page written",
		.peer = "HETMAP_PUBLISH=0",
		.ours = cycle_with,
		.peer_side = cycle_without,
		.rounds = 16000,
		.warm_up = 500,
	};
	int r;

	cost->stride = PAGE;
	r = bench_compare(&pair, cost, "us", 1e3, TARGET_RATIO, 1.02);
	if (r)
		return r;
	pair.name = "one byte written";
	cost->stride = LENGTH;
	return bench_compare(&pair, cost, "us", 1e3, TARGET_RATIO, 1.02);
}

static void end(struct side *side)
{
	if (side->device)
		side->library.device_unref(side->device);
}

int bench_publish_cost(void)
{
	const char *set = getenv(PUBLISH);
	char *before = set ? strdup(set) : NULL;
	struct cost cost = { 0 };
	bool there;
	int r = 0;

	setenv(PUBLISH, "0", 1);
	there = prepare(&cost.without);
	unsetenv(PUBLISH);
	there = there && prepare(&cost.with);
	if (before)
		setenv(PUBLISH, before, 1);
	free(before);
	if (there)
		r = measure(&cost);
	end(&cost.with);
	end(&cost.without);
	return r;
}
