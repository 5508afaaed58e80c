// SPDX-License-Identifier: MIT
/*
 * find_under_churn: look-ups while another thread maps and unmaps without pause.
 * retire: the last reference to a map and its buffer, as its caller sees it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define WINDOW KIB(64)
#define MAPS 1024
#define FINDS ((size_t)1 << 20)
/* Least cycles of the other thread during a pass, or it did not run beside it. */
#define CYCLES_LEAST 100

/* ---- find_under_churn ---- */

struct churn {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *maps[MAPS];
	size_t n;
	uintptr_t *address; /* FINDS inside maps, shuffled */
	atomic_bool stop;
	atomic_ulong cycles;
	int r; /* result of the other thread */
};

static int map_window(struct churn *churn, size_t i, struct hm_map **ret_map)
{
	const struct hm_map_desc window = {
		.struct_size = sizeof(window),
		.access = HM_READ | HM_WRITE,
		.offset = i * WINDOW,
		.length = WINDOW,
	};

	return hm_map_create(churn->buffer, &window, ret_map);
}

static void *map_and_unmap(void *user)
{
	struct churn *churn = user;
	struct hm_map *map;
	size_t i = 0;

	while (!atomic_load_explicit(&churn->stop, memory_order_relaxed)) {
		churn->r = map_window(churn, i++ % MAPS, &map);
		if (churn->r)
			break;
		hm_map_unref(map);
		atomic_fetch_add_explicit(&churn->cycles, 1, memory_order_relaxed);
	}
	return NULL;
}

static int find_all(void *user, double *ret_ns)
{
	const struct churn *churn = user;
	struct hm_pointer_info info;
	uint64_t sum = 0;
	double start;
	size_t i;
	int r = 0;

	start = bench_now();
	for (i = 0; i < FINDS && !r; i++) {
		do
			r = hm_pointer_find((const void *)churn->address[i], &info);
		while (r == -EAGAIN);
		sum += info.map_offset;
	}
	*ret_ns = (bench_now() - start) / FINDS;
	return r ? r : sum ? 0 : -EIO;
}

/* Passes until the other thread was at it during one: that one counts. */
static int find_beside(void *user, double *ret_ns)
{
	struct churn *churn = user;
	unsigned long before;
	pthread_t thread;
	int r;

	atomic_store(&churn->stop, false);
	r = -pthread_create(&thread, NULL, map_and_unmap, churn);
	if (r)
		return r;
	do {
		before = atomic_load(&churn->cycles);
		r = find_all(churn, ret_ns);
	} while (!r && !churn->r && atomic_load(&churn->cycles) - before < CYCLES_LEAST);
	atomic_store(&churn->stop, true);
	pthread_join(thread, NULL);
	return r ? r : churn->r;
}

static void churn_destroy(struct churn *churn)
{
	while (churn->n)
		hm_map_unref(churn->maps[--churn->n]);
	hm_buffer_unref(churn->buffer);
	hm_device_unref(churn->device);
	free(churn->address);
}

static int churn_create(struct churn *churn)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = MAPS * WINDOW,
	};
	uint64_t state = 1;
	size_t i;
	int r;

	churn->address = calloc(FINDS, sizeof(uintptr_t));
	if (!churn->address)
		return -ENOMEM;
	r = hm_device_open("host", &churn->device);
	if (!r)
		r = hm_buffer_create(churn->device, &desc, &churn->buffer);
	for (i = 0; i < MAPS && !r; i++) {
		r = map_window(churn, i, &churn->maps[i]);
		if (!r)
			churn->n = i + 1;
	}
	for (i = 0; i < FINDS && !r; i++) {
		/* Knuth's MMIX generator: its upper bits will do. */
		state = state * 6364136223846793005 + 1442695040888963407;
		churn->address[i] = (uintptr_t)hm_map_address(churn->maps[state >> 54]) +
				    (state >> 32) % WINDOW;
	}
	return r;
}

int bench_find_under_churn(void)
{
	const struct bench_pair pair = {
		.name = "1024 maps, a look-up",
		.peer = "the same without the other thread",
		.ours = find_beside,
		.peer_side = find_all,
		.rounds = 41,
		.warm_up = 3,
	};
	struct churn churn = { 0 };
	int r;

	r = churn_create(&churn);
	r = r ? bench_fail(pair.name, r, true) :
		bench_compare(&pair, &churn, "ns", 1, TARGET_RATIO, 1.25);
	churn_destroy(&churn);
	return r;
}

/* ---- retire ---- */

#define RETIRED MIB(1)
#define PAGE KIB(4)

struct retiring {
	struct hm_device *device;
	bool with_flush; /* the time until it is released, too */
};

static int retire_ours(void *user, double *ret_ns)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = RETIRED };
	const struct retiring *retiring = user;
	struct hm_buffer *buffer;
	struct hm_map *map;
	double start;
	int r;

	r = hm_buffer_create(retiring->device, &desc, &buffer);
	if (r)
		return r;
	r = hm_map_create(buffer, NULL, &map);
	hm_buffer_unref(buffer);
	if (r)
		return r;
	bench_touch(hm_map_address(map), RETIRED, PAGE);
	start = bench_now();
	hm_map_unref(map);
	if (retiring->with_flush)
		r = hm_retire_flush();
	*ret_ns = bench_now() - start;
	/* The peer is not to be measured beside the thread's work. */
	return r ? r : hm_retire_flush();
}

static int retire_peer(void *user, double *ret_ns)
{
	struct peer_map map;
	double start;
	int r;

	(void)user;
	r = peer_map_create(&map, RETIRED, RETIRED);
	if (r)
		return r;
	bench_touch(map.address, RETIRED, PAGE);
	start = bench_now();
	peer_map_destroy(&map);
	*ret_ns = bench_now() - start;
	return 0;
}

int bench_retire(void)
{
	const struct hm_retire_desc defer = {
		.struct_size = sizeof(defer),
		.flags = HM_RETIRE_DEFER,
	};
	struct bench_pair pair = {
		.name = "hm_map_unref, 1 MiB",
		.peer = "munmap, close",
		.ours = retire_ours,
		.peer_side = retire_peer,
		.rounds = 2000,
		.warm_up = 50,
	};
	struct retiring retiring = { 0 };
	int r;

	r = hm_device_open("host", &retiring.device);
	if (r)
		return bench_fail("device", r, true);
	r = hm_retire_set(&defer);
	if (r) {
		bench_fail(pair.name, r, true);
		goto out;
	}
	r = bench_compare(&pair, &retiring, "us", 1e3, TARGET_RATIO, 0.5);
	if (r)
		goto in_place;
	pair.name = "until it is released";
	retiring.with_flush = true;
	r = bench_compare(&pair, &retiring, "us", 1e3, TARGET_NONE, 0);
in_place:
	hm_retire_set(NULL);
out:
	hm_device_unref(retiring.device);
	return r;
}
