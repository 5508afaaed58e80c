// SPDX-License-Identifier: MIT
/* Work on frames: kernels, fences that keep a frame out of its pool, waits. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "frame/frame_support.h"

static struct hm_frame_pool *pool_of(struct accel_rig *rig, enum hm_frame_policy policy,
				     uint32_t n_most)
{
	return rig_frame_pool(rig->host, DESC(hm_frame_pool_desc, .fourcc = HM_FRAME_XRGB8888,
					      .policy = policy, .width = 256, .height = 4,
					      .n_most = n_most));
}

/* A kernel writes through the frame's address, and its fence goes with the frame. */
static void kernel_writes(const char *accel)
{
	struct hm_fence *fence = NULL;
	uint32_t *pixels, i;
	AUTO(accel_rig) rig = accel_rig_make(accel, 0, 0);
	AUTO(hm_frame_pool) *pool = pool_of(&rig, HM_FRAME_WAIT, 1);
	struct hm_frame *frame = frame_acquire(pool);
	struct hm_frame_info info = frame_info(frame);

	pixels = info.address[0];
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[FILL], 1024, &fence, HM_OUT(pixels),
				 HM_U32(0xff336699)));
	CHECK_OK(hm_frame_fence_add(frame, fence, HM_WRITE));
	hm_fence_unref(fence);
	CHECK_OK(hm_frame_publish(frame));
	hm_frame_unref(frame);
	frame = frame_take(pool);
	CHECK_OK(hm_frame_wait(frame, HM_READ, UINT64_MAX));
	for (i = 0; i < 1024; i++)
		CHECK_FATAL(pixels[i] == 0xff336699);
	CHECK_OK(hm_frame_fence_get(frame, HM_READ | HM_WRITE, &fence));
	CHECK(!fence);
	CHECK_EQUAL(frame_info(frame).n_fences, 0);
	hm_frame_unref(frame);
	/* Also without a fence: the work of the library itself is known. */
	frame = frame_acquire(pool);
	CHECK_OK_FATAL(
		hm_launch(rig.queue, rig.kernel[FILL], 1024, NULL, HM_OUT(pixels), HM_U32(7)));
	hm_frame_unref(frame);
	CHECK_OK_FATAL(hm_frame_pool_acquire(pool, UINT64_MAX, &frame));
	CHECK(pixels[0] == 7 && pixels[1023] == 7);
	CHECK(frame_info(frame).address[0] == pixels);
	hm_frame_unref(frame);
}

static void kernel_cpu(void)
{
	kernel_writes("cpu");
}

static void kernel_engine(void)
{
	setenv("HETMAP_SOFT", "vram_mb=64 system_mb=64 kind=nic", 1);
	kernel_writes("soft:0");
}

/* ---- foreign fences ---- */

static struct hm_fence *fence_of(int event)
{
	return rig_fence(event);
}

static void add(struct hm_frame *frame, int event, uint32_t access)
{
	AUTO(hm_fence) *fence = fence_of(event);

	CHECK_OK(hm_frame_fence_add(frame, fence, access));
}

