// SPDX-License-Identifier: MIT
/*
 * Bad ranges of persistent memory: lists of devices that this program plays, and in the machine of
 * tests/vm/tiers the kernel's own, which are empty there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <linux/ndctl.h>

#include "base/sys.h"
#include "lib/support.h"

#define REGION "/sys/devices/LNXSYSTM:00/ndbus7/region1"

static struct sys_table real;
static bool is_root = true;
static const char *region_list;
static int device_fd; /* played, as opened last */
static struct nd_cmd_clear_error asked;
static uint64_t clears; /* bytes that the platform clears at most */
static int ioctl_error;

static const char *text_of(const char *path)
{
	if (!strcmp(path, REGION "/badblocks"))
		return region_list;
	if (!strcmp(path, REGION "/resource"))
		return is_root ? "0x100000000\n" : "0x0\n";
	if (!strcmp(path, "/sys/dev/char/250:3/resource"))
		return is_root ? "0x100200000\n" : "0x0\n";
	if (!strcmp(path, "/sys/dev/char/250:3/size"))
		return "2097152\n";
	if (!strcmp(path, "/sys/dev/block/259:1/size"))
		return "8192\n";
	if (!strcmp(path, "/sys/dev/block/259:1/device/resource"))
		return is_root ? "0x100400000\n" : "0x0\n";
	if (!strcmp(path, "/sys/dev/block/259:1/badblocks"))
		return "8 1\n";
	return !strcmp(path, "/dev/dax7.0") || !strcmp(path, "/mnt/played") ||
			       !strcmp(path, "/dev/ndctl7") ?
		       "" :
		       NULL;
}

static int open_played(const char *path, int flags, mode_t mode)
{
	const char *text = text_of(path);
	int fd;

	if (!text)
		return real.open(path, flags, mode);
	fd = memfd_create("played", MFD_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET))
		return -1;
	device_fd = !strncmp(path, "/dev/dax", 8) ? fd : -1;
	return fd;
}

static int fstat_played(int fd, struct stat *ret_stat)
{
	int r = real.fstat(fd, ret_stat);

	ret_stat->st_dev = makedev(259, 1);
	if (fd == device_fd) {
		ret_stat->st_mode = S_IFCHR;
		ret_stat->st_rdev = makedev(250, 3);
	}
	return r;
}

static ssize_t readlink_played(const char *path, char *to, size_t length)
{
	const char *target = "../../devices/LNXSYSTM:00/ndbus7/region1/dax7.0";

	if (strcmp(path, "/sys/dev/char/250:3") != 0 &&
	    strcmp(path, "/sys/dev/block/259:1") != 0)
		return real.readlink(path, to, length);
	/* As of a link: without a byte behind the text. */
	return (ssize_t)(stpncpy(to, target, length) - to);
}

static int access_played(const char *path, int mode)
{
	return !strcmp(path, REGION "/init_namespaces") ? 0 : real.access(path, mode);
}

static int ioctl_played(int fd, unsigned long cmd, void *argument)
{
	struct nd_cmd_clear_error *command = argument;

	if (cmd != ND_IOCTL_CLEAR_ERROR)
		return real.ioctl(fd, cmd, argument);
	if (ioctl_error) {
		errno = ioctl_error;
		return -1;
	}
	asked = *command;
	command->cleared = command->length < clears ? command->length : clears;
	return 0;
}

static void play_begin(void)
{
	real = sys_table;
	sys_table.open = open_played;
	sys_table.fstat = fstat_played;
	sys_table.readlink = readlink_played;
	sys_table.access = access_played;
	sys_table.ioctl = ioctl_played;
	is_root = true;
	clears = UINT64_MAX;
	ioctl_error = 0;
	region_list = "";
}

static void play_end(void)
{
	sys_table = real;
}

/* The region begins 2 MiB before the device: sector 4096 is the device's first. */
static void test_list(void)
{
	struct hm_bad_range ranges[4];
	uint32_t n = 9;

	play_begin();
	CHECK_OK(hm_tier_bad_ranges("dax:/dev/dax7.0", NULL, 0, &n));
	CHECK_EQUAL(n, 0);
	region_list = "0 8\n4090 8\n5000 1\n8191 10\n9000 1\nnonsense\n";
	CHECK_OK(hm_tier_bad_ranges("dax:/dev/dax7.0", ranges, 2, &n));
	CHECK_EQUAL(n, 3);
	CHECK_EQUAL(ranges[0].offset, 0);
	CHECK_EQUAL(ranges[0].length, 2 * 512);
	CHECK_EQUAL(ranges[1].offset, (5000 - 4096) * 512);
	CHECK_EQUAL(ranges[1].length, 512);
	CHECK_OK(hm_tier_bad_ranges("dax:/dev/dax7.0", ranges, 4, &n));
	CHECK_EQUAL(ranges[2].offset, (8191 - 4096) * 512);
	CHECK_EQUAL(ranges[2].length, 512);
	CHECK_OK(hm_tier_bad_ranges("pmem:/mnt/played", ranges, 4, &n));
	CHECK_EQUAL(n, 1);
	CHECK_EQUAL(ranges[0].offset, 8 * 512);
	is_root = false;
	CHECK_ERROR(-EACCES, hm_tier_bad_ranges("dax:/dev/dax7.0", ranges, 4, &n));
	CHECK_OK(hm_tier_bad_ranges("pmem:/mnt/played", ranges, 4, &n));
	play_end();
}

