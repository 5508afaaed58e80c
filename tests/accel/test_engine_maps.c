// SPDX-License-Identifier: MIT
/*
 * Engines of simulated devices and maps: copies where they can't reach the bytes,
 * transfers, changes between and beside launches, threads, fork.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uapi/hetsim.h>

#include "accel/engine_support.h"
#include "lib/units.h"

#define WORDS(bytes) ((bytes) / 4)

/* ---- copies ---- */

static void copied_where_it_has_to(void)
{
	AUTO(hm_kernel) *kernel = kernel_of_fill();
	struct hm_fence_info info;
	struct engine_rig only;
	struct hm_stats before;
	uint32_t *d, *e, way;
	AUTO(engine_rig) rig = engine_make(0);

	d = engine_alloc(rig.host, 4 * PAGE);
	e = engine_alloc(rig.device, 4 * PAGE);
	CHECK_OK(hm_accel_way_in(rig.accel, d, 0, &way));
	CHECK_EQUAL(way, HM_WAY_COPY);
	CHECK(text_has("\"host\""));
	before = stats_now();
	info = engine_fill(&rig, kernel, d, PAGE, 9);
	CHECK_EQUAL(info.way_in, HM_WAY_COPY);
	CHECK_EQUAL(info.bytes_copied, stats_now().bytes_copied - before.bytes_copied);
	CHECK(d[0] == 9 && d[WORDS(PAGE) - 1] == 9 && d[WORDS(PAGE)] == 0);

	engine_open(&only, HM_ZERO_COPY_ONLY);
	CHECK_ERROR(-EINVAL, fill_launch(&only, kernel, d, PAGE, 1, NULL));
	CHECK(text_has("HM_ZERO_COPY_ONLY") && text_has("\"host\""));
	CHECK_ERROR(-EINVAL, hm_queue_fill(only.queue, d, 1, PAGE, NULL));
	CHECK_ERROR(-EINVAL, hm_queue_copy(only.queue, e, e + WORDS(PAGE), 65, NULL));
	CHECK(text_has("65 bytes are no multiple"));
	info = engine_fill(&only, kernel, e, PAGE, 7);
	CHECK_EQUAL(info.bytes_copied, 0);
	CHECK_EQUAL(e[3], 7);
	engine_close(&only);

	engine_open(&only, HM_ACCEL_FORCE_COPY);
	info = engine_fill(&only, kernel, e, PAGE, 8);
	CHECK_EQUAL(info.way_in, HM_WAY_COPY);
	CHECK(e[3] == 8 && e[WORDS(PAGE)] == 0);
	engine_close(&only);
	CHECK_OK(hm_free(d));
	CHECK_OK(hm_free(e));
}

/* Memory of another device of the kind is as far away as any. */
static void another_device(void)
{
	AUTO(hm_kernel) *kernel = NULL;
	AUTO(hm_device) *other = NULL;
	AUTO(engine_rig) rig = { 0 };
	char name[16];
	uint32_t *d, way;

	snprintf(name, sizeof(name), "%.*s:1", (int)strcspn(engine_subject->name, ":"),
		 engine_subject->name);
	if (hm_device_open(name, &other))
		return;
	kernel = kernel_of_fill();
	engine_open(&rig, 0);
	d = engine_alloc(other, PAGE);
	CHECK_OK(hm_accel_way_in(rig.accel, d, 0, &way));
	CHECK_EQUAL(way, HM_WAY_COPY);
	CHECK(text_has("another device"));
	engine_fill(&rig, kernel, d, PAGE, 5);
	CHECK_EQUAL(d[WORDS(PAGE) - 1], 5);
	CHECK_OK(hm_free(d));
}

