// SPDX-License-Identifier: MIT
/* pool_cycle: allocations of a pool, and look-ups among a million of them. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define CYCLES 1000
#define LIVE 1000000
#define LOOKUPS ((size_t)1 << 18)

struct pools {
	struct hm_device *device;
	struct hm_pool *pool;
	struct peer_pool peer;
	size_t size;
	bool beside; /* a second thread does the same */
	atomic_bool stop;
	atomic_bool begun;
	bool ours; /* the side of the second thread */

	/* Look-ups: */
	struct peer_registry registry;
	uintptr_t *address;
};

/* ---- alloc, touch, free ---- */

static int cycle_pool(struct pools *pools)
{
	volatile char *bytes;
	size_t i;
	int r;

	for (i = 0; i < CYCLES; i++) {
		r = hm_pool_alloc(pools->pool, pools->size, 0, &bytes);
		if (r)
			return r;
		*bytes = 1;
		r = hm_pool_free(pools->pool, (char *)bytes);
		if (r)
			return r;
	}
	return 0;
}

static int cycle_peer(struct pools *pools)
{
	return peer_pool_cycle(&pools->peer, pools->size, CYCLES);
}

static void *second_thread(void *user)
{
	struct pools *pools = user;

	do {
		if (pools->ours ? cycle_pool(pools) : cycle_peer(pools))
			break;
		atomic_store(&pools->begun, true);
	} while (!atomic_load_explicit(&pools->stop, memory_order_relaxed));
	atomic_store(&pools->begun, true);
	return NULL;
}

static int timed(struct pools *pools, int (*cycle)(struct pools *), double *ret_ns)
{
	double start = bench_now();
	int r = cycle(pools);

	*ret_ns = (bench_now() - start) / CYCLES;
	return r;
}

static int side(struct pools *pools, bool ours, double *ret_ns)
{
	int (*cycle)(struct pools *) = ours ? cycle_pool : cycle_peer;
	pthread_t thread;
	int r;

	if (!pools->beside)
		return timed(pools, cycle, ret_ns);
	pools->ours = ours;
	atomic_store(&pools->stop, false);
	atomic_store(&pools->begun, false);
	r = -pthread_create(&thread, NULL, second_thread, pools);
	if (r)
		return r;
	while (!atomic_load(&pools->begun))
		cycle(pools);
	r = timed(pools, cycle, ret_ns);
	atomic_store(&pools->stop, true);
	pthread_join(thread, NULL);
	return r;
}

static int side_ours(void *user, double *ret_ns)
{
	return side(user, true, ret_ns);
}

static int side_peer(void *user, double *ret_ns)
{
	return side(user, false, ret_ns);
}

static int side_alloc(void *user, double *ret_ns)
{
	struct pools *pools = user;
	volatile char *bytes;
	double start = bench_now();
	int r;

	r = hm_alloc(pools->device, pools->size, HM_READ | HM_WRITE, &bytes);
	if (r)
		return r;
	*bytes = 1;
	r = hm_free((char *)bytes);
	*ret_ns = bench_now() - start;
	return r;
}

static int cycles(struct pools *pools)
{
	static const struct {
		const char *name;
		size_t size;
		bool beside, alloc;
	} cases[] = {
		{ "64 B", 64, false, false },
		{ "4 KiB", KIB(4), false, false },
		{ "64 KiB", KIB(64), false, false },
		{ "1 MiB", MIB(1), false, false },
		{ "64 B, two threads", 64, true, false },
		{ "4 KiB, two threads", KIB(4), true, false },
		{ "64 KiB, two threads", KIB(64), true, false },
		{ "1 MiB, two threads", MIB(1), true, false },
		{ "64 B, against hm_alloc", 64, false, true },
		{ "64 KiB, against hm_alloc", KIB(64), false, true },
		{ "1 MiB, against hm_alloc", MIB(1), false, true },
	};
	size_t i;
	int r = 0;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]) && !r; i++) {
		const struct bench_pair pair = {
			.name = cases[i].name,
			.peer = cases[i].alloc ? "hm_alloc, touch, hm_free" : pools->peer.name,
			.ours = side_ours,
			.peer_side = cases[i].alloc ? side_alloc : side_peer,
			.rounds = cases[i].alloc ? 500 : 200,
			.warm_up = 10,
		};

		pools->size = cases[i].size;
		pools->beside = cases[i].beside;
		r = bench_compare(&pair, pools, "ns", 1, TARGET_RATIO,
				  cases[i].alloc ? 0.02 : 0.5);
	}
	return r;
}

