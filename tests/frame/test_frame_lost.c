// SPDX-License-Identifier: MIT
/* Frames of a device that is taken away, comes back, or lets CPUs reach a part of its memory. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "frame/frame_support.h"
#include "lib/rig.h"
#include "lib/sim_devices.h"

static struct hm_frame_pool *pool_on(struct hm_device *device, uint32_t n_least,
				     uint32_t n_most)
{
	return rig_frame_pool(device,
			      DESC(hm_frame_pool_desc, .fourcc = HM_FRAME_NV12, .width = 320,
				   .height = 240, .n_least = n_least, .n_most = n_most));
}

/* Writes a picture in a bracket, and reads it back. */
static void use(struct hm_frame *frame, uint32_t salt)
{
	struct hm_frame_info info = frame_info(frame);
	uint64_t length = hm_map_length(info.map[0]);

	CHECK_OK(hm_map_begin_cpu(info.map[0], 0, length, HM_READ | HM_WRITE));
	frame_fill(&info, salt);
	CHECK(frame_holds(&info, salt));
	CHECK_OK(hm_map_end_cpu(info.map[0], 0, length, HM_READ | HM_WRITE));
}

/* Facts stay, pictures are zeros, no further frame comes; and held frames go back. */
static void lost(void)
{
	AUTO(hm_device) *device = sim_open();
	struct hm_frame_pool *pool = pool_on(device, 2, 4);
	struct hm_frame *held = frame_acquire(pool), *ready, *none = NULL;
	struct hm_frame_info info;

	use(held, 1);
	frame_stamp(held, 7);
	frame_produce(pool, 8);
	hm_frame_unref(frame_acquire(pool));
	if (!sim_unplug(device))
		goto out;
	CHECK_ERROR(-ENODEV, hm_frame_pool_acquire(pool, UINT64_MAX, &none));
	CHECK(!none);
	info = frame_info(held);
	CHECK(info.props.timestamp == 7 && info.n_planes == 2);
	CHECK_ERROR(-ENODEV, hm_map_begin_cpu(info.map[0], 0, 1, HM_READ));
	CHECK(is_zero(info.address[0], 0, info.plane[0].bytes));
	/* The queue goes on: a consumer may want to know which pictures it missed. */
	CHECK_OK(hm_frame_publish(held));
	hm_frame_unref(held);
	ready = frame_take(pool);
	CHECK_EQUAL(frame_info(ready).props.timestamp, 8);
	hm_frame_unref(ready);
	CHECK_EQUAL(frame_consume(pool), 7);
	held = NULL;
	CHECK_ERROR(-ENODEV, hm_frame_pool_acquire(pool, 0, &none));
	CHECK_EQUAL(frame_pool_info(pool).frames, 0);
	sim_plug();
out:
	hm_frame_unref(held);
	hm_frame_pool_unref(pool);
}

static void *acquire_late(void *user)
{
	AUTO(hm_frame) *frame = NULL;
	int r = hm_frame_pool_acquire(user, UINT64_MAX, &frame);

	return (void *)(intptr_t)r;
}

/* Each of two waiting threads hears that no frame comes any more. */
static void waiting(void)
{
	AUTO(hm_device) *device = sim_open();
	struct hm_frame_pool *pool = pool_on(device, 0, 1);
	struct hm_frame *frame = frame_acquire(pool);
	pthread_t threads[2];
	void *r[2] = { NULL, NULL };
	uint32_t i;

	for (i = 0; i < 2; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, acquire_late, pool));
	usleep(20000);
	if (sim_unplug(device)) {
		hm_frame_unref(frame);
		frame = NULL;
	} else {
		CHECK_OK(hm_frame_pool_end(pool));
	}
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], &r[i]);
	if (!frame) {
		CHECK((intptr_t)r[0] == -ENODEV && (intptr_t)r[1] == -ENODEV);
		sim_plug();
	}
	hm_frame_unref(frame);
	hm_frame_pool_unref(pool);
}

/* Frames of the time before end, new ones are made on the device that is back. */
static void comes_back(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_frame_pool) *pool = pool_on(device, 1, 2);
	struct hm_frame *frame = frame_acquire(pool), *next;

	use(frame, 1);
	if (!sim_unplug(device))
		goto out;
	CHECK_ERROR(-ENODEV, hm_frame_pool_acquire(pool, 0, &next));
	sim_plug();
	sim_recover(device, 0);
	CHECK_OK_FATAL(hm_frame_pool_acquire(pool, 0, &next));
	use(next, 2);
	hm_frame_unref(frame);
	hm_frame_unref(next);
	frame = frame_acquire(pool);
	use(frame, 3);
	CHECK(frame_pool_info(pool).frames <= 2);
out:
	hm_frame_unref(frame);
}

/* Pictures of more bytes than CPUs reach at a time take turns there. */
static void in_turns(void)
{
	AUTO(hm_frame_pool) *pool = NULL;
	struct hm_frame *frames[60];
	struct hm_frame_info info;
	uint64_t window, length;
	uint32_t i;
	AUTO(hm_device) *device = sim_open_windowed(&window);

	if (!device)
		return;
	pool = pool_on(device, 0, 0);
	for (i = 0; i < 60; i++) {
		frames[i] = frame_acquire(pool);
		use(frames[i], i);
	}
	for (i = 0; i < 60; i++) {
		info = frame_info(frames[i]);
		length = hm_map_length(info.map[0]);
		CHECK_OK(hm_map_begin_cpu(info.map[0], 0, length, HM_READ));
		CHECK(frame_holds(&info, i));
		CHECK_OK(hm_map_end_cpu(info.map[0], 0, length, HM_READ));
		hm_frame_unref(frames[i]);
	}
	CHECK_EQUAL(frame_pool_info(pool).free, 60);
}

/* A device without room for a further frame says so, and the pool goes on with its frames. */
static void full(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_frame_pool) *pool = pool_on(device, 0, 0);
	static struct hm_frame *frames[4096];
	uint32_t n = 0;
	int r;

	while (n < 4096 && !(r = hm_frame_pool_acquire(pool, 0, &frames[n])))
		n++;
	CHECK(n < 4096 && (r == -ENOSPC || r == -ENOMEM));
	CHECK(*hm_errmsg());
	CHECK_EQUAL(frame_pool_info(pool).frames, n);
	while (n)
		hm_frame_unref(frames[--n]);
	hm_frame_unref(frame_acquire(pool));
}

static const struct sim_case cases[] = {
	{ "lost", lost },         { "waiting", waiting }, { "comes_back", comes_back },
	{ "in_turns", in_turns }, { "full", full },       { NULL, NULL },
};

TEST_MAIN(sim_main_with, "frame_lost", "vram_mb=16 system_mb=16 bar_mb=4 test=1", cases)
