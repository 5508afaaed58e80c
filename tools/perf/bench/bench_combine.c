// SPDX-License-Identifier: MIT
/* combine: scattered writes into a window of 1 MiB, gathered by lines, against bare stores. */
#include <errno.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define WINDOW MIB(1)
#define LINE ((size_t)64)
#define TIMES 16 /* each byte is written */

struct scatter {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct hm_combine *combine;
	char *to;
	size_t length; /* bytes of a write */
	size_t n;      /* writes */
};

static int write_ours(void *user, double *ret_ns)
{
	struct scatter *scatter = user;
	double start = bench_now();
	char bytes[64];
	size_t i;
	int r;

	memset(bytes, 1, sizeof(bytes));
	r = hm_map_begin_cpu(scatter->map, 0, WINDOW, HM_WRITE);
	for (i = 0; i < scatter->n && !r; i++)
		r = hm_combine_write(scatter->combine,
				     peer_scattered(i, scatter->length, WINDOW), bytes,
				     scatter->length);
	if (!r)
		r = hm_map_end_cpu(scatter->map, 0, WINDOW, HM_WRITE);
	*ret_ns = (bench_now() - start) / (double)scatter->n;
	return r;
}

static int write_peer(void *user, double *ret_ns)
{
	const struct scatter *scatter = user;
	double start = bench_now();

	peer_scatter(scatter->to, scatter->length, WINDOW, scatter->n);
	*ret_ns = (bench_now() - start) / (double)scatter->n;
	return 0;
}

/* Stores into the window, by the library's own counts. */
static int count(struct scatter *scatter, const char *name)
{
	struct hm_combine_info before = { .struct_size = sizeof(before) };
	struct hm_combine_info info = { .struct_size = sizeof(info) };
	struct bench_result result = {
		.name = name,
		.unit = "stores",
		.peer = "each write by itself",
		.kind = TARGET_RATIO,
		.target = 1.0 / 16,
		.note = "stores into the window, each write by the fewest aligned ones",
	};
	double ns;
	int r;

	r = hm_combine_query(scatter->combine, &before);
	if (!r)
		r = write_ours(scatter, &ns);
	if (!r)
		r = hm_combine_query(scatter->combine, &info);
	if (r)
		return bench_fail(name, r, true);
	result.value = (double)(info.transfers - before.transfers);
	result.peer_value = (double)(info.alone - before.alone);
	bench_report(&result);
	return 0;
}

static int measure(struct scatter *scatter)
{
	static const struct {
		const char *counted, *timed;
		size_t length, times;
	} rows[] = {
		{ "64 bytes, transfers", "64 bytes, time of a write", LINE, TIMES },
		/* A line has 16 of them. */
		{ "4 bytes, transfers", "4 bytes, time of a write", 4, 1 },
	};
	size_t i;
	int r = 0;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]) && !r; i++) {
		const struct bench_pair pair = {
			.name = rows[i].timed,
			.peer = "memcpy() to the window",
			.ours = write_ours,
			.peer_side = write_peer,
			.rounds = 51,
			.warm_up = 2,
		};

		scatter->length = rows[i].length;
		scatter->n = rows[i].times * WINDOW / rows[i].length;
		r = count(scatter, rows[i].counted);
		if (!r)
			r = bench_compare(&pair, scatter, "ns", 1, TARGET_NONE, 0);
	}
	return r;
}

int bench_combine(void)
{
	const struct hm_combine_desc lines = {
		.struct_size = sizeof(lines),
		.lines = WINDOW / LINE,
	};
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = WINDOW };
	struct scatter scatter = { 0 };
	int r;

	r = hm_device_open("soft:0", &scatter.device);
	if (!r)
		r = hm_buffer_create(scatter.device, &desc, &scatter.buffer);
	if (!r)
		r = hm_map_create(scatter.buffer, NULL, &scatter.map);
	if (!r)
		r = hm_combine_create(scatter.map, &lines, &scatter.combine);
	if (r) {
		bench_fail("combine", r, true);
		goto out;
	}
	scatter.to = hm_map_address(scatter.map);
	r = measure(&scatter);
out:
	hm_combine_unref(scatter.combine);
	hm_map_unref(scatter.map);
	hm_buffer_unref(scatter.buffer);
	hm_device_unref(scatter.device);
	return r;
}
