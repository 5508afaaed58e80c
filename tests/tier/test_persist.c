// SPDX-License-Identifier: MIT
/*
 * Bytes that outlive a power failure: the unit that a device has, the calls that it takes, and
 * devices that are refused. DAX is played on this machine's own memory: the library's mmap() takes
 * MAP_SYNC, and sysfs shows a persistent region. test_dax has devices of a machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/flush.h"
#include "base/compat.h"
#include "base/sys.h"
#include "lib/rig.h"
#include "lib/support.h"

static char folder[64];

static void folder_begin(const char *parent)
{
	snprintf(folder, sizeof(folder), "%s/hm.XXXXXX", parent);
	if (!mkdtemp(folder))
		test_abandon();
}

static void folder_end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	CHECK_EQUAL(system(command), 0);
}

static void make_file(const char *name, uint64_t size, char *path)
{
	int fd;

	snprintf(path, 96, "%s/%s", folder, name);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)size))
		test_abandon();
	close(fd);
}

/* Opens the file on "pmem", and maps it, if @ret_map. */
static int open_file(const char *path, uint32_t persist, struct hm_buffer **ret_buffer,
		     struct hm_map **ret_map)
{
	struct hm_device *device;
	char name[80];
	int r;

	snprintf(name, sizeof(name), "pmem:%s", folder);
	CHECK_OK_FATAL(hm_device_open(name, &device));
	r = hm_buffer_from_file(device, path, -1, DESC(hm_buffer_desc, .persist = persist),
				ret_buffer);
	hm_device_unref(device);
	if (!r && ret_map)
		CHECK_OK_FATAL(hm_map_create(*ret_buffer, NULL, ret_map));
	return r;
}

static void close_file(struct hm_buffer *buffer, struct hm_map *map)
{
	hm_map_unref(map);
	hm_buffer_unref(buffer);
}

/* ---- msync(2) as the library calls it ---- */

static struct {
	unsigned int n;
	char *address;
	size_t length;
	int flags, error;
} synced;
static int (*real_msync)(void *address, size_t length, int flags);

static int note_msync(void *address, size_t length, int flags)
{
	synced.n++;
	synced.address = address;
	synced.length = length;
	synced.flags = flags;
	if (synced.error) {
		errno = synced.error;
		return -1;
	}
	return real_msync(address, length, flags);
}

static void note_begin(void)
{
	real_msync = sys_table.msync;
	sys_table.msync = note_msync;
	memset(&synced, 0, sizeof(synced));
}

static void test_pages(void)
{
	static const struct {
		uint64_t offset, length, from, pages;
	} rows[] = {
		{ 0, 1, 0, 1 },
		{ 5, 10, 0, 1 },
		{ PAGE - 1, 2, 0, 2 },
		{ PAGE, PAGE, 1, 1 },
		{ 0, 3 * PAGE - 100, 0, 3 },
		{ 2 * PAGE + 7, 1, 2, 1 },
	};
	struct hm_buffer *buffer;
	struct hm_map *map;
	char path[96];
	size_t i;

	folder_begin("/var/tmp");
	make_file("file", 3 * PAGE - 100, path);
	CHECK_OK_FATAL(open_file(path, HM_PERSIST_PAGE, &buffer, &map));
	CHECK_EQUAL(buffer_info(buffer).persist, HM_PERSIST_PAGE);
	CHECK(buffer_info(buffer).caps & HM_CAP_PERSIST);
	memset(hm_map_address(map), 7, 3 * PAGE - 100);
	note_begin();
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK_OK(hm_map_persist(map, rows[i].offset, rows[i].length));
		CHECK_EQUAL(synced.n, i + 1);
		CHECK(synced.address == (char *)hm_map_address(map) + rows[i].from * PAGE);
		CHECK_EQUAL((synced.length + PAGE - 1) / PAGE, rows[i].pages);
		CHECK_EQUAL(synced.flags, MS_SYNC);
	}
	CHECK_ERROR(-EINVAL, hm_map_persist(map, 0, 0));
	CHECK_ERROR(-ERANGE, hm_map_persist(map, 0, 3 * PAGE));
	CHECK_ERROR(-ERANGE, hm_map_persist(map, UINT64_MAX, 2));
	CHECK_EQUAL(synced.n, i);
	synced.error = EIO;
	CHECK_ERROR(-EIO, hm_map_persist(map, 0, 8));
	sys_table.msync = real_msync;
	close_file(buffer, map);
	folder_end();
}

