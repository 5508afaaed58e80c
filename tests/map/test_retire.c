// SPDX-License-Identifier: MIT
/* Retirement: which objects wait, for how long, within which bounds, and which do not wait. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <urcu/urcu-bp.h>

#include "map/retire_support.h"
#include "base/sys.h"
#include "base/util.h"
#include "lib/units.h"

#define SIZE (4 * PAGE)

static struct test_holding holding_with_table(void)
{
	make_table();
	return test_holding_now();
}

/*
 * Is a buffer's memory there? By its name: another allocation may get the address soon (a
 * thread of urcu's, a sanitizer's runtime).
 */
static bool is_mapped(const void *address)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], *dash;
	bool mapped = false;

	CHECK_FATAL(maps != NULL);
	while (!mapped && fgets(line, sizeof(line), maps))
		mapped = strtoull(line, &dash, 16) <= (uintptr_t)address && *dash == '-' &&
			 strtoull(dash + 1, NULL, 16) > (uintptr_t)address &&
			 strstr(line, "/memfd:hetmap:");
	fclose(maps);
	return mapped;
}

/* ---- arguments ---- */

static void arguments(void)
{
	struct hm_retire_desc desc = { .struct_size = sizeof(desc), .flags = HM_RETIRE_DEFER };
	struct {
		struct hm_retire_desc desc;
		uint64_t newer;
	} more = { .desc = { .struct_size = sizeof(more) }, .newer = 1 };

	desc.flags = 4;
	CHECK_ERROR(-EINVAL, hm_retire_set(&desc));
	desc.flags = HM_RETIRE_DEFER;
	desc.max_objects = (1 << 20) + 1;
	CHECK_ERROR(-EINVAL, hm_retire_set(&desc));
	desc.max_objects = 0;
	desc.max_bytes = UINT64_MAX;
	CHECK_ERROR(-EINVAL, hm_retire_set(&desc));
	desc.struct_size = 4;
	CHECK_ERROR(-EINVAL, hm_retire_set(&desc));
	CHECK_ERROR(-E2BIG, hm_retire_set(&more.desc));
	/* Without the flag the bounds mean nothing. */
	desc = (struct hm_retire_desc){ .struct_size = sizeof(desc), .max_objects = 7 };
	CHECK_OK(hm_retire_set(&desc));
	CHECK_OK(hm_retire_set(NULL));
	CHECK_OK(hm_retire_flush());
}

static void in_place_at_first(void)
{
	AUTO(hm_device) *device = rig_device("host");
	struct test_holding before = holding_with_table();
	uint64_t retired = stats_now().retired, in_place = stats_now().retired_in_place;
	struct hm_map *map = lone_map(device, SIZE);
	char *address = hm_map_address(map);

	CHECK(is_mapped(address));
	hm_map_unref(map);
	CHECK(!is_mapped(address));
	CHECK_EQUAL(test_holding_now().fds, before.fds);
	CHECK_EQUAL(stats_now().retired, retired);
	CHECK_EQUAL(stats_now().retired_in_place, in_place);
}

