// SPDX-License-Identifier: MIT
/*
 * The simulated devices with a window: memory that CPUs can't reach, and the brackets that
 * bring it back. The module's cases need a machine with bar_mb (tests/vm/variants).
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "core/core.h"
#include "lib/inject.h"
#include "lib/sim_devices.h"

/* Settings of the twin; the module's memory may be larger. */
#define SETTINGS "test=1 vram_mb=32 system_mb=64 bar_mb=4 opener_mb=80"

static bool text_has(const char *part)
{
	return strstr(hm_errmsg(), part) != NULL;
}

static void test_capability(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, PAGE, 0, &map);
	uint64_t cap = sim_query(device).window_bytes ? HM_CAP_BRACKET : 0;

	CHECK_EQUAL(device_info(device).caps & HM_CAP_BRACKET, cap);
	CHECK_EQUAL(buffer_info(buffer).caps & HM_CAP_BRACKET, cap);
	CHECK_OK(hm_map_begin_cpu(map, 0, PAGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(map, 0, PAGE, HM_READ));
}

/* Crowded-out bytes are a SIGBUS until a bracket brings them back as they were. */
static void test_brackets(void)
{
	uint64_t window, size;
	AUTO(hm_device) *device = sim_open_windowed(&window);
	struct hm_map *map;
	struct hm_buffer *buffer;
	char *base;

	if (!device)
		return;
	size = window / 2;
	buffer = sim_make(device, size, 0, &map);
	base = hm_map_address(map);
	pattern_write(base, 0, size, 1);
	sim_crowd_out(device, window);
	CHECK_EQUAL(sim_info(device, sim_handle(buffer)).vram_bytes, size);
	CHECK_EQUAL(test_read_signal(base), SIGBUS);
	CHECK_EQUAL(test_write_signal(base + size - 1), SIGBUS);

	/* A range; and only that. */
	CHECK_OK(hm_map_begin_cpu(map, PAGE + 5, PAGE, HM_READ | HM_WRITE));
	CHECK(pattern_holds(base, PAGE, 3 * PAGE, 1));
	CHECK_EQUAL(test_read_signal(base), SIGBUS);
	CHECK_EQUAL(test_read_signal(base + 3 * PAGE), SIGBUS);
	CHECK_EQUAL(sim_info(device, sim_handle(buffer)).window_bytes, 2 * PAGE);
	CHECK_OK(hm_map_end_cpu(map, PAGE + 5, PAGE, HM_READ | HM_WRITE));
	CHECK_OK(hm_map_begin_cpu(map, 0, size, HM_READ));
	CHECK(pattern_holds(base, 0, size, 1));
	CHECK_OK(hm_map_end_cpu(map, 0, size, HM_READ));

	/* Bytes in system memory are in reach where they are. */
	CHECK_OK(sim_move(device, buffer, 0, size, HETSIM_PLACE_SYSTEM));
	CHECK_OK(hm_map_begin_cpu(map, 0, size, HM_READ));
	CHECK_EQUAL(sim_info(device, sim_handle(buffer)).system_bytes, size);
	CHECK(pattern_holds(base, 0, size, 1));
	CHECK_OK(hm_map_end_cpu(map, 0, size, HM_READ));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK_EQUAL(sim_query(device).opener_used, 0);
}

