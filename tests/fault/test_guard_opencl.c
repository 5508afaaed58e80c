// SPDX-License-Identifier: MIT
/* A file is cut off under a running OpenCL kernel, whose threads know of no guard. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "accel/accel_support.h"

#define SIZE (32ull << 20)
#define ROUNDS 40

struct cutter {
	int fd;
	_Atomic unsigned int delay_us; /* 0: nothing to do */
	_Atomic bool over;
};

static void *cut(void *user)
{
	struct cutter *cutter = user;
	unsigned int delay;

	while (!cutter->over) {
		delay = cutter->delay_us;
		if (!delay)
			continue;
		usleep(delay);
		CHECK(!ftruncate(cutter->fd, SIZE / 4));
		cutter->delay_us = 0;
	}
	return NULL;
}

static bool all_are(const uint32_t *words, uint32_t value)
{
	uint64_t i;

	for (i = 0; i < SIZE / 4; i++)
		if (words[i] != value)
			return false;
	return true;
}

/* Either all of the work is there, or it has failed; and the process lives. */
static void cut_off(void)
{
	struct cutter cutter = { 0 };
	struct hm_device *device;
	struct hm_buffer *buffer;
	uint64_t seed = test_seed();
	unsigned int i, n_failed = 0;
	struct hm_fence *fence;
	pthread_t thread;
	struct hm_map *map;
	struct accel_rig rig;
	int r;

	if (!use_pocl("pthread"))
		return;
	accel_rig_open(&rig, "opencl:0", 0, 0);
	cutter.fd = scratch_file(SIZE);
	CHECK_OK_FATAL(hm_device_open("file", &device));
	CHECK_OK_FATAL(hm_buffer_from_file(device, NULL, cutter.fd, NULL, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	/* Builds the kernel, by a compiler that may install handlers of its own. */
	RUN(&rig, FILL, SIZE / 4, HM_OUT(hm_map_address(map)), HM_U32(1));
	hm_map_unref(map);
	AUTO(rig_handler) handler = rig_handler(0);
	CHECK_FATAL(!pthread_create(&thread, NULL, cut, &cutter));
	for (i = 0; i < ROUNDS; i++) {
		CHECK(!ftruncate(cutter.fd, SIZE));
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
		CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[FILL], SIZE / 4, &fence,
					 HM_OUT(hm_map_address(map)), HM_U32(i)));
		cutter.delay_us = 1 + (unsigned int)(test_random(&seed) % 20000);
		r = hm_fence_wait(fence, UINT64_MAX);
		hm_fence_unref(fence);
		if (r) {
			CHECK_EQUAL(r, -EIO);
			CHECK(text_has("lost"));
			n_failed++;
		}
		while (cutter.delay_us)
			usleep(100);
		/* Without a fault the work was done before: the bytes cut off are gone now. */
		if (!r)
			CHECK_OK(hm_map_begin_cpu(map, 0, SIZE / 4, HM_READ));
		hm_map_unref(map);
	}
	/* Once more, without the cutter. */
	CHECK(!ftruncate(cutter.fd, SIZE));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	RUN(&rig, FILL, SIZE / 4, HM_OUT(hm_map_address(map)), HM_U32(77));
	CHECK(all_are(hm_map_address(map), 77));
	hm_map_unref(map);
	cutter.over = true;
	pthread_join(thread, NULL);
	CHECK(n_failed > 0);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	accel_rig_close(&rig);
	close(cutter.fd);
}

static const struct test tests[] = {
	{ "cut_off", cut_off, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "guard_opencl", tests)
