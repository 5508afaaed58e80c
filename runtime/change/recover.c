// SPDX-License-Identifier: MIT
/*
 * hm_device_recover: opens a device that was taken away again, and gives its buffers new
 * objects, which are filled before any user sees them, at the old addresses.
 *
 * For a buffer, the steps that can fail without a trace come first (the object, its bytes, a
 * mapping of it for each map, elsewhere), without the buffer's lock, because a lost buffer
 * can't be used. One mremap() a map follows, each of which has a way back: to the policy's
 * replacement of lost bytes.
 */
#include <hetmap/loss.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "change/recover.h"
#include "hook/hook.h"
#include "core/buffer.h"
#include "core/device_link.h"
#include "base/callback.h"
#include "loss/loss.h"
#include "loss/device_loss.h"
#include "map/map.h"
#include "tell/publish.h"
#include "fault/reach.h"
#include "fault/recover_wait.h"
#include "map/remap.h"
#include "fault/repair.h"
#include "fault/block_loss.h"
#include "base/reserve.h"
#include "base/rlimits.h"
#include "core/segments.h"
#include "loss/shadow.h"
#include "base/sys.h"
#include "map/view.h"

/* Mappings that bringing one map back may need at once, besides the existing ones. */
#define RECOVER_MAPS 4

/* Bytes of a new object that are made, and brought to where CPUs reach them, at a time. */
#define FILL_STEP MIB(1)

/* One map on its way back: held, its change locked. */
struct recover_map {
	struct hm_map *map;
	uint64_t span;            /* of the new object, from the map's offset on */
	struct reservation range; /* where it is mapped; length 0: moved */
	char *address;
	bool moved;
};

struct recovery {
	struct hm_device *device;
	struct device_link *link; /* held */
	struct hm_recover_info *info;
	struct hm_buffer *buffer;
	struct loss *loss;
	struct hm_loss_desc desc;
	struct segment_list *segments; /* of the new object, the buffer's when done */
	struct hm_segment *fresh;      /* the segment there */
	uint32_t place;
	uint64_t size;
	uint64_t bytes_shadow, bytes_refilled, bytes_zero;
	uint32_t n_map;
	struct recover_map *maps;
};

/* ---- conditions ---- */

static int refuse_known(const struct hm_buffer *buffer, const char *what)
{
	return err_set(-EBUSY,
		       "%s: the buffer was %s, and its receivers keep the old object, which "
		       "is gone: send or export it again",
		       buffer->name, what);
}

static int check_locked(struct recovery *rec)
{
	struct hm_buffer *buffer = rec->buffer;

	if (!buffer->created)
		return err_set(-EOPNOTSUPP,
			       "%s: the object was imported or received: import or receive it "
			       "again",
			       buffer->name);
	if (atomic_load(&buffer->share))
		return refuse_known(buffer, "sent");
	if (buffer->exported)
		return refuse_known(buffer, "exported");
	return 0;
}

/* ---- the new object, and its bytes ---- */

static int make_object(struct recovery *rec)
{
	struct hm_buffer *buffer = rec->buffer;
	int r;

	r = segments_create(buffer, 1, &rec->segments);
	if (r)
		return r;
	rec->fresh = rec->segments->segment;
	r = buffer_create_object(buffer, rec->link, buffer->size, buffer->max_size, rec->fresh,
				 &rec->place);
	if (r)
		goto err_segments;
	return 0;

err_segments:
	segments_abandon(buffer, rec->segments);
	return r;
}

static void drop_object(struct recovery *rec)
{
	rec->device->ops->object_destroy(rec->link->backend, rec->fresh);
	segments_abandon(rec->buffer, rec->segments);
}

/* Makes bytes [@offset, @offset + @length) of the new object, in the library's own memory. */
static int prepare(struct recovery *rec, const struct shadow *shadow, char *between,
		   uint64_t offset, uint64_t length)
{
	struct hm_buffer *buffer = rec->buffer;
	struct callback callback;
	int r;

	memset(between, 0, length);
	r = shadow ? shadow_read(shadow, between, offset, length) : 0;
	if (r)
		return err_set(r, "%s: reading its shadow: %s", buffer->name, err_name(r));
	if (!rec->desc.refill)
		return 0;
	callback = callback_begin();
	r = rec->desc.refill(buffer, between, offset, length, rec->desc.user);
	callback_end(callback);
	if (r)
		return err_set(r < 0 ? r : -EIO,
			       "%s: its refill callback answered %d for %" PRIu64
			       " bytes from %" PRIu64 " on",
			       buffer->name, r, length, offset);
	return 0;
}

