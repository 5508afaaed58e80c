// SPDX-License-Identifier: MIT
/* Retirement of the old place of a moved map: its readers, how long it stays, and its size. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <urcu/urcu-bp.h>

#include "map/retire_support.h"
#include "base/util.h"
#include "lib/units.h"

#define SIZE (4 * PAGE)
#define GROWN (256 * PAGE)

struct moving {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *old; /* where it was */
	_Atomic bool done;
};

static void begin(struct moving *moving, const char *device)
{
	*moving = (struct moving){ 0 };
	CHECK_OK_FATAL(hm_device_open(device, &moving->device));
	moving->buffer = rig_buffer(moving->device,
				    DESC(hm_buffer_desc, .size = SIZE, .max_size = SIZE));
	CHECK_OK_FATAL(hm_map_create(moving->buffer, NULL, &moving->map));
	moving->old = hm_map_address(moving->map);
	pattern_write(moving->old, 0, SIZE, 1);
}

static void end(struct moving *moving)
{
	hm_map_unref(moving->map);
	hm_buffer_unref(moving->buffer);
	defer(0, 0);
	hm_device_unref(moving->device);
}

static bool is_mapped(const void *address)
{
	unsigned char present;

	return !mincore((void *)(uintptr_t)address, PAGE, &present);
}

static void *move(void *user)
{
	struct moving *moving = user;

	CHECK_OK(hm_buffer_resize(moving->buffer, GROWN, HM_MAY_MOVE));
	atomic_store(&moving->done, true);
	return NULL;
}

static void check_moved(struct moving *moving)
{
	char *now = hm_map_address(moving->map);

	CHECK(now != moving->old);
	CHECK(pattern_holds(now, 0, SIZE, 1));
	CHECK_EQUAL(hm_map_length(moving->map), GROWN);
}

/* ---- readers ---- */

/* A reader that found the old place keeps its bytes; the move does not wait. */
static void readers_keep_on(const char *device)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = SIZE };
	struct hm_pointer_info info;
	struct hm_buffer *other;
	struct hm_map *other_map;
	struct moving moving;
	struct hm_stats old;
	pthread_t thread;
	uint64_t in_place;

	begin(&moving, device);
	old = stats_now();
	defer(16, MIB(4));
	in_place = stats_now().retired_in_place;
	urcu_bp_read_lock();
	CHECK_EQUAL(hm_pointer_find(moving.old + 5, &info), 0);
	CHECK_FATAL(!pthread_create(&thread, NULL, move, &moving));
	pthread_join(thread, NULL);
	CHECK(moving.done);
	check_moved(&moving);
	CHECK_EQUAL(stats_now().backlog, 1);
	CHECK_EQUAL(stats_now().backlog_bytes, SIZE);
	CHECK_EQUAL(stats_now().retired, old.retired + 1);
	CHECK_EQUAL(hm_pointer_find(moving.old + 5, &info), -ENOENT);
	/* No other buffer gets its memory. */
	CHECK_OK_FATAL(hm_buffer_create(moving.device, &desc, &other));
	CHECK_OK_FATAL(hm_map_create(other, NULL, &other_map));
	pattern_write(hm_map_address(other_map), 0, SIZE, 2);
	pattern_write(hm_map_address(moving.map), 0, SIZE, 3);
	CHECK(pattern_holds(moving.old, 0, SIZE, 1));
	urcu_bp_read_unlock();
	CHECK_OK(hm_retire_flush());
	CHECK(!is_mapped(moving.old));
	CHECK_EQUAL(stats_now().backlog, 0);
	CHECK_EQUAL(stats_now().backlog_bytes, 0);
	CHECK_EQUAL(stats_now().retired_in_place, in_place);
	hm_map_unref(other_map);
	hm_buffer_unref(other);
	end(&moving);
	CHECK_EQUAL(stats_now().bytes_reserved, old.bytes_reserved - SIZE);
	CHECK_EQUAL(stats_now().buffers, old.buffers - 1);
}

static void readers_keep(void)
{
	readers_keep_on("host");
}

static void readers_keep_device(void)
{
	setenv("HETMAP_SOFT", "vram_mb=16 system_mb=4 opener_mb=20", 1);
	readers_keep_on("soft:0");
}

/* The old place of a map outlives the buffer. */
static void outlives(void)
{
	struct section section;
	struct moving moving;
	uint64_t buffers = stats_now().buffers;

	begin(&moving, "host");
	defer(16, MIB(4));
	section_begin(&section);
	move(&moving);
	check_moved(&moving);
	hm_map_unref(moving.map);
	hm_buffer_unref(moving.buffer);
	moving.map = NULL;
	moving.buffer = NULL;
	CHECK_EQUAL(stats_now().backlog, 2);
	CHECK(pattern_holds(moving.old, 0, SIZE, 1));
	section_end(&section);
	CHECK_OK(hm_retire_flush());
	CHECK(!is_mapped(moving.old));
	CHECK_EQUAL(stats_now().buffers, buffers);
	end(&moving);
}

/* ---- bounds ---- */

/* Without room it is released in place, behind the section; nothing else waits for that. */
static void without_room(void)
{
	struct section section;
	struct moving moving;
	uint64_t in_place;
	pthread_t thread;
	int tries;

	begin(&moving, "host");
	defer(16, SIZE - 1);
	in_place = stats_now().retired_in_place;
	section_begin(&section);
	CHECK_FATAL(!pthread_create(&thread, NULL, move, &moving));
	for (tries = 0; tries < 5000 && stats_now().retired_in_place == in_place; tries++)
		usleep(2000);
	usleep(20000);
	CHECK(!atomic_load(&moving.done));
	CHECK_EQUAL(stats_now().backlog, 0);
	CHECK(pattern_holds(moving.old, 0, SIZE, 1));
	/* No lock is held meanwhile. */
	CHECK_EQUAL(buffer_info(moving.buffer).size, GROWN);
	check_moved(&moving);
	CHECK_OK(hm_map_protect(moving.map, 0, PAGE, HM_READ));
	section_end(&section);
	pthread_join(thread, NULL);
	CHECK(!is_mapped(moving.old));
	end(&moving);
}

static void in_place(void)
{
	struct section section;
	struct moving moving;

	begin(&moving, "host");
	section_begin(&section);
	move(&moving);
	CHECK(!is_mapped(moving.old));
	check_moved(&moving);
	section_end(&section);
	end(&moving);
}

static const struct test tests[] = {
	{ "readers_keep", readers_keep, 0, 0 },
	{ "readers_keep_device", readers_keep_device, 0, 0 },
	{ "outlives", outlives, 0, 0 },
	{ "without_room", without_room, 0, 0 },
	{ "in_place", in_place, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "retire_moves", tests)
