// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Advice about ranges of the process: a list in rising order, without overlaps, in which
 * neighbours differ. Pages that nothing was advised about are in none of its ranges.
 */
#include "model.h"

/* A list that is being made. */
struct sim_advices {
	struct sim_advice *list;
	unsigned int n;
	unsigned int room;
	bool full;
};

static bool sim_advice_same(const struct sim_advice *a, const struct sim_advice *b)
{
	return a->flags == b->flags && a->location == b->location &&
	       a->counter == b->counter && a->granule == b->granule;
}

/* Adds what @advice says about the pages from @start up to @end, if that is anything. */
static void sim_advice_add(struct sim_advices *out, const struct sim_advice *advice, u64 start,
			   u64 end)
{
	static const struct sim_advice none;
	struct sim_advice *last = out->n ? &out->list[out->n - 1] : NULL;

	if (start >= end || sim_advice_same(advice, &none))
		return;
	if (last && last->end == start && sim_advice_same(last, advice)) {
		last->end = end;
		return;
	}
	if (out->n == out->room) {
		out->full = true;
		return;
	}
	out->list[out->n] = *advice;
	out->list[out->n].start = start;
	out->list[out->n++].end = end;
}

static struct sim_advice sim_advice_changed(const struct sim_advice *advice, u32 which, u64 value)
{
	static const u32 flags[] = {
		[HETSIM_ADVISE_ACCESSED_BY] = SIM_ADVICE_ACCESSED_BY,
		[HETSIM_ADVISE_READ_MOSTLY] = SIM_ADVICE_READ_MOSTLY,
		[HETSIM_ADVISE_NO_ACCESS] = SIM_ADVICE_NO_ACCESS,
		[HETSIM_ADVISE_CACHE] = SIM_ADVICE_CACHE,
	};
	struct sim_advice changed = *advice;

	if (which == HETSIM_ADVISE_LOCATION)
		changed.location = value;
	else if (which == HETSIM_ADVISE_GRANULE)
		changed.granule = value;
	else if (which == HETSIM_ADVISE_COUNTER)
		changed.counter = value;
	else if (value)
		changed.flags |= flags[which];
	else
		changed.flags &= ~flags[which];
	return changed;
}

int sim_advice_set(const struct sim_advice *list, unsigned int n, struct sim_span span,
		   u32 advice, u64 value, struct sim_advice *fresh, unsigned int room)
{
	static const struct sim_advice none;
	struct sim_advices out = { .list = fresh, .room = room };
	struct sim_advice changed, gap = sim_advice_changed(&none, advice, value);
	u64 start = span.start, end = sim_span_end(&span), at = start, from, to;
	unsigned int i;

	for (i = 0; i < n; i++) {
		const struct sim_advice *old = &list[i];

		/* The part of it before the span, a gap in the span before it, the part inside. */
		sim_advice_add(&out, old, old->start, old->end < start ? old->end : start);
		from = old->start > start ? old->start : start;
		to = old->end < end ? old->end : end;
		if (old->start >= end) {
			from = end;
			to = end;
		}
		if (old->end > start) {
			sim_advice_add(&out, &gap, at, from);
			if (from < to) {
				changed = sim_advice_changed(old, advice, value);
				sim_advice_add(&out, &changed, from, to);
			}
			at = to > at ? to : at;
		}
		if (old->end > end) {
			sim_advice_add(&out, &gap, at, end);
			at = end;
		}
		sim_advice_add(&out, old, old->start > end ? old->start : end, old->end);
	}
	sim_advice_add(&out, &gap, at, end);
	return out.full ? -ENOSPC : (int)out.n;
}

struct sim_advice sim_advice_find(const struct sim_advice *list, unsigned int n, u64 page)
{
	struct sim_advice gap = { .end = U64_MAX };
	unsigned int low = 0, high = n;

	/* The first range that ends behind the page. */
	while (low < high) {
		unsigned int middle = low + (high - low) / 2;

		if (list[middle].end <= page)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < n && list[low].start <= page)
		return list[low];
	if (low)
		gap.start = list[low - 1].end;
	if (low < n)
		gap.end = list[low].start;
	return gap;
}
