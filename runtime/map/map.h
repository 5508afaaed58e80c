/* SPDX-License-Identifier: MIT */
/* The map step, map.c and map_segment.c: nothing else maps a buffer's objects. */
#ifndef HETMAP_MAP_INTERNAL_H
#define HETMAP_MAP_INTERNAL_H

#include "core/core.h"

/* From this size on huge pages are asked for: smaller ranges cannot hold one. */
#define MAP_HUGE_LEAST MIB(2)

/*
 * Maps bytes [offset, offset + length) of the buffer, which @segment holds, by one
 * mapping of its descriptor. @address: a hint, or the place with MAP_FIXED in @flags.
 */
int map_direct(const struct hm_segment *segment, uint64_t offset, uint64_t length,
	       char *address, int flags, int prot, void **ret_address);
/* Can that be done from @offset on? */
bool map_is_direct(const struct hm_segment *segment, uint64_t offset, uint64_t length);
/* The same at @address, which the caller reserved, whether or not it can be. */
int map_one(const struct hm_segment *segment, uint64_t offset, uint64_t length, char *address,
	    int prot);

/*
 * Maps bytes [offset, offset + length) of @segments at @address, which the
 * caller reserved: MAP_FIXED, so what was there is gone even if this fails.
 */
int map_segments(const struct hm_segment *segments, uint32_t n, uint64_t offset,
		 uint64_t length, char *address, int prot);

/*
 * Maps them at a fresh range: for a look at, or the making of, contents without
 * touching any user's map. Ended by reserve_release(ret_reservation).
 */
int map_scratch(const struct hm_segment *segments, uint32_t n, uint64_t offset, uint64_t length,
		uint64_t alignment, int prot, struct reservation *ret_reservation,
		char **ret_address);

/*
 * What every fresh mapping of a buffer's gets: NUMA policy, name, huge pages,
 * MADV_DONTFORK. Only the policy and DONTFORK can fail it.
 */
int map_dress(const struct hm_buffer *buffer, char *address, uint64_t length);

/*
 * Finds room for a new map, and maps there what it shows: the first @committed bytes with
 * its access. Ended by map_unplace(). Caller holds buffer->lock.
 */
int map_place(struct hm_map *map, uint64_t committed);
/* It stays: the next one may go beside it. */
void map_placed(const struct hm_map *map);
void map_unplace(struct hm_map *map);

/* What the registry tells of @map with these values; rights are borrowed. */
void map_entry(const struct hm_map *map, const char *address, uint64_t length,
	       uint32_t generation, const struct rangemap *rights,
	       struct registry_entry *ret_entry);

/*
 * Of a map that has ended and that nobody has ever changed: the device may keep what it
 * is mapped by, where nobody can be at it still. Caller holds buffer->lock: its object is the
 * buffer's still.
 */
void map_keep_locked(struct hm_map *map);

/* The rest of a map's end, after it left its buffer's list. No locks are held. */
void map_release(struct hm_map *map);

/*
 * The map's bytes are out of reach: nothing of another's may be there, and nobody may
 * take what is for them. *none, a rangemap of the caller's, becomes its rights, of
 * nothing; *staged, made before, goes. Needs no memory. Caller holds map->change.
 */
void map_lose_locked(struct hm_map *map, struct rangemap **none,
		     struct registry_descriptor **staged);

/* It is lost, of the next generation: counted, and told. Caller holds map->change. */
void map_note_lost(struct hm_map *map);

/* It shows its buffer's bytes again, and that was published. Caller holds map->change. */
void map_note_recovered(struct hm_map *map);

/* Puts a map into its buffer's list, by address. Caller holds buffer->lock. */
void map_link_locked(struct hm_map *map);

/* Applies @rights to [offset, offset + length) of what is mapped at @address. */
int map_apply_rights(char *address, const struct rangemap *rights, uint64_t offset,
		     uint64_t length);

/* Pages that hold [offset, offset + length), as a length from @offset's page on. */
static inline uint64_t map_pages(const struct hm_map *map, uint64_t offset, uint64_t length)
{
	uint64_t page = map->buffer->page_size;

	return round_up(offset + length, page) - round_down(offset, page);
}

/*
 * Calls @visit for the maps of this process on the device whose own is @backend, NULL:
 * on all devices, with no locks held. Those that come meanwhile may be left out.
 */
void map_each(const void *backend, void (*visit)(struct hm_map *map, const void *user),
	      const void *user);

#endif