/* The handle and the look-up end at once; mapping, descriptor and memory later. */
static void deferred(void)
{
	AUTO(hm_device) *device = rig_device("host");
	struct test_holding before = holding_with_table();
	struct hm_pointer_info info;
	struct hm_stats old = stats_now(), now;
	struct section section;
	struct hm_map *map;
	char *address;

	defer(16, MIB(1));
	section_begin(&section);
	map = lone_map(device, SIZE);
	address = hm_map_address(map);
	pattern_write(address, 0, SIZE, 1);
	hm_map_unref(map);
	CHECK_EQUAL(hm_pointer_find(address, &info), -ENOENT);
	now = stats_now();
	CHECK_EQUAL(now.maps, old.maps);
	CHECK_EQUAL(now.bytes_mapped, old.bytes_mapped);
	CHECK_EQUAL(now.backlog, 1);
	CHECK_EQUAL(now.backlog_bytes, SIZE);
	CHECK_EQUAL(now.retired, old.retired + 1);
	CHECK_EQUAL(now.buffers, old.buffers + 1); /* which the backlog holds */
	CHECK(is_mapped(address) && pattern_holds(address, 0, SIZE, 1));
	CHECK_EQUAL(test_holding_now().fds, before.fds + 1);
	section_end(&section);
	CHECK_OK(hm_retire_flush());
	CHECK(!is_mapped(address));
	now = stats_now();
	CHECK_EQUAL(now.backlog, 0);
	CHECK_EQUAL(now.backlog_bytes, 0);
	CHECK_EQUAL(now.buffers, old.buffers);
	CHECK_EQUAL(now.bytes_reserved, old.bytes_reserved);
	CHECK_EQUAL(now.retired_in_place, old.retired_in_place);
	CHECK_EQUAL(test_holding_now().fds, before.fds);
	defer(0, 0);
}

/* A buffer alone, and the device that only the backlog holds. */
static void last_ones(void)
{
	_Atomic int *objects = counted_objects();
	struct section section;
	struct hm_buffer *buffer;
	struct hm_device *device;

	defer(16, MIB(1));
	section_begin(&section);
	CHECK_OK_FATAL(hm_device_open("counted", &device));
	CHECK_OK_FATAL(hm_buffer_create(device, DESC(hm_buffer_desc, .size = SIZE), &buffer));
	hm_device_unref(device);
	hm_buffer_unref(buffer);
	CHECK_EQUAL(*objects, 1);
	CHECK_EQUAL(stats_now().devices, 1);
	section_end(&section);
	CHECK_OK(hm_retire_flush());
	CHECK_EQUAL(*objects, 0);
	CHECK_EQUAL(stats_now().devices, 0);
	defer(0, 0);
}

/* ---- readers ---- */

struct looking {
	char *address;
	sem_t found, go_on;
};

static void *look(void *user)
{
	struct looking *looking = user;
	struct hm_pointer_info info;

	urcu_bp_read_lock();
	CHECK_EQUAL(hm_pointer_find(looking->address + 5, &info), 0);
	sem_post(&looking->found);
	while (sem_wait(&looking->go_on))
		;
	/* Its owner has let go of it meanwhile. */
	CHECK(pattern_holds(info.base, 0, info.length, 3));
	urcu_bp_read_unlock();
	return NULL;
}

static void readers_keep(void)
{
	AUTO(hm_device) *device = rig_device("host");
	struct looking looking;
	struct hm_map *map;
	pthread_t thread;

	defer(16, MIB(1));
	map = lone_map(device, SIZE);
	looking.address = hm_map_address(map);
	pattern_write(looking.address, 0, SIZE, 3);
	sem_init(&looking.found, 0, 0);
	sem_init(&looking.go_on, 0, 0);
	CHECK_FATAL(!pthread_create(&thread, NULL, look, &looking));
	while (sem_wait(&looking.found))
		;
	hm_map_unref(map);
	usleep(20000); /* longer than the thread's naps */
	CHECK_EQUAL(stats_now().backlog, 1);
	sem_post(&looking.go_on);
	pthread_join(thread, NULL);
	CHECK_OK(hm_retire_flush());
	CHECK(!is_mapped(looking.address));
	defer(0, 0);
	sem_destroy(&looking.found);
	sem_destroy(&looking.go_on);
}

/* ---- bounds ---- */

struct dropping {
	struct hm_map *map;
	_Atomic bool done;
};

static void *drop(void *user)
{
	struct dropping *dropping = user;

	hm_map_unref(dropping->map);
	atomic_store(&dropping->done, true);
	return NULL;
}

