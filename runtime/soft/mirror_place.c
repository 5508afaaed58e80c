// SPDX-License-Identifier: MIT
/*
 * Books of pages of the process in the twin's memory. The bytes stay where they are: a page that
 * counts as moved takes room in VRAM, and queries, counters and events tell of it as the module's
 * do. mirror->lock is held throughout, but for soft_place_make_room().
 */
#include <errno.h>
#include <stdlib.h>

#include "soft/mirror.h"

#define FRAME (1ull << SOFT_FRAME_SHIFT)
#define PIECE_PAGES (SZ_64K / SIM_PAGE_SIZE)

static void tell(struct soft_mirror *mirror, uint32_t kind, uint64_t start, uint64_t end,
		 uint64_t value)
{
	const struct hetsim_event event = {
		.kind = kind,
		.address = start,
		.length = end - start,
		.value = value,
	};

	soft_mirror_tell(mirror, &event);
}

void soft_place_release(struct soft_mirror *mirror, uint64_t n_pages)
{
	struct soft_device *dev = mirror->file->dev;

	if (!n_pages)
		return;
	pthread_mutex_lock(&dev->memory_lock);
	sim_memory_give(&dev->memory, mirror->file->account->pages_used, HETSIM_PLACE_VRAM,
			n_pages);
	pthread_mutex_unlock(&dev->memory_lock);
}

static int reserve(struct soft_mirror *mirror, uint64_t n_pages, struct sim_lack *lack)
{
	struct soft_device *dev = mirror->file->dev;
	int r;

	pthread_mutex_lock(&dev->memory_lock);
	r = sim_memory_take(&dev->memory, mirror->file->account->pages_used, HETSIM_PLACE_VRAM,
			    n_pages, NULL, false, lack);
	pthread_mutex_unlock(&dev->memory_lock);
	return r;
}

/* ---- back to the host ---- */

static uint64_t return_frame(struct soft_mirror *mirror, struct soft_frame *frame,
			     uint64_t start, uint64_t end, bool evicts)
{
	uint64_t at, first = 0, last = 0, n = 0;
	struct soft_page *page;

	for (at = start; at < end; at += SIM_PAGE_SIZE) {
		page = &frame->page[(at - frame->base) >> SIM_PAGE_SHIFT];
		if (!page->on_device)
			continue;
		page->on_device = 0;
		first = n ? first : at;
		last = at + SIM_PAGE_SIZE;
		n++;
	}
	if (!n)
		return 0;
	tell(mirror, HETSIM_EVENT_MIGRATE_BEGIN, first, last, HETSIM_LOCATION_HOST);
	frame->n_on_device -= (uint32_t)n;
	frame->moves += frame->moves < UINT16_MAX;
	soft_place_release(mirror, n);
	soft_mirror_count(mirror, SIM_PAGES_RETURNED, n);
	tell(mirror, HETSIM_EVENT_MIGRATE_END, first, last, n);
	if (evicts) {
		soft_mirror_count(mirror, SIM_PAGES_EVICTED, n);
		tell(mirror, HETSIM_EVENT_EVICT, first, last, n);
	}
	return n;
}

void soft_place_return(struct soft_mirror *mirror, uint64_t start, uint64_t end)
{
	struct soft_frame *frame;

	cds_list_for_each_entry(frame, &mirror->frames, age)
		if (frame->n_on_device && frame->base < end && frame->base + FRAME > start)
			return_frame(mirror, frame, max_u64(start, frame->base),
				     min_u64(end, frame->base + FRAME), false);
}

/* The oldest frame's pages go, but for those of @except. Returns their number. */
static uint64_t evict_oldest(struct soft_mirror *mirror, const struct soft_frame *except)
{
	struct soft_frame *frame;

	cds_list_for_each_entry(frame, &mirror->frames, age)
		if (frame != except && frame->n_on_device)
			return return_frame(mirror, frame, frame->base, frame->base + FRAME,
					    true);
	return 0;
}

uint64_t soft_place_make_room(struct soft_device *dev, uint64_t n_pages)
{
	struct soft_mirror *mirror;
	struct soft_file *file;
	uint64_t n = 0, more;

	pthread_mutex_lock(&dev->lock);
	cds_list_for_each_entry(file, &dev->openers, link) {
		mirror = atomic_load(&file->mirror);
		if (!mirror)
			continue;
		pthread_mutex_lock(&mirror->lock);
		do {
			more = n < n_pages ? evict_oldest(mirror, NULL) : 0;
			n += more;
		} while (more);
		pthread_mutex_unlock(&mirror->lock);
	}
	pthread_mutex_unlock(&dev->lock);
	return n;
}

/* ---- to the device ---- */

/* The end of the page's mapping. *@ret_moves: it is private memory without a file. */
static uint64_t mapping_end(const struct soft_mirror *mirror, uint64_t address, bool *ret_moves)
{
	struct vma vma;

	*ret_moves = false;
	if (vma_find(mirror->maps_fd, address, &vma))
		return address + SIM_PAGE_SIZE;
	*ret_moves = !vma.shared && !vma.ino;
	return vma.end;
}

/* Takes room, and makes it out of older pages of the mirror. */
static bool make_room(struct soft_mirror *mirror, const struct soft_frame *frame,
		      uint64_t n_pages)
{
	struct sim_lack lack = { 0 };

	while (reserve(mirror, n_pages, &lack))
		if (!lack.n_pages || !evict_oldest(mirror, frame))
			return false;
	return true;
}

