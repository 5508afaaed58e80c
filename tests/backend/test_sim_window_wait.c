// SPDX-License-Identifier: MIT
/*
 * The simulated devices with a window: waits for work bring its bytes where CPUs reach them. The
 * module's cases need a machine with bar_mb (tests/vm/variants).
 */
#include <signal.h>
#include <stdlib.h>

#include <hetmap/hetmap.h>

#include "lib/sim_devices.h"

/* Settings of the twin; the module's memory may be larger. */
#define SETTINGS "test=1 vram_mb=32 system_mb=64 bar_mb=4 opener_mb=80"

/* An engine that adds x to y, out of reach of the CPU before each launch. */
struct adder {
	uint64_t window, size;
	struct hm_device *device;
	struct hm_accel *accel;
	struct hm_kernel *kernel;
	struct hm_queue *queue;
	struct hm_buffer *a, *b;
	struct hm_map *map_x, *map_y;
	uint32_t *x, *y;
};

static bool adder_open(struct adder *adder)
{
	static const struct hm_engine_step steps[] = {
		{ HM_ENGINE_ADD, 1, 0, 1, HM_ENGINE_NONE, HM_ENGINE_NONE, 0 },
	};
	uint64_t i;

	adder->size = 16 * PAGE;
	adder->device = sim_open_windowed(&adder->window);
	if (!adder->device)
		return false;
	CHECK_OK_FATAL(hm_accel_open(sim_device(), 0, &adder->accel));
	CHECK_OK_FATAL(hm_queue_create(adder->accel, 0, &adder->queue));
	CHECK_OK_FATAL(
		hm_kernel_create(DESC(hm_kernel_desc, .name = "add", .signature = "in inout",
				      .engine = steps, .n_engine = 1),
				 &adder->kernel));
	adder->a = sim_make(adder->device, adder->size, 0, &adder->map_x);
	adder->b = sim_make(adder->device, adder->size, 0, &adder->map_y);
	adder->x = hm_map_address(adder->map_x);
	adder->y = hm_map_address(adder->map_y);
	for (i = 0; i < adder->size / 4; i++) {
		adder->x[i] = (uint32_t)i;
		adder->y[i] = 7;
	}
	return true;
}

static struct hm_fence *adder_launch(struct adder *adder)
{
	struct hm_fence *fence;

	sim_crowd_out(adder->device, adder->window);
	CHECK_EQUAL(test_read_signal((char *)adder->y), SIGBUS);
	CHECK_OK_FATAL(hm_launch(adder->queue, adder->kernel, 1, &fence, HM_IN(adder->x),
				 HM_INOUT(adder->y)));
	return fence;
}

static void adder_close(struct adder *adder)
{
	hm_map_unref(adder->map_x);
	hm_buffer_unref(adder->a);
	hm_map_unref(adder->map_y);
	hm_buffer_unref(adder->b);
	hm_kernel_unref(adder->kernel);
	hm_queue_unref(adder->queue);
	hm_accel_unref(adder->accel);
	hm_device_unref(adder->device);
}

/* After the wait it is the CPU's turn, wherever the engine found the bytes. */
static void test_fence_wait(void)
{
	struct hm_fence *fence;
	struct adder adder;
	uint64_t i;

	if (!adder_open(&adder))
		return;
	fence = adder_launch(&adder);
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	for (i = 0; i < adder.size / 4 && adder.y[i] == i + 7 && adder.x[i] == i; i++)
		;
	CHECK_EQUAL(i, adder.size / 4);
	/* Each time it is waited for. */
	sim_crowd_out(adder.device, adder.window);
	CHECK_EQUAL(test_read_signal((char *)adder.x), SIGBUS);
	CHECK_OK(hm_fence_wait(fence, 0));
	CHECK_EQUAL(adder.x[5], 5);
	CHECK_EQUAL(adder.y[5], 12);
	/* A map that has gone since needs no bracket. */
	hm_map_unref(adder.map_x);
	hm_buffer_unref(adder.a);
	adder.map_x = NULL;
	adder.a = NULL;
	CHECK_OK(hm_fence_wait(fence, 0));
	hm_fence_unref(fence);
	adder_close(&adder);
}

/* The checking mode skips memory that the engine reaches and the CPU does not. */
static void test_checking_mode(void)
{
	setenv("HETMAP_CHECK", "1", 1);
	test_fence_wait();
}

/* A merged fence is waited for as its parts are, and so is one that was merged again. */
static void test_merged_wait(void)
{
	struct hm_fence *part[2], *merged, *again;
	struct adder adder;

	if (!adder_open(&adder))
		return;
	part[0] = adder_launch(&adder);
	CHECK_OK_FATAL(hm_launch(adder.queue, adder.kernel, 1, &part[1], HM_IN(adder.x),
				 HM_INOUT(adder.y)));
	CHECK_OK_FATAL(hm_fence_merge(part, 2, &merged));
	CHECK_OK_FATAL(hm_fence_merge(&merged, 1, &again));
	CHECK_OK(hm_fence_wait(merged, UINT64_MAX));
	CHECK_EQUAL(adder.y[5], 17);
	CHECK_EQUAL(adder.x[5], 5);
	sim_crowd_out(adder.device, adder.window);
	CHECK_EQUAL(test_read_signal((char *)adder.y), SIGBUS);
	CHECK_OK(hm_fence_wait(again, 0));
	CHECK_EQUAL(adder.y[5], 17);
	hm_fence_unref(again);
	hm_fence_unref(merged);
	hm_fence_unref(part[0]);
	hm_fence_unref(part[1]);
	adder_close(&adder);
}

static const struct sim_case cases[] = {
	{ "fence_wait", test_fence_wait },
	{ "checking_mode", test_checking_mode },
	{ "merged_wait", test_merged_wait },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return sim_main_with(argc, argv, "sim_window_wait", SETTINGS, cases);
}
