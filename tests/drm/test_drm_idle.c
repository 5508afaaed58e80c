// SPDX-License-Identifier: MIT
/*
 * Idle objects of DRM nodes: on virtio_gpu and vgem where they are, else on fake nodes
 * whose objects CPUs write as fast as memory.
 */
#include <drm.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drm/drm_support.h"
#include "lib/inject.h"
#include "map/retire_support.h"
#include "lib/support.h"
#include "base/util.h"

#define SIZE (16 * PAGE)

static const struct fake_drm_control *fake; /* NULL: real nodes */
static char names[2][80];                   /* of devices */

/* ---- devices and buffers ---- */

static struct hm_device *open_at(unsigned int at, const char *idle)
{
	setenv("HETMAP_DRM_IDLE", idle, 1);
	return rig_device(names[at]);
}

static void each(void (*run)(struct hm_device *device), const char *idle)
{
	struct hm_device *device;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		device = open_at(i, idle);
		run(device);
		hm_device_unref(device);
		CHECK_EQUAL(stats_now().bytes_idle, 0);
		CHECK(!fake || !fake->handles());
		CHECK(!fake || !fake->leaked());
	}
}

/* One of @size bytes, none of them zero, becomes idle. */
static char *leave(struct hm_device *device, uint64_t size)
{
	AUTO(rig) made = drm_make(device, size);

	memset(made.bytes, 0xa5, size);
	return made.bytes;
}

/* A new buffer of that size is that one, and of zeros. */
static void check_used_again(struct hm_device *device, uint64_t size)
{
	uint64_t before = stats_now().bytes_idle;

	CHECK(before >= size);
	AUTO(rig) made = drm_make(device, size);
	CHECK_EQUAL(stats_now().bytes_idle, before - size);
	CHECK(is_zero(made.bytes, 0, size));
	pattern_write(made.bytes, 0, size, 1);
	CHECK(pattern_holds(made.bytes, 0, size, 1));
	rig_drop(&made);
	CHECK_OK(hm_retire_flush());
	CHECK_EQUAL(stats_now().bytes_idle, before);
}

/* ---- the bytes of objects used again ---- */

static void check_zeros(struct hm_device *device)
{
	struct rig made;

	leave(device, SIZE);
	CHECK_EQUAL(stats_now().bytes_idle, SIZE);
	check_used_again(device, SIZE);
	/* The buffer goes first, and the object with its map. */
	made = drm_make(device, SIZE);
	memset(made.bytes, 0x5a, SIZE);
	hm_buffer_unref(made.buffer);
	CHECK_EQUAL(stats_now().bytes_idle, 0);
	hm_map_unref(made.map);
	check_used_again(device, SIZE);
	/* One that was never mapped since. */
	made = drm_make(device, 2 * SIZE);
	hm_map_unref(made.map);
	hm_buffer_unref(made.buffer);
	check_used_again(device, 2 * SIZE);
}

static void zeros(void)
{
	each(check_zeros, "64");
}

/* A stale address of an ended map gets its signal, as ever. */
static void check_unmapped(struct hm_device *device)
{
	char *stale = leave(device, SIZE);

	CHECK_EQUAL(test_read_signal(stale), SIGSEGV);
	CHECK_EQUAL(test_write_signal(stale + SIZE - 1), SIGSEGV);
	check_used_again(device, SIZE);
}

static void unmapped(void)
{
	each(check_unmapped, "64");
}

