// SPDX-License-Identifier: MIT
/*
 * Backend "dax" on a device that a folder plays: the library's open(), fstat() and readlink() find
 * a file of 8 MiB as /dev/dax9.0, and its entry of sysfs. The real device is in tests/tier.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/sys.h"
#include "lib/inject.h"
#include "lib/support.h"

#define DEVICE "/dev/dax9.0"
#define NUMBER makedev(250, 9)
#define SYSFS "/sys/dev/char/250:9"
#define UNIT (2ull << 20)
#define SIZE (4 * UNIT)

static char folder[] = "/tmp/hetmap-dax-XXXXXX";
static struct stat played;
static int (*real_open)(const char *path, int flags, mode_t mode);
static int (*real_fstat)(int fd, struct stat *ret_stat);
static ssize_t (*real_readlink)(const char *path, char *to, size_t length);

static void path_of(const char *name, char *path, size_t size)
{
	snprintf(path, size, "%s/%s", folder, name);
}

static int open_played(const char *path, int flags, mode_t mode)
{
	char file[256];

	if (!strcmp(path, DEVICE))
		path_of("device", file, sizeof(file));
	else if (!strncmp(path, SYSFS "/", strlen(SYSFS "/")))
		path_of(path + strlen(SYSFS "/"), file, sizeof(file));
	else
		return real_open(path, flags, mode);
	return real_open(file, flags, mode);
}

static int fstat_played(int fd, struct stat *ret_stat)
{
	int r = real_fstat(fd, ret_stat);

	if (!r && ret_stat->st_dev == played.st_dev && ret_stat->st_ino == played.st_ino) {
		ret_stat->st_mode = S_IFCHR | 0600;
		ret_stat->st_rdev = NUMBER;
		ret_stat->st_size = 0;
	}
	return r;
}

static ssize_t readlink_played(const char *path, char *to, size_t length)
{
	static const char target[] = "../../devices/platform/hmem.0/dax9.0/dax9.0";

	if (strcmp(path, SYSFS) != 0)
		return real_readlink(path, to, length);
	length = length < sizeof(target) - 1 ? length : sizeof(target) - 1;
	memcpy(to, target, length);
	return (ssize_t)length;
}

static void write_file(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	path_of(name, path, sizeof(path));
	file = fopen(path, "we");
	CHECK_FATAL(file);
	CHECK(fputs(text, file) >= 0);
	CHECK_EQUAL(fclose(file), 0);
}

static void play(void)
{
	char path[256];

	CHECK_FATAL(mkdtemp(folder));
	write_file("device", "old bytes");
	write_file("size", "8388608\n");
	write_file("align", "2097152\n");
	write_file("numa_node", "0\n");
	path_of("device", path, sizeof(path));
	CHECK_FATAL(!truncate(path, SIZE));
	CHECK_FATAL(!stat(path, &played));
	inject_install();
	real_open = sys_table.open;
	real_fstat = sys_table.fstat;
	real_readlink = sys_table.readlink;
	sys_table.open = open_played;
	sys_table.fstat = fstat_played;
	sys_table.readlink = readlink_played;
}

static void clean_up(void)
{
	static const char *const names[] = { "device", "size", "align", "numa_node" };
	char path[256];
	size_t i;

	sys_table.open = real_open;
	sys_table.fstat = real_fstat;
	sys_table.readlink = real_readlink;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		path_of(names[i], path, sizeof(path));
		unlink(path);
	}
	CHECK_EQUAL(rmdir(folder), 0);
}

static uint64_t memory_free(struct hm_device *device)
{
	struct hm_device_info info = device_info(device);

	CHECK_EQUAL(info.memory_total, SIZE);
	return info.memory_free;
}

static int create(struct hm_device *device, uint64_t size, struct hm_buffer **ret_buffer)
{
	return hm_buffer_create(device, DESC(hm_buffer_desc, .size = size), ret_buffer);
}

/* Buffers have parts of their own, zeroed; too large ones are refused with the figures. */
static void parts(void)
{
	AUTO(hm_device) *device = rig_device("dax:" DEVICE);
	struct hm_buffer *first, *second, *third = NULL;
	struct hm_map *map;

	CHECK_OK_FATAL(create(device, UNIT + 1, &first));
	CHECK_EQUAL(memory_free(device), 2 * UNIT);
	CHECK_OK_FATAL(hm_map_create(first, NULL, &map));
	CHECK_EQUAL(*(char *)hm_map_address(map), 0);
	hm_map_unref(map);
	CHECK_OK_FATAL(create(device, 2 * UNIT, &second));
	CHECK_EQUAL(memory_free(device), 0);
	CHECK_ERROR(-ENOSPC, create(device, 1, &third));
	CHECK(strstr(hm_errmsg(), "in one piece"));
	CHECK_ERROR(-ENOSPC, create(device, SIZE + 1, &third));
	CHECK(!third);
	hm_buffer_unref(first);
	CHECK_EQUAL(memory_free(device), 2 * UNIT);
	hm_buffer_unref(second);
}

/* A part whose bytes can't be cleared is given back. */
static void not_cleared(void)
{
	AUTO(hm_device) *device = rig_device("dax:" DEVICE);
	AUTO(hm_buffer) *buffer = NULL;

	inject_shared_refused(ENOMEM);
	CHECK_ERROR(-ENOMEM, create(device, UNIT, &buffer));
	CHECK(inject_disarm());
	CHECK(!buffer);
	CHECK_EQUAL(memory_free(device), SIZE);
	CHECK_OK_FATAL(create(device, SIZE, &buffer));
}

static const struct test tests[] = {
	{ .name = "parts", .run = parts },
	{ .name = "not_cleared", .run = not_cleared },
	{ 0 },
};

int main(int argc, char **argv)
{
	int r;

	play();
	r = harness_main(argc, argv, "dax_played", tests);
	clean_up();
	return r;
}
