// SPDX-License-Identifier: MIT
/* Sums of accelerators' events, by range and by object. */
#include "ranges.h"

#include <stdlib.h>
#include <string.h>

/* Neighbours may have pages in between of which no event came: a prefetch was on the way. */
#define GAP (UINT64_C(2) << 20)

void ranges_add(struct traced_range *to, const struct traced_range *from)
{
	struct hm_published_range *sum = &to->sum;
	const struct hm_published_range *add = &from->sum;

	sum->start = add->start < sum->start ? add->start : sum->start;
	sum->end = add->end > sum->end ? add->end : sum->end;
	sum->first_ns = add->first_ns < sum->first_ns ? add->first_ns : sum->first_ns;
	sum->last_ns = add->last_ns > sum->last_ns ? add->last_ns : sum->last_ns;
	sum->faults += add->faults;
	sum->fault_pages += add->fault_pages;
	sum->fault_ns += add->fault_ns;
	sum->refused += add->refused;
	sum->invalidated += add->invalidated;
	sum->evicted += add->evicted;
	sum->moved_in += add->moved_in;
	sum->moved_out += add->moved_out;
	sum->move_ns += add->move_ns;
	sum->prefetched += add->prefetched;
	sum->prefetch_ns += add->prefetch_ns;
	sum->used += add->used;
	sum->wasted += add->wasted;
	to->reach += from->reach;
}

static int compare_owners(const struct traced_range *x, const struct traced_range *y)
{
	if (x->object != y->object)
		return x->object->index < y->object->index ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return strcmp(x->sum.accel, y->sum.accel);
}

static int compare(const void *a, const void *b)
{
	const struct traced_range *x = a, *y = b;
	int order = compare_owners(x, y);

	return order ? order : (x->sum.start > y->sum.start) - (x->sum.start < y->sum.start);
}

uint64_t ranges_join(struct traced_range *ranges, uint64_t n)
{
	uint64_t i, joined = 0;

	if (!n)
		return 0;
	qsort(ranges, n, sizeof(*ranges), compare);
	for (i = 0; i < n; i++) {
		ranges[i].reach = ranges[i].sum.end - ranges[i].sum.start;
		if (i && !compare_owners(&ranges[joined - 1], &ranges[i]) &&
		    ranges[i].sum.start < ranges[joined - 1].sum.end + GAP)
			ranges_add(&ranges[joined - 1], &ranges[i]);
		else
			ranges[joined++] = ranges[i];
	}
	return joined;
}

static int compare_rows(const void *a, const void *b)
{
	const struct range_row *x = a, *y = b;

	if (x->sum.sum.fault_ns != y->sum.sum.fault_ns)
		return x->sum.sum.fault_ns < y->sum.sum.fault_ns ? 1 : -1;
	if (x->sum.sum.faults != y->sum.sum.faults)
		return x->sum.sum.faults < y->sum.sum.faults ? 1 : -1;
	return (x->first > y->first) - (x->first < y->first);
}

struct range_row *ranges_rows(const struct traced_range *ranges, uint64_t n, uint64_t *ret_n)
{
	struct range_row *rows = calloc(n + 1, sizeof(*rows));
	uint64_t i, n_row = 0;

	if (!rows)
		return NULL;
	for (i = 0; i < n; i++) {
		if (!i || compare_owners(&ranges[i - 1], &ranges[i])) {
			rows[n_row++] = (struct range_row){ i, 1, ranges[i] };
			continue;
		}
		rows[n_row - 1].n++;
		ranges_add(&rows[n_row - 1].sum, &ranges[i]);
	}
	if (n_row)
		qsort(rows, n_row, sizeof(*rows), compare_rows);
	*ret_n = n_row;
	return rows;
}