/* Maps that are not one mapping of the whole object, or have not stayed so. */
static void check_ways(struct hm_device *device)
{
	const struct hm_map_desc descs[] = {
		{ .access = HM_READ | HM_WRITE, .flags = HM_MAP_GUARD },
		{ .access = HM_READ | HM_WRITE, .offset = PAGE },
		{ .access = HM_READ | HM_WRITE,
		  .flags = HM_MAP_GUARD,
		  .length = SIZE - 2 * PAGE },
		{ .access = HM_READ },
	};
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = SIZE };
	struct hm_map_desc how;
	unsigned int mappings;
	struct rig made;
	uint64_t length;
	char *p;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(descs); i++) {
		leave(device, SIZE);
		made = (struct rig){ .buffer = rig_buffer(device, &desc) };
		how = descs[i];
		how.struct_size = sizeof(how);
		made.map = rig_map(made.buffer, &how);
		made.bytes = hm_map_address(made.map);
		length = hm_map_length(made.map);
		CHECK(is_zero(made.bytes, 0, length));
		if (how.access & HM_WRITE)
			memset(made.bytes, 1, length);
		rig_drop(&made);
		check_used_again(device, SIZE);
	}
	/* Cut in three it would be three mappings for as long as it is idle. */
	mappings = test_holding_now().mappings;
	made = drm_make(device, SIZE);
	CHECK_OK(hm_map_protect(made.map, PAGE, PAGE, HM_READ));
	pattern_write(made.bytes, 2 * PAGE, SIZE, 3);
	rig_drop(&made);
	CHECK(test_holding_now().mappings <= mappings);
	check_used_again(device, SIZE);
	/* The short way has address space behind it. */
	CHECK_OK_FATAL(hm_alloc(device, SIZE, HM_READ | HM_WRITE, &p));
	CHECK(is_zero(p, 0, SIZE));
	pattern_write(p, 0, SIZE, 4);
	CHECK_OK(hm_free(p));
	check_used_again(device, SIZE);
}

static void ways_of_mapping(void)
{
	each(check_ways, "64");
}

/* A map of a buffer that lives finds its bytes where an earlier one left them. */
static void check_mapped_again(struct hm_device *device)
{
	struct rig made = drm_make(device, SIZE);
	int i;

	pattern_write(made.bytes, 0, SIZE, 5);
	for (i = 0; i < 3; i++) {
		hm_map_unref(made.map);
		CHECK_OK_FATAL(hm_map_create(made.buffer, NULL, &made.map));
		AUTO(hm_map) *other = rig_map(made.buffer, NULL);
		CHECK(pattern_holds(hm_map_address(made.map), 0, SIZE, 5));
		CHECK(pattern_holds(hm_map_address(other), 0, SIZE, 5));
		CHECK(hm_map_address(other) != hm_map_address(made.map));
	}
	/* The mapping that was kept is of the object that was. */
	hm_map_unref(made.map);
	CHECK_OK(hm_buffer_resize(made.buffer, 2 * SIZE, HM_GROW_REPLACE | HM_MAY_MOVE));
	CHECK_OK_FATAL(hm_map_create(made.buffer, NULL, &made.map));
	CHECK(pattern_holds(hm_map_address(made.map), 0, SIZE, 5));
	CHECK(is_zero(hm_map_address(made.map), SIZE, 2 * SIZE));
	rig_drop(&made);
}

static void mapped_again(void)
{
	each(check_mapped_again, "64");
}

/* An object that a section of liburcu can find stays mapped until its end. */
static void check_readers(struct hm_device *device)
{
	struct section section;
	char *bytes;

	defer(16, MIB(1));
	section_begin(&section);
	AUTO(rig) made = drm_make(device, SIZE);
	bytes = made.bytes;
	pattern_write(bytes, 0, SIZE, 6);
	rig_drop(&made);
	CHECK_EQUAL(test_read_signal(bytes), 0);
	CHECK(pattern_holds(bytes, 0, SIZE, 6));
	section_end(&section);
	CHECK_OK(hm_retire_flush());
	check_used_again(device, SIZE);
	defer(0, 0);
}

static void readers_keep(void)
{
	each(check_readers, "64");
}

/* A handler's pages end with the map: the next map shows the object. */
static void check_handled(struct hm_device *device)
{
	struct rig made;

	CHECK_OK_FATAL(hm_handler_install(0));
	made = drm_make(device, SIZE);
	pattern_write(made.bytes, 0, SIZE, 7);
	CHECK_FATAL(mmap(made.bytes, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == made.bytes);
	CHECK(is_zero(made.bytes, 0, PAGE));
	hm_map_unref(made.map);
	CHECK_OK_FATAL(hm_map_create(made.buffer, NULL, &made.map));
	made.bytes = hm_map_address(made.map);
	CHECK(pattern_holds(made.bytes, 0, SIZE, 7));
	rig_drop(&made);
	CHECK_OK(hm_handler_remove());
	check_used_again(device, SIZE);
}

static void handled(void)
{
	each(check_handled, "64");
}

/* ---- which, and how many ---- */

static void check_bounds(struct hm_device *device)
{
	const uint64_t part = MIB(1) / 4;
	struct rig made[6];
	size_t i;

	/* An object above a quarter of the limit is not kept. */
	leave(device, part + PAGE);
	CHECK_EQUAL(stats_now().bytes_idle, 0);
	for (i = 0; i < ARRAY_SIZE(made); i++)
		made[i] = drm_make(device, part);
	for (i = 0; i < ARRAY_SIZE(made); i++)
		rig_drop(&made[i]);
	CHECK_EQUAL(stats_now().bytes_idle, MIB(1));
	CHECK(!fake || fake->handles() == 4);
	/* Another size is another object, and the oldest makes room for it. */
	leave(device, PAGE);
	CHECK_EQUAL(stats_now().bytes_idle, 3 * part + PAGE);
	check_used_again(device, PAGE);
	check_used_again(device, part);
}

static void bounds(void)
{
	each(check_bounds, "1");
}

static void check_count(struct hm_device *device)
{
	struct rig made[300];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(made); i++)
		made[i] = drm_make(device, PAGE);
	for (i = 0; i < ARRAY_SIZE(made); i++)
		rig_drop(&made[i]);
	/* Slowly, the first may have been there for a second. */
	CHECK(stats_now().bytes_idle <= 256 * PAGE);
	CHECK(!fake || fake->handles() <= 256);
}