static void move_in_frame(struct soft_mirror *mirror, struct soft_frame *frame, uint64_t start,
			  uint64_t end)
{
	struct soft_page *pages = &frame->page[(start - frame->base) >> SIM_PAGE_SHIFT];
	uint64_t i, n_pages = (end - start) >> SIM_PAGE_SHIFT, n = 0;

	for (i = 0; i < n_pages; i++)
		n += pages[i].rights && !pages[i].on_device;
	if (!n || !make_room(mirror, frame, n))
		return;
	tell(mirror, HETSIM_EVENT_MIGRATE_BEGIN, start, end, HETSIM_LOCATION_DEVICE);
	for (i = 0; i < n_pages; i++)
		pages[i].on_device |= !!pages[i].rights;
	frame->n_on_device += (uint32_t)n;
	frame->moves += frame->moves < UINT16_MAX;
	soft_mirror_count(mirror, SIM_PAGES_MIGRATED, n);
	tell(mirror, HETSIM_EVENT_MIGRATE_END, start, end, n);
}

void soft_place_move(struct soft_mirror *mirror, uint64_t start, uint64_t end)
{
	struct soft_frame *frame;
	uint64_t next;
	bool moves;

	for (; start < end; start = next) {
		next = min_u64(round_down(start, FRAME) + FRAME, end);
		frame = soft_frame_find(mirror, start);
		if (!frame)
			continue;
		next = min_u64(next, mapping_end(mirror, start, &moves));
		if (moves)
			move_in_frame(mirror, frame, start, next);
	}
}

/* A page is used once more: true when it and its piece are to move. */
static bool used_often(struct soft_mirror *mirror, struct soft_frame *frame, uint64_t address)
{
	uint32_t advice = soft_mirror_advice(mirror, address),
		 counter = advice >> SOFT_ADVICE_COUNTER;
	uint64_t index = (address - frame->base) >> SIM_PAGE_SHIFT;
	uint16_t *uses = &frame->uses[index / PIECE_PAGES];

	if (!counter || advice & SOFT_ADVICE_LOCATION || frame->page[index].on_device)
		return false;
	if (*uses < counter) {
		++*uses;
		return false;
	}
	*uses = 0;
	return true;
}

/* ---- the cache ---- */

static void return_page(struct soft_mirror *mirror, uint64_t page)
{
	uint64_t at = page << SIM_PAGE_SHIFT;
	struct soft_frame *frame = soft_frame_find(mirror, at);

	if (frame)
		return_frame(mirror, frame, at, at + SIM_PAGE_SIZE, false);
}

int soft_place_cache(struct soft_mirror *mirror, uint64_t bytes)
{
	uint64_t most = mirror->file->dev->memory.limit[HETSIM_PLACE_VRAM];
	uint64_t n = min_u64(min_u64(bytes >> SIM_PAGE_SHIFT, most), HOT_MOST), page;
	struct hot *hot = mirror->hot;
	void *memory;
	uint32_t at = 0;

	if (hot ? hot->n_slots == n : !n)
		return 0;
	memory = n ? sys_calloc(1, hot_size((uint32_t)n)) : NULL;
	if (n && !memory)
		return -ENOMEM;
	while (hot && (page = hot_next(hot, &at)) != HOT_NONE)
		return_page(mirror, page);
	free(hot);
	mirror->hot = n ? hot_init(memory, (uint32_t)n) : NULL;
	return 0;
}

/* A page is used that is under HETSIM_ADVISE_CACHE. */
static void use_cached(struct soft_mirror *mirror, const struct soft_frame *frame, uint64_t at)
{
	uint64_t index = (at - frame->base) >> SIM_PAGE_SHIFT, page = at >> SIM_PAGE_SHIFT;
	uint64_t leaves;
	enum hot_answer answer;

	answer = hot_use(mirror->hot, page, frame->page[index].on_device, &leaves);
	if (answer == HOT_HIT)
		soft_mirror_count(mirror, SIM_CACHE_HITS, 1);
	else if (answer != HOT_COUNTED)
		soft_mirror_count(mirror, SIM_CACHE_MISSES, 1);
	if (answer != HOT_COMES)
		return;
	if (leaves != HOT_NONE)
		return_page(mirror, leaves);
	soft_place_move(mirror, at, at + SIM_PAGE_SIZE);
	if (frame->page[index].on_device)
		hot_came(mirror->hot, page);
	else
		hot_drop(mirror->hot, page);
}

static bool is_cached(const struct soft_mirror *mirror, uint64_t address)
{
	uint32_t advice = soft_mirror_advice(mirror, address);

	return mirror->hot && advice & SOFT_ADVICE_CACHE && !(advice & SOFT_ADVICE_LOCATION) &&
	       !(advice >> SOFT_ADVICE_COUNTER);
}

void soft_place_used(struct soft_mirror *mirror, uint64_t start, uint64_t end)
{
	struct soft_frame *frame;
	uint64_t at, piece;

	for (at = start; mirror->advice && at < end; at += SIM_PAGE_SIZE) {
		frame = soft_frame_find(mirror, at);
		if (frame && is_cached(mirror, at))
			use_cached(mirror, frame, at);
		if (!frame || !used_often(mirror, frame, at))
			continue;
		piece = round_down(at, SZ_64K);
		soft_mirror_count(mirror, SIM_ACCESS_NOTICES, 1);
		soft_place_move(mirror, piece, piece + SZ_64K);
	}
}