/* A reader waits for writers, a writer for all. */
static void readers_and_writers(void)
{
	AUTO(hm_frame_pool) *pool = frame_pool("host", HM_FRAME_WAIT, 1);
	AUTO(hm_frame) *frame = frame_acquire(pool);
	int reads = event_open(), writes = event_open();
	struct hm_fence *fence = NULL;
	struct hm_fence_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_frame_wait(frame, HM_READ | HM_WRITE, 0));
	add(frame, reads, HM_READ);
	CHECK_OK(hm_frame_wait(frame, HM_READ, 0));
	CHECK_ERROR(-ETIME, hm_frame_wait(frame, HM_WRITE, 0));
	CHECK_OK(hm_frame_fence_get(frame, HM_READ, &fence));
	CHECK(!fence);
	add(frame, writes, HM_WRITE);
	CHECK_EQUAL(frame_info(frame).n_fences, 2);
	CHECK_ERROR(-ETIME, hm_frame_wait(frame, HM_READ, 1000000));
	CHECK_OK(hm_frame_fence_get(frame, HM_WRITE, &fence));
	event_signal(writes);
	CHECK_OK(hm_frame_wait(frame, HM_READ, UINT64_MAX));
	CHECK_OK(hm_fence_query(fence, &info));
	CHECK(!info.done);
	event_signal(reads);
	CHECK_OK(hm_frame_wait(frame, HM_WRITE, UINT64_MAX));
	CHECK_OK(hm_fence_wait(fence, 0));
	hm_fence_unref(fence);
	CHECK_ERROR(-EINVAL, hm_frame_wait(frame, 0, 0));
	CHECK_ERROR(-EINVAL, hm_frame_wait(frame, 4, 0));
	CHECK_ERROR(-EINVAL, hm_frame_fence_get(frame, HM_READ, NULL));
	CHECK_ERROR(-EINVAL, hm_frame_fence_add(frame, NULL, HM_READ));
	close(reads);
	close(writes);
}

static void keeps_out(void)
{
	AUTO(hm_frame_pool) *pool = frame_pool("host", HM_FRAME_WAIT, 2);
	struct hm_frame *frame = frame_acquire(pool), *other, *none;
	int event = event_open();

	add(frame, event, HM_READ);
	hm_frame_unref(frame);
	CHECK(frame_pool_info(pool).busy == 1 && !frame_pool_info(pool).free);
	other = frame_acquire(pool);
	CHECK(other != frame);
	CHECK_ERROR(-ETIME, hm_frame_pool_acquire(pool, 3000000, &none));
	CHECK(strstr(hm_errmsg(), "1 are busy"));
	event_signal(event);
	CHECK_OK_FATAL(hm_frame_pool_acquire(pool, SECOND_NS, &none));
	CHECK(none == frame && !frame_info(frame).n_fences);
	hm_frame_unref(frame);
	hm_frame_unref(other);
	close(event);
}

/* A picture is not dropped while the producer's work goes on: the oldest one is waited for. */
static void drop_waits(void)
{
	struct hm_frame_pool *pool = frame_pool("host", HM_FRAME_DROP_OLDEST, 2);
	struct hm_frame *frame = frame_acquire(pool), *next;
	int event = event_open();

	add(frame, event, HM_WRITE);
	frame_stamp(frame, 1);
	CHECK_OK(hm_frame_publish(frame));
	hm_frame_unref(frame);
	frame_produce(pool, 2);
	CHECK_ERROR(-ETIME, hm_frame_pool_acquire(pool, 2000000, &next));
	CHECK_EQUAL(frame_pool_info(pool).dropped_oldest, 0);
	CHECK_EQUAL(frame_pool_info(pool).ready, 2);
	event_signal(event);
	CHECK_OK_FATAL(hm_frame_pool_acquire(pool, SECOND_NS, &next));
	CHECK(next == frame);
	CHECK_EQUAL(frame_pool_info(pool).dropped_oldest, 1);
	CHECK_EQUAL(frame_consume(pool), 2);
	hm_frame_unref(next);
	hm_frame_pool_unref(pool);
	close(event);
}

/* The pool may end under work, and the frame does not keep the fence's signaller. */
static void ends_under_work(void)
{
	struct hm_frame_pool *pool = frame_pool("host", HM_FRAME_WAIT, 3);
	struct hm_frame *frame = frame_acquire(pool), *ready = frame_acquire(pool);
	int event = event_open();

	add(frame, event, HM_READ);
	add(ready, event, HM_WRITE);
	CHECK_OK(hm_frame_publish(ready));
	hm_frame_unref(ready);
	hm_frame_unref(frame);
	hm_frame_pool_unref(pool);
	CHECK_EQUAL(stats_now().buffers, 0);
	close(event);
}

