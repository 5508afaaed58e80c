// SPDX-License-Identifier: MIT
/*
 * DAX devices and DAX file systems, which the machine of tests/vm/tiers has: /dev/dax1.0, and
 * /mnt/pmem by DAX beside /mnt/plain without. The tests overwrite the device.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/rig.h"
#include "lib/support.h"

#define PATH "/dev/dax1.0"
#define DEVICE "dax:" PATH
#define MEBI (1ull << 20)

static uint64_t unit, size;

static struct hm_device *open_device(void)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_device *device = rig_device(DEVICE);

	CHECK_OK_FATAL(hm_device_query(device, &info));
	unit = info.page_size;
	size = info.memory_total;
	return device;
}

static int create(struct hm_device *device, uint64_t bytes, struct hm_buffer **ret_buffer)
{
	return hm_buffer_create(device, DESC(hm_buffer_desc, .size = bytes), ret_buffer);
}

static int open_bytes(struct hm_device *device, uint64_t offset, uint64_t bytes, uint32_t flags,
		      struct hm_buffer **ret_buffer)
{
	return hm_buffer_from_file(device, PATH, -1,
				   DESC(hm_buffer_desc, .flags = flags, .size = bytes,
					.offset = offset),
				   ret_buffer);
}

static char *map_all(struct hm_buffer *buffer, struct hm_map **ret_map)
{
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, ret_map));
	return hm_map_address(*ret_map);
}

/* The unit is the namespace's alignment; lines last, which the description may ask for. */
static void test_facts(void)
{
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = 1,
		.persist = HM_PERSIST_LINE,
	};
	AUTO(hm_device) *device = open_device();
	struct hm_buffer *buffer = NULL;

	CHECK(unit == 2 * MEBI || unit == 4096);
	CHECK(size > 200 * MEBI && size < 256 * MEBI);
	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
	CHECK_EQUAL(buffer_info(buffer).page_size, unit);
	CHECK_EQUAL(buffer_info(buffer).persist, HM_PERSIST_LINE);
	hm_buffer_unref(buffer);
	buffer = NULL;
	desc.persist = HM_PERSIST_BYTE;
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_create(device, &desc, &buffer));
	CHECK(!buffer);
}

static void write_bytes(void *user)
{
	AUTO(hm_device) *device = open_device();
	AUTO(hm_buffer) *buffer = NULL;
	AUTO(hm_map) *map = NULL;
	char *address;

	(void)user;
	CHECK_OK_FATAL(open_bytes(device, unit, 3 * unit, 0, &buffer));
	address = map_all(buffer, &map);
	pattern_write(address, 0, 3 * unit, 11);
	CHECK_OK(hm_map_persist(map, 0, 3 * unit));
}

/* Bytes of one process are there in another one, at their offset, also to be read only. */
static void test_lasting(void)
{
	AUTO(hm_device) *device = NULL;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *address;

	CHECK_EQUAL(test_fork(write_bytes, NULL), 0);
	device = open_device();
	CHECK_OK_FATAL(open_bytes(device, 0, 0, HM_BUFFER_READ_ONLY, &buffer));
	CHECK_EQUAL(buffer_info(buffer).size, size);
	CHECK_EQUAL(buffer_info(buffer).access, HM_READ);
	address = map_all(buffer, &map);
	CHECK(pattern_holds(address + unit, 0, 3 * unit, 11));
	CHECK(test_write_signal(address) != 0);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	/* New buffers are zero, whatever was there. */
	CHECK_OK_FATAL(create(device, 5 * unit - 1, &buffer));
	address = map_all(buffer, &map);
	CHECK(is_zero(address, 0, 5 * unit - 1));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
}

