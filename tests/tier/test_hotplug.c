// SPDX-License-Identifier: MIT
/*
 * Nodes that come and go while the library runs: the module of node 2 in the machine of
 * tests/vm/tiers is brought online, and taken offline below buffers, through sysfs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/rig.h"
#include "lib/support.h"
#include "tier/tier.h"

#define NODE 2
#define DEVICE "node:2"
#define MEBI (1ull << 20)
#define SIZE (8 * MEBI)
#define BLOCK (64u * 1024)

/* ---- blocks of memory ---- */

static int write_state(const char *path, const char *state)
{
	const ssize_t length = (ssize_t)strlen(state);
	int fd = open(path, O_WRONLY | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = write(fd, state, (size_t)length) == length ? 0 : -errno;
	close(fd);
	return r;
}

/* A block whose pages are in use just then is asked again. */
static int set_block(const char *path, const char *state)
{
	int tries = 100, r;

	while ((r = write_state(path, state)) == -EBUSY && tries--)
		usleep(100000);
	return r;
}

/*
 * The kernel lets processes know of the node by a worker of its own, a little later: waits until
 * this one may use it, or may no more.
 */
static void wait_for_node(uint32_t node, bool usable)
{
	int tries = 1000;

	while ((node_usable() >> node & 1) != usable && tries--)
		usleep(10000);
	CHECK_EQUAL(node_usable() >> node & 1, usable);
}

/* Sets the state of each block of the node that has another one. Returns their number. */
static int set_node(uint32_t node, const char *state)
{
	char folder[64], path[384], now[32];
	struct dirent *entry;
	int n = 0, fd, r;
	ssize_t length;
	DIR *blocks;

	snprintf(folder, sizeof(folder), "/sys/devices/system/node/node%u", node);
	blocks = opendir(folder);
	while (blocks && (entry = readdir(blocks))) {
		if (strncmp(entry->d_name, "memory", 6) != 0 ||
		    !strchr("0123456789", entry->d_name[6]))
			continue;
		snprintf(path, sizeof(path), "%s/%s/state", folder, entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		length = fd < 0 ? -1 : read(fd, now, sizeof(now) - 1);
		close(fd);
		if (length < 0)
			continue;
		now[length] = '\0';
		if (!strncmp(now, state, 7) || (!strncmp(now, "online", 6) && state[1] == 'n'))
			continue;
		r = set_block(path, state);
		if (r)
			printf("%s: %s, was %s", path, state, now);
		CHECK_OK(r);
		n++;
	}
	if (blocks)
		closedir(blocks);
	wait_for_node(node, state[1] == 'n');
	return n;
}

static bool is_there(void)
{
	if (!access("/sys/devices/system/node/node2/meminfo", F_OK))
		return true;
	test_skip("numa", "there is no node 2 of memory (tests/vm/tiers has one)");
	return false;
}

/* ---- pages on a node ---- */

static uint64_t pages_on(const char *address, uint64_t length, int node)
{
	struct hm_range_page *pages = calloc(length / PAGE, sizeof(*pages));
	uint64_t n, i, sum = 0;

	CHECK_OK(hm_range_query(address, length, NULL, pages, length / PAGE, &n));
	for (i = 0; i < length / PAGE; i++)
		sum += pages[i].node == node;
	free(pages);
	return sum;
}

static bool is_rung(const char *device)
{
	struct hm_tier tiers[16] = { { .struct_size = sizeof(tiers[0]) } };
	uint32_t n, i;

	CHECK_OK_FATAL(hm_tier_list(tiers, 16, 0, &n));
	for (i = 0; i < n && i < 16; i++)
		if (!strcmp(tiers[i].device, device))
			return true;
	return false;
}

static struct hm_buffer *create(struct hm_device *device, uint32_t tier)
{
	return rig_buffer(device, DESC(hm_buffer_desc, .size = SIZE, .max_size = 2 * SIZE,
				       .tier = tier));
}

/* ---- tests ---- */

static void check_made(struct hm_device *device)
{
	AUTO(hm_buffer) *buffer = create(device, 0);
	AUTO(hm_map) *map = rig_map(buffer, NULL);

	pattern_write(hm_map_address(map), 0, SIZE, 3);
	CHECK_EQUAL(pages_on(hm_map_address(map), SIZE, NODE), SIZE / PAGE);
}

/* Memory that is added is a rung and a device from then on. */
static void test_added(void)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_device *device = NULL;

	TEST_NEEDS(is_there());
	set_node(NODE, "offline");
	CHECK(!is_rung(DEVICE));
	CHECK_ERROR(-ENODEV, hm_device_open(DEVICE, &device));
	CHECK(strstr(hm_errmsg(), "node 2 has no memory") != NULL);
	CHECK(set_node(NODE, "online_movable") > 0);
	CHECK(is_rung(DEVICE));
	CHECK_OK_FATAL(hm_device_open(DEVICE, &device));
	CHECK_OK(hm_device_query(device, &info));
	CHECK(info.memory_total > 128 * MEBI && info.memory_total <= 256 * MEBI);
	check_made(device);
	hm_device_unref(device);
	set_node(NODE, "offline");
}

/* The kernel moves the pages of a buffer before it takes their node: bytes and address stay. */
static void test_taken(void)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_buffer *buffer, *other = NULL;
	struct hm_device *device;
	struct hm_map *map;
	char *address;

	TEST_NEEDS(is_there());
	set_node(NODE, "online_movable");
	CHECK_OK_FATAL(hm_device_open(DEVICE, &device));
	buffer = create(device, 0);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	address = hm_map_address(map);
	/* Half of it has pages. */
	pattern_write(address, 0, SIZE / 2, 5);
	CHECK_EQUAL(pages_on(address, SIZE / 2, NODE), SIZE / 2 / PAGE);
	CHECK(set_node(NODE, "offline") > 0);
	CHECK(hm_map_address(map) == address);
	CHECK(pattern_holds(address, 0, SIZE / 2, 5));
	CHECK_EQUAL(pages_on(address, SIZE / 2, NODE), 0);
	/* Nor does a touch of the other half end the process. */
	pattern_write(address, SIZE / 2, SIZE, 6);
	CHECK(pattern_holds(address, SIZE / 2, SIZE, 6));
	CHECK(!is_rung(DEVICE));
	/* Calls that ask the node for more memory are refused. */
	CHECK_ERROR(-ENODEV,
		    hm_buffer_create(device, DESC(hm_buffer_desc, .size = SIZE), &other));
	CHECK(strstr(hm_errmsg(), "node 2 has no memory any more") != NULL);
	CHECK_ERROR(-ENODEV, hm_buffer_resize(buffer, 2 * SIZE, 0));
	CHECK_EQUAL(buffer_info(buffer).size, SIZE);
	CHECK(!other);
	CHECK_OK(hm_device_query(device, &info));
	CHECK_EQUAL(info.memory_total, 0);
	/* When it is there again, the device that was kept goes on. */
	CHECK(set_node(NODE, "online_movable") > 0);
	CHECK_OK(hm_buffer_resize(buffer, 2 * SIZE, 0));
	pattern_write(address, SIZE, 2 * SIZE, 7);
	CHECK_EQUAL(pages_on(address + SIZE, SIZE, NODE), SIZE / PAGE);
	CHECK(pattern_holds(address, 0, SIZE / 2, 5));
	check_made(device);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	set_node(NODE, "offline");
}

