/* SPDX-License-Identifier: MIT */
/* Present and locked pages, for the map and resize steps. */
#ifndef HETMAP_RESIDENT_H
#define HETMAP_RESIDENT_H

#include "core/map_repair.h"

/* Brings whole pages in; writable ones with HM_WRITE in @access. Needs no locks. */
int resident_populate(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access);

/* -EOPNOTSUPP: the device's pages can't be brought in. */
int resident_check(const struct hm_buffer *buffer);

/* Locks the fresh pages at @address as the map's pages are locked. */
int resident_lock_again(const struct hm_map *map, char *address);

/* Bytes of the range that hm_map_lock holds. Caller holds map->change. */
uint64_t resident_locked_in(const struct hm_map *map, uint64_t offset, uint64_t length);

/* Bytes that hm_map_lock holds. Caller holds map->change, or the last reference. */
uint64_t resident_locked_bytes(const struct hm_map *map);

/*
 * Replaces the notes of locked ranges by @locked, which the map owns from now on. Cannot fail.
 */
void resident_note(struct hm_map *map, struct rangemap *locked);

void resident_forget_each(struct hm_map *map);
/*
 * Drops the locks of pages that a fault handler has replaced since. If there is no memory to
 * note that, the next call does it. Caller holds map->change, and the map is not lost.
 */
static inline void resident_forget_replaced(struct hm_map *map)
{
	if (unlikely(repair_is_unnoted(map)))
		resident_forget_each(map);
}

/* hm_map_lock() and hm_map_unlock() without their doors. *@ret_locked: whole pages. */
int resident_lock(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags,
		  uint64_t *ret_locked);
int resident_unlock(struct hm_map *map, uint64_t offset, uint64_t length);

#endif
