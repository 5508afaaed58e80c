/* SPDX-License-Identifier: MIT */
/*
 * Freeze, change, thaw: how anything that a map's users rely on is changed.
 *
 *   remap_lock      one change of a map at a time
 *   remap_freeze    launches on it are refused, work in flight on the range is
 *                   waited for, views are asked (quiesce) and told (invalidate)
 *   ...             the system call, the registry
 *   remap_thaw      views are told what holds now (reattach), launches allowed
 *   remap_unlock
 *
 * Everything that can fail comes before the first system call that changes
 * something, or has its own way back.
 */
#ifndef HETMAP_REMAP_H
#define HETMAP_REMAP_H

#include "core/core.h"

/* How long a change waits for work in flight. */
#define REMAP_TIMEOUT_NS 10000000000ull

#define REMAP_VIEWS_INLINE 8

struct remap {
	struct hm_map *map;
	uint64_t offset, length; /* the bytes that change */
	char *old_address, *new_address;
	uint64_t old_length, new_length;
	const struct rangemap *new_rights; /* if it is done; until the thaw */
	bool buffer_held;                  /* buffer->lock is: see remap_freeze() */
	uint32_t n_view;                   /* views told; they cannot go while change is held */
	struct map_view **views;
	struct map_view *inline_views[REMAP_VIEWS_INLINE];
};

/* -EDEADLK in a callback of the very change that holds it; -ENODEV: it is lost. */
int remap_lock(struct hm_map *map);
int remap_lock_lost_too(struct hm_map *map); /* -EDEADLK alone */
int remap_trylock(struct hm_map *map);       /* -EBUSY, without a text: somebody changes it */
void remap_unlock(struct hm_map *map);
/* The -ENODEV of a lost map, with its text. */
int remap_refuse_lost(const struct hm_map *map);

/* A change that keeps address and length; the caller corrects what differs. */
void remap_init(struct remap *remap, struct hm_map *map, uint64_t offset, uint64_t length);

/*
 * -EBUSY: work did not end in time, a view refused, or the map is to move and is being
 * written back (hm_map_sync()); nothing has changed.
 *
 * Callbacks run with buffer->lock held, so that one that uses the buffer is found
 * out (EDEADLK) instead of waiting, against the lock order, for a thread that
 * waits for this map. So is work in flight waited for: the end of a launch takes the
 * lock of a loss, and who has that may show maps whose buffer's lock is free (reach.c).
 * REMAP_NEEDS_BUFFER: there are views or there is work, and buffer_held is not set;
 * nothing has happened.
 */
#define REMAP_NEEDS_BUFFER 1
int remap_freeze(struct remap *remap);

/*
 * Of a map that was lost, and has its bytes again, at the same address: its views are
 * told, as by a thaw. Caller holds change, and buffer->lock.
 */
void remap_tell_again(struct remap *remap);

/* @done: what remap says came true; else all is as it was, or the map is lost. */
void remap_thaw(struct remap *remap, bool done);

/* HM_NONE, HM_READ or HM_READ | HM_WRITE, and no more than the buffer gives. */
int remap_check_access(const struct hm_buffer *buffer, uint32_t access);

#endif
