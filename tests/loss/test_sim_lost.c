// SPDX-License-Identifier: MIT
/* The simulated devices: pages that fail under live maps, devices that are taken away. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/inject.h"
#include "lib/sim_devices.h"

#define PAGES 8

static bool text_has(const char *part)
{
	return strstr(hm_errmsg(), part) != NULL;
}

/* ---- single pages ---- */

static void page_fails(uint32_t fault)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, PAGES * PAGE, 2 * PAGES * PAGE, &map);
	char *base = hm_map_address(map), *part_base;
	uint32_t handle;

	CHECK_OK_FATAL(hm_sim_buffer(buffer, &handle));
	AUTO(hm_map) *part = rig_map(buffer, DESC(hm_map_desc, .access = HM_READ,
						  .offset = 2 * PAGE, .length = 2 * PAGE));
	part_base = hm_map_address(part);
	pattern_write(base, 0, PAGES * PAGE, 1);
	CHECK_OK(sim_inject(device, fault, handle, 3 * PAGE + 17));
	/* The one page, of every map. */
	CHECK_EQUAL(test_read_signal(base + 3 * PAGE), SIGBUS);
	CHECK_EQUAL(test_write_signal(base + 4 * PAGE - 1), SIGBUS);
	CHECK_EQUAL(test_read_signal(part_base + PAGE), SIGBUS);
	CHECK(pattern_holds(base, 0, 3 * PAGE, 1));
	CHECK(pattern_holds(base, 4 * PAGE, PAGES * PAGE, 1));
	/* The page stays lost whatever becomes of its rights. */
	CHECK_OK(hm_map_protect(map, 3 * PAGE, 2 * PAGE, HM_READ));
	CHECK_EQUAL(test_read_signal(base + 3 * PAGE), SIGBUS);
	/* Another one instead. */
	CHECK_OK(sim_inject(device, fault, handle, 5 * PAGE));
	CHECK(pattern_holds(base, 0, 5 * PAGE, 1));
	CHECK_EQUAL(test_read_signal(base + 5 * PAGE), SIGBUS);
	CHECK_EQUAL(test_write_signal(base + 3 * PAGE), SIGSEGV);
	CHECK_OK(hm_map_protect(map, 0, PAGES * PAGE, HM_READ | HM_WRITE));
	CHECK_ERROR(-ERANGE, sim_inject(device, fault, handle, 1000 * PAGE));
	CHECK_OK(sim_inject(device, fault, handle, UINT64_MAX));
	CHECK(pattern_holds(base, 0, PAGES * PAGE, 1));
	pattern_write(base, 0, PAGES * PAGE, 2);
	CHECK(pattern_holds(part_base - 2 * PAGE, 2 * PAGE, 4 * PAGE, 2));
	CHECK_OK(hm_buffer_resize(buffer, 2 * PAGES * PAGE, 0));
	CHECK(pattern_holds(base, 0, PAGES * PAGE, 2));
}

/* A fault of memory that is broken is a SIGBUS, too, with another code. */
static void test_pages(void)
{
	page_fails(HETSIM_INJECT_SIGBUS);
	page_fails(HETSIM_INJECT_POISON);
}

static void check_page_3(struct hm_map *map, uint64_t to, uint32_t salt)
{
	const char *base = hm_map_address(map);

	CHECK_EQUAL(test_read_signal(base + 3 * PAGE), SIGBUS);
	CHECK(pattern_holds(base, 0, 3 * PAGE, salt));
	CHECK(pattern_holds(base, 4 * PAGE, to, salt));
}

