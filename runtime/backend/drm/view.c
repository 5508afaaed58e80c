// SPDX-License-Identifier: MIT
/*
 * Handles for callers that submit work by a driver's own calls: of buffers on the node, and of
 * any map's memory, which a driver takes in where it is (userptr).
 *
 * Such a view is a caller's view with a handle, which is closed before a change and made anew
 * after it. Its lock is a leaf, held over calls on the node; a change takes the lock before it
 * changes anything.
 */
#include <hetmap/drm.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "hook/hook.h"
#include "core/buffer.h"
#include "core/core.h"
#include "core/device_link.h"
#include "loss/device_loss.h"
#include "map/remap.h"
#include "share/share.h"
#include "base/sys.h"
#include "map/view.h"

#include "backend/drm/drm.h"

static int check_out(const struct hm_drm_handle *handle, const char *what)
{
	if (!handle)
		return err_set(-EINVAL, "%s: ret_handle is NULL", what);
	return struct_check_out(handle->struct_size, sizeof(*handle),
				offsetof(struct hm_drm_handle, length), "hm_drm_handle");
}

static void write_out(struct hm_drm_handle *to, struct hm_drm_handle *handle)
{
	handle->struct_size = to->struct_size;
	struct_write(to, handle, to->struct_size);
}

/* ---- handles of buffers ---- */

int hm_drm_buffer_handle(struct hm_buffer *buffer, uint64_t offset,
			 struct hm_drm_handle *ret_handle)
{
	struct hm_drm_handle handle = { 0 };
	const struct hm_segment *segment;
	struct drm_object *object;
	int r;

	err_begin();
	r = buffer_check(buffer);
	if (!r)
		r = check_out(ret_handle, "hm_drm_buffer_handle");
	if (r)
		return r;
	if (!drm_node_of(buffer->device))
		return err_set(-EOPNOTSUPP,
			       "%s is a buffer of %s, which is no DRM node: "
			       "hm_drm_view_create() makes an object of its memory",
			       buffer->name, buffer->device->name);
	r = hook_export(buffer, 0);
	if (!r)
		r = device_loss_check_buffer(buffer);
	if (!r)
		r = buffer_lock(buffer);
	if (r)
		return r;
	if (offset >= buffer->size) {
		r = err_set(-ERANGE, "%s has %" PRIu64 " bytes: there is no byte %" PRIu64,
			    buffer->name, buffer->size, offset);
		goto out;
	}
	segment = &buffer->segment[buffer_segment_at(buffer, offset)];
	object = segment->object;
	/* No dma-buf: there is none yet by which the holder of the handle could be waited for. */
	drm_object_shared(object, -1);
	buffer->exported = true;
	handle.handle = object->handle;
	handle.fd = object->node->fd;
	handle.access = buffer->access;
	handle.offset = offset - segment->offset;
	handle.length = min_u64(segment->offset + segment->length, buffer->size) - offset;
	write_out(ret_handle, &handle);
out:
	buffer_unlock(buffer);
	return r;
}

/* ---- handles of any memory ---- */

/* Leaves no text: the request for the handle will tell the error. */
static int make_handle(struct hm_drm_view *view, void *address, uint64_t length)
{
	struct drm_node *node = view->node;
	int r;

	view->user =
		(struct drm_object){ .node = node, .dma_buf = -1, .sync = -1, .read_only = -1 };
	r = node->gone ? -ENODEV :
			 node->driver->userptr(node, address, round_up(length, page_size()),
					       view->access & HM_WRITE, &view->user);
	/* i915's answer for hardware that can't, or without read-only objects. */
	if (r == -ENODEV && !node->gone)
		r = -EOPNOTSUPP;
	view->error = r;
	view->open = !r;
	view->user.asked = length;
	return r;
}

static void close_handle(struct hm_drm_view *view, int why)
{
	if (view->open)
		drm_handle_close(view->node, view->user.handle);
	view->open = false;
	view->error = why;
}

static int explain(const struct hm_drm_view *view, int r)
{
	struct drm_node *node = view->node;

	switch (r) {
	case 0:
		return 0;
	case -EOPNOTSUPP:
		return err_set(r,
			       "drm:%s (%s): this hardware imports no memory of a process, or "
			       "none that it may only read",
			       node->path, node->name);
	case -EFAULT:
		return err_set(r,
			       "drm:%s (%s): the driver can't use the map's pages, which may "
			       "be of a file on storage or of a device: copy them into a "
			       "buffer of \"host\"",
			       node->path, node->name);
	case -ERANGE:
		return err_set(r,
			       "drm:%s (%s): the map was shortened and ends before the view "
			       "begins",
			       node->path, node->name);
	case -ENODEV:
		if (node->gone)
			break;
		return err_set(
			r,
			"drm:%s (%s): the map is lost, or its device was taken away: unref "
			"the view",
			node->path, node->name);
	case -EACCES:
		return err_set(r, "drm:%s (%s): the map no longer allows the view's access",
			       node->path, node->name);
	default:
		break;
	}
	return drm_explain(node, r, "making an object of a map's memory");
}