/* Memory of tmpfs is gone with the power, and says so. */
static void test_volatile(void)
{
	struct hm_buffer *buffer = NULL;
	struct hm_map *map;
	char path[96];

	folder_begin("/dev/shm");
	make_file("file", PAGE, path);
	CHECK_ERROR(-EOPNOTSUPP, open_file(path, HM_PERSIST_PAGE, &buffer, NULL));
	CHECK(!buffer);
	CHECK(strstr(hm_errmsg(), "do not outlive a power failure"));
	CHECK_OK_FATAL(open_file(path, HM_PERSIST_NONE, &buffer, &map));
	CHECK_EQUAL(buffer_info(buffer).persist, HM_PERSIST_NONE);
	CHECK(!(buffer_info(buffer).caps & HM_CAP_PERSIST));
	note_begin();
	CHECK_ERROR(-EOPNOTSUPP, hm_map_persist(map, 0, 8));
	CHECK_EQUAL(synced.n, 0);
	sys_table.msync = real_msync;
	close_file(buffer, map);
	folder_end();
}

static void test_refused(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = PAGE };
	struct hm_buffer *buffer = NULL;
	struct hm_map *map;
	char path[96];
	struct hm_device *device = rig_device("host");

	desc.persist = HM_PERSIST_PAGE;
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_create(device, &desc, &buffer));
	desc.persist = HM_PERSIST_BYTE + 1;
	CHECK_ERROR(-EINVAL, hm_buffer_create(device, &desc, &buffer));
	CHECK(!buffer);
	desc.persist = 0;
	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK_ERROR(-EOPNOTSUPP, hm_map_persist(map, 0, 8));
	close_file(buffer, map);
	hm_device_unref(device);

	folder_begin("/var/tmp");
	make_file("file", PAGE, path);
	buffer = NULL;
	CHECK_ERROR(-EOPNOTSUPP, open_file(path, HM_PERSIST_LINE, &buffer, NULL));
	CHECK(strstr(hm_errmsg(), "by pages"));
	CHECK(!buffer);
	folder_end();
}

/* A new buffer is a file without a name: it leaves nothing behind. */
static void test_unnamed(void)
{
	struct hm_buffer *buffer;
	struct hm_device *device;
	struct hm_map *map;
	char name[80];

	folder_begin("/var/tmp");
	snprintf(name, sizeof(name), "pmem:%s", folder);
	CHECK_OK_FATAL(hm_device_open(name, &device));
	if (hm_buffer_create(device,
			     DESC(hm_buffer_desc, .size = 16 * PAGE, .max_size = 64 * PAGE),
			     &buffer) == -EOPNOTSUPP) {
		/* An overlay: the text names the call that works. */
		CHECK(strstr(hm_errmsg(), "hm_buffer_from_file"));
		goto out;
	}
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK(is_zero(hm_map_address(map), 0, 16 * PAGE));
	CHECK_OK(hm_buffer_resize(buffer, 64 * PAGE, 0));
	CHECK(is_zero(hm_map_address(map), 0, 64 * PAGE));
	pattern_write(hm_map_address(map), 0, 64 * PAGE, 3);
	CHECK_OK(hm_map_persist(map, 63 * PAGE, PAGE));
	close_file(buffer, map);
	CHECK_EQUAL(rmdir(folder), 0);
out:
	hm_device_unref(device);
	folder_end();
}

static void test_names(void)
{
	static const char *const names[] = {
		"pmem",          "pmem:", "pmem:/nowhere", "pmem:/dev/null",
		"dax:/dev/null", "dax:",  "dax:/nowhere",  "dax:/etc/passwd",
	};
	struct hm_device *device = NULL;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK_ERROR(-ENODEV, hm_device_open(names[i], &device));
	CHECK(!device);
}

/* ---- a played DAX file system ---- */

static const char *domain; /* NULL: the firmware says nothing */
static bool no_region;
static void *(*real_mmap)(void *address, size_t length, int prot, int flags, int fd,
			  off_t offset);
static ssize_t (*real_readlink)(const char *path, char *to, size_t length);
static int (*real_access)(const char *path, int mode);
static int (*real_open)(const char *path, int flags, mode_t mode);

#define REGION "/sys/devices/played/ndbus0/region0"