/* Maps that are made, or changed, once a page has failed, know of it. */
static void test_pages_of_later_maps(void)
{
	AUTO(hm_device) *device = sim_open();
	struct hm_map *map, *later;
	AUTO(hm_buffer) *buffer = sim_make(device, PAGES * PAGE, 4 * PAGES * PAGE, &map);
	uint32_t handle;
	int fd;

	CHECK_OK_FATAL(hm_sim_buffer(buffer, &handle));
	pattern_write(hm_map_address(map), 0, PAGES * PAGE, 1);
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, 3 * PAGE));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &later));
	check_page_3(later, PAGES * PAGE, 1);
	hm_map_unref(later);

	/* A shrink that cuts it off, and growth that brings it again: it is still bad. */
	CHECK_OK(hm_buffer_resize(buffer, 2 * PAGE, 0));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &later));
	CHECK_OK(hm_buffer_resize(buffer, PAGES * PAGE, 0));
	CHECK_EQUAL(test_read_signal((char *)hm_map_address(later) + 3 * PAGE), SIGBUS);
	CHECK_EQUAL(test_read_signal((char *)hm_map_address(map) + 3 * PAGE), SIGBUS);
	hm_map_unref(later);
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, UINT64_MAX));
	pattern_write(hm_map_address(map), 0, PAGES * PAGE, 2);
	CHECK_OK(sim_inject(device, HETSIM_INJECT_POISON, handle, 3 * PAGE));
	CHECK_OK(hm_buffer_resize(buffer, 2 * PAGES * PAGE, HM_GROW_APPEND));
	check_page_3(map, PAGES * PAGE, 2);
	CHECK(is_zero(hm_map_address(map), PAGES * PAGE, 2 * PAGES * PAGE));
	hm_map_unref(map);
	hm_buffer_unref(buffer);

	/* By another name; and another object has no page that failed. */
	buffer = sim_make(device, PAGES * PAGE, 0, &map);
	CHECK_OK_FATAL(hm_sim_buffer(buffer, &handle));
	pattern_write(hm_map_address(map), 0, PAGES * PAGE, 3);
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, 3 * PAGE));
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	AUTO(hm_buffer) *imported = rig_import(device, fd, NULL);
	close(fd);
	AUTO(hm_map) *imported_map = rig_map(imported, NULL);
	check_page_3(imported_map, PAGES * PAGE, 3);
	CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, UINT64_MAX));
	CHECK(pattern_holds(hm_map_address(imported_map), 0, PAGES * PAGE, 3));
	CHECK(pattern_holds(hm_map_address(map), 0, PAGES * PAGE, 3));
	hm_map_unref(map);
}

/*
 * A page that fails and is well again, with each call of the library's failing in turn:
 * it is back in the end, whatever could not be done meanwhile.
 */
static void test_pages_without_memory(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, PAGES * PAGE, 0, &map);
	char *base = hm_map_address(map);
	uint32_t handle;
	unsigned int n = 0;
	bool failed;

	CHECK_OK_FATAL(hm_sim_buffer(buffer, &handle));
	pattern_write(base, 0, PAGES * PAGE, 1);
	inject_install();
	do {
		inject_arm(++n, INJECT_ONE);
		sim_inject(device, HETSIM_INJECT_SIGBUS, handle, 3 * PAGE);
		failed = inject_disarm();
		inject_forgive();
		CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, UINT64_MAX));
		CHECK_EQUAL(test_read_signal(base + 3 * PAGE), 0);
		CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, 3 * PAGE));
		CHECK_EQUAL(test_read_signal(base + 3 * PAGE), SIGBUS);
		inject_arm(n, INJECT_ONE);
		sim_inject(device, HETSIM_INJECT_SIGBUS, handle, UINT64_MAX);
		failed |= inject_disarm();
		inject_forgive();
		/* The next change of the buffer is a chance to have it right. */
		CHECK_OK(sim_inject(device, HETSIM_INJECT_SIGBUS, handle, UINT64_MAX));
		CHECK_EQUAL(test_read_signal(base + 3 * PAGE), 0);
		CHECK_FATAL(pattern_holds(base, 0, PAGES * PAGE, 1));
	} while (failed && n < 100);
	CHECK(n < 100);
}

/* ---- whole devices ---- */

struct lives {
	struct hm_device *device;
	struct hm_buffer *buffer, *bare;
	struct hm_map *map, *part;
	struct hm_view *view;
	int n_lost;
	char *base, *part_base;
};

static void on_lost(void *user)
{
	((struct lives *)user)->n_lost++;
}

static int never(void *user, const struct hm_view_change *change)
{
	(void)user, (void)change;
	return -EBUSY;
}

static void make(struct lives *lives)
{
	/* The device goes, whatever the view answers. */
	const struct hm_view_ops ops = {
		.struct_size = sizeof(ops),
		.quiesce = never,
		.lost = on_lost,
	};

	memset(lives, 0, sizeof(*lives));
	lives->device = sim_open();
	lives->bare = sim_make(lives->device, PAGE, 0, NULL);
	lives->buffer = sim_make(lives->device, PAGES * PAGE, MIB(1), &lives->map);
	lives->part = rig_map(lives->buffer, DESC(hm_map_desc, .flags = HM_MAP_GUARD,
						  .access = HM_READ | HM_WRITE, .offset = PAGE,
						  .length = 2 * PAGE));
	CHECK_OK_FATAL(hm_view_create(lives->map, 0, 0, &ops, lives, &lives->view));
	lives->base = hm_map_address(lives->map);
	lives->part_base = hm_map_address(lives->part);
	pattern_write(lives->base, 0, PAGES * PAGE, 1);
}