static int wait_for(struct hm_drm_view *view, bool for_write, uint64_t timeout_ns)
{
	int r = view->node->driver->wait(&view->user, for_write, timeout_ns);

	/* A device that is gone has no work left. */
	return r == -ENODEV ? 0 : r;
}

/* True: no caller holds the handle, and none gets it before end_change(). */
static bool begin_change(struct hm_drm_view *view)
{
	bool begun;

	pthread_mutex_lock(&view->lock);
	begun = !view->n_hold;
	view->changing = begun;
	pthread_mutex_unlock(&view->lock);
	return begun;
}

static void end_change(struct hm_drm_view *view)
{
	pthread_mutex_lock(&view->lock);
	view->changing = false;
	pthread_mutex_unlock(&view->lock);
}

/*
 * Waits without the lock, so that a request for the handle is refused at once. The handle stays:
 * it is closed and made with the map's change held, which is held here.
 */
static int quiesce(void *user, const struct hm_view_change *change)
{
	struct hm_drm_view *view = user;
	int r;

	(void)change;
	if (!begin_change(view))
		return -EBUSY;
	r = view->open ? wait_for(view, true, REMAP_TIMEOUT_NS) : 0;
	if (r)
		end_change(view);
	return r;
}

static void invalidate(void *user, const struct hm_view_change *change)
{
	struct hm_drm_view *view = user;

	(void)change;
	pthread_mutex_lock(&view->lock);
	close_handle(view, -EBUSY);
	pthread_mutex_unlock(&view->lock);
}

static void reattach(void *user, const struct hm_view_change *change)
{
	struct hm_drm_view *view = user;

	pthread_mutex_lock(&view->lock);
	view->changing = false;
	/* A view that was only asked still has its handle. */
	if (view->open)
		goto out;
	if (!change->new_length)
		view->error = -ERANGE;
	else if (view->access & ~change->new_access)
		view->error = -EACCES;
	else
		make_handle(view, change->new_address, change->new_length);
out:
	pthread_mutex_unlock(&view->lock);
}

static void lost(void *user)
{
	struct hm_drm_view *view = user;

	pthread_mutex_lock(&view->lock);
	view->changing = false;
	close_handle(view, -ENODEV);
	pthread_mutex_unlock(&view->lock);
}

/* The map's change is held: no other thread closes the handle meanwhile. */
static int begin_cpu(void *user, uint32_t access)
{
	struct hm_drm_view *view = user;
	uint32_t said = err_count();
	int r;

	if (!view->open)
		return 0;
	r = wait_for(view, access & HM_WRITE, UINT64_MAX);
	return r ? drm_explain_row(view->node, said, r, "waiting for work on a map's memory") :
		   0;
}

static const struct hm_view_ops ops = {
	.struct_size = sizeof(ops),
	.quiesce = quiesce,
	.invalidate = invalidate,
	.reattach = reattach,
	.lost = lost,
};

static int check_args(struct hm_map *map, uint64_t offset, uint64_t length,
		      const struct hm_device *device, const struct drm_node *node,
		      uint32_t access)
{
	const struct hm_buffer *buffer = map->buffer;
	uint64_t end = offset + length, page = page_size();

	if (!node)
		return err_set(-EOPNOTSUPP,
			       "hm_drm_view_create: %s is no DRM node: pass one "
			       "as \"drm:amdgpu\"",
			       device->name);
	if (!node->driver->userptr)
		return err_set(-EOPNOTSUPP,
			       "drm:%s: the driver %s imports no memory of a process, as "
			       "amdgpu and i915 do: export the buffer as a dma-buf "
			       "(HM_EXPORT_DMABUF)",
			       node->path, node->name);
	if (!buffer_is(buffer, HM_MEMORY_SPARSE | HM_MEMORY_STORAGE | MEMORY_ANON))
		return err_set(-EOPNOTSUPP,
			       "%s: pages of %s can't be held by another device: export the "
			       "buffer, and import it on drm:%s",
			       buffer->name, buffer->device->name, node->path);
	if (access != HM_READ && access != (HM_READ | HM_WRITE))
		return err_set(-EINVAL,
			       "hm_drm_view_create: access 0x%x is neither HM_READ nor "
			       "HM_READ | HM_WRITE",
			       access);
	if (!is_aligned(offset, page) || (!is_aligned(length, page) && end != map->length))
		return err_set(-EINVAL,
			       "hm_drm_view_create: %" PRIu64 " bytes from %" PRIu64
			       " on are not whole pages of %" PRIu64,
			       length, offset, page);
	return 0;
}

