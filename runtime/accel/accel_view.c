// SPDX-License-Identifier: MIT
/*
 * An accelerator's view of a map: attached by the first launch, emptied when the map changes,
 * ended when the map or the accelerator goes.
 *
 * A change of one range may run beside launches on another. A launch therefore pins the
 * accelerator's data while it uses it, and invalidate waits for the pins: they are held over a
 * submit, and over no wait except that for other views' pins (launch.c has the order), with no
 * other lock.
 */
#include <sched.h>
#include <stdlib.h>

#include "accel/accel.h"
#include "core/buffer.h"
#include "core/segments.h"
#include "base/sys.h"

struct accel_view {
	struct map_view view;
	struct cds_list_head accel_link; /* accel->views; view_mutex */
	struct hm_accel *accel;          /* no ref: accel_view_detach_all */

	pthread_mutex_t lock; /* protects the fields below */
	pthread_cond_t unpinned;
	uint32_t n_pin;
	bool changing;            /* invalidate waits: no new pins */
	void *data;               /* of ops->view_create; NULL: not made yet */
	struct hm_accel_map told; /* description that data was made from */
};

static struct accel_view *of_view(struct map_view *view)
{
	return (struct accel_view *)((char *)view - offsetof(struct accel_view, view));
}

static void empty(struct accel_view *view)
{
	void *data;

	pthread_mutex_lock(&view->lock);
	view->changing = true;
	while (view->n_pin)
		pthread_cond_wait(&view->unpinned, &view->lock);
	data = view->data;
	view->data = NULL;
	view->changing = false;
	pthread_cond_broadcast(&view->unpinned);
	pthread_mutex_unlock(&view->lock);
	if (data)
		view->accel->ops->view_destroy(data);
}

/* The view is off both lists. */
static void end(struct accel_view *view)
{
	pthread_cond_destroy(&view->unpinned);
	pthread_mutex_destroy(&view->lock);
	free(view);
}

static void hook_invalidate(struct map_view *view, const struct hm_view_change *change)
{
	(void)change;
	empty(of_view(view));
}

static void hook_lost(struct map_view *view)
{
	empty(of_view(view));
}

/* view_mutex is held. */
static void hook_release(struct map_view *view)
{
	empty(of_view(view));
	cds_list_del(&of_view(view)->accel_link);
	end(of_view(view));
}

static const struct view_hooks hooks = {
	.invalidate = hook_invalidate,
	.lost = hook_lost,
	.release = hook_release,
};

int accel_view_get(struct hm_accel *accel, struct hm_map *map, struct accel_view **ret_view)
{
	struct map_view *found = view_find(map, &hooks, accel);
	struct accel_view *view;
	int r = 0;

	if (likely(found)) {
		*ret_view = of_view(found);
		return 0;
	}
	pthread_mutex_lock(&view_mutex);
	found = view_find(map, &hooks, accel);
	if (found) {
		*ret_view = of_view(found);
		goto out;
	}
	view = sys_calloc(1, sizeof(*view));
	if (!view) {
		r = err_set(-ENOMEM, "no memory for the view of %s on a map", accel->name);
		goto out;
	}
	pthread_mutex_init(&view->lock, NULL);
	pthread_cond_init(&view->unpinned, NULL);
	view->accel = accel;
	view->view.map = map;
	view->view.hooks = &hooks;
	view->view.owner = accel;
	cds_list_add_tail(&view->accel_link, &accel->views);
	view_attach_locked(map, &view->view);
	*ret_view = view;
out:
	pthread_mutex_unlock(&view_mutex);
	return r;
}

/* A change that runs beside a launch may miss data that the launch has made in the meantime. */
static bool is_stale(const struct accel_view *view)
{
	const struct hm_map *map = view->view.map;

	return view->data && (view->told.address != map->address ||
			      view->told.length != atomic_load(&map->length));
}

/*
 * Work on one range of a map does not prevent the buffer from getting a further object for
 * another range at the same time: the accelerator is told of a fixed list of segments.
 */
static int create_data(struct accel_view *view)
{
	struct hm_map *map = view->view.map;
	struct hm_buffer *buffer = map->buffer;
	uint64_t length = atomic_load(&map->length);
	struct segment_list *segments = segments_get(buffer);
	int r;

	view->told = (struct hm_accel_map){
		.struct_size = sizeof(view->told),
		.backing = buffer_backing(buffer),
		.address = map->address,
		.length = length,
		.access = map_allows(map, 0, length, HM_WRITE) ? HM_READ | HM_WRITE : HM_READ,
		.limit = buffer->access,
		.device = buffer->device,
		.backend = buffer->device->ops->name,
		.segments = segments->segment,
		.n_segment = segments->n,
		.offset = map->offset,
	};
	r = view->accel->ops->view_create(view->accel->data, &view->told, &view->data);
	view->told.segments = NULL;
	view->told.n_segment = 0;
	segments_put(buffer, segments);
	return r;
}

int accel_view_pin(struct accel_view *view, void **ret_data)
{
	int r = 0;

	pthread_mutex_lock(&view->lock);
	while (view->changing || unlikely(is_stale(view) && view->n_pin))
		pthread_cond_wait(&view->unpinned, &view->lock);
	if (unlikely(is_stale(view))) {
		view->accel->ops->view_destroy(view->data);
		view->data = NULL;
	}
	if (!view->data)
		r = create_data(view);
	if (!r) {
		view->n_pin++;
		*ret_data = view->data;
	}
	pthread_mutex_unlock(&view->lock);
	return r;
}

void accel_view_unpin(struct accel_view *view)
{
	pthread_mutex_lock(&view->lock);
	if (!--view->n_pin)
		pthread_cond_broadcast(&view->unpinned);
	pthread_mutex_unlock(&view->lock);
}

void accel_view_detach_all(struct hm_accel *accel)
{
	struct accel_view *view, *next;
	CDS_LIST_HEAD(detached);

	pthread_mutex_lock(&view_mutex);
	while (!cds_list_empty(&accel->views)) {
		view = cds_list_first_entry(&accel->views, struct accel_view, accel_link);
		if (view_detach_locked(&view->view)) {
			cds_list_del(&view->accel_link);
			cds_list_add(&view->accel_link, &detached);
			continue;
		}
		/* The map is going: hook_release ends the view once it has the mutex. */
		pthread_mutex_unlock(&view_mutex);
		sched_yield();
		pthread_mutex_lock(&view_mutex);
	}
	pthread_mutex_unlock(&view_mutex);
	cds_list_for_each_entry_safe(view, next, &detached, accel_link) {
		empty(view);
		end(view);
	}
}