/* Two objects that the window holds one of: an error with the numbers, and a way out. */
static void test_too_large(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc) };
	uint64_t window, size;
	AUTO(hm_device) *device = sim_open_windowed(&window);
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = NULL;
	char *base;

	if (!device)
		return;
	desc.size = window + PAGE;
	CHECK_ERROR(-ENOSPC, hm_buffer_create(device, &desc, &buffer));
	CHECK(text_has("in the window") && text_has("bar_mb"));
	size = window / 4 * 3;
	buffer = sim_make(device, size, 2 * size, &map);
	base = hm_map_address(map);
	pattern_write(base, 0, size, 1);
	CHECK_ERROR(-ENOSPC, hm_buffer_resize(buffer, 2 * size, 0));
	CHECK(text_has("in the window") && text_has("bar_mb"));
	CHECK_OK(hm_buffer_resize(buffer, 2 * size, HM_GROW_APPEND));
	CHECK_OK(hm_map_begin_cpu(map, size, size, HM_READ | HM_WRITE));
	pattern_write(base, size, 2 * size, 2);
	CHECK_OK(hm_map_end_cpu(map, size, size, HM_READ | HM_WRITE));
	CHECK_ERROR(-ENOSPC, hm_map_begin_cpu(map, 0, 2 * size, HM_READ));
	CHECK(text_has("smaller ranges") && text_has("bar_mb"));
	CHECK_ERROR(-EINVAL, hm_map_end_cpu(map, 0, 2 * size, HM_READ)); /* not begun */

	CHECK_OK(hm_map_begin_cpu(map, size - PAGE, 2 * PAGE, HM_READ));
	CHECK(pattern_holds(base, size - PAGE, size, 1));
	CHECK(pattern_holds(base, size, size + PAGE, 2));
	CHECK_OK(hm_map_end_cpu(map, size - PAGE, 2 * PAGE, HM_READ));
	CHECK_OK(hm_map_begin_cpu(map, 0, size, HM_READ));
	CHECK(pattern_holds(base, 0, size, 1));
	CHECK_OK(hm_map_end_cpu(map, 0, size, HM_READ));
}

/* Maps of all sorts show the right bytes after every change. */
static void test_maps(void)
{
	uint64_t window, size = 8 * PAGE;
	AUTO(hm_device) *device = sim_open_windowed(&window);
	struct hm_map *map, *part, *late;
	struct hm_buffer *buffer;
	char *base, *other;

	if (!device)
		return;
	buffer = sim_make(device, size, 4 * size, &map);
	part = rig_map(buffer, DESC(hm_map_desc, .access = HM_READ, .offset = PAGE,
				    .length = 2 * PAGE));
	base = hm_map_address(map);
	other = hm_map_address(part);
	pattern_write(base, 0, size, 1);
	CHECK_OK(sim_move(device, buffer, 2 * PAGE, 3 * PAGE, HETSIM_PLACE_VRAM));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &late));
	CHECK_EQUAL(test_read_signal(base + 2 * PAGE), SIGBUS);
	CHECK_EQUAL(test_read_signal(other + PAGE), SIGBUS);
	CHECK_EQUAL(test_read_signal((char *)hm_map_address(late) + 5 * PAGE - 1), SIGBUS);
	CHECK(pattern_holds(base, 0, 2 * PAGE, 1) && pattern_holds(base, 5 * PAGE, size, 1));
	CHECK(pattern_holds(other - PAGE, PAGE, 2 * PAGE, 1));

	/* Rights are the map's whatever is behind them. */
	CHECK_OK(hm_map_protect(map, 0, 4 * PAGE, HM_READ));
	CHECK_EQUAL(test_read_signal(base + 2 * PAGE), SIGBUS);
	CHECK_OK(hm_map_begin_cpu(part, PAGE, PAGE, HM_READ));
	CHECK(pattern_holds(base, 0, 3 * PAGE, 1));
	CHECK_EQUAL(test_write_signal(base + 2 * PAGE), SIGSEGV);
	CHECK_EQUAL(test_read_signal(base + 3 * PAGE), SIGBUS);
	CHECK_OK(hm_map_end_cpu(part, PAGE, PAGE, HM_READ));
	CHECK_OK(hm_map_protect(map, 0, 4 * PAGE, HM_READ | HM_WRITE));
	hm_map_unref(part);

	/* Cut off while out of reach, and grown again: new bytes, in reach. */
	CHECK_OK(hm_buffer_resize(buffer, 2 * PAGE, 0));
	CHECK_OK(hm_buffer_resize(buffer, 2 * size, 0));
	CHECK(pattern_holds(base, 0, 2 * PAGE, 1));
	CHECK(is_zero(base, 2 * PAGE, 2 * size));
	CHECK(is_zero(hm_map_address(late), 2 * PAGE, 2 * size));
	pattern_write(base, 0, 2 * size, 2);
	hm_map_unref(late);

	/* By another object, which takes over bytes that no CPU reaches. */
	CHECK_OK(sim_move(device, buffer, 0, 2 * size, HETSIM_PLACE_VRAM));
	CHECK_OK(hm_buffer_resize(buffer, 3 * size, HM_GROW_REPLACE));
	CHECK_OK(hm_map_begin_cpu(map, 0, 3 * size, HM_READ));
	CHECK(pattern_holds(base, 0, 2 * size, 2));
	CHECK(is_zero(base, 2 * size, 3 * size));
	CHECK_OK(hm_map_end_cpu(map, 0, 3 * size, HM_READ));

	/* A shrink clears the rest of its last page though it is out of reach. */
	CHECK_OK(sim_move(device, buffer, 0, 3 * size, HETSIM_PLACE_VRAM));
	CHECK_OK(hm_buffer_resize(buffer, PAGE + 7, 0));
	CHECK_OK(hm_buffer_resize(buffer, size, 0));
	CHECK_OK(hm_map_begin_cpu(map, 0, size, HM_READ));
	CHECK(pattern_holds(base, 0, PAGE + 7, 2));
	CHECK(is_zero(base, PAGE + 7, size));
	CHECK_OK(hm_map_end_cpu(map, 0, size, HM_READ));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK_EQUAL(sim_query(device).opener_used, 0);
}

