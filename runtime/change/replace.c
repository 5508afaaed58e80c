// SPDX-License-Identifier: MIT
/*
 * A new object takes an old one's place. It is made and filled at a scratch address, where
 * failure is harmless, and moved over the old pages by one mremap(). Stores that other threads
 * make meanwhile may be lost, as buffer.h tells callers.
 */
#include "change/replace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/buffer.h"
#include "core/device_link.h"
#include "loss/loss.h"
#include "base/memfd.h"
#include "tell/probe.h"
#include "base/rlimits.h"
#include "map/map.h"
#include "map/protect.h"
#include "tell/publish.h"
#include "fault/reach.h"
#include "fault/repair.h"
#include "base/reserve.h"
#include "map/resident.h"
#include "core/segments.h"
#include "base/sys.h"
#include "map/vacate.h"

/* The new objects may go in another way than the old ones did. */
static void swap_objects(struct hm_buffer *buffer, struct segment_list *list, uint32_t n,
			 uint32_t n_kept)
{
	segments_swap(buffer, list, n, n_kept);
	if (unlikely(buffer->loss))
		loss_choose_signal(buffer);
}

/*
 * Mappings that a replacement may need at once, besides the existing ones; for appending, per
 * map.
 */
#define REPLACE_MAPS 16
#define APPEND_MAPS 4

/* A new object takes all bytes, so no other user may know the old one. */
int replace_check(struct hm_buffer *buffer)
{
	struct hm_map *map;
	uint32_t n = 0;

	if (!(buffer->caps & HM_CAP_REPLACE))
		return err_set(-EOPNOTSUPP, "%s: this kind of buffer can't become a new object",
			       buffer->name);
	if (buffer->exported)
		return err_set(-EBUSY,
			       "%s was exported: its importers would keep the old object",
			       buffer->name);
	cds_list_for_each_entry(map, &buffer->maps, buffer_link) {
		n++;
		if (!map->whole)
			return err_set(-EBUSY,
				       "%s has a map of a part, at %p, which would keep "
				       "the old object: unmap it first",
				       buffer->name, (void *)map->address);
	}
	if (n > 1)
		return err_set(-EBUSY,
			       "%s has %u maps, of which only one can move to a new "
			       "object: end the others first",
			       buffer->name, n);
	return 0;
}

/* A replacement under way. */
struct replacement {
	struct hm_buffer *buffer;
	uint64_t new_size;
	bool moves;                    /* past max_size: another address */
	uint64_t span;                 /* address space of the new object */
	struct segment_list *segments; /* of the new object, the buffer's when done */
	struct hm_segment *fresh;      /* the segment there */
	uint32_t place;                /* enum hm_place it is in */
	struct reservation range;      /* where it is filled; length 0: moved away */
	char *address;
	struct reservation old_range; /* the old bytes, for reading; length 0: released */
	char *old;
	struct hm_map *map;      /* the one map, or NULL */
	struct resize_map *item; /* of that map */
	uint64_t pages;          /* of new_size */
};

/* Maps the new object, which is all zeros, at an address of its own. */
static int map_fresh(struct replacement *rep)
{
	struct hm_buffer *buffer = rep->buffer;
	uint64_t guard = 0;
	int r;

	if (rep->moves && rep->map && (rep->map->map_flags & HM_MAP_GUARD))
		guard = buffer->page_size;
	r = reserve_range(rep->span, buffer->page_size, buffer->alignment, guard, &rep->range,
			  &rep->address);
	if (r)
		return r;
	stats_add(&stats.bytes_reserved, rep->range.length);
	r = map_segments(rep->fresh, 1, 0, rep->span, rep->address, PROT_READ | PROT_WRITE);
	if (!r)
		r = map_dress(buffer, rep->address, rep->span);
	if (r)
		goto err_range;
	return 0;

err_range:
	reserve_release(&rep->range);
	return r;
}

static int make_fresh(struct replacement *rep, uint64_t capacity)
{
	struct hm_buffer *buffer = rep->buffer;
	int r;

	r = buffer_create_object(buffer, segments_link(buffer), rep->new_size, capacity,
				 rep->fresh, &rep->place);
	if (r)
		return r;
	/* In place there is room behind the object; for a move it is made here. */
	rep->span = rep->fresh->length;
	if (rep->moves)
		rep->span = max_u64(rep->span, buffer_pages(buffer, capacity));
	r = map_fresh(rep);
	if (r)
		goto err_object;
	return 0;

err_object:
	buffer_destroy_objects(buffer, rep->fresh, 1);
	return r;
}