/* ---- look-ups among a million live allocations ---- */

static int compare_base(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct hm_pointer_info *)a)->base;
	uintptr_t y = (uintptr_t)((const struct hm_pointer_info *)b)->base;

	return (x > y) - (x < y);
}

/* 16 to 143 bytes each. */
static int fill(struct pools *pools)
{
	struct peer_registry *registry = &pools->registry;
	uint64_t state = 1;
	char *bytes;
	size_t i;
	int r;

	for (i = 0; i < LIVE; i++) {
		r = hm_pool_alloc(pools->pool, 16 + bench_random(&state) % 128, 0, &bytes);
		if (!r)
			r = hm_pointer_find(bytes, &registry->maps[i]);
		if (r)
			return r;
		registry->n++;
	}
	qsort(registry->maps, registry->n, sizeof(registry->maps[0]), compare_base);
	for (i = 0; i < LOOKUPS; i++) {
		const struct hm_pointer_info *one =
			&registry->maps[bench_random(&state) % registry->n];

		pools->address[i] = (uintptr_t)one->base + bench_random(&state) % one->length;
	}
	return 0;
}

static inline __attribute__((always_inline)) int pass(struct pools *pools, bool ours,
						      bool dependent, double *ret_ns)
{
	struct hm_pointer_info info = { 0 };
	double start = bench_now();
	uint64_t sum = 0;
	size_t i;
	int r = 0;

	for (i = 0; i < LOOKUPS && !r; i++) {
		/* The length is below 4096: this adds nothing but the wait for an answer. */
		uintptr_t address = pools->address[i] + (dependent ? info.length >> 12 : 0);

		r = ours ? hm_pointer_find((void *)address, &info) :
			   peer_pointer_find(&pools->registry, (void *)address, &info);
		sum += info.length;
	}
	*ret_ns = (bench_now() - start) / LOOKUPS;
	return r ? r : sum ? 0 : -EIO;
}

static int find_ours(void *user, double *ret_ns)
{
	return pass(user, true, false, ret_ns);
}

static int find_peer(void *user, double *ret_ns)
{
	return pass(user, false, false, ret_ns);
}

static int find_ours_dependent(void *user, double *ret_ns)
{
	return pass(user, true, true, ret_ns);
}

static int find_peer_dependent(void *user, double *ret_ns)
{
	return pass(user, false, true, ret_ns);
}

static int finds(struct pools *pools)
{
	struct bench_pair pair = {
		.name = "found among 1,000,000 live",
		.peer = "sorted array, binary search, rwlock",
		.ours = find_ours,
		.peer_side = find_peer,
		.rounds = 9,
		.warm_up = 1,
	};
	size_t i;
	int r;

	pthread_rwlock_init(&pools->registry.lock, NULL);
	pools->registry.maps = calloc(LIVE, sizeof(pools->registry.maps[0]));
	pools->address = calloc(LOOKUPS, sizeof(pools->address[0]));
	if (!pools->registry.maps || !pools->address) {
		r = bench_fail(pair.name, -ENOMEM, false);
		goto out;
	}
	r = fill(pools);
	if (r) {
		bench_fail(pair.name, r, true);
		goto out;
	}
	r = bench_compare(&pair, pools, "ns", 1, TARGET_VALUE, 60);
	if (r)
		goto out;
	pair.name = "found, each after the answer";
	pair.ours = find_ours_dependent;
	pair.peer_side = find_peer_dependent;
	r = bench_compare(&pair, pools, "ns", 1, TARGET_NONE, 0);
out:
	for (i = 0; i < pools->registry.n; i++)
		hm_free(pools->registry.maps[i].base);
	free(pools->registry.maps);
	free(pools->address);
	pthread_rwlock_destroy(&pools->registry.lock);
	return r;
}

int bench_pool_cycle(void)
{
	struct pools pools = { 0 };
	int r;

	r = hm_device_open("host", &pools.device);
	if (!r)
		r = hm_pool_create(pools.device, NULL, &pools.pool);
	if (r) {
		bench_fail("pool", r, true);
		goto out;
	}
	r = peer_pool_open(&pools.peer);
	if (r) {
		bench_fail("pool", r, false);
		goto out;
	}
	r = cycles(&pools);
	if (!r)
		r = finds(&pools);
out:
	hm_pool_unref(pools.pool);
	hm_device_unref(pools.device);
	return r;
}
