// SPDX-License-Identifier: MIT
/* Work on allocations of pools: ranges of launches, brackets, guards, frees under work. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel_support.h"
#include "pool/pool_support.h"

static struct hm_pool *pool_of(struct accel_rig *rig)
{
	struct hm_pool *pool;

	CHECK_OK_FATAL(hm_pool_create(rig->host, NULL, &pool));
	return pool;
}

/* The kernel is given the allocation, and not the block. */
static void launches_on(const char *accel)
{
	struct hm_fence_info info;
	struct hm_pool *pool;
	struct accel_rig rig;
	uint32_t *one, *two, *freed, i;

	accel_rig_open(&rig, accel, 0, 0);
	pool = pool_of(&rig);
	one = pool_take(pool, 1000 * sizeof(*one));
	two = pool_take(pool, 1000 * sizeof(*two));
	freed = pool_take(pool, 1000 * sizeof(*freed));
	memset(two, 0x11, 1000 * sizeof(*two));
	RUN(&rig, FILL, 1000, HM_OUT(one), HM_U32(7));
	for (i = 0; i < 1000; i++)
		CHECK_FATAL(one[i] == 7 && two[i] == 0x11111111);
	info = RUN(&rig, FILL, 10, HM_OUT(one + 990), HM_U32(8));
	CHECK(info.bytes_copied <= 4000);
	CHECK(one[999] == 8 && one[0] == (accel[0] == 'c' ? 7 : one[0]));
	/* Two allocations of one block do not overlap. */
	RUN(&rig, FILL, 1000, HM_RANGE(two, 4000, HM_WRITE), HM_U32(9));
	CHECK(two[999] == 9);
	/* A length of the caller's must end inside of the allocation. */
	CHECK_ERROR(-ERANGE, hm_launch(rig.queue, rig.kernel[FILL], 1, NULL,
				       HM_RANGE(one + 990, 41, HM_WRITE), HM_U32(1)));
	CHECK(text_has("41 bytes") && text_has("of which 40 are left"));
	CHECK_ERROR(-ERANGE, hm_queue_copy(rig.queue, one, two, 4001, NULL));
	CHECK_EQUAL(one[999], 8);
	CHECK_OK(hm_pool_free(pool, freed));
	CHECK_ERROR(-EFAULT,
		    hm_launch(rig.queue, rig.kernel[FILL], 1, NULL, HM_OUT(freed), HM_U32(1)));
	CHECK(text_has("in no allocation"));
	CHECK_ERROR(-EFAULT, hm_queue_copy(rig.queue, freed, two, 64, NULL));
	CHECK_EQUAL(way_of(&rig, one, 0), way_of(&rig, one, 4000));
	CHECK_OK(hm_pool_free(pool, one));
	CHECK_OK(hm_pool_free(pool, two));
	hm_pool_unref(pool);
	accel_rig_close(&rig);
}

static void launches_cpu(void)
{
	launches_on("cpu");
}

static void launches_engine(void)
{
	setenv("HETMAP_SOFT", "vram_mb=64 system_mb=64 kind=nic", 1);
	launches_on("soft:0");
}

/* ---- freed while work uses it ---- */

static struct {
	_Atomic bool begun;
	pthread_mutex_t go;
} gate = { false, PTHREAD_MUTEX_INITIALIZER };

static int wait_at_gate(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range;
	atomic_store(&gate.begun, true);
	pthread_mutex_lock(&gate.go);
	pthread_mutex_unlock(&gate.go);
	*(char *)(uintptr_t)args[0].pointer = 77;
	return 0;
}

static void freed_under_work(void)
{
	struct hm_kernel *kernel = make_kernel("waits", "inout", wait_at_gate);
	struct hm_pool *pool;
	struct hm_pointer_info at;
	struct hm_fence *fence;
	char *bytes, *neighbour, *others[300];
	unsigned int i;
	struct accel_rig rig;

	accel_rig_open(&rig, "cpu", 0, 0);
	pool = pool_of(&rig);
	bytes = pool_take(pool, 5000);
	neighbour = pool_take(pool, 5000);
	pthread_mutex_lock(&gate.go);
	atomic_store(&gate.begun, false);
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_INOUT(bytes)));
	/* The work is of the allocation alone: its neighbour is free for the CPU. */
	CHECK_EQUAL(hm_pointer_find(neighbour, &at), 0);
	CHECK_OK(hm_map_begin_cpu(at.map, at.map_offset, 5000, HM_WRITE));
	CHECK_OK(hm_map_end_cpu(at.map, at.map_offset, 5000, HM_WRITE));
	CHECK_OK(hm_pool_free(pool, neighbour));
	CHECK_EQUAL(pool_info(pool).busy, 0);
	CHECK_OK(hm_pool_free(pool, bytes));
	CHECK(pool_info(pool).busy >= 5000);
	CHECK_EQUAL(pool_info(pool).allocations, 0);
	CHECK_EQUAL(hm_pointer_find(bytes, &at), -ENOENT);
	CHECK_ERROR(-EINVAL, hm_pool_free(pool, bytes));
	for (i = 0; i < 300; i++) {
		others[i] = pool_take(pool, 5000);
		CHECK(others[i] != bytes);
	}
	for (i = 0; i < 300; i++)
		CHECK_OK(hm_pool_free(pool, others[i]));
	CHECK_OK(hm_pool_trim(pool, 0, NULL));
	CHECK_EQUAL(pool_info(pool).blocks, 1);
	pthread_mutex_unlock(&gate.go);
	finish(fence);
	CHECK_EQUAL(pool_info(pool).busy, 0);
	CHECK_OK(hm_pool_trim(pool, 0, NULL));
	CHECK_EQUAL(pool_info(pool).blocks, 0);
	hm_pool_unref(pool);
	hm_kernel_unref(kernel);
	accel_rig_close(&rig);
}

