/* SPDX-License-Identifier: MIT */
/*
 * Freeze, change, thaw: the protocol for every change of a map that its users rely on.
 *
 *  remap_lock      one change of a map at a time
 *  remap_freeze    refuses launches on the map, waits for work in flight on the
 *                  range, asks views (quiesce) and tells them (invalidate)
 *  ...             the system call, the registry
 *  remap_thaw      tells views the new state (reattach), allows launches
 *  remap_unlock
 *
 * Each step that can fail comes before the first system call that changes anything, or has its
 * own way back.
 */
#ifndef HETMAP_REMAP_H
#define HETMAP_REMAP_H

#include "core/core.h"

/* Time that a change waits for work in flight. */
#define REMAP_TIMEOUT_NS 10000000000ull

#define REMAP_VIEWS_INLINE 8

struct remap {
	struct hm_map *map;
	uint64_t offset, length; /* the bytes that change */
	char *old_address, *new_address;
	uint64_t old_length, new_length;
	const struct rangemap *new_rights; /* after success; valid until the thaw */
	bool buffer_held;                  /* buffer->lock is held: see remap_freeze() */
	uint32_t n_view;                   /* views told; they cannot go while change is held */
	struct map_view **views;
	struct map_view *inline_views[REMAP_VIEWS_INLINE];
};

/*
 * -EDEADLK: a callback of the very change that holds the lock.
 * -ENODEV: the map is lost.
 */
int remap_lock(struct hm_map *map);
int remap_lock_lost_too(struct hm_map *map); /* -EDEADLK only */
int remap_trylock(struct hm_map *map);       /* -EBUSY, without a text: a change is under way */
void remap_unlock(struct hm_map *map);
/* The -ENODEV of a lost map, with its text. */
int remap_refuse_lost(const struct hm_map *map);

/*
 * Describes a change that keeps address and length; the caller corrects the fields that differ.
 */
void remap_init(struct remap *remap, struct hm_map *map, uint64_t offset, uint64_t length);

/*
 * -EBUSY: work did not end in time, a view refused, or the map must move while hm_map_sync()
 * writes it back. Nothing has changed then.
 *
 * Callbacks run with buffer->lock held, so that a callback that uses the buffer fails (EDEADLK)
 * instead of waiting, against the lock order, for a thread that waits for this map. Work in
 * flight is waited for under the same lock: the end of a launch takes the lock of a loss, and
 * the holder of that lock may show maps whose buffer's lock is free (reach.c).
 *
 * REMAP_NEEDS_BUFFER: there are views or there is work, and buffer_held is not set; nothing has
 * happened.
 */
#define REMAP_NEEDS_BUFFER 1
int remap_freeze(struct remap *remap);

/*
 * Tells the views of a map that was lost, and has its bytes again at the same address, as a
 * thaw does. Caller holds change, and buffer->lock.
 */
void remap_tell_again(struct remap *remap);

/*
 * @done: the change that @remap describes was made. Otherwise all is as it was, or the map is
 * lost.
 */
void remap_thaw(struct remap *remap, bool done);

/* Requires HM_NONE, HM_READ or HM_READ | HM_WRITE, and no more than the buffer gives. */
int remap_check_access(const struct hm_buffer *buffer, uint32_t access);

#endif
