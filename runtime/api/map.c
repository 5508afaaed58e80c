// SPDX-License-Identifier: MIT
/* Maps: create, query, view. */
#include <inttypes.h>

#include "api/door.h"
#include "base/reserve.h"
#include "base/smaps.h"
#include "core/buffer.h"
#include "core/segments.h"
#include "fault/reach.h"
#include "fault/repair.h"
#include "fault/block_loss.h"
#include "loss/loss.h"
#include "map/lock_budget.h"
#include "map/map.h"
#include "map/remap.h"
#include "map/resident.h"
#include "map/view.h"
#include "tell/publish.h"

#define MAP_FLAGS (HM_MAP_GUARD | HM_MAP_POPULATE)

static int read_desc(struct hm_buffer *buffer, const struct hm_map_desc *from,
		     struct hm_map_desc *desc)
{
	int r;

	if (!from) {
		*desc = (struct hm_map_desc){ .access = buffer->access };
		return 0;
	}
	r = struct_read(desc, sizeof(*desc), from, from->struct_size, sizeof(*desc),
			"hm_map_desc");
	if (r)
		return r;
	if (desc->flags & ~MAP_FLAGS)
		return err_set(-EINVAL, "hm_map_desc.flags 0x%x has unknown bits 0x%x",
			       desc->flags, desc->flags & ~MAP_FLAGS);
	if (desc->reserved)
		return err_set(-EINVAL, "hm_map_desc.reserved is not 0");
	if ((desc->flags & HM_MAP_POPULATE) && !desc->access)
		return err_set(-EINVAL,
			       "HM_MAP_POPULATE needs HM_READ: pages that can't be read can't "
			       "be brought in");
	return remap_check_access(buffer, desc->access);
}

/* Fills in the map's fields from the description. Caller holds buffer->lock. */
static int size_up(struct hm_map *map, const struct hm_map_desc *desc, uint64_t *ret_length)
{
	struct hm_buffer *buffer = map->buffer;
	uint64_t length = desc->length;

	if (!is_aligned(desc->offset, buffer->page_size))
		return err_set(-EINVAL,
			       "offset %" PRIu64 " is not a multiple of the buffer's "
			       "page size, %" PRIu64,
			       desc->offset, buffer->page_size);
	if (desc->offset > buffer->size || length > buffer->size - desc->offset ||
	    (!length && desc->offset == buffer->size))
		return err_set(-ERANGE,
			       "bytes %" PRIu64 " to %" PRIu64 " are not in the buffer "
			       "of %" PRIu64 " bytes",
			       desc->offset, desc->offset + length, buffer->size);
	/*
	 * Length 0 with an offset means the rest, as a part that does not follow the buffer's
	 * size.
	 */
	map->whole = !length && !desc->offset;
	if (!length)
		length = buffer->size - desc->offset;
	map->offset = desc->offset;
	map->access = desc->access;
	map->map_flags = desc->flags;
	map->span = buffer_pages(buffer, map->whole ? buffer->max_size : length);
	*ret_length = length;
	return 0;
}

/*
 * From registry_insert() on other threads may hold references, so that from there on the map
 * must end as any other map does.
 */
static int create_locked(struct hm_map *map, const struct hm_map_desc *desc)
{
	struct hm_buffer *buffer = map->buffer;
	struct registry_entry entry;
	uint64_t length = 0, committed;
	int r;

	r = device_loss_check_link(buffer->device, segments_link(buffer));
	if (r)
		return r;
	/* The buffer may have been sealed since the first check. */
	r = remap_check_access(buffer, desc->access);
	if (r)
		return r;
	if (desc->flags & HM_MAP_POPULATE) {
		r = resident_check(buffer);
		if (r)
			return r;
	}
	if (buffer->n_map && !(buffer->caps & HM_CAP_MULTI_MAP))
		return err_set(-EBUSY, "%s is private memory and has its one map already",
			       buffer->name);
	r = size_up(map, desc, &length);
	if (r)
		return r;
	committed = buffer_pages(buffer, length);
	map->rights = rangemap_create(map->access, buffer->cache);
	if (!map->rights)
		return err_set(-ENOMEM, "no memory for a map's rights");
	r = brackets_take_locked(map);
	if (r)
		return r;
	r = map_place(map, committed);
	if (r)
		goto err_brackets;
	map->length = length;
	if (map->map_flags & HM_MAP_POPULATE) {
		r = resident_populate(map, 0, committed, map->access);
		if (r)
			goto err_release;
	}
	/* buffer->lock keeps out an export, which may choose other brackets. */
	view_choose_brackets_locked(map);
	map_entry(map, map->address, length, 0, map->rights, &entry);
	map_count_special(buffer, 1);
	r = registry_insert(&entry, map->span, &map->slot);
	if (r) {
		map_count_special(buffer, -1);
		r = err_set(r, "entering a map of %" PRIu64 " bytes into the registry: %s",
			    length, err_name(r));
		goto err_release;
	}
	publish_begin(map);
	map_placed(map);
	map_link_locked(map);
	buffer->n_map++;
	count_add_locked(&buffer->counts, COUNT_MAPS, 1);
	count_add_locked(&buffer->counts, COUNT_MAPS_EVER, 1);
	count_add_locked(&buffer->counts, COUNT_BYTES_MAPPED, committed);
	stats_add(&stats.maps, 1);
	stats_add(&stats.bytes_mapped, committed);
	return 0;

err_release:
	reserve_release(&map->reservation);
err_brackets:
	brackets_put_locked(map);
	return r;
}