/* Every call that needs the device, or the bytes that it had. */
static void check_refused(struct lives *lives)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_map_info map_now = { .struct_size = sizeof(map_now) };
	struct hm_buffer *buffer = NULL;
	struct hm_map *map = NULL;
	int fd = -7;

#define GONE(call)                             \
	do {                                   \
		CHECK_ERROR(-ENODEV, call);    \
		CHECK(text_has("taken away")); \
	} while (0)
	GONE(hm_device_query(lives->device, &info));
	GONE(hm_sim_call(lives->device, HETSIM_QUERY, SIZED(hetsim_query)));
	GONE(hm_buffer_create(lives->device, DESC(hm_buffer_desc, .size = PAGE), &buffer));
	GONE(hm_map_create(lives->buffer, NULL, &map));
	GONE(hm_map_create(lives->bare, NULL, &map));
	GONE(hm_buffer_export(lives->buffer, 0, &fd));
	GONE(hm_buffer_resize(lives->buffer, 2 * PAGE, 0));
	GONE(hm_buffer_resize(lives->buffer, MIB(1), 0));
	GONE(hm_buffer_resize(lives->bare, 4 * PAGE, HM_MAY_MOVE));
	GONE(hm_map_protect(lives->map, 0, PAGE, HM_READ));
	GONE(hm_map_query(lives->map, &map_now));
	GONE(hm_map_begin_cpu(lives->part, 0, PAGE, HM_READ));
#undef GONE
	CHECK(!buffer && !map && fd == -7);
	/* The buffer's size is known without the device. */
	CHECK_EQUAL(buffer_info(lives->buffer).size, PAGES * PAGE);
}

static void check_zeros(struct lives *lives)
{
	struct hm_pointer_info found;

	CHECK(hm_map_address(lives->map) == lives->base);
	CHECK(is_zero(lives->base, 0, PAGES * PAGE));
	CHECK(is_zero(lives->part_base, 0, 2 * PAGE));
	/* Each map has its own zeros: stores of one do not show in the other. */
	pattern_write(lives->base, 0, PAGES * PAGE, 2);
	CHECK(is_zero(lives->part_base, 0, 2 * PAGE));
	CHECK(pattern_holds(lives->base, 0, PAGES * PAGE, 2));
	CHECK_EQUAL(test_read_signal(lives->base + PAGES * PAGE), SIGSEGV);
	CHECK_EQUAL(test_read_signal(lives->part_base - 1), SIGSEGV);
	CHECK_EQUAL(hm_pointer_find(lives->base + 5, &found), 0);
	CHECK(found.map == lives->map && found.length == PAGES * PAGE);
	CHECK_EQUAL(found.generation, 1);
	CHECK_EQUAL(lives->n_lost, 1);
}

static void test_unplug(void)
{
	/* The order of release: indices of the objects that end() drops. */
	static const uint8_t orders[][6] = {
		{ 0, 1, 2, 3, 4, 5 },
		{ 5, 4, 3, 2, 1, 0 },
		{ 3, 0, 5, 1, 4, 2 },
	};
	struct hetsim_query query;
	struct lives lives;
	struct hm_device *fresh;
	struct hm_map *map;
	size_t i, n;

	for (i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		make(&lives);
		if (sim_unplug(lives.device)) {
			check_zeros(&lives);
			check_refused(&lives);
			CHECK_ERROR(-ENODEV, hm_device_open(sim_device(), &fresh));
			sim_plug();
			/* Those of the old one stay its. */
			check_refused(&lives);
		}
		/* A fresh device, whatever is left of the old one. */
		fresh = sim_open();
		query = sim_query(fresh);
		if (query.vram_used == 0)
			CHECK_EQUAL(query.opener_used, 0);
		AUTO(hm_buffer) *buffer = sim_make(fresh, MIB(1), 0, &map);
		CHECK(is_zero(hm_map_address(map), 0, MIB(1)));
		for (n = 0; n < 6; n++)
			switch (orders[i][n]) {
			case 0:
				hm_device_unref(lives.device);
				break;
			case 1:
				hm_buffer_unref(lives.buffer);
				break;
			case 2:
				hm_buffer_unref(lives.bare);
				break;
			case 3:
				hm_map_unref(lives.map);
				break;
			case 4:
				hm_map_unref(lives.part);
				break;
			default:
				hm_view_unref(lives.view);
			}
		pattern_write(hm_map_address(map), 0, MIB(1), 3);
		CHECK(pattern_holds(hm_map_address(map), 0, MIB(1), 3));
		hm_map_unref(map);
		hm_device_unref(fresh);
	}
}

