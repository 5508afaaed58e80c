// SPDX-License-Identifier: MIT
/*
 * lost_to_usable: from the loss of a device until all bytes of a buffer on it have been touched
 * in place. shadow_cost: the time that a shadow adds to the end of a bracket.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <hetmap/hetmap.h>
#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "bench.h"
#include "peer.h"

#define DEVICE "soft:0"
#define BYTES MIB(256)
#define PAGE KIB(4)
#define BRACKET MIB(1)

struct shadowed {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *bytes;
	char *from; /* the peer's */
	char *to;   /* likewise; NULL: fresh for each sample */
	size_t at;  /* offset of the next bracket */
	bool write; /* each page is written; else read */
};

static int begin(struct shadowed *shadowed, const char *name)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = BYTES };
	const struct hm_loss_desc loss = {
		.struct_size = sizeof(loss),
		.policy = HM_LOSS_SHADOW,
	};
	int r;

	r = hm_device_open(DEVICE, &shadowed->device);
	if (!r)
		r = hm_buffer_create(shadowed->device, &desc, &shadowed->buffer);
	if (!r)
		r = hm_map_create(shadowed->buffer, NULL, &shadowed->map);
	if (r)
		return bench_fail(name, r, true);
	shadowed->bytes = hm_map_address(shadowed->map);
	memset(shadowed->bytes, 1, BYTES);
	r = hm_buffer_set_loss(shadowed->buffer, &loss);
	if (r)
		return bench_fail(name, r, true);
	shadowed->from = malloc(BYTES);
	if (!shadowed->from)
		return bench_fail(name, -ENOMEM, false);
	memset(shadowed->from, 1, BYTES);
	return 0;
}

static void end(struct shadowed *shadowed)
{
	free(shadowed->from);
	free(shadowed->to);
	hm_map_unref(shadowed->map);
	hm_buffer_unref(shadowed->buffer);
	hm_device_unref(shadowed->device);
}

/* ---- lost_to_usable ---- */

/* Takes the device away; its later work on its own pages is its own time. */
struct taker {
	struct hm_device *device;
	double start;
	int r;
};

static void *take_away(void *user)
{
	struct hetsim_inject inject = {
		.size = sizeof(inject),
		.kind = HETSIM_INJECT_UNPLUG,
	};
	struct taker *taker = user;

	taker->start = bench_now();
	taker->r = hm_sim_call(taker->device, HETSIM_INJECT, &inject);
	return NULL;
}

static unsigned int read_pages(const char *bytes)
{
	unsigned int sum = 0;
	size_t at;

	for (at = 0; at < BYTES; at += PAGE)
		sum += (unsigned char)((const volatile char *)bytes)[at];
	return sum;
}

/* A user of the map finds the loss by the generation; then every page is touched. */
static int usable_ours(void *user, double *ret_ns)
{
	struct shadowed *shadowed = user;
	struct taker taker = { .device = shadowed->device };
	struct hm_pointer_info before, now;
	unsigned int sum = BYTES / PAGE;
	pthread_t thread;
	double stop;
	int r;

	r = hm_pointer_find(shadowed->bytes, &before);
	if (!r)
		r = -pthread_create(&thread, NULL, take_away, &taker);
	if (r)
		return r;
	do {
		r = hm_pointer_find(shadowed->bytes, &now);
	} while ((!r && now.generation == before.generation) || r == -EAGAIN);
	if (shadowed->write)
		bench_touch(shadowed->bytes, BYTES, PAGE);
	else
		sum = read_pages(shadowed->bytes);
	stop = bench_now();
	pthread_join(thread, NULL);
	if (!r)
		r = taker.r;
	if (!r && sum != BYTES / PAGE)
		r = -EIO;
	*ret_ns = stop - taker.start;
	/* And back, for the next sample. */
	if (!r)
		r = hm_sim_plug(DEVICE);
	if (!r)
		r = hm_device_recover(shadowed->device, HM_RECOVER_SHADOWED, NULL);
	return r;
}

static int usable_peer(void *user, double *ret_ns)
{
	struct shadowed *shadowed = user;
	double start;
	char *to;
	int r;

	start = bench_now();
	r = peer_fresh_copy(shadowed->from, BYTES, &to);
	if (r)
		return r;
	*ret_ns = bench_now() - start;
	munmap(to, BYTES);
	return 0;
}

/* To be taken away is a setting, and the process's first opening has read those. */
static bool may_be_taken(struct hm_device *device)
{
	struct hetsim_inject inject = { .size = sizeof(inject), .kind = UINT32_MAX };

	return hm_sim_call(device, HETSIM_INJECT, &inject) != -EPERM;
}

int bench_lost_to_usable(void)
{
	struct bench_pair pair = {
		.peer = "memcpy() of 256 MiB into fresh memory",
		.ours = usable_ours,
		.peer_side = usable_peer,
		.rounds = 11,
		.warm_up = 2,
	};
	struct shadowed shadowed = { 0 };
	int r;

	r = begin(&shadowed, "lost_to_usable");
	if (!r && !may_be_taken(shadowed.device)) {
		bench_skip("every page", "HETMAP_SOFT has no test=1");
		goto out;
	}
	pair.name = "every page read";
	if (!r)
		r = bench_compare(&pair, &shadowed, "ms", 1e6, TARGET_RATIO, 1.30);
	pair.name = "every page written";
	shadowed.write = true;
	if (!r)
		r = bench_compare(&pair, &shadowed, "ms", 1e6, TARGET_RATIO, 1.30);
out:
	end(&shadowed);
	return r;
}

/* ---- shadow_cost ---- */

static size_t next_at(struct shadowed *shadowed)
{
	/* An odd number of MiB on: every one is taken, none is in a cache. */
	shadowed->at = (shadowed->at + 37 * BRACKET) % BYTES;
	return shadowed->at;
}

static int cost_ours(void *user, double *ret_ns)
{
	struct shadowed *shadowed = user;
	size_t at = next_at(shadowed);
	double start;
	int r;

	r = hm_map_begin_cpu(shadowed->map, at, BRACKET, HM_WRITE);
	if (r)
		return r;
	memset(shadowed->bytes + at, 1, BRACKET);
	start = bench_now();
	r = hm_map_end_cpu(shadowed->map, at, BRACKET, HM_WRITE);
	*ret_ns = bench_now() - start;
	return r;
}

static int cost_peer(void *user, double *ret_ns)
{
	struct shadowed *shadowed = user;
	size_t at = next_at(shadowed);
	double start;

	memset(shadowed->from + at, 1, BRACKET);
	start = bench_now();
	peer_copies(shadowed->to + at, shadowed->from + at, BRACKET, BRACKET, 1, 0);
	*ret_ns = bench_now() - start;
	return 0;
}

int bench_shadow_cost(void)
{
	const struct bench_pair pair = {
		.name = "1 MiB of 256 MiB",
		.peer = "memcpy() of 1 MiB to its place in 256 MiB",
		.ours = cost_ours,
		.peer_side = cost_peer,
		.rounds = 2000,
		.warm_up = 300,
	};
	struct shadowed shadowed = { 0 };
	int r;

	r = begin(&shadowed, "shadow_cost");
	if (r)
		goto out;
	shadowed.to = malloc(BYTES);
	if (!shadowed.to) {
		r = bench_fail("shadow_cost", -ENOMEM, false);
		goto out;
	}
	memset(shadowed.to, 1, BYTES);
	r = bench_compare(&pair, &shadowed, "us", 1e3, TARGET_RATIO, 1.20);
out:
	end(&shadowed);
	return r;
}
