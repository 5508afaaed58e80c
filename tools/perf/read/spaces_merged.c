// SPDX-License-Identifier: MIT
/* The new part of a mapping, where the kernel tells it together with its neighbours. */
#include "spaces_merged.h"

#include "spaces_name.h"

#define PAGE UINT64_C(4096)

static bool is_of_memory(const struct recorded_event *event)
{
	return event->length >= ANON_LEAST && name_kind(event->name) == OBJECT_ANON;
}

static uint64_t length_of(const struct range *range)
{
	return range->end - range->start;
}

struct range *merged_grown(const struct range_tree *maps, const struct recorded_event *event)
{
	uint64_t start = event->address, end = start + event->length;
	struct range *range;

	if (!is_of_memory(event))
		return NULL;
	range = range_find(maps, start, start + 1);
	if (!range || range->object->kind != OBJECT_ANON || range->start != start ||
	    range->end >= end || length_of(range) < ANON_LEAST ||
	    end - range->end >= ANON_LEAST)
		return NULL;
	return range;
}

/* With other rights it can't have become one with the new memory. */
static bool may_be_one(const struct range *range, const struct recorded_event *event)
{
	return range->object->kind == OBJECT_ANON && range->writable == event->writable;
}

/*
 * Old memory, and none of the new. Small pieces that are the larger part are an allocator's,
 * whose memory has grown.
 */
static bool is_beside(const struct range *range, const struct recorded_event *event,
		      uint64_t start, uint64_t end)
{
	return range && may_be_one(range, event) && range->start >= start &&
	       range->end <= end && length_of(range) < end - start &&
	       (length_of(range) >= ANON_LEAST || length_of(range) <= (end - start) / 2);
}

void merged_trim(const struct range_tree *maps, struct recorded_event *event)
{
	uint64_t start = event->address, end = start + event->length;
	const struct range *range;

	if (!is_of_memory(event))
		return;
	while (is_beside(range = range_find(maps, start, start + 1), event, start, end))
		start = range->end;
	while (is_beside(range = range_find(maps, end - 1, end), event, start, end))
		end = range->start;
	range = range_find(maps, start, end);
	if (end - start < event->length && end - start >= ANON_LEAST && range &&
	    range->start == start && range->end == end && may_be_one(range, event))
		end = start;
	event->address = start;
	event->length = end - start;
}

void merged_doubt(const struct range_tree *maps, const struct recorded_event *told,
		  const struct range *anew)
{
	uint64_t at = told->address, end = at + told->length;
	uint64_t least = anew ? told->length / 2 + 1 : 0;
	struct object *heir = anew && length_of(anew) >= ANON_LEAST ? anew->object : NULL;
	struct range *range;

	if (!is_of_memory(told))
		return;
	if (least < ANON_LEAST)
		least = ANON_LEAST;
	for (; at < end && (range = range_find(maps, at, at + 1)); at = range->end) {
		if ((anew && range->start == anew->start) || range->start < told->address ||
		    range->end > end || range->object->kind != OBJECT_ANON ||
		    length_of(range) < least)
			continue;
		range->doubted = true;
		range->heir = heir;
	}
}

bool merged_touch(struct range *range, uint64_t address)
{
	uint64_t page = address / PAGE * PAGE;

	if (range->doubted)
		return page == range->touched_first || page == range->touched_last;
	if (!range->touched_first)
		range->touched_first = page;
	range->touched_last = page;
	return false;
}