/* Fills the backlog, then drops one of @size more, which waits for the section. */
static void one_too_many(struct hm_device *device, unsigned int fit, uint64_t size,
			 uint64_t objects, uint64_t bytes)
{
	uint64_t in_place = stats_now().retired_in_place;
	struct dropping dropping = { 0 };
	struct section section;
	pthread_t thread;
	unsigned int i, tries;

	defer(objects, bytes);
	dropping.map = lone_map(device, size);
	section_begin(&section);
	for (i = 0; i < fit; i++)
		hm_map_unref(lone_map(device, SIZE));
	CHECK_EQUAL(stats_now().backlog, fit);
	CHECK_EQUAL(stats_now().retired_in_place, in_place);
	CHECK_FATAL(!pthread_create(&thread, NULL, drop, &dropping));
	/* The thread stops at the wait for the section. */
	for (tries = 0; tries < 5000 && stats_now().retired_in_place == in_place; tries++)
		usleep(2000);
	usleep(20000);
	CHECK(!atomic_load(&dropping.done));
	CHECK_EQUAL(stats_now().backlog, fit);
	CHECK_EQUAL(stats_now().retired_in_place, in_place + 1);
	section_end(&section);
	pthread_join(thread, NULL);
	CHECK_OK(hm_retire_flush());
	CHECK_EQUAL(stats_now().backlog, 0);
	CHECK_EQUAL(stats_now().backlog_bytes, 0);
	defer(0, 0);
}

static void bounds(void)
{
	AUTO(hm_device) *device = rig_device("host");

	one_too_many(device, 4, SIZE, 4, MIB(1));
	one_too_many(device, 3, SIZE, 16, 4 * SIZE - 1);
	/* Larger than the bound by itself. */
	one_too_many(device, 0, 2 * SIZE, 16, SIZE);
}

/* A buffer beyond the bound and a map of its first page, which are both dropped. */
struct parting {
	struct hm_buffer *buffer;
	struct hm_map *map;
	bool buffer_first;
	_Atomic bool done;
};

static void *part(void *user)
{
	struct parting *parting = user;

	if (parting->buffer_first)
		hm_buffer_unref(parting->buffer);
	hm_map_unref(parting->map);
	if (!parting->buffer_first)
		hm_buffer_unref(parting->buffer);
	atomic_store(&parting->done, true);
	return NULL;
}

static void part_of(struct hm_device *device, uint64_t size, bool buffer_first, bool waits)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = size };
	uint64_t buffers = stats_now().buffers, in_place = stats_now().retired_in_place;
	struct parting parting = { .buffer_first = buffer_first };
	struct section section;
	pthread_t thread;
	int tries;

	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &parting.buffer));
	parting.map =
		rig_map(parting.buffer, DESC(hm_map_desc, .access = HM_READ, .length = PAGE));
	section_begin(&section);
	CHECK_FATAL(!pthread_create(&thread, NULL, part, &parting));
	for (tries = 0; tries < 1000 && !atomic_load(&parting.done) &&
			stats_now().retired_in_place == in_place;
	     tries++)
		usleep(2000);
	CHECK_EQUAL(atomic_load(&parting.done), !waits);
	CHECK_EQUAL(stats_now().retired_in_place, in_place + waits);
	CHECK_EQUAL(stats_now().backlog_bytes, waits ? PAGE : PAGE + size);
	section_end(&section);
	pthread_join(thread, NULL);
	CHECK_OK(hm_retire_flush());
	CHECK_EQUAL(stats_now().backlog, 0);
	CHECK_EQUAL(stats_now().backlog_bytes, 0);
	CHECK_EQUAL(stats_now().buffers, buffers);
}

/* A map of a part holds its whole buffer. */
static void parts(void)
{
	AUTO(hm_device) *device = rig_device("host");
	int i;

	defer(16, MIB(1));
	for (i = 0; i < 2; i++) {
		part_of(device, SIZE, i, false);
		part_of(device, MIB(1), i, true);
	}
	defer(0, 0);
}

