// SPDX-License-Identifier: MIT
/*
 * tiering: Zipf reads of 256 MiB, of which 64 MiB may be on the fast tier. The peer has the first
 * 64 MiB there, as a first touch from the beginning on would place them, and moves nothing. Both
 * read the same buffer, one after the other, since a move has no way back.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define LENGTH MIB(256)
#define FAST MIB(64)
#define OBJECT KIB(64)
#define OBJECTS (LENGTH / OBJECT)
#define READS (1u << 17) /* of one pass */
#define PASSES 5
#define RATE MIB(64) /* bytes that may move a second */
#define SETTLE_NS 60e9
#define IDLE_NS 5e9
/* A slow tier whose reads take less than that times the fast one's is none. */
#define SLOWER 1.5

struct zipf {
	char *address;
	uint32_t *offsets; /* READS, by lines of 64 bytes */
	struct hm_map *map;
};

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Reads of objects by Zipf's law with exponent 1, hot objects anywhere, lines in them by chance. */
static int make_reads(struct zipf *zipf)
{
	double *sums = malloc(OBJECTS * sizeof(*sums)), sum = 0;
	uint32_t *object_of = malloc(OBJECTS * sizeof(*object_of)), i;
	uint64_t state = 88172645463325252u;

	zipf->offsets = malloc(READS * sizeof(*zipf->offsets));
	if (!sums || !object_of || !zipf->offsets) {
		free(sums);
		free(object_of);
		return -ENOMEM;
	}
	for (i = 0; i < OBJECTS; i++) {
		sums[i] = sum += 1.0 / (i + 1);
		object_of[i] = i;
	}
	for (i = OBJECTS - 1; i > 0; i--) {
		uint32_t other = (uint32_t)(next_random(&state) % (i + 1));
		uint32_t kept = object_of[i];

		object_of[i] = object_of[other];
		object_of[other] = kept;
	}
	for (i = 0; i < READS; i++) {
		double at = (double)(next_random(&state) >> 11) / 0x1p53 * sum;
		uint32_t low = 0, high = OBJECTS - 1;

		while (low < high) {
			uint32_t middle = (low + high) / 2;

			if (sums[middle] < at)
				low = middle + 1;
			else
				high = middle;
		}
		zipf->offsets[i] = object_of[low] * (uint32_t)(OBJECT / 64) +
				   (uint32_t)(next_random(&state) % (OBJECT / 64));
	}
	free(sums);
	free(object_of);
	return 0;
}

/* The median of some passes. */
static double read_passes(const struct zipf *zipf)
{
	double times[PASSES], start;
	int i, k;

	for (i = 0; i < PASSES; i++) {
		start = bench_now();
		peer_tiering_read(zipf->address, zipf->offsets, READS);
		times[i] = bench_now() - start;
	}
	for (i = 1; i < PASSES; i++)
		for (k = i; k > 0 && times[k] < times[k - 1]; k--) {
			double kept = times[k];

			times[k] = times[k - 1];
			times[k - 1] = kept;
		}
	return times[PASSES / 2];
}

/* Makes the buffer on the slow tier, and moves its first bytes to the fast one. */
static int place(struct zipf *zipf)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = LENGTH,
		.tier = HM_TIER_FAR,
	};
	struct hm_device *device;
	struct hm_buffer *buffer;
	int r = hm_device_open("host", &device);

	if (r)
		return r;
	r = hm_buffer_create(device, &desc, &buffer);
	hm_device_unref(device);
	if (r)
		return r;
	r = hm_map_create(buffer, NULL, &zipf->map);
	hm_buffer_unref(buffer);
	if (r)
		return r;
	zipf->address = hm_map_address(zipf->map);
	bench_touch(zipf->address, LENGTH, KIB(4));
	return hm_range_prefetch(zipf->address, FAST, NULL,
				 HM_READ | HM_RANGE_TIER(HM_TIER_FAST), NULL);
}

/* Time of reads of the slow part over that of the fast part. */
static double slowness(const struct zipf *zipf)
{
	uint32_t *lines = malloc(READS * sizeof(*lines)), i;
	uint64_t state = 2463534242u;
	double fast, slow, start;

	if (!lines)
		return 1;
	for (i = 0; i < READS; i++)
		lines[i] = (uint32_t)(next_random(&state) % (FAST / 64));
	start = bench_now();
	peer_tiering_read(zipf->address, lines, READS);
	fast = bench_now() - start;
	start = bench_now();
	peer_tiering_read(zipf->address + FAST, lines, READS);
	slow = bench_now() - start;
	free(lines);
	return slow / fast;
}

static int query(struct hm_tiering *tiering, struct hm_tiering_info *info)
{
	info->struct_size = sizeof(*info);
	return hm_tiering_query(tiering, info);
}

/* Reads until a second of reads has moved next to nothing, or the time is up. */
static int settle(const struct zipf *zipf, struct hm_tiering *tiering,
		  struct hm_tiering_info *info)
{
	double start = bench_now(), mark = start;
	uint64_t moved = 0, now;
	int r = 0;

