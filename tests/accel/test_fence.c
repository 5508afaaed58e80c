// SPDX-License-Identifier: MIT
/* Fences, order and parallel queues, and the objects that work in flight keeps. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "accel/accel_support.h"

#define MS 1000000ull

/* A gate is an unsigned int in a map that a kernel waits for ---- */

static int wait_gate(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	uint32_t *gate = (uint32_t *)(uintptr_t)args[0].pointer;

	(void)range;
	while (!__atomic_load_n(gate, __ATOMIC_ACQUIRE))
		usleep(200);
	gate[1]++;
	return 0;
}

static int fails(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return -ENOSPC;
}

static void open_gate(uint32_t *gate)
{
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
}

static void timeouts_and_polls(void)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct hm_fence *fence;
	struct pollfd poll_fd;
	int fd, late;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_kernel) *kernel = make_kernel("gate", "inout", wait_gate);
	uint32_t *gate = alloc_bytes(&rig, 4096);

	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_INOUT(gate)));
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 0));
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 5 * MS));
	CHECK_OK(hm_fence_query(fence, &info));
	CHECK_EQUAL(info.done, 0);
	CHECK_EQUAL(info.way_in, HM_WAY_DIRECT);
	CHECK_OK_FATAL(hm_fence_fd(fence, &fd));
	poll_fd = (struct pollfd){ fd, POLLIN, 0 };
	CHECK_EQUAL(poll(&poll_fd, 1, 5), 0);
	open_gate(gate);
	CHECK_EQUAL(poll(&poll_fd, 1, 5000), 1);
	CHECK_OK(hm_fence_wait(fence, 0));
	CHECK_EQUAL(gate[1], 1);
	/* Asked for when all is over, too. */
	CHECK_OK_FATAL(hm_fence_fd(fence, &late));
	poll_fd.fd = late;
	CHECK_EQUAL(poll(&poll_fd, 1, 0), 1);
	close(fd);
	close(late);
	finish(fence);
	CHECK_OK(hm_free(gate));
}

static void *wait_in_thread(void *user)
{
	return (void *)(intptr_t)hm_fence_wait(user, UINT64_MAX);
}

static void failure_reaches_all(void)
{
	struct hm_fence_info info = { .struct_size = sizeof(info) };
	struct hm_fence *gate_fence, *fence;
	pthread_t threads[3];
	void *result;
	int i;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_kernel) *gate_kernel = make_kernel("gate", "inout", wait_gate);
	AUTO(hm_kernel) *kernel = make_kernel("disk_full", "", fails);
	uint32_t *gate = alloc_bytes(&rig, 4096);

	CHECK_OK_FATAL(hm_launch(rig.queue, gate_kernel, 1, &gate_fence, HM_INOUT(gate)));
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 100000, &fence));
	for (i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, wait_in_thread, fence);
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 2 * MS));
	open_gate(gate);
	for (i = 0; i < 3; i++) {
		pthread_join(threads[i], &result);
		CHECK_EQUAL((intptr_t)result, -ENOSPC);
	}
	CHECK_ERROR(-ENOSPC, hm_fence_wait(fence, UINT64_MAX));
	CHECK(text_has("disk_full") && text_has("ENOSPC"));
	CHECK_OK(hm_fence_query(fence, &info));
	CHECK_EQUAL(info.status, -ENOSPC);
	hm_fence_unref(fence);
	finish(gate_fence);
	CHECK_OK(hm_free(gate));
}

static int open_next_gate(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range;
	open_gate((uint32_t *)(uintptr_t)args[0].pointer);
	return 0;
}

/* One queue keeps its order; a wait in it does not hold up another. */
static void queues_are_parallel(void)
{
	struct hm_fence *first, *second;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_kernel) *waits = make_kernel("gate", "inout", wait_gate);
	AUTO(hm_kernel) *opens = make_kernel("open", "out", open_next_gate);
	AUTO(hm_queue) *other = rig_queue(rig.accel, 0);
	uint32_t *gate = alloc_bytes(&rig, 4096);
	uint32_t *unused = alloc_bytes(&rig, 4096);

	CHECK_OK_FATAL(hm_launch(rig.queue, waits, 1, &first, HM_INOUT(gate)));
	CHECK_OK_FATAL(hm_launch(rig.queue, opens, 1, &second, HM_OUT(unused)));
	CHECK_ERROR(-ETIME, hm_fence_wait(second, 5 * MS));
	CHECK_EQUAL(*unused, 0);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		CHECK_OK_FATAL(hm_launch(other, opens, 1, NULL, HM_OUT(gate)));
	else
		open_gate(gate);
	finish(first);
	finish(second);
	CHECK_EQUAL(*unused, 1);
	CHECK_OK(hm_free(gate));
	CHECK_OK(hm_free(unused));
}