/* A process may have only so much memory on the device, and so copy through. */
static void no_room_to_copy(void)
{
	struct hetsim_query query = { .size = sizeof(query) };
	AUTO(hm_kernel) *kernel = kernel_of_fill();
	uint32_t *d;
	AUTO(engine_rig) rig = engine_make(0);

	CHECK_OK_FATAL(hm_sim_call(rig.device, HETSIM_QUERY, &query));
	if (query.opener_bytes < query.max_segment && query.opener_bytes <= 256 << 20) {
		d = engine_alloc(rig.host, query.opener_bytes + PAGE);
		CHECK_ERROR(-ENOSPC,
			    fill_launch(&rig, kernel, d, query.opener_bytes + PAGE, 1, NULL));
		CHECK(text_has("to copy through"));
		engine_fill(&rig, kernel, d, PAGE, 2);
		CHECK_EQUAL(d[0], 2);
		CHECK_OK(hm_free(d));
	}
}

/* A chain through copies keeps its order, whichever fence is waited for. */
static void copies_in_order(void)
{
	AUTO(hm_kernel) *kernel = kernel_of_op(HM_ENGINE_ADD);
	struct hm_fence *fence = NULL;
	uint32_t *d, *one, i;
	AUTO(engine_rig) rig = engine_make(0);

	d = engine_alloc(rig.host, PAGE);
	one = engine_alloc(rig.device, PAGE);
	for (i = 0; i < WORDS(PAGE); i++)
		one[i] = 1;
	for (i = 0; i < 20; i++) {
		hm_fence_unref(fence);
		CHECK_OK_FATAL(hm_launch(
			rig.queue, kernel, 1, &fence, HM_INOUT(d), HM_RANGE(one, PAGE, HM_READ),
			HM_RANGE(one, PAGE, HM_READ), HM_U64(PAGE), HM_U32(0)));
		CHECK_OK_FATAL(hm_queue_copy(rig.queue, one, d, PAGE, NULL));
	}
	finish(fence);
	hm_queue_unref(rig.queue);
	CHECK_EQUAL(one[0], 1u << 20);
	CHECK_EQUAL(d[WORDS(PAGE) - 1], 1u << 20);
	CHECK_OK_FATAL(hm_queue_create(rig.accel, 0, &rig.queue));
	CHECK_OK(hm_free(d));
	CHECK_OK(hm_free(one));
}

/* Any address and length; nothing behind the range is touched. */
static void transfers(void)
{
	static const struct {
		bool to_host, from_host;
		uint64_t to, from, length;
	} cases[] = {
		{ false, false, 0, 0, 3 << 20 },         { false, false, 0, 0, 8192 + 5 },
		{ false, false, 64, 4096 - 64, 100000 }, { false, false, 1, 64, 9000 },
		{ false, false, 64, 3, 9001 },           { true, false, 0, 64, 70000 },
		{ false, true, 64, 1, 70001 },           { true, true, 3, 5, 70007 },
		{ false, true, 0, 0, 2 << 20 },          { false, false, 128, 7, 1 },
	};
	const uint64_t size = 4 << 20;
	unsigned char *memory[2][2], *expected = malloc(size), *to, *from;
	struct hm_fence_info info;
	struct hm_fence *fence;
	uint64_t state = 5;
	size_t i;
	AUTO(engine_rig) rig = engine_make(0);

	for (i = 0; i < 2; i++) {
		memory[0][i] = engine_alloc(rig.device, size);
		memory[1][i] = engine_alloc(rig.host, size);
	}
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		to = memory[cases[i].to_host][0];
		from = memory[cases[i].from_host][1];
		engine_random(from, cases[i].from + cases[i].length, &state);
		memset(to, 0xee, size);
		memset(expected, 0xee, size);
		memcpy(expected + cases[i].to, from + cases[i].from, cases[i].length);
		CHECK_OK_FATAL(hm_queue_copy(rig.queue, to + cases[i].to, from + cases[i].from,
					     cases[i].length, &fence));
		info = finish(fence);
		if (memcmp(to, expected, size) != 0)
			test_fail(__FILE__, __LINE__, "case %zu: the bytes are wrong", i);
		CHECK_EQUAL(info.way_in == HM_WAY_COPY, info.bytes_copied != 0);
	}
	CHECK_OK_FATAL(hm_queue_fill(rig.queue, memory[0][0] + 4, 0x01020304, 2 << 20, &fence));
	finish(fence);
	CHECK(memory[0][0][3] == 0xee && memory[0][0][4] == 4 && memory[0][0][7] == 1);
	CHECK(memory[0][0][(2 << 20) + 3] == 1 && memory[0][0][(2 << 20) + 4] == 0xee);
	for (i = 0; i < 2; i++) {
		CHECK_OK(hm_free(memory[0][i]));
		CHECK_OK(hm_free(memory[1][i]));
	}
	free(expected);
}