static void *mmap_sync(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
	if ((flags & (MAP_SHARED_VALIDATE | MAP_SYNC)) == (MAP_SHARED_VALIDATE | MAP_SYNC))
		flags = (flags & ~(MAP_SHARED_VALIDATE | MAP_SYNC)) | MAP_SHARED;
	return real_mmap(address, length, prot, flags, fd, offset);
}

static ssize_t readlink_played(const char *path, char *to, size_t length)
{
	static const char target[] =
		"../../devices/played/ndbus0/region0/namespace0.0/block/pmem0";

	if (strncmp(path, "/sys/dev/block/", 15) != 0 || no_region)
		return real_readlink(path, to, length);
	memcpy(to, target, sizeof(target) - 1);
	return sizeof(target) - 1;
}

static int access_played(const char *path, int mode)
{
	return strcmp(path, REGION "/init_namespaces") ? real_access(path, mode) : 0;
}

static int open_played(const char *path, int flags, mode_t mode)
{
	char played[96];

	if (strcmp(path, REGION "/persistence_domain") != 0)
		return real_open(path, flags, mode);
	snprintf(played, sizeof(played), "%s/domain", domain ? folder : "/nowhere");
	return real_open(played, flags, mode);
}

static void write_domain(void)
{
	char path[96];
	FILE *file;

	if (!domain)
		return;
	snprintf(path, sizeof(path), "%s/domain", folder);
	file = fopen(path, "w");
	if (!file)
		test_abandon();
	fprintf(file, "%s\n", domain);
	fclose(file);
}

static void check_played(uint32_t expected)
{
	struct hm_buffer *buffer;
	struct hm_map *map;
	char path[96];
	uint64_t i;

	folder_begin("/var/tmp");
	write_domain();
	make_file("file", 4 * PAGE, path);
	real_mmap = sys_table.mmap;
	real_readlink = sys_table.readlink;
	real_access = sys_table.access;
	real_open = sys_table.open;
	sys_table.mmap = mmap_sync;
	sys_table.readlink = readlink_played;
	sys_table.access = access_played;
	sys_table.open = open_played;
	CHECK_OK_FATAL(open_file(path, expected, &buffer, &map));
	CHECK_EQUAL(buffer_info(buffer).persist, expected);
	/* The memory never moves, and mlock() would say that it locked it. */
	CHECK(!(buffer_info(buffer).caps & HM_CAP_LOCK));
	note_begin();
	pattern_write(hm_map_address(map), 0, 4 * PAGE, 9);
	for (i = 0; i < 200; i++)
		CHECK_EQUAL(hm_map_persist(map, i * 61 % PAGE, 1 + i * 37 % (2 * PAGE)),
			    expected ? 0 : -EOPNOTSUPP);
	CHECK(pattern_holds(hm_map_address(map), 0, 4 * PAGE, 9));
	/* Without a system call, unlike pages. */
	CHECK_EQUAL(synced.n, 0);
	CHECK_ERROR(-ERANGE, hm_map_persist(map, 4 * PAGE - 1, 2));
	sys_table.msync = real_msync;
	sys_table.open = real_open;
	sys_table.access = real_access;
	sys_table.readlink = real_readlink;
	sys_table.mmap = real_mmap;
	close_file(buffer, map);
	folder_end();
}

static void test_lines(void)
{
	CHECK(flush_name() != NULL);
	domain = NULL;
	no_region = false;
	check_played(HM_PERSIST_LINE);
	domain = "memory_controller";
	check_played(HM_PERSIST_LINE);
}

static void test_bytes(void)
{
	domain = "cpu_cache";
	no_region = false;
	check_played(HM_PERSIST_BYTE);
}

/* DAX on memory that is not persistent: a warning, and no promise. */
static void test_dax_of_memory(void)
{
	no_region = true;
	check_played(HM_PERSIST_NONE);
}

static const struct test tests[] = {
	{ .name = "pages", .run = test_pages },
	{ .name = "volatile", .run = test_volatile },
	{ .name = "refused", .run = test_refused },
	{ .name = "unnamed", .run = test_unnamed },
	{ .name = "names", .run = test_names },
	{ .name = "lines", .run = test_lines },
	{ .name = "bytes", .run = test_bytes },
	{ .name = "dax_of_memory", .run = test_dax_of_memory },
	{ 0 },
};

TEST_MAIN(harness_main, "persist", tests)
