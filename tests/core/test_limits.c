// SPDX-License-Identifier: MIT
/*
 * At the limits of a process: descriptors, address space, file size, mappings,
 * locked memory. Each test lowers its limit in a child: an error code, a text
 * that names the limit, nothing lost, and all well again with room.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "drm/drm_support.h"
#include "lib/units.h"

#define SIZE (8 * PAGE)

static int create(struct hm_device *device, uint64_t size, uint64_t max_size,
		  struct hm_buffer **ret_buffer)
{
	return hm_buffer_create(
		device, DESC(hm_buffer_desc, .size = size, .max_size = max_size), ret_buffer);
}

static void set_limit(int resource, uint64_t value)
{
	struct rlimit limit;

	CHECK(!getrlimit((__rlimit_resource_t)resource, &limit));
	limit.rlim_cur = value;
	CHECK(!setrlimit((__rlimit_resource_t)resource, &limit));
}

static void in_child(void (*run)(void *user))
{
	CHECK_EQUAL(test_fork(run, NULL), 0);
}

/* ---- descriptors ---- */

#define BUFFERS 64

static void few_descriptors(void *user)
{
	AUTO(hm_device) *device = rig_device("host");
	struct hm_buffer *buffers[BUFFERS], *one = NULL;
	int n = 0, r = 0, fd = -7;
	AUTO(hm_device) *files = rig_device("file");

	(void)user;
	set_limit(RLIMIT_NOFILE, 30);
	while (n < BUFFERS && !(r = create(device, SIZE, 0, &buffers[n])))
		n++;
	CHECK_EQUAL(r, -EMFILE);
	CHECK(strstr(hm_errmsg(), "RLIMIT_NOFILE"));
	CHECK(n > 0 && n < BUFFERS);
	CHECK_ERROR(-EMFILE, hm_buffer_export(buffers[0], 0, &fd));
	CHECK(strstr(hm_errmsg(), "RLIMIT_NOFILE"));
	CHECK_ERROR(-EMFILE, hm_buffer_from_file(files, "/etc/passwd", -1, NULL, &one));
	CHECK(strstr(hm_errmsg(), "RLIMIT_NOFILE"));
	CHECK_ERROR(-EMFILE, hm_buffer_from_file(files, NULL, 0, NULL, &one));
	CHECK_EQUAL(fd, -7);
	CHECK(!one);
	hm_buffer_unref(buffers[--n]);
	CHECK_OK(create(device, SIZE, 0, &buffers[n++]));
	while (n--)
		hm_buffer_unref(buffers[n]);
}

static void descriptors(void)
{
	in_child(few_descriptors);
}

/* ---- address space ---- */

static void little_space(void *user)
{
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = NULL;
	AUTO(hm_map) *map = NULL;
	char *bytes;

	(void)user;
	CHECK_OK_FATAL(create(device, SIZE, MIB(1024), &buffer));
	set_limit(RLIMIT_AS, test_status_bytes("VmSize") + MIB(24));
	CHECK_ERROR(-ENOMEM, hm_map_create(buffer, NULL, &map));
	CHECK(strstr(hm_errmsg(), "RLIMIT_AS"));
	CHECK(!map);
	CHECK_EQUAL(buffer_info(buffer).maps, 0);
	/* The default reservation is 64 MiB; less must do, and it says so. */
	test_forget_text();
	CHECK_OK_FATAL(hm_alloc(device, MIB(1), HM_READ | HM_WRITE, &bytes));
	CHECK(strstr(hm_warning(), "RLIMIT_AS"));
	pattern_write(bytes, 0, MIB(1), 1);
	CHECK_OK(hm_realloc(bytes, MIB(2), 0, NULL));
	CHECK_ERROR(-ENOMEM, hm_realloc(bytes, MIB(40), HM_MAY_MOVE, NULL));
	CHECK(pattern_holds(bytes, 0, MIB(1), 1));
	CHECK_OK(hm_free(bytes));
	set_limit(RLIMIT_AS, RLIM_INFINITY);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
}

/* soft has room for all that a buffer may become, from the start. */
static void little_space_on_soft(void *user)
{
	AUTO(hm_device) *device = rig_device("soft:0");
	AUTO(hm_buffer) *buffer = NULL;

	(void)user;
	set_limit(RLIMIT_AS, test_status_bytes("VmSize") + MIB(24));
	CHECK_ERROR(-ENOMEM, create(device, SIZE, MIB(512), &buffer));
	CHECK(strstr(hm_errmsg(), "RLIMIT_AS"));
	CHECK(!buffer);
	set_limit(RLIMIT_AS, RLIM_INFINITY);
	CHECK_OK_FATAL(create(device, SIZE, MIB(512), &buffer));
}

