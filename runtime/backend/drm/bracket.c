// SPDX-License-Identifier: MIT
/*
 * The CPU's access to objects that other users work on: a holder of an object's dma-buf or
 * handle may have work in flight on it, and only the kernel knows. An object that never left the
 * library has no such work, and the kernel is not asked.
 */
#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "map/bracket_walk.h"
#include "dmabuf/dmabuf.h"
#include "base/sys.h"
#include "base/util.h"

#include "backend/drm/drm.h"

/* Longest pause between two looks at a busy object; pauses double up to it. */
#define LOOK_MAX_NS (1000 * 1000)

int drm_wait_by_looks(struct drm_object *object, drm_look *look, bool for_write,
		      uint64_t timeout_ns)
{
	uint64_t begin = time_now_ns(), waited;
	struct timespec pause = { .tv_nsec = 1000 };
	bool for_ever = timeout_ns == UINT64_MAX;
	int r;

	for (;;) {
		r = look(object, for_write, !for_ever);
		if (r != -EBUSY)
			return r;
		if (for_ever)
			continue;
		waited = time_now_ns() - begin;
		if (waited >= timeout_ns)
			return -ETIME;
		pause.tv_nsec = (long)min_u64(min_u64(2 * (uint64_t)pause.tv_nsec, LOOK_MAX_NS),
					      timeout_ns - waited);
		nanosleep(&pause, NULL);
	}
}

/*
 * Keeps a dma-buf of the object for begin and end, where the driver can't wait by handle.
 * Drivers that can do better: DMA_BUF_IOCTL_SYNC of amdgpu moves an object out of VRAM for a
 * reader [amdgpu_dma_buf_begin_cpu_access()].
 */
int drm_object_shared(struct drm_object *object, int dma_buf)
{
	int fd, none = -1;

	object->own = false;
	if (object->dma_buf >= 0 || object->sync >= 0 || dma_buf < 0 ||
	    object->node->driver->wait)
		return 0;
	fd = sys_dup(dma_buf);
	if (fd < 0)
		return fd;
	/* Two buffers may be one object, and be exported at once. */
	if (!atomic_compare_exchange_strong(&object->sync, &none, fd))
		sys_close(fd);
	return 0;
}

/*
 * The dma-buf for begin and end, or -1. An import in a driver's own memory is one of the
 * driver's own objects [describe() in object.c]. A driver that waits by handle leaves it there,
 * though maps may go through the dma-buf.
 */
static int dma_buf_of(const struct drm_object *object)
{
	if (object->place == DRM_PLACE_VRAM && object->node->driver->wait)
		return -1;
	return object->dma_buf < 0 ? object->sync : object->dma_buf;
}

int drm_bracket_begin(struct drm_object *object, uint32_t access)
{
	const struct drm_driver *driver = object->node->driver;
	int fd = dma_buf_of(object), r;
	uint32_t said = err_count();

	if (fd >= 0)
		return dmabuf_begin_cpu(fd, access);
	if (!driver->wait)
		return 0;
	r = driver->wait(object, access & HM_WRITE, UINT64_MAX);
	return r ? drm_explain_row(object->node, said, r,
				   "waiting for other work on a buffer") :
		   0;
}

int drm_bracket_end(struct drm_object *object, uint32_t access)
{
	const struct drm_driver *driver = object->node->driver;
	int fd = dma_buf_of(object), r;
	uint32_t said = err_count();

	if (fd >= 0)
		return dmabuf_end_cpu(fd, access);
	if (!driver->wait_end)
		return 0;
	r = driver->wait_end(object);
	return r ? drm_explain_row(object->node, said, r, "ending an access to a buffer") : 0;
}

static bool takes_part(const struct hm_segment *segment)
{
	const struct drm_object *object = segment->object;

	return !object->own;
}

static int begin_segment(const struct hm_segment *segment, uint32_t access)
{
	return drm_bracket_begin(segment->object, access);
}

static int end_segment(const struct hm_segment *segment, uint32_t access)
{
	return drm_bracket_end(segment->object, access);
}

static const struct bracket_walk walk = { takes_part, begin_segment, end_segment };

int drm_segments_begin(void *device, const struct hm_segment *segments, uint32_t n_segment,
		       uint64_t offset, uint64_t length, uint32_t access)
{
	(void)device;
	return bracket_walk_begin(&walk, segments, n_segment, offset, length, access);
}

int drm_segments_end(void *device, const struct hm_segment *segments, uint32_t n_segment,
		     uint64_t offset, uint64_t length, uint32_t access)
{
	(void)device;
	return bracket_walk_end(&walk, segments, n_segment, offset, length, access);
}