static int put(struct recovery *rec, char *bytes, const char *between, uint64_t offset,
	       uint64_t length)
{
	const struct hm_device *device = rec->device;
	bool bracket = rec->buffer->caps & HM_CAP_BRACKET;
	uint32_t access = HM_READ | HM_WRITE, said = err_count();
	int r;

	if (bracket) {
		r = device->ops->begin_cpu(rec->link->backend, rec->fresh, 1, offset, length,
					   access);
		if (r)
			return backend_explain(device->ops, said, r, "begin_cpu");
	}
	r = device_loss_touch_begin(device, rec->link);
	if (!r) {
		memcpy(bytes + offset, between, length);
		device_loss_touch_end();
	}
	/* The bytes are there, so an error of the device at the end does not count. */
	if (bracket)
		device->ops->end_cpu(rec->link->backend, rec->fresh, 1, offset, length, access);
	return r;
}

/*
 * Callbacks write to memory of the library's, which stays: the device may go again meanwhile,
 * with the object's pages.
 */
static int fill(struct recovery *rec, const struct shadow *shadow, char *bytes)
{
	uint64_t at, length, step = min_u64(rec->size, FILL_STEP);
	char *between = sys_calloc(1, step);
	int r = 0;

	if (!between)
		return err_set(-ENOMEM, "no memory to fill a buffer through");
	for (at = 0; at < rec->size && !r; at += length) {
		length = min_u64(step, rec->size - at);
		r = prepare(rec, shadow, between, at, length);
		if (!r)
			r = put(rec, bytes, between, at, length);
	}
	free(between);
	return r ? r : device_loss_ask(rec->device, rec->link);
}

/*
 * The shadow stays as it is while the buffer is lost, and the buffer is held: no thread renews
 * it, since the thread that tells of the loss has had the lock of its refreshes.
 */
static int fill_object(struct recovery *rec)
{
	const struct shadow *shadow = atomic_load(&rec->loss->shadow);
	struct reservation range;
	char *bytes;
	int r;

	if (!shadow && !rec->desc.refill) {
		rec->bytes_zero = rec->size;
		return 0;
	}
	r = map_scratch(rec->fresh, 1, 0, rec->fresh->length, rec->buffer->alignment,
			PROT_READ | PROT_WRITE, &range, &bytes);
	if (r)
		return r;
	r = fill(rec, shadow, bytes);
	reserve_release(&range);
	rec->bytes_shadow = shadow && !r ? rec->size : 0;
	rec->bytes_refilled = rec->desc.refill && !r ? rec->size : 0;
	return r;
}

/* ---- the maps ---- */

/* Locks their change as remap_lock() does, which refuses lost maps. */
static int hold_maps_locked(struct recovery *rec)
{
	struct hm_buffer *buffer = rec->buffer;
	struct recover_map *item;
	struct hm_map *map;

	if (!buffer->n_map)
		return 0;
	rec->maps = sys_calloc(buffer->n_map, sizeof(*rec->maps));
	if (!rec->maps)
		return err_set(-ENOMEM, "no memory to bring %u maps back", buffer->n_map);
	cds_list_for_each_entry(map, &buffer->maps, buffer_link) {
		/* A map that just lost its last reference ends when buffer->lock is free. */
		if (map->given_up || !object_try_ref(&map->object))
			continue;
		item = &rec->maps[rec->n_map];
		item->map = map;
		pthread_mutex_lock(&map->change);
		map->touched = true;
		rec->n_map++;
	}
	return 0;
}

/* Maps the object at an address of its own, with all rights: one mapping, to be moved. */
static int prepare_map(struct recovery *rec, struct recover_map *item)
{
	struct hm_map *map = item->map;
	struct hm_buffer *buffer = rec->buffer;
	int r;

	item->span = min_u64(map->span, rec->fresh->length - map->offset);
	r = rlimits_check_maps(RECOVER_MAPS + map->rights->n);
	if (r)
		return r;
	r = map_scratch(rec->fresh, 1, map->offset, item->span, buffer->alignment,
			PROT_READ | PROT_WRITE, &item->range, &item->address);
	return r ? r : map_dress(buffer, item->address, item->span);
}

/* The pages at the map's address are its own: their bytes go for good. */
static int move_map(struct recovery *rec, struct recover_map *item)
{
	uint64_t committed = buffer_pages(rec->buffer, item->map->length);
	struct hm_map *map = item->map;
	int r;

	item->moved = true;
	r = reserve_move(item->address, item->span, item->span, map->address);
	if (r)
		return rlimits_explain_map(r, item->span, 0,
					   "moving the new object into place");
	stats_sub(&stats.bytes_reserved, item->range.length);
	item->range.length = 0;
	if (item->span < map->span) {
		r = reserve_mend(map->address + item->span, map->span - item->span);
		if (!r)
			r = map_dress(rec->buffer, map->address + item->span,
				      map->span - item->span);
		if (r)
			return r;
	}
	if (committed < map->span) {
		r = sys_mprotect(map->address + committed, map->span - committed, PROT_NONE);
		if (r)
			return rlimits_explain_map(r, map->span, 0, "setting rights");
	}
	return map_apply_rights(map->address, map->rights, 0, committed);
}

