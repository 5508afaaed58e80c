// SPDX-License-Identifier: MIT
/* pointer_find: look-ups among many maps, and the cost of a long map. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define WINDOW KIB(64)
#define N_ADDRESS ((size_t)1 << 20)
#define N_BUFFER 4

struct finder {
	struct hm_device *device;
	struct hm_buffer *buffer[N_BUFFER];
	struct hm_map **maps;
	size_t n;
	uintptr_t *address; /* N_ADDRESS inside maps, shuffled */
	struct peer_registry peer;
	atomic_bool stop;
};

static int compare_base(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct hm_pointer_info *)a)->base;
	uintptr_t y = (uintptr_t)((const struct hm_pointer_info *)b)->base;

	return (x > y) - (x < y);
}

static void finder_destroy(struct finder *finder)
{
	size_t i;

	for (i = 0; i < finder->n; i++)
		hm_map_unref(finder->maps[i]);
	for (i = 0; i < N_BUFFER; i++)
		hm_buffer_unref(finder->buffer[i]);
	hm_device_unref(finder->device);
	pthread_rwlock_destroy(&finder->peer.lock);
	free(finder->peer.maps);
	free(finder->maps);
	free(finder->address);
}

/* Windows of few buffers: @n maps, and both registries of them. */
static int finder_create(struct finder *finder, const char *name, size_t n)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = (n + N_BUFFER - 1) / N_BUFFER * WINDOW,
	};
	uint64_t state = 1;
	size_t i;
	int r;

	*finder = (struct finder){ 0 };
	pthread_rwlock_init(&finder->peer.lock, NULL);
	finder->maps = calloc(n, sizeof(struct hm_map *));
	finder->peer.maps = calloc(n, sizeof(struct hm_pointer_info));
	finder->address = calloc(N_ADDRESS, sizeof(uintptr_t));
	if (!finder->maps || !finder->peer.maps || !finder->address) {
		finder_destroy(finder);
		return bench_fail(name, -ENOMEM, false);
	}
	r = hm_device_open("host", &finder->device);
	for (i = 0; i < N_BUFFER && !r; i++)
		r = hm_buffer_create(finder->device, &desc, &finder->buffer[i]);
	for (i = 0; i < n && !r; i++) {
		const struct hm_map_desc window = {
			.struct_size = sizeof(window),
			.access = HM_READ | HM_WRITE,
			.offset = i / N_BUFFER * WINDOW,
			.length = WINDOW,
		};

		r = hm_map_create(finder->buffer[i % N_BUFFER], &window, &finder->maps[i]);
		if (r)
			break;
		finder->n = i + 1;
		r = hm_pointer_find(hm_map_address(finder->maps[i]), &finder->peer.maps[i]);
	}
	if (r == -ENOMEM) {
		bench_skip(name, "%zu maps are not to be had: %s", n, hm_errmsg());
		finder_destroy(finder);
		return r;
	}
	if (r) {
		bench_fail(name, r, true);
		finder_destroy(finder);
		return r;
	}
	finder->peer.n = n;
	qsort(finder->peer.maps, n, sizeof(struct hm_pointer_info), compare_base);
	for (i = 0; i < N_ADDRESS; i++)
		finder->address[i] =
			(uintptr_t)hm_map_address(finder->maps[bench_random(&state) % n]) +
			bench_random(&state) % WINDOW;
	return 0;
}

typedef int find_function(struct finder *finder, const void *pointer,
			  struct hm_pointer_info *ret_info);

static int find_ours(struct finder *finder, const void *pointer,
		     struct hm_pointer_info *ret_info)
{
	(void)finder;
	return hm_pointer_find(pointer, ret_info);
}

static int find_peer(struct finder *finder, const void *pointer,
		     struct hm_pointer_info *ret_info)
{
	return peer_pointer_find(&finder->peer, pointer, ret_info);
}

/* Inlined with a constant @find: both sides are direct calls. */
static inline __attribute__((always_inline)) int
pass(struct finder *finder, find_function *find, bool dependent, double *ret_ns)
{
	struct hm_pointer_info info = { .length = WINDOW };
	double start = bench_now();
	uint64_t sum = 0;
	size_t i;
	int r = 0;

	for (i = 0; i < N_ADDRESS && !r; i++) {
		/* All maps are as long: this adds nothing but the wait for an answer. */
		uintptr_t address = finder->address[i] + (dependent ? info.length - WINDOW : 0);

		r = find(finder, (void *)address, &info);
		sum += info.map_offset;
	}
	*ret_ns = (bench_now() - start) / N_ADDRESS;
	return r ? r : sum ? 0 : -EIO;
}

static int pass_ours(void *user, double *ret_ns)
{
	return pass(user, find_ours, false, ret_ns);
}

static int pass_peer(void *user, double *ret_ns)
{
	return pass(user, find_peer, false, ret_ns);
}

static int pass_ours_dependent(void *user, double *ret_ns)
{
	return pass(user, find_ours, true, ret_ns);
}

static int pass_peer_dependent(void *user, double *ret_ns)
{
	return pass(user, find_peer, true, ret_ns);
}

static void *second_thread(void *user)
{
	struct finder *finder = user;
	double ignored;

	while (!atomic_load_explicit(&finder->stop, memory_order_relaxed))
		pass(finder, find_ours, false, &ignored);
	return NULL;
}

