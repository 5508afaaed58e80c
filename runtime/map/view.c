// SPDX-License-Identifier: MIT
/*
 * Views: users of a map besides the CPU. A caller's view holds a reference to its map; an
 * accelerator's does not, and is released with the map.
 */
#include "map/view.h"

#include <stdlib.h>

#include "base/callback.h"
#include "map/bracket.h"
#include "base/sys.h"

pthread_mutex_t view_mutex = PTHREAD_MUTEX_INITIALIZER;

void view_fork_prepare(void)
{
	pthread_mutex_lock(&view_mutex);
}

void view_fork_after(void)
{
	pthread_mutex_unlock(&view_mutex);
}

/* ---- for users inside the library ---- */

/* Caller holds map->lock. Brackets cost nothing unless some view, or a device, needs them. */
void view_choose_brackets_locked(struct hm_map *map)
{
	bool begin = false, end = false;
	struct map_view *view;

	cds_list_for_each_entry(view, &map->views, link) {
		begin |= view->hooks->begin_cpu != NULL;
		end |= view->hooks->end_cpu != NULL;
	}
	bracket_choose(map, begin, end);
}

void view_choose_brackets(struct hm_map *map)
{
	pthread_mutex_lock(&map->lock);
	view_choose_brackets_locked(map);
	pthread_mutex_unlock(&map->lock);
}

static void link_view(struct hm_map *map, struct map_view *view)
{
	pthread_mutex_lock(&map->lock);
	cds_list_add_tail(&view->link, &map->views);
	map->n_view++;
	view_choose_brackets_locked(map);
	pthread_mutex_unlock(&map->lock);
	count_add(&map->buffer->counts, COUNT_VIEWS, 1);
	stats_add(&stats.views, 1);
}

static void unlink_view(struct hm_map *map, struct map_view *view)
{
	pthread_mutex_lock(&map->lock);
	cds_list_del(&view->link);
	map->n_view--;
	view_choose_brackets_locked(map);
	pthread_mutex_unlock(&map->lock);
	count_add(&map->buffer->counts, COUNT_VIEWS, -UINT64_C(1));
	stats_sub(&stats.views, 1);
}

void view_attach_locked(struct hm_map *map, struct map_view *view)
{
	view->map = map;
	link_view(map, view);
}

bool view_detach_locked(struct map_view *view)
{
	struct hm_map *map = view->map;

	if (!object_try_ref(&map->object))
		return false;
	/*
	 * Lock order: change comes before view_mutex. Callbacks must not come here: see
	 * view_defer().
	 */
	pthread_mutex_unlock(&view_mutex);
	pthread_mutex_lock(&map->change);
	unlink_view(map, view);
	pthread_mutex_unlock(&map->change);
	/* This may be the last reference, whose end takes view_mutex. */
	hm_map_unref(map);
	pthread_mutex_lock(&view_mutex);
	return true;
}

struct map_view *view_find(struct hm_map *map, const struct view_hooks *hooks,
			   const void *owner)
{
	struct map_view *view, *found = NULL;

	pthread_mutex_lock(&map->lock);
	cds_list_for_each_entry(view, &map->views, link)
		if (view->hooks == hooks && view->owner == owner) {
			found = view;
			break;
		}
	pthread_mutex_unlock(&map->lock);
	return found;
}

struct map_view *view_behind(struct hm_map *map, struct map_view *view)
{
	struct cds_list_head *next;

	pthread_mutex_lock(&map->lock);
	next = view ? view->link.next : map->views.next;
	pthread_mutex_unlock(&map->lock);
	return next == &map->views ? NULL : cds_list_entry(next, struct map_view, link);
}

void view_release_all(struct hm_map *map)
{
	struct map_view *view;

	/* Needs no lock: no launch and no caller's view holds the map any more. */
	if (!map->n_view)
		return;
	pthread_mutex_lock(&view_mutex);
	while (!cds_list_empty(&map->views)) {
		view = cds_list_first_entry(&map->views, struct map_view, link);
		unlink_view(map, view);
		view->hooks->release(view);
	}
	pthread_mutex_unlock(&view_mutex);
}

/* ---- for callers ---- */

struct hm_view {
	struct hm_object object;
	struct map_view view;
	struct hm_view_ops ops;
	view_begin *begin; /* or NULL */
	void *user;
	_Atomic bool ended; /* in a callback; freed afterwards */
	struct view_deferred deferred;
};

static struct hm_view *caller_view(struct map_view *view)
{
	return caa_container_of(view, struct hm_view, view);
}

static _Thread_local uint32_t inside; /* callbacks of callers' views */

static struct callback enter_callback(void)
{
	inside++;
	return callback_begin();
}

static void leave_callback(struct callback callback)
{
	callback_end(callback);
	inside--;
}

bool view_in_callback(void)
{
	return inside;
}

/* ---- ends that callbacks ask for ---- */

_Atomic uint32_t view_n_deferred;
static _Thread_local struct view_deferred *deferred_here;

void view_defer(struct view_deferred *deferred, void (*end)(struct view_deferred *deferred))
{
	deferred->end = end;
	deferred->next = deferred_here;
	deferred_here = deferred;
	view_n_deferred++;
}

