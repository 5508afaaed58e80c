// SPDX-License-Identifier: MIT
/* Writes out the lines of a combine: by ascending offset, each by the fewest aligned stores. */
#include <stdlib.h>
#include <string.h>

#include "combine/combine.h"
#include "copy/pieces.h"
#include "core/core.h"
#include "fault/guarded.h"
#include "fault/repair.h"

/* Lines of one block of the map, for store_batch(). */
struct batch {
	const struct hm_combine *combine;
	const uint64_t *order;
	uint32_t n;
	uint64_t offset;     /* of the first byte, in the map */
	uint64_t *transfers; /* set by each call */
};

static uint32_t entry_of(uint64_t word)
{
	return (uint32_t)(word & (COMBINE_LINES_MOST - 1));
}

/* Runs of bytes that are there, each by aligned stores. Returns their number. */
static uint32_t store_runs(char *to, const char *from, uint64_t mask)
{
	uint32_t at, length, n = 0;

	while (mask) {
		at = (uint32_t)__builtin_ctzll(mask);
		length = (uint32_t)__builtin_ctzll(~(mask >> at));
		n += pieces_store(to + at, from + at, length);
		/* Not all 64 bits: shifts by less than that. */
		mask &= ~((((uint64_t)1 << length) - 1) << at);
	}
	return n;
}

uint32_t combine_stores(uint32_t from, uint32_t to)
{
	uint32_t n = 0;

	if (to - from == COPY_LINE)
		return copy_cpu()->lines->line_stores;
	for (; from < to; n++)
		from += (uint32_t)piece_at(from, to - from);
	return n;
}

/* A copy_function whose source is a struct batch. A fault may end it at any store. */
static void store_batch(void *to, const void *from, size_t length)
{
	const struct copy_set *set = copy_cpu()->lines;
	const struct batch *batch = from;
	const struct hm_combine *combine = batch->combine;
	char *base = (char *)to - batch->offset, *line;
	uint32_t i, entry;

	(void)length;
	*batch->transfers = 0;
	for (i = 0; i < batch->n; i++) {
		entry = entry_of(batch->order[i]);
		line = base + combine->line[entry] * COPY_LINE;
		if (likely(combine->mask[entry] == COMBINE_WHOLE)) {
			set->line(line, &combine->bytes[entry]);
			*batch->transfers += set->line_stores;
		} else {
			*batch->transfers += store_runs(line, combine->bytes[entry].byte,
							combine->mask[entry]);
		}
	}
	copy_fence();
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void sort_lines(struct hm_combine *combine)
{
	bool sorted = true;
	uint32_t i;

	for (i = 0; i < combine->n; i++) {
		combine->order[i] = combine->line[i] << COMBINE_ENTRY_BITS | i;
		sorted = sorted && (!i || combine->order[i - 1] < combine->order[i]);
	}
	if (!sorted)
		qsort(combine->order, combine->n, sizeof(combine->order[0]), compare);
}

/* The lines order[from .. to), of one block. */
static int write_batch(struct hm_combine *combine, uint32_t from, uint32_t to,
		       struct hm_fault *ret_fault)
{
	uint32_t first = entry_of(combine->order[from]);
	uint32_t last = entry_of(combine->order[to - 1]);
	uint64_t transfers = 0, end;
	struct batch batch = {
		.combine = combine,
		.order = combine->order + from,
		.n = to - from,
		.transfers = &transfers,
	};
	uint32_t i;
	int r;

	batch.offset = combine->line[first] * COPY_LINE +
		       (uint32_t)__builtin_ctzll(combine->mask[first]);
	end = (combine->line[last] + 1) * COPY_LINE -
	      (uint32_t)__builtin_clzll(combine->mask[last]);
	r = guarded_store("writing out a combine", combine->map, batch.offset,
			  end - batch.offset, store_batch, &batch, ret_fault);
	if (r)
		return r;
	combine->counts.transfers += transfers;
	combine->counts.lines_written += batch.n;
	for (i = from; i < to; i++)
		combine->mask[entry_of(combine->order[i])] = 0;
	return 0;
}

int combine_flush_locked(struct hm_combine *combine, struct hm_fault *ret_fault)
{
	const uint64_t lines = REPAIR_BLOCK / COPY_LINE;
	uint32_t from, to;
	int r, first = 0;

	if (!combine->n)
		return 0;
	combine->counts.flushes++;
	sort_lines(combine);
	for (from = 0; from < combine->n; from = to) {
		uint64_t block = (combine->order[from] >> COMBINE_ENTRY_BITS) / lines;

		for (to = from + 1; to < combine->n; to++)
			if ((combine->order[to] >> COMBINE_ENTRY_BITS) / lines != block)
				break;
		if (first)
			err_hold();
		r = write_batch(combine, from, to, first ? NULL : ret_fault);
		if (first)
			err_release();
		first = first ? first : r;
		/* It has been tried for a second, or there is nothing to write to. */
		if (r == -EAGAIN || r == -ENODEV)
			break;
	}
	if (first)
		table_compact(combine);
	else
		table_empty(combine);
	return first;
}