/* Makes the map lost again, as it was before, except for bytes stored there since. */
static void unmove_map(struct recover_map *item)
{
	if (item->moved)
		device_loss_put_after(item->map);
}

static void tell_views(struct hm_map *map)
{
	struct remap remap;

	remap_init(&remap, map, 0, map->length);
	remap_tell_again(&remap);
}

static void publish_map(struct recover_map *item)
{
	struct hm_map *map = item->map;

	registry_set_generation(map->slot, map->generation + 1);
	repair_forget(map);
	pthread_mutex_lock(&map->lock);
	map->generation++;
	map->lost = false;
	pthread_mutex_unlock(&map->lock);
	publish_change(map);
	map_note_recovered(map);
}

static void drop_maps(struct recovery *rec)
{
	struct recover_map *item;
	uint32_t i;

	for (i = 0; i < rec->n_map; i++) {
		item = &rec->maps[i];
		if (item->range.length)
			reserve_release(&item->range);
		remap_unlock(item->map);
	}
}

static void unref_maps(struct recovery *rec)
{
	uint32_t i;

	for (i = 0; i < rec->n_map; i++)
		hm_map_unref(rec->maps[i].map);
	free(rec->maps);
}

/* ---- one buffer ---- */

static void publish_buffer(struct recovery *rec)
{
	struct hm_buffer *buffer = rec->buffer;
	struct shadow *shadow;

	segments_renew(buffer, rec->segments, link_hold(rec->link));
	buffer->caps |= HM_CAP_CONTIGUOUS;
	buffer->place = rec->place;
	buffer->generation++;
	/* No map shows the shadow any more, and its bytes are the buffer's again. */
	pthread_mutex_lock(&rec->loss->lock);
	shadow = atomic_load(&rec->loss->shadow);
	if (shadow) {
		shadow_let_go(shadow);
		shadow_unseal(shadow);
		/*
		 * The new object lacks the same bytes as the shadow, unless the refill has made
		 * others.
		 */
		if (rec->desc.refill)
			rec->loss->stale = shadow_refresh(shadow, buffer, 0, rec->size);
	}
	pthread_mutex_unlock(&rec->loss->lock);
}

/* Moves the maps to the new object, which is filled or gets no bytes: all maps, or none. */
static int bring_back_locked(struct recovery *rec)
{
	uint32_t i, n = 0;
	int r;

	/*
	 * If the device goes again from here on, the loss waits for the buffer's lock to tell
	 * the maps, before any page of theirs goes.
	 */
	r = device_loss_check_link(rec->device, rec->link);
	if (!r)
		r = hold_maps_locked(rec);
	for (i = 0; i < rec->n_map && !r; i++)
		r = prepare_map(rec, &rec->maps[i]);
	if (r)
		goto err_maps;
	for (n = 0; n < rec->n_map; n++) {
		r = move_map(rec, &rec->maps[n]);
		if (r)
			goto err_move;
	}
	publish_buffer(rec);
	for (i = 0; i < rec->n_map; i++) {
		/* Views come first: no launch attaches a view to a map that is still lost. */
		tell_views(rec->maps[i].map);
		publish_map(&rec->maps[i]);
		if (reach_show(rec->maps[i].map))
			rec->buffer->reach_failed = true;
	}
	/* Chosen last: the handler puts no pages into a lost map. */
	loss_choose_signal(rec->buffer);
	drop_maps(rec);
	return 0;

err_move:
	for (i = 0; i <= n; i++)
		unmove_map(&rec->maps[i]);
err_maps:
	drop_maps(rec);
	return r;
}

static int recover_buffer(struct recovery *rec)
{
	struct hm_buffer *buffer = rec->buffer;
	int r;

	r = recover_wait(buffer, rec->loss, false);
	if (!r)
		r = buffer_lock(buffer);
	if (r)
		return r;
	rec->size = buffer->size;
	r = check_locked(rec);
	if (!r)
		r = make_object(rec);
	buffer_unlock(buffer);
	if (r)
		return r;
	/* No thread resizes, maps or launches on a lost buffer. */
	r = fill_object(rec);
	if (!r)
		r = buffer_lock(buffer);
	if (r)
		goto err_object;
	r = bring_back_locked(rec);
	buffer_unlock(buffer);
	unref_maps(rec);
	if (r)
		goto err_object;
	rec->info->buffers_back++;
	rec->info->maps_back += rec->n_map;
	rec->info->bytes_shadow += rec->bytes_shadow;
	rec->info->bytes_refilled += rec->bytes_refilled;
	rec->info->bytes_zero += rec->bytes_zero;
	return 0;

err_object:
	drop_object(rec);
	return r;
}

