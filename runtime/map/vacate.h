/* SPDX-License-Identifier: MIT */
/*
 * Vacation: the address range that a map has left for another one, and the objects that
 * are mapped there. Whoever found the map where it was is waited for, as for what is
 * unreferenced (retire.h), before they go. The old objects are kept as well: a device would
 * give their memory to others.
 */
#ifndef HETMAP_VACATE_H
#define HETMAP_VACATE_H

#include "core/core.h"

struct vacated {
	struct retired retired;
	struct hm_buffer *buffer;      /* holds a ref */
	struct segment_list *segments; /* of what is mapped there: segments_get() */
	struct reservation range;
	uint64_t bytes; /* of the buffer, in whole pages */
};

/*
 * Before @map moves to a new object, so that nothing can fail afterwards. Caller holds
 * buffer->lock and map->change. -ENOMEM.
 */
int vacate_prepare(struct hm_map *map, struct vacated **ret_vacated);
/* The map stays. Takes NULL. */
void vacate_abandon(struct vacated *vacated);

/*
 * The map has left, and is not found there any more. May wait for readers: the caller
 * holds no locks. Takes NULL.
 */
void vacate(struct vacated *vacated);

#endif