/* Growth gives zeros where bytes were stored before a shrink. */
static void test_growth(void)
{
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = unit,
		.max_size = 4 * unit,
	};
	AUTO(hm_device) *device = open_device();
	AUTO(hm_buffer) *buffer = NULL;
	AUTO(hm_map) *map = NULL;
	char *address;

	desc.size = unit;
	desc.max_size = 4 * unit;
	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
	address = map_all(buffer, &map);
	pattern_write(address, 0, unit, 4);
	CHECK_OK(hm_buffer_resize(buffer, 4 * unit, 0));
	CHECK(is_zero(address, unit, 4 * unit));
	pattern_write(address, unit, 4 * unit, 5);
	CHECK_OK(hm_buffer_resize(buffer, unit, 0));
	CHECK_OK(hm_buffer_resize(buffer, 3 * unit + 5, 0));
	CHECK(hm_map_address(map) == address);
	CHECK(pattern_holds(address, 0, unit, 4));
	CHECK(is_zero(address, unit, 3 * unit + 5));
}

/* Parts of the device do not overlap, and are given back. */
static void test_room(void)
{
	AUTO(hm_device) *device = open_device(), *again = open_device();
	struct hm_buffer *first;
	AUTO(hm_buffer) *second = NULL, *third = NULL;
	uint64_t half = size / 2 / unit * unit;
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_map *maps[2];

	CHECK_ERROR(-ENOSPC, create(device, size + 1, &third));
	CHECK_OK_FATAL(create(device, half, &first));
	CHECK_OK_FATAL(create(again, size - half, &second));
	CHECK_ERROR(-ENOSPC, create(device, 1, &third));
	CHECK_OK(hm_device_query(device, &info));
	CHECK_EQUAL(info.memory_free, 0);
	memset(map_all(first, &maps[0]), 1, 8192);
	CHECK(is_zero(map_all(second, &maps[1]), 0, 8192));
	hm_map_unref(maps[0]);
	hm_map_unref(maps[1]);
	hm_buffer_unref(first);
	CHECK_ERROR(-ENOSPC, create(again, half + 1, &third));
	CHECK_OK_FATAL(create(again, half, &third));
}

/* ---- two processes ---- */

/* The parent has a new buffer in the first unit. */
static void beside_new(void *user)
{
	AUTO(hm_device) *device = open_device();
	AUTO(hm_buffer) *buffer = NULL;
	AUTO(hm_map) *map = NULL;

	(void)user;
	CHECK_ERROR(-EBUSY, open_bytes(device, 0, unit, 0, &buffer));
	CHECK_ERROR(-EBUSY, open_bytes(device, 0, 0, HM_BUFFER_READ_ONLY, &buffer));
	CHECK_ERROR(-ENOSPC, create(device, size, &buffer));
	/* A new buffer of this process is elsewhere. */
	CHECK_OK_FATAL(create(device, size - unit, &buffer));
	memset(map_all(buffer, &map), 6, 2 * unit);
}

/* The parent has the whole device, to keep its bytes. */
static void beside_lasting(void *user)
{
	AUTO(hm_device) *device = open_device();
	AUTO(hm_buffer) *buffer = NULL;

	(void)user;
	CHECK_ERROR(-ENOSPC, create(device, 1, &buffer));
	CHECK_OK(open_bytes(device, 0, unit, 0, &buffer));
}

static void test_busy(void)
{
	AUTO(hm_device) *device = open_device();
	struct hm_buffer *buffer, *other = NULL;
	struct hm_map *map;
	char *address;

	CHECK_OK_FATAL(create(device, unit, &buffer));
	address = map_all(buffer, &map);
	pattern_write(address, 0, unit, 5);
	CHECK_EQUAL(test_fork(beside_new, NULL), 0);
	CHECK(pattern_holds(address, 0, unit, 5));
	/* In one process, too. */
	CHECK_ERROR(-EBUSY, open_bytes(device, 0, unit, 0, &other));
	CHECK_OK_FATAL(open_bytes(device, unit, unit, 0, &other));
	hm_buffer_unref(other);
	hm_map_unref(map);
	hm_buffer_unref(buffer);

	CHECK_OK_FATAL(open_bytes(device, 0, 0, 0, &buffer));
	CHECK_EQUAL(test_fork(beside_lasting, NULL), 0);
	hm_buffer_unref(buffer);
	CHECK_OK_FATAL(create(device, size, &buffer));
	hm_buffer_unref(buffer);
}