/* Objects beyond a lowered bound are waited for. */
static void lowered(void)
{
	AUTO(hm_device) *device = rig_device("host");
	struct section section;
	int i;

	defer(8, MIB(1));
	section_begin(&section);
	for (i = 0; i < 8; i++)
		hm_map_unref(lone_map(device, SIZE));
	CHECK_EQUAL(stats_now().backlog, 8);
	section_end_later(&section, 20000);
	defer(2, MIB(1));
	CHECK(stats_now().backlog <= 2);
	section_join(&section);
	CHECK_OK(hm_retire_flush());
	section_begin(&section);
	hm_map_unref(lone_map(device, SIZE));
	section_end_later(&section, 20000);
	defer(0, 0);
	CHECK_EQUAL(stats_now().backlog, 0);
	section_join(&section);
}

/* A thread that waited in its own section would wait for ever. */
static void own_section(void)
{
	AUTO(hm_device) *device = rig_device("host");
	struct hm_map *map[5], *locked;
	int i;

	defer(2, MIB(1));
	for (i = 0; i < 5; i++)
		map[i] = lone_map(device, SIZE);
	locked = lone_map(device, SIZE);
	CHECK_OK(hm_map_lock(locked, 0, PAGE, HM_LOCK_PARTIAL, NULL));
	urcu_bp_read_lock();
	for (i = 0; i < 5; i++)
		hm_map_unref(map[i]);
	hm_map_unref(locked);
	CHECK_EQUAL(stats_now().backlog, 6);
	CHECK_ERROR(-EDEADLK, hm_retire_flush());
	CHECK_ERROR(-EDEADLK, hm_retire_set(NULL));
	urcu_bp_read_unlock();
	CHECK_OK(hm_retire_flush());
	CHECK_EQUAL(stats_now().backlog, 0);
	defer(0, 0);
}

/* ---- in place ---- */

/* The limit of locked bytes is the process's: retirement returns them at once. */
static void locked_bytes(void)
{
	AUTO(hm_device) *device = rig_device("host");
	uint64_t before = test_status_bytes("VmLck"), retired;
	struct hm_map *map;

	defer(16, MIB(1));
	map = lone_map(device, SIZE);
	retired = stats_now().retired;
	CHECK_OK(hm_map_lock(map, 0, PAGE, 0, NULL));
	CHECK_EQUAL(test_status_bytes("VmLck"), before + PAGE);
	hm_map_unref(map);
	CHECK_EQUAL(test_status_bytes("VmLck"), before);
	CHECK_EQUAL(stats_now().retired, retired);
	defer(0, 0);
}

/* ---- the backlog holds something that is needed ---- */

static void relieves_descriptors(void)
{
	AUTO(hm_device) *device = rig_device("host");
	struct rlimit limit, before;
	struct section section;
	struct hm_map *map;
	int i, fd;

	defer(64, MIB(4));
	section_begin(&section);
	for (i = 0; i < 8; i++)
		hm_map_unref(lone_map(device, SIZE));
	/* The next open() would get the lowest free number. */
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(fd);
	CHECK_FATAL(!getrlimit(RLIMIT_NOFILE, &before));
	limit = before;
	limit.rlim_cur = (rlim_t)fd;
	CHECK_FATAL(!setrlimit(RLIMIT_NOFILE, &limit));
	section_end_later(&section, 20000);
	map = lone_map(device, SIZE);
	CHECK_EQUAL(stats_now().backlog, 0);
	section_join(&section);

	/* Nothing is waited for where nothing waits, and it fails as ever. */
	limit.rlim_cur = 0;
	CHECK_FATAL(!setrlimit(RLIMIT_NOFILE, &limit));
	CHECK_ERROR(-EMFILE, hm_buffer_create(device, DESC(hm_buffer_desc, .size = SIZE),
					      &(struct hm_buffer *){ NULL }));
	CHECK_FATAL(!setrlimit(RLIMIT_NOFILE, &before));
	hm_map_unref(map);
	defer(0, 0);
}

