// SPDX-License-Identifier: MIT
/*
 * HM_NUMA_WEIGHTED: weights of nodes, ranges by them, and where the pages of a machine with two
 * nodes come from, which is counted exactly. The machine of tests/vm/tiers has such nodes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/weights.h"
#include "lib/rig.h"
#include "lib/support.h"
#include "tier/tier.h"

#define MEBI (1ull << 20)
#define KERNEL_WEIGHTS "/sys/kernel/mm/mempolicy/weighted_interleave"

/* ---- weights ---- */

static void check_weights(uint64_t first, uint64_t second, uint8_t a, uint8_t b)
{
	static uint32_t node = 10; /* figures stay: each case has nodes of its own */
	const uint64_t nodes = 3ull << node;
	uint8_t weights[WEIGHTS_NODES];

	CHECK_EQUAL(weights_unknown(nodes), nodes);
	weights_set_bandwidth(node, first);
	weights_set_bandwidth(node + 1, second);
	CHECK_EQUAL(weights_unknown(nodes), 0);
	weights_find(nodes, weights);
	CHECK_EQUAL(weights[node], a);
	CHECK_EQUAL(weights[node + 1], b);
	CHECK_EQUAL(weights[node + 2], 0);
	weights_set_bandwidth(node, 77);
	weights_find(nodes, weights);
	CHECK_EQUAL(weights[node], a);
	node += 2;
}

static void test_weights(void)
{
	check_weights(10000000000, 1000000000, 10, 1);
	check_weights(15000000000, 10000000000, 3, 2);
	check_weights(10100000000, 10000000000, 1, 1);
	check_weights(1000000000, 2500000000, 2, 5);
	check_weights(900000000000, 1000000000, 255, 1);
	check_weights(1, 1, 1, 1);
}

/* ---- ranges ---- */

struct seen {
	uint64_t end;
	uint64_t bytes[2];
	uint32_t n;
};

static int note_range(void *user, uint64_t offset, uint64_t length, uint32_t node)
{
	struct seen *seen = user;

	CHECK_EQUAL(offset, seen->end);
	CHECK(node == 40 || node == 41);
	CHECK_EQUAL((offset | length) % PAGE, 0);
	seen->end = offset + length;
	seen->bytes[node - 40] += length;
	seen->n++;
	return 0;
}

/* The ranges leave no gap, end with the length, are few, and each doubling has its share. */
static void test_ranges(void)
{
	const uint64_t nodes = 3ull << 40;
	struct seen seen;
	uint64_t length;

	weights_set_bandwidth(40, 3000);
	weights_set_bandwidth(41, 1000);
	for (length = 2 * MEBI; length <= 1ull << 42; length *= 2) {
		seen = (struct seen){ 0 };
		CHECK_EQUAL(weights_each_range(length, nodes, note_range, &seen), 0);
		CHECK_EQUAL(seen.end, length);
		CHECK_EQUAL(seen.bytes[0], length / 4 * 3);
		CHECK(seen.n <= 512);
	}
	seen = (struct seen){ 0 };
	CHECK_EQUAL(weights_each_range(5 * PAGE, nodes, note_range, &seen), 0);
	CHECK_EQUAL(seen.bytes[0], 5 * PAGE);
	CHECK_EQUAL(seen.n, 1);
}

/* ---- pages ---- */

static void count_pages(const char *address, uint64_t length, uint64_t *counts)
{
	struct hm_range_page *pages = calloc(length / PAGE, sizeof(*pages));
	uint64_t n, i;

	counts[0] = counts[1] = 0;
	CHECK_OK(hm_range_query(address, length, NULL, pages, length / PAGE, &n));
	for (i = 0; i < n; i++)
		if (pages[i].node == 0 || pages[i].node == 1)
			counts[pages[i].node]++;
	CHECK_EQUAL(counts[0] + counts[1], length / PAGE);
	free(pages);
}

static bool write_weight(int node, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), KERNEL_WEIGHTS "/node%d", node);
	file = fopen(path, "w");
	if (!file)
		return false;
	fputs(text, file);
	return !fclose(file);
}

static bool has_two_nodes(void)
{
	if ((node_usable() & 3) == 3)
		return true;
	test_skip("numa", "this machine has memory of one node only");
	return false;
}

static struct hm_buffer *create(uint32_t flags, uint64_t size, uint64_t max_size)
{
	struct hm_buffer *buffer = NULL;
	int r;
	struct hm_device *device = rig_device("host");

	r = hm_buffer_create(device,
			     DESC(hm_buffer_desc, .flags = flags, .size = size,
				  .max_size = max_size, .numa_mode = HM_NUMA_WEIGHTED,
				  .numa_nodes = 3),
			     &buffer);
	hm_device_unref(device);
	if (r)
		CHECK(r == -EOPNOTSUPP);
	return buffer;
}