/* Growth past max_size makes room for more, but only where there is some. */
static void just_enough_space(void *user)
{
	const uint64_t size = MIB(32);
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = NULL;

	(void)user;
	CHECK_OK_FATAL(create(device, size, 0, &buffer));
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	/* A new object, and the old one once more to copy from it. */
	set_limit(RLIMIT_AS, test_status_bytes("VmSize") + 2 * size + MIB(12));
	CHECK_OK(hm_buffer_resize(buffer, size + PAGE, HM_MAY_MOVE));
	CHECK_EQUAL(buffer_info(buffer).max_size, size + PAGE);
	CHECK_EQUAL(hm_map_length(map), size + PAGE);
	set_limit(RLIMIT_AS, RLIM_INFINITY);
}

/*
 * Address space for a map but not for its alignment; then not for its guards; then not for the map.
 */
static void space_for_one_map(void *user)
{
	const struct hm_map_desc guarded = { .struct_size = sizeof(guarded),
					     .access = HM_READ | HM_WRITE,
					     .flags = HM_MAP_GUARD };
	AUTO(hm_device) *device = rig_device("host");
	const uint64_t size = MIB(8);
	AUTO(hm_buffer) *buffer = NULL;
	struct hm_map *map = NULL;
	uint64_t before;

	(void)user;
	CHECK_OK_FATAL(create(device, size, 0, &buffer));
	/* Memory of the registry for a map stays. */
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	hm_map_unref(map);
	before = test_status_bytes("VmSize");
	set_limit(RLIMIT_AS, before + size + MIB(1));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK(!((uintptr_t)hm_map_address(map) % MIB(2)));
	hm_map_unref(map);
	CHECK_OK_FATAL(hm_map_create(buffer, &guarded, &map));
	hm_map_unref(map);
	CHECK_EQUAL(test_status_bytes("VmSize"), before);
	map = NULL;
	set_limit(RLIMIT_AS, before + size + PAGE);
	CHECK_ERROR(-ENOMEM, hm_map_create(buffer, &guarded, &map));
	CHECK(strstr(hm_errmsg(), "beyond RLIMIT_AS, "));
	set_limit(RLIMIT_AS, before + size - PAGE);
	CHECK_ERROR(-ENOMEM, hm_map_create(buffer, NULL, &map));
	CHECK(strstr(hm_errmsg(), "beyond RLIMIT_AS, "));
	CHECK(!map);
	set_limit(RLIMIT_AS, RLIM_INFINITY);
}

#define HOLE (512ull << 30)

/* All address space is in use, except one place that is as large as a map. */
static void one_hole(void *user)
{
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = NULL;
	struct hm_map *map = NULL;
	char *ranges[512];
	int n = 0;

	(void)user;
	CHECK_OK_FATAL(create(device, SIZE, HOLE, &buffer));
	for (; n < 512; n++) {
		ranges[n] = mmap(NULL, HOLE, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (ranges[n] == MAP_FAILED)
			break;
	}
	CHECK_FATAL(n > 2 && n < 512);
	CHECK_ERROR(-ENOMEM, hm_map_create(buffer, NULL, &map));
	CHECK(strstr(hm_errmsg(), "no limit of the process is it"));
	munmap(ranges[n / 2], HOLE);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK(hm_map_address(map) == ranges[n / 2]);
	pattern_write(hm_map_address(map), 0, SIZE, 1);
	hm_map_unref(map);
	ranges[n / 2] = ranges[n - 1];
	n--;
	while (n)
		munmap(ranges[--n], HOLE);
}

/* Private memory that may be written counts against a limit of its own. */
static void little_data(void *user)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
				       .flags = HM_BUFFER_PRIVATE,
				       .size = MIB(8) };
	AUTO(rig) r = rig_make("host", &desc);

	(void)user;
	CHECK_OK_FATAL(hm_map_protect(r.map, 0, desc.size, HM_READ));
	set_limit(RLIMIT_DATA, test_status_bytes("VmData") + MIB(4));
	CHECK_ERROR(-ENOMEM, hm_map_protect(r.map, 0, desc.size, HM_READ | HM_WRITE));
	CHECK(strstr(hm_errmsg(), "beyond RLIMIT_DATA, "));
	CHECK(strstr(hm_errmsg(), "(ulimit -d)"));
	set_limit(RLIMIT_DATA, RLIM_INFINITY);
	CHECK_OK(hm_map_protect(r.map, 0, desc.size, HM_READ | HM_WRITE));
}

