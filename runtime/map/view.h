/* SPDX-License-Identifier: MIT */
/* Views, as the map step needs them. */
#ifndef HETMAP_VIEW_INTERNAL_H
#define HETMAP_VIEW_INTERNAL_H

#include "core/core.h"

/* Called when a bracket begins, to wait for another user of the bytes: 0 or an errno. */
typedef int view_begin(void *user, uint32_t access);

/*
 * hm_view_create() for a caller that holds the map's change (remap_lock()). If @begin is not
 * NULL, brackets begin with it, and hold the change meanwhile: work that it waits for must end
 * by itself.
 */
int view_create_locked(struct hm_map *map, uint64_t offset, uint64_t length,
		       const struct hm_view_ops *ops, view_begin *begin, void *user,
		       struct hm_view **ret_view);

/*
 * The view behind @view, the first one behind NULL; NULL: there is none. The caller holds the
 * map's change, so no view goes; an accelerator's may come meanwhile, at the end.
 */
struct map_view *view_behind(struct hm_map *map, struct map_view *view);

/* Is this thread in a callback of a caller's view, and holds some map's change therefore? */
bool view_in_callback(void);

/*
 * An object that was ended in a callback of a caller's view, and that needs the change of a map
 * to end. The callback, which holds the change of one map, must not wait for that of another:
 * two such threads would wait for ever. The same thread calls the end when it has left its
 * callbacks and unlocks a buffer, since callbacks run with a buffer's lock held.
 */
struct view_deferred {
	struct view_deferred *next;
	void (*end)(struct view_deferred *deferred);
};

void view_defer(struct view_deferred *deferred, void (*end)(struct view_deferred *deferred));

/* Counts deferred ends of all threads; a thread sees only its own. */
extern _Atomic uint32_t view_n_deferred;
void view_end_deferred_each(void);

/* The caller holds no locks, except those around a callback. */
static inline void view_end_deferred(void)
{
	if (unlikely(atomic_load_explicit(&view_n_deferred, memory_order_relaxed)))
		view_end_deferred_each();
}

/* Chooses the brackets anew after a change of the views or devices that take part in them. */
void view_choose_brackets(struct hm_map *map);
/* The caller holds map->lock, or the map is not visible yet. */
void view_choose_brackets_locked(struct hm_map *map);

/* Ends the views that hold no reference to @map, after its last reference has gone. */
void view_release_all(struct hm_map *map);

/* fork(2): view_mutex is held across it. */
void view_fork_prepare(void);
void view_fork_after(void);

#endif
