// SPDX-License-Identifier: MIT
/*
 * Random operations by several threads on many buffers and maps. Each thread
 * has buffers of its own, whose bytes it checks after each step, and all of
 * them share a few more, where only the library's own state is at stake.
 * Meant for TSan and ASan above all; a failure prints its seed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/support.h"

#define THREADS 4
#define OWN 3
#define SHARED 3
#define STEPS (TEST_ASAN || TEST_TSAN ? 400 : 3000)
#define MAX_PAGES 32

struct own {
	struct hm_buffer *buffer;
	struct hm_map *map;
	uint32_t salt;
};

struct worker {
	pthread_t thread;
	struct hm_device *device;
	uint64_t state;
	struct own own[OWN];
	struct hm_buffer **shared;
};

#define FAIL_AT(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

static uint64_t below(struct worker *w, uint64_t n)
{
	return test_random(&w->state) % n;
}

static int make_buffer(struct worker *w, uint64_t size, uint32_t flags,
		       struct hm_buffer **ret_buffer)
{
	return hm_buffer_create(w->device,
				DESC(hm_buffer_desc, .flags = flags, .size = size,
				     .max_size = MAX_PAGES * PAGE),
				ret_buffer);
}

/* ---- a thread's own ---- */

static void own_begin(struct worker *w, struct own *own)
{
	uint64_t size = below(w, MAX_PAGES * PAGE) + 1;
	int r;

	own->map = NULL;
	r = make_buffer(w, size, below(w, 4) ? 0 : HM_BUFFER_PRIVATE, &own->buffer);
	if (!r)
		r = hm_map_create(own->buffer, NULL, &own->map);
	if (r)
		FAIL_AT("making a buffer: %d (%s)", r, hm_errmsg());
	else
		pattern_write(hm_map_address(own->map), 0, size, own->salt);
}

static void own_end(struct own *own)
{
	hm_buffer_unref(own->buffer);
	hm_map_unref(own->map);
	own->buffer = NULL;
	own->map = NULL;
}

static void own_resize(struct worker *w, struct own *own)
{
	uint64_t old = hm_map_length(own->map), size = below(w, MAX_PAGES * PAGE) + 1;
	uint32_t flags = below(w, 8) ? 0 : HM_GROW_APPEND;
	int r = hm_buffer_resize(own->buffer, size, flags);

	if (r == -EOPNOTSUPP)
		return;
	if (r) {
		FAIL_AT("resize to %llu: %d (%s)", (unsigned long long)size, r, hm_errmsg());
		return;
	}
	if (size > old && !is_zero(hm_map_address(own->map), old, size))
		FAIL_AT("new bytes are not zero");
	pattern_write(hm_map_address(own->map), old < size ? old : size, size, own->salt);
}

static void own_protect(struct worker *w, struct own *own)
{
	uint64_t pages = hm_map_length(own->map) / PAGE, page;
	int r;

	if (!pages)
		return;
	page = below(w, pages);
	r = hm_map_protect(own->map, page * PAGE, PAGE, HM_READ);
	if (!r)
		r = hm_map_protect(own->map, page * PAGE, PAGE, HM_READ | HM_WRITE);
	if (r)
		FAIL_AT("protect: %d (%s)", r, hm_errmsg());
}

static void own_find(struct worker *w, struct own *own)
{
	uint64_t length = hm_map_length(own->map), at = below(w, length);
	char *base = hm_map_address(own->map);
	struct hm_pointer_info info;
	int r = hm_pointer_find(base + at, &info);

	if (r || info.map != own->map || info.buffer != own->buffer || info.base != base ||
	    info.length != length || info.map_offset != at)
		FAIL_AT("find: %d", r);
}

static void own_step(struct worker *w)
{
	struct own *own = &w->own[below(w, OWN)];

	switch (below(w, 6)) {
	case 0:
		own_end(own);
		own->salt++;
		own_begin(w, own);
		break;
	case 1:
		own_resize(w, own);
		break;
	case 2:
		own_protect(w, own);
		break;
	case 3:
		hm_map_prefetch(own->map, 0, hm_map_length(own->map), HM_READ);
		break;
	default:
		own_find(w, own);
		break;
	}
	if (!pattern_holds(hm_map_address(own->map), 0, hm_map_length(own->map), own->salt))
		FAIL_AT("bytes changed");
}

/* ---- buffers that all threads share ---- */

static int agree(void *user, const struct hm_view_change *change)
{
	(void)user, (void)change;
	return 0;
}

static const struct hm_view_ops agreeing = {
	.struct_size = sizeof(agreeing),
	.quiesce = agree,
};

/* Another thread may have changed the size in between: then it is -ERANGE or so. */
static void expect(int r, const char *what)
{
	if (r && r != -ERANGE && r != -EBUSY && r != -EINVAL && r != -EAGAIN)
		FAIL_AT("%s: %d (%s)", what, r, hm_errmsg());
}

