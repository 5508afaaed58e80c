// SPDX-License-Identifier: MIT
/* Bytes of a map that outlive a power failure. */
#include "api/door.h"
#include "arch/flush.h"
#include "fault/repair.h"
#include "map/bracket.h"
#include "map/map.h"
#include "map/remap.h"

static int persist_pages(struct hm_map *map, uint64_t offset, uint64_t length)
{
	uint64_t page = map->buffer->page_size, from = round_down(offset, page);
	uint64_t to = min_u64(round_up(offset + length, page), hm_map_length(map));

	return map_sync(map, from, to - from, 0);
}

/* Takes no lock: the caller keeps the range where it is, as for its stores. */
static int persist_lines(struct hm_map *map, uint64_t offset, uint64_t length)
{
	int r = 0;

	if (unlikely(atomic_load(&map->lost)))
		return remap_refuse_lost(map);
	if (unlikely(atomic_load_explicit(&map->write_out, memory_order_relaxed) != NULL))
		r = bracket_write_out(map, HM_WRITE);
	if (r)
		return r;
	if (map->buffer->persist == HM_PERSIST_BYTE)
		flush_fence();
	else
		flush_lines(map->address + offset, length);
	/* Replacements of lost bytes are no persistent memory. */
	return repair_check(map, offset, length, NULL);
}

/* Errors of the map come before the one that no change of the map would help. */
static int refuse(struct hm_map *map, uint64_t offset, uint64_t length)
{
	int r = remap_lock(map);

	if (r)
		return r;
	remap_unlock(map);
	r = repair_check(map, offset, length, NULL);
	return r ? r :
		   err_set(-EOPNOTSUPP,
			   "%s: its bytes do not outlive a power failure: open a file on "
			   "\"pmem:PATH\"",
			   map->buffer->name);
}

/* Indexed by enum hm_persist. */
static int (*const ways[])(struct hm_map *map, uint64_t offset, uint64_t length) = {
	[HM_PERSIST_NONE] = refuse,
	[HM_PERSIST_PAGE] = persist_pages,
	[HM_PERSIST_LINE] = persist_lines,
	[HM_PERSIST_BYTE] = persist_lines,
};

int hm_map_persist(struct hm_map *map, uint64_t offset, uint64_t length)
{
	int r;

	err_begin();
	r = map_check(map);
	if (r)
		return r;
	r = map_check_range(map, offset, length, "hm_map_persist");
	if (!r)
		r = ways[map->buffer->persist](map, offset, length);
	return device_loss_notice(map->buffer->device, r);
}