/* A thread's stack finds no room: of several descriptors there is no one, nor a new one. */
static void no_room_for_threads(void *user)
{
	struct hm_fence *parts[2], *merged;
	int events[2], fd = -7;
	uint64_t before;
	size_t i;

	(void)user;
	for (i = 0; i < 2; i++) {
		events[i] = eventfd(0, EFD_CLOEXEC);
		CHECK_OK_FATAL(hm_fence_import_fd(events[i], &parts[i]));
	}
	CHECK_OK_FATAL(hm_fence_merge(parts, 2, &merged));
	before = test_holding_now().fds;
	set_limit(RLIMIT_AS, test_status_bytes("VmSize") + MIB(1));
	CHECK_ERROR(-EAGAIN, hm_fence_fd(merged, &fd));
	CHECK(strstr(hm_errmsg(), "hm_fence_fd: no thread could be started: its stack of "));
	CHECK(strstr(hm_errmsg(), " is beyond RLIMIT_AS, "));
	CHECK_EQUAL(fd, -7);
	CHECK_EQUAL(test_holding_now().fds, before);
	set_limit(RLIMIT_AS, RLIM_INFINITY);
	CHECK_OK(hm_fence_fd(merged, &fd));
	close(fd);
	for (i = 0; i < 2; i++) {
		hm_fence_unref(parts[i]);
		close(events[i]);
	}
	hm_fence_unref(merged);
}

static void address_space(void)
{
	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "the sanitizer needs all of the address space");
		return;
	}
	in_child(little_space);
	in_child(little_space_on_soft);
	in_child(just_enough_space);
	in_child(space_for_one_map);
	in_child(one_hole);
	in_child(little_data);
	in_child(no_room_for_threads);
}

/* ---- file size ---- */

static void small_files(void *user)
{
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = NULL;

	(void)user;
	set_limit(RLIMIT_FSIZE, MIB(1));
	CHECK_ERROR(-EFBIG, create(device, MIB(2), 0, &buffer));
	CHECK(strstr(hm_errmsg(), "RLIMIT_FSIZE"));
	CHECK_ERROR(-EFBIG, create(device, PAGE, MIB(2), &buffer));
	CHECK(!buffer);
	CHECK_OK_FATAL(create(device, MIB(1), MIB(1), &buffer));
	CHECK_ERROR(-EFBIG, hm_buffer_resize(buffer, MIB(2), HM_MAY_MOVE));
	CHECK(strstr(hm_errmsg(), "RLIMIT_FSIZE"));
	CHECK_EQUAL(buffer_info(buffer).size, MIB(1));
}

static void file_size(void)
{
	in_child(small_files);
}

/* ---- mappings ---- */

#define MAX_MAPS "/proc/sys/vm/max_map_count"

static uint64_t read_number(const char *path)
{
	unsigned long long number = 0;
	FILE *file = fopen(path, "re");

	if (!file || fscanf(file, "%llu", &number) != 1)
		number = 0;
	if (file)
		fclose(file);
	return number;
}

struct crowd {
	char *base;
	uint64_t pages;
};

/* One mapping a page, until the kernel takes no more. */
static void crowd_in(struct crowd *crowd, uint64_t max_maps)
{
	uint64_t i;

	crowd->pages = max_maps + 16;
	crowd->base = mmap(NULL, crowd->pages * PAGE, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK_FATAL(crowd->base != MAP_FAILED);
	for (i = 0; i < crowd->pages; i += 2)
		if (mprotect(crowd->base + i * PAGE, PAGE, PROT_READ))
			break;
}

/* Makes room for @n mappings, by two at a time. */
static void make_room(struct crowd *crowd, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i += 2)
		mprotect(crowd->base + i * PAGE, PAGE, PROT_NONE);
}

struct tight {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
};

static int tight_map(struct tight *t)
{
	struct hm_map *map;
	int r = hm_map_create(t->buffer, NULL, &map);

	if (!r)
		hm_map_unref(map);
	return r;
}

static int tight_protect(struct tight *t)
{
	int r = hm_map_protect(t->map, PAGE, PAGE, HM_READ);

	return r ? r : hm_map_protect(t->map, PAGE, PAGE, HM_READ | HM_WRITE);
}

