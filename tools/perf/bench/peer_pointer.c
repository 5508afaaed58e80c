// SPDX-License-Identifier: MIT
/* Peer of pointer_find: a sorted array, binary search, a reader-writer lock. */
#include <errno.h>

#include "peer.h"

PEER_SOURCE(peer_pointer_source);

/* ---- pointer_find ---- */

int peer_pointer_find(struct peer_registry *registry, const void *pointer,
		      struct hm_pointer_info *ret_info)
{
	const char *address = pointer;
	size_t low = 0, high;
	int r = -ENOENT;

	pthread_rwlock_rdlock(&registry->lock);
	high = registry->n;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if ((const char *)registry->maps[middle].base <= address)
			low = middle;
		else
			high = middle;
	}
	if (low < registry->n) {
		const struct hm_pointer_info *map = &registry->maps[low];
		uint64_t offset = (uint64_t)(address - (const char *)map->base);

		if (offset < map->length) {
			*ret_info = *map;
			ret_info->map_offset += offset;
			ret_info->buffer_offset += offset;
			r = 0;
		}
	}
	pthread_rwlock_unlock(&registry->lock);
	return r;
}