/* A pass while a second thread makes its own. */
static int pass_ours_beside(void *user, double *ret_ns)
{
	struct finder *finder = user;
	pthread_t thread;
	double ignored;
	int r;

	atomic_store(&finder->stop, false);
	r = -pthread_create(&thread, NULL, second_thread, finder);
	if (r)
		return r;
	r = pass_ours(finder, &ignored);
	if (!r)
		r = pass_ours(finder, ret_ns);
	atomic_store(&finder->stop, true);
	pthread_join(thread, NULL);
	return r;
}

static int find_among(size_t n, const char *const *names, double independent, double dependent)
{
	struct bench_pair pair = {
		.name = names[0],
		.peer = "sorted array, binary search, rwlock",
		.ours = pass_ours,
		.peer_side = pass_peer,
		.rounds = 9,
		.warm_up = 1,
	};
	struct finder finder;
	int r;

	r = finder_create(&finder, names[0], n);
	if (r)
		return r == -ENOMEM ? 0 : r;
	r = bench_compare(&pair, &finder, "ns", 1, TARGET_VALUE, independent);
	if (r)
		goto out;
	pair.name = names[1];
	pair.ours = pass_ours_dependent;
	pair.peer_side = pass_peer_dependent;
	r = bench_compare(&pair, &finder, "ns", 1, TARGET_VALUE, dependent);
	if (r)
		goto out;
	pair.name = names[2];
	pair.peer = "the same, one thread";
	pair.ours = pass_ours_beside;
	pair.peer_side = pass_ours;
	pair.rounds = 15;
	r = bench_compare(&pair, &finder, "ns", 1, TARGET_RATIO, 1.10);
	if (r)
		goto out;
out:
	finder_destroy(&finder);
	return r;
}

/* ---- a map of 1 TiB ---- */

struct long_map {
	struct hm_buffer *buffer; /* max_size 1 TiB */
	struct hm_buffer *small;
};

static int map_once(struct hm_buffer *buffer, double *ret_ns)
{
	double start = bench_now();
	struct hm_map *map;
	int r = hm_map_create(buffer, NULL, &map);

	*ret_ns = bench_now() - start;
	if (!r)
		hm_map_unref(map);
	return r;
}

static int map_long(void *user, double *ret_ns)
{
	return map_once(((struct long_map *)user)->buffer, ret_ns);
}

static int map_small(void *user, double *ret_ns)
{
	return map_once(((struct long_map *)user)->small, ret_ns);
}

static uint64_t slab_bytes(void)
{
	struct hm_stats stats = { .struct_size = sizeof(stats) };

	return hm_stats_get(&stats) ? 0 : stats.slab_bytes;
}

static int long_map(struct hm_device *device)
{
	const struct bench_pair pair = {
		.name = "1 TiB map, added",
		.peer = "a map of 4 MiB",
		.ours = map_long,
		.peer_side = map_small,
		.rounds = 500,
		.warm_up = 20,
	};
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = WINDOW,
		.max_size = GIB(1024),
	};
	struct bench_figures figures;
	struct bench_result result;
	struct long_map maps;
	double ignored;
	uint64_t before;
	int r;

	r = hm_buffer_create(device, &desc, &maps.buffer);
	if (r) {
		bench_skip(pair.name, "no buffer of 1 TiB: %s", hm_errmsg());
		return 0;
	}
	/* Long enough to be mapped by the same steps. */
	desc.max_size = MIB(4);
	r = hm_buffer_create(device, &desc, &maps.small);
	if (r) {
		bench_fail(pair.name, r, true);
		goto unref_buffer;
	}
	before = slab_bytes();
	r = map_long(&maps, &ignored);
	if (r) {
		bench_skip(pair.name, "no map of 1 TiB: %s", hm_errmsg());
		r = 0;
		goto unref_small;
	}
	result = (struct bench_result){
		.name = "1 TiB map, memory",
		.unit = "KiB",
		.value = (double)(slab_bytes() - before) / 1024,
		.peer = "a page table of 2 MiB pages",
		.peer_value = 4096,
		.kind = TARGET_VALUE,
		.target = 64,
	};
	bench_report(&result);
	r = bench_measure(&pair, &maps, &figures);
	if (r)
		goto unref_small;
	bench_report_added(&pair, &figures, "us", 1e3, 5);
unref_small:
	hm_buffer_unref(maps.small);
unref_buffer:
	hm_buffer_unref(maps.buffer);
	return r;
}

int bench_pointer_find(void)
{
	static const char *const few[] = { "10,000 maps, independent", "10,000 maps, dependent",
					   "10,000 maps, 2nd thread" };
	static const char *const many[] = { "60,000 maps, independent",
					    "60,000 maps, dependent",
					    "60,000 maps, 2nd thread" };
	struct hm_device *device;
	int r;

	r = hm_device_open("host", &device);
	if (r)
		return bench_fail("device", r, true);
	/* First: the tree's nodes stay, and would make it cheaper. */
	r = long_map(device);
	hm_device_unref(device);
	if (r)
		return r;
	r = find_among(10000, few, 12, 35);
	return r ? r : find_among(60000, many, 20, 95);
}