/* The pool has no references any more: work keeps the block. */
static void left_under_work(void)
{
	struct hm_kernel *kernel = make_kernel("waits", "inout", wait_at_gate);
	struct hm_stats before, after;
	struct hm_pool *pool;
	struct hm_fence *fence;
	char *bytes, *second;
	struct accel_rig rig;

	accel_rig_open(&rig, "cpu", 0, 0);
	before = stats_now();
	pool = pool_of(&rig);
	second = pool_take(pool, KIB(64));
	bytes = pool_take(pool, KIB(64));
	CHECK(bytes == second + KIB(64));
	pthread_mutex_lock(&gate.go);
	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence, HM_INOUT(bytes)));
	CHECK_OK(hm_pool_free(pool, bytes)); /* waits in the pool */
	hm_pool_unref(pool);
	/* Not into the bytes that work will write. */
	CHECK_ERROR(-ENOSPC, hm_realloc(second, KIB(128), 0, NULL));
	CHECK_ERROR(-ENOSPC, hm_realloc(second, KIB(128), HM_MAY_MOVE, NULL));
	CHECK_OK(hm_free(second));
	CHECK_EQUAL(stats_now().maps, before.maps + 1);
	pthread_mutex_unlock(&gate.go);
	finish(fence);
	after = stats_now();
	CHECK_EQUAL(after.maps, before.maps);
	CHECK_EQUAL(after.buffers, before.buffers);
	hm_kernel_unref(kernel);
	accel_rig_close(&rig);
}

/* ---- guards ---- */

static void guards(void)
{
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	AUTO(hm_pool) *pool = pool_make("host", 0, 0);
	char *bytes = pool_take(pool, 100), copy[100];
	struct hm_pointer_info at;
	struct hm_guard guard;
	int r;
	AUTO(rig_handler) handler = rig_handler(0);

	memset(copy, 5, sizeof(copy));
	CHECK_OK(hm_copy_in(bytes, copy, 100, &fault));
	CHECK_EQUAL(bytes[99], 5);
	CHECK_OK(hm_copy_out(copy, bytes, 100, &fault));
	CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
	CHECK_OK(hm_map_protect(at.map, at.map_offset & ~4095ull, 4096, HM_READ));
	CHECK_ERROR(-EACCES, hm_copy_in(bytes, copy, 100, &fault));
	CHECK(fault.address == bytes);
	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (!r) {
		*(volatile char *)bytes = 1;
		test_fail(__FILE__, __LINE__, "a store without the right to it");
	}
	CHECK_EQUAL(r, -EACCES);
	CHECK_EQUAL(hm_pointer_find(bytes, &at), 0);
	CHECK_EQUAL(at.access, HM_READ);
	CHECK(at.base == bytes && at.length == 100);
	CHECK_OK(hm_map_protect(at.map, at.map_offset & ~4095ull, 4096, HM_READ | HM_WRITE));
	CHECK_OK(hm_pool_free(pool, bytes));
}

/* ---- the access hook, which is asked for each block ---- */

struct asked {
	struct hm_pool *pool;
	unsigned int blocks;
	bool refuse, allocate;
	int r;
};

static int hook(void *user, const struct hm_access_request *request, char *reason)
{
	struct asked *asked = user;
	char *bytes = NULL;

	(void)reason;
	if (request->operation != HM_ACCESS_CREATE)
		return 0;
	asked->blocks++;
	if (asked->allocate)
		asked->r = hm_pool_alloc(asked->pool, 10, 0, &bytes);
	return asked->refuse ? -EACCES : 0;
}

static void asks(void)
{
	struct asked asked = { .pool = pool_make("host", 0, 0), .refuse = true };
	char *bytes = NULL, *more;

	CHECK_OK(hm_access_hook_set(hook, &asked));
	CHECK_ERROR(-EACCES, hm_pool_alloc(asked.pool, 10, 0, &bytes));
	CHECK(!bytes);
	CHECK_EQUAL(pool_info(asked.pool).held, 0);
	asked.refuse = false;
	asked.allocate = true;
	CHECK_OK_FATAL(hm_pool_alloc(asked.pool, 10, 0, &bytes));
	CHECK_EQUAL(asked.r, -EDEADLK);
	CHECK_EQUAL(asked.blocks, 2);
	more = pool_take(asked.pool, 10);
	CHECK_EQUAL(asked.blocks, 2);
	CHECK_OK(hm_access_hook_set(NULL, NULL));
	CHECK_OK(hm_pool_free(asked.pool, bytes));
	CHECK_OK(hm_pool_free(asked.pool, more));
	hm_pool_unref(asked.pool);
}

static const struct test tests[] = {
	{ .name = "launches_cpu", .run = launches_cpu },
	{ .name = "launches_engine", .run = launches_engine },
	{ .name = "freed_under_work", .run = freed_under_work },
	{ .name = "left_under_work", .run = left_under_work },
	{ .name = "guards", .run = guards },
	{ .name = "asks", .run = asks },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "pool_work", tests)
