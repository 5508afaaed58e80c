// SPDX-License-Identifier: MIT
/*
 * Views and several threads: brackets that call one while launches attach those of their
 * accelerators; callbacks of two changes that end views of each other's maps.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "accel/accel_support.h"
#include "map/remap.h"
#include "lib/support.h"
#include "map/view.h"

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

	do { /* at least once, also where the thread comes to run when all is over */
		CHECK_OK(hm_map_begin_cpu(map, PAGE, PAGE, HM_READ));
		CHECK_OK(hm_map_end_cpu(map, PAGE, PAGE, HM_READ));
	} while (!ending);
	return NULL;
}

/* A first launch attaches its accelerator's view without the map's change. */
static void attached_meanwhile(void)
{
	const struct hm_view_ops ops = { .struct_size = sizeof(ops) };
	struct hm_fence *fence;
	pthread_t thread;
	int i;
	AUTO(rig) r = rig_make("soft:0", DESC(hm_buffer_desc, .size = 2 * PAGE));
	AUTO(hm_view) *view = NULL;

	ending = false;
	n_begun = 0;
	CHECK_OK_FATAL(remap_lock(r.map));
	CHECK_OK_FATAL(view_create_locked(r.map, 0, 0, &ops, on_begin, NULL, &view));
	remap_unlock(r.map);
	CHECK_FATAL(!pthread_create(&thread, NULL, bracket, r.map));
	for (i = 0; i < 100; i++) {
		AUTO(hm_accel) *accel = rig_accel("soft:0", NULL);
		AUTO(hm_queue) *queue = rig_queue(accel, 0);
		CHECK_OK(hm_queue_fill(queue, hm_map_address(r.map), 0, 64, &fence));
		finish(fence);
	}
	ending = true;
	CHECK_FATAL(!pthread_join(thread, NULL));
	CHECK(n_begun);
}

/* ---- ended in callbacks ---- */

static pthread_barrier_t barrier;

/* A map that a thread changes, and the view that a callback ends. */
struct side {
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct hm_view *asks;  /* its callback ends views */
	struct hm_view *other; /* to be ended, with this map or with the other side's */
	struct hm_accel *accel;
	struct hm_queue *queue;
	pthread_t thread;
};

static struct side sides[2];
static _Atomic uint32_t n_told;

/* Both changes are under way, and go on when both callbacks have ended their views. */
static int end_others(void *user, const struct hm_view_change *change)
{
	struct side *side = user;

	(void)change;
	pthread_barrier_wait(&barrier);
	hm_view_unref(side->other);
	hm_queue_unref(side->queue);
	hm_accel_unref(side->accel);
	pthread_barrier_wait(&barrier);
	return 0;
}

static void on_reattach(void *user, const struct hm_view_change *change)
{
	(void)user, (void)change;
	n_told++;
}

static const struct hm_view_ops asking = {
	.struct_size = sizeof(asking),
	.quiesce = end_others,
};
static const struct hm_view_ops telling = {
	.struct_size = sizeof(telling),
	.reattach = on_reattach,
};

static void *change(void *user)
{
	struct side *side = user;

	CHECK_OK(hm_map_protect(side->map, 0, PAGE, HM_READ));
	return NULL;
}

static void make_sides(struct hm_device *device)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = 2 * PAGE };
	struct side *side;
	int i;

	CHECK_FATAL(!pthread_barrier_init(&barrier, NULL, 2));
	n_told = 0;
	for (i = 0; i < 2; i++) {
		side = &sides[i];
		*side = (struct side){ .buffer = NULL };
		CHECK_OK_FATAL(hm_buffer_create(device, &desc, &side->buffer));
		CHECK_OK_FATAL(hm_map_create(side->buffer, NULL, &side->map));
		CHECK_OK_FATAL(hm_view_create(side->map, 0, 0, &asking, side, &side->asks));
	}
}

static void change_both(void)
{
	int i;

	for (i = 0; i < 2; i++)
		CHECK_FATAL(!pthread_create(&sides[i].thread, NULL, change, &sides[i]));
	for (i = 0; i < 2; i++)
		CHECK_FATAL(!pthread_join(sides[i].thread, NULL));
	/* All that was ended has ended, and its maps' other views have not. */
	CHECK_EQUAL(stats_now().views, 2);
	for (i = 0; i < 2; i++) {
		CHECK_EQUAL(map_info(sides[i].map, 0).views, 1);
		hm_view_unref(sides[i].asks);
		hm_map_unref(sides[i].map);
		hm_buffer_unref(sides[i].buffer);
	}
	pthread_barrier_destroy(&barrier);
}

static void end_each_others_views(void)
{
	int i;
	AUTO(hm_device) *device = rig_device("host");

	make_sides(device);
	for (i = 0; i < 2; i++)
		CHECK_OK_FATAL(
			hm_view_create(sides[!i].map, 0, 0, &telling, NULL, &sides[i].other));
	change_both();
	/* Ended before its map's change came to that. */
	CHECK_EQUAL(n_told, 0);
}

/* Each has a view of both maps: of the one being changed by its callback's own thread. */
static void end_accelerators(void)
{
	struct hm_fence *fence;
	int i, k;
	AUTO(hm_device) *device = rig_device("soft:0");

	make_sides(device);
	for (i = 0; i < 2; i++) {
		CHECK_OK_FATAL(hm_accel_open("soft:0", NULL, &sides[i].accel));
		CHECK_OK_FATAL(hm_queue_create(sides[i].accel, 0, &sides[i].queue));
		for (k = 0; k < 2; k++) {
			CHECK_OK_FATAL(hm_queue_fill(
				sides[i].queue, hm_map_address(sides[k].map), 0, 64, &fence));
			finish(fence);
		}
	}
	CHECK_EQUAL(stats_now().views, 6);
	change_both();
}

static const struct test tests[] = {
	{ "attached_meanwhile", attached_meanwhile, 60, 0 },
	{ "end_each_others_views", end_each_others_views, 30, 0 },
	{ "end_accelerators", end_accelerators, 30, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "view_threads", tests)
