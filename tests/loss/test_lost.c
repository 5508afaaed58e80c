// SPDX-License-Identifier: MIT
/* Maps that a failed change took away, and could not put back. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/core.h"
#include "core/device_link.h"
#include "lib/inject.h"
#include "loss/losing_move.h"
#include "loss/device_loss.h"
#include "lib/support.h"
#include "base/sys.h"

#define SIZE (16 * PAGE)

static void on_reattach(void *user, const struct hm_view_change *change)
{
	(void)change;
	strcat(user, "r");
}

static void on_lost(void *user)
{
	strcat(user, "l");
}

static void lost(void)
{
	struct hm_map_info info = { .struct_size = sizeof(info) };
	static const struct hm_view_ops ops = {
		.struct_size = sizeof(ops),
		.reattach = on_reattach,
		.lost = on_lost,
	};
	struct hm_pointer_info found;
	struct map_use use = { .length = PAGE, .access = HM_READ };
	struct hm_scope *scope;
	struct hm_view *view;
	char told[8] = "";
	AUTO(rig) r =
		rig_make("host", DESC(hm_buffer_desc, .size = SIZE, .max_size = 2 * SIZE));

	pattern_write(r.bytes, 0, SIZE, 1);
	CHECK_OK(hm_map_protect(r.map, PAGE, PAGE, HM_READ));
	CHECK_OK_FATAL(hm_map_protect_begin(r.map, 0, 2 * PAGE, HM_READ, &scope));
	CHECK_OK_FATAL(hm_view_create(r.map, 0, 0, &ops, told, &view));
	losing_move_begin();
	CHECK_ERROR(-ENOMEM, hm_buffer_resize(r.buffer, 2 * SIZE, HM_GROW_REPLACE));
	losing_move_end();
	CHECK(strstr(hm_errmsg(), "lost"));
	CHECK(!strcmp(told, "l"));
	CHECK_EQUAL(test_read_signal(r.bytes), SIGSEGV);
	CHECK_OK(hm_pointer_find(r.bytes, &found));
	CHECK_EQUAL(found.access, HM_NONE);
	CHECK_EQUAL(found.generation, 1);
	/* Nothing revives it with other bytes. */
	CHECK_ERROR(-ENODEV, hm_map_protect(r.map, 0, PAGE, HM_READ | HM_WRITE));
	CHECK_ERROR(-ENODEV, hm_map_query(r.map, &info));
	CHECK_ERROR(-ENODEV, hm_map_begin_cpu(r.map, 0, PAGE, HM_READ));
	CHECK_ERROR(-ENODEV, hm_buffer_resize(r.buffer, 2 * SIZE, 0));
	use.map = r.map;
	CHECK_ERROR(-ENODEV, map_use_begin(&use));
	/* The scope has no right to give back. */
	CHECK_ERROR(-ENODEV, hm_map_protect_end(scope));
	CHECK_EQUAL(test_read_signal(r.bytes), SIGSEGV);
	CHECK_OK(hm_pointer_find(r.bytes, &found));
	CHECK_EQUAL(found.access, HM_NONE);
	hm_view_unref(view);
	hm_map_unref(r.map);
	CHECK_EQUAL(stats_now().bytes_reserved, 0);
	/* The buffer is as it was. */
	CHECK_OK_FATAL(hm_map_create(r.buffer, NULL, &r.map));
	CHECK(pattern_holds(hm_map_address(r.map), 0, SIZE, 1));
	CHECK_OK(hm_buffer_resize(r.buffer, 2 * SIZE, HM_GROW_REPLACE));
}

static struct sys_table real;
static unsigned int n_append;