/* A map that grew by another object still hears of its device's loss. */
static void test_unplug_after_growth(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, 2 * PAGE, MIB(1), &map);
	char *base = hm_map_address(map);

	CHECK_OK(hm_buffer_resize(buffer, 4 * PAGE, HM_GROW_APPEND));
	CHECK_OK(hm_map_protect(map, PAGE, PAGE, HM_READ));
	pattern_write(base, 2 * PAGE, 4 * PAGE, 1);
	if (sim_unplug(device)) {
		CHECK(is_zero(base, 0, 4 * PAGE));
		/* Rights are as they were. */
		CHECK_EQUAL(test_write_signal(base + PAGE), SIGSEGV);
		CHECK_EQUAL(test_write_signal(base + 2 * PAGE), 0);
		sim_plug();
	}
}

/* Each step of it may fail: then there is no access, or no news, but nothing else. */
static void test_unplug_out_of_memory(void)
{
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	unsigned int n;
	bool more = true;
	char *base;
	int r;

	inject_install();
	for (n = 1; more && n < 100; n++) {
		device = sim_open();
		buffer = sim_make(device, 4 * PAGE, MIB(1), &map);
		CHECK_OK(hm_map_protect(map, PAGE, PAGE, HM_READ));
		base = hm_map_address(map);
		memset(base, 1, PAGE);
		inject_arm(n, INJECT_REST);
		r = sim_inject(device, HETSIM_INJECT_UNPLUG, 0, 0);
		more = inject_disarm();
		if (r) {
			/* The call was not made, or this process may not make it. */
			CHECK(more || r == -EPERM);
			CHECK_EQUAL(*base, 1);
		} else {
			CHECK(test_read_signal(base) == SIGSEGV || is_zero(base, 0, PAGE));
			CHECK_ERROR(-ENODEV, hm_map_protect(map, 0, PAGE, HM_READ));
			sim_plug();
		}
		hm_map_unref(map);
		hm_buffer_unref(buffer);
		hm_device_unref(device);
		inject_forgive();
	}
	CHECK(!more);
}

/* ---- while other threads work ---- */

static _Atomic bool stop, failed;

/* A map's pages are replaced under it, which to a race detector is another's store. */
static __attribute__((no_sanitize("thread"), noinline)) void touch(volatile char *byte)
{
	*byte = 1;
	(void)*byte;
}

static void *toucher(void *user)
{
	char *base = user;
	uint64_t at = 0;

	while (!stop) {
		touch(&base[at]);
		at = (at + PAGE) % (64 * PAGE);
	}
	return NULL;
}

static void *changer(void *user)
{
	struct hm_device *device = user;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *base;
	int r;

	while (!stop) {
		r = hm_buffer_create(device,
				     DESC(hm_buffer_desc, .size = 8 * PAGE, .max_size = MIB(1)),
				     &buffer);
		if (r) {
			failed = failed || r != -ENODEV;
			continue;
		}
		r = hm_map_create(buffer, NULL, &map);
		if (!r) {
			base = hm_map_address(map);
			touch(&base[0]);
			touch(&base[8 * PAGE - 1]);
			r = hm_buffer_resize(buffer, 64 * PAGE, 0);
			if (!r)
				touch(&base[64 * PAGE - 1]);
			r = r ? r : hm_buffer_resize(buffer, PAGE, 0);
			hm_map_unref(map);
		}
		failed = failed || (r && r != -ENODEV);
		hm_buffer_unref(buffer);
	}
	return NULL;
}

