// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A device's memory: its limits, and the pages that are counted against them.
 */
#include "model.h"

/* The part of @most that @n leaves. */
static u64 sim_left(u64 most, u64 n)
{
	return most > n ? most - n : 0;
}

static u64 sim_pages_of_mb(u64 mb)
{
	return mb << (20 - SIM_PAGE_SHIFT);
}

void sim_memory_set(struct sim_memory *memory, u64 vram_mb, u64 system_mb, u64 window_mb,
		    u64 opener_mb)
{
	u64 system = sim_pages_of_mb(system_mb), total = sim_pages_of_mb(vram_mb) + system;

	memory->limit[HETSIM_PLACE_VRAM] = sim_pages_of_mb(vram_mb);
	memory->limit[HETSIM_PLACE_SYSTEM] = system;
	memory->limit[HETSIM_PLACE_WINDOW] = sim_pages_of_mb(window_mb);
	memory->opener_limit = opener_mb ? sim_pages_of_mb(opener_mb) : total / 4 * 3;
	memory->opener_system_limit = opener_mb ? system : system - system / 4;
}

/*
 * How many of @n_pages lack room, and the place to make it in: the window is a part of VRAM, so
 * either may be full. Pages that leave a place in VRAM make it no fuller: until they are gone, it
 * may count more than it has.
 */
static u64 sim_memory_missing(const struct sim_memory *memory, u32 place, u64 n_pages,
			      const u64 *leaving, u32 *ret_where)
{
	u64 vram = memory->used[HETSIM_PLACE_VRAM] + memory->used[HETSIM_PLACE_WINDOW];
	u64 limit = memory->limit[HETSIM_PLACE_VRAM];
	u64 left = sim_left(memory->limit[place], memory->used[place]);

	*ret_where = place;
	if (place == HETSIM_PLACE_SYSTEM || (place == HETSIM_PLACE_WINDOW && left < n_pages))
		return sim_left(n_pages, left);
	*ret_where = HETSIM_PLACE_VRAM;
	if (leaving)
		limit += leaving[HETSIM_PLACE_VRAM] + leaving[HETSIM_PLACE_WINDOW];
	return sim_left(n_pages, sim_left(limit, vram));
}

/*
 * Would the opener have more than it may? Pages that replace leaving ones add nothing to all
 * places together.
 */
static bool sim_memory_exceeds(const struct sim_memory *memory, const u64 *mine, u32 place,
			       u64 n_pages, const u64 *leaving)
{
	u64 all = 0;
	unsigned int i;

	for (i = 0; i < SIM_N_PLACES; i++)
		all += mine[i];
	if (!leaving && n_pages > sim_left(memory->opener_limit, all))
		return true;
	return place == HETSIM_PLACE_SYSTEM &&
	       n_pages > sim_left(memory->opener_system_limit, mine[HETSIM_PLACE_SYSTEM]);
}

int sim_memory_take(struct sim_memory *memory, u64 *mine, u32 place, u64 n_pages,
		    const u64 *leaving, bool evict, struct sim_lack *lack)
{
	lack->n_pages = 0;
	if (!evict && sim_memory_exceeds(memory, mine, place, n_pages, leaving))
		return -ENOSPC;
	lack->n_pages = sim_memory_missing(memory, place, n_pages, leaving, &lack->place);
	if (lack->n_pages)
		return -ENOSPC;
	memory->used[place] += n_pages;
	mine[place] += n_pages;
	return 0;
}

void sim_memory_give(struct sim_memory *memory, u64 *mine, u32 place, u64 n_pages)
{
	memory->used[place] -= n_pages;
	mine[place] -= n_pages;
}

int sim_length_pages(const struct sim_memory *memory, u64 length, u32 place, u64 *ret_n_pages)
{
	if (!length || length & (SIM_PAGE_SIZE - 1))
		return -EINVAL;
	if (length >> SIM_PAGE_SHIFT > memory->limit[place])
		return -ENOSPC;
	*ret_n_pages = length >> SIM_PAGE_SHIFT;
	return 0;
}

int sim_capacity_pages(const struct sim_memory *memory,
		       const struct hetsim_buffer_create *create, u64 *ret_n_pages)
{
	u64 capacity = create->capacity ? create->capacity : create->length;

	if (capacity < create->length || capacity & (SIM_PAGE_SIZE - 1))
		return -EINVAL;
	if (capacity >> SIM_PAGE_SHIFT > sim_memory_most(memory))
		return -ENOSPC;
	*ret_n_pages = capacity >> SIM_PAGE_SHIFT;
	return 0;
}
