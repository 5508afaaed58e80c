/* SPDX-License-Identifier: MIT */
/* Pages present and locked: what the map and resize steps need. */
#ifndef HETMAP_RESIDENT_H
#define HETMAP_RESIDENT_H

#include "core/core.h"

/* Brings whole pages in; HM_WRITE in @access: writable. No locks needed. */
int resident_populate(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access);

/* -EOPNOTSUPP where the device's pages can't be brought in. */
int resident_check(const struct hm_buffer *buffer);

/* Locks at @address what is locked of @map: its pages there are new ones. */
int resident_lock_again(const struct hm_map *map, char *address);

/* Bytes of the range that hm_map_lock holds. Caller holds map->change. */
uint64_t resident_locked_in(const struct hm_map *map, uint64_t offset, uint64_t length);

/* Bytes that hm_map_lock holds. Caller holds map->change, or the last reference. */
uint64_t resident_locked_bytes(const struct hm_map *map);

/* @locked is what holds from now on; the map owns it. Cannot fail. */
void resident_note(struct hm_map *map, struct rangemap *locked);

void resident_forget_each(struct hm_map *map);
/*
 * What a handler has replaced since is not locked any more. Where there is no memory to
 * note that, it is at the next call. Caller holds map->change, and the map is not lost.
 */
static inline void resident_forget_replaced(struct hm_map *map)
{
	if (unlikely(atomic_load_explicit(&map->unnoted, memory_order_relaxed)))
		resident_forget_each(map);
}

#endif
