// SPDX-License-Identifier: MIT
/* The maps that change with a buffer: locks, freezes and publishes them. */
#include <stdlib.h>

#include "core/buffer.h"
#include "map/map.h"
#include "map/protect.h"
#include "tell/publish.h"
#include "fault/repair.h"
#include "map/resident.h"
#include "change/resize.h"
#include "share/share.h"
#include "base/sys.h"
#include "map/vacate.h"

static int begin(struct hm_buffer *buffer, struct resize_set *set, bool parts)
{
	struct hm_map *map;
	int r;

	*set = (struct resize_set){ .buffer = buffer };
	if (!buffer->n_map)
		return 0;
	set->maps = sys_calloc(buffer->n_map, sizeof(*set->maps));
	if (!set->maps)
		return err_set(-ENOMEM, "no memory to change %u maps", buffer->n_map);
	cds_list_for_each_entry(map, &buffer->maps, buffer_link) {
		/* A map that just lost its last reference ends when buffer->lock is free. */
		if ((!map->whole && !parts) || !object_try_ref(&map->object))
			continue;
		set->maps[set->n].map = map;
		r = remap_lock(map);
		if (r)
			goto err_end;
		set->n++;
	}
	return 0;

err_end:
	resize_set_end(set, false);
	set->n++; /* held, but not locked */
	resize_set_drop(set);
	return r;
}

int resize_set_begin(struct hm_buffer *buffer, struct resize_set *set)
{
	return begin(buffer, set, false);
}

int resize_set_begin_all(struct hm_buffer *buffer, struct resize_set *set)
{
	return begin(buffer, set, true);
}

int resize_set_stage(struct resize_set *set, uint64_t new_length, uint64_t fresh_offset,
		     uint64_t fresh_length)
{
	struct registry_entry entry;
	struct resize_map *item;
	struct hm_map *map;
	uint32_t i;
	int r;

	for (i = 0; i < set->n; i++) {
		item = &set->maps[i];
		map = item->map;
		if (fresh_length) {
			item->rights = rangemap_set(map->rights, fresh_offset, fresh_length,
						    map->access);
			if (!item->rights)
				return err_set(-ENOMEM, "no memory for a map's rights");
			r = protect_stage_base(map, fresh_offset, fresh_length, &item->base);
			if (r)
				return r;
		}
		if (fresh_length && map->locked) {
			item->locked = rangemap_set(map->locked, fresh_offset, fresh_length, 0);
			if (!item->locked)
				return err_set(-ENOMEM, "no memory for a map's locked ranges");
		}
		map_entry(map, map->address, new_length, map->generation,
			  item->rights ? item->rights : map->rights, &entry);
		r = registry_stage(&entry, &item->staged);
		if (r)
			return err_set(r, "no memory for a map's new length");
	}
	return 0;
}

int resize_set_freeze(struct resize_set *set, uint64_t offset, uint64_t length)
{
	struct resize_map *item;
	uint32_t i;
	int r;

	for (i = 0; i < set->n; i++) {
		item = &set->maps[i];
		remap_init(&item->remap, item->map, offset, length);
		item->remap.new_length = offset + length > item->map->length ? offset + length :
									       offset;
		if (item->rights)
			item->remap.new_rights = item->rights;
		r = remap_freeze(&item->remap);
		if (r)
			return r;
		item->frozen = true;
		if (item->remap.new_length > item->map->length)
			repair_show(item->map, offset, length);
	}
	return 0;
}

void resize_set_commit(struct resize_set *set, uint64_t new_length)
{
	struct rangemap *old;
	struct hm_map *map;
	uint32_t i;

	for (i = 0; i < set->n; i++) {
		map = set->maps[i].map;
		registry_commit(map->slot, set->maps[i].staged);
		set->maps[i].staged = NULL;
		count_add_locked(&map->buffer->counts, COUNT_BYTES_MAPPED,
				 buffer_pages(map->buffer, new_length) -
					 buffer_pages(map->buffer, map->length));
		stats_add(&stats.bytes_mapped, buffer_pages(map->buffer, new_length));
		stats_sub(&stats.bytes_mapped, buffer_pages(map->buffer, map->length));
		pthread_mutex_lock(&map->lock);
		old = map->rights;
		if (set->maps[i].rights)
			map->rights = set->maps[i].rights;
		map->length = new_length;
		pthread_mutex_unlock(&map->lock);
		publish_change(map);
		if (set->maps[i].rights)
			free(old);
		set->maps[i].rights = NULL;
		protect_commit_base(map, &set->maps[i].base,
				    buffer_pages(map->buffer, new_length));
		if (set->maps[i].locked)
			resident_note(map, set->maps[i].locked);
		set->maps[i].locked = NULL;
	}
}

void resize_cut_begin(struct resize_set *set, uint64_t new_size)
{
	set->cut = true;
	/*
	 * Cuts nothing until it is counted: a reader must not take its end for the last cut's.
	 */
	atomic_store(&set->buffer->cut_to, 0);
	atomic_fetch_add(&set->buffer->cuts, 1);
	atomic_store(&set->buffer->cut_to, new_size);
}

void resize_set_end(struct resize_set *set, bool done)
{
	struct resize_map *item;
	uint32_t i = set->n;

	/* Ended before callbacks, which may copy, here or in another process. */
	if (set->cut)
		atomic_store(&set->buffer->cuts_over, atomic_load(&set->buffer->cuts));
	set->cut = false;
	share_publish_locked(set->buffer);
	while (i--) {
		item = &set->maps[i];
		if (item->frozen)
			remap_thaw(&item->remap, done);
		if (item->staged)
			registry_abandon(item->staged);
		if (!done) {
			vacate_abandon(item->vacated);
			item->vacated = NULL;
		}
		free(item->rights);
		free(item->base);
		free(item->locked);
		remap_unlock(item->map);
	}
}

void resize_set_drop(struct resize_set *set)
{
	uint32_t i;

	for (i = 0; i < set->n; i++) {
		vacate(set->maps[i].vacated);
		hm_map_unref(set->maps[i].map);
	}
	free(set->maps);
	set->maps = NULL;
	set->n = 0;
}
