// SPDX-License-Identifier: MIT
/* Other threads change a map while hm_map_sync() writes it back, and holds no lock. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "lib/minimal_backend.h"
#include "lib/support.h"
#include "base/sys.h"

#define SIZE (8 * PAGE)

/* ---- msync(2) that takes as long as a test likes ---- */

static struct sys_table real;
static _Atomic unsigned int n_begun, n_held; /* calls so far, and those that are to wait */

static int held_msync(void *address, size_t length, int flags)
{
	unsigned int n = ++n_begun;

	while (n <= n_held)
		usleep(1000);
	return real.msync(address, length, flags);
}

/* ---- a device whose memory has storage, and may move ---- */

static int create(void *device, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	int r = growing_backend.create(device, desc, ret_recipe);

	if (!r)
		ret_recipe->caps |= HM_CAP_SYNC;
	return r;
}

struct scene {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	pthread_t thread;
	int r;
	_Atomic bool over;
};

static void *sync_all(void *user)
{
	struct scene *scene = user;

	scene->r = hm_map_sync(scene->map, 0, SIZE, 0);
	scene->over = true;
	return NULL;
}

/* A thread is in msync(), and stays there. */
static void begin(struct scene *scene)
{
	static struct hm_backend_ops ops;

	ops = growing_backend;
	ops.name = "stored";
	ops.caps |= HM_CAP_SYNC;
	ops.create = create;
	CHECK_OK_FATAL(hm_backend_register(&ops));
	CHECK_OK_FATAL(hm_device_open("stored", &scene->device));
	scene->buffer = rig_buffer(scene->device,
				   DESC(hm_buffer_desc, .size = SIZE, .max_size = 2 * SIZE));
	CHECK_OK_FATAL(hm_map_create(scene->buffer, NULL, &scene->map));
	pattern_write(hm_map_address(scene->map), 0, SIZE, 1);
	real = sys_table;
	sys_table.msync = held_msync;
	n_begun = 0;
	n_held = 1;
	scene->over = false;
	CHECK_FATAL(!pthread_create(&scene->thread, NULL, sync_all, scene));
	while (!n_begun)
		usleep(1000);
}

/* Waits for the sync: it has returned @r, after @n calls in all. */
static void end_sync(struct scene *scene, int r, unsigned int n)
{
	CHECK(!scene->over);
	n_held = 0;
	pthread_join(scene->thread, NULL);
	CHECK_EQUAL(scene->r, r);
	CHECK_EQUAL(n_begun, n);
}

static void end(struct scene *scene)
{
	sys_table = real;
	hm_map_unref(scene->map);
	hm_buffer_unref(scene->buffer);
	hm_device_unref(scene->device);
}

/* The map keeps its addresses: another map might take them afterwards. */
static void move(void)
{
	struct scene scene;

	begin(&scene);
	CHECK_ERROR(-EBUSY, hm_buffer_resize(scene.buffer, 4 * SIZE, HM_MAY_MOVE));
	CHECK(strstr(hm_errmsg(), "hm_map_sync() is writing it back"));
	CHECK(pattern_holds(hm_map_address(scene.map), 0, SIZE, 1));
	end_sync(&scene, 0, 1);
	CHECK_OK(hm_buffer_resize(scene.buffer, 4 * SIZE, HM_MAY_MOVE));
	CHECK(pattern_holds(hm_map_address(scene.map), 0, SIZE, 1));
	CHECK_OK(hm_map_sync(scene.map, 0, 4 * SIZE, 0));
	end(&scene);
}

/* A new object has the bytes, of which that one call wrote back none. */
static void replace(void)
{
	struct scene scene;

	begin(&scene);
	CHECK_OK(hm_buffer_resize(scene.buffer, 2 * SIZE, HM_GROW_REPLACE));
	end_sync(&scene, 0, 2);
	CHECK(pattern_holds(hm_map_address(scene.map), 0, SIZE, 1));
	end(&scene);
}

/* Bytes that are cut off are not written, and the rest are. */
static void shrink(void)
{
	struct scene scene;

	begin(&scene);
	CHECK_OK(hm_buffer_resize(scene.buffer, PAGE, 0));
	end_sync(&scene, 0, 1);
	end(&scene);
}

/* Cut off, and of a new object: there is no such range to write back. */
static void shrink_and_replace(void)
{
	struct scene scene;

	begin(&scene);
	CHECK_OK(hm_buffer_resize(scene.buffer, PAGE, 0));
	CHECK_OK(hm_buffer_resize(scene.buffer, 2 * PAGE, HM_GROW_REPLACE));
	end_sync(&scene, -ERANGE, 1);
	end(&scene);
}

static const struct test tests[] = {
	{ "move", move, 0, TEST_ONCE },
	{ "replace", replace, 0, TEST_ONCE },
	{ "shrink", shrink, 0, TEST_ONCE },
	{ "shrink_and_replace", shrink_and_replace, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "sync", tests)
