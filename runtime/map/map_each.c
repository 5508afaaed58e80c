// SPDX-License-Identifier: MIT
/* Visits the maps of this process, or those on one device. */
#include "core/device_link.h"
#include "map/map.h"

/* Maps are collected in batches, so that no memory is allocated where it may be short. */
#define BATCH 32

struct batch {
	const void *backend; /* of the device; NULL: of any */
	uint64_t from;       /* lower addresses were collected */
	uint32_t n;
	struct hm_map *maps[BATCH]; /* with references */
};

static int collect(void *user, const struct registry_entry *entry)
{
	struct batch *batch = user;

	if (entry->base < batch->from)
		return 0;
	if (batch->n == BATCH)
		return 1;
	/* A map of the parent must not be changed by a fork child. */
	if (entry->map->object.fork_gen != fork_generation ||
	    (batch->backend && atomic_load(&entry->device->link)->backend != batch->backend) ||
	    !object_try_ref(&entry->map->object))
		return 0;
	batch->maps[batch->n++] = entry->map;
	batch->from = entry->base + 1;
	return 0;
}

void map_each(const void *backend, void (*visit)(struct hm_map *map, const void *user),
	      const void *user)
{
	struct batch batch = { .backend = backend };
	uint32_t i;
	int more;

	do {
		batch.n = 0;
		more = registry_each(batch.from, collect, &batch);
		for (i = 0; i < batch.n; i++) {
			visit(batch.maps[i], user);
			hm_map_unref(batch.maps[i]);
		}
	} while (more);
}
