// SPDX-License-Identifier: MIT
/*
 * Memory that accelerators reach by entries of their own, for hetmap top: the sums in a process's
 * published table, as rates by buffer, by mapping, and of the process.
 */
#include <stdlib.h>
#include <string.h>

#include "top.h"

/* So many mappings of one process are rows; others are in the process's row only. */
#define RANGES_MOST 1024

/* Rates since the look before, by enum mirrored; and of evictions. */
struct came {
	double of[N_MIRRORED];
	double evicted;
};

static uint64_t mirrored_of(const struct hm_published_range *range, int which)
{
	switch (which) {
	case MIRRORED_FAULTS:
		return range->faults;
	case MIRRORED_INVALIDATED:
		return range->invalidated;
	case MIRRORED_THERE:
		return range->moved_in;
	default:
		return range->moved_out;
	}
}

static double since(uint64_t now, uint64_t before, double seconds)
{
	return seconds > 0 && now > before ? (double)(now - before) / seconds : 0;
}

/* @before: the same range at the look before; all zeros if it was not there. */
static struct came came_since(const struct hm_published_range *now,
			      const struct hm_published_range *before, double seconds)
{
	struct came came;
	int i;

	for (i = 0; i < N_MIRRORED; i++)
		came.of[i] = since(mirrored_of(now, i), mirrored_of(before, i), seconds);
	came.evicted = since(now->evicted, before->evicted, seconds);
	return came;
}

/* Without a look before there are no rates. */
static void add_came(struct top_figures *figures, const struct came *came, double seconds)
{
	if (seconds <= 0) {
		figures->device_faults = figures->invalidated = figures->moved = TOP_NO_RATE;
		return;
	}
	figures->device_faults += came->of[MIRRORED_FAULTS];
	figures->invalidated += came->of[MIRRORED_INVALIDATED];
	figures->moved += came->of[MIRRORED_THERE] + came->of[MIRRORED_BACK];
}

/* ---- ranges ---- */

static int compare(const void *a, const void *b)
{
	const struct top_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* The end of a path says more than its beginning. */
static void name_range(struct top_range *range, const struct mapping *mapping)
{
	const char *path = mapping ? mapping->path : "", *slash = strrchr(path, '/');

	snprintf(range->name, sizeof(range->name), "%s",
		 !mapping ? "unmapped" :
		 !*path   ? "memory" :
		 slash    ? slash + 1 :
			    path);
}

static struct top_range *range_of(struct top_process *process,
				  const struct hm_published_range *one,
				  const struct mappings *mappings)
{
	const struct mapping *mapping = mappings_at(mappings, one->start);
	struct top_range *range;
	uint64_t begin = 0;
	size_t i;

	if (mapping && mapping->smaps.start >= one->end)
		mapping = NULL;
	if (mapping)
		begin = mapping->smaps.start;
	for (i = 0; i < process->n_range; i++) {
		range = &process->ranges[i];
		if (range->mapping == begin && !strcmp(range->accel, one->accel)) {
			range->start = one->start < range->start ? one->start : range->start;
			range->end = one->end > range->end ? one->end : range->end;
			return range;
		}
	}
	if (process->n_range == RANGES_MOST)
		return NULL;
	range = &process->ranges[process->n_range++];
	*range = (struct top_range){ .start = one->start, .end = one->end, .mapping = begin };
	memcpy(range->accel, one->accel, sizeof(range->accel));
	name_range(range, mapping);
	range->figures.brackets = range->figures.in_flight = FIGURE_UNKNOWN;
	range->figures.faults = range->figures.gained = TOP_NO_RATE;
	return range;
}

static void measure(struct top_process *process, const struct mappings *mappings)
{
	struct smaps_sum sum;
	size_t i;

	for (i = 0; i < process->n_range; i++) {
		struct top_range *range = &process->ranges[i];

		mappings_sum(mappings, range->start, range->end, &sum);
		range->figures.mapped = sum.mapped;
		range->figures.resident = sum.resident;
		range->figures.locked = sum.locked;
		range->figures.huge = sum.huge;
	}
	if (process->n_range > 1)
		qsort(process->ranges, process->n_range, sizeof(*process->ranges), compare);
}

static struct top_buffer *buffer_of(struct top_process *process,
				    const struct hm_published_range *one)
{
	const struct live_map *map = live_at(&process->live, one->start);

	return map ? top_find_buffer(process->buffers, process->n_buffer, map->entry.buffer) :
		     NULL;
}

/* The module's are counted by its open files already, and of soft no other place tells. */
static void add_to_process(struct top_process *process, const struct hm_published_range *one,
			   const struct came *came, double seconds)
{
	uint64_t device;
	int i;

	if (openers_device(one->accel, &device))
		return;
	for (i = 0; i < N_MIRRORED; i++) {
		if (seconds > 0)
			process->mirrored[i] =
				(process->mirrored[i] > 0 ? process->mirrored[i] : 0) +
				came->of[i];
	}
}

void ranges_look(struct top_process *process, const struct mappings *mappings, double seconds)
{
	static const struct hm_published_range none;
	struct hm_published_range *before = process->reached;
	uint64_t i, n_before = process->n_reached, n = 0, left_out = 0;
	struct top_buffer *buffer;
	struct top_range *range;
	struct came came = { 0 };

	free(process->ranges);
	process->ranges = NULL;
	process->reached = NULL;
	process->n_range = process->n_reached = process->reached_left_out = 0;
	if (live_has_table(&process->live) &&
	    !published_ranges(&process->live.table, &process->reached, &n, &left_out))
		process->ranges = calloc(n + 1, sizeof(*process->ranges));
	if (process->ranges) {
		process->n_reached = n;
		process->reached_left_out = left_out;
	}
	for (i = 0; i < process->n_reached; i++) {
		const struct hm_published_range *one = &process->reached[i];

		if (!one->end)
			continue;
		came = came_since(one, i < n_before ? &before[i] : &none, seconds);
		/* One that could not be read then is no news as a whole. */
		if (i < n_before && !before[i].end)
			came = (struct came){ 0 };
		add_to_process(process, one, &came, seconds);
		buffer = one->map ? buffer_of(process, one) : NULL;
		if (buffer) {
			add_came(&buffer->figures, &came, seconds);
			continue;
		}
		range = range_of(process, one, mappings);
		if (!range)
			continue;
		add_came(&range->figures, &came, seconds);
		range->figures.evictions += came.evicted;
	}
	free(before);
	for (i = 0; i < process->n_buffer && !process->n_reached; i++)
		add_came(&process->buffers[i].figures, &came, 0);
	measure(process, mappings);
}

struct top_range *ranges_at(const struct top_process *process, uint64_t address)
{
	size_t i;

	for (i = 0; i < process->n_range; i++)
		if (address >= process->ranges[i].start && address < process->ranges[i].end)
			return &process->ranges[i];
	return NULL;
}

void ranges_end(struct top_process *process)
{
	free(process->ranges);
	free(process->reached);
	process->ranges = NULL;
	process->reached = NULL;
	process->n_range = process->n_reached = 0;
}
