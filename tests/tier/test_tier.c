// SPDX-License-Identifier: MIT
/*
 * Tiers: the ladder of this machine, and ladders of machines that a folder plays, for which the
 * library's open() finds the folder instead of sysfs.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "lib/rig.h"
#include "lib/support.h"
#include "tier/tier.h"

#define NODES "/sys/devices/system/node"
#define STATUS "/proc/self/status"

/* ---- a machine in a folder ---- */

static char folder[64];
static int (*real_open)(const char *path, int flags, mode_t mode);

/* DAX devices and mounts are further rungs: these tests are of nodes only. */
static bool is_device_list(const char *path)
{
	return !strcmp(path, "/sys/bus/dax/devices") || !strcmp(path, "/proc/self/mountinfo");
}

static int open_played(const char *path, int flags, mode_t mode)
{
	char played[256];

	if (!strncmp(path, NODES, strlen(NODES)))
		snprintf(played, sizeof(played), "%s/node%s", folder, path + strlen(NODES));
	else if (is_device_list(path))
		snprintf(played, sizeof(played), "%s/nothing", folder);
	else if (!strcmp(path, STATUS))
		snprintf(played, sizeof(played), "%s/status", folder);
	else
		return real_open(path, flags, mode);
	return real_open(played, flags, mode);
}