static void test_clear(void)
{
	uint64_t cleared = 77;

	play_begin();
	CHECK_OK(hm_tier_bad_clear("dax:/dev/dax7.0", 4096, 512, &cleared));
	CHECK_EQUAL(cleared, 512);
	CHECK_EQUAL(asked.address, 0x100200000 + 4096);
	CHECK_EQUAL(asked.length, 512);
	CHECK_OK(hm_tier_bad_clear("pmem:/mnt/played", 1024, 1024, &cleared));
	CHECK_EQUAL(asked.address, 0x100400000 + 1024);
	cleared = 77;
	clears = 256;
	CHECK_ERROR(-EIO, hm_tier_bad_clear("dax:/dev/dax7.0", 4096, 512, &cleared));
	ioctl_error = ENOTTY;
	CHECK_ERROR(-EOPNOTSUPP, hm_tier_bad_clear("dax:/dev/dax7.0", 4096, 512, &cleared));
	CHECK_ERROR(-EINVAL, hm_tier_bad_clear("dax:/dev/dax7.0", 0, 0, &cleared));
	CHECK_ERROR(-EINVAL, hm_tier_bad_clear("dax:/dev/dax7.0", 2097152, 1, &cleared));
	CHECK_ERROR(-EINVAL, hm_tier_bad_clear("dax:/dev/dax7.0", UINT64_MAX, 2, &cleared));
	is_root = false;
	CHECK_ERROR(-EACCES, hm_tier_bad_clear("pmem:/mnt/played", 0, 512, &cleared));
	CHECK_EQUAL(cleared, 77);
	play_end();
}

static void test_bad_input(void)
{
	uint64_t cleared = 77;
	uint32_t n = 9;

	CHECK_ERROR(-EINVAL, hm_tier_bad_ranges(NULL, NULL, 0, &n));
	CHECK_ERROR(-EINVAL, hm_tier_bad_ranges("dax:/dev/null", NULL, 1, &n));
	CHECK_ERROR(-EINVAL, hm_tier_bad_ranges("dax:/dev/null", NULL, 0, NULL));
	CHECK_ERROR(-EINVAL, hm_tier_bad_clear(NULL, 0, 1, &cleared));
	CHECK_ERROR(-EOPNOTSUPP, hm_tier_bad_ranges("node:0", NULL, 0, &n));
	CHECK_ERROR(-ENODEV, hm_tier_bad_ranges("host", NULL, 0, &n));
	CHECK_ERROR(-ENODEV, hm_tier_bad_ranges("dax:/nothing", NULL, 0, &n));
	CHECK_ERROR(-ENODEV, hm_tier_bad_ranges("dax:/tmp", NULL, 0, &n));
	CHECK_ERROR(-EOPNOTSUPP, hm_tier_bad_ranges("dax:/dev/null", NULL, 0, &n));
	CHECK_ERROR(-EOPNOTSUPP, hm_tier_bad_ranges("pmem:/proc", NULL, 0, &n));
	CHECK_EQUAL(n, 9);
	CHECK_EQUAL(cleared, 77);
}

/* QEMU's modules have no bad bytes, and its firmware clears none. */
static void test_machine(void)
{
	static const char *const devices[] = { "dax:/dev/dax1.0", "pmem:/mnt/pmem" };
	uint64_t cleared;
	uint32_t n, i;
	int r;

	if (access("/dev/dax1.0", F_OK)) {
		test_skip("pmem", "there is no /dev/dax1.0 (tests/vm/tiers has one)");
		return;
	}
	for (i = 0; i < 2; i++) {
		n = 9;
		CHECK_OK(hm_tier_bad_ranges(devices[i], NULL, 0, &n));
		CHECK_EQUAL(n, 0);
		r = hm_tier_bad_clear(devices[i], 0, 4096, &cleared);
		CHECK(!r || r == -EOPNOTSUPP || r == -EIO || r == -ENXIO);
	}
}

static const struct test tests[] = {
	{ .name = "list", .run = test_list },
	{ .name = "clear", .run = test_clear },
	{ .name = "bad_input", .run = test_bad_input },
	{ .name = "machine", .run = test_machine },
	{ 0 },
};

TEST_MAIN(harness_main, "bad", tests)