/* No thread that touches, makes or changes maps meanwhile is killed, or hangs. */
static void unplug_under_load(void)
{
	AUTO(hm_device) *device = sim_open();
	pthread_t threads[3];
	struct hm_map *map;
	struct hm_buffer *buffer;
	int i, rounds = 5;

	failed = false;
	while (rounds--) {
		buffer = sim_make(device, 64 * PAGE, 0, &map);
		stop = false;
		for (i = 0; i < 3; i++)
			CHECK_FATAL(!pthread_create(&threads[i], NULL, i ? changer : toucher,
						    i ? (void *)device : hm_map_address(map)));
		usleep(20000);
		if (!sim_unplug(device))
			rounds = 0;
		else
			sim_plug();
		usleep(5000);
		stop = true;
		for (i = 0; i < 3; i++)
			pthread_join(threads[i], NULL);
		CHECK(!failed);
		hm_map_unref(map);
		hm_buffer_unref(buffer);
		hm_device_unref(device);
		device = sim_open();
	}
}

static void test_unplug_under_load(void)
{
	unplug_under_load();
}

/* The handler has no signal to see, or replaces nothing that the loss does. */
static void test_unplug_handled(void)
{
	AUTO(rig_handler) handler = rig_handler(0);

	unplug_under_load();
}

/* ---- found out in callbacks ---- */

static pthread_barrier_t all_in;
static _Thread_local bool in_quiesce;
static _Atomic uint32_t n_taken, n_taken_within;

/* Both threads' are in there, each with its buffer's lock, when the device goes. */
static int quiesce_and_ask(void *user, const struct hm_view_change *change)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_device *device = user;
	int r;

	(void)change;
	in_quiesce = true;
	CHECK_ERROR(-EDEADLK, sim_inject(device, HETSIM_INJECT_UNPLUG, 0, 0));
	pthread_barrier_wait(&all_in);
	do
		r = hm_device_query(device, &info);
	while (!r);
	CHECK_EQUAL(r, -ENODEV);
	CHECK_ERROR(-EDEADLK, hm_device_recover(device, 0, NULL));
	in_quiesce = false;
	return -EBUSY;
}

static void on_taken(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	(void)buffer, (void)user;
	n_taken += event == HM_LOSS_TAKEN;
	n_taken_within += in_quiesce;
}

static void *protect_with_view(void *user)
{
	struct hm_map *map = user;

	CHECK_ERROR(-EBUSY, hm_map_protect(map, 0, PAGE, HM_READ));
	return NULL;
}

/* Neither may take the other's buffer, nor call the application's function. */
static void test_found_in_callbacks(void)
{
	static const struct hm_view_ops ops = {
		.struct_size = sizeof(ops),
		.quiesce = quiesce_and_ask,
	};
	struct hm_device *device = sim_open();
	struct hm_buffer *buffer[2];
	struct hm_view *view[2];
	struct hm_map *map[2];
	pthread_t thread[2];
	int i;

	n_taken = n_taken_within = 0;
	CHECK_FATAL(!pthread_barrier_init(&all_in, NULL, 3));
	for (i = 0; i < 2; i++) {
		buffer[i] = sim_make(device, 2 * PAGE, 0, &map[i]);
		CHECK_OK_FATAL(
			hm_buffer_set_loss(buffer[i], DESC(hm_loss_desc, .policy = HM_LOSS_ZERO,
							   .lost = on_taken)));
		CHECK_OK_FATAL(hm_view_create(map[i], 0, 0, &ops, device, &view[i]));
		CHECK_FATAL(!pthread_create(&thread[i], NULL, protect_with_view, map[i]));
	}
	pthread_barrier_wait(&all_in);
	CHECK_OK_FATAL(sim_inject(device, HETSIM_INJECT_UNPLUG, 0, 0));
	for (i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	CHECK_EQUAL(n_taken, 2);
	CHECK_EQUAL(n_taken_within, 0);
	for (i = 0; i < 2; i++) {
		CHECK_ERROR(-ENODEV, hm_map_protect(map[i], 0, PAGE, HM_READ));
		hm_view_unref(view[i]);
		hm_map_unref(map[i]);
		hm_buffer_unref(buffer[i]);
	}
	pthread_barrier_destroy(&all_in);
	hm_device_unref(device);
	sim_plug();
}

static const struct sim_case cases[] = {
	{ "pages", test_pages },
	{ "pages_of_later_maps", test_pages_of_later_maps },
	{ "pages_without_memory", test_pages_without_memory },
	{ "unplug", test_unplug },
	{ "unplug_after_growth", test_unplug_after_growth },
	{ "unplug_out_of_memory", test_unplug_out_of_memory },
	{ "unplug_under_load", test_unplug_under_load },
	{ "unplug_handled", test_unplug_handled },
	{ "found_in_callbacks", test_found_in_callbacks },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "sim_lost", cases)
