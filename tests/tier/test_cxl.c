// SPDX-License-Identifier: MIT
/*
 * Names of CXL memory behind a DAX device or a node: by a sysfs that this program plays, and in the
 * machine of tests/vm/tiers by the kernel's.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"
#include "lib/support.h"
#include "tier/cxl.h"

#define BUS "/sys/bus/cxl/devices/"

struct entry {
	const char *path, *text;
};

static const struct entry links[] = {
	{ "/sys/dev/char/250:0",
	  "../../devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0" },
	{ "/sys/dev/char/250:1", "../../devices/LNXSYSTM:00/ndbus0/region1/dax1.0" },
	{ "/sys/dev/char/250:2",
	  "../../devices/platform/ACPI0017:00/root0/nvdimm-bridge0/ndbus1/"
	  "region4/dax4.0/dax4.0" },
	{ BUS "decoder2.0", "../../../devices/platform/ACPI0017:00/root0/port1/endpoint2/"
			    "decoder2.0" },
	{ BUS "endpoint2/uport", "../../../../../pci0000:0c/0000:0c:00.0/0000:0d:00.0/mem1" },
	{ NULL, NULL },
};
static struct entry files[] = {
	{ BUS "region0/target0", "decoder2.0\n" },
	{ BUS "region0/interleave_ways", "2\n" },
	{ BUS "region0/interleave_granularity", "4096\n" },
	{ BUS "mem1/serial", "0xc0ffee\n" },
	{ "/sys/devices/platform/ACPI0017:00/root0/nvdimm-bridge0/ndbus1/region4/resource",
	  "0x208000000\n" },
	{ BUS "region0/resource", "0x200000000\n" },
	{ BUS "region0/size", "0x10000000\n" },
	{ NULL, NULL },
};
static struct sys_table real;

static const char *find(const struct entry *entries, const char *path)
{
	for (; entries->path; entries++)
		if (!strcmp(entries->path, path))
			return entries->text;
	return NULL;
}

static int open_played(const char *path, int flags, mode_t mode)
{
	const char *text = find(files, path);
	int fd;

	if (!text)
		return real.open(path, flags, mode);
	fd = memfd_create("played", MFD_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET))
		return -1;
	return fd;
}

static ssize_t readlink_played(const char *path, char *to, size_t length)
{
	const char *target = find(links, path);

	if (!target)
		return real.readlink(path, to, length);
	/* As of a link: without a byte behind the text. */
	return (ssize_t)(stpncpy(to, target, length) - to);
}

static void test_names(void)
{
	char text[64] = "other";

	real = sys_table;
	sys_table.open = open_played;
	sys_table.readlink = readlink_played;
	CHECK(cxl_made_of("/sys/dev/char/250:0", text, sizeof(text)));
	CHECK(!strcmp(text, "CXL mem1 serial 0xc0ffee, region0, 2 ways of 4096 bytes"));
	files[1].text = "1\n";
	files[3].text = "\n";
	CHECK(cxl_made_of("/sys/dev/char/250:0", text, sizeof(text)));
	CHECK(!strcmp(text, "CXL mem1 serial not told, region0, 1 way of 4096 bytes"));
	strcpy(text, "other");
	CHECK(!cxl_made_of("/sys/dev/char/250:1", text, sizeof(text)));
	CHECK(!cxl_made_of("/sys/dev/char/250:9", text, sizeof(text)));
	files[0].text = "decoder9.9\n";
	CHECK(!cxl_made_of("/sys/dev/char/250:0", text, sizeof(text)));
	CHECK(!strcmp(text, "other"));
	files[0].text = "decoder2.0\n";
	files[1].text = "2\n";
	files[3].text = "0xc0ffee\n";
	sys_table = real;
}

/* Persistent memory is found by its address, which only root is told. */
static void test_persistent(void)
{
	char text[64] = "other";

	real = sys_table;
	sys_table.open = open_played;
	sys_table.readlink = readlink_played;
	CHECK(cxl_made_of("/sys/dev/char/250:2", text, sizeof(text)));
	CHECK(!strcmp(text, "CXL mem1 serial 0xc0ffee, region0, 2 ways of 4096 bytes"));
	strcpy(text, "other");
	files[4].text = "0x0\n";
	CHECK(!cxl_made_of("/sys/dev/char/250:2", text, sizeof(text)));
	files[4].text = "0x210000000\n";
	CHECK(!cxl_made_of("/sys/dev/char/250:2", text, sizeof(text)));
	CHECK(!strcmp(text, "other"));
	files[4].text = "0x208000000\n";
	sys_table = real;
}

/* The ladder names the memory of the node, or of the DAX device, that the region has made. */
static void test_machine(void)
{
	struct hm_tier tiers[16] = { { .struct_size = sizeof(tiers[0]) } };
	uint32_t n, i, region, named = 0;

	if (access("/sys/bus/cxl/devices/mem0", F_OK)) {
		test_skip("numa", "there is no CXL memory (tests/vm/tiers has some)");
		return;
	}
	CHECK_OK_FATAL(hm_tier_list(tiers, 16, 0, &n));
	for (i = 0; i < n && i < 16; i++)
		named += sscanf(tiers[i].made_of,
				"CXL mem0 serial 0xc0ffee, region%u, 1 way of "
				"256 bytes",
				&region) == 1;
	CHECK_EQUAL(named, 1);
}

static const struct test tests[] = {
	{ .name = "names", .run = test_names },
	{ .name = "persistent", .run = test_persistent },
	{ .name = "machine", .run = test_machine },
	{ 0 },
};

TEST_MAIN(harness_main, "cxl", tests)