/* Doubles past max_size, as long as limits allow, so that growth stays linear. */
static int make_object(struct replacement *rep)
{
	uint64_t capacity = rep->buffer->max_size;
	int r;

	if (!rep->moves)
		return make_fresh(rep, capacity);
	capacity = max_u64(rep->new_size, min_u64(2 * capacity, BUFFER_SIZE_MAX));
	r = make_fresh(rep, capacity);
	if (r && capacity > rep->new_size)
		r = make_fresh(rep, rep->new_size);
	return r;
}

/* Maps the old bytes a second time, since the user's map may be without access. */
static int map_old(struct replacement *rep)
{
	struct hm_buffer *buffer = rep->buffer;

	return map_scratch(buffer->segment, buffer->n_segment, 0,
			   buffer_pages(buffer, buffer->size), buffer->page_size, PROT_READ,
			   &rep->old_range, &rep->old);
}

/* -ENODEV: the device is gone, and the bytes with it. */
static int copy_contents(struct replacement *rep)
{
	struct hm_buffer *buffer = rep->buffer;
	const struct replace_copy copy = {
		.buffer = buffer,
		.fresh = rep->fresh,
		.old = rep->old,
		.address = rep->address,
	};
	uint64_t kept = min_u64(buffer->size, rep->new_size);
	int r;

	r = replace_copy(&copy, kept);
	if (r)
		return r;
	/* After the library's own stores into it, and before a map shows it. */
	r = loss_signal_fresh(buffer, rep->fresh);
	if (r)
		return r;
	count_add(&buffer->counts, COUNT_BYTES_COPIED, kept);
	stats_add(&stats.bytes_copied, kept);
	reserve_release(&rep->old_range);
	return 0;
}

/* Prepares rights and, where the address stays, the descriptor, before anything changes. */
static int stage(struct replacement *rep)
{
	struct resize_map *item = rep->item;
	uint64_t from, old_pages = buffer_pages(rep->buffer, rep->buffer->size);
	struct hm_map *map = rep->map;
	struct registry_entry entry;
	int r;

	/*
	 * New bytes get fresh rights, and bytes that go take their rights along. For a copy of
	 * the same size the range has length 0.
	 */
	from = min_u64(old_pages, rep->pages);
	item->rights = rangemap_set(map->rights, from, max_u64(old_pages, rep->pages) - from,
				    map->access);
	if (!item->rights)
		return err_set(-ENOMEM, "no memory for a map's rights");
	r = protect_stage_base(map, from, max_u64(old_pages, rep->pages) - from, &item->base);
	if (r)
		return r;
	if (rep->moves)
		return vacate_prepare(map, &item->vacated);
	map_entry(map, map->address, rep->new_size, map->generation + 1, item->rights, &entry);
	r = registry_stage(&entry, &item->staged);
	return r ? err_set(r, "no memory for a map's new object") : 0;
}

static int freeze(struct replacement *rep)
{
	struct remap *remap = &rep->item->remap;
	int r;

	remap_init(remap, rep->map, 0, rep->map->length);
	remap->new_length = rep->new_size;
	remap->new_rights = rep->item->rights;
	if (rep->moves)
		remap->new_address = rep->address;
	r = remap_freeze(remap);
	rep->item->frozen = !r;
	if (!r)
		repair_show(rep->map, 0, rep->map->span);
	return r;
}

/* Closes a map's address space from @end on, where no object is mapped any more. */
static int mend_behind(struct hm_map *map, uint64_t end)
{
	int r;

	if (end >= map->span)
		return 0;
	r = reserve_mend(map->address + end, map->span - end);
	return r ? r : map_dress(map->buffer, map->address + end, map->span - end);
}

