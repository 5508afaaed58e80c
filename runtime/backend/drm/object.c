// SPDX-License-Identifier: MIT
/* A node's objects by their handles: made, imported, closed by the last holder. */
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "dmabuf/dmabuf.h"
#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"

#include "backend/drm/drm.h"

/*
 * Protects the nodes' lists and refs. Held over the calls that open and close a handle, so that
 * no import gets a handle that is being closed.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void drm_handle_close(struct drm_node *node, uint32_t handle)
{
	struct drm_gem_close gem_close = { .handle = handle };

	/* Another file may have the same number for a handle of its own. */
	if (drm_node_is_lost(node))
		return;
	/* A device that is gone closes its handles with the node. */
	drm_call(node, DRM_IOCTL_GEM_CLOSE, &gem_close);
}

static struct drm_object *find_locked(struct drm_node *node, uint32_t handle)
{
	struct drm_object *object;

	cds_list_for_each_entry(object, &node->objects, link)
		if (object->handle == handle)
			return object;
	return NULL;
}

static struct drm_object *object_alloc(struct drm_node *node)
{
	struct drm_object *object = sys_calloc(1, sizeof(*object));

	if (object) {
		object->node = node;
		object->refs = 1;
		object->dma_buf = -1;
		object->read_only = -1;
		object->sync = -1;
	} else {
		err_set(-ENOMEM, "no memory for an object's description");
	}
	return object;
}

static void add_locked(struct drm_object *object)
{
	drm_node_ref(object->node);
	cds_list_add(&object->link, &object->node->objects);
}

static int make(struct drm_node *node, uint64_t size, enum drm_place place,
		struct drm_object **ret_object)
{
	struct drm_object *object = object_alloc(node);
	uint32_t said = err_count();
	char what[48], text[16];
	int r;

	if (!object)
		return -ENOMEM;
	r = node->driver->create(node, size, place, object);
	if (r) {
		snprintf(what, sizeof(what), "making a buffer of %s",
			 format_bytes(size, text, sizeof(text)));
		r = drm_explain_row(node, said, r, what);
		goto err_free;
	}
	r = node->driver->map_offset(object);
	if (r) {
		r = drm_explain_row(node, said, r, "the map offset of a buffer");
		goto err_handle;
	}
	object->own = true;
	object->asked = size;
	object->wanted = place;
	*ret_object = object;
	return 0;

err_handle:
	drm_handle_close(node, object->handle);
err_free:
	free(object);
	return r;
}

int drm_object_create(struct drm_node *node, uint64_t size, enum drm_place place,
		      struct drm_object **ret_object)
{
	struct drm_object *object;
	int r;

	r = drm_node_check(node, "making a buffer");
	if (r)
		return r;
	object = drm_idle_take(node, size, place);
	if (!object)
		r = make(node, size, place, &object);
	if ((r == -ENOMEM || r == -ENOSPC) && drm_idle_empty()) {
		err_clear();
		r = make(node, size, place, &object);
	}
	if (r)
		return r;
	pthread_mutex_lock(&lock);
	add_locked(object);
	pthread_mutex_unlock(&lock);
	*ret_object = object;
	return 0;
}

/* Describes an imported object. */
static int describe(struct drm_object *object, int fd)
{
	struct drm_node *node = object->node;
	uint32_t said = err_count();
	struct stat st;
	int r;

	r = sys_fstat(fd, &st);
	if (r)
		return drm_explain(node, r, "the size of a dma-buf");
	object->size = (uint64_t)st.st_size;
	object->cache = HM_CACHE_UNKNOWN;
	r = node->driver->describe ? node->driver->describe(object) : 0;
	if (r)
		return drm_explain_row(node, said, r, "the description of a dma-buf");
	r = node->driver->map_offset(object);
	if (r && r != -EINVAL)
		return drm_explain_row(node, said, r, "the map offset of a dma-buf");
	if (r) {
		/* [drm_gem_dumb_map_offset()] The object is mapped as its maker maps it. */
		object->dma_buf = sys_dup(fd);
		if (object->dma_buf < 0)
			return drm_explain(node, object->dma_buf, "duplicating a dma-buf");
		/*
		 * An object in a driver's own memory is one that this driver made. The driver
		 * takes all other objects for pages of system memory, even those in another
		 * device's window.
		 */
		if (object->place != DRM_PLACE_VRAM)
			object->cache = HM_CACHE_UNKNOWN;
	}
	r = drm_object_shared(object, fd);
	return r ? drm_explain(node, r, "duplicating a dma-buf") : 0;
}

static int explain_import(struct drm_node *node, int r)
{
	switch (r) {
	case -EINVAL:
	case -ENOTTY:
		r = err_set(-EINVAL,
			    "drm:%s (%s): the descriptor is no dma-buf: pass one that "
			    "hm_buffer_export() or a driver made",
			    node->path, node->name);
		return err_with_name(r);
	case -ENODEV:
		if (node->gone)
			break;
		r = err_set(-EOPNOTSUPP,
			    "drm:%s: the driver %s imports its own dma-bufs only: import this "
			    "one on the device that exported it",
			    node->path, node->name);
		return err_with_name(r);
	default:
		break;
	}
	return drm_explain(node, r, "taking a dma-buf in");
}

