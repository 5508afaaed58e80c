/* SPDX-License-Identifier: MIT */
/* Views: what the map step needs of them. */
#ifndef HETMAP_VIEW_INTERNAL_H
#define HETMAP_VIEW_INTERNAL_H

#include "core.h"

/* The last reference to @map is gone: ends the views that hold none. */
void view_release_all(struct hm_map *map);

/*
 * Frees a caller's view that its own callback ended. True: it did, and the
 * view's reference to the map is now the caller's to drop, after the change.
 */
bool view_sweep_one(struct map_view *view);

#endif
