// SPDX-License-Identifier: MIT
/*
 * Counters of buffers and devices where a suite for all backends does not come: devices
 * that are taken away, launches that copy, threads, and words that are full.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "core/core.h"
#include "lib/sim_devices.h"

#define SIZE (16 * PAGE)
#define THREADS 4
#define ROUNDS 5000

static struct hm_buffer_stats of_buffer(struct hm_buffer *buffer)
{
	struct hm_buffer_stats stats = { .struct_size = sizeof(stats) };

	CHECK_OK(hm_buffer_stats_get(buffer, &stats));
	return stats;
}

static struct hm_device_stats of_device(struct hm_device *device)
{
	struct hm_device_stats stats = { .struct_size = sizeof(stats) };

	CHECK_OK(hm_device_stats_get(device, &stats));
	return stats;
}

/* Two maps are lost, and come back; a third one ends while it is lost. */
static void test_lost(void)
{
	AUTO(hm_device) *device = sim_open();
	struct hm_map *map, *third;
	AUTO(hm_buffer) *buffer = sim_make(device, SIZE, 0, &map);
	AUTO(hm_map) *second = rig_map(buffer, NULL);

	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &third));
	CHECK_OK_FATAL(
		hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = HM_LOSS_RECREATE)));
	CHECK_EQUAL(of_buffer(buffer).maps_lost, 0);
	if (sim_unplug(device)) {
		CHECK_EQUAL(of_buffer(buffer).maps_lost, 3);
		CHECK_EQUAL(of_buffer(buffer).maps_recovered, 0);
		CHECK_EQUAL(of_device(device).maps_lost, 3);
		hm_map_unref(third);
		sim_plug();
		CHECK_OK(hm_device_recover(device, 0, NULL));
		CHECK_EQUAL(of_buffer(buffer).maps_lost, 3);
		CHECK_EQUAL(of_buffer(buffer).maps_recovered, 2);
		CHECK_EQUAL(of_device(device).maps_recovered, 2);
		CHECK_EQUAL(of_buffer(buffer).bytes_mapped, 2 * SIZE);
	} else {
		hm_map_unref(third);
	}
	hm_map_unref(map);
}

/* Each buffer counts its own copied bytes, and the process has the sum. */
static void test_copied(void)
{
	AUTO(hm_device) *device = sim_open();
	uint64_t before = stats_now().bytes_copied;
	AUTO(hm_map) *source = NULL;
	AUTO(hm_map) *target = NULL;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_fence *fence;
	AUTO(hm_buffer) *from = sim_make(device, SIZE, 0, &source);
	AUTO(hm_buffer) *to = sim_make(device, SIZE, 0, &target);

	CHECK_OK_FATAL(hm_accel_open(
		sim_device(), DESC(hm_accel_desc, .flags = HM_ACCEL_FORCE_COPY), &accel));
	CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
	CHECK_OK_FATAL(hm_queue_copy(queue, hm_map_address(target), hm_map_address(source),
				     3 * PAGE, &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	CHECK_EQUAL(of_buffer(from).launches, 1);
	CHECK_EQUAL(of_buffer(to).launches, 1);
	CHECK_EQUAL(of_buffer(from).bytes_copied, 3 * PAGE);
	CHECK_EQUAL(of_buffer(to).bytes_copied, 3 * PAGE);
	CHECK_EQUAL(stats_now().bytes_copied - before, 6 * PAGE);
	CHECK_EQUAL(of_device(device).launches, 2);
	CHECK_EQUAL(of_device(device).views, of_buffer(from).views + of_buffer(to).views);
	hm_queue_unref(queue);
	hm_accel_unref(accel);
	CHECK_EQUAL(of_device(device).views, 0);
}

struct shared {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	_Atomic bool done;
};

/* Brackets on a map that all have, and on one of its own. */
static void *use(void *user)
{
	struct shared *shared = user;
	struct hm_map *own;
	int i;

	CHECK_OK(hm_map_create(shared->buffer, NULL, &own));
	for (i = 0; i < ROUNDS; i++) {
		CHECK_OK(hm_map_begin_cpu(shared->map, 0, PAGE, HM_READ));
		CHECK_OK(hm_map_begin_cpu(own, 0, PAGE, HM_READ));
		CHECK_OK(hm_map_end_cpu(own, 0, PAGE, HM_READ));
		CHECK_OK(hm_map_end_cpu(shared->map, 0, PAGE, HM_READ));
		if (i % 50)
			continue;
		hm_map_unref(own);
		CHECK_OK(hm_map_create(shared->buffer, NULL, &own));
	}
	hm_map_unref(own);
	return NULL;
}

/* Queries meanwhile make sense: no count is below 0, or above its most. */
static void *watch(void *user)
{
	struct shared *shared = user;
	struct hm_buffer_stats stats;

	while (!atomic_load(&shared->done)) {
		stats = of_buffer(shared->buffer);
		CHECK(stats.maps >= 1 && stats.maps <= 1 + THREADS);
		CHECK(stats.brackets_open <= 2 * THREADS);
		CHECK(of_device(shared->device).buffers == 1);
	}
	return NULL;
}

static void test_threads(void)
{
	const uint64_t maps = THREADS * (1 + ROUNDS / 50);
	pthread_t threads[THREADS], watcher;
	struct hm_buffer_stats stats;
	struct shared shared = { 0 };
	int i;

	shared.device = sim_open();
	shared.buffer = sim_make(shared.device, SIZE, 0, &shared.map);
	CHECK_FATAL(!pthread_create(&watcher, NULL, watch, &shared));
	for (i = 0; i < THREADS; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, use, &shared));
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&shared.done, true);
	pthread_join(watcher, NULL);
	stats = of_buffer(shared.buffer);
	CHECK_EQUAL(stats.brackets, 2 * THREADS * ROUNDS);
	CHECK_EQUAL(stats.brackets_open, 0);
	CHECK_EQUAL(stats.maps, 1);
	CHECK_EQUAL(stats.maps_ever, 1 + maps);
	CHECK_EQUAL(stats.bytes_mapped, SIZE);
	hm_map_unref(shared.map);
	hm_buffer_unref(shared.buffer);
	CHECK_EQUAL(of_device(shared.device).brackets, 2 * THREADS * ROUNDS);
	hm_device_unref(shared.device);
}

