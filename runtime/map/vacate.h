/* SPDX-License-Identifier: MIT */
/*
 * Vacation: the address range that a map has left for another one, and the objects mapped
 * there. Both go only after a wait for threads that found the map there, as for unreferenced
 * maps (retire.h). The old objects are kept as well: a device would give their memory to other
 * buffers.
 */
#ifndef HETMAP_VACATE_H
#define HETMAP_VACATE_H

#include "core/core.h"

struct vacated {
	struct retired retired;
	struct hm_buffer *buffer;      /* holds a ref */
	struct segment_list *segments; /* segments_get(), of the mappings there */
	struct reservation range;
	uint64_t bytes; /* of the buffer, in whole pages */
};

/*
 * Must be called before @map moves to a new object, so that nothing can fail afterwards. Caller
 * holds buffer->lock and map->change. -ENOMEM.
 */
int vacate_prepare(struct hm_map *map, struct vacated **ret_vacated);
/* For a map that stays. Takes NULL. */
void vacate_abandon(struct vacated *vacated);

/*
 * For a map that has left, and is no longer found there. May wait for readers: the caller must
 * hold no locks. Takes NULL.
 */
void vacate(struct vacated *vacated);

#endif
