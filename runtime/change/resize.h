/* SPDX-License-Identifier: MIT */
/* The maps that change with a buffer. */
#ifndef HETMAP_RESIZE_H
#define HETMAP_RESIZE_H

#include "core/core.h"
#include "map/remap.h"

/* One map, held and locked, with its preparations. */
struct resize_map {
	struct hm_map *map; /* a reference; change is held */
	struct remap remap;
	struct rangemap *rights; /* staged; NULL: unchanged */
	struct rangemap *base;   /* likewise: rights without scopes */
	struct rangemap *locked; /* likewise */
	struct registry_descriptor *staged;
	struct vacated *vacated; /* the place that a moving map has left; or NULL */
	bool frozen;
};

struct resize_set {
	uint32_t n;
	struct resize_map *maps;  /* in address order */
	struct hm_buffer *buffer; /* their buffer */
	bool cut;                 /* resize_cut_begin() */
};

/*
 * Collects and locks the live maps of the whole buffer. Caller holds
 * buffer->lock and gives the set to resize_set_end() afterwards, with that
 * lock still held: references are dropped by resize_set_drop() without it.
 */
int resize_set_begin(struct hm_buffer *buffer, struct resize_set *set);
/* The same, including maps of a part. */
int resize_set_begin_all(struct hm_buffer *buffer, struct resize_set *set);

/*
 * From here on bytes of the buffer beyond @new_size are cut off, one after the other, until
 * resize_set_end(). Must be called after the maps are frozen, as copies wait for the end.
 */
void resize_cut_begin(struct resize_set *set, uint64_t new_size);

/*
 * Prepares each map's rights and descriptor for @new_length; the fresh range gets
 * the rights the map was made with, and is not locked.
 */
int resize_set_stage(struct resize_set *set, uint64_t new_length, uint64_t fresh_offset,
		     uint64_t fresh_length);

/* Freezes all maps, or none. @offset, @length: the bytes that change. */
int resize_set_freeze(struct resize_set *set, uint64_t offset, uint64_t length);

/*
 * Gives a received buffer and its whole maps the size that the owner gave the object
 * (resize.c). Maps of a part stay: they read zeros where the owner cut bytes off. Caller holds
 * buffer->lock and drops the set after it.
 */
int resize_follow_locked(struct hm_buffer *buffer, uint64_t new_size, struct resize_set *set);

/* The backend's part for one segment (resize.c); sizes are the buffer's. */
int resize_object(struct hm_buffer *buffer, uint32_t index, uint64_t old_size,
		  uint64_t new_size);

/* Publishes the staged changes: cannot fail. */
void resize_set_commit(struct resize_set *set, uint64_t new_length);

/* Thaws and unlocks; abandons changes that were staged and not committed. */
void resize_set_end(struct resize_set *set, bool done);

/*
 * Drops the references, one of which may be the last, and the ranges that maps have left.
 * Called after buffer->lock, as it may wait for readers.
 */
void resize_set_drop(struct resize_set *set);

/* hm_buffer_resize() on arguments that are checked. */
int resize_buffer(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags);

#endif