/* After 2^31 brackets of a map the buffer has them. */
static void test_carry(void)
{
	const uint64_t many = BRACKET_CARRY / BRACKET_ENDED;
	AUTO(hm_device) *device = sim_open();
	struct hm_map *map;
	AUTO(hm_buffer) *buffer = sim_make(device, SIZE, 0, &map);
	int i;

	atomic_store(&map->brackets->n, (many - 2) * BRACKET_ENDED);
	CHECK_EQUAL(of_buffer(buffer).brackets, many - 2);
	for (i = 0; i < 8; i++) {
		CHECK_OK(hm_map_begin_cpu(map, 0, PAGE, HM_READ));
		CHECK_EQUAL(of_buffer(buffer).brackets, many - 1 + (uint64_t)i);
		CHECK_EQUAL(of_buffer(buffer).brackets_open, 1);
		CHECK_OK(hm_map_end_cpu(map, 0, PAGE, HM_READ));
		CHECK_EQUAL(of_buffer(buffer).brackets, many - 1 + (uint64_t)i);
	}
	CHECK(atomic_load(&map->brackets->n) < 8 * BRACKET_ENDED);
	hm_map_unref(map);
	CHECK_EQUAL(of_buffer(buffer).brackets, many + 6);
}

/* A callback of the very change asks, and does not wait. */
static int asks(void *user, const struct hm_view_change *change)
{
	struct shared *shared = user;

	(void)change;
	CHECK_EQUAL(of_buffer(shared->buffer).protects, 0);
	CHECK_EQUAL(of_device(shared->device).views, 1);
	return 0;
}

static void test_callback(void)
{
	const struct hm_view_ops ops = { .struct_size = sizeof(ops), .quiesce = asks };
	struct shared shared = { 0 };
	AUTO(hm_view) *view = NULL;

	shared.device = sim_open();
	shared.buffer = sim_make(shared.device, SIZE, 0, &shared.map);
	CHECK_OK_FATAL(hm_view_create(shared.map, 0, 0, &ops, &shared, &view));
	CHECK_OK(hm_map_protect(shared.map, 0, PAGE, HM_READ));
	CHECK_EQUAL(of_buffer(shared.buffer).protects, 1);
	hm_map_unref(shared.map);
	hm_buffer_unref(shared.buffer);
	hm_device_unref(shared.device);
}

int main(int argc, char **argv)
{
	static const struct sim_case cases[] = {
		{ "lost", test_lost },         { "copied", test_copied },
		{ "threads", test_threads },   { "carry", test_carry },
		{ "callback", test_callback }, { NULL, NULL },
	};

	return sim_main(argc, argv, "counts", cases);
}