/* ---- the device ---- */

struct lost_buffers {
	uint32_t n, room;
	struct hm_buffer **buffers;
};

static bool is_behind(struct hm_buffer *buffer, const struct device_link *link)
{
	struct segment_list *segments = segments_get(buffer);
	bool behind = segments->link != link;

	segments_put(buffer, segments);
	return behind;
}

/* Takes references; buffers made meanwhile are on the device as it is now. */
static int collect(struct hm_device *device, struct lost_buffers *lost)
{
	struct hm_buffer *buffer;
	uint32_t n = 0;

	pthread_mutex_lock(&device->lock);
	cds_list_for_each_entry(buffer, &device->buffers, device_link)
		n++;
	lost->buffers = n ? sys_calloc(n, sizeof(struct hm_buffer *)) : NULL;
	if (lost->buffers)
		cds_list_for_each_entry(buffer, &device->buffers, device_link)
			if (object_try_ref(&buffer->object))
				lost->buffers[lost->n++] = buffer;
	pthread_mutex_unlock(&device->lock);
	return n && !lost->buffers ? err_set(-ENOMEM, "no memory to list %u buffers", n) : 0;
}

static bool asks_for_it(const struct hm_loss_desc *desc, uint32_t flags)
{
	return desc->policy == HM_LOSS_RECREATE ||
	       (desc->policy == HM_LOSS_SHADOW && flags & HM_RECOVER_SHADOWED);
}

/* @behind: all of the buffer was lost; otherwise handlers have replaced a part. */
static void recover_one(struct hm_device *device, struct device_link *link,
			struct hm_buffer *buffer, bool behind, uint32_t flags,
			struct hm_recover_info *info)
{
	struct recovery rec = {
		.device = device,
		.link = link,
		.info = info,
		.buffer = buffer,
		.loss = atomic_load(&buffer->loss),
	};
	int r;

	info->buffers++;
	if (!rec.loss)
		return;
	pthread_mutex_lock(&rec.loss->lock);
	rec.desc = rec.loss->desc;
	pthread_mutex_unlock(&rec.loss->lock);
	if (!asks_for_it(&rec.desc, flags))
		return;
	r = behind ? recover_buffer(&rec) :
		     block_loss_restore(buffer, rec.loss, &rec.desc, info);
	if (r) {
		info->buffers_left++;
		if (!info->error) {
			info->error = r;
			err_survive();
		}
		loss_call_in_turn(buffer, HM_LOSS_LEFT, behind);
		return;
	}
	loss_call_in_turn(buffer, HM_LOSS_RECOVERED, behind);
}

/* Opens the device again, unless the old one is still there. */
static int reopen(struct hm_device *device)
{
	struct device_link *old = link_get(device), *link;
	int r;

	if (!device_loss_ask(device, old)) {
		err_clear();
		goto out;
	}
	/* All users hear of the loss before there is a new device. */
	device_loss_tell(old->backend);
	err_clear();
	r = hook_open(device->name, NULL);
	if (!r)
		r = link_open(device, &link);
	if (r)
		goto err_old;
	link_swap(device, link);
	device->generation++;
out:
	link_put(device, old);
	return 0;

err_old:
	link_put(device, old);
	return r;
}

static int recover_locked(struct hm_device *device, uint32_t flags,
			  struct hm_recover_info *info)
{
	struct lost_buffers lost = { 0 };
	struct device_link *link;
	bool behind;
	uint32_t i;
	int r;

	r = reopen(device);
	if (r)
		return r;
	link = link_get(device);
	r = collect(device, &lost);
	for (i = 0; i < lost.n; i++) {
		behind = is_behind(lost.buffers[i], link);
		if (behind || block_loss_any(lost.buffers[i]))
			recover_one(device, link, lost.buffers[i], behind, flags, info);
		hm_buffer_unref(lost.buffers[i]);
	}
	free(lost.buffers);
	atomic_fetch_add(&device->recovered, 1);
	info->generation = device->generation;
	if (!r)
		r = device_loss_check_link(device, link);
	link_put(device, link);
	return r;
}

int recover_device(struct hm_device *device, uint32_t flags, struct hm_recover_info *info)
{
	int r;

	/* Losses are reported before they are mended. */
	block_loss_notice(0);
	r = loss_recovery_lock(device);
	if (r)
		return r;
	r = recover_locked(device, flags, info);
	loss_recovery_unlock(device);
	return r;
}
