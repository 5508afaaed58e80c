/* SPDX-License-Identifier: MIT */
/* Views: what the map step needs of them. */
#ifndef HETMAP_VIEW_INTERNAL_H
#define HETMAP_VIEW_INTERNAL_H

#include "core.h"

/* The last reference to @map is gone: ends the views that hold none. */
void view_release_all(struct hm_map *map);

/*
 * Frees the callers' views that a callback ended while the change was held, and
 * says how many: each one's reference to the map is now the caller's to drop,
 * after the change.
 */
uint32_t view_sweep(struct hm_map *map);

#endif
