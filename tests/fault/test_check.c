// SPDX-License-Identifier: MIT
/* HETMAP_CHECK=1: which stores it reports, and which it does not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uapi/hetsim.h>

#include "accel/engine_support.h"
#include "lib/units.h"

#define SIZE KIB(64)
#define LATENCY_NS 100000000

struct case_rig {
	struct engine_rig rig;
	struct hm_kernel *copy, *fill;
	char *from, *to;
	uint64_t reported; /* before */
};

static void open_rig(struct case_rig *rig)
{
	setenv("HETMAP_CHECK", "1", 1);
	engine_open(&rig->rig, 0);
	rig->copy = kernel_of_op(HM_ENGINE_COPY);
	rig->fill = kernel_of_fill();
	rig->from = engine_alloc(rig->rig.device, SIZE);
	rig->to = engine_alloc(rig->rig.device, SIZE);
	memset(rig->from, 1, SIZE);
	engine_inject(&rig->rig, HETSIM_INJECT_LATENCY, LATENCY_NS);
	rig->reported = stats_now().touches_outside;
}

static uint64_t close_rig(struct case_rig *rig)
{
	uint64_t reported = stats_now().touches_outside - rig->reported;

	CHECK_OK(hm_free(rig->from));
	CHECK_OK(hm_free(rig->to));
	hm_kernel_unref(rig->copy);
	hm_kernel_unref(rig->fill);
	engine_close(&rig->rig);
	return reported;
}

static struct hm_fence *launch_copy(struct case_rig *rig)
{
	struct hm_fence *fence = NULL;

	CHECK_OK_FATAL(hm_launch(rig->rig.queue, rig->copy, 1, &fence, HM_INOUT(rig->to),
				 HM_IN(rig->from), HM_IN(rig->from), HM_U64(SIZE), HM_U32(0)));
	return fence;
}

static void test_store(void)
{
	struct hm_fence *fence;
	struct case_rig rig;

	open_rig(&rig);
	fence = launch_copy(&rig);
	((volatile char *)rig.from)[KIB(5)] = 2;
	finish(fence);
	/* Once for each argument that reads it. */
	CHECK(close_rig(&rig) > 0);
}

static void test_no_store(void)
{
	struct case_rig rig;

	open_rig(&rig);
	finish(launch_copy(&rig));
	CHECK_EQUAL(close_rig(&rig), 0);
}

/* Stores of the queue's earlier work are there before they are read. */
static void test_earlier_work(void)
{
	struct hm_fence *fill, *copy;
	struct case_rig rig;

	open_rig(&rig);
	CHECK_OK_FATAL(fill_launch(&rig.rig, rig.fill, rig.from, SIZE, 7, &fill));
	copy = launch_copy(&rig);
	finish(copy);
	finish(fill);
	CHECK_EQUAL(rig.to[SIZE - 4], 7);
	CHECK_EQUAL(close_rig(&rig), 0);
}

/* After a loss the memory shows zeros, which no work has stored. */
static void test_lost(void)
{
	struct hm_fence *fence;
	struct case_rig rig;

	open_rig(&rig);
	fence = launch_copy(&rig);
	engine_inject(&rig.rig, HETSIM_INJECT_UNPLUG, 0);
	CHECK_ERROR(-ENODEV, hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	CHECK_EQUAL(close_rig(&rig), 0);
	CHECK_OK(hm_sim_plug(engine_subject->name));
}

/* Neither on nor off: that is said, and not guessed. */
static void test_wrong_value(void)
{
	struct hm_device *device = NULL;

	setenv("HETMAP_CHECK", "yes", 1);
	CHECK_ERROR(-EINVAL, hm_device_open("host", &device));
	CHECK(strstr(hm_errmsg(), "HETMAP_CHECK is \"yes\": it is 1,"));
	CHECK(!device);
}

static const struct test cases[] = {
	{ "store", test_store, 0, 0 },
	{ "no_store", test_no_store, 0, 0 },
	{ "earlier_work", test_earlier_work, 0, 0 },
	{ "lost", test_lost, 0, 0 },
	{ "wrong_value", test_wrong_value, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(engine_main, "check", cases)
