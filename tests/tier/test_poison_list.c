// SPDX-License-Identifier: MIT
/*
 * Poison lists of CXL memory: by a sysfs, a tracefs and a debugfs that this program plays, and in
 * the machine of tests/vm/tiers with 6.12, where QEMU's memory device keeps a list.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/sys.h"
#include "lib/support.h"

#define BUS "/sys/bus/cxl/devices/"
#define EVENT "  t-1 [000] ..... 1.0: cxl_poison: memdev="
#define TAIL " source=Injected flags= overflow_time=0\n"

static struct sys_table real;
static const char *ways, *events;
static char written[1024]; /* "FILE TEXT\n" of each write, FILE the end of its path */
static char writing[64];   /* end of the path that was opened to be written last */
static int writing_fd, folder_fd, device_fd, mkdir_error;
static bool has_list, is_kmem;
static unsigned int n_made, n_removed;

static const char *text_of(const char *path)
{
	static const struct {
		const char *path, *text;
	} files[] = {
		{ BUS "region3/target0", "decoder4.0\n" },
		{ BUS "region3/target1", "decoder5.0\n" },
		{ BUS "region3/interleave_granularity", "4096\n" },
		{ BUS "region3/resource", "0x200000000\n" },
		{ BUS "region3/size", "0x10000000\n" },
		{ "/sys/bus/dax/devices/dax7.0/target_node", "9\n" },
		{ "/sys/bus/dax/devices/dax7.0/dev", "250:3\n" },
		{ "/sys/dev/char/250:3/resource", "0x200200000\n" },
		{ "/sys/dev/char/250:3/size", "2097152\n" },
		{ "/dev/dax7.0", "" },
	};
	size_t i;

	if (!strcmp(path, BUS "region3/interleave_ways"))
		return ways;
	if (!strcmp(path, BUS "region3/target1") && !strcmp(ways, "1\n"))
		return NULL;
	if (strstr(path, "/instances/hetmap-") && strstr(path, "/trace"))
		return events;
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!strcmp(path, files[i].path))
			return files[i].text;
	return NULL;
}

static int play(const char *text)
{
	int fd = memfd_create("played", MFD_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET))
		return -1;
	return fd;
}

/* The parts of a path behind the last but one "/". */
static const char *end_of(const char *path)
{
	const char *at = strrchr(path, '/');

	while (at > path && *--at != '/')
		;
	return at + 1;
}

static int open_played(const char *path, int flags, mode_t mode)
{
	const char *text = text_of(path);
	int fd;

	if ((flags & O_ACCMODE) == O_WRONLY) {
		if (!has_list && strstr(path, "trigger_poison_list")) {
			errno = ENOENT;
			return -1;
		}
		snprintf(writing, sizeof(writing), "%s", end_of(path));
		return writing_fd = play("");
	}
	if (!strcmp(path, "/sys/bus/dax/devices"))
		return folder_fd = play("");
	if (!text)
		return real.open(path, flags, mode);
	fd = play(text);
	device_fd = !strncmp(path, "/dev/dax", 8) ? fd : -1;
	return fd;
}

static int fstat_played(int fd, struct stat *ret_stat)
{
	int r = real.fstat(fd, ret_stat);

	if (fd == device_fd) {
		ret_stat->st_mode = S_IFCHR;
		ret_stat->st_rdev = makedev(250, 3);
	}
	return r;
}

static ssize_t write_played(int fd, const void *from, size_t length)
{
	const size_t at = strlen(written);

	if (fd == writing_fd)
		snprintf(written + at, sizeof(written) - at, "%s %.*s\n", writing, (int)length,
			 (const char *)from);
	return real.write(fd, from, length);
}

/* One device, once. */
static long getdents_played(int fd, void *entries, size_t size)
{
	struct dirent64 *entry = entries;

	if (fd != folder_fd)
		return real.getdents(fd, entries, size);
	folder_fd = -1;
	memset(entry, 0, sizeof(*entry));
	entry->d_reclen = 64;
	strcpy(entry->d_name, "dax7.0");
	return 64;
}