/* ---- changes between and beside launches ---- */

static void bound_again(void)
{
	AUTO(hm_kernel) *kernel = kernel_of_fill();
	struct hm_pointer_info info;
	void *same;
	AUTO(engine_rig) rig = engine_make(0);
	AUTO(engine_rig) other = engine_make(0);
	uint32_t *d = engine_alloc(rig.device, 4 * PAGE);

	CHECK_OK_FATAL(hm_pointer_find(d, &info));
	engine_fill(&rig, kernel, d, 4 * PAGE, 1);
	engine_fill(&other, kernel, d, 4 * PAGE, 1);
	/* Longer: the engine reaches the new bytes, by either accelerator. */
	CHECK_OK_FATAL(hm_realloc(d, 16 * PAGE, 0, &same));
	CHECK(same == d);
	engine_fill(&other, kernel, d, 16 * PAGE, 2);
	engine_fill(&rig, kernel, d + WORDS(8 * PAGE), 8 * PAGE, 3);
	CHECK(d[0] == 2 && d[WORDS(16 * PAGE) - 1] == 3);
	/* Shorter, and longer again. */
	CHECK_OK_FATAL(hm_realloc(d, 2 * PAGE, 0, &same));
	CHECK_ERROR(-ERANGE, fill_launch(&rig, kernel, d, 4 * PAGE, 1, NULL));
	engine_fill(&rig, kernel, d, 2 * PAGE, 4);
	CHECK_OK_FATAL(hm_realloc(d, 8 * PAGE, 0, &same));
	CHECK_EQUAL(d[WORDS(8 * PAGE) - 1], 0);
	engine_fill(&rig, kernel, d, 8 * PAGE, 5);
	CHECK_EQUAL(d[WORDS(8 * PAGE) - 1], 5);
	/* Another object under the same address. */
	CHECK_OK_FATAL(hm_buffer_resize(info.buffer, 12 * PAGE, HM_GROW_REPLACE));
	CHECK_EQUAL(d[0], 5);
	engine_fill(&rig, kernel, d, 12 * PAGE, 6);
	CHECK_EQUAL(d[WORDS(12 * PAGE) - 1], 6);
	/* A further one behind it. */
	CHECK_OK_FATAL(hm_buffer_resize(info.buffer, 20 * PAGE, HM_GROW_APPEND));
	engine_fill(&rig, kernel, d, 20 * PAGE, 7);
	CHECK(d[0] == 7 && d[WORDS(12 * PAGE)] == 7 && d[WORDS(20 * PAGE) - 1] == 7);

	CHECK_OK_FATAL(hm_map_protect(info.map, 0, PAGE, HM_READ));
	CHECK_ERROR(-EACCES, fill_launch(&rig, kernel, d, 2 * PAGE, 8, NULL));
	engine_fill(&rig, kernel, d + WORDS(PAGE), PAGE, 8);
	CHECK(d[0] == 7 && d[WORDS(PAGE)] == 8);
	CHECK_OK_FATAL(hm_map_protect(info.map, 0, PAGE, HM_READ | HM_WRITE));
	engine_fill(&rig, kernel, d, PAGE, 9);
	CHECK_EQUAL(d[0], 9);
	CHECK_OK(hm_free(d));
}

