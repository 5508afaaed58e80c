// SPDX-License-Identifier: MIT
/* Advice, query and counters of ranges: the doors. */
#include "range/range.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "model/ahead.h"

#define PAGE 4096ull

int range_pages_of(const void *pointer, uint64_t length, const char *what,
		   struct range_pages *ret_pages)
{
	uint64_t start = (uintptr_t)pointer, end;

	if (!length || __builtin_add_overflow(start, length, &end) || end > UINT64_MAX - PAGE)
		return err_set(-EINVAL,
			       "%s: %" PRIu64
			       " bytes at %p: a range has a byte at least, and ends "
			       "below the highest address",
			       what, length, pointer);
	ret_pages->address = round_down(start, PAGE);
	ret_pages->length = round_up(end, PAGE) - ret_pages->address;
	return 0;
}

int range_choose(struct hm_accel *accel, const char *what, struct hm_accel **ret_accel)
{
	int r;

	*ret_accel = NULL;
	if (!accel)
		return 0;
	r = object_check((struct hm_object *)accel, OBJECT_ACCEL);
	if (r)
		return r;
	if (!strcmp(accel->ops->name, "cpu"))
		return 0;
	if (!(accel->caps & HM_ACCEL_MIRROR))
		return err_set(-EOPNOTSUPP,
			       "%s: %s has no entries of its own for memory of the process (it "
			       "lacks HM_ACCEL_MIRROR): pass NULL, for the host's pages",
			       what, accel->name);
	*ret_accel = accel;
	return 0;
}

static int check_value(uint32_t advice, uint64_t value)
{
	if (advice > HM_RANGE_MOVE_AFTER)
		return err_set(-EINVAL,
			       "hm_range_advise: advice %" PRIu32 " is unknown: 0 to %d "
			       "are",
			       advice, HM_RANGE_MOVE_AFTER);
	if (advice == HM_RANGE_MOVE_AFTER && (!value || value > UINT16_MAX))
		return err_set(-EINVAL,
			       "hm_range_advise: pages can't move after %" PRIu64
			       " uses: 1 to 65535 are counted",
			       value);
	if (value && advice != HM_RANGE_GRANULE && advice != HM_RANGE_PREFER_HOST &&
	    advice != HM_RANGE_MOVE_AFTER && advice != HM_RANGE_READ_MOSTLY)
		return err_set(-EINVAL,
			       "hm_range_advise: this advice has no value, and %" PRIu64
			       " was passed",
			       value);
	if (advice == HM_RANGE_GRANULE && (value < PAGE || value & (value - 1)))
		return err_set(-EINVAL,
			       "hm_range_advise: entries of %" PRIu64
			       " bytes: a power of 2 from 4096 on is one",
			       value);
	return 0;
}

int hm_range_advise(const void *pointer, uint64_t length, struct hm_accel *accel,
		    uint32_t advice, uint64_t value)
{
	struct range_pages pages;
	struct hm_accel *who;
	int r;

	err_begin();
	r = range_pages_of(pointer, length, "hm_range_advise", &pages);
	if (!r)
		r = check_value(advice, value);
	if (!r)
		r = range_choose(accel, "hm_range_advise", &who);
	if (r)
		return r;
	if (!who)
		return host_advise(&pages, advice, value);
	if (value && advice == HM_RANGE_PREFER_HOST)
		return err_set(-EINVAL,
			       "hm_range_advise: a NUMA node is an advice for the host: "
			       "pass NULL as the accelerator");
	return who->ops->range_advise(who->data, pages.address, pages.length, advice, value);
}

int hm_range_query(const void *pointer, uint64_t length, struct hm_accel *accel,
		   struct hm_range_page *pages, uint64_t capacity, uint64_t *ret_n)
{
	struct hm_range_page *found;
	struct range_pages range;
	struct hm_accel *who;
	uint64_t n;
	int r;

	err_begin();
	r = range_pages_of(pointer, length, "hm_range_query", &range);
	if (!r)
		r = range_choose(accel, "hm_range_query", &who);
	if (r)
		return r;
	if (!ret_n || (capacity && !pages))
		return err_set(-EINVAL, "hm_range_query: %s is NULL",
			       ret_n ? "pages" : "ret_n");
	n = range.length / PAGE;
	if (!capacity) {
		*ret_n = n;
		return 0;
	}
	range.length = min_u64(n, capacity) * PAGE;
	found = sys_calloc(min_u64(n, capacity), sizeof(*found));
	if (!found)
		return err_set(-ENOMEM, "hm_range_query: no memory for %" PRIu64 " pages",
			       min_u64(n, capacity));
	r = host_query(&range, found);
	if (!r && who)
		r = who->ops->range_query(who->data, range.address, range.length, found);
	if (!r) {
		memcpy(pages, found, min_u64(n, capacity) * sizeof(*found));
		*ret_n = n;
	}
	free(found);
	return r;
}

int hm_range_counts_get(struct hm_accel *accel, struct hm_range_counts *ret_counts)
{
	struct hm_range_counts counts = { 0 };
	struct ahead_counts learned;
	struct hm_accel *who;
	int r;

	err_begin();
	if (!ret_counts)
		return err_set(-EINVAL, "hm_range_counts_get: ret_counts is NULL");
	r = range_choose(accel, "hm_range_counts_get", &who);
	if (!r)
		r = struct_check_out(ret_counts->struct_size, sizeof(counts),
				     offsetof(struct hm_range_counts, halved),
				     "hm_range_counts");
	if (r)
		return r;
	if (who) {
		r = who->ops->range_counts(who->data, &counts);
		if (r)
			return r;
	} else {
		learn_counts(&learned);
		counts.used = learned.used;
		counts.wasted = learned.wasted;
		counts.accesses = learned.accesses;
		counts.sequential = learned.sequential;
		counts.strided = learned.strided;
		counts.random = learned.random;
		counts.planned = learned.planned;
		counts.doubled = learned.doubled;
		counts.halved = learned.halved;
	}
	struct_write(ret_counts, &counts, ret_counts->struct_size);
	return 0;
}

int hm_range_learn(struct hm_accel *accel, uint64_t least, uint64_t most)
{
	struct hm_accel *who;
	int r;

	err_begin();
	r = range_choose(accel, "hm_range_learn", &who);
	if (r)
		return r;
	if (most && (!least || least > most || !is_aligned(least | most, PAGE)))
		return err_set(-EINVAL,
			       "hm_range_learn: windows of %" PRIu64 " to %" PRIu64
			       " bytes: the least is from 4096 to the largest, and both are "
			       "multiples of 4096",
			       least, most);
	if (who)
		return who->ops->range_learn(who->data, least, most);
	learn_set(least, most);
	return 0;
}