static int tight_lock(struct tight *t)
{
	int r = hm_map_lock(t->map, 2 * PAGE, PAGE, 0, NULL);

	return r ? r : hm_map_unlock(t->map, 2 * PAGE, PAGE);
}

static int tight_grow(struct tight *t)
{
	int r = hm_buffer_resize(t->buffer, 2 * SIZE, 0);

	return r ? r : hm_buffer_resize(t->buffer, SIZE, 0);
}

static int tight_append(struct tight *t)
{
	int r = hm_buffer_resize(t->buffer, 3 * SIZE, HM_GROW_APPEND);

	return r ? r : hm_buffer_resize(t->buffer, SIZE, 0);
}

static int tight_replace(struct tight *t)
{
	int r = hm_buffer_resize(t->buffer, 2 * SIZE, HM_GROW_REPLACE);

	return r ? r : hm_buffer_resize(t->buffer, SIZE, 0);
}

static int tight_move(struct tight *t)
{
	return hm_buffer_resize(t->buffer, buffer_info(t->buffer).max_size + 1, HM_MAY_MOVE);
}

struct tight_row {
	const char *name;
	int (*run)(struct tight *t);
	uint64_t cap;    /* without which it can't be */
	bool everywhere; /* else on the host only: each takes its time */
};

/* Each is tried with no room, then with more and more of it, until it works. */
static void try_tight(struct hm_device *device, const struct tight_row *row, uint64_t max_maps)
{
	struct tight t = { .device = device };
	struct crowd crowd;
	uint64_t room;
	int r = -1;

	CHECK_OK_FATAL(create(t.device, SIZE, 4 * SIZE, &t.buffer));
	if (row->cap & ~buffer_info(t.buffer).caps) {
		hm_buffer_unref(t.buffer);
		return;
	}
	CHECK_OK_FATAL(hm_map_create(t.buffer, NULL, &t.map));
	pattern_write(hm_map_address(t.map), 0, SIZE, 1);
	crowd_in(&crowd, max_maps);
	for (room = 0; r && room <= 64; room += 2) {
		make_room(&crowd, room);
		r = row->run(&t);
		if (r && r != -ENOMEM)
			test_fail(__FILE__, __LINE__, "%s with room for %" PRIu64 ": %d (%s)",
				  row->name, room, r, hm_errmsg());
		/* The C library may need a mapping, too, to have memory to give. */
		if (r && !strstr(hm_errmsg(), "max_map_count") &&
		    !strstr(hm_errmsg(), "no memory for"))
			test_fail(__FILE__, __LINE__, "%s with room for %" PRIu64 ": %s",
				  row->name, room, hm_errmsg());
		if (hm_map_length(t.map) < SIZE ||
		    !pattern_holds(hm_map_address(t.map), 0, SIZE, 1)) {
			test_fail(__FILE__, __LINE__,
				  "%s with room for %" PRIu64 ": bytes lost", row->name, room);
			break;
		}
	}
	if (r)
		test_fail(__FILE__, __LINE__, "%s never worked: %s", row->name, hm_errmsg());
	hm_map_unref(t.map);
	hm_buffer_unref(t.buffer);
	munmap(crowd.base, crowd.pages * PAGE);
}

static void crowded(void *user)
{
	static const struct tight_row rows[] = {
		{ "map", tight_map, 0, true },
		{ "protect", tight_protect, HM_CAP_PROTECT, false },
		{ "lock", tight_lock, HM_CAP_LOCK, false },
		{ "grow", tight_grow, HM_CAP_RESIZE, false },
		{ "append", tight_append, HM_CAP_APPEND, false },
		{ "replace", tight_replace, HM_CAP_REPLACE, true },
		{ "move", tight_move, HM_CAP_REPLACE, false },
	};
	/* Whichever are there; the last is vgem's card node, which has no other name. */
	const char *devices[] = { "host", "drm:virtio_gpu", "heap:system", "udmabuf", NULL };
	uint64_t max_maps = *(uint64_t *)user;
	struct drm_found vgem;
	char card[80];
	struct hm_device *device;
	size_t i, d;

	if (drm_find_usable("vgem", true, &vgem)) {
		snprintf(card, sizeof(card), "drm:%s", vgem.path);
		devices[4] = card;
	}
	for (d = 0; d < sizeof(devices) / sizeof(devices[0]) && devices[d]; d++) {
		if (hm_device_open(devices[d], &device))
			continue;
		for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			if (!d || rows[i].everywhere)
				try_tight(device, &rows[i], max_maps);
		hm_device_unref(device);
	}
}