/* Maps the old segments again, after a failed move; their objects are still there. */
static int put_back(struct replacement *rep)
{
	struct hm_buffer *buffer = rep->buffer;
	struct hm_map *map = rep->map;
	int r;

	reach_forget(map, 0, UINT64_MAX);
	r = mend_behind(map, buffer_capacity(buffer));
	if (!r)
		r = map_segments(buffer->segment, buffer->n_segment, 0, map->span, map->address,
				 PROT_NONE);
	if (!r)
		r = map_dress(buffer, map->address, map->span);
	if (!r)
		r = map_apply_rights(map->address, map->rights, 0,
				     buffer_pages(buffer, map->length));
	if (!r) {
		/* Locks as before: pages that were locked a moment ago fit the limit. */
		resident_lock_again(map, map->address);
		if (reach_show(map))
			buffer->reach_failed = true;
		return 0;
	}
	map_lose_locked(map, &rep->item->rights, &rep->item->staged);
	return err_prefix(r, "the map at %p could not be put back and is lost",
			  (void *)map->address);
}

/* Same address: one mremap() over the old pages. */
static int move_over(struct replacement *rep)
{
	struct hm_map *map = rep->map;
	int r, back;

	r = rlimits_check_maps(REPLACE_MAPS + rep->item->rights->n);
	if (r)
		return r;
	r = reserve_move(rep->address, rep->span, min_u64(rep->span, map->span), map->address);
	if (r) {
		r = rlimits_explain_map(r, map->span, 0, "moving the new object into place");
		goto err_put_back;
	}
	/* The reserved range was moved along exactly, so nothing is left to release. */
	stats_sub(&stats.bytes_reserved, rep->range.length);
	rep->range.length = 0;
	r = mend_behind(map, rep->span);
	if (r)
		goto err_put_back;
	if (rep->pages < map->span) {
		r = sys_mprotect(map->address + rep->pages, map->span - rep->pages, PROT_NONE);
		if (r) {
			r = rlimits_explain_map(r, map->span, 0, "setting rights");
			goto err_put_back;
		}
	}
	r = map_apply_rights(map->address, rep->item->rights, 0, rep->pages);
	if (!r)
		r = resident_lock_again(map, map->address);
	if (r)
		goto err_put_back;
	registry_commit(map->slot, rep->item->staged);
	rep->item->staged = NULL;
	return 0;

err_put_back:
	back = put_back(rep);
	return back ? back : r;
}

/* Another address: the new range is complete before the old one goes. */
static int move_away(struct replacement *rep)
{
	struct registry_slot *slot, *old_slot = rep->map->slot;
	const char *old_address = rep->map->address;
	struct hm_map *map = rep->map;
	struct registry_entry entry;
	int r;

	if (rep->pages < rep->span) {
		r = sys_mprotect(rep->address + rep->pages, rep->span - rep->pages, PROT_NONE);
		if (r)
			return rlimits_explain_map(r, rep->span, 0, "setting rights");
	}
	r = map_apply_rights(rep->address, rep->item->rights, 0, rep->pages);
	if (r)
		return r;
	/* The limit may hold one of both locks only. */
	if (map->locked)
		sys_munlock(map->address, map->span);
	r = resident_lock_again(map, rep->address);
	if (r)
		goto err_lock;
	r = repair_prepare(map, rep->span);
	if (r)
		goto err_lock;
	map_entry(map, rep->address, rep->new_size, map->generation + 1, rep->item->rights,
		  &entry);
	r = registry_insert(&entry, rep->span, &slot);
	if (r) {
		r = err_set(r, "entering a moved map into the registry: %s", err_name(r));
		goto err_lock;
	}

	pthread_mutex_lock(&map->lock);
	map->slot = slot;
	__atomic_store_n(&map->address, rep->address, __ATOMIC_RELAXED); /* probe_address() */
	map->span = rep->span;
	map->reservation = rep->range;
	pthread_mutex_unlock(&map->lock);
	rep->range.length = 0;
	publish_change(map);
	probe_move(map, old_address, rep->new_size);
	registry_remove(old_slot);
	cds_list_del(&map->buffer_link);
	map_link_locked(map);
	return 0;

err_lock:
	/* The failed mapping takes its locks along. */
	resident_lock_again(map, map->address);
	return r;
}

/* The map shows the new object: its length and rights follow. */
static void publish_map(struct replacement *rep)
{
	struct hm_map *map = rep->map;
	struct rangemap *old = map->rights;

	reach_forget(map, 0, UINT64_MAX);
	count_add_locked(&rep->buffer->counts, COUNT_BYTES_MAPPED,
			 rep->pages - buffer_pages(rep->buffer, map->length));
	stats_add(&stats.bytes_mapped, rep->pages);
	stats_sub(&stats.bytes_mapped, buffer_pages(rep->buffer, map->length));
	pthread_mutex_lock(&map->lock);
	map->rights = rep->item->rights;
	map->length = rep->new_size;
	map->generation++;
	pthread_mutex_unlock(&map->lock);
	publish_change(map);
	rep->item->rights = NULL;
	free(old);
	protect_commit_base(map, &rep->item->base, rep->pages);
}