static void shared_map(struct worker *w, struct hm_buffer *buffer)
{
	struct hm_pointer_info info;
	struct hm_view *view;
	AUTO(hm_map) *map = NULL;
	int r = hm_map_create(buffer, NULL, &map);

	if (r) {
		expect(r, "mapping");
		return;
	}
	r = hm_view_create(map, 0, 0, &agreeing, NULL, &view);
	expect(r, "viewing");
	hm_pointer_find((char *)hm_map_address(map) + below(w, MAX_PAGES * PAGE), &info);
	expect(hm_map_protect(map, 0, PAGE, HM_READ), "protecting");
	expect(hm_map_lock(map, 0, PAGE, HM_LOCK_PARTIAL, NULL), "locking");
	expect(hm_map_begin_cpu(map, 0, 1, HM_READ), "bracketing");
	expect(hm_map_end_cpu(map, 0, 1, HM_READ), "bracketing");
	if (!r)
		hm_view_unref(view);
}

static void shared_step(struct worker *w)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	struct hm_buffer *buffer = w->shared[below(w, SHARED)];

	switch (below(w, 4)) {
	case 0:
		expect(hm_buffer_resize(buffer, below(w, MAX_PAGES * PAGE) + 1, 0), "resizing");
		break;
	case 1:
		expect(hm_buffer_query(buffer, &info), "asking");
		break;
	default:
		shared_map(w, buffer);
		break;
	}
}

static void *work(void *user)
{
	struct worker *w = user;
	int i;

	for (i = 0; i < OWN; i++)
		own_begin(w, &w->own[i]);
	for (i = 0; i < STEPS; i++)
		if (below(w, 3))
			own_step(w);
		else
			shared_step(w);
	for (i = 0; i < OWN; i++)
		own_end(&w->own[i]);
	return NULL;
}

static void random_operations(void)
{
	struct hm_buffer *shared[SHARED];
	struct worker workers[THREADS];
	uint64_t seed = test_seed();
	struct hm_device *device;
	int i;

	memset(workers, 0, sizeof(workers));
	CHECK_OK_FATAL(hm_device_open("host", &device));
	for (i = 0; i < SHARED; i++) {
		workers[0].device = device;
		CHECK_OK_FATAL(make_buffer(&workers[0], 5 * PAGE, 0, &shared[i]));
	}
	for (i = 0; i < THREADS; i++) {
		workers[i].device = device;
		workers[i].state = seed + (uint64_t)i;
		workers[i].shared = shared;
		CHECK_FATAL(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	for (i = 0; i < SHARED; i++)
		hm_buffer_unref(shared[i]);
	hm_device_unref(device);
	/* HETMAP_RETIRE may have it so. */
	CHECK_OK(hm_retire_flush());
	CHECK_EQUAL(stats_now().maps, 0);
	CHECK_EQUAL(stats_now().views, 0);
	CHECK_EQUAL(stats_now().bytes_mapped, 0);
	CHECK_EQUAL(stats_now().bytes_locked, 0);
	CHECK_EQUAL(stats_now().bytes_reserved, 0);
}

/* ---- readers while a map changes ---- */

struct reading {
	atomic_bool stop;
	char *base;
	struct hm_map *map;
	uint64_t short_length, long_length;
	_Atomic uint64_t finds;
};

/* Whatever the moment, an answer is one of the two that were ever true. */
static void *read_on(void *user)
{
	struct reading *reading = user;
	struct hm_pointer_info info;
	int r;

	while (!atomic_load(&reading->stop)) {
		r = hm_pointer_find(reading->base + 1, &info);
		atomic_fetch_add(&reading->finds, 1);
		if (r == -EAGAIN)
			continue;
		if (r || info.map != reading->map || info.base != reading->base ||
		    (info.length != reading->short_length &&
		     info.length != reading->long_length)) {
			FAIL_AT("find: %d, length %llu", r, (unsigned long long)info.length);
			break;
		}
	}
	return NULL;
}

static void readers(void)
{
	struct reading reading = { .short_length = PAGE, .long_length = 64 * PAGE };
	pthread_t threads[2];
	int i;
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer =
		rig_buffer(device, DESC(hm_buffer_desc, .size = PAGE, .max_size = 64 * PAGE));

	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &reading.map));
	reading.base = hm_map_address(reading.map);
	for (i = 0; i < 2; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, read_on, &reading));
	/* On a busy machine the readers may come late. */
	for (i = 0; i < STEPS || !atomic_load(&reading.finds); i++) {
		CHECK_OK(hm_buffer_resize(buffer, 64 * PAGE, 0));
		CHECK_OK(hm_buffer_resize(buffer, PAGE, 0));
	}
	atomic_store(&reading.stop, true);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	hm_map_unref(reading.map);
}

static const struct test tests[] = {
	{ "random_operations", random_operations, 60, 0 },
	{ "readers", readers, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "threads", tests)
