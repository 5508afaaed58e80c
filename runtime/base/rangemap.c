// SPDX-License-Identifier: MIT
/* Sorted runs of equal value: each change makes a new array. */
#include "base/rangemap.h"

#include <string.h>

#include "base/sys.h"
#include "base/util.h"

static struct rangemap *rangemap_allocate(uint64_t n)
{
	if (n > UINT32_MAX)
		return NULL;
	return sys_calloc(1, sizeof(struct rangemap) + n * sizeof(struct rangemap_run));
}

struct rangemap *rangemap_create(uint32_t value, uint32_t cache)
{
	struct rangemap *ranges = rangemap_allocate(1);

	if (!ranges)
		return NULL;
	ranges->n = 1;
	ranges->run[0].value = value;
	ranges->run[0].cache = cache;
	return ranges;
}

/* Index of the run that holds @offset. */
static uint32_t run_index(const struct rangemap *ranges, uint64_t offset)
{
	uint32_t low = 0;
	uint32_t high = ranges->n;

	/* run[low] begins at or before @offset, run[high] after it. */
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (ranges->run[middle].offset <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Appends a run, or lengthens the last one where both are of the same kind. */
static void append(struct rangemap *to, uint64_t offset, uint32_t value, uint32_t cache)
{
	const struct rangemap_run *last = to->n ? &to->run[to->n - 1] : NULL;

	if (last && last->value == value && last->cache == cache)
		return;
	to->run[to->n++] = (struct rangemap_run){ offset, value, cache };
}

/* Appends runs [@from, @end) of @old. The first one may have the values of the last run of @to. */
static void append_all(struct rangemap *to, const struct rangemap *old, uint32_t from,
		       uint32_t end)
{
	const struct rangemap_run *run = &old->run[from];

	if (from == end)
		return;
	append(to, run->offset, run->value, run->cache);
	memcpy(&to->run[to->n], run + 1, (end - from - 1) * sizeof(*run));
	to->n += end - from - 1;
}

/* Keeps the bits @keep of each value in the range, and adds those of @value. */
static struct rangemap *change(const struct rangemap *old, uint64_t offset, uint64_t length,
			       uint32_t keep, uint32_t value)
{
	/* A range to the largest offset, or past it, means all of the rest. */
	uint64_t end = length >= UINT64_MAX - offset ? UINT64_MAX : offset + length;
	uint32_t first = length ? run_index(old, offset) : old->n, i;
	struct rangemap *ranges;

	/* The range can split one run in three. */
	ranges = rangemap_allocate((uint64_t)old->n + 2);
	if (!ranges)
		return NULL;
	append_all(ranges, old, 0, first);
	for (i = first; i < old->n && old->run[i].offset < end; i++) {
		const struct rangemap_run *run = &old->run[i];
		uint64_t next = i + 1 < old->n ? run[1].offset : UINT64_MAX;

		if (run->offset < offset)
			append(ranges, run->offset, run->value, run->cache);
		append(ranges, max_u64(run->offset, offset), (run->value & keep) | value,
		       run->cache);
		if (end < next)
			append(ranges, end, run->value, run->cache);
	}
	append_all(ranges, old, i, old->n);
	return ranges;
}

struct rangemap *rangemap_set(const struct rangemap *old, uint64_t offset, uint64_t length,
			      uint32_t value)
{
	return change(old, offset, length, 0, value);
}

struct rangemap *rangemap_and(const struct rangemap *old, uint64_t offset, uint64_t length,
			      uint32_t mask)
{
	return change(old, offset, length, mask, 0);
}

struct rangemap *rangemap_put(const struct rangemap *old, uint64_t offset, uint64_t length,
			      uint32_t mask, uint32_t bits)
{
	return change(old, offset, length, ~mask, bits);
}

const struct rangemap_run *rangemap_at(const struct rangemap *ranges, uint64_t offset)
{
	return &ranges->run[run_index(ranges, offset)];
}

int rangemap_each(const struct rangemap *ranges, uint64_t offset, uint64_t length,
		  int (*each)(void *user, uint64_t offset, uint64_t length, uint32_t value),
		  void *user)
{
	uint64_t end = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;
	uint32_t i;
	int r;

	if (!length)
		return 0;
	for (i = run_index(ranges, offset); i < ranges->n; i++) {
		const struct rangemap_run *run = &ranges->run[i];
		uint64_t from = max_u64(run->offset, offset);
		uint64_t to = i + 1 < ranges->n ? min_u64(run[1].offset, end) : end;

		if (from >= end)
			break;
		r = each(user, from, to - from, run->value);
		if (r)
			return r;
	}
	return 0;
}
