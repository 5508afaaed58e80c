// SPDX-License-Identifier: MIT
/* Brackets that call a view, while launches attach those of their accelerators. */
#include <pthread.h>
#include <stdatomic.h>

#include "accel_support.h"
#include "remap.h"
#include "support.h"
#include "view.h"

#define PAGE 4096ull

static _Atomic bool ending;
static _Atomic uint64_t n_begun;

static int on_begin(void *user, uint32_t access)
{
	(void)user, (void)access;
	n_begun++;
	return 0;
}

static void *bracket(void *user)
{
	struct hm_map *map = user;

	while (!ending) {
		CHECK_OK(hm_map_begin_cpu(map, PAGE, PAGE, HM_READ));
		CHECK_OK(hm_map_end_cpu(map, PAGE, PAGE, HM_READ));
	}
	return NULL;
}

/* A first launch attaches its accelerator's view without the map's change. */
static void attached_meanwhile(void)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = 2 * PAGE };
	const struct hm_view_ops ops = { .struct_size = sizeof(ops) };
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_fence *fence;
	struct hm_view *view;
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	pthread_t thread;
	int i;

	CHECK_OK_FATAL(hm_device_open("soft:0", &device));
	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	ending = false;
	n_begun = 0;
	CHECK_OK_FATAL(remap_lock(map));
	CHECK_OK_FATAL(view_create_locked(map, 0, 0, &ops, on_begin, NULL, &view));
	remap_unlock(map);
	CHECK_FATAL(!pthread_create(&thread, NULL, bracket, map));
	for (i = 0; i < 100; i++) {
		CHECK_OK_FATAL(hm_accel_open("soft:0", NULL, &accel));
		CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
		CHECK_OK(hm_queue_fill(queue, hm_map_address(map), 0, 64, &fence));
		finish(fence);
		hm_queue_unref(queue);
		hm_accel_unref(accel);
	}
	ending = true;
	CHECK_FATAL(!pthread_join(thread, NULL));
	CHECK(n_begun);
	hm_view_unref(view);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
}

static const struct test tests[] = {
	{ "attached_meanwhile", attached_meanwhile, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "view_threads", tests);
}