static int create(struct hm_buffer *buffer, const struct hm_map_desc *desc, uint64_t start,
		  struct hm_map **ret_map)
{
	struct hm_map *map;
	int r, finished = 0, gone = 0;

	map = map_alloc(buffer);
	if (!map)
		return err_set(-ENOMEM, "no memory for a map's description");

	r = buffer_lock(buffer);
	if (r)
		goto err_free;
	r = loss_check_mended(buffer);
	if (!r)
		r = create_locked(map, desc);
	if (!r)
		finished = repair_prepare(map, map->span);
	if (!r && !finished)
		finished = reach_show(map);
	/* A loss of the device since the first check may have missed this map: check again. */
	if (!r)
		gone = device_loss_check_link(buffer->device, segments_link(buffer));
	if (!r)
		probe_map(map, start);
	buffer_unlock(buffer);
	if (r) {
		r = device_loss_notice(buffer->device, r);
		goto err_free;
	}
	r = gone ? gone : finished;
	if (r)
		goto err_map;
	*ret_map = map;
	return 0;

err_map:
	hm_map_unref(map);
	return r;
err_free:
	map_free(map);
	hm_buffer_unref(buffer);
	return r;
}

int map_create(struct hm_buffer *buffer, const struct hm_map_desc *from,
	       struct hm_map **ret_map)
{
	uint64_t start = trace_start();
	struct hm_map_desc desc;
	bool relieved = false;
	int r;

	r = buffer_check(buffer);
	if (r)
		return r;
	if (!ret_map)
		return err_set(-EINVAL, "hm_map_create: ret_map is NULL");
	r = read_desc(buffer, from, &desc);
	if (!r)
		r = hook_map(buffer, &desc);
	if (r)
		return r;
	do
		r = create(buffer, &desc, start, ret_map);
	while (retire_relieve(r, &relieved));
	return r;
}

int hm_map_create(struct hm_buffer *buffer, const struct hm_map_desc *from,
		  struct hm_map **ret_map)
{
	err_begin();
	return map_create(buffer, from, ret_map);
}

int hm_map_query(struct hm_map *map, struct hm_map_info *ret_info)
{
	struct hm_map_info info;
	struct smaps_sum sum = { 0 };
	struct lock_sums locks;
	uint32_t fields, i;
	int r;

	err_begin();
	r = map_check(map);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_map_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info),
			     offsetof(struct hm_map_info, locked), "hm_map_info");
	if (r)
		return r;
	fields = ret_info->fields;
	if (fields & ~(HM_MAP_RESIDENT | HM_MAP_LOCKED))
		return err_set(-EINVAL, "hm_map_query: unknown fields 0x%x", fields);
	block_loss_notice(0);
	/* Keeps changes out, so that address and length belong together. */
	r = remap_lock(map);
	if (r)
		return r;
	if (fields) {
		r = smaps_read(map->address, buffer_pages(map->buffer, map->length), &sum);
		if (r)
			goto out;
		/* The bytes are in memory at all times; the kernel counts no page of a DAX file. */
		if (map->buffer->persist >= HM_PERSIST_LINE)
			sum.resident = buffer_pages(map->buffer, map->length);
	}
	pthread_mutex_lock(&map->lock);
	info = (struct hm_map_info){
		.fields = fields,
		.address = map->address,
		.length = map->length,
		.reserved_length = map->reservation.length,
		.offset = map->offset,
		.page_size = max_u64(map->buffer->page_size, sum.page_size),
		.access = map->rights->run[0].value,
		.runs = map->rights->n,
		.cache = map->buffer->cache,
		.generation = map->generation,
		.whole = map->whole,
		.in_flight = map->n_use,
		.views = map->n_view,
		.brackets = map_brackets(map),
		.resident = sum.resident,
		.huge = sum.huge,
		.locked = sum.locked,
	};
	pthread_mutex_unlock(&map->lock);
	lock_sum(map->locked, 0, map->span, &locks);
	for (i = 0; i < HM_LOCK_PRIORITIES; i++) {
		info.lock_held += locks.held[i];
		info.lock_waiting += locks.waiting[i];
	}
	struct_write(ret_info, &info, ret_info->struct_size);
out:
	remap_unlock(map);
	return r;
}

int hm_view_create(struct hm_map *map, uint64_t offset, uint64_t length,
		   const struct hm_view_ops *ops, void *user, struct hm_view **ret_view)
{
	int r;

	err_begin();
	r = map_check(map);
	if (r)
		return r;
	if (!ops || !ret_view)
		return err_set(-EINVAL, "hm_view_create: %s is NULL", ops ? "ret_view" : "ops");
	r = remap_lock(map);
	if (r)
		return r;
	r = view_create_locked(map, offset, length, ops, NULL, user, ret_view);
	remap_unlock(map);
	return r;
}