static ssize_t readlink_played(const char *path, char *to, size_t length)
{
	static const char *const links[][2] = {
		{ "/sys/dev/char/250:3", "root0/decoder0.0/region3/dax_region3/dax7.0" },
		{ "/sys/bus/dax/devices/dax7.0",
		  "root0/decoder0.0/region3/dax_region3/dax7.0" },
		{ BUS "decoder4.0", "root0/port1/endpoint4/decoder4.0" },
		{ BUS "decoder5.0", "root0/port1/endpoint5/decoder5.0" },
		{ BUS "endpoint4/uport", "0000:0d:00.0/mem1" },
		{ BUS "endpoint5/uport", "0000:0e:00.0/mem2" },
	};
	const char *driver = is_kmem ? "../bus/dax/drivers/kmem" :
				       "../bus/dax/drivers/device_dax";
	size_t i;

	if (!strcmp(path, "/sys/bus/dax/devices/dax7.0/driver"))
		return (ssize_t)(stpncpy(to, driver, length) - to);
	for (i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		if (!strcmp(path, links[i][0]))
			/* As of a link: without a byte behind the text. */
			return (ssize_t)(stpncpy(to, links[i][1], length) - to);
	return real.readlink(path, to, length);
}

static int access_played(const char *path, int mode)
{
	return !strcmp(path, "/dev/dax7.0") ? 0 : real.access(path, mode);
}

static int mkdir_played(const char *path, mode_t mode)
{
	(void)mode;
	CHECK(!strncmp(path, "/sys/kernel/tracing/instances/hetmap-", 37));
	if (mkdir_error) {
		errno = mkdir_error;
		return -1;
	}
	n_made++;
	return 0;
}

static int remove_played(const char *path)
{
	CHECK(!strncmp(path, "/sys/kernel/tracing/instances/hetmap-", 37));
	n_removed++;
	return 0;
}

static void play_begin(void)
{
	real = sys_table;
	sys_table.open = open_played;
	sys_table.fstat = fstat_played;
	sys_table.write = write_played;
	sys_table.getdents = getdents_played;
	sys_table.readlink = readlink_played;
	sys_table.access = access_played;
	sys_table.mkdir = mkdir_played;
	sys_table.remove = remove_played;
	ways = "1\n";
	events = "";
	*written = '\0';
	writing_fd = folder_fd = device_fd = -1;
	mkdir_error = 0;
	has_list = true;
	is_kmem = false;
	n_made = n_removed = 0;
}

static void play_end(void)
{
	sys_table = real;
	CHECK_EQUAL(n_made, n_removed);
}

static const struct hm_bad_range *list(const char *device, uint32_t expected)
{
	static struct hm_bad_range ranges[8];
	uint32_t n = 77;

	CHECK_OK(hm_tier_bad_ranges(device, ranges, 8, &n));
	CHECK_EQUAL(n, expected);
	return ranges;
}

static void test_list(void)
{
	const struct hm_bad_range *ranges;

	play_begin();
	list("node:9", 0);
	CHECK(!strcmp(written, "cxl_poison/enable 1\nmem1/trigger_poison_list 1\n"
			       "cxl_poison/enable 0\n"));
	events = "# tracer: nop\n" EVENT
		 "mem1 host=a serial=1 trace_type=List region=region3 region_uuid=0 "
		 "hpa=0x200001000 dpa=0x1000 dpa_length=0x40" TAIL EVENT
		 "mem1 host=a serial=1 trace_type=Inject region=region3 region_uuid=0 "
		 "hpa=0x200002000 dpa=0x2000 dpa_length=0x40" TAIL EVENT
		 "mem1 host=a serial=1 trace_type=List region=region30 region_uuid=0 "
		 "hpa=0x200003000 dpa=0x3000 dpa_length=0x40" TAIL EVENT
		 "mem1 host=a serial=1 trace_type=List region=region3 region_uuid=0 "
		 "hpa=0x2001fffc0 dpa=0x1fffc0 dpa_length=0x80" TAIL EVENT
		 "mem1 host=a serial=1 trace_type=List region=region3 region_uuid=0 "
		 "hpa=0xffffffffffffffff dpa=0x5000 dpa_length=0x40" TAIL;
	ranges = list("node:9", 2);
	CHECK_EQUAL(ranges[0].offset, 0x1000);
	CHECK_EQUAL(ranges[0].length, 64);
	CHECK_EQUAL(ranges[1].offset, 0x1fffc0);
	CHECK_EQUAL(ranges[1].length, 128);
	/* The device begins 2 MiB behind the region. */
	ranges = list("dax:/dev/dax7.0", 1);
	CHECK_EQUAL(ranges[0].offset, 0);
	CHECK_EQUAL(ranges[0].length, 64);
	play_end();
}

/* Two memory devices take turns of 4 KiB: a range of one is in pieces. */
static void test_interleaved(void)
{
	const struct hm_bad_range *ranges;

	play_begin();
	ways = "2\n";
	events = EVENT "mem2 host=a serial=1 trace_type=List region=region3 region_uuid=0 "
		       "hpa=0x200003f80 dpa=0x1f80 dpa_length=0x100" TAIL;
	ranges = list("node:9", 2);
	CHECK(strstr(written, "mem1/trigger_poison_list 1\nmem2/trigger_poison_list 1\n"));
	CHECK_EQUAL(ranges[0].offset, 0x3f80);
	CHECK_EQUAL(ranges[0].length, 128);
	CHECK_EQUAL(ranges[1].offset, 0x5000);
	CHECK_EQUAL(ranges[1].length, 128);
	play_end();
}

/* Lines on the list, and no others, by their addresses in the memory device. */
static void test_clear(void)
{
	uint64_t cleared = 77;

	play_begin();
	events = EVENT "mem1 host=a serial=1 trace_type=List region=region3 region_uuid=0 "
		       "hpa=0x2001fffc0 dpa=0x1fffc0 dpa_length=0xc0" TAIL;
	CHECK_OK(hm_tier_bad_clear("dax:/dev/dax7.0", 64, 4096, &cleared));
	CHECK_EQUAL(cleared, 4096);
	CHECK(strstr(written, "mem1/clear_poison 0x200040\n"));
	CHECK(!strstr(written, "0x200000\n") && !strstr(written, "0x1fffc0\n"));
	*written = '\0';
	CHECK_OK(hm_tier_bad_clear("node:9", 0, 0x10000000, &cleared));
	CHECK(strstr(written, "mem1/clear_poison 0x1fffc0\nmem1/clear_poison 0x200000\n"
			      "mem1/clear_poison 0x200040\n"));
	CHECK_ERROR(-EINVAL, hm_tier_bad_clear("node:9", 0x10000000, 64, &cleared));
	play_end();
}

static void test_refused(void)
{
	uint64_t cleared = 77;
	uint32_t n = 77;

	play_begin();
	mkdir_error = EACCES;
	CHECK_ERROR(-EACCES, hm_tier_bad_ranges("node:9", NULL, 0, &n));
	CHECK(strstr(hm_errmsg(), "root"));
	mkdir_error = ENOENT;
	CHECK_ERROR(-EOPNOTSUPP, hm_tier_bad_clear("node:9", 0, 64, &cleared));
	CHECK(strstr(hm_errmsg(), "tracefs"));
	mkdir_error = 0;
	has_list = false;
	CHECK_ERROR(-EOPNOTSUPP, hm_tier_bad_ranges("node:9", NULL, 0, &n));
	CHECK(strstr(hm_errmsg(), "Linux before 6.4"));
	CHECK_ERROR(-EOPNOTSUPP, hm_tier_bad_ranges("node:8", NULL, 0, &n));
	CHECK_EQUAL(n, 77);
	CHECK_EQUAL(cleared, 77);
	play_end();
}

/* A device that kmem has made a node of is no rung: its file in /dev can't be opened. */
static void test_system_ram(void)
{
	struct hm_tier tiers[16] = { { .struct_size = sizeof(tiers[0]) } };
	uint32_t n, i, pass, found;

	play_begin();
	for (pass = 0; pass < 2; pass++) {
		is_kmem = pass;
		CHECK_OK_FATAL(hm_tier_list(tiers, 16, 0, &n));
		for (i = found = 0; i < n && i < 16; i++)
			found += !strcmp(tiers[i].device, "dax:/dev/dax7.0");
		CHECK_EQUAL(found, !is_kmem);
	}
	play_end();
}

/* ---- a machine with CXL memory ---- */

static bool find_device(char *name)
{
	struct hm_tier tiers[16] = { { .struct_size = sizeof(tiers[0]) } };
	uint32_t n, i;

	CHECK_OK_FATAL(hm_tier_list(tiers, 16, 0, &n));
	for (i = 0; i < n && i < 16; i++)
		if (!strncmp(tiers[i].made_of, "CXL ", 4)) {
			strcpy(name, tiers[i].device);
			return true;
		}
	return false;
}

static void inject(uint64_t dpa)
{
	FILE *file = fopen("/sys/kernel/debug/cxl/mem0/inject_poison", "w");

	CHECK_FATAL(file != NULL);
	fprintf(file, "0x%" PRIx64, dpa);
	CHECK_EQUAL(fclose(file), 0);
}

static void test_machine(void)
{
	const struct hm_bad_range *ranges;
	uint64_t cleared = 0;
	char device[64];
	uint32_t n = 77;

	if (!find_device(device)) {
		test_skip("numa", "there is no CXL memory (tests/vm/tiers has some)");
		return;
	}
	if (access(BUS "mem0/trigger_poison_list", F_OK)) {
		CHECK_ERROR(-EOPNOTSUPP, hm_tier_bad_ranges(device, NULL, 0, &n));
		CHECK_EQUAL(n, 77);
		return;
	}
	list(device, 0);
	inject(0x10000);
	inject(0x20040);
	ranges = list(device, 2);
	CHECK_EQUAL(ranges[0].offset + ranges[1].offset, 0x10000 + 0x20040);
	CHECK_EQUAL(ranges[0].length, 64);
	CHECK_OK(hm_tier_bad_clear(device, 0x10000, 4096, &cleared));
	CHECK_EQUAL(cleared, 4096);
	ranges = list(device, 1);
	CHECK_EQUAL(ranges[0].offset, 0x20040);
	CHECK_OK(hm_tier_bad_clear(device, 0, 1 << 20, &cleared));
	list(device, 0);
}

static const struct test tests[] = {
	{ .name = "list", .run = test_list },
	{ .name = "interleaved", .run = test_interleaved },
	{ .name = "clear", .run = test_clear },
	{ .name = "refused", .run = test_refused },
	{ .name = "system_ram", .run = test_system_ram },
	{ .name = "machine", .run = test_machine },
	{ 0 },
};

TEST_MAIN(harness_main, "poison_list", tests)