/* The buffer has only the new object from here on; the old ones end. */
static void publish_buffer(struct replacement *rep)
{
	struct hm_buffer *buffer = rep->buffer;

	swap_objects(buffer, rep->segments, 1, 0);
	buffer->size = rep->new_size;
	if (rep->moves || !(buffer->caps & HM_CAP_RESIZE_REPLACES))
		buffer->max_size = rep->span;
	buffer->caps |= HM_CAP_CONTIGUOUS;
	buffer->place = rep->place;
	buffer->generation++;
}

int replace_locked(struct hm_buffer *buffer, uint64_t new_size, struct resize_set *set)
{
	struct replacement rep = {
		.buffer = buffer,
		.new_size = new_size,
		.moves = new_size > buffer->max_size,
		.pages = buffer_pages(buffer, new_size),
	};
	int r;

	r = replace_check(buffer);
	if (r)
		return r;
	r = segments_create(buffer, 1, &rep.segments);
	if (r)
		return r;
	rep.fresh = rep.segments->segment;
	r = resize_set_begin(buffer, set);
	if (r)
		goto err_fresh;
	if (set->n) {
		rep.item = &set->maps[0];
		rep.map = rep.item->map;
	}
	/* Mapped first, so that the new object takes only memory that is left besides. */
	r = map_old(&rep);
	if (r)
		goto err_set;
	r = make_object(&rep);
	if (r)
		goto err_old;
	if (rep.map) {
		r = stage(&rep);
		if (!r)
			r = freeze(&rep);
		if (r)
			goto err_object;
	}
	if (new_size < buffer->size)
		resize_cut_begin(set, new_size);
	r = copy_contents(&rep);
	if (!r && rep.map)
		r = rep.moves ? move_away(&rep) : move_over(&rep);
	if (r)
		goto err_object;

	if (rep.map)
		publish_map(&rep);
	publish_buffer(&rep);
	if (rep.map && reach_show(rep.map))
		buffer->reach_failed = true;
	if (rep.range.length)
		reserve_release(&rep.range);
	resize_set_end(set, true);
	return 0;

err_object:
	if (rep.range.length)
		reserve_release(&rep.range);
	buffer_destroy_objects(buffer, rep.fresh, 1);
err_old:
	if (rep.old_range.length)
		reserve_release(&rep.old_range);
err_set:
	resize_set_end(set, false);
err_fresh:
	segments_abandon(buffer, rep.segments);
	return r;
}

/* ---- append ---- */

/*
 * Maps the new object into the unused part of a map's address space, which has no live bytes.
 */
static int append_to_map(struct hm_map *map, const struct hm_segment *fresh, uint64_t pages)
{
	char *address = map->address + fresh->offset;
	int r;

	r = reach_forget(map, fresh->offset, UINT64_MAX);
	if (r)
		return r;
	/* Emptied objects may have been there. */
	r = mend_behind(map, fresh->offset + fresh->length);
	if (r)
		return r;

	r = map_segments(fresh, 1, fresh->offset, fresh->length, address, PROT_NONE);
	if (r)
		return r;
	r = map_dress(map->buffer, address, fresh->length);
	if (r)
		return r;
	r = sys_mprotect(address, pages - fresh->offset, prot_of_access(map->access));
	return r ? rlimits_explain_map(r, pages, TAKES_DATA, "making new bytes accessible") : 0;
}

/*
 * MAP_FIXED may have emptied the range: maps the old object's spare room again. If that fails,
 * or if it could not be written, closes the range, and max_size goes down to it.
 */
static void undo_append(struct hm_map *map, uint64_t offset)
{
	struct hm_buffer *buffer = map->buffer;

	if (!mend_behind(map, buffer_capacity(buffer)) &&
	    !(map->access & HM_WRITE &&
	      memfd_is_one_way(buffer->segment[buffer->n_segment - 1].fd)) &&
	    !map_segments(buffer->segment, buffer->n_segment, offset, map->span - offset,
			  map->address + offset, PROT_NONE) &&
	    !map_dress(buffer, map->address + offset, map->span - offset))
		return;
	reserve_mend(map->address + offset, map->span - offset);
	buffer->max_size = offset;
}