/* The new object's mapping takes its target away and fails; so does the undoing. */
static void *failing_append(void *address, size_t length, int prot, int flags, int fd,
			    off_t offset)
{
	if (fd < 0 || !(flags & MAP_FIXED))
		return real.mmap(address, length, prot, flags, fd, offset);
	n_append++;
	real.mmap(address, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	errno = ENOMEM;
	return MAP_FAILED;
}

/* Spare room that is no longer the object's must not be grown into. */
static void lost_room(void)
{
	AUTO(rig) r =
		rig_make("host", DESC(hm_buffer_desc, .size = SIZE, .max_size = 4 * SIZE));

	pattern_write(r.bytes, 0, SIZE, 1);
	real = sys_table;
	n_append = 0;
	sys_table.mmap = failing_append;
	CHECK_ERROR(-ENOMEM, hm_buffer_resize(r.buffer, 2 * SIZE, HM_GROW_APPEND));
	sys_table = real;
	CHECK_EQUAL(n_append, 2);
	CHECK(pattern_holds(r.bytes, 0, SIZE, 1));
	CHECK_EQUAL(buffer_info(r.buffer).max_size, SIZE);
	CHECK_ERROR(-ENOSPC, hm_buffer_resize(r.buffer, 2 * SIZE, 0));
	/* Elsewhere there is room. */
	CHECK_OK(hm_buffer_resize(r.buffer, 2 * SIZE, HM_MAY_MOVE));
	CHECK(pattern_holds(hm_map_address(r.map), 0, SIZE, 1));
	CHECK(is_zero(hm_map_address(r.map), SIZE, 2 * SIZE));
}

/* ---- the replacement of lost bytes ---- */

static bool roomy;          /* there is room elsewhere */
static char *hole, *others; /* where pages are replaced; another thread's mapping */

/*
 * Nothing is promised that may be written. A kernel may have unmapped the target by then, as
 * Linux does before 6.12; another thread maps as much at that very moment.
 */
static void *refuse_to_promise(void *address, size_t length, int prot, int flags, int fd,
			       off_t offset)
{
	if (!(prot & PROT_WRITE))
		return real.mmap_over(address, length, prot, flags, fd, offset);
	if (flags & MAP_FIXED)
		real.munmap(address, length);
	if (!others) {
		others = real.mmap(hole, SIZE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		*others = 7;
	}
	errno = ENOMEM;
	return MAP_FAILED;
}

static int refuse_rights(void *address, size_t length, int prot)
{
	if (!(prot & PROT_WRITE))
		return real.mprotect(address, length, prot);
	errno = ENOMEM;
	return -1;
}

/* As RLIMIT_DATA may: pages that replace as many others need no more room. */
static void *refuse_beside(void *address, size_t length, int prot, int flags, int fd,
			   off_t offset)
{
	CHECK(!address);
	if (!(prot & PROT_WRITE))
		return real.mmap_over(address, length, prot, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

static void *refuse_elsewhere(void *address, size_t length, int prot, int flags, int fd,
			      off_t offset)
{
	if (address && roomy)
		CHECK(!"in place");
	if (address || roomy)
		return real.mmap_over(address, length, prot, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

/* Its bytes are gone, and a handler replaces them, or its device is told to be lost. */
static void lose_file(bool handled, void *(*mmap_over)(void *, size_t, int, int, int, off_t),
		      const char *failing, int signal)
{
	int fd = scratch_file(SIZE);
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_device) *device = rig_device("file");
	AUTO(hm_buffer) *buffer = rig_file(device, NULL, fd, NULL);
	AUTO(hm_map) *map = rig_map(buffer, NULL);

	hole = hm_map_address(map);
	pattern_write(hole, 0, SIZE, 1);
	others = NULL;
	inject_install();
	real = sys_table;
	sys_table.mmap_over = mmap_over;
	if (mmap_over == refuse_to_promise)
		sys_table.mprotect = refuse_rights;
	if (failing)
		inject_some(failing, ENOMEM, 1);
	CHECK(!ftruncate(fd, 0));
	if (!handled)
		device_loss_maps(device->link->backend);
	CHECK_EQUAL(*(volatile char *)hole, 0);
	inject_disarm();
	sys_table = real;
	CHECK(is_zero(hole, 0, SIZE));
	CHECK_EQUAL(test_write_signal(hole), signal);
	if (others) {
		CHECK(others != hole);
		CHECK_EQUAL(*others, 7);
		real.munmap(others, SIZE);
	}
	close(fd);
}

/* Another thread's mapping stays, and none finds a hole, where memory is not promised. */
static void no_hole(void)
{
	lose_file(false, refuse_to_promise, NULL, SIGSEGV);
	CHECK(others != NULL);
	lose_file(true, refuse_to_promise, NULL, SIGSEGV);
	CHECK(others != NULL);
}

/* Replaced pages can be written even if there is room only once the old ones are gone. */
static void no_more(void)
{
	lose_file(false, refuse_beside, NULL, 0);
	lose_file(true, refuse_beside, NULL, 0);
}

/* Where there is no room elsewhere, or no move, it is mapped in place. */
static void in_place(void)
{
	int handled;

	for (handled = 0; handled < 2; handled++) {
		roomy = true;
		lose_file(handled, refuse_elsewhere, NULL, 0);
		roomy = false;
		lose_file(handled, refuse_elsewhere, NULL, 0);
		lose_file(handled, real.mmap_over, "mremap", 0);
	}
}

/* ---- the notice of a loss ---- */

#define TOUCHERS 4

static _Atomic bool ending;
static _Atomic uint32_t n_touched;

/* At least one thread is always at it: each lets the others run meanwhile. */
static void *touch(void *user)
{
	struct hm_device *device = user;
	struct device_link *link = link_get(device);
	unsigned int i;

	while (!ending) {
		CHECK_OK(device_loss_touch_begin(device, link));
		for (i = 0; i < 20; i++)
			sched_yield();
		n_touched++;
		device_loss_touch_end();
	}
	link_put(device, link);
	return NULL;
}

/* Threads that copy out of hidden memory without a pause don't keep a loss from being told. */
static void not_starved(void)
{
	pthread_t threads[TOUCHERS];
	char nobody;
	int i;

	ending = false;
	n_touched = 0;
	AUTO(hm_device) *device = rig_device("host");
	for (i = 0; i < TOUCHERS; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, touch, device));
	while (n_touched < 10 * TOUCHERS)
		sched_yield();
	/* The threads overlap: a wait for a moment without any would last for ever. */
	for (i = 0; i < 100; i++)
		device_loss_maps(&nobody);
	ending = true;
	for (i = 0; i < TOUCHERS; i++)
		pthread_join(threads[i], NULL);
}

static const struct test tests[] = {
	{ "lost", lost, 0, 0 },         { "room", lost_room, 0, 0 },
	{ "no_hole", no_hole, 0, 0 },   { "no_more", no_more, 0, 0 },
	{ "in_place", in_place, 0, 0 }, { "not_starved", not_starved, 30, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "lost", tests)