/* Device memory that fits once. */
static void relieves_device(void)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = MIB(12) };
	struct hm_buffer *buffer = NULL;
	struct section section;

	setenv("HETMAP_SOFT", "vram_mb=16 system_mb=4 opener_mb=20", 1);
	AUTO(hm_device) *device = rig_device("soft:0");
	defer(64, GIB(1));
	section_begin(&section);
	hm_map_unref(lone_map(device, MIB(12)));
	CHECK_EQUAL(stats_now().backlog, 1);
	/* Here it can't wait: the lack is real. */
	urcu_bp_read_lock();
	CHECK_ERROR(-ENOSPC, hm_buffer_create(device, &desc, &buffer));
	urcu_bp_read_unlock();
	CHECK(!buffer);
	section_end_later(&section, 20000);
	hm_map_unref(lone_map(device, MIB(12)));
	section_join(&section);
	CHECK_OK(hm_retire_flush());
	defer(0, 0);
}

/* Address space, as RLIMIT_AS and vm.max_map_count limit it. */
static void *short_of_space(void *address, size_t length, int prot, int flags, int fd,
			    off_t offset)
{
	if (fd < 0 || !stats_now().backlog)
		return mmap(address, length, prot, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

static int short_of_mappings(void *address, size_t length, int prot)
{
	if (!stats_now().backlog)
		return mprotect(address, length, prot);
	errno = ENOMEM;
	return -1;
}

/* The obstacle has been released by the time that the call fails. */
static void *short_just_now(void *address, size_t length, int prot, int flags, int fd,
			    off_t offset)
{
	(void)address, (void)length, (void)prot, (void)flags, (void)fd, (void)offset;
	sys_table.mmap = mmap;
	errno = ENOMEM;
	return MAP_FAILED;
}

static void relieves_address_space(void)
{
	AUTO(hm_device) *device = rig_device("host");
	struct hm_buffer *buffer;
	struct section section;
	struct hm_map *map = NULL;

	defer(64, MIB(1));
	buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = SIZE, .max_size = 8 * SIZE));
	section_begin(&section);
	hm_map_unref(lone_map(device, SIZE));
	sys_table.mmap = short_of_space;
	urcu_bp_read_lock();
	CHECK_ERROR(-ENOMEM, hm_map_create(buffer, NULL, &map));
	urcu_bp_read_unlock();
	CHECK(!map);
	section_end_later(&section, 20000);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK_EQUAL(stats_now().backlog, 0);
	section_join(&section);
	hm_map_unref(map);
	CHECK_OK(hm_retire_flush());
	sys_table.mmap = short_just_now;
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK(!*hm_errmsg());

	section_begin(&section);
	hm_map_unref(lone_map(device, SIZE));
	sys_table.mprotect = short_of_mappings;
	section_end_later(&section, 20000);
	CHECK_OK(hm_map_protect(map, 0, PAGE, HM_READ));
	CHECK_EQUAL(stats_now().backlog, 0);
	sys_table.mprotect = mprotect;
	section_join(&section);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	defer(0, 0);
}

/* ---- fork ---- */

static void child(void *user)
{
	char *address;
	struct hm_map *map;

	(void)user;
	CHECK_EQUAL(stats_now().backlog, 0);
	CHECK_OK(hm_retire_flush());
	AUTO(hm_device) *device = rig_device("host");
	map = lone_map(device, SIZE);
	address = hm_map_address(map);
	hm_map_unref(map);
	CHECK(!is_mapped(address));
	/* A thread of its own, where it asks for one. TSan lets no child have one. */
	if (!TEST_TSAN) {
		defer(4, MIB(1));
		hm_map_unref(lone_map(device, SIZE));
		CHECK_OK(hm_retire_flush());
		defer(0, 0);
	}
}