/* A change of one range leaves work on another alone. */
static void change_beside_work(void)
{
	struct hm_kernel *kernel = kernel_of_fill();
	struct hm_pointer_info info;
	struct hm_fence *fence;
	void *same;
	struct engine_rig rig = engine_make(0);
	uint32_t *d = engine_alloc(rig.device, 8 * PAGE);

	CHECK_OK_FATAL(hm_pointer_find(d, &info));
	engine_fill(&rig, kernel, d, PAGE, 1);
	engine_inject(&rig, HETSIM_INJECT_LATENCY, 50000000);
	CHECK_OK_FATAL(fill_launch(&rig, kernel, d, PAGE, 2, &fence));
	CHECK_OK_FATAL(hm_map_protect(info.map, 4 * PAGE, PAGE, HM_READ));
	finish(fence);
	CHECK_EQUAL(d[0], 2);
	CHECK_OK_FATAL(fill_launch(&rig, kernel, d, PAGE, 3, &fence));
	CHECK_OK_FATAL(hm_realloc(d, 16 * PAGE, 0, &same));
	finish(fence);
	CHECK_OK_FATAL(fill_launch(&rig, kernel, d, PAGE, 4, &fence));
	CHECK_OK_FATAL(hm_buffer_resize(info.buffer, 32 * PAGE, HM_GROW_APPEND));
	finish(fence);
	CHECK_EQUAL(d[0], 4);
	/* The last references go first; the work keeps its memory. */
	CHECK_OK_FATAL(fill_launch(&rig, kernel, d, PAGE, 5, &fence));
	CHECK_OK(hm_free(d));
	hm_kernel_unref(kernel);
	hm_queue_unref(rig.queue);
	hm_accel_unref(rig.accel);
	finish(fence);
	hm_device_unref(rig.device);
	hm_device_unref(rig.host);
}

static void *launch_and_wait(void *user)
{
	AUTO(hm_kernel) *kernel = kernel_of_fill();
	struct engine_rig *rig = user;
	uint32_t *d = engine_alloc(rig->device, PAGE), *h = engine_alloc(rig->host, PAGE), i;

	for (i = 1; i <= 60; i++) {
		engine_fill(rig, kernel, i % 8 ? d : h, PAGE, i);
		if ((i % 8 ? d : h)[7] != i)
			test_fail(__FILE__, __LINE__, "not filled with %u", i);
	}
	hm_free(d);
	hm_free(h);
	return NULL;
}

