// SPDX-License-Identifier: MIT
/* The functions behind brackets around CPU access. */

#include "map/bracket.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

#include "dmabuf/dmabuf.h"
#include "core/device_link.h"
#include "loss/loss.h"
#include "map/bracket_settled.h"
#include "map/map.h"
#include "fault/reach.h"
#include "map/remap.h"
#include "fault/repair.h"
#include "core/segments.h"
#include "base/sys.h"
#include "map/view.h"

int bracket_nothing(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	(void)map, (void)offset, (void)length, (void)access;
	return 0;
}

/* Calls the begin_cpu or end_cpu hook of each view of the range; returns the first error. */
static int call_views(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access,
		      bool begin)
{
	struct map_view *view = NULL;
	uint64_t end;
	int r, first = 0;

	/* Keeps views from going while a hook works; a callback must not come here. */
	r = remap_lock(map);
	if (r)
		return r;
	while ((view = view_behind(map, view))) {
		int (*hook)(struct map_view * view, uint64_t offset, uint64_t length,
			    uint32_t access) = begin ? view->hooks->begin_cpu :
						       view->hooks->end_cpu;

		end = view->length ? view->offset + view->length : map->length;
		if (!hook || offset >= end || offset + length <= view->offset)
			continue;
		r = hook(view, offset, length, access);
		if (r && !first)
			first = r;
	}
	remap_unlock(map);
	return first;
}

int bracket_views_begin(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	return call_views(map, offset, length, access, true);
}

int bracket_views_end(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	return call_views(map, offset, length, access, false);
}

typedef int device_op(void *device, const struct hm_segment *segments, uint32_t n_segment,
		      uint64_t offset, uint64_t length, uint32_t access);

/*
 * Holds no lock, because a device may take as long as its work does. If the buffer changes
 * meanwhile, the access belongs to the objects that it had; no device knows a new object yet.
 */
static inline int call_device(struct hm_map *map, uint64_t offset, uint64_t length,
			      uint32_t access, device_op *op, const char *what)
{
	struct hm_buffer *buffer = map->buffer;
	const struct hm_device *device = buffer->device;
	uint32_t said = err_count();
	struct segment_list *segments;
	int r;

	segments = segments_get(buffer);
	r = op(segments->link->backend, segments->segment, segments->n, map->offset + offset,
	       length, access);
	segments_put(buffer, segments);
	return likely(!r) ? 0 : backend_explain(device->ops, said, r, what);
}

/*
 * The result may tell of a loss. The call that begins or ends the access handles it, when it has no
 * bracket open.
 */
static inline int tell_device(struct hm_map *map, uint64_t offset, uint64_t length,
			      uint32_t access, device_op *op, const char *what)
{
	err_clear();
	return call_device(map, offset, length, access, op, what);
}

/*
 * The cold half is a function of its own: inlined, it would make the compiler save registers
 * each time, and call the hot half in another page.
 */
__attribute__((noinline, cold)) int bracket_begin_unsettled(struct hm_map *map, uint64_t offset,
							    uint64_t length, uint32_t access)
{
	const struct hm_backend_ops *ops = map->buffer->device->ops;
	int r = tell_device(map, offset, length, access, ops->begin_cpu, "begin_cpu");

	return unlikely(!r && backend_has(ops, HM_BACKEND_REACH)) ? reach_settle(map->buffer) :
								    r;
}

int bracket_device_begin(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	return bracket_begin_inline(map, offset, length, access);
}

__attribute__((noinline, cold)) int bracket_end_unsettled(struct hm_map *map, uint64_t offset,
							  uint64_t length, uint32_t access)
{
	return tell_device(map, offset, length, access, map->buffer->device->ops->end_cpu,
			   "end_cpu");
}

int bracket_device_end(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	return bracket_end_inline(map, offset, length, access);
}

static int device_views_begin(struct hm_map *map, uint64_t offset, uint64_t length,
			      uint32_t access)
{
	int r;

	r = bracket_device_begin(map, offset, length, access);
	if (r)
		return r;
	r = bracket_views_begin(map, offset, length, access);
	if (r)
		goto err_device;
	return 0;

err_device:
	err_hold();
	bracket_device_end(map, offset, length, access);
	err_release();
	return r;
}

static int device_views_end(struct hm_map *map, uint64_t offset, uint64_t length,
			    uint32_t access)
{
	int r = bracket_views_end(map, offset, length, access);
	int end = bracket_device_end(map, offset, length, access);

	return r ? r : end;
}

int bracket_turn_begin(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	uint32_t before;
	int r;

	r = bracket_device_begin(map, offset, length, access);
	if (!r && backend_has(map->buffer->device->ops, HM_BACKEND_BRACKET_END)) {
		before = atomic_exchange(&map->turn, access);
		if (before)
			r = bracket_device_end(map, offset, length, before);
	}
	return r;
}

int bracket_turn_end(struct hm_map *map, uint32_t *ret_access)
{
	uint32_t access = HM_NONE;
	int fd;

	if (unlikely(atomic_load_explicit(&map->turn, memory_order_relaxed)))
		access = atomic_exchange(&map->turn, HM_NONE);
	if (ret_access)
		*ret_access = access;
	if (likely(!access))
		return 0;
	fd = bracket_settled_fd(map, 0, map->length);
	return fd >= 0 ? dmabuf_end_cpu(fd, access) :
			 call_device(map, 0, map->length, access,
				     map->buffer->device->ops->end_cpu, "end_cpu");
}

/*
 * Can another device have the map's bytes? A dma-buf's, once it was exported or imported, or as
 * long as there are views, which are told of segments; another backend's at any time.
 */
static bool has_device(const struct hm_map *map)
{
	const struct hm_buffer *buffer = map->buffer;

	return buffer->caps & HM_CAP_BRACKET &&
	       (!backend_has(buffer->device->ops, HM_BACKEND_BRACKET_DMABUF) || map->n_view ||
		atomic_load_explicit(&buffer->settled_fd, memory_order_relaxed) >= 0);
}

void bracket_choose(struct hm_map *map, bool begin, bool end)
{
	if (unlikely(has_device(map))) {
		map->bracket_begin = begin ? device_views_begin : bracket_device_begin;
		map->bracket_end = end ? device_views_end : bracket_device_end;
	} else {
		map->bracket_begin = begin ? bracket_views_begin : bracket_nothing;
		map->bracket_end = end ? bracket_views_end : bracket_nothing;
	}
}