static void count(void)
{
	each(check_count, "64");
}

static void check_none(struct hm_device *device)
{
	leave(device, SIZE);
	CHECK_EQUAL(stats_now().bytes_idle, 0);
	CHECK(!fake || !fake->handles());
}

static void none(void)
{
	static const char *const wrong[] = { "many", "-1", "64 MiB", "65537", " 1", "1x" };
	struct hm_device *device = NULL;
	size_t i;

	each(check_none, "0");
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		setenv("HETMAP_DRM_IDLE", wrong[i], 1);
		CHECK_ERROR(-EINVAL, hm_device_open(names[0], &device));
		CHECK(strstr(hm_errmsg(), wrong[i]) && strstr(hm_errmsg(), "HETMAP_DRM_IDLE"));
		CHECK(!device);
	}
}

/* Shared objects may still be in use elsewhere, so they are not kept. */
static void check_shared(struct hm_device *device)
{
	struct hm_buffer *twin;
	int fd = -1;
	struct rig made = drm_make(device, SIZE);

	CHECK_OK_FATAL(hm_buffer_export(made.buffer, HM_EXPORT_DMABUF, &fd));
	rig_drop(&made);
	CHECK_EQUAL(stats_now().bytes_idle, 0);
	CHECK_OK_FATAL(hm_buffer_import(device, fd, NULL, &twin));
	hm_buffer_unref(twin);
	CHECK_EQUAL(stats_now().bytes_idle, 0);
	close(fd);
	/* Also where an export failed, and may have given the object away. */
	made = drm_make(device, SIZE);
	inject_always("ioctl", EMFILE);
	CHECK_ERROR(-EMFILE, hm_buffer_export(made.buffer, HM_EXPORT_DMABUF, &fd));
	CHECK(inject_disarm());
	rig_drop(&made);
	CHECK_EQUAL(stats_now().bytes_idle, 0);
}

static void shared(void)
{
	inject_install();
	each(check_shared, "64");
}

/* ---- how long ---- */

static bool ends_by_itself(void)
{
	int tries;

	for (tries = 0; stats_now().bytes_idle && tries < 200; tries++)
		usleep(50000);
	return tries < 200;
}

/* An object leaves the count a moment before its handle is closed. */
static bool handles_end(void)
{
	int tries;

	for (tries = 0; fake && fake->handles() && tries < 200; tries++)
		usleep(50000);
	return tries < 200;
}

static void check_time(struct hm_device *device)
{
	leave(device, SIZE);
	CHECK(ends_by_itself());
	CHECK(handles_end());
	/* And once more, by the same thread. */
	leave(device, SIZE);
	CHECK_EQUAL(stats_now().bytes_idle, SIZE);
	CHECK(ends_by_itself());
}

static void time_is_up(void)
{
	each(check_time, "64");
}