void view_end_deferred_each(void)
{
	struct view_deferred *deferred;

	/* An end may come back here, through a buffer that it releases. */
	while (!inside && (deferred = deferred_here)) {
		deferred_here = deferred->next;
		view_n_deferred--;
		err_hold();
		deferred->end(deferred);
		err_release();
	}
}

/* ---- callbacks ---- */

static int call_quiesce(struct map_view *map_view, const struct hm_view_change *change)
{
	struct hm_view *view = caller_view(map_view);
	struct callback callback;
	int r;

	if (!view->ops.quiesce || view->ended)
		return 0;
	callback = enter_callback();
	r = view->ops.quiesce(view->user, change);
	leave_callback(callback);
	return r;
}

static void call_invalidate(struct map_view *map_view, const struct hm_view_change *change)
{
	struct hm_view *view = caller_view(map_view);
	struct callback callback;

	if (!view->ops.invalidate || view->ended)
		return;
	callback = enter_callback();
	view->ops.invalidate(view->user, change);
	leave_callback(callback);
}

static void call_reattach(struct map_view *map_view, const struct hm_view_change *change)
{
	struct hm_view *view = caller_view(map_view);
	struct callback callback;

	if (!view->ops.reattach || view->ended)
		return;
	callback = enter_callback();
	view->ops.reattach(view->user, change);
	leave_callback(callback);
}

static void call_lost(struct map_view *map_view)
{
	struct hm_view *view = caller_view(map_view);
	struct callback callback;

	if (!view->ops.lost || view->ended)
		return;
	callback = enter_callback();
	view->ops.lost(view->user);
	leave_callback(callback);
}

static int call_begin(struct map_view *map_view, uint64_t offset, uint64_t length,
		      uint32_t access)
{
	struct hm_view *view = caller_view(map_view);

	(void)offset, (void)length;
	return view->ended ? 0 : view->begin(view->user, access);
}

static void destroy_view(struct hm_view *view)
{
	view->object.kind = OBJECT_FREED;
	free(view);
}

/* A caller's view holds its map, so the map cannot go before it. */
static void release_never(struct map_view *view)
{
	(void)view;
	abort();
}

static const struct view_hooks caller_hooks = {
	.quiesce = call_quiesce,
	.invalidate = call_invalidate,
	.reattach = call_reattach,
	.lost = call_lost,
	.release = release_never,
};

/* For views with a begin function; other views leave brackets free of cost. */
static const struct view_hooks bracket_hooks = {
	.quiesce = call_quiesce,
	.invalidate = call_invalidate,
	.reattach = call_reattach,
	.lost = call_lost,
	.begin_cpu = call_begin,
	.release = release_never,
};

int view_create_locked(struct hm_map *map, uint64_t offset, uint64_t length,
		       const struct hm_view_ops *ops, view_begin *begin, void *user,
		       struct hm_view **ret_view)
{
	struct hm_view *view;
	int r;

	if (!length && offset >= map->length)
		return err_set(-ERANGE, "hm_view_create: the view begins past the map's end");
	r = length ? map_check_range(map, offset, length, "hm_view_create") : 0;
	if (r)
		return r;
	view = sys_calloc(1, sizeof(*view));
	if (!view)
		return err_set(-ENOMEM, "no memory for a view");
	r = struct_read(&view->ops, sizeof(view->ops), ops, ops->struct_size,
			offsetof(struct hm_view_ops, lost), "hm_view_ops");
	if (r)
		goto err_free;
	object_init(&view->object, OBJECT_VIEW);
	view->begin = begin;
	view->user = user;
	view->view = (struct map_view){
		.map = map,
		.offset = offset,
		.length = length,
		.hooks = begin ? &bracket_hooks : &caller_hooks,
		.owner = view,
	};
	hm_map_ref(map);
	link_view(map, &view->view);
	*ret_view = view;
	return 0;

err_free:
	free(view);
	return r;
}

/* Caller holds the map's change, which is unlocked. */
static void detach(struct hm_view *view)
{
	struct hm_map *map = view->view.map;

	unlink_view(map, &view->view);
	pthread_mutex_unlock(&map->change);
	destroy_view(view);
	hm_map_unref(map);
}

static void end_deferred(struct view_deferred *deferred)
{
	struct hm_view *view = caa_container_of(deferred, struct hm_view, deferred);

	/* In a fork child of a callback the locks are as the parent had them. */
	if (view->object.fork_gen != fork_generation)
		return;
	pthread_mutex_lock(&view->view.map->change);
	detach(view);
}

void hm_view_unref(struct hm_view *view)
{
	if (!view || !object_put(&view->object))
		return;
	err_hold();
	if (likely(!inside)) {
		pthread_mutex_lock(&view->view.map->change);
		detach(view);
	} else if (!pthread_mutex_trylock(&view->view.map->change)) {
		detach(view);
	} else {
		/* This thread's change, or another's, may still walk over the view. */
		view->ended = true;
		view_defer(&view->deferred, end_deferred);
	}
	err_release();
}
