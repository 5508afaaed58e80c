// SPDX-License-Identifier: MIT
/* The checking mode: sums of the bytes that work in flight reads, page by page. */
#include "fault/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/err.h"
#include "base/sys.h"

#define CHECK_UNIT KIB(4)

struct check_sums {
	uint64_t writers; /* map->n_writer at the start: later ones may store */
	uint64_t n;
	uint64_t sum[];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool enabled, is_bad;

static void read_environment(void)
{
	const char *value = env_get("HETMAP_CHECK");

	if (!value || !*value)
		return;
	enabled = !strcmp(value, "1");
	is_bad = !enabled && strcmp(value, "0");
}

int check_read_environment(void)
{
	pthread_once(&once, read_environment);
	if (likely(!is_bad))
		return 0;
	return err_set(-EINVAL,
		       "HETMAP_CHECK is \"%s\": it is 1, the checking mode, or 0, or not set",
		       env_get("HETMAP_CHECK"));
}

bool check_enabled(void)
{
	pthread_once(&once, read_environment);
	return enabled;
}

/* FNV-1a by words: a store goes unnoticed with a chance of 2^-64. */
static uint64_t sum_of(const char *bytes, uint64_t length)
{
	uint64_t sum = 0xcbf29ce484222325, word, at;

	for (at = 0; at < length; at += sizeof(word)) {
		word = 0;
		memcpy(&word, bytes + at, min_u64(sizeof(word), length - at));
		sum = (sum ^ word) * 0x100000001b3;
		sum ^= sum >> 29;
	}
	return sum;
}

static uint64_t sum_at(const struct map_use *use, uint64_t i)
{
	uint64_t at = i * CHECK_UNIT;

	return sum_of(use->map->address + use->offset + at,
		      min_u64(CHECK_UNIT, use->length - at));
}

/* Is there earlier work that may be storing there now? */
static bool is_written(const struct map_use *use)
{
	const struct map_use *other;

	cds_list_for_each_entry(other, &use->map->uses, link)
		if (other->access & HM_WRITE &&
		    ranges_overlap(other->offset, other->length, use->offset, use->length))
			return true;
	return false;
}

/* Is the CPU the only writer there? @ret_writers: to be compared at the end. */
static bool is_quiet(const struct map_use *use, uint64_t *ret_writers)
{
	struct hm_map *map = use->map;
	bool quiet;

	pthread_mutex_lock(&map->lock);
	*ret_writers = map->n_writer;
	quiet = !map->lost && !is_written(use);
	pthread_mutex_unlock(&map->lock);
	return quiet;
}

void check_begin(struct map_use *use)
{
	uint64_t i, n = (use->length + CHECK_UNIT - 1) / CHECK_UNIT;
	struct check_sums *sums;
	uint64_t writers;

	use->check = NULL;
	/*
	 * Stores of work look like the CPU's; and bytes that need a bracket may raise SIGBUS
	 * without one.
	 */
	if (use->access & HM_WRITE || use->map->buffer->caps & HM_CAP_BRACKET ||
	    !is_quiet(use, &writers))
		return;
	sums = sys_calloc(1, sizeof(*sums) + n * sizeof(sums->sum[0]));
	if (!sums)
		return;
	sums->writers = writers;
	sums->n = n;
	for (i = 0; i < n; i++)
		sums->sum[i] = sum_at(use, i);
	use->check = sums;
}

void check_end(struct map_use *use)
{
	struct check_sums *sums = use->check;
	uint64_t writers, i;

	if (!sums)
		return;
	for (i = 0; i < sums->n; i++)
		if (sum_at(use, i) != sums->sum[i])
			break;
	/*
	 * Work submitted later may have stored there, in order or not; and a device that was
	 * taken away leaves zeros.
	 */
	if (i < sums->n && is_quiet(use, &writers) && writers == sums->writers) {
		stats_add(&stats.touches_outside, 1);
		fprintf(stderr,
			"hetmap: check: %s: bytes at offset %" PRIu64 " (%p) changed "
			"while a kernel was reading them: a store outside a bracket, between "
			"hm_launch() and hm_fence_wait()\n",
			use->map->buffer->name, use->offset + i * CHECK_UNIT,
			(void *)(use->map->address + use->offset + i * CHECK_UNIT));
	}
	free(sums);
	use->check = NULL;
}