/* ---- all at once ---- */

struct race {
	uint64_t window;
	struct hm_buffer *buffer;
	struct hm_map *map;
	_Atomic bool *stop;
	unsigned int done;
};

/* -ENOSPC: the other threads held the whole window with their changes, or took its room. */
static bool had_room(int r)
{
	if (r && r != -ENOSPC)
		test_fail(__FILE__, __LINE__, "%d: %s", r, hm_errmsg());
	return !r;
}

static void *race_thread(void *user)
{
	struct race *race = user;
	uint64_t size = race->window / 2, grown = race->window / 4 * 3;

	while (!*race->stop || !race->done) {
		race->done += had_room(hm_buffer_resize(race->buffer, grown, 0));
		had_room(hm_buffer_resize(race->buffer, size, 0));
		if (had_room(hm_map_begin_cpu(race->map, 0, size, HM_READ | HM_WRITE)))
			hm_map_end_cpu(race->map, 0, size, HM_READ | HM_WRITE);
	}
	return NULL;
}

/*
 * Buffers crowd each other out during resizes, which lock them: a thread that shows one waits
 * for none of them, and the final bytes are right.
 */
static void test_race(void)
{
	struct race races[3] = { 0 };
	uint64_t window, size;
	AUTO(hm_device) *device = sim_open_windowed(&window);
	_Atomic bool stop = false;
	AUTO(hm_map) *map = NULL;
	pthread_t threads[3];
	unsigned int i;
	char *base;

	if (!device)
		return;
	size = window / 4;
	AUTO(hm_buffer) *buffer = sim_make(device, size, 0, &map);
	base = hm_map_address(map);
	pattern_write(base, 0, size, 1);
	for (i = 0; i < 3; i++) {
		races[i].window = window;
		races[i].stop = &stop;
		races[i].buffer = sim_make(device, window / 2, window, &races[i].map);
	}
	for (i = 0; i < 3; i++)
		CHECK_FATAL(pthread_create(&threads[i], NULL, race_thread, &races[i]) == 0);
	for (i = 0; i < 100;) {
		if (!had_room(hm_map_begin_cpu(map, 0, size, HM_READ)))
			continue;
		hm_map_end_cpu(map, 0, size, HM_READ);
		i++;
	}
	stop = true;
	for (i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		hm_map_unref(races[i].map);
		hm_buffer_unref(races[i].buffer);
	}
	sim_crowd_out(device, window);
	CHECK_EQUAL(test_read_signal(base), SIGBUS);
	CHECK_OK(hm_map_begin_cpu(map, 0, size, HM_READ));
	CHECK(pattern_holds(base, 0, size, 1));
	CHECK_OK(hm_map_end_cpu(map, 0, size, HM_READ));
}