/*
 * Undoing needs mappings, too, and without them max_size would go down for good. Makes the
 * mappings and gives them back: counting the existing ones takes milliseconds where there are
 * thousands.
 */
static int check_room(uint32_t n_maps)
{
	uint64_t n = APPEND_MAPS * ((uint64_t)n_maps + 2), page = page_size(), i;
	struct reservation range;
	char *address;
	int r;

	r = reserve_range(n * page, page, page, 0, &range, &address);
	if (r)
		return r;
	stats_add(&stats.bytes_reserved, range.length);
	for (i = 0; i < n && !r; i += 2)
		r = sys_mprotect(address + i * page, page, PROT_READ);
	reserve_release(&range);
	/* The kernel keeps some for itself. */
	if (r && !rlimits_check_maps(n + APPEND_MAPS))
		r = rlimits_explain_map(r, n * page, 0, "making room for a further object");
	return r;
}

int replace_append_locked(struct hm_buffer *buffer, uint64_t new_size, struct resize_set *set)
{
	uint64_t offset = buffer_pages(buffer, buffer->size);
	uint64_t pages = buffer_pages(buffer, new_size);
	uint32_t n_old = buffer->n_segment;
	/* The new object takes the place of objects that a shrink has emptied. */
	uint32_t i = 0, kept = buffer_segment_at(buffer, buffer->size - 1) + 1;
	uint32_t place = buffer->place;
	/* The rest of the last page becomes the buffer's, too. */
	uint64_t filled = min_u64(offset, new_size);
	struct segment_list *segments;
	struct hm_segment *array;
	int r;

	if (!(buffer->caps & HM_CAP_APPEND))
		return err_set(-EOPNOTSUPP, "%s: this kind of buffer is one object always",
			       buffer->name);
	r = segments_create(buffer, n_old + 1, &segments);
	if (r)
		return r;
	array = segments->segment;
	memcpy(array, buffer->segment, n_old * sizeof(*array));
	r = resize_set_begin(buffer, set);
	if (r)
		goto err_segments;
	r = resize_set_stage(set, new_size, offset, pages - offset);
	if (r)
		goto err_set;
	/* Bytes in the last page of the old object need no new one. */
	if (pages > offset) {
		r = buffer_create_object(buffer, segments_link(buffer), new_size - offset,
					 buffer->max_size - offset, &array[kept], &place);
		if (r)
			goto err_set;
		r = loss_signal_fresh(buffer, &array[kept]);
		if (r)
			goto err_object;
		array[kept].offset = offset;
		array[kept - 1].length = offset - array[kept - 1].offset;
	}
	r = resize_set_freeze(set, buffer->size, new_size - buffer->size);
	if (r)
		goto err_object;
	if (pages > offset)
		r = check_room(set->n);
	if (r)
		goto err_object;
	r = resize_object(buffer, kept - 1, buffer->size, filled);
	if (r)
		goto err_object;
	for (i = 0; i < set->n && pages > offset; i++) {
		r = append_to_map(set->maps[i].map, &array[kept], pages);
		if (r)
			goto err_maps;
	}
	resize_set_commit(set, new_size);
	if (pages > offset)
		swap_objects(buffer, segments, kept + 1, kept);
	else
		swap_objects(buffer, segments, n_old, n_old);
	buffer->size = new_size;
	if (place != buffer->place)
		buffer->place = HM_PLACE_DEFAULT;
	if (buffer->n_segment > 1)
		buffer->caps &= ~HM_CAP_CONTIGUOUS;
	/*
	 * Makes buffer_unlock() hide the pages of the new object that CPUs can't reach (reach.h):
	 * reports about that object could not find this buffer before.
	 */
	buffer->reach_changed = true;
	resize_set_end(set, true);
	return 0;

err_maps:
	do {
		undo_append(set->maps[i].map, offset);
	} while (i--);
	resize_object(buffer, kept - 1, filled, buffer->size);
err_object:
	if (pages > offset)
		buffer_destroy_objects(buffer, &array[kept], 1);
err_set:
	resize_set_end(set, false);
err_segments:
	segments_abandon(buffer, segments);
	return r;
}
