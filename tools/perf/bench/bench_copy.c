// SPDX-License-Identifier: MIT
/* copy_ladder: hm_copy() between two maps, by lengths, against memcpy(). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "bench_options.h"
#include "peer.h"

#define MAP_BYTES MIB(256)

struct ladder {
	struct hm_device *device;
	struct hm_map *to_map, *from_map;
	char *to, *from;
	size_t length; /* length of a copy */
	size_t bytes;  /* that are gone through, again and again */
	size_t n;      /* copies a sample */
	uint32_t flags;
};

static int copies_ours(void *user, double *ret_ns)
{
	const struct ladder *ladder = user;
	double start = bench_now();
	size_t i, at;
	int r = 0;

	for (i = at = 0; i < ladder->n && !r; i++) {
		r = hm_copy(ladder->to + at, ladder->from + at, ladder->length, ladder->flags);
		peer_other_work(0);
		at += ladder->length;
		if (at + ladder->length > ladder->bytes)
			at = 0;
	}
	*ret_ns = (bench_now() - start) / (double)ladder->n;
	return r;
}

static int copies_peer(void *user, double *ret_ns)
{
	const struct ladder *ladder = user;
	double start = bench_now();

	peer_copies(ladder->to, ladder->from, ladder->length, ladder->bytes, ladder->n, 0);
	*ret_ns = (bench_now() - start) / (double)ladder->n;
	return 0;
}

static int make_map(const struct ladder *ladder, struct hm_map **ret_map)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = MAP_BYTES };
	struct hm_buffer *buffer;
	int r;

	r = hm_buffer_create(ladder->device, &desc, &buffer);
	if (r)
		return r;
	r = hm_map_create(buffer, NULL, ret_map);
	hm_buffer_unref(buffer);
	if (!r)
		memset(hm_map_address(*ret_map), 1, MAP_BYTES);
	return r;
}

/* The library's own account of the copies of this row. */
static void say_way(const struct ladder *ladder)
{
	struct hm_copy_info info = { .struct_size = sizeof(info), .flags = ladder->flags };

	if (bench_options.verbose &&
	    !hm_copy_query(ladder->to, ladder->from, ladder->length, &info))
		fprintf(stderr, "%zu bytes: %s%s%s%s%s: %s\n", ladder->length, info.way,
			*info.loads ? " " : "", info.loads, *info.stores ? " " : "",
			info.stores, info.reason);
}

static int measure(struct ladder *ladder)
{
	static const struct {
		const char *name;
		size_t length, bytes, n;
		uint32_t flags;
		double target; /* of the ratio; 0: 30 ns more */
	} rows[] = {
		{ "1 B", 1, KIB(4), 20000, 0, 0 },
		{ "16 B", 16, KIB(4), 20000, 0, 0 },
		{ "64 B", 64, KIB(4), 20000, 0, 0 },
		{ "256 B", 256, KIB(4), 20000, 0, 0 },
		{ "1 KiB", KIB(1), KIB(4), 20000, 0, 0 },
		{ "4 KiB", KIB(4), KIB(16), 10000, 0, 1.02 },
		{ "4 KiB, through 64 MiB", KIB(4), MIB(64), 16384, 0, 1.02 },
		{ "64 KiB", KIB(64), KIB(64), 1000, 0, 1.02 },
		{ "1 MiB", MIB(1), MIB(64), 64, 0, 1.02 },
		{ "16 MiB", MIB(16), MIB(256), 16, 0, 1.02 },
		{ "1 MiB, not read again", MIB(1), MIB(256), 256, HM_COPY_STREAM, 0.75 },
		{ "16 MiB, not read again", MIB(16), MIB(256), 16, HM_COPY_STREAM, 0.75 },
	};
	struct bench_figures figures;
	size_t i;
	int r = 0;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]) && !r; i++) {
		struct bench_pair pair = {
			.name = rows[i].name,
			.peer = "memcpy()",
			.ours = copies_ours,
			.peer_side = copies_peer,
			.rounds = rows[i].length < MIB(1) ? 151 : 51,
			.warm_up = 3,
		};

		ladder->length = rows[i].length;
		ladder->bytes = rows[i].bytes;
		ladder->n = rows[i].n;
		ladder->flags = rows[i].flags;
		say_way(ladder);
		if (rows[i].target > 0) {
			r = bench_compare(&pair, ladder, "us", 1e3, TARGET_RATIO,
					  rows[i].target);
			continue;
		}
		r = bench_measure(&pair, ladder, &figures);
		if (!r)
			bench_report_added(&pair, &figures, "ns", 1, 30);
	}
	return r;
}

int bench_copy_ladder(void)
{
	struct ladder ladder = { 0 };
	int r;

	r = hm_device_open("host", &ladder.device);
	if (!r)
		r = make_map(&ladder, &ladder.to_map);
	if (!r)
		r = make_map(&ladder, &ladder.from_map);
	if (r) {
		bench_fail("copy_ladder", r, true);
		goto out;
	}
	ladder.to = hm_map_address(ladder.to_map);
	ladder.from = hm_map_address(ladder.from_map);
	r = measure(&ladder);
out:
	hm_map_unref(ladder.from_map);
	hm_map_unref(ladder.to_map);
	hm_device_unref(ladder.device);
	return r;
}
