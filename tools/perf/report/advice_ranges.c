// SPDX-License-Identifier: MIT
/*
 * Advice on memory that accelerators reach by entries of their own: a prefetch where their faults
 * cost more than it would, and the host as the location where pages went back and forth.
 */
#include <inttypes.h>
#include <string.h>

#include "common/text.h"
#include "report.h"

#define PAGE 4096.0
/* So many prefetched pages tell the cost of one. */
#define PREFETCHED_LEAST 512
/* Of prefetched pages, more than one in so many that was not used: a prefetch is no help. */
#define WASTED_OF 2

/* The cost of a page in the trace's own prefetches to @accel; 0: there were too few. */
static double traced_cost(const struct report *report, const char *accel)
{
	uint64_t i, pages = 0, ns = 0;

	for (i = 0; i < report->n_range_row; i++) {
		const struct hm_published_range *sum = &report->range_rows[i].sum.sum;

		if (strcmp(sum->accel, accel) != 0)
			continue;
		pages += sum->prefetched;
		ns += sum->prefetch_ns;
	}
	return pages >= PREFETCHED_LEAST ? (double)ns / (double)pages : 0;
}

static int advise_prefetch(struct report *report, const struct range_row *row,
			   const struct measures *measures)
{
	const struct hm_published_range *sum = &row->sum.sum;
	double now = (double)sum->fault_ns, cost = traced_cost(report, sum->accel);
	bool traced = cost > 0;
	char faults[TEXT_MAX], pages[TEXT_MAX], each[TEXT_MAX], all[TEXT_MAX], other[TEXT_MAX];
	char known[128] = "; the cost of a prefetch there is not known";
	struct advice advice = { .of = row->sum.object, .faults = sum->faults };

	/* Half of those that are refused are no faults that a prefetch saves. */
	if (!advice_is_gain(report, now) || sum->refused ||
	    sum->wasted * WASTED_OF > sum->prefetched + sum->used + sum->wasted)
		return 0;
	if (!traced)
		cost = measures->prefetch_cost(measures->user, sum->accel);
	advice.gain_ns = now - (double)sum->fault_pages * cost;
	advice.at_most = cost <= 0;
	if (!advice_is_gain(report, advice.gain_ns))
		return 0;
	if (cost > 0)
		snprintf(known, sizeof(known), "; a page costs %s in a prefetch, %s",
			 text_seconds(cost / 1e9, other),
			 traced ? "as traced" : "measured here");
	advice.text = text_format("bring it to %s before the work: hm_range_prefetch(), or "
				  "HM_RANGE_ACCESSED_BY as its advice",
				  sum->accel);
	advice.evidence =
		text_format("%s device faults of %s for %s pages: one took %s, which is %s in "
			    "all%s",
			    text_count(sum->faults, faults), sum->accel,
			    text_count(sum->fault_pages, pages),
			    text_seconds(now / (double)sum->faults / 1e9, each),
			    text_seconds(now / 1e9, all), known);
	return advice_add(report, &advice);
}

/*
 * Pages that went to the device more than once came back in between. At the host none would have
 * moved; the cost of the accelerator's reads over the bus is not known.
 */
static int advise_host(struct report *report, const struct range_row *row, bool *ret_advised)
{
	const struct hm_published_range *sum = &row->sum.sum;
	double pages = (double)row->sum.reach / PAGE;
	char in[TEXT_MAX], out[TEXT_MAX], of[TEXT_MAX], all[TEXT_MAX], each[TEXT_MAX];
	struct advice advice = { .of = row->sum.object,
				 .faults = sum->faults,
				 .gain_ns = (double)sum->move_ns,
				 .at_most = true };

	*ret_advised = false;
	if ((double)sum->moved_in < 2 * pages || (double)sum->moved_out < pages ||
	    !advice_is_gain(report, advice.gain_ns))
		return 0;
	*ret_advised = true;
	advice.text = text_format("prefer the host as its location: hm_range_advise() with "
				  "HM_RANGE_PREFER_HOST for %s",
				  sum->accel);
	advice.evidence = text_format(
		"%s pages moved to %s and %s back, of memory of %s pages: a move took %s a "
		"page, which is %s in all",
		text_count(sum->moved_in, in), sum->accel, text_count(sum->moved_out, out),
		text_count((uint64_t)pages, of),
		text_seconds((double)sum->move_ns / (double)(sum->moved_in + sum->moved_out) /
				     1e9,
			     each),
		text_seconds((double)sum->move_ns / 1e9, all));
	return advice_add(report, &advice);
}

int advice_on_ranges(struct report *report, const struct measures *measures)
{
	bool advised;
	uint64_t i;
	int r = 0;

	for (i = 0; i < report->n_range_row && !r; i++) {
		const struct range_row *row = &report->range_rows[i];

		r = advise_host(report, row, &advised);
		if (!r && !advised)
			r = advise_prefetch(report, row, measures);
	}
	return r;
}
