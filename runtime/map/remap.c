// SPDX-License-Identifier: MIT
/* Freeze, change, thaw: the one protocol for changing what users rely on. */
#include "map/remap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "loss/device_loss.h"
#include "fault/repair.h"
#include "map/resident.h"
#include "base/sys.h"
#include "map/view.h"

int remap_refuse_lost(const struct hm_map *map)
{
	if (device_loss_check_buffer(map->buffer))
		return err_prefix(-ENODEV, "the map at %p", (void *)map->address);
	return err_set(-ENODEV,
		       "the map at %p is lost: a change failed and could not be undone; "
		       "unref it, its buffer has the bytes",
		       (void *)map->address);
}

int remap_lock_lost_too(struct hm_map *map)
{
	if (unlikely(pthread_mutex_lock(&map->change)))
		return err_set(-EDEADLK,
			       "a view's callback must not change the map that it is called "
			       "for: call after the callback");
	map->touched = true;
	return 0;
}

int remap_lock(struct hm_map *map)
{
	int r = remap_lock_lost_too(map);

	if (unlikely(r))
		return r;
	if (likely(!map->lost)) {
		resident_forget_replaced(map);
		return 0;
	}
	pthread_mutex_unlock(&map->change);
	return remap_refuse_lost(map);
}

int remap_trylock(struct hm_map *map)
{
	if (pthread_mutex_trylock(&map->change))
		return -EBUSY;
	map->touched = true;
	if (likely(!map->lost)) {
		resident_forget_replaced(map);
		return 0;
	}
	pthread_mutex_unlock(&map->change);
	return remap_refuse_lost(map);
}

void remap_unlock(struct hm_map *map)
{
	pthread_mutex_unlock(&map->change);
}

void remap_init(struct remap *remap, struct hm_map *map, uint64_t offset, uint64_t length)
{
	remap->map = map;
	remap->offset = offset;
	remap->length = length;
	remap->old_address = map->address;
	remap->new_address = map->address;
	remap->old_length = map->length;
	remap->new_length = map->length;
	remap->new_rights = map->rights;
	remap->buffer_held = true;
	remap->n_view = 0;
	remap->views = remap->inline_views;
}

/*
 * Does the change touch the bytes of @view? A view that follows the map also sees its length.
 */
static bool concerns(const struct remap *remap, const struct map_view *view)
{
	if (remap->old_address != remap->new_address)
		return true;
	if (!view->length)
		return remap->old_length != remap->new_length ||
		       remap->offset + remap->length > view->offset;
	return ranges_overlap(remap->offset, remap->length, view->offset, view->length);
}

/* The caller holds change, so no view can go, and no view that matters can come. */
static int collect_views(struct remap *remap)
{
	struct hm_map *map = remap->map;
	struct map_view **views = remap->inline_views;
	struct map_view *view;
	uint32_t room = REMAP_VIEWS_INLINE;

	for (;;) {
		remap->n_view = 0;
		pthread_mutex_lock(&map->lock);
		cds_list_for_each_entry(view, &map->views, link) {
			if (!concerns(remap, view))
				continue;
			if (remap->n_view < room)
				views[remap->n_view] = view;
			remap->n_view++;
		}
		pthread_mutex_unlock(&map->lock);
		if (remap->n_view <= room)
			break;
		if (views != remap->inline_views)
			free(views);
		room = remap->n_view + REMAP_VIEWS_INLINE;
		views = sys_calloc(room, sizeof(*views));
		if (!views) {
			remap->n_view = 0;
			return err_set(-ENOMEM, "no memory to tell %u views of a change", room);
		}
	}
	remap->views = views;
	return 0;
}

static uint64_t seen_length(const struct map_view *view, uint64_t map_length)
{
	uint64_t rest = map_length > view->offset ? map_length - view->offset : 0;

	return view->length ? min_u64(view->length, rest) : rest;
}

static int keep_common(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	(void)offset, (void)length;
	*(uint32_t *)user &= value;
	return 0;
}

/* The access that every byte of the view's range allows. */
static uint32_t seen_access(const struct map_view *view, const struct rangemap *rights,
			    uint64_t length)
{
	uint32_t access = length ? HM_READ | HM_WRITE : HM_NONE;

	rangemap_each(rights, view->offset, length, keep_common, &access);
	return access;
}

static struct hm_view_change change_for(const struct remap *remap, const struct map_view *view,
					bool done)
{
	struct hm_view_change change = {
		.old_address = remap->old_address + view->offset,
		.old_length = seen_length(view, remap->old_length),
		.new_address = remap->new_address + view->offset,
		.new_length = seen_length(view, remap->new_length),
	};

	if (!done) {
		change.new_address = change.old_address;
		change.new_length = change.old_length;
	}
	change.new_access = seen_access(view, done ? remap->new_rights : remap->map->rights,
					change.new_length);
	return change;
}

static void unfreeze(struct remap *remap)
{
	if (remap->views != remap->inline_views)
		free(remap->views);
	remap->views = remap->inline_views;
	remap->n_view = 0;
	atomic_store_explicit(&remap->map->frozen, false, memory_order_release);
}