/* Where hetsim is, the machine is the tests': fewer take less time to use up. */
static void set_max_maps(uint64_t max_maps)
{
	FILE *file = access("/dev/hetsim0", F_OK) ? NULL : fopen(MAX_MAPS, "we");

	if (!file)
		return;
	fprintf(file, "%" PRIu64, max_maps);
	fclose(file);
}

static void mappings(void)
{
	const uint64_t usual = read_number(MAX_MAPS);
	uint64_t max_maps;

	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "the sanitizer needs mappings of its own");
		return;
	}
	set_max_maps(4096);
	max_maps = read_number(MAX_MAPS);
	if (!max_maps || max_maps > 300000) {
		test_skip("kernel", "vm.max_map_count is %" PRIu64 ": too many to use up",
			  max_maps);
		return;
	}
	CHECK_EQUAL(test_fork(crowded, &max_maps), 0);
	set_max_maps(usual);
}

/* ---- locked memory ---- */

static void everything_locked(void *user)
{
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = NULL;
	AUTO(hm_map) *map = NULL;
	char *bytes;

	(void)user;
	CHECK_OK_FATAL(create(device, SIZE, MIB(1024), &buffer));
	/* Less than a reservation; a sanitizer maps its heap's large blocks besides. */
	limit_memlock(TEST_ASAN ? MIB(8) : MIB(1) / 2);
	/* By number: under a sanitizer libc's does nothing. */
	CHECK_FATAL(!syscall(SYS_mlockall, MCL_FUTURE));
	CHECK_ERROR(-EAGAIN, hm_map_create(buffer, NULL, &map));
	CHECK(strstr(hm_errmsg(), "RLIMIT_MEMLOCK"));
	CHECK(!map);
	test_forget_text();
	CHECK_OK_FATAL(hm_alloc(device, SIZE, HM_READ | HM_WRITE, &bytes));
	CHECK(strstr(hm_warning(), "RLIMIT_MEMLOCK"));
	pattern_write(bytes, 0, SIZE, 1);
	CHECK(pattern_holds(bytes, 0, SIZE, 1));
	CHECK_OK(hm_free(bytes));
	syscall(SYS_munlockall);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
}

/* Pages that mlockall() keeps are given back by a shrink all the same. */
static void shrink_locked(void *user)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
				       .flags = HM_BUFFER_PRIVATE,
				       .size = SIZE };
	struct hm_device *device = rig_device("host");
	struct hm_buffer *buffer;
	struct hm_map *map;

	(void)user;
	CHECK_FATAL(!syscall(SYS_mlockall, MCL_FUTURE));
	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	pattern_write(hm_map_address(map), 0, SIZE, 1);
	CHECK_OK(hm_buffer_resize(buffer, PAGE + 5, 0));
	CHECK_OK(hm_buffer_resize(buffer, SIZE, 0));
	CHECK(pattern_holds(hm_map_address(map), 0, PAGE + 5, 1));
	CHECK(is_zero(hm_map_address(map), PAGE + 5, SIZE));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	syscall(SYS_munlockall);
}

static void all_locked(void)
{
	if (TEST_TSAN) {
		test_skip("sanitizer", "the sanitizer maps more than may be locked");
		return;
	}
	in_child(everything_locked);
	in_child(shrink_locked);
}

/* The text names the limit, the locked bytes, and the missing ones. */
static void few_locked(void *user)
{
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = NULL;
	char needed[32];

	(void)user;
	CHECK_OK_FATAL(create(device, SIZE, 0, &buffer));
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	limit_memlock(3 * PAGE);
	CHECK_OK(hm_map_lock(map, 0, PAGE, 0, NULL));
	CHECK_ERROR(-ENOMEM, hm_map_lock(map, PAGE, 4 * PAGE, 0, NULL));
	snprintf(needed, sizeof(needed), "%" PRIu64,
		 test_status_bytes("VmLck") + (uint64_t)(4 * PAGE));
	CHECK(strstr(hm_errmsg(), "RLIMIT_MEMLOCK"));
	CHECK(strstr(hm_errmsg(), needed));
	CHECK(strstr(hm_errmsg(), "8192")); /* two pages short */
}

static void locked(void)
{
	in_child(few_locked);
}

static const struct test tests[] = {
	{ "descriptors", descriptors, 0, 0 },
	{ "address_space", address_space, 0, 0 },
	{ "file_size", file_size, 0, 0 },
	{ "mappings", mappings, 120, 0 },
	{ "all_locked", all_locked, 0, 0 },
	{ "locked", locked, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "limits", tests)
