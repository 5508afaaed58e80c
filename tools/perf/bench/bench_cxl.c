// SPDX-License-Identifier: MIT
/*
 * cxl_latency: the time that a load waits for each node, and the share of it for the
 * translation of the address. Loads that depend on each other go through all lines of 64 MiB by
 * chance; with huge pages the processor finds nearly each translation in its buffers, with
 * pages of 4 KiB nearly none.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define LENGTH MIB(64)
#define LINE 64u
#define LINES (LENGTH / LINE)
/* Rounds are short, and the best one counts: it was not interrupted. */
#define STEPS 4096u
#define ROUNDS 200
#define TIERS_MOST 96

struct latency {
	double small; /* ns a load, pages of 4 KiB */
	double huge;  /* with huge pages; 0: they can't be had */
};

/* A cycle through all lines (Sattolo's algorithm): each line has the number of the next one. */
static int make_cycle(char *base)
{
	uint32_t *order = malloc(LINES * sizeof(*order)), i;
	uint64_t state = 88172645463325252u;

	if (!order)
		return -ENOMEM;
	for (i = 0; i < LINES; i++)
		order[i] = i;
	for (i = LINES - 1; i > 0; i--) {
		uint32_t other, kept = order[i];

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		other = (uint32_t)(state % i);
		order[i] = order[other];
		order[other] = kept;
	}
	for (i = 0; i < LINES; i++)
		memcpy(base + (size_t)i * LINE, &order[i], sizeof(order[i]));
	free(order);
	return 0;
}

static bool has_huge_pages(struct hm_map *map)
{
	struct hm_map_info info = { .struct_size = sizeof(info), .fields = HM_MAP_RESIDENT };

	return !hm_map_query(map, &info) && info.huge >= LENGTH / 2;
}

/* @granule: bytes of a page. *@ret_ns is 0 where the memory has no such pages. */
static int measure(struct hm_device *device, uint64_t granule, double *ret_ns)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_BUFFER_PRIVATE,
		.size = LENGTH,
	};
	double best = 0, start, ns;
	struct hm_buffer *buffer;
	struct hm_map *map;
	uint32_t at = 0;
	char *base;
	int r, i;

	r = hm_buffer_create(device, &desc, &buffer);
	if (r)
		return r;
	r = hm_map_create(buffer, NULL, &map);
	hm_buffer_unref(buffer);
	if (r)
		return r;
	base = hm_map_address(map);
	r = hm_range_advise(base, LENGTH, NULL, HM_RANGE_GRANULE, granule);
	if (!r)
		r = make_cycle(base);
	for (i = 0; !r && i < ROUNDS; i++) {
		start = bench_now();
		at = peer_cxl_chase(base, at, STEPS);
		ns = (bench_now() - start) / STEPS;
		best = !i || ns < best ? ns : best;
	}
	*ret_ns = granule > KIB(4) && !has_huge_pages(map) ? 0 : best;
	hm_map_unref(map);
	return r;
}

static int measure_node(const struct hm_tier *tier, struct latency *ret_latency)
{
	struct hm_device *device;
	int r = hm_device_open(tier->device, &device);

	if (r)
		return r;
	r = measure(device, KIB(4), &ret_latency->small);
	if (!r)
		r = measure(device, MIB(2), &ret_latency->huge);
	hm_device_unref(device);
	return r;
}

static void report(const struct hm_tier *tier, const struct latency *latency,
		   const struct latency *dram)
{
	char name[96];

	snprintf(name, sizeof(name), "%s, a load", tier->device);
	bench_report(&(struct bench_result){
		.name = name,
		.unit = "ns",
		.value = latency->huge > 0 ? latency->huge : latency->small,
		.peer = "the fast node",
		.peer_value = dram->huge > 0 ? dram->huge : dram->small,
		.kind = TARGET_NONE,
		.note = latency->huge > 0 ? tier->made_of :
					    "there were no huge pages: with the translation",
	});
	if (latency->huge <= 0 || dram->huge <= 0)
		return;
	snprintf(name, sizeof(name), "%s, its translation", tier->device);
	bench_report(&(struct bench_result){
		.name = name,
		.unit = "ns",
		.value = latency->small - latency->huge,
		.peer = "the fast node",
		.peer_value = dram->small - dram->huge,
		.kind = TARGET_NONE,
	});
}

int bench_cxl_latency(void)
{
	static struct hm_tier tiers[TIERS_MOST];
	struct latency latency, dram = { 0 };
	uint32_t n, i;
	int r;

	tiers[0].struct_size = sizeof(tiers[0]);
	r = hm_tier_list(tiers, TIERS_MOST, 0, &n);
	if (r)
		return bench_fail("nodes", r, true);
	/* The fast node is the peer of all. */
	for (i = 0; !r && i < n && i < TIERS_MOST; i++)
		if (tiers[i].words >> HM_TIER_FAST & 1)
			r = measure_node(&tiers[i], &dram);
	for (i = 0; !r && i < n && i < TIERS_MOST; i++) {
		if (strncmp(tiers[i].device, "node:", 5) != 0)
			continue;
		r = measure_node(&tiers[i], &latency);
		if (!r)
			report(&tiers[i], &latency, &dram);
	}
	if (!n)
		bench_skip("nodes", "this kernel shows no NUMA nodes");
	return r ? bench_fail("nodes", r, true) : 0;
}