/* Asks all views before it tells any: a late refusal must find no view invalidated. */
static int tell_views(struct remap *remap)
{
	struct hm_view_change change;
	struct map_view *view;
	uint32_t i;
	int r = 0;

	for (i = 0; i < remap->n_view; i++) {
		view = remap->views[i];
		if (!view->hooks->quiesce)
			continue;
		change = change_for(remap, view, true);
		r = view->hooks->quiesce(view, &change);
		if (r)
			goto err_reattach;
	}
	for (i = 0; i < remap->n_view; i++) {
		view = remap->views[i];
		change = change_for(remap, view, true);
		if (view->hooks->invalidate)
			view->hooks->invalidate(view, &change);
	}
	return 0;

err_reattach:
	r = err_set(-EBUSY,
		    "a view of bytes %" PRIu64 " to %" PRIu64 " refused the change (it "
		    "answered %s): end its use of the range first",
		    view->offset, view->offset + seen_length(view, remap->old_length),
		    err_name(r));
	while (i--) {
		view = remap->views[i];
		change = change_for(remap, view, false);
		if (view->hooks->reattach)
			view->hooks->reattach(view, &change);
	}
	return r;
}

/*
 * From here on no store is made by an offset in the map, until the thaw. One takes no lock, and so
 * it ends, unless the program jumped out of it: that is not waited for without end.
 */
static void stop_stores(struct hm_map *map)
{
	const struct timespec moment = { .tv_nsec = 50000 };
	uint64_t deadline = time_now_ns() + REMAP_TIMEOUT_NS;

	atomic_store(&map->moving, true);
	while (atomic_load(&map->n_store) && time_now_ns() < deadline)
		nanosleep(&moment, NULL);
}

int remap_freeze(struct remap *remap)
{
	struct hm_map *map = remap->map;
	bool idle;
	int r;

	/* A server may take for ever to write the pages back: a move does not wait for that. */
	if (remap->new_address != remap->old_address && atomic_load(&map->n_sync))
		return err_set(-EBUSY,
			       "the map at %p can't move: hm_map_sync() is writing it back",
			       (void *)map->address);
	pthread_mutex_lock(&map->lock);
	atomic_store_explicit(&map->frozen, true, memory_order_relaxed);
	idle = !map->n_use && !map->n_view;
	pthread_mutex_unlock(&map->lock);
	if (likely(idle))
		goto claim;
	if (!remap->buffer_held) {
		r = REMAP_NEEDS_BUFFER;
		goto err_unfreeze;
	}

	if (remap->length) {
		r = map_use_wait(map, remap->offset, remap->length, HM_WRITE, REMAP_TIMEOUT_NS);
		if (r == -ETIME) {
			r = err_set(-EBUSY,
				    "work in flight on bytes %" PRIu64 " to %" PRIu64
				    " of the map did not end within %" PRIu64 " s",
				    remap->offset, remap->offset + remap->length,
				    (uint64_t)(REMAP_TIMEOUT_NS / 1000000000));
			goto err_unfreeze;
		}
		if (r == -EINPROGRESS) {
			r = err_prefix(-EBUSY, "a change of bytes %" PRIu64 " to %" PRIu64,
				       remap->offset, remap->offset + remap->length);
			goto err_unfreeze;
		}
		/*
		 * Any other error is the work's own: the work is over, which is all that
		 * counts.
		 */
	}
	r = collect_views(remap);
	if (!r)
		r = tell_views(remap);
	if (r)
		goto err_unfreeze;
claim:
	/* Behind the callbacks, which may make such stores. */
	if (unlikely(remap->new_address != remap->old_address))
		stop_stores(map);
	/*
	 * Claimed last: work that is waited for may need a fault in the range repaired to end.
	 */
	repair_claim(map, remap->offset, remap->length);
	return 0;

err_unfreeze:
	unfreeze(remap);
	return r;
}

void remap_thaw(struct remap *remap, bool done)
{
	struct hm_view_change change;
	const struct view_hooks *hooks;
	uint32_t i;

	/* Released before callbacks, which may touch the map. */
	repair_release(remap->map);
	atomic_store(&remap->map->moving, false);
	for (i = 0; i < remap->n_view; i++) {
		hooks = remap->views[i]->hooks;
		if (remap->map->lost) {
			if (hooks->lost)
				hooks->lost(remap->views[i]);
		} else if (hooks->reattach) {
			change = change_for(remap, remap->views[i], done);
			hooks->reattach(remap->views[i], &change);
		}
	}
	unfreeze(remap);
}

void remap_tell_again(struct remap *remap)
{
	struct hm_view_change change;
	const struct view_hooks *hooks;
	struct map_view *view;

	/* Views stay while change is held. Nothing is allocated, so that all views are told. */
	cds_list_for_each_entry(view, &remap->map->views, link) {
		hooks = view->hooks;
		change = change_for(remap, view, true);
		if (hooks->reattach)
			hooks->reattach(view, &change);
	}
}

int remap_check_access(const struct hm_buffer *buffer, uint32_t access)
{
	if (access & ~(HM_READ | HM_WRITE))
		return err_set(-EINVAL, "access 0x%x has unknown bits", access);
	if ((access & (HM_READ | HM_WRITE)) == HM_WRITE)
		return err_set(-EINVAL, "write-only maps don't exist on this hardware: pass "
					"HM_READ | HM_WRITE");
	if (access & ~buffer->access)
		return err_set(-EACCES, "%s: the buffer gives %s", buffer->name,
			       buffer->access & HM_READ ? "HM_READ only" : "no access");
	return 0;
}