/* The shares of each round, one for one: independent of the code under test. */
static void expect_ranges(const uint8_t *weights, uint64_t length, uint64_t *counts)
{
	uint64_t at, round, pages;

	counts[0] = counts[1] = 0;
	for (at = 0; at < length; at += round) {
		for (round = 2 * MEBI; round * 16 <= at; round *= 2)
			;
		pages = round / PAGE;
		counts[0] += pages * weights[0] / (uint64_t)(weights[0] + weights[1]);
		counts[1] += pages - pages * weights[0] / (uint64_t)(weights[0] + weights[1]);
	}
}

/*
 * Without weights of the kernel: growth and a second map, of another process, too, follow the same
 * ranges, and a buffer with private pages is refused.
 */
static void test_by_ranges(void)
{
	uint64_t counts[2], expected[2];
	uint8_t weights[WEIGHTS_NODES];
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *address;

	TEST_NEEDS(has_two_nodes());
	write_weight(0, "1");
	write_weight(1, "1");
	CHECK_OK_FATAL(tier_weigh(3));
	weights_find(3, weights);
	if (weights[0] == weights[1]) {
		test_skip("numa", "both nodes have the same bandwidth");
		return;
	}
	buffer = create(0, 4 * MEBI, 32 * MEBI);
	CHECK(strstr(hm_warning(), "by ranges") != NULL);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	address = hm_map_address(map);
	pattern_write(address, 0, 4 * MEBI, 5);
	count_pages(address, 4 * MEBI, counts);
	expect_ranges(weights, 4 * MEBI, expected);
	CHECK_EQUAL(counts[0], expected[0]);
	CHECK_EQUAL(counts[1], expected[1]);
	CHECK_OK(hm_buffer_resize(buffer, 32 * MEBI, 0));
	pattern_write(address, 0, 32 * MEBI, 6);
	count_pages(address, 32 * MEBI, counts);
	expect_ranges(weights, 32 * MEBI, expected);
	CHECK_EQUAL(counts[0], expected[0]);
	CHECK_EQUAL(counts[1], expected[1]);
	CHECK(pattern_holds(address, 0, 32 * MEBI, 6));
	/* The ranges are of the file: they take none of the process's mappings. */
	CHECK_OK(hm_map_protect(map, MEBI, MEBI, HM_READ));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK(!create(HM_BUFFER_PRIVATE, MEBI, MEBI));
	CHECK(strstr(hm_errmsg(), "HM_BUFFER_PRIVATE") != NULL);
}

/* Pages take turns where the kernel has weights in the same proportion. */
static void test_by_kernel(void)
{
	uint8_t weights[WEIGHTS_NODES];
	uint64_t counts[2], pages;
	struct hm_map *map;
	uint32_t flags;
	char text[2][8];
	int i;

	TEST_NEEDS(has_two_nodes());
	CHECK_OK_FATAL(tier_weigh(3));
	weights_find(3, weights);
	for (i = 0; i < 2; i++) {
		snprintf(text[i], sizeof(text[i]), "%u", weights[i]);
		if (!write_weight(i, text[i])) {
			test_skip("weights", "no weights of nodes (Linux 6.9), or not root's");
			return;
		}
	}
	/* Whole turns, below the size from which huge pages are asked for. */
	pages = 256 / (weights[0] + weights[1]) * (uint64_t)(weights[0] + weights[1]);
	for (flags = 0; flags <= HM_BUFFER_PRIVATE; flags += HM_BUFFER_PRIVATE) {
		AUTO(hm_buffer) *buffer = create(flags, pages * PAGE, pages * PAGE);

		CHECK(!strlen(hm_warning()));
		CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
		pattern_write(hm_map_address(map), 0, pages * PAGE, 7);
		count_pages(hm_map_address(map), pages * PAGE, counts);
		CHECK_EQUAL(counts[0] * weights[1], counts[1] * weights[0]);
		hm_map_unref(map);
	}
	write_weight(0, "1");
	write_weight(1, "1");
}

/* One node has all pages. */
static void test_one_node(void)
{
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = MEBI,
		.numa_mode = HM_NUMA_WEIGHTED,
		.numa_nodes = 1,
	};
	struct hm_buffer *buffer = NULL;
	AUTO(hm_device) *device = NULL;
	uint64_t counts[2];
	struct hm_map *map;

	if (!(node_usable() & 1)) {
		test_skip("numa", "this kernel has no NUMA nodes");
		return;
	}
	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
	CHECK(!strlen(hm_warning()));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	pattern_write(hm_map_address(map), 0, MEBI, 5);
	count_pages(hm_map_address(map), MEBI, counts);
	CHECK_EQUAL(counts[1], 0);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	buffer = NULL;
	desc.numa_nodes = 0;
	CHECK_ERROR(-EINVAL, hm_buffer_create(device, &desc, &buffer));
	CHECK(!buffer);
}

static const struct test tests[] = {
	{ .name = "weights", .run = test_weights },
	{ .name = "ranges", .run = test_ranges },
	{ .name = "by_ranges", .run = test_by_ranges },
	{ .name = "by_kernel", .run = test_by_kernel },
	{ .name = "one_node", .run = test_one_node },
	{ 0 },
};

TEST_MAIN(harness_main, "weighted", tests)