/* A tiering whose slow node goes has no place for cold pages: it ends, and the bytes stay. */
static void test_tiering(void)
{
	struct hm_tiering_info info = { .struct_size = sizeof(info) };
	struct hm_tiering *tiering;
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	uint32_t i, far;
	char *address;
	int r = 0;

	TEST_NEEDS(is_there());
	set_node(NODE, "online_movable");
	CHECK_OK_FATAL(tier_node(HM_TIER_FAR, &far));
	CHECK_OK_FATAL(hm_device_open("host", &device));
	buffer = create(device, HM_TIER_FAR);
	hm_device_unref(device);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	address = hm_map_address(map);
	pattern_write(address, 0, SIZE, 9);
	CHECK_EQUAL(pages_on(address, SIZE, (int)far), SIZE / PAGE);
	CHECK_OK_FATAL(
		hm_tiering_create(map,
				  DESC(hm_tiering_desc, .flags = HM_TIERING_MANUAL,
				       .fast_bytes = 4 * BLOCK, .bytes_per_second = 1ull << 30),
				  &tiering));
	CHECK(set_node(far, "offline") > 0);
	CHECK(pattern_holds(address, 0, SIZE, 9));
	/* More on the fast tier than the budget allows: the coldest would leave. */
	CHECK_OK(hm_range_prefetch(address, SIZE, NULL, HM_READ | HM_RANGE_TIER(HM_TIER_FAST),
				   NULL));
	for (i = 0; i < 500 && !r; i++) {
		(void)*(volatile char *)(address + (size_t)(i % 4) * BLOCK);
		usleep(2000);
		r = hm_tiering_step(tiering);
	}
	CHECK_EQUAL((uint64_t)-r, ENODEV);
	CHECK_OK(hm_tiering_query(tiering, &info));
	CHECK_EQUAL((uint64_t)-info.status, ENODEV);
	hm_tiering_unref(tiering);
	CHECK(pattern_holds(address, 0, SIZE, 9));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	set_node(far, "online_movable");
	set_node(NODE, "offline");
}

static const struct test tests[] = {
	{ .name = "added", .run = test_added },
	{ .name = "taken", .run = test_taken },
	{ .name = "tiering", .run = test_tiering },
	{ 0 },
};

TEST_MAIN(harness_main, "hotplug", tests)