static int make_locked(struct hm_drm_view *view, struct hm_map *map, uint64_t offset,
		       uint64_t length)
{
	int r;

	if (!length)
		length = map->length - offset;
	if (!map_allows(map, offset, length, view->access))
		return err_set(-EACCES,
			       "hm_drm_view_create: the map does not allow the access "
			       "everywhere in %" PRIu64 " bytes from %" PRIu64 " on",
			       length, offset);
	pthread_mutex_lock(&view->lock);
	r = explain(view, make_handle(view, map->address + offset, length));
	pthread_mutex_unlock(&view->lock);
	return r;
}

/* The map must not change until the handle is made; the device may go at any time. */
static int attach(struct hm_drm_view *view, struct hm_map *map, uint64_t offset,
		  uint64_t length)
{
	int r;

	r = remap_lock(map);
	if (r)
		return r;
	r = view_create_locked(map, offset, length, &ops, begin_cpu, view, &view->view);
	if (!r)
		r = make_locked(view, map, offset, length);
	remap_unlock(map);
	return r;
}

static void destroy(struct hm_drm_view *view)
{
	struct drm_node *node = view->node;

	/* No callback comes any more. */
	hm_view_unref(view->view);
	close_handle(view, -ENODEV);
	pthread_mutex_destroy(&view->lock);
	view->object.kind = OBJECT_FREED;
	free(view);
	drm_node_put(node);
}

static void destroy_deferred(struct view_deferred *deferred)
{
	struct hm_drm_view *view = caa_container_of(deferred, struct hm_drm_view, deferred);

	/* In a child of a callback the locks are as the parent had them. */
	if (view->object.fork_gen == fork_generation)
		destroy(view);
}

/* In a callback: another of the view's may be running in another thread. */
static void end(struct hm_drm_view *view)
{
	if (unlikely(view_in_callback()))
		view_defer(&view->deferred, destroy_deferred);
	else
		destroy(view);
}

int hm_drm_view_create(struct hm_map *map, uint64_t offset, uint64_t length,
		       struct hm_device *device, uint32_t access, struct hm_drm_view **ret_view)
{
	struct device_link *link;
	struct hm_drm_view *view;
	struct drm_node *node;
	int r;

	err_begin();
	r = map_check(map);
	if (!r)
		r = object_check((struct hm_object *)device, OBJECT_DEVICE);
	if (!r && !ret_view)
		r = err_set(-EINVAL, "hm_drm_view_create: ret_view is NULL");
	if (r)
		return r;
	link = link_get(device);
	node = drm_node_of(device) ? link->backend : NULL;
	r = check_args(map, offset, length, device, node, access);
	if (!r)
		drm_node_ref(node);
	link_put(device, link);
	if (r)
		return r;
	r = hook_export(map->buffer, access & HM_WRITE ? 0 : HM_EXPORT_READ_ONLY);
	if (r)
		goto err_node;
	view = sys_calloc(1, sizeof(*view));
	if (!view) {
		r = err_set(-ENOMEM, "no memory for a view");
		goto err_node;
	}
	object_init(&view->object, OBJECT_DRM_VIEW);
	pthread_mutex_init(&view->lock, NULL);
	view->access = access;
	view->node = node;
	r = attach(view, map, offset, length);
	if (r)
		goto err_destroy;
	*ret_view = view;
	return 0;

err_destroy:
	end(view);
	return r;
err_node:
	drm_node_put(node);
	return r;
}

int hm_drm_view_hold(struct hm_drm_view *view, struct hm_drm_handle *ret_handle)
{
	struct hm_drm_handle handle = { 0 };
	int r;

	err_begin();
	r = object_check((struct hm_object *)view, OBJECT_DRM_VIEW);
	if (!r)
		r = check_out(ret_handle, "hm_drm_view_hold");
	if (r)
		return r;
	pthread_mutex_lock(&view->lock);
	if (view->changing)
		r = err_set(-EBUSY, "the view's map is being changed: try again");
	else if (view->node->gone)
		r = explain(view, -ENODEV);
	else if (!view->open)
		r = explain(view, view->error);
	if (r)
		goto out;
	view->n_hold++;
	handle.handle = view->user.handle;
	handle.fd = view->node->fd;
	handle.access = view->access;
	handle.length = view->user.asked;
	write_out(ret_handle, &handle);
out:
	pthread_mutex_unlock(&view->lock);
	return r;
}

void hm_drm_view_release(struct hm_drm_view *view)
{
	int r;

	err_hold(); /* no error: nothing is held in a view of another process */
	r = object_check((struct hm_object *)view, OBJECT_DRM_VIEW);
	err_release();
	if (r)
		return;
	pthread_mutex_lock(&view->lock);
	if (view->n_hold)
		view->n_hold--;
	pthread_mutex_unlock(&view->lock);
}

void hm_drm_view_unref(struct hm_drm_view *view)
{
	if (!view || !object_put(&view->object))
		return;
	err_hold();
	end(view);
	err_release();
}
