/* SPDX-License-Identifier: MIT */
/* Views: what the map step needs of them. */
#ifndef HETMAP_VIEW_INTERNAL_H
#define HETMAP_VIEW_INTERNAL_H

#include "core.h"

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

/* The last reference to @map is gone: ends the views that hold none. */
void view_release_all(struct hm_map *map);

/*
 * Frees the callers' views that a callback ended while the change was held, and
 * says how many: each one's reference to the map is now the caller's to drop,
 * after the change.
 */
uint32_t view_sweep(struct hm_map *map);

#endif