struct shadowing {
	struct hm_buffer *buffer;
	uint64_t length;
	_Atomic bool stop;
	_Atomic unsigned int done;
};

/* Brings all of the buffer into the window, piece by piece, each time. */
static void *shadow_thread(void *user)
{
	struct shadowing *shadowing = user;

	while (!shadowing->stop || !shadowing->done)
		shadowing->done +=
			had_room(hm_buffer_shadow(shadowing->buffer, 0, shadowing->length));
	return NULL;
}

static int do_nothing(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return 0;
}

/* A change that waits for work, while a refresh shows maps, which that work waits for. */
static void test_shadow_race(void)
{
	struct shadowing shadowing = { 0 };
	AUTO(hm_kernel) *kernel = NULL;
	struct hm_fence *fence;
	uint64_t window, size;
	AUTO(hm_device) *device = sim_open_windowed(&window);
	AUTO(hm_map) *map = NULL;
	pthread_t thread;
	unsigned int i;

	if (!device)
		return;
	size = window / 4 * 3;
	shadowing.length = 2 * size;
	shadowing.buffer = sim_make(device, size, 2 * size, &map);
	CHECK_OK_FATAL(hm_buffer_resize(shadowing.buffer, 2 * size, HM_GROW_APPEND));
	CHECK_OK_FATAL(hm_buffer_set_loss(shadowing.buffer,
					  DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW)));
	AUTO(hm_accel) *accel = rig_accel("cpu", NULL);
	AUTO(hm_queue) *queue = rig_queue(accel, 0);
	CHECK_OK_FATAL(hm_kernel_create(DESC(hm_kernel_desc, .name = "do_nothing",
					     .cpu = do_nothing, .signature = "out"),
					&kernel));
	CHECK_FATAL(pthread_create(&thread, NULL, shadow_thread, &shadowing) == 0);
	for (i = 0; i < 20; i++) {
		CHECK_OK_FATAL(hm_launch(queue, kernel, 1, &fence,
					 HM_RANGE(hm_map_address(map), PAGE, HM_WRITE)));
		CHECK_OK(hm_map_protect(map, 0, PAGE, HM_READ));
		CHECK_OK(hm_map_protect(map, 0, PAGE, HM_READ | HM_WRITE));
		CHECK_OK(hm_fence_wait(fence, 0));
		hm_fence_unref(fence);
	}
	shadowing.stop = true;
	pthread_join(thread, NULL);
	hm_buffer_unref(shadowing.buffer);
}

/* ---- failures on the way ---- */

/* At each allocation in turn: the old object stays, and its bytes. */
static void test_replace_without_memory(void)
{
	uint64_t window, size, n = 0;
	AUTO(hm_device) *device = sim_open_windowed(&window);
	AUTO(hm_map) *map = NULL;
	int r;

	if (!device)
		return;
	size = window / 4 * 3;
	AUTO(hm_buffer) *buffer = sim_make(device, size, 2 * size, &map);
	pattern_write(hm_map_address(map), 0, size, 1);
	do {
		sim_crowd_out(device, window);
		CHECK_OK_FATAL(sim_inject(device, HETSIM_INJECT_ENOMEM, 0, ++n));
		r = hm_buffer_resize(buffer, size, HM_GROW_REPLACE);
		r = r ? r : hm_buffer_resize(buffer, size + PAGE, HM_GROW_REPLACE);
		CHECK_OK_FATAL(sim_inject(device, HETSIM_INJECT_ENOMEM, 0, 0));
		/* A buffer that could not be moved out, for lack of memory, leaves no room. */
		CHECK(!r || r == -ENOMEM || r == -ENOSPC);
		CHECK_EQUAL(hm_map_length(map), r ? size : size + PAGE);
		CHECK_OK_FATAL(hm_map_begin_cpu(map, 0, size, HM_READ));
		CHECK(pattern_holds(hm_map_address(map), 0, size, 1));
		CHECK_OK(hm_map_end_cpu(map, 0, size, HM_READ));
	} while (r && n < 100);
	CHECK(n > 2 && n < 100);
}