/* ---- fork ---- */

/* Ends when the parent closes its end. */
static pid_t fork_waiting(int *ret_end)
{
	int ends[2];
	pid_t child;
	char byte;

	if (pipe(ends))
		test_abandon();
	child = fork();
	if (child)
		close(ends[0]);
	else {
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) != 0);
	}
	*ret_end = ends[1];
	return child;
}

/* A child that has the bytes mapped keeps the range, whatever its parent does. */
static void test_forked(void)
{
	AUTO(hm_device) *device = open_device();
	struct hm_buffer *buffer, *other = NULL;
	int end, status = -1;
	pid_t child;

	CHECK_OK_FATAL(create(device, size, &buffer));
	child = fork_waiting(&end);
	CHECK_FATAL(child > 0);
	hm_buffer_unref(buffer);
	CHECK_ERROR(-ENOSPC, create(device, unit, &other));
	close(end);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK_OK_FATAL(create(device, size, &other));
	hm_buffer_unref(other);
}

static void test_parts(void)
{
	AUTO(hm_device) *device = open_device();
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc) };
	AUTO(hm_buffer) *buffer = NULL;

	CHECK_ERROR(-EINVAL, open_bytes(device, unit / 2, unit, 0, &buffer));
	CHECK_ERROR(-EINVAL, open_bytes(device, size, 0, 0, &buffer));
	CHECK_ERROR(-EINVAL, open_bytes(device, unit, size, 0, &buffer));
	CHECK_ERROR(-EINVAL, hm_buffer_from_file(device, "/dev/zero", -1, &desc, &buffer));
	CHECK(!buffer);
	CHECK_OK_FATAL(open_bytes(device, unit, unit, 0, &buffer));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(buffer, 2 * unit, 0));
}

/* A user with read access only. */
static void read_only(void *user)
{
	AUTO(hm_buffer) *buffer = NULL;
	AUTO(hm_device) *device = NULL;

	(void)user;
	if (setgid(65534) || setuid(65534))
		test_abandon();
	device = open_device();
	CHECK_ERROR(-EACCES, create(device, unit, &buffer));
	CHECK(strstr(hm_errmsg(), "HM_BUFFER_READ_ONLY"));
	CHECK_ERROR(-EACCES, open_bytes(device, 0, unit, 0, &buffer));
	CHECK_OK(open_bytes(device, 0, unit, HM_BUFFER_READ_ONLY, &buffer));
}

static void test_read_only(void)
{
	CHECK_EQUAL(chmod(PATH, 0444), 0);
	CHECK_EQUAL(test_fork(read_only, NULL), 0);
	CHECK_EQUAL(chmod(PATH, 0600), 0);
}

/* ---- files ---- */

static int open_file(const char *device_name, const char *path, uint32_t persist,
		     struct hm_buffer **ret_buffer)
{
	int r;
	AUTO(hm_device) *device = rig_device(device_name);

	r = hm_buffer_from_file(device, path, -1, DESC(hm_buffer_desc, .persist = persist),
				ret_buffer);
	return r;
}

/* A file that is moved from the DAX file system has a coarser unit, which is not passed over. */
static void test_files(void)
{
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *address;
	int fd = open("/mnt/pmem/file", O_RDWR | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0 && !ftruncate(fd, 3 << 20));
	close(fd);
	CHECK_OK_FATAL(open_file("pmem:/mnt/pmem", "/mnt/pmem/file", HM_PERSIST_LINE, &buffer));
	CHECK_EQUAL(buffer_info(buffer).persist, HM_PERSIST_LINE);
	address = map_all(buffer, &map);
	pattern_write(address, 0, 3 << 20, 8);
	CHECK_OK(hm_map_persist(map, 100, (3 << 20) - 100));
	hm_map_unref(map);
	hm_buffer_unref(buffer);

	CHECK_EQUAL(system("mv /mnt/pmem/file /mnt/plain/file"), 0);
	buffer = NULL;
	CHECK_ERROR(-EOPNOTSUPP,
		    open_file("pmem:/mnt/plain", "/mnt/plain/file", HM_PERSIST_LINE, &buffer));
	CHECK(!buffer);
	CHECK_OK_FATAL(open_file("pmem:/mnt/plain/file", "/mnt/plain/file", 0, &buffer));
	CHECK_EQUAL(buffer_info(buffer).persist, HM_PERSIST_PAGE);
	address = map_all(buffer, &map);
	CHECK(pattern_holds(address, 0, 3 << 20, 8));
	CHECK_OK(hm_map_persist(map, 4097, 1));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK_EQUAL(unlink("/mnt/plain/file"), 0);
}