/* ---- work in flight ---- */

static void work_keeps_its_maps(void)
{
	struct hm_fence *fence;
	uint64_t maps = stats_now().maps;
	struct hm_pointer_info info;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	struct hm_kernel *kernel = make_kernel("gate", "inout inout", wait_gate);
	uint32_t *gate = alloc_bytes(&rig, 4096);
	uint32_t *x = alloc_bytes(&rig, 4096);

	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_INOUT(gate), HM_INOUT(x)));
	CHECK_OK(hm_free(x));
	hm_kernel_unref(kernel);
	x[5] = 1;
	CHECK_EQUAL(stats_now().maps, maps + 2);
	open_gate(gate);
	finish(fence);
	CHECK_EQUAL(stats_now().maps, maps + 1);
	CHECK_EQUAL(hm_pointer_find(x, &info), -ENOENT);
	CHECK_OK(hm_free(gate));
}

static void *resize_in_thread(void *user)
{
	void *moved;

	return (void *)(intptr_t)hm_realloc(user, 1 << 20, 0, &moved);
}

static void changes_wait_for_work(void)
{
	struct hm_pointer_info info;
	pthread_t thread;
	void *result;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_kernel) *kernel = make_kernel("gate", "inout", wait_gate);
	uint32_t *gate = alloc_bytes(&rig, 2 << 20);

	/* This fence is not waited for: the change itself completes the work. */
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, NULL, HM_INOUT(gate)));
	pthread_create(&thread, NULL, resize_in_thread, gate);
	usleep(20000);
	CHECK_OK(hm_pointer_find(gate, &info));
	CHECK_EQUAL(info.length, 2 << 20);
	CHECK_ERROR(-EBUSY, hm_launch(rig.queue, kernel, 1, NULL, HM_INOUT(gate)));
	open_gate(gate);
	pthread_join(thread, &result);
	CHECK_EQUAL((intptr_t)result, 0);
	CHECK_OK(hm_pointer_find(gate, &info));
	CHECK_EQUAL(info.length, 1 << 20);
	CHECK_EQUAL(gate[1], 1);
	RUN(&rig, INCREMENT, 16, HM_INOUT(gate));
	CHECK_OK(hm_free(gate));
}

static void brackets_wait_for_work(void)
{
	struct hm_pointer_info info;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_kernel) *kernel = make_kernel("gate", "in", wait_gate);
	uint32_t *gate = alloc_bytes(&rig, 1 << 20);
	uint32_t *far = gate + (1 << 17);

	CHECK_OK(hm_pointer_find(gate, &info));
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, NULL, HM_RANGE(gate, 4096, HM_READ)));
	/* Another range, and reading while the work only reads, need not wait. */
	CHECK_OK(hm_map_begin_cpu(info.map, (char *)far - (char *)gate, 4096, HM_WRITE));
	CHECK_OK(hm_map_end_cpu(info.map, (char *)far - (char *)gate, 4096, HM_WRITE));
	CHECK_OK(hm_map_begin_cpu(info.map, 0, 4096, HM_READ));
	CHECK_OK(hm_map_end_cpu(info.map, 0, 4096, HM_READ));
	open_gate(gate);
	CHECK_OK(hm_map_begin_cpu(info.map, 0, 4096, HM_WRITE));
	CHECK_EQUAL(gate[1], 1);
	CHECK_EQUAL(map_info(info.map, 0).in_flight, 0);
	CHECK_OK(hm_map_end_cpu(info.map, 0, 4096, HM_WRITE));
	CHECK_OK(hm_free(gate));
}

static void *resize_buffer(void *user)
{
	return (void *)(intptr_t)hm_buffer_resize(user, 4 * 4096, 0);
}

/*
 * The thread that changes a buffer may be the one that completes work, and with
 * it may go the last reference to another map of that very buffer.
 */