static void child_of_section(void *user)
{
	AUTO(hm_device) *device = rig_device("host");

	(void)user;
	CHECK_ERROR(-EOPNOTSUPP, hm_retire_set(DESC(hm_retire_desc, .flags = HM_RETIRE_DEFER)));
	hm_map_unref(lone_map(device, SIZE));
}

static void forks(void)
{
	AUTO(hm_device) *device = rig_device("host");
	uint64_t retired = stats_now().retired;
	struct section section;

	defer(16, MIB(1));
	hm_map_unref(lone_map(device, SIZE));
	CHECK_EQUAL(test_fork(child, NULL), 0);
	/* The thread may be waiting for this very section, and fork() must not for it. */
	urcu_bp_read_lock();
	hm_map_unref(lone_map(device, SIZE));
	usleep(5000);
	CHECK_EQUAL(test_fork(child_of_section, NULL), 0);
	urcu_bp_read_unlock();
	/* Another thread's: fork() waits for its end. */
	section_begin(&section);
	hm_map_unref(lone_map(device, SIZE));
	section_end_later(&section, 20000);
	CHECK_EQUAL(test_fork(child, NULL), 0);
	section_join(&section);
	CHECK_OK(hm_retire_flush());
	CHECK_EQUAL(stats_now().backlog, 0);
	CHECK_EQUAL(stats_now().retired, retired + 3);
	defer(0, 0);
}

/* ---- the environment ---- */

static void environment_child(void *user)
{
	const char *text = user;
	struct hm_device *device;
	uint64_t expected = text[0] == '7';

	setenv("HETMAP_RETIRE", text, 1);
	device = rig_device("host");
	hm_map_unref(lone_map(device, SIZE));
	CHECK_EQUAL(stats_now().retired, expected);
	hm_device_unref(device);
	CHECK_OK(hm_retire_set(NULL));
}

/* Settings of the application win over the environment, also "nothing waits". */
static void set_before_child(void *user)
{
	CHECK_OK(hm_retire_set(NULL));
	environment_child(user);
}

static void bad_environment_child(void *user)
{
	struct hm_device *device = NULL;

	setenv("HETMAP_RETIRE", user, 1);
	CHECK_ERROR(-EINVAL, hm_device_open("host", &device));
	CHECK_ERROR(-EINVAL, hm_device_open("host", &device));
	CHECK(!device);
}

static void environment(void)
{
	static const char *const good[] = { "", "0", "0,5", "7", "7,1" };
	static const char *const bad[] = { "x",   "-1",      "7,",   "7,x",
					   "7x",  "1048577", "7,1,", "18446744073709551616",
					   "7,0", " 7" };
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK_EQUAL(test_fork(environment_child, (void *)(uintptr_t)good[i]), 0);
	CHECK_EQUAL(test_fork(set_before_child, (void *)(uintptr_t) "8"), 0);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQUAL(test_fork(bad_environment_child, (void *)(uintptr_t)bad[i]), 0);
}

static const struct test tests[] = {
	{ "arguments", arguments, 0, 0 },
	{ "in_place_at_first", in_place_at_first, 0, 0 },
	{ "deferred", deferred, 0, 0 },
	{ "last_ones", last_ones, 0, 0 },
	{ "readers_keep", readers_keep, 0, 0 },
	{ "bounds", bounds, 0, 0 },
	{ "parts", parts, 0, 0 },
	{ "lowered", lowered, 0, 0 },
	{ "own_section", own_section, 0, 0 },
	{ "locked_bytes", locked_bytes, 0, 0 },
	{ "relieves_descriptors", relieves_descriptors, 0, 0 },
	{ "relieves_device", relieves_device, 0, 0 },
	{ "relieves_address_space", relieves_address_space, 0, 0 },
	{ "forks", forks, 0, 0 },
	{ "environment", environment, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "retire", tests)