/* More than the file system holds fails when it is asked for, and never by a SIGBUS. */
static void test_full(void)
{
	AUTO(hm_buffer) *buffer = NULL;
	AUTO(hm_device) *device = rig_device("pmem:/mnt/pmem");

	CHECK_ERROR(-ENOSPC, create(device, 1024 * MEBI, &buffer));
	CHECK(!buffer);
	CHECK_OK_FATAL(hm_buffer_create(
		device, DESC(hm_buffer_desc, .size = MEBI, .max_size = 1024 * MEBI), &buffer));
	CHECK_ERROR(-ENOSPC, hm_buffer_resize(buffer, 512 * MEBI, 0));
	CHECK_EQUAL(buffer_info(buffer).size, MEBI);
	CHECK_OK(hm_buffer_resize(buffer, 2 * MEBI, 0));
}

static const struct hm_tier *find_rung(const struct hm_tier *tiers, uint32_t n,
				       const char *device)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (!strcmp(tiers[i].device, device))
			return &tiers[i];
	CHECK(!"the rung is in the ladder");
	test_abandon();
}

/* The ladder has each kind, with figures, the firmware's for nodes; CXL memory comes on top. */
static void test_ladder(void)
{
	struct hm_tier tiers[16] = { { .struct_size = sizeof(tiers[0]) } };
	const struct hm_tier *rung;
	uint32_t n;

	CHECK_OK_FATAL(hm_tier_list(tiers, 16, HM_TIER_MEASURE, &n));
	CHECK(n >= 4 && n <= 16);
	rung = find_rung(tiers, n, "node:0");
	CHECK_EQUAL(rung->source, HM_TIER_FIRMWARE);
	CHECK_EQUAL(rung->latency, 10);
	CHECK_EQUAL(rung->words >> HM_TIER_FAST & 1, 1);
	rung = find_rung(tiers, n, "node:1");
	CHECK_EQUAL(rung->latency, 100);
	CHECK(!strcmp(rung->made_of, "memory without processors"));
	CHECK(!(rung->words & 1u << HM_TIER_FAST));
	rung = find_rung(tiers, n, DEVICE);
	CHECK_EQUAL(rung->source, HM_TIER_MEASURED);
	CHECK(rung->latency > 0 && rung->bandwidth > 0);
	CHECK_EQUAL(rung->persist, HM_PERSIST_LINE);
	rung = find_rung(tiers, n, "pmem:/mnt/pmem");
	CHECK_EQUAL(rung->persist, HM_PERSIST_LINE);
	CHECK(rung->capacity > 64 * MEBI && rung->available < rung->capacity);
}

static const struct test tests[] = {
	{ .name = "facts", .run = test_facts },
	{ .name = "lasting", .run = test_lasting },
	{ .name = "growth", .run = test_growth },
	{ .name = "room", .run = test_room },
	{ .name = "busy", .run = test_busy },
	{ .name = "forked", .run = test_forked },
	{ .name = "parts", .run = test_parts },
	{ .name = "read_only", .run = test_read_only },
	{ .name = "files", .run = test_files },
	{ .name = "full", .run = test_full },
	{ .name = "ladder", .run = test_ladder },
	{ 0 },
};

TEST_MAIN(harness_main, "dax", tests)
