// SPDX-License-Identifier: MIT
/* Entries of a mirror, by frames of 2 MiB. mirror->lock is held throughout. */
#include <errno.h>
#include <stdlib.h>

#include "soft/mirror.h"

static struct soft_frame **bucket_of(struct soft_mirror *mirror, uint64_t base)
{
	return &mirror->bucket[(base >> SOFT_FRAME_SHIFT) % SOFT_BUCKETS];
}

struct soft_frame *soft_frame_find(struct soft_mirror *mirror, uint64_t address)
{
	uint64_t base = round_down(address, 1ull << SOFT_FRAME_SHIFT);
	struct soft_frame *frame = *bucket_of(mirror, base);

	while (frame && frame->base != base)
		frame = frame->next;
	return frame;
}

static struct soft_page *page_in(struct soft_frame *frame, uint64_t address)
{
	return &frame->page[(address - frame->base) >> SIM_PAGE_SHIFT];
}

struct soft_page *soft_page_find(struct soft_mirror *mirror, uint64_t address)
{
	struct soft_frame *frame = soft_frame_find(mirror, address);
	struct soft_page *page = frame ? page_in(frame, address) : NULL;

	return page && page->rights ? page : NULL;
}

static void frame_free(struct soft_mirror *mirror, struct soft_frame *frame)
{
	struct soft_frame **at = bucket_of(mirror, frame->base);

	while (*at != frame)
		at = &(*at)->next;
	*at = frame->next;
	soft_place_release(mirror, frame->n_on_device);
	cds_list_del(&frame->age);
	mirror->n_frames--;
	free(frame);
}

/* The oldest frame makes room. */
static void frame_evict(struct soft_mirror *mirror)
{
	struct soft_frame *frame =
		cds_list_first_entry(&mirror->frames, struct soft_frame, age);
	uint64_t base = frame->base;

	if (soft_entries_drop(mirror, base, base + (1ull << SOFT_FRAME_SHIFT),
			      HETSIM_EVENT_EVICT))
		soft_mirror_count(mirror, SIM_MIRROR_EVICTIONS, 1);
	frame = soft_frame_find(mirror, base);
	if (frame)
		frame_free(mirror, frame);
}

int soft_page_get(struct soft_mirror *mirror, uint64_t address, struct soft_page **ret_page)
{
	struct soft_frame *frame = soft_frame_find(mirror, address);

	if (!frame) {
		if (mirror->n_frames == SIM_MAX_CHUNKS)
			frame_evict(mirror);
		frame = sys_calloc(1, sizeof(*frame));
		if (!frame)
			return -ENOMEM;
		frame->base = round_down(address, 1ull << SOFT_FRAME_SHIFT);
		frame->next = *bucket_of(mirror, frame->base);
		*bucket_of(mirror, frame->base) = frame;
		cds_list_add_tail(&frame->age, &mirror->frames);
		mirror->n_frames++;
	}
	*ret_page = page_in(frame, address);
	return 0;
}

/* Prefetched pages of [@start, @end) went unused. */
static void tell_wasted(struct soft_mirror *mirror, uint64_t start, uint64_t end, uint64_t n)
{
	const struct hetsim_event event = {
		.kind = HETSIM_EVENT_PREFETCH_WASTED,
		.address = start,
		.length = end - start,
		.value = n,
	};

	soft_mirror_count(mirror, SIM_PREFETCH_WASTED, n);
	soft_mirror_tell(mirror, &event);
	if (mirror->learns)
		ahead_forget(&mirror->ahead, start / SZ_64K,
			     (end - start + SZ_64K - 1) / SZ_64K);
	soft_mirror_count_learned(mirror);
}

static uint64_t drop_in(struct soft_mirror *mirror, struct soft_frame *frame, uint64_t start,
			uint64_t end, uint64_t *ret_wasted)
{
	struct soft_page *page;
	uint64_t at, n = 0, there = 0;

	for (at = start; at < end; at += SIM_PAGE_SIZE) {
		page = page_in(frame, at);
		if (!page->rights)
			continue;
		n++;
		*ret_wasted += page->flags & SOFT_PAGE_AHEAD ? 1 : 0;
		there += page->on_device;
		*page = (struct soft_page){ 0 };
	}
	frame->n_on_device -= (uint32_t)there;
	soft_place_release(mirror, there);
	return n;
}

/* The next frame with addresses from @start on, before @end; NULL. */
static struct soft_frame *frame_next(struct soft_mirror *mirror, uint64_t start, uint64_t end)
{
	uint64_t size = 1ull << SOFT_FRAME_SHIFT, base = round_down(start, size);
	struct soft_frame *frame, *first = NULL;

	/* Few addresses: looks each frame up. Many: looks at all that there are. */
	if ((end - base) / size < mirror->n_frames) {
		for (frame = NULL; !frame && base < end; base += size)
			frame = soft_frame_find(mirror, base);
		return frame;
	}
	cds_list_for_each_entry(frame, &mirror->frames, age)
		if (frame->base + size > start && frame->base < end &&
		    (!first || frame->base < first->base))
			first = frame;
	return first;
}

uint64_t soft_entries_drop(struct soft_mirror *mirror, uint64_t start, uint64_t end,
			   uint32_t kind)
{
	const uint64_t size = 1ull << SOFT_FRAME_SHIFT;
	struct hetsim_event event = { .kind = kind };
	struct soft_frame *frame;
	uint64_t at = start, from, to, n, total = 0, wasted;

	while (at < end && (frame = frame_next(mirror, at, end))) {
		from = max_u64(frame->base, start);
		to = min_u64(frame->base + size, end);
		wasted = 0;
		n = drop_in(mirror, frame, from, to, &wasted);
		total += n;
		at = frame->base + size;
		if (to - from == size)
			frame_free(mirror, frame);
		if (n && kind) {
			event.address = from;
			event.length = to - from;
			soft_mirror_tell(mirror, &event);
		}
		if (wasted)
			tell_wasted(mirror, from, to, wasted);
	}
	return total;
}

uint64_t soft_entries_used(struct soft_mirror *mirror, uint64_t start, uint64_t end)
{
	struct hetsim_event event = { .kind = HETSIM_EVENT_PREFETCH_USED };
	struct soft_page *page;
	uint64_t at, n = 0;

	for (at = start; at < end; at += SIM_PAGE_SIZE) {
		page = soft_page_find(mirror, at);
		if (!page || !(page->flags & SOFT_PAGE_UNUSED))
			continue;
		page->flags &= (uint8_t)~SOFT_PAGE_COMING;
		if (!page->flags)
			continue;
		page->flags = 0;
		page->why = HETSIM_WHY_FAULT;
		event.address = n ? event.address : at;
		event.length = at + SIM_PAGE_SIZE - event.address;
		n++;
	}
	if (!n)
		return 0;
	soft_mirror_count(mirror, SIM_PREFETCH_USED, n);
	soft_mirror_tell(mirror, &event);
	return n;
}

void soft_frames_free(struct soft_mirror *mirror)
{
	struct soft_frame *frame, *next;

	cds_list_for_each_entry_safe(frame, next, &mirror->frames, age)
		frame_free(mirror, frame);
}