/* Two devices: idle objects of one outlive the other, and all go where memory is short. */
static void memory_is_short(void)
{
	struct hm_device *one, *other;
	struct rig made;

	inject_install();
	one = open_at(0, "64");
	other = open_at(1, "64");
	leave(one, SIZE);
	leave(other, SIZE);
	CHECK_EQUAL(stats_now().bytes_idle, 2 * SIZE);
	hm_device_unref(other);
	CHECK_EQUAL(stats_now().bytes_idle, SIZE);
	other = open_at(1, "64");
	leave(other, SIZE);
	/* The first call is a look at the node, the next for an object's description. */
	inject_arm(2, INJECT_ONE);
	CHECK_OK(drm_try_make(one, 3 * SIZE, &made));
	CHECK(inject_disarm());
	CHECK_EQUAL(stats_now().bytes_idle, 0);
	CHECK(is_zero(made.bytes, 0, 3 * SIZE));
	rig_drop(&made);
	if (fake) {
		leave(other, SIZE);
		/* The driver refuses. */
		fake->fail(1, ENOSPC);
		CHECK_OK(drm_try_make(one, SIZE, &made));
		CHECK(fake->failed());
		fake->fail(0, 0);
		CHECK_EQUAL(stats_now().bytes_idle, 0);
		rig_drop(&made);
	}
	/* Nothing is left to be given up. */
	inject_always("calloc", ENOMEM);
	CHECK_ERROR(-ENOMEM, drm_try_make(one, 5 * SIZE, &made));
	inject_disarm();
	hm_device_unref(other);
	hm_device_unref(one);
	CHECK_EQUAL(stats_now().bytes_idle, 0);
}

/* ---- when something fails, or is not there any more ---- */

/* An object that was never mapped: its next user maps it. */
static char *leave_unmapped(struct hm_device *device, uint64_t size)
{
	drm_idle_empty();
	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = size));
	return NULL;
}

/* With each call failing in turn there is a buffer of zeros, or none, and no more. */
static void walk_failures(struct hm_device *device,
			  char *(*leave_one)(struct hm_device *device, uint64_t size))
{
	unsigned int n;
	struct rig made;
	bool more = true;
	int r;

	for (n = 1; more && n < 100; n++) {
		leave_one(device, SIZE);
		inject_arm(n, INJECT_ONE);
		r = drm_try_make(device, SIZE, &made);
		if (!r) {
			CHECK(is_zero(made.bytes, 0, SIZE));
			memset(made.bytes, 1, SIZE);
			rig_drop(&made);
		} else {
			CHECK(*hm_errmsg());
		}
		more = inject_disarm();
		inject_forgive();
	}
	CHECK(n > 8 && n < 100);
}

static void check_undo(struct hm_device *device)
{
	walk_failures(device, leave);
	walk_failures(device, leave_unmapped);
}

static void undo(void)
{
	inject_install();
	each(check_undo, "64");
}

/* The handle was closed behind its back: another object with its number is not taken for it. */
static void closed_behind(void)
{
	struct drm_gem_close gem_close = { 0 };
	struct drm_object *object;
	struct drm_node *node;
	unsigned int i;

	setenv("HETMAP_DRM_IDLE", "64", 1);
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		CHECK_OK_FATAL(drm_node_get(strchr(names[i], ':') + 1, &node));
		CHECK_OK_FATAL(drm_object_create(node, SIZE, DRM_PLACE_DEFAULT, &object));
		gem_close.handle = object->handle;
		drm_object_put(object);
		CHECK_EQUAL(stats_now().bytes_idle, SIZE);
		CHECK_FATAL(!ioctl(node->fd, DRM_IOCTL_GEM_CLOSE, &gem_close));
		CHECK_OK_FATAL(drm_object_create(node, SIZE, DRM_PLACE_DEFAULT, &object));
		CHECK_OK(node->driver->map_offset(object));
		drm_object_put(object);
		drm_node_put(node);
	}
}

static void taken_away(void)
{
	static const enum fake_drm_node nodes[] = { FAKE_NOUVEAU, FAKE_I915_INTEGRATED };
	struct hm_device *device;
	unsigned int i;

	for (i = 0; fake && i < ARRAY_SIZE(names); i++) {
		device = open_at(i, "64");
		AUTO(rig) made = drm_make(device, 2 * SIZE);
		leave(device, SIZE);
		fake->unplug(nodes[i], true);
		CHECK_ERROR(-ENODEV, drm_try_make(device, SIZE, &(struct rig){ 0 }));
		rig_drop(&made);
		CHECK_EQUAL(stats_now().bytes_idle, 0);
		hm_device_unref(device);
		fake->unplug(nodes[i], false);
	}
}

/* ---- threads and processes ---- */

#define THREADS 4
/* Emulated nodes take as long for a third of them. */
#define ROUNDS (fake ? 150 : 50)