/* The result of the work is told to each consumer, and goes with the picture. */
static int fail_work(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range;
	(void)args;
	return -EILSEQ;
}

static void failed_work(void)
{
	AUTO(hm_kernel) *kernel = make_kernel("fails", "inout", fail_work);
	struct hm_fence *fence, *both = NULL;
	int event = event_open();
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_frame_pool) *pool = pool_of(&rig, HM_FRAME_WAIT, 1);
	struct hm_frame *frame = frame_acquire(pool);

	CHECK_OK_FATAL(hm_launch(rig.queue, kernel, 1, &fence,
				 HM_INOUT(frame_info(frame).address[0])));
	CHECK_OK(hm_frame_fence_add(frame, fence, HM_WRITE));
	hm_fence_unref(fence);
	add(frame, event, HM_READ);
	event_signal(event);
	CHECK_ERROR(-EILSEQ, hm_frame_wait(frame, HM_WRITE, UINT64_MAX));
	CHECK_ERROR(-EILSEQ, hm_frame_wait(frame, HM_READ, 0));
	CHECK(strstr(hm_errmsg(), "the work failed"));
	CHECK_OK(hm_frame_fence_get(frame, HM_READ, &both));
	CHECK_ERROR(-EILSEQ, hm_fence_wait(both, 0));
	hm_fence_unref(both);
	hm_frame_unref(frame);
	frame = frame_acquire(pool);
	CHECK_OK(hm_frame_wait(frame, HM_WRITE, 0));
	hm_frame_unref(frame);
	close(event);
}

/* A queue waits for the picture, and not the CPU. */
static void queue_waits(void)
{
	struct hm_fence *fence = NULL;
	int event = event_open();
	AUTO(accel_rig) rig = accel_rig_make("cpu", 0, 0);
	AUTO(hm_frame_pool) *pool = pool_of(&rig, HM_FRAME_WAIT, 1);
	AUTO(hm_frame) *frame = frame_acquire(pool);
	uint32_t *pixels = frame_info(frame).address[0];

	pixels[0] = 1;
	add(frame, event, HM_WRITE);
	CHECK_OK_FATAL(hm_frame_fence_get(frame, HM_READ, &fence));
	CHECK_FATAL(fence);
	CHECK_OK(hm_queue_wait(rig.queue, fence));
	hm_fence_unref(fence);
	event_signal(event);
	RUN(&rig, INCREMENT, 1, HM_INOUT(pixels));
	CHECK_EQUAL(pixels[0], 2);
	close(event);
}

/* Many users of one picture leave no long list. */
static void many_fences(void)
{
	AUTO(hm_frame_pool) *pool = frame_pool("host", HM_FRAME_WAIT, 1);
	struct hm_frame *frame = frame_acquire(pool);
	int done = event_open(), event = event_open();
	uint32_t i;

	event_signal(done);
	add(frame, event, HM_READ);
	for (i = 0; i < 1000; i++)
		add(frame, done, i % 2 ? HM_READ : HM_WRITE);
	CHECK(frame_info(frame).n_fences <= 2);
	event_signal(event);
	CHECK_OK(hm_frame_wait(frame, HM_WRITE, UINT64_MAX));
	hm_frame_unref(frame);
	CHECK_EQUAL(frame_pool_info(pool).free, 1);
	close(done);
	close(event);
}

static const struct test tests[] = {
	{ .name = "kernel_cpu", .run = kernel_cpu },
	{ .name = "kernel_engine", .run = kernel_engine },
	{ .name = "readers_and_writers", .run = readers_and_writers },
	{ .name = "keeps_out", .run = keeps_out },
	{ .name = "drop_waits", .run = drop_waits },
	{ .name = "ends_under_work", .run = ends_under_work },
	{ .name = "failed_work", .run = failed_work },
	{ .name = "queue_waits", .run = queue_waits },
	{ .name = "many_fences", .run = many_fences },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "frame_work", tests)
