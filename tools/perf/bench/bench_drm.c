// SPDX-License-Identifier: MIT
/* drm_map_cycle, drm_reuse: buffers of DRM nodes against bare libdrm, ioctls and mmap. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/drm.h>
#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define LENGTH MIB(1)
#define PAGE KIB(4)

/* The environment's name for how much a node may keep idle, read when it is opened. */
#define IDLE "HETMAP_DRM_IDLE"

#define NODES_MAX 64

/* Drivers on which the peer can make buffers. */
static const struct kind {
	const char *driver;
	bool primary; /* on its card node, by dumb buffers */
} kinds[] = {
	{ "virtio_gpu", false },
	{ "vgem", true },
};

struct cycle {
	struct hm_device *device;
	struct peer_drm peer;
};

static int cycle_ours(void *user, double *ret_ns)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = LENGTH };
	const struct cycle *cycle = user;
	double start = bench_now();
	struct hm_buffer *buffer;
	struct hm_map *map;
	int r;

	r = hm_buffer_create(cycle->device, &desc, &buffer);
	if (r)
		return r;
	r = hm_map_create(buffer, NULL, &map);
	if (!r)
		bench_touch(hm_map_address(map), LENGTH, PAGE);
	hm_map_unref(r ? NULL : map);
	hm_buffer_unref(buffer);
	*ret_ns = bench_now() - start;
	return r;
}

static int cycle_peer(void *user, double *ret_ns)
{
	const struct cycle *cycle = user;
	double start = bench_now();
	int r = peer_drm_cycle(&cycle->peer, LENGTH, PAGE);

	*ret_ns = bench_now() - start;
	return r;
}

/* Finds a node of that driver that opens; false: there is none. */
static bool find(const struct kind *kind, struct hm_drm_node *ret_node)
{
	struct hm_drm_node nodes[NODES_MAX];
	uint32_t i, n;

	nodes[0].struct_size = sizeof(nodes[0]);
	if (hm_drm_list(nodes, NODES_MAX, &n))
		return false;
	for (i = 0; i < n && i < NODES_MAX; i++)
		if (!strcmp(nodes[i].driver, kind->driver) && !nodes[i].error &&
		    !!nodes[i].primary == kind->primary) {
			*ret_node = nodes[i];
			return true;
		}
	return false;
}

/* With @idle MiB that may be kept, whatever the user has set. */
static int open_with(const char *path, const char *idle, struct hm_device **ret_device)
{
	const char *old = getenv(IDLE);
	char *kept = old ? strdup(old) : NULL;
	char name[80];
	int r;

	snprintf(name, sizeof(name), "drm:%s", path);
	setenv(IDLE, idle, 1);
	r = hm_device_open(name, ret_device);
	unsetenv(IDLE);
	if (kept)
		setenv(IDLE, kept, 1);
	free(kept);
	return r;
}

static int measure(const struct bench_pair *pair, const struct kind *kind, const char *idle,
		   double target)
{
	struct hm_drm_node node;
	struct cycle cycle;
	int r;

	if (!find(kind, &node)) {
		bench_skip(pair->name, "no node of %s that opens here: make vm has one",
			   kind->driver);
		return 0;
	}
	r = open_with(node.path, idle, &cycle.device);
	if (r)
		return bench_fail(pair->name, r, true);
	r = peer_drm_open(&cycle.peer, node.path, kind->primary);
	if (r) {
		bench_fail(pair->name, r, false);
		goto unref_device;
	}
	r = bench_compare(pair, &cycle, "us", 1e3, TARGET_RATIO, target);
	peer_drm_close(&cycle.peer);
unref_device:
	hm_device_unref(cycle.device);
	return r;
}

static int each(const char *what, const char *idle, double target)
{
	struct bench_pair pair = {
		.peer = "create, mmap, touch, munmap, close by bare calls",
		.ours = cycle_ours,
		.peer_side = cycle_peer,
		.rounds = 201,
		.warm_up = 5,
	};
	char name[32];
	size_t i;
	int r = 0;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !r; i++) {
		snprintf(name, sizeof(name), "%s, %s", kinds[i].driver, what);
		pair.name = name;
		r = measure(&pair, &kinds[i], idle, target);
	}
	return r;
}

int bench_drm_map_cycle(void)
{
	return each("no idle ones", "0", 1.10);
}

int bench_drm_reuse(void)
{
	return each("an idle one", "64", 0.25);
}