int drm_object_import(struct drm_node *node, int fd, struct drm_object **ret_object)
{
	struct drm_prime_handle prime = { .fd = fd };
	struct drm_object *object, *fresh;
	int r;

	r = drm_node_check(node, "taking a dma-buf in");
	if (r)
		return r;
	fresh = object_alloc(node);
	if (!fresh)
		return -ENOMEM;
	pthread_mutex_lock(&lock);
	r = drm_call(node, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime);
	if (r) {
		r = explain_import(node, r);
		goto out;
	}
	object = find_locked(node, prime.handle);
	if (object) {
		object->refs++;
	} else {
		fresh->handle = prime.handle;
		r = describe(fresh, fd);
		if (r) {
			drm_handle_close(node, prime.handle);
			goto out;
		}
		add_locked(fresh);
		object = fresh;
		fresh = NULL;
	}
	*ret_object = object;
out:
	pthread_mutex_unlock(&lock);
	free(fresh);
	return r;
}

static int check_rights(struct drm_node *node, int fd, bool write)
{
	int flags = sys_fcntl(fd, F_GETFL, 0);

	if (flags < 0)
		return drm_explain(node, flags, "the rights of a dma-buf");
	if (((flags & O_ACCMODE) == O_RDWR) == write)
		return 0;
	if (write)
		return err_set(-EBUSY,
			       "drm:%s (%s): the buffer was exported read-only first, and the "
			       "kernel keeps one dma-buf of it: export it for writing first",
			       node->path, node->name);
	return err_set(-EBUSY,
		       "drm:%s (%s): the buffer was imported read-only, and the kernel's one "
		       "dma-buf of it may be written: it can't be exported",
		       node->path, node->name);
}

int drm_object_export(struct drm_object *object, bool write, int *ret_fd)
{
	struct drm_node *node = object->node;
	struct drm_prime_handle prime = {
		.handle = object->handle,
		.flags = DRM_CLOEXEC | (write ? DRM_RDWR : 0),
	};
	int r;

	r = drm_node_check(node, "exporting a buffer");
	if (r)
		return r;
	/* From here on the object may have other users, whether the call succeeds or not. */
	object->own = false;
	r = drm_call(node, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime);
	if (r)
		return drm_explain(node, r, "exporting a buffer");
	r = check_rights(node, prime.fd, write);
	if (r) {
		r = err_with_name(r);
		goto err_close;
	}
	r = drm_object_shared(object, prime.fd);
	if (r) {
		r = drm_explain(node, r, "a further descriptor of a dma-buf");
		goto err_close;
	}
	*ret_fd = prime.fd;
	return 0;

err_close:
	sys_close(prime.fd);
	return r;
}

int drm_object_keep_read_only(struct drm_object *object, int dma_buf)
{
	int fd, none = -1;

	if (object->read_only >= 0)
		return 0;
	fd = sys_dup(dma_buf);
	if (fd < 0)
		return drm_explain(object->node, fd, "duplicating a dma-buf");
	/* Two threads may import at once. */
	if (!atomic_compare_exchange_strong(&object->read_only, &none, fd))
		sys_close(fd);
	return 0;
}

void drm_object_end(struct drm_object *object)
{
	void *mapped = drm_idle_take_mapping(object);

	if (mapped)
		sys_munmap(mapped, object->asked);
	/*
	 * The handle of a shared object was closed under the lock, so that no import could find
	 * it.
	 */
	if (object->own)
		drm_handle_close(object->node, object->handle);
	if (object->dma_buf >= 0)
		sys_close(object->dma_buf);
	if (object->sync >= 0)
		sys_close(object->sync);
	if (object->read_only >= 0)
		sys_close(object->read_only);
	free(object);
}

void drm_object_put(struct drm_object *object)
{
	struct drm_node *node = object->node;
	bool last;

	pthread_mutex_lock(&lock);
	last = !--object->refs;
	if (last) {
		cds_list_del(&object->link);
		if (!object->own)
			drm_handle_close(node, object->handle);
	}
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	if (!drm_idle_put(object))
		drm_object_end(object);
	drm_node_put(node);
}

struct hm_segment drm_object_segment(struct drm_object *object, uint64_t length, bool read_only)
{
	int dma_buf = read_only ? object->read_only : object->dma_buf;
	const struct drm_node *node = object->node;

	return (struct hm_segment){
		.length = length,
		.fd = dma_buf < 0 ? node->fd : dma_buf,
		.fd_offset = dma_buf < 0 ? object->map_offset : 0,
		.flags = HM_SEGMENT_SHARED | HM_SEGMENT_FROM_START | HM_SEGMENT_MAY_REFUSE |
			 (node->driver->present ? HM_SEGMENT_PRESENT : 0) |
			 (object->whole ? HM_SEGMENT_WHOLE : 0) |
			 (dma_buf < 0 ? 0 : dmabuf_map_flags(dma_buf)),
		.object = object,
	};
}

void drm_objects_lock(void)
{
	pthread_mutex_lock(&lock);
}

void drm_objects_unlock(void)
{
	pthread_mutex_unlock(&lock);
}