/* Bytes that were cut off out of reach, which could not be cleared then, are now. */
static void test_append_without_memory(void)
{
	const uint64_t size = 2 * PAGE, cut = PAGE + 1000, grown = 5 * PAGE;
	uint64_t window;
	AUTO(hm_device) *device = sim_open_windowed(&window);
	AUTO(hm_map) *map = NULL;
	char *base;

	if (!device)
		return;
	AUTO(hm_buffer) *buffer = sim_make(device, size, 8 * PAGE, &map);
	base = hm_map_address(map);
	pattern_write(base, 0, size, 1);
	CHECK_OK_FATAL(sim_move(device, buffer, 0, size, HETSIM_PLACE_VRAM));
	CHECK_EQUAL(sim_info(device, sim_handle(buffer)).vram_bytes, size);
	CHECK_OK_FATAL(sim_inject(device, HETSIM_INJECT_ENOMEM, 0, 1));
	CHECK_OK(hm_buffer_resize(buffer, cut, 0));
	CHECK_OK_FATAL(sim_inject(device, HETSIM_INJECT_ENOMEM, 0, 0));
	CHECK_OK(hm_buffer_resize(buffer, grown, HM_GROW_APPEND));
	CHECK_EQUAL(buffer_info(buffer).segments, 2);
	CHECK_OK_FATAL(hm_map_begin_cpu(map, 0, grown, HM_READ));
	CHECK(pattern_holds(base, 0, cut, 1));
	CHECK(is_zero(base, cut, grown));
	CHECK_OK(hm_map_end_cpu(map, 0, grown, HM_READ));
}

/* Maps a buffer that is out of reach, with each call of the library's failing in turn. */
static void test_map_without_memory(void)
{
	unsigned int n = 0;
	uint64_t window;
	AUTO(hm_device) *device = sim_open_windowed(&window);
	bool failed;
	int r;

	if (!device)
		return;
	AUTO(hm_buffer) *buffer = sim_make(device, 4 * PAGE, 0, NULL);
	sim_crowd_out(device, window);
	inject_install();
	do {
		AUTO(hm_map) *map = NULL;
		inject_arm(++n, INJECT_ONE);
		r = hm_map_create(buffer, NULL, &map);
		failed = inject_disarm();
		inject_forgive();
		CHECK(!r == !!map);
		CHECK(!r || *hm_errmsg());
		if (map && !failed)
			CHECK_EQUAL(test_read_signal(hm_map_address(map)), SIGBUS);
	} while (failed && n < 100);
	CHECK(n > 3 && n < 100);
	CHECK_OK(r);
	CHECK_EQUAL(buffer_info(buffer).maps, 0);
}

/*
 * Brackets with each call of the library's failing in turn: begun bytes are in reach, and the
 * others once no call fails.
 */
static void test_brackets_without_memory(void)
{
	uint64_t window, size = 4 * PAGE;
	AUTO(hm_device) *device = sim_open_windowed(&window);
	enum inject_mode mode;
	AUTO(hm_map) *map = NULL;
	unsigned int n;
	bool failed;
	char *base;
	int r;

	if (!device)
		return;
	AUTO(hm_buffer) *buffer = sim_make(device, size, 0, &map);
	base = hm_map_address(map);
	pattern_write(base, 0, size, 1);
	inject_install();
	for (mode = INJECT_ONE; mode <= INJECT_REST; mode++) {
		n = 0;
		do {
			sim_crowd_out(device, window);
			CHECK_EQUAL(test_read_signal(base), SIGBUS);
			inject_arm(++n, mode);
			r = hm_map_begin_cpu(map, 0, size, HM_READ);
			failed = inject_disarm();
			inject_forgive();
			CHECK(!r || *hm_errmsg());
			CHECK(!r || failed);
			if (r)
				CHECK_OK_FATAL(hm_map_begin_cpu(map, 0, size, HM_READ));
			CHECK_EQUAL(test_read_signal(base + size - 1), 0);
			CHECK_FATAL(pattern_holds(base, 0, size, 1));
			CHECK_OK(hm_map_end_cpu(map, 0, size, HM_READ));
		} while (failed && n < 100);
		CHECK(n > 1 && n < 100); /* the module's maps are the kernel's matter */
	}
}