static void *cycle(void *user)
{
	unsigned int at = (unsigned int)(uintptr_t)user, i;
	struct hm_device *device;
	struct rig made;
	uint64_t size;

	if (hm_device_open(names[at % ARRAY_SIZE(names)], &device))
		return (void *)"the device";
	for (i = 0; i < ROUNDS; i++) {
		size = SIZE << (i + at) % 3;
		if (drm_try_make(device, size, &made))
			return (void *)"a buffer";
		if (!is_zero(made.bytes, 0, size))
			return (void *)"zeros";
		pattern_write(made.bytes, 0, size, at);
		if (!pattern_holds(made.bytes, 0, size, at))
			return (void *)"its own bytes";
		rig_drop(&made);
		/* Now and then the node goes, and with it the thread that ends idle objects. */
		if (i % 16)
			continue;
		hm_device_unref(device);
		if (hm_device_open(names[(at + i) % ARRAY_SIZE(names)], &device))
			return (void *)"the device again";
	}
	hm_device_unref(device);
	return NULL;
}

static void threads(void)
{
	pthread_t thread[THREADS];
	uintptr_t i;
	void *lacks;

	setenv("HETMAP_DRM_IDLE", "1", 1);
	for (i = 0; i < THREADS; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, cycle, (void *)i));
	for (i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &lacks);
		if (lacks)
			test_fail(__FILE__, __LINE__, "thread %d lacks %s", (int)i,
				  (char *)lacks);
	}
	CHECK_EQUAL(stats_now().bytes_idle, 0);
}

static void in_child(void *user)
{
	(void)user;
	CHECK_EQUAL(stats_now().bytes_idle, 0);
	/*
	 * TSan lets no thread start in a child of a process that has several; a lock of
	 * ASan's allocator may be a thread's at the time of fork(): its run time has hung.
	 */
	if (TEST_TSAN || TEST_ASAN)
		return;
	AUTO(hm_device) *device = rig_device(names[0]);
	leave(device, SIZE);
	check_used_again(device, SIZE);
	CHECK(ends_by_itself());
}

/* A child has none of them, no thread, and its own. */
static void forked(void)
{
	AUTO(hm_device) *device = open_at(0, "64");
	char *stale = leave(device, SIZE);

	CHECK_EQUAL(test_fork(in_child, NULL), 0);
	CHECK_EQUAL(test_read_signal(stale), SIGSEGV);
	leave(device, SIZE);
	check_used_again(device, SIZE);
}

static const struct test tests[] = {
	{ "zeros", zeros, 0, 0 },
	{ "unmapped", unmapped, 0, 0 },
	{ "ways_of_mapping", ways_of_mapping, 0, 0 },
	{ "mapped_again", mapped_again, 0, 0 },
	{ "readers_keep", readers_keep, 0, 0 },
	{ "handled", handled, 0, 0 },
	{ "bounds", bounds, 0, 0 },
	{ "count", count, 0, 0 },
	{ "none", none, 0, 0 },
	{ "shared", shared, 0, 0 },
	{ "time_is_up", time_is_up, 60, 0 },
	{ "memory_is_short", memory_is_short, 0, 0 },
	{ "undo", undo, 0, 0 },
	{ "closed_behind", closed_behind, 0, 0 },
	{ "taken_away", taken_away, 0, 0 },
	{ "threads", threads, 60, 0 },
	{ "forked", forked, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

/* Both, or else fakes: which of this machine's other nodes could be used is unknown. */
static bool find_real(void)
{
	static const struct {
		const char *driver;
		bool primary;
	} wanted[ARRAY_SIZE(names)] = { { "virtio_gpu", false }, { "vgem", true } };
	struct drm_found found;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (!drm_find_usable(wanted[i].driver, wanted[i].primary, &found))
			return false;
		snprintf(names[i], sizeof(names[i]), "drm:%s", found.path);
	}
	return true;
}

int main(int argc, char **argv)
{
	char path[64];

	if (!find_real()) {
		fake = drm_under_fake(argv);
		snprintf(names[0], sizeof(names[0]), "drm:%s",
			 drm_fake_path(FAKE_NOUVEAU, path, sizeof(path)));
		snprintf(names[1], sizeof(names[1]), "drm:%s",
			 drm_fake_path(FAKE_I915_INTEGRATED, path, sizeof(path)));
	}
	return harness_main(argc, argv, "drm_idle", tests);
}
