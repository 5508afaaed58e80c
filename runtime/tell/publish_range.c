// SPDX-License-Identifier: MIT
/*
 * Sums of accelerators' events by 2 MiB of addresses. The sums are kept here, and written to the
 * table whole: a table in a file is not read back.
 */
#include "tell/publish_range.h"

#include <stdio.h>
#include <string.h>

#include "base/fork.h"
#include "base/sys.h"
#include "base/util.h"
#include "registry/registry.h"
#include "tell/publish_table.h"

#define SPAN MIB(2)
#define PAGE 4096u
#define BUCKETS (2 * PUBLISH_RANGES) /* a power of two */

struct kept {
	struct hm_published_range range;
	uint64_t base;       /* with range.map and range.accel: which one it is */
	uint64_t move_began; /* of the move that is under way; 0: none */
	bool moves_out;
};

/* Under the table's mutex. */
static struct kept *kept; /* NULL: no event came yet */
static uint16_t *bucket;  /* number of a range, from 1; 0: none */

void publish_ranges_forget(void)
{
	fork_free(kept);
	fork_free(bucket);
	kept = NULL;
	bucket = NULL;
}

/* ---- which range ---- */

static bool make_lists(void)
{
	if (kept)
		return true;
	kept = sys_calloc(PUBLISH_RANGES, sizeof(*kept));
	bucket = sys_calloc(BUCKETS, sizeof(*bucket));
	if (kept && bucket)
		return true;
	publish_ranges_forget();
	return false;
}

static uint32_t hash(uint64_t base, uint64_t map, const char *accel)
{
	uint64_t all = base / SPAN * UINT64_C(0x9e3779b97f4a7c15) ^ map;

	while (*accel)
		all = (all ^ (unsigned char)*accel++) * UINT64_C(0x100000001b3);
	return (uint32_t)(all >> 32) & (BUCKETS - 1);
}

/* Of @accel for @address, made if there is none yet. NULL: there is no room. */
static struct kept *get(const char *accel, uint64_t address, uint64_t map)
{
	struct hm_published_head *head = publish_table_head();
	const uint64_t base = round_down(address, SPAN);
	struct kept *found;
	uint32_t at;

	for (at = hash(base, map, accel); bucket[at]; at = (at + 1) & (BUCKETS - 1)) {
		found = &kept[bucket[at] - 1];
		if (found->base == base && found->range.map == map &&
		    !strncmp(found->range.accel, accel, sizeof(found->range.accel) - 1))
			return found;
	}
	if (head->ranges_used == PUBLISH_RANGES ||
	    !publish_table_back_ranges(head->ranges_used + 1))
		return NULL;
	found = &kept[head->ranges_used];
	found->base = base;
	found->range.map = map;
	found->range.start = UINT64_MAX;
	snprintf(found->range.accel, sizeof(found->range.accel), "%s", accel);
	__atomic_store_n(&head->ranges_used, head->ranges_used + 1, __ATOMIC_RELEASE);
	bucket[at] = (uint16_t)head->ranges_used;
	return found;
}

/* The end of the part of [@at, @end) that is in one range. */
static uint64_t part_of(uint64_t at, uint64_t end, uint64_t *ret_map)
{
	struct hm_pointer_info info;
	uint64_t next = min_u64(end, round_down(at, SPAN) + SPAN), map_end;

	*ret_map = 0;
	if (registry_find_reserved((const void *)(uintptr_t)at, &info))
		return next;
	*ret_map = (uint64_t)(uintptr_t)info.base;
	map_end = *ret_map + info.length;
	return map_end > at ? min_u64(next, map_end) : next;
}

/* ---- sums ---- */

static void end_move(struct kept *one, uint64_t now, uint64_t pages)
{
	struct hm_published_range *range = &one->range;

	if (one->moves_out)
		range->moved_out += pages;
	else
		range->moved_in += pages;
	if (one->move_began && now > one->move_began)
		range->move_ns += now - one->move_began;
	one->move_began = 0;
}

static void add(struct kept *one, const struct hm_range_event *event, uint64_t pages,
		uint64_t duration_ns)
{
	struct hm_published_range *range = &one->range;

	switch (event->kind) {
	case HM_RANGE_FAULT:
		range->faults++;
		range->refused += event->status != 0;
		range->fault_pages += event->status ? 0 : pages;
		range->fault_ns += duration_ns;
		break;
	case HM_RANGE_MIGRATE_BEGIN:
		one->move_began = event->time;
		one->moves_out = event->status != HM_RANGE_DEVICE;
		break;
	case HM_RANGE_MIGRATE_END:
		end_move(one, event->time, pages);
		break;
	case HM_RANGE_INVALIDATE:
		range->invalidated++;
		break;
	case HM_RANGE_EVICT:
		range->evicted++;
		break;
	case HM_RANGE_PREFETCHED:
		range->prefetched += pages;
		range->prefetch_ns += duration_ns;
		break;
	case HM_RANGE_PREFETCH_USED:
		range->used += pages;
		break;
	case HM_RANGE_PREFETCH_WASTED:
		range->wasted += pages;
		break;
	default:
		break;
	}
}

static void put(struct kept *one, const struct hm_range_event *event, uint64_t start,
		uint64_t end)
{
	struct hm_published_range *range = &one->range;

	range->start = min_u64(range->start, start);
	range->end = max_u64(range->end, end);
	range->first_ns = range->first_ns ? range->first_ns : event->time;
	range->last_ns = max_u64(range->last_ns, event->time);
	publish_table_put_range((uint32_t)(one - kept), range);
	publish_table_head()->ranges_changes++;
	publish_table_store_head();
}

/* A prefetch is as long as its caller wishes: each range has its part. Others are one range's. */
static void share_out(const char *accel, const struct hm_range_event *event, uint64_t pages,
		      uint64_t duration_ns)
{
	const bool parts = event->kind == HM_RANGE_PREFETCHED;
	const uint64_t start = round_down(event->address, PAGE);
	const uint64_t end = round_up(event->address + event->length, PAGE);
	uint64_t at, next, map;
	struct kept *one;

	for (at = start; at < end; at = next) {
		next = part_of(at, end, &map);
		one = get(accel, at, map);
		if (!one) {
			publish_table_head()->ranges_left_out++;
			publish_table_store_head();
			return;
		}
		if (parts) {
			add(one, event, (next - at) / PAGE,
			    (uint64_t)((double)duration_ns * (double)(next - at) /
				       (double)(end - start)));
		} else {
			add(one, event, pages ? pages : (end - start) / PAGE, duration_ns);
		}
		put(one, event, at, next);
		if (!parts)
			return;
	}
}

void publish_range(const char *accel, const struct hm_range_event *event, uint64_t pages,
		   uint64_t duration_ns)
{
	if (!event->length || event->address > UINT64_MAX - event->length - SPAN)
		return;
	if (publish_table_lock()) {
		if (make_lists())
			share_out(accel, event, pages, duration_ns);
		else
			publish_table_head()->ranges_left_out++;
	}
	publish_table_unlock();
}

void publish_range_lost(uint64_t n)
{
	if (publish_table_lock()) {
		publish_table_head()->ranges_left_out += n;
		publish_table_store_head();
	}
	publish_table_unlock();
}
