/* SPDX-License-Identifier: MIT */
/* The map step, map.c and map_segment.c: no other file maps a buffer's objects. */
#ifndef HETMAP_MAP_INTERNAL_H
#define HETMAP_MAP_INTERNAL_H

#include "core/core.h"

/* From this size on huge pages are asked for: smaller ranges cannot hold one. */
#define MAP_HUGE_LEAST MIB(2)

/* Checks that a descriptor of @mode (F_GETFL) can be mapped. -EBADF, -EACCES, with a text. */
int map_check_mode(int mode);

/*
 * Maps bytes [offset, offset + length) of the buffer, which @segment holds, by one
 * mapping of its descriptor. @address: a hint, or the place with MAP_FIXED in @flags.
 */
int map_direct(const struct hm_segment *segment, uint64_t offset, uint64_t length,
	       char *address, int flags, int prot, void **ret_address);
/* True: map_direct() can map that range. */
bool map_is_direct(const struct hm_segment *segment, uint64_t offset, uint64_t length);
/* Sets the text for a map_direct() that failed with @r and needed @takes (TAKES_*). Returns @r. */
int map_explain(const struct hm_segment *segment, uint64_t length, uint32_t takes, int r);
/*
 * Maps the range at @address, which the caller reserved, even where map_direct() can't. Sets a
 * text.
 */
int map_one(const struct hm_segment *segment, uint64_t offset, uint64_t length, char *address,
	    int prot);

/*
 * Maps bytes [offset, offset + length) of @segments at @address, which the caller reserved:
 * MAP_FIXED, so an old mapping there is gone even if this fails.
 */
int map_segments(const struct hm_segment *segments, uint32_t n, uint64_t offset,
		 uint64_t length, char *address, int prot);

/*
 * Maps the same bytes at a fresh address range, for reading or making contents without touching
 * a user's map. Ended by reserve_release(ret_reservation).
 */
int map_scratch(const struct hm_segment *segments, uint32_t n, uint64_t offset, uint64_t length,
		uint64_t alignment, int prot, struct reservation *ret_reservation,
		char **ret_address);

/*
 * Gives a fresh mapping of a buffer its NUMA policy, name, huge pages and MADV_DONTFORK. Only
 * the policy and DONTFORK can fail.
 */
int map_dress(const struct hm_buffer *buffer, char *address, uint64_t length);

/*
 * Finds room for a new map, and maps its bytes there: the first @committed bytes with the map's
 * access. Ended by map_unplace(). Caller holds buffer->lock.
 */
int map_place(struct hm_map *map, uint64_t committed);
/* The map stays in its place, so the next window may go beside it. */
void map_placed(const struct hm_map *map);
void map_unplace(struct hm_map *map);

/* Fills in the registry's entry for @map with these values; borrows the rights. */
void map_entry(const struct hm_map *map, const char *address, uint64_t length,
	       uint32_t generation, const struct rangemap *rights,
	       struct registry_entry *ret_entry);

/*
 * Lets the device keep the mapping of a map that has ended and was never changed, if no reader
 * and no handler can still use it. Caller holds buffer->lock, so the object is still the
 * buffer's.
 */
void map_keep_locked(struct hm_map *map);

/* The rest of a map's end, after it left its buffer's list. No locks are held. */
void map_release(struct hm_map *map);

/*
 * Marks a map whose bytes are out of reach as lost. The range becomes inaccessible, so that it
 * shows no other bytes and takes no stores. *none, a rangemap of the caller's, becomes the
 * rights: no access. *staged, made before, is used up. Needs no memory. Caller holds
 * map->change.
 */
void map_lose_locked(struct hm_map *map, struct rangemap **none,
		     struct registry_descriptor **staged);

/* Counts and reports a map that is lost, in its next generation. Caller holds map->change. */
void map_note_lost(struct hm_map *map);

/*
 * Counts and reports a map that shows its buffer's bytes again, after the publication. Caller
 * holds map->change.
 */
void map_note_recovered(struct hm_map *map);

/* Puts a map into its buffer's list, by address. Caller holds buffer->lock. */
void map_link_locked(struct hm_map *map);

/* Applies @rights to [offset, offset + length) of the mapping at @address. */
int map_apply_rights(char *address, const struct rangemap *rights, uint64_t offset,
		     uint64_t length);

/* For a map that is entered or has left. A buffer's cache mode stays. */
static inline void map_count_special(const struct hm_buffer *buffer, int n)
{
	if (buffer->cache != HM_CACHE_WRITE_BACK)
		atomic_fetch_add(&registry_n_special, (uint64_t)(int64_t)n);
}

/* Pages that hold [offset, offset + length), as a length from @offset's page on. */
static inline uint64_t map_pages(const struct hm_map *map, uint64_t offset, uint64_t length)
{
	uint64_t page = map->buffer->page_size;

	return round_up(offset + length, page) - round_down(offset, page);
}

/*
 * Calls @visit for the maps of this process on the device that has @backend, NULL: on all
 * devices. Holds no locks. Maps made meanwhile may be left out.
 */
void map_each(const void *backend, void (*visit)(struct hm_map *map, const void *user),
	      const void *user);

/* A map's description, with a reference to the buffer. NULL: no memory. */
struct hm_map *map_alloc(struct hm_buffer *buffer);
/* Frees all except the map's reference to the buffer. */
void map_free(struct hm_map *map);

#endif