static void write_file(const char *name, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void write_file(const char *name, const char *format, ...)
{
	char path[256], *at;
	va_list args;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	for (at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
	file = fopen(path, "w");
	if (!file)
		test_abandon();
	va_start(args, format);
	vfprintf(file, format, args);
	va_end(args);
	fclose(file);
}

static void play_begin(const char *has_memory, const char *allowed)
{
	strcpy(folder, "/tmp/test_tier.XXXXXX");
	if (!mkdtemp(folder))
		test_abandon();
	if (has_memory)
		write_file("node/has_memory", "%s\n", has_memory);
	write_file("status", "Name:\ttest\nMems_allowed_list:\t%s\n", allowed);
	real_open = sys_table.open;
	sys_table.open = open_played;
}

static void play_end(void)
{
	char command[128];

	sys_table.open = real_open;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	CHECK_EQUAL(system(command), 0);
}

/* @latency 0: without a table of the firmware. */
static void play_node(unsigned int node, uint64_t mib, const char *processors,
		      unsigned int latency, unsigned int megabytes)
{
	char name[96];

	snprintf(name, sizeof(name), "node/node%u/meminfo", node);
	write_file(name,
		   "Node %u MemTotal: %8" PRIu64 " kB\nNode %u MemFree: %8" PRIu64 " kB\n",
		   node, mib << 10, node, mib << 9);
	snprintf(name, sizeof(name), "node/node%u/cpulist", node);
	write_file(name, "%s\n", processors);
	if (!latency)
		return;
	snprintf(name, sizeof(name), "node/node%u/access0/initiators/read_latency", node);
	write_file(name, "%u\n", latency);
	snprintf(name, sizeof(name), "node/node%u/access0/initiators/read_bandwidth", node);
	write_file(name, "%u\n", megabytes);
}

static uint32_t list(struct hm_tier *tiers, uint32_t capacity, uint32_t flags)
{
	uint32_t n;

	tiers[0].struct_size = sizeof(tiers[0]);
	CHECK_OK_FATAL(hm_tier_list(tiers, capacity, flags, &n));
	return n;
}

static void test_firmware(void)
{
	struct hm_tier tiers[8] = { 0 };

	play_begin("0-2,5", "0-63");
	play_node(0, 4096, "0-3,8", 90, 20000);
	play_node(1, 16384, "", 300, 8000);
	play_node(2, 2048, "", 70, 9000);
	play_node(5, 0, "", 10, 1);
	CHECK_EQUAL(list(tiers, 8, 0), 3);
	CHECK(!strcmp(tiers[0].device, "node:2"));
	CHECK(!strcmp(tiers[1].device, "node:0"));
	CHECK(!strcmp(tiers[2].device, "node:1"));
	CHECK_EQUAL(tiers[0].words, 1u << HM_TIER_FAST);
	CHECK_EQUAL(tiers[1].words, 0);
	CHECK_EQUAL(tiers[2].words, 1u << HM_TIER_LARGE | 1u << HM_TIER_FAR);
	CHECK_EQUAL(tiers[1].source, HM_TIER_FIRMWARE);
	CHECK_EQUAL(tiers[1].latency, 90);
	CHECK_EQUAL(tiers[1].bandwidth, 20000000000);
	CHECK_EQUAL(tiers[1].capacity, 4096ull << 20);
	CHECK_EQUAL(tiers[1].available, 2048ull << 20);
	CHECK(!strcmp(tiers[1].made_of, "memory with 5 processors"));
	CHECK(!strcmp(tiers[2].made_of, "memory without processors"));
	CHECK_EQUAL(tiers[1].persist, HM_PERSIST_NONE);
	play_end();
}

/* A node that the control group keeps from this process is no rung. */
static void test_allowed(void)
{
	struct hm_tier tiers[4] = { 0 };
	uint32_t node = 77;

	play_begin("0-1", "1");
	play_node(0, 1024, "0", 10, 1000);
	play_node(1, 1024, "", 100, 1000);
	CHECK_EQUAL(list(tiers, 4, 0), 1);
	CHECK(!strcmp(tiers[0].device, "node:1"));
	CHECK_EQUAL(tiers[0].words, 1u << HM_TIER_FAST | 1u << HM_TIER_LARGE);
	CHECK_OK(tier_node(HM_TIER_FAST, &node));
	CHECK_EQUAL(node, 1);
	node = 77;
	CHECK_ERROR(-ENODEV, tier_node(HM_TIER_FAR, &node));
	CHECK(strstr(hm_errmsg(), "one node"));
	CHECK_EQUAL(node, 77);
	play_end();
}

static void test_words(void)
{
	uint32_t node = 77;

	play_begin("0-1", "0-1");
	play_node(0, 1024, "0", 10, 1000);
	play_node(1, 2048, "", 100, 1000);
	CHECK_OK(tier_node(HM_TIER_FAST, &node));
	CHECK_EQUAL(node, 0);
	CHECK_OK(tier_node(HM_TIER_LARGE, &node));
	CHECK_EQUAL(node, 1);
	CHECK_OK(tier_node(HM_TIER_FAR, &node));
	CHECK_EQUAL(node, 1);
	CHECK_ERROR(-EINVAL, tier_node(4, &node));
	play_end();
}

static void test_no_numa(void)
{
	struct hm_tier tiers[4] = { 0 };
	struct hm_device *device = NULL;

	play_begin(NULL, "0");
	CHECK_EQUAL(list(tiers, 4, HM_TIER_MEASURE), 0);
	CHECK_ERROR(-EOPNOTSUPP, hm_device_open("node:0", &device));
	CHECK_ERROR(-EOPNOTSUPP, hm_device_open("tier:fast", &device));
	CHECK(!device);
	play_end();
}

/* ---- measured figures ---- */

static unsigned int n_mbind;
static long (*real_mbind)(void *, unsigned long, int, const unsigned long *, unsigned long,
			  unsigned int);

static long count_mbind(void *address, unsigned long length, int mode,
			const unsigned long *mask, unsigned long max_node, unsigned int flags)
{
	n_mbind++;
	return real_mbind(address, length, mode, mask, max_node, flags);
}

/* This machine's nodes without the firmware's table. */
static int open_without_table(const char *path, int flags, mode_t mode)
{
	if (strstr(path, "/access0/") || is_device_list(path)) {
		errno = ENOENT;
		return -1;
	}
	return real_open(path, flags, mode);
}

static uint32_t measure(struct hm_tier *tiers)
{
	n_mbind = 0;
	return list(tiers, 8, HM_TIER_MEASURE);
}

static void measure_again(void *user)
{
	const struct hm_tier *before = user;
	struct hm_tier tiers[8] = { 0 };

	measure(tiers);
	CHECK_EQUAL(n_mbind, 0);
	CHECK_EQUAL(tiers[0].latency, before->latency);
	CHECK_EQUAL(tiers[0].bandwidth, before->bandwidth);
	CHECK_EQUAL(tiers[0].source, HM_TIER_MEASURED);
}

static void measure_anew(void *user)
{
	const uint32_t *n = user;
	struct hm_tier tiers[8] = { 0 };

	CHECK_EQUAL(measure(tiers), *n);
	CHECK_EQUAL(n_mbind, *n);
}

/* The children know only the file's values: the parent measures in a child, too. */
static void measure_first(void *user)
{
	struct hm_tier tiers[8] = { 0 }, *shared = user;
	uint32_t n = measure(tiers), i;

	CHECK(n >= 1);
	CHECK_EQUAL(n_mbind, n);
	for (i = 0; i < n && i < 8; i++) {
		CHECK_EQUAL(tiers[i].source, HM_TIER_MEASURED);
		CHECK(tiers[i].latency > 0 && tiers[i].latency < 1000000);
		CHECK(tiers[i].bandwidth > 1000000);
		CHECK(!i || tiers[i].latency >= tiers[i - 1].latency);
	}
	measure(tiers);
	CHECK_EQUAL(n_mbind, 0);
	shared[0] = tiers[0];
	shared[1].capacity = n;
}

static void spoil_files(const char *cache)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "for f in %s/hetmap/tiers-*; do printf 'other tiers\\nnode 0 latency 1 "
		 "bandwidth 1\\n' >$f; done",
		 cache);
	CHECK_EQUAL(system(command), 0);
}

