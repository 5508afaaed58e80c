// SPDX-License-Identifier: MIT
/* guard_copy: copies into a map, with an error instead of a signal, against memcpy(). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define MAP_BYTES MIB(64)

struct copies {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *to;
	char *from;
	size_t length; /* length of a copy */
	size_t bytes;  /* that are gone through, again and again where it is less */
	size_t n;      /* copies a sample */
	size_t turns;  /* turns of other work behind each copy, which is not timed */
	bool scope;    /* all of them in one */
};

static int copy_all(const struct copies *copies)
{
	size_t i, at;
	int r = 0;

	for (i = at = 0; i < copies->n && !r; i++) {
		r = hm_copy_in(copies->to + at, copies->from + at, copies->length, NULL);
		peer_other_work(copies->turns);
		at += copies->length;
		if (at + copies->length > copies->bytes)
			at = 0;
	}
	return r;
}

static int copy_in_scope(const struct copies *copies)
{
	struct hm_guard guard;
	int r, end;

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (r)
		return r;
	r = copy_all(copies);
	end = hm_guard_end(&guard);
	return r ? r : end;
}

/*
 * Time a copy since @start, less the time of the other work: a look at the clock beside each
 * copy would cost a third of the difference.
 */
static double time_of(const struct copies *copies, double start)
{
	double end = bench_now();
	size_t i;

	for (i = 0; copies->turns && i < copies->n; i++)
		peer_other_work(copies->turns);
	return (end - start - (copies->turns ? bench_now() - end : 0)) / (double)copies->n;
}

static int copies_ours(void *user, double *ret_ns)
{
	const struct copies *copies = user;
	double start = bench_now();
	int r = copies->scope ? copy_in_scope(copies) : copy_all(copies);

	*ret_ns = time_of(copies, start);
	return r;
}

static int copies_peer(void *user, double *ret_ns)
{
	const struct copies *copies = user;
	double start = bench_now();

	peer_copies(copies->to, copies->from, copies->length, copies->bytes, copies->n,
		    copies->turns);
	*ret_ns = time_of(copies, start);
	return 0;
}

/* How often other work goes round in a microsecond, where nothing else takes the processor. */
static size_t turns_of_us(void)
{
	const size_t turns = 100000;
	double start, ns, least = 1e12;
	unsigned int i;

	for (i = 0; i < 20; i++) {
		start = bench_now();
		peer_other_work(turns);
		ns = bench_now() - start;
		if (ns < least)
			least = ns;
	}
	return (size_t)((double)turns * 1e3 / least);
}

static int copies_begin(struct copies *copies)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = MAP_BYTES };
	int r;

	r = hm_device_open("host", &copies->device);
	if (!r)
		r = hm_buffer_create(copies->device, &desc, &copies->buffer);
	if (!r)
		r = hm_map_create(copies->buffer, NULL, &copies->map);
	if (r)
		return bench_fail("guard_copy", r, true);
	copies->to = hm_map_address(copies->map);
	copies->from = malloc(MAP_BYTES);
	if (!copies->from)
		return bench_fail("guard_copy", -ENOMEM, false);
	memset(copies->from, 1, MAP_BYTES);
	memset(copies->to, 2, MAP_BYTES);
	return 0;
}

static void copies_end(struct copies *copies)
{
	free(copies->from);
	hm_map_unref(copies->map);
	hm_buffer_unref(copies->buffer);
	hm_device_unref(copies->device);
}

static int measure(struct copies *copies)
{
	static const struct {
		const char *name;
		size_t length, bytes, n;
		bool scope, other_work;
		unsigned int rounds;
		enum bench_target kind;
	} rows[] = {
		{ "64 KiB, through 64 MiB", KIB(64), MAP_BYTES, 1024, false, false, 51,
		  TARGET_RATIO },
		{ "1 MiB, likewise", MIB(1), MAP_BYTES, 64, false, false, 51, TARGET_RATIO },
		{ "64 MiB", MIB(64), MAP_BYTES, 1, false, false, 51, TARGET_RATIO },
		/* 0.5% are 8 ns a copy here: with 51 the median strays by that. */
		{ "64 KiB in cache, in scope", KIB(64), KIB(64), 2000, true, false, 151,
		  TARGET_RATIO },
		{ "64 KiB in cache", KIB(64), KIB(64), 2000, false, false, 151, TARGET_RATIO },
		{ "in scope, other work between", KIB(64), KIB(64), 1000, true, true, 151,
		  TARGET_RATIO },
		/* No target: outside of scopes it takes a look at the thread's mask then. */
		{ "in cache, other work between", KIB(64), KIB(64), 1000, false, true, 151,
		  TARGET_NONE },
	};
	size_t i, turns = turns_of_us();
	int r = 0;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]) && !r; i++) {
		const struct bench_pair pair = {
			.name = rows[i].name,
			.peer = "memcpy()",
			.ours = copies_ours,
			.peer_side = copies_peer,
			.rounds = rows[i].rounds,
			.warm_up = 3,
		};

		copies->length = rows[i].length;
		copies->bytes = rows[i].bytes;
		copies->n = rows[i].n;
		copies->scope = rows[i].scope;
		copies->turns = rows[i].other_work ? turns : 0;
		r = bench_compare(&pair, copies, "us", 1e3, rows[i].kind, 1.03);
	}
	return r;
}

int bench_guard_copy(void)
{
	struct copies copies = { 0 };
	int r;

	r = hm_handler_install(0);
	if (r)
		return bench_fail("guard_copy", r, true);
	r = copies_begin(&copies);
	if (!r)
		r = measure(&copies);
	copies_end(&copies);
	hm_handler_remove();
	return r;
}
