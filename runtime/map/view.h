/* SPDX-License-Identifier: MIT */
/* Views: what the map step needs of them. */
#ifndef HETMAP_VIEW_INTERNAL_H
#define HETMAP_VIEW_INTERNAL_H

#include "core/core.h"

/* Who looks at bytes outside of the CPU may have to be waited for: 0 or an error. */
typedef int view_begin(void *user, uint32_t access);

/*
 * hm_view_create() for who has the map's change (remap_lock()). Where @begin is not NULL,
 * brackets begin with it: with the change held, so that what it waits for must end by
 * itself.
 */
int view_create_locked(struct hm_map *map, uint64_t offset, uint64_t length,
		       const struct hm_view_ops *ops, view_begin *begin, void *user,
		       struct hm_view **ret_view);

/*
 * The view behind @view, the first one behind NULL; NULL: there is none. With the map's
 * change held, without which none goes; an accelerator's may come meanwhile, at the end.
 */
struct map_view *view_behind(struct hm_map *map, struct map_view *view);

/* Is this thread in a callback of a caller's view? Then it has some map's change. */
bool view_in_callback(void);

/*
 * What takes the change of a map to end, and was ended in a callback of a caller's view:
 * to wait there, with the change of one map, for that of another would be for ever where
 * two threads do so. Its end is called by the same thread when that has left its callbacks
 * and unlocks a buffer: callbacks run with a buffer's lock held.
 */
struct view_deferred {
	struct view_deferred *next;
	void (*end)(struct view_deferred *deferred);
};

void view_defer(struct view_deferred *deferred, void (*end)(struct view_deferred *deferred));

/* Those of all threads. Only what this thread has put there is for it to see. */
extern _Atomic uint32_t view_n_deferred;
void view_end_deferred_each(void);

/* No locks are held, but those that are around a callback. */
static inline void view_end_deferred(void)
{
	if (unlikely(atomic_load_explicit(&view_n_deferred, memory_order_relaxed)))
		view_end_deferred_each();
}

/* Who takes part in brackets has changed: what view's or device's hooks they call. */
void view_choose_brackets(struct hm_map *map);
/* With map->lock held, or nobody has it yet. */
void view_choose_brackets_locked(struct hm_map *map);

/* The last reference to @map is gone: ends the views that hold none. */
void view_release_all(struct hm_map *map);

/* fork(2): view_mutex is held across it. */
void view_fork_prepare(void);
void view_fork_after(void);

#endif