static void test_measured(void)
{
	char cache[] = "/tmp/test_tier.XXXXXX", command[64];
	struct hm_tier *shared;
	uint32_t n;

	if (!node_usable()) {
		test_skip("numa", "this kernel has no NUMA nodes");
		return;
	}
	CHECK(mkdtemp(cache) != NULL);
	setenv("XDG_CACHE_HOME", cache, 1);
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	real_open = sys_table.open;
	sys_table.open = open_without_table;
	real_mbind = sys_table.mbind;
	sys_table.mbind = count_mbind;
	CHECK_EQUAL(test_fork(measure_first, shared), 0);
	n = (uint32_t)shared[1].capacity;
	CHECK_EQUAL(test_fork(measure_again, &shared[0]), 0);
	spoil_files(cache);
	CHECK_EQUAL(test_fork(measure_anew, &n), 0);
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	CHECK_EQUAL(test_fork(measure_anew, &n), 0);
	sys_table.mbind = real_mbind;
	sys_table.open = real_open;
	munmap(shared, PAGE);
	snprintf(command, sizeof(command), "rm -rf %s", cache);
	CHECK_EQUAL(system(command), 0);
}

static void test_bad_input(void)
{
	struct hm_tier tiers[2] = { 0 };
	uint32_t n = 77;

	CHECK_ERROR(-EINVAL, hm_tier_list(tiers, 2, 0, NULL));
	CHECK_ERROR(-EINVAL, hm_tier_list(NULL, 2, 0, &n));
	CHECK_ERROR(-EINVAL, hm_tier_list(NULL, 0, 2, &n));
	CHECK_ERROR(-EINVAL, hm_tier_list(tiers, 2, 0, &n));
	tiers[0].struct_size = sizeof(tiers[0]) + 8;
	CHECK_ERROR(-E2BIG, hm_tier_list(tiers, 2, 0, &n));
	CHECK_EQUAL(n, 77);
}

/* ---- devices ---- */

/* Pages that the kernel has taken for others are on no node until they are read. */
static void check_pages(const char *address, uint64_t length, int node)
{
	struct hm_range_page *pages = calloc(length / PAGE, sizeof(*pages));
	uint64_t n, i, left = 1;
	int tries;

	CHECK_FATAL(pages != NULL);
	for (tries = 0; left && tries < 10; tries++) {
		for (i = 0; i < length; i += PAGE)
			(void)*(const volatile char *)(address + i);
		CHECK_OK(hm_range_query(address, length, NULL, pages, length / PAGE, &n));
		left = 0;
		for (i = 0; i < length / PAGE; i++)
			left += pages[i].node < 0;
	}
	for (i = 0; i < length / PAGE; i++)
		if (pages[i].node != node) {
			CHECK_EQUAL(pages[i].node, node);
			break;
		}
	free(pages);
}

/* Makes a buffer with @desc and touches it: all pages must be on @node, after growth as well. */
static void check_placed(const char *device_name, const struct hm_buffer_desc *desc, int node)
{
	AUTO(hm_device) *device = rig_device(device_name);
	AUTO(hm_buffer) *buffer = rig_buffer(device, desc);
	AUTO(hm_map) *map = rig_map(buffer, NULL);

	pattern_write(hm_map_address(map), 0, desc->size, 5);
	check_pages(hm_map_address(map), desc->size, node);
	CHECK_OK(hm_buffer_resize(buffer, desc->max_size, 0));
	CHECK(pattern_holds(hm_map_address(map), 0, desc->size, 5));
	pattern_write(hm_map_address(map), 0, desc->max_size, 6);
	check_pages(hm_map_address(map), desc->max_size, node);
}