static void threads_on_one_queue(void)
{
	pthread_t threads[4];
	int i;
	AUTO(engine_rig) rig = engine_make(0);

	for (i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, launch_and_wait, &rig);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

/* ---- changes while ranges of one submission are taken hold of ---- */

#define SUBMISSIONS 200

struct between {
	struct engine_rig *rig;
	char *to, *from; /* of maps that other threads change */
};

static _Atomic bool between_over;

static void *submit_both(void *user)
{
	struct between *between = user;
	AUTO(hm_queue) *queue = NULL;
	int n = 0, r;

	CHECK_OK(hm_queue_create(between->rig->accel, 0, &queue));
	while (n < SUBMISSIONS) {
		r = hm_queue_copy(queue, between->to, between->from, 64, NULL);
		if (r && r != -EBUSY) {
			test_fail(__FILE__, __LINE__, "%d: %s", r, hm_errmsg());
			break;
		}
		n += !r;
	}
	return NULL;
}

/* The last page, which no other thread touches. */
static void *change_last_page(void *user)
{
	struct hm_pointer_info info;
	int r = hm_pointer_find(user, &info);

	while (!r && !between_over) {
		r = hm_map_protect(info.map, 7 * PAGE, PAGE, HM_READ);
		if (!r)
			r = hm_map_protect(info.map, 7 * PAGE, PAGE, HM_READ | HM_WRITE);
	}
	CHECK_OK(r);
	return NULL;
}

/* Within one map, and over two in either order: none may wait for another for ever. */
static void change_between_ranges(void)
{
	struct between between[3];
	pthread_t threads[3], changers[2];
	int i;
	AUTO(engine_rig) rig = engine_make(0);
	char *a = engine_alloc(rig.device, 8 * PAGE);
	char *b = engine_alloc(rig.device, 8 * PAGE);

	between[0] = (struct between){ &rig, a, a + PAGE };
	between[1] = (struct between){ &rig, a + 2 * PAGE, b };
	between[2] = (struct between){ &rig, b + 2 * PAGE, a + PAGE };
	between_over = false;
	pthread_create(&changers[0], NULL, change_last_page, a);
	pthread_create(&changers[1], NULL, change_last_page, b);
	for (i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, submit_both, &between[i]);
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	between_over = true;
	for (i = 0; i < 2; i++)
		pthread_join(changers[i], NULL);
	hm_free(a);
	hm_free(b);
}

/* ---- fork ---- */

struct parents {
	struct engine_rig *rig;
	struct hm_fence *fence;
	struct hm_kernel *kernel;
	uint32_t *d;
};

static void in_the_child(void *user)
{
	struct parents *theirs = user;
	AUTO(hm_kernel) *kernel = NULL;
	AUTO(engine_rig) rig = { 0 };
	uint32_t *d, number;

	CHECK_ERROR(-EOWNERDEAD, hm_fence_wait(theirs->fence, UINT64_MAX));
	CHECK_ERROR(-EOWNERDEAD, hm_sim_queue(theirs->rig->queue, &number));
	CHECK_ERROR(-EOWNERDEAD,
		    fill_launch(theirs->rig, theirs->kernel, theirs->d, PAGE, 1, NULL));
	hm_fence_unref(theirs->fence);
	engine_close(theirs->rig);

	/* TSan allows no new threads beside those that were lost in a fork. */
	if (TEST_TSAN)
		return;
	engine_open(&rig, 0);
	kernel = kernel_of_fill();
	d = engine_alloc(rig.device, PAGE);
	engine_fill(&rig, kernel, d, PAGE, 6);
	CHECK_EQUAL(d[1], 6);
	CHECK_OK(hm_free(d));
}

static void fork_with_work(void)
{
	AUTO(engine_rig) rig = { 0 };
	struct parents parents = { .rig = &rig };

	engine_open(&rig, 0);
	parents.kernel = kernel_of_fill();
	parents.d = engine_alloc(rig.device, PAGE);
	engine_inject(&rig, HETSIM_INJECT_LATENCY, 20000000);
	CHECK_OK_FATAL(fill_launch(&rig, parents.kernel, parents.d, PAGE, 5, &parents.fence));
	CHECK_EQUAL(test_fork(in_the_child, &parents), 0);
	finish(parents.fence);
	CHECK_EQUAL(parents.d[0], 5);
	CHECK_OK(hm_free(parents.d));
	hm_kernel_unref(parents.kernel);
}

static const struct test cases[] = {
	{ "copied_where_it_has_to", copied_where_it_has_to, 0, 0 },
	{ "another_device", another_device, 0, 0 },
	{ "no_room_to_copy", no_room_to_copy, 0, 0 },
	{ "copies_in_order", copies_in_order, 0, 0 },
	{ "transfers", transfers, 0, 0 },
	{ "bound_again", bound_again, 0, 0 },
	{ "change_beside_work", change_beside_work, 0, 0 },
	{ "change_between_ranges", change_between_ranges, 0, 0 },
	{ "threads_on_one_queue", threads_on_one_queue, 0, 0 },
	{ "fork_with_work", fork_with_work, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(engine_main, "engine_maps", cases)
