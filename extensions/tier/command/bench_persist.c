// SPDX-License-Identifier: MIT
/*
 * persist and log_append, on the first DAX device of this machine whose memory lasts, in a new
 * buffer there: the bytes of no other program are touched. The peer of persist has the same bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/hetmap.h>
#include <hetmap/log.h>

#include "bench_tier.h"
#include "perf/bench/bench.h"
#include "perf/bench/bench_folder.h"

#define LENGTH MIB(4)
#define CALLS 64 /* of one sample: a clock reading costs as much as one of them */
#define RECORD 256u
#define TIERS_MOST 96

struct lasting {
	struct hm_map *map;
	char *address;
	size_t length; /* bytes of one call */
	struct peer_persist *peer;
	struct hm_log *log;
	int fd;
	size_t at;
	char record[RECORD];
};

/* Finds the device; false: it was told, as the case @name that is skipped. */
static bool find_device(const char *name, char *device, size_t size)
{
	static struct hm_tier tiers[TIERS_MOST];
	uint32_t n, i;

	tiers[0].struct_size = sizeof(tiers[0]);
	if (hm_tier_list(tiers, TIERS_MOST, 0, &n))
		n = 0;
	for (i = 0; i < n && i < TIERS_MOST; i++)
		if (!strncmp(tiers[i].device, "dax:", 4) &&
		    tiers[i].persist >= HM_PERSIST_LINE) {
			snprintf(device, size, "%s", tiers[i].device);
			return true;
		}
	bench_skip(name, "no DAX device with persistent memory (the machine of "
			 "tests/vm/tiers has one)");
	return false;
}

/* 1: the case is skipped. */
static int map_device(const char *name, struct lasting *lasting)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = LENGTH,
		.persist = HM_PERSIST_LINE,
	};
	struct hm_buffer *buffer = NULL;
	struct hm_device *device;
	char path[64];
	int r;

	if (!find_device(name, path, sizeof(path)))
		return 1;
	r = hm_device_open(path, &device);
	if (r)
		return bench_fail(name, r, true);
	r = hm_buffer_create(device, &desc, &buffer);
	hm_device_unref(device);
	if (!r)
		r = hm_map_create(buffer, NULL, &lasting->map);
	hm_buffer_unref(buffer);
	if (r)
		return bench_fail(name, r, true);
	lasting->address = hm_map_address(lasting->map);
	return 0;
}

/* ---- persist ---- */

/* Stores bytes that differ from those before: a line that is clean costs nothing. */
static char *store(struct lasting *lasting, unsigned int i)
{
	size_t offset = (size_t)i * lasting->length % LENGTH;
	char *to = lasting->address + offset;

	memset(to, (int)(++lasting->at & 0xff), lasting->length);
	return to;
}

static int persist_ours(void *user, double *ret_ns)
{
	struct lasting *lasting = user;
	double start = bench_now();
	unsigned int i;
	char *to;
	int r = 0;

	for (i = 0; i < CALLS && !r; i++) {
		to = store(lasting, i);
		r = hm_map_persist(lasting->map, (uint64_t)(to - lasting->address),
				   lasting->length);
	}
	*ret_ns = (bench_now() - start) / CALLS;
	return r;
}

static int persist_peer(void *user, double *ret_ns)
{
	struct lasting *lasting = user;
	double start = bench_now();
	unsigned int i;

	for (i = 0; i < CALLS; i++)
		peer_persist_call(lasting->peer, store(lasting, i), lasting->length);
	*ret_ns = (bench_now() - start) / CALLS;
	return 0;
}

int bench_persist(void)
{
	struct bench_pair pair = {
		.name = "4 KiB",
		.peer = "the same stores, and libpmem2's persist function",
		.ours = persist_ours,
		.peer_side = persist_peer,
		.rounds = 2000,
		.warm_up = 100,
	};
	struct lasting lasting = { .length = KIB(4) };
	int r = map_device(pair.name, &lasting);

	if (r)
		return r < 0 ? r : 0;
	r = peer_persist_create(lasting.address, LENGTH, &lasting.peer);
	if (r) {
		bench_fail(pair.name, r, false);
		goto out;
	}
	r = bench_compare(&pair, &lasting, "us", 1e3, TARGET_RATIO, 1.02);
	if (r)
		goto out;
	pair.name = "64 B";
	lasting.length = 64;
	r = bench_compare(&pair, &lasting, "us", 1e3, TARGET_RATIO, 1.10);
out:
	peer_persist_destroy(lasting.peer);
	hm_map_unref(lasting.map);
	return r;
}

/* ---- log_append ---- */

static int append_ours(void *user, double *ret_ns)
{
	struct lasting *lasting = user;
	double start = bench_now();
	int r;

	r = hm_log_append(lasting->log, lasting->record, RECORD, NULL);
	*ret_ns = bench_now() - start;
	/* A full log is emptied between two samples, as the peer's begins anew. */
	return r == -ENOSPC ? hm_log_clear(lasting->log) : r;
}

static int append_peer(void *user, double *ret_ns)
{
	struct lasting *lasting = user;
	double start = bench_now();
	int r;

	r = peer_log_append(lasting->fd, lasting->at, lasting->record, RECORD);
	*ret_ns = bench_now() - start;
	lasting->at = (lasting->at + RECORD) % LENGTH;
	return r;
}

int bench_log_append(void)
{
	struct bench_pair pair = {
		.name = "256 B",
		.peer = "pwrite and fsync of a file in TMPDIR or /tmp",
		.ours = append_ours,
		.peer_side = append_peer,
		.rounds = 1000,
		.warm_up = 50,
	};
	struct lasting lasting = { .fd = -1 };
	char *folder;
	int r;

	folder = bench_folder_make(pair.name, LENGTH);
	if (!folder)
		return 0;
	r = map_device(pair.name, &lasting);
	if (r)
		goto out;
	memset(lasting.record, 'r', RECORD);
	r = hm_log_open(lasting.map, HM_LOG_FORMAT, &lasting.log);
	if (r) {
		bench_fail(pair.name, r, true);
		goto out;
	}
	lasting.fd = peer_log_open(folder, LENGTH);
	r = lasting.fd < 0 ? bench_fail(pair.name, lasting.fd, false) :
			     bench_compare(&pair, &lasting, "us", 1e3, TARGET_RATIO, 0.2);
	if (lasting.fd >= 0)
		close(lasting.fd);
out:
	hm_log_close(lasting.log);
	hm_map_unref(lasting.map);
	bench_folder_remove(folder);
	return r < 0 ? r : 0;
}