static void check_both(const char *device, uint32_t tier, int node)
{
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = 64 * PAGE,
		.max_size = 256 * PAGE,
		.tier = tier,
	};

	check_placed(device, &desc, node);
	desc.flags = HM_BUFFER_PRIVATE;
	check_placed(device, &desc, node);
}

/* On each rung of this machine: by its name, and by the words that stand for it. */
static void test_placed(void)
{
	struct hm_tier tiers[8] = { 0 };
	uint32_t n, i, word;
	char name[32];

	n = list(tiers, 8, HM_TIER_MEASURE);
	if (!n)
		test_skip("numa", "this kernel has no NUMA nodes");
	for (i = 0; i < n && i < 8; i++) {
		if (strncmp(tiers[i].device, "node:", 5) != 0)
			continue;
		check_both(tiers[i].device, 0, tiers[i].node);
		for (word = HM_TIER_FAST; word <= HM_TIER_FAR; word++) {
			if (!(tiers[i].words >> word & 1))
				continue;
			snprintf(name, sizeof(name), "tier:%s", tier_word_name(word));
			check_both(name, 0, tiers[i].node);
			check_both("host", word, tiers[i].node);
		}
	}
}

/* Other devices have no NUMA placement, a node's buffers have theirs already. */
static void test_refused(void)
{
	static const struct {
		const char *device;
		struct hm_buffer_desc desc;
		int error;
	} rows[] = {
		{ "soft:0", { .size = PAGE, .tier = HM_TIER_FAST }, -EOPNOTSUPP },
		{ "node:0", { .size = PAGE, .tier = HM_TIER_FAST }, -EOPNOTSUPP },
		{ "node:0", { .size = PAGE, .flags = HM_BUFFER_HUGETLB }, -EOPNOTSUPP },
		{ "node:0", { .size = 1ull << 46 }, -ENOMEM },
		{ "host", { .size = PAGE, .tier = 9 }, -EINVAL },
		{ "host",
		  { .size = PAGE, .tier = 1, .numa_mode = HM_NUMA_BIND, .numa_nodes = 1 },
		  -EINVAL },
	};
	struct hm_buffer *buffer = NULL;
	struct hm_device *device;
	size_t i;

	if (!node_usable()) {
		test_skip("numa", "this kernel has no NUMA nodes");
		return;
	}
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct hm_buffer_desc desc = rows[i].desc;

		desc.struct_size = sizeof(desc);
		CHECK_OK_FATAL(hm_device_open(rows[i].device, &device));
		CHECK_ERROR(rows[i].error, hm_buffer_create(device, &desc, &buffer));
		hm_device_unref(device);
	}
	CHECK(!buffer);
}

static void test_names(void)
{
	static const char *const names[] = { "node",    "node:",     "node:64", "node:63",
					     "node:0x", "node:-0",   "tier",    "tier:",
					     "tier:2",  "tier:quick" };
	struct hm_device_info info = { .struct_size = sizeof(info) };
	AUTO(hm_device) *device = NULL;
	size_t i;

	if (!node_usable()) {
		test_skip("numa", "this kernel has no NUMA nodes");
		return;
	}
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK_ERROR(-ENODEV, hm_device_open(names[i], &device));
	CHECK_OK_FATAL(hm_device_open("tier:fast", &device));
	CHECK_OK(hm_device_query(device, &info));
	CHECK(info.numa_node >= 0);
	CHECK(info.memory_total > info.memory_free);
	CHECK(strstr(info.description, "\"fast\""));
}

static const struct test tests[] = {
	{ .name = "firmware", .run = test_firmware },
	{ .name = "allowed", .run = test_allowed },
	{ .name = "words", .run = test_words },
	{ .name = "no_numa", .run = test_no_numa },
	{ .name = "measured", .run = test_measured },
	{ .name = "bad_input", .run = test_bad_input },
	{ .name = "placed", .run = test_placed },
	{ .name = "refused", .run = test_refused },
	{ .name = "names", .run = test_names },
	{ 0 },
};

TEST_MAIN(harness_main, "tier", tests)