static void change_ends_another_map(void)
{
	uint64_t maps = stats_now().maps;
	pthread_t thread;
	void *result;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_kernel) *kernel = make_kernel("gate", "inout inout", wait_gate);
	AUTO(hm_buffer) *buffer = rig_buffer(rig.host, DESC(hm_buffer_desc, .size = 8 * 4096));
	AUTO(hm_map) *whole = rig_map(buffer, NULL);
	struct hm_map *other = rig_map(buffer, DESC(hm_map_desc, .access = HM_READ | HM_WRITE,
						    .length = 4096));
	uint32_t *gate = hm_map_address(whole);

	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, NULL, HM_INOUT(gate),
				 HM_INOUT(hm_map_address(other))));
	hm_map_unref(other);
	pthread_create(&thread, NULL, resize_buffer, buffer);
	usleep(20000);
	open_gate(gate);
	pthread_join(thread, &result);
	CHECK_EQUAL((intptr_t)result, 0);
	CHECK_EQUAL(stats_now().maps, maps + 1);
}

/* Any order of unref, with work in flight. */
static void *protect_page(void *user)
{
	return (void *)(intptr_t)hm_map_protect(user, 0, 4096, HM_READ);
}

/*
 * The same by a change of rights, which holds the map only, while a third thread
 * holds the buffer and waits for that map.
 */
static void change_ends_map_of_busy_buffer(void)
{
	pthread_t threads[2];
	void *result;
	int i;
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_kernel) *kernel = make_kernel("gate", "inout in", wait_gate);
	AUTO(hm_buffer) *buffer = rig_buffer(rig.host, DESC(hm_buffer_desc, .size = 8 * 4096));
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	struct hm_map *other = rig_map(buffer, DESC(hm_map_desc, .access = HM_READ,
						    .offset = 4096, .length = 4096));
	uint32_t *gate = hm_map_address(map);

	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, NULL, HM_INOUT(gate),
				 HM_IN(hm_map_address(other))));
	hm_map_unref(other);
	pthread_create(&threads[0], NULL, protect_page, map);
	usleep(20000);
	pthread_create(&threads[1], NULL, resize_buffer, buffer);
	usleep(20000);
	open_gate(gate);
	for (i = 0; i < 2; i++) {
		pthread_join(threads[i], &result);
		CHECK_EQUAL((intptr_t)result, 0);
	}
	CHECK_EQUAL(hm_map_length(map), 4 * 4096);
	CHECK_EQUAL(buffer_info(buffer).maps, 1);
	CHECK_EQUAL(stats_now().maps, 1);
}

static void unref_in_any_order(void)
{
	struct hm_kernel *kernel;
	struct hm_fence *fence, *ended;
	uint32_t *gate, *x;
	struct accel_rig rig;
	int order;

	for (order = 0; order < 4; order++) {
		accel_rig_open(&rig, "cpu", 0, 0);
		kernel = make_kernel("gate", "in", wait_gate);
		gate = alloc_bytes(&rig, 4096);
		x = alloc_bytes(&rig, 4096);
		open_gate(gate);
		CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &ended, HM_IN(gate)));
		CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_IN(gate)));
		if (order & 1) {
			hm_kernel_unref(kernel);
			CHECK_OK(hm_free(gate));
		}
		if (order & 2)
			hm_fence_unref(fence);
		accel_rig_close(&rig);
		CHECK_OK(hm_fence_wait(ended, 0));
		hm_fence_unref(ended);
		if (!(order & 2))
			finish(fence);
		if (!(order & 1)) {
			hm_kernel_unref(kernel);
			CHECK_OK(hm_free(gate));
		}
		CHECK_OK(hm_free(x));
	}
}

static const struct test tests[] = {
	{ "timeouts_and_polls", timeouts_and_polls, 0, 0 },
	{ "failure_reaches_all", failure_reaches_all, 0, 0 },
	{ "queues_are_parallel", queues_are_parallel, 0, 0 },
	{ "work_keeps_its_maps", work_keeps_its_maps, 0, 0 },
	{ "changes_wait_for_work", changes_wait_for_work, 0, 0 },
	{ "brackets_wait_for_work", brackets_wait_for_work, 0, 0 },
	{ "change_ends_another_map", change_ends_another_map, 0, 0 },
	{ "change_ends_map_of_busy_buffer", change_ends_map_of_busy_buffer, 0, 0 },
	{ "unref_in_any_order", unref_in_any_order, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "fence", tests)