	while (!r && bench_now() - start < SETTLE_NS) {
		peer_tiering_read(zipf->address, zipf->offsets, READS);
		if (bench_now() - mark < 2e9)
			continue;
		r = query(tiering, info);
		now = info->promoted + info->demoted;
		if (info->promoted && now - moved < MIB(2))
			break;
		moved = now;
		mark = bench_now();
	}
	return r;
}

static void report_time(const struct zipf *zipf, double peer_ns, double slower)
{
	double ours_ns = read_passes(zipf);
	char note[96];

	snprintf(note, sizeof(note),
		 "a read of the slow tier takes %.2f of one of the fast tier", slower);
	bench_report(&(struct bench_result){
		.name = "time of a read",
		.unit = "ns",
		.value = ours_ns / READS,
		.peer = "the same reads where the first touch has placed the bytes",
		.peer_value = peer_ns / READS,
		.kind = slower >= SLOWER ? TARGET_RATIO : TARGET_NONE,
		.target = 0.7,
		.note = note,
	});
}

static void report_share(const struct hm_tiering_info *before,
			 const struct hm_tiering_info *after)
{
	uint64_t touched = after->touched - before->touched;
	char note[128];

	snprintf(note, sizeof(note),
		 "heat on the fast tier %.3f of all; the most that fits is %.3f",
		 (double)after->heat_fast / (double)(after->heat + !after->heat),
		 (double)after->heat_best / (double)(after->heat + !after->heat));
	bench_report(&(struct bench_result){
		.name = "touches on the fast tier",
		.unit = "%",
		.value = touched ?
				 100.0 * (double)(after->touched_fast - before->touched_fast) /
					 (double)touched :
				 0,
		.peer = "by first touch, a quarter of the bytes",
		.peer_value = 100.0 * (double)FAST / (double)LENGTH,
		.kind = TARGET_NONE,
		.note = note,
	});
}

static void report_moved(const struct hm_tiering_info *info, double seconds)
{
	const double allowed = (double)RATE * seconds;
	char note[96];

	snprintf(note, sizeof(note),
		 "%" PRIu64 " MiB promoted, %" PRIu64 " MiB demoted, %.1f s",
		 info->promoted >> 20, info->demoted >> 20, seconds);
	bench_report(&(struct bench_result){
		.name = "bytes moved",
		.unit = "MiB",
		.value = (double)(info->promoted + info->demoted) / (double)MIB(1),
		.peer = "the budget of that time, 64 MiB a second",
		.peer_value = allowed / (double)MIB(1),
		.kind = TARGET_RATIO,
		.target = 1,
		.note = note,
	});
}

static int report_idle(struct hm_tiering *tiering)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	struct hm_tiering_info before, after;
	double start;
	int r;

	/* The looks become rarer first. */
	for (start = bench_now(); bench_now() - start < IDLE_NS;)
		nanosleep(&pause, NULL);
	r = query(tiering, &before);
	for (start = bench_now(); bench_now() - start < IDLE_NS;)
		nanosleep(&pause, NULL);
	r = r ? r : query(tiering, &after);
	if (r)
		return r;
	bench_report(&(struct bench_result){
		.name = "processor time while idle",
		.unit = "%",
		.value = 100.0 * (double)(after.cpu_ns - before.cpu_ns) / (bench_now() - start),
		.kind = TARGET_VALUE,
		.target = 1,
	});
	return 0;
}

static int measure(struct zipf *zipf)
{
	const struct hm_tiering_desc desc = {
		.struct_size = sizeof(desc),
		.fast_bytes = FAST,
		.bytes_per_second = RATE,
		.interval_ms = 50,
	};
	struct hm_tiering_info settled, info;
	struct hm_tiering *tiering;
	double slower, peer_ns, start;
	int r;

	slower = slowness(zipf);
	read_passes(zipf);
	peer_ns = read_passes(zipf);
	start = bench_now();
	r = hm_tiering_create(zipf->map, &desc, &tiering);
	if (r)
		return r;
	r = settle(zipf, tiering, &settled);
	r = r ? r : query(tiering, &settled);
	if (!r)
		report_time(zipf, peer_ns, slower);
	r = r ? r : query(tiering, &info);
	if (!r) {
		report_share(&settled, &info);
		report_moved(&info, (bench_now() - start) / 1e9);
		r = report_idle(tiering);
	}
	hm_tiering_unref(tiering);
	return r;
}

int bench_tiering(void)
{
	static struct hm_tier tiers[96];
	struct zipf zipf = { 0 };
	uint32_t n, i;
	bool far = false;
	int r;

	tiers[0].struct_size = sizeof(tiers[0]);
	r = hm_tier_list(tiers, 96, HM_TIER_MEASURE, &n);
	for (i = 0; !r && i < n && i < 96; i++)
		far |= tiers[i].words >> HM_TIER_FAR & 1;
	if (!far) {
		bench_skip("256 MiB", "this machine has memory of one node only");
		return 0;
	}
	r = make_reads(&zipf);
	if (!r)
		r = place(&zipf);
	if (!r)
		r = measure(&zipf);
	if (r)
		bench_fail("256 MiB", r, r != -ENOMEM);
	hm_map_unref(zipf.map);
	free(zipf.offsets);
	return r;
}
