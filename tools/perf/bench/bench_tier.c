// SPDX-License-Identifier: MIT
/*
 * map_tier and interleave: buffers on tiers of memory, against bare system calls that place the
 * same pages. interleave also counts the pages of each node, which must be as the weights say.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define LENGTH MIB(2)
#define PAGE KIB(4)
#define STREAM MIB(64)
#define TIERS_MOST 96

/* ---- map_tier ---- */

struct tier_cycle {
	const struct hm_tier *tier;
	struct hm_device *device;
};

static int cycle_ours(void *user, double *ret_ns)
{
	const struct tier_cycle *cycle = user;
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = LENGTH };
	double start = bench_now();
	struct hm_buffer *buffer;
	struct hm_map *map;
	int r;

	r = hm_buffer_create(cycle->device, &desc, &buffer);
	if (r)
		return r;
	r = hm_map_create(buffer, NULL, &map);
	if (!r)
		bench_touch(hm_map_address(map), LENGTH, PAGE);
	hm_map_unref(r ? NULL : map);
	hm_buffer_unref(buffer);
	*ret_ns = bench_now() - start;
	return r;
}

static int cycle_peer(void *user, double *ret_ns)
{
	const struct tier_cycle *cycle = user;
	double start = bench_now();
	int r = peer_tier_cycle(cycle->tier->device, cycle->tier->node, LENGTH, PAGE);

	*ret_ns = bench_now() - start;
	return r;
}

static int measure_tier(const struct hm_tier *tier)
{
	struct bench_pair pair = {
		.name = tier->device,
		.peer = "the file or device, mmap, mbind on nodes, touch, munmap, close",
		.ours = cycle_ours,
		.peer_side = cycle_peer,
		.rounds = 400,
		.warm_up = 20,
	};
	struct tier_cycle cycle = { .tier = tier };
	int r = hm_device_open(tier->device, &cycle.device);

	if (r)
		return bench_fail(pair.name, r, true);
	r = bench_compare(&pair, &cycle, "us", 1e3, TARGET_RATIO, 1.05);
	hm_device_unref(cycle.device);
	return r;
}

int bench_map_tier(void)
{
	static struct hm_tier tiers[TIERS_MOST];
	uint32_t n, i;
	int r;

	tiers[0].struct_size = sizeof(tiers[0]);
	r = hm_tier_list(tiers, TIERS_MOST, 0, &n);
	if (r)
		return bench_fail("tiers", r, true);
	if (!n)
		bench_skip("tiers", "this kernel shows no NUMA nodes");
	for (i = 0; i < n && i < TIERS_MOST && !r; i++)
		r = measure_tier(&tiers[i]);
	return r;
}

/* ---- interleave ---- */

struct stream {
	uint64_t nodes;
	uint64_t counts[2]; /* pages of our side: node 0, all others */
};

static int count_pages(const char *address, struct stream *stream)
{
	struct hm_range_page *pages = calloc(STREAM / PAGE, sizeof(*pages));
	uint64_t n, i;
	int r;

	if (!pages)
		return -ENOMEM;
	r = hm_range_query(address, STREAM, NULL, pages, STREAM / PAGE, &n);
	stream->counts[0] = stream->counts[1] = 0;
	for (i = 0; !r && i < n; i++)
		stream->counts[pages[i].node > 0]++;
	free(pages);
	return r;
}

static int stream_ours(void *user, double *ret_ns)
{
	struct stream *stream = user;
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = STREAM,
		.numa_mode = HM_NUMA_WEIGHTED,
		.numa_nodes = stream->nodes,
	};
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	double start;
	int r;

	r = hm_device_open("host", &device);
	if (r)
		return r;
	start = bench_now();
	r = hm_buffer_create(device, &desc, &buffer);
	hm_device_unref(device);
	if (r)
		return r;
	r = hm_map_create(buffer, NULL, &map);
	hm_buffer_unref(buffer);
	if (r)
		return r;
	bench_touch(hm_map_address(map), STREAM, PAGE);
	*ret_ns = bench_now() - start;
	r = count_pages(hm_map_address(map), stream);
	hm_map_unref(map);
	return r;
}

static int stream_peer(void *user, double *ret_ns)
{
	const struct stream *stream = user;
	double start = bench_now();
	int r = peer_interleave(stream->nodes, STREAM, PAGE);

	*ret_ns = bench_now() - start;
	return r;
}

/* All nodes of the machine that have memory. */
static uint64_t find_nodes(void)
{
	static struct hm_tier tiers[TIERS_MOST];
	uint64_t nodes = 0;
	uint32_t n, i;

	tiers[0].struct_size = sizeof(tiers[0]);
	if (hm_tier_list(tiers, TIERS_MOST, 0, &n))
		return 0;
	for (i = 0; i < n && i < TIERS_MOST; i++)
		if (!strncmp(tiers[i].device, "node:", 5))
			nodes |= 1ull << tiers[i].node;
	return nodes;
}

int bench_interleave(void)
{
	struct bench_pair pair = {
		.name = "set up and touch 64 MiB",
		.peer = "memfd, mmap, mbind(MPOL_INTERLEAVE), touch",
		.ours = stream_ours,
		.peer_side = stream_peer,
		.rounds = 30,
		.warm_up = 2,
	};
	struct stream stream = { .nodes = find_nodes() };
	char note[128];
	int r;

	if (!(stream.nodes & (stream.nodes - 1))) {
		bench_skip(pair.name, "this machine has memory of one node only");
		return 0;
	}
	r = bench_compare(&pair, &stream, "ms", 1e6, TARGET_NONE, 0);
	if (r)
		return r;
	snprintf(note, sizeof(note), "%" PRIu64 " of %zu pages are node 0's", stream.counts[0],
		 STREAM / PAGE);
	bench_report(&(struct bench_result){
		.name = "pages of node 0",
		.unit = "pages",
		.value = (double)stream.counts[0],
		.peer = "half of them",
		.peer_value = (double)STREAM / (2 * PAGE),
		.kind = TARGET_NONE,
		.note = note,
	});
	return 0;
}