static int refuse(struct map_view *view, uint64_t offset, uint64_t length, uint32_t access)
{
	(void)view, (void)offset, (void)length, (void)access;
	return err_set(-EIO, "a view that is never ready");
}

static void let_go(struct map_view *view)
{
	(void)view;
}

/* A view that refuses ends the device's bracket. */
static void test_view_refuses(void)
{
	static const struct view_hooks hooks = { .begin_cpu = refuse, .release = let_go };
	struct map_view view = { .hooks = &hooks };
	struct hm_map_info info = { .struct_size = sizeof(info) };
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, PAGE, 0, &map);

	pthread_mutex_lock(&view_mutex);
	view_attach_locked(map, &view);
	pthread_mutex_unlock(&view_mutex);
	CHECK_ERROR(-EIO, hm_map_begin_cpu(map, 0, PAGE, HM_READ));
	CHECK(text_has("never ready"));
	CHECK_OK(hm_map_query(map, &info));
	CHECK_EQUAL(info.brackets, 0);
}

/* The bytes that the device counts in its own memory and in the machine's. */
static void check_counts(struct hm_device *device, struct hm_buffer *buffer, uint32_t place)
{
	struct hetsim_buffer_info info = sim_info(device, sim_handle(buffer));
	uint64_t own = info.vram_bytes + info.window_bytes, size = buffer_info(buffer).size;

	CHECK_EQUAL(own, place == HM_PLACE_SYSTEM ? 0 : size);
	CHECK_EQUAL(info.system_bytes, place == HM_PLACE_SYSTEM ? size : 0);
	/* In reach: with a window, through it. */
	CHECK_EQUAL(info.vram_bytes != 0,
		    place != HM_PLACE_SYSTEM && !sim_query(device).window_bytes);
}

/* The buffer and its growth are at the wanted place, and nothing moves them. */
static void test_place(void)
{
	AUTO(hm_device) *device = sim_open();
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = 4 * PAGE,
		.max_size = 8 * PAGE,
	};

	for (desc.place = HM_PLACE_DEFAULT; desc.place <= HM_PLACE_SYSTEM; desc.place++) {
		AUTO(hm_buffer) *buffer = rig_buffer(device, &desc);
		CHECK_EQUAL(buffer_info(buffer).place,
			    desc.place ? desc.place : HM_PLACE_DEVICE);
		check_counts(device, buffer, desc.place);
		AUTO(hm_map) *map = rig_map(buffer, NULL);
		CHECK_OK(hm_buffer_resize(buffer, 8 * PAGE, 0));
		CHECK_OK(hm_map_begin_cpu(map, 0, 8 * PAGE, HM_READ | HM_WRITE));
		pattern_write(hm_map_address(map), 0, 8 * PAGE, 1);
		CHECK_OK(hm_map_end_cpu(map, 0, 8 * PAGE, HM_READ | HM_WRITE));
		check_counts(device, buffer, desc.place);
		CHECK_OK(hm_buffer_resize(buffer, 16 * PAGE, HM_MAY_MOVE));
		CHECK_OK(hm_map_begin_cpu(map, 0, 8 * PAGE, HM_READ));
		CHECK(pattern_holds(hm_map_address(map), 0, 8 * PAGE, 1));
		CHECK_OK(hm_map_end_cpu(map, 0, 8 * PAGE, HM_READ));
		check_counts(device, buffer, desc.place);
	}
}

static const struct sim_case cases[] = {
	{ "capability", test_capability },
	{ "place", test_place },
	{ "brackets", test_brackets },
	{ "too_large", test_too_large },
	{ "maps", test_maps },
	{ "race", test_race },
	{ "shadow_race", test_shadow_race },
	{ "replace_without_memory", test_replace_without_memory },
	{ "append_without_memory", test_append_without_memory },
	{ "map_without_memory", test_map_without_memory },
	{ "brackets_without_memory", test_brackets_without_memory },
	{ "view_refuses", test_view_refuses },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return sim_main_with(argc, argv, "sim_window", SETTINGS, cases);
}
