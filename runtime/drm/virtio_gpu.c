// SPDX-License-Identifier: MIT
/* virtio_gpu: a machine's graphics card as its host makes it [virtgpu_drm.h]. */
#include <drm.h>
#include <errno.h>
#include <inttypes.h>
#include <virtgpu_drm.h>

#include "err.h"
#include "util.h"

#include "drm/drm.h"

/* PIPE_TEXTURE_2D, VIRTIO_GPU_FORMAT_B8G8R8A8_UNORM: what hosts without 3D have, too. */
#define TARGET_2D 2
#define FORMAT_BGRA 1

/* drm_virtgpu_resource_create.size has 32 bits. */
#define SIZE_MAX_2D round_down(UINT32_MAX, page_size())

static int virtio_create(struct drm_node *node, uint64_t size, enum drm_place place,
			 struct drm_object *object)
{
	/*
	 * The picture, which the host keeps too, is one pixel: what the CPU maps is the
	 * memory behind it, which is as large as we say.
	 */
	struct drm_virtgpu_resource_create create = {
		.target = TARGET_2D,
		.format = FORMAT_BGRA,
		.width = 1,
		.height = 1,
		.depth = 1,
		.array_size = 1,
		.size = (uint32_t)size,
	};
	int r;

	if (place == DRM_PLACE_VRAM)
		return err_set(-EOPNOTSUPP,
			       "drm:%s (%s): its buffers are in system memory, it has no "
			       "memory of its own",
			       node->path, node->name);
	if (size > SIZE_MAX_2D)
		return err_set(-ENOSPC,
			       "drm:%s (%s): %" PRIu64 " bytes are more than a buffer can "
			       "have there, %" PRIu64,
			       node->path, node->name, size, (uint64_t)SIZE_MAX_2D);
	r = drm_call(node, DRM_IOCTL_VIRTGPU_RESOURCE_CREATE, &create);
	if (r)
		return r;
	object->handle = create.bo_handle;
	object->size = size;
	object->place = DRM_PLACE_SYSTEM;
	object->cache = HM_CACHE_WRITE_BACK;
	return 0;
}

static int virtio_map_offset(struct drm_object *object)
{
	struct drm_virtgpu_map map = { .handle = object->handle };
	int r;

	r = drm_call(object->node, DRM_IOCTL_VIRTGPU_MAP, &map);
	if (!r)
		object->map_offset = map.offset;
	return r;
}

static int virtio_describe(struct drm_object *object)
{
	object->place = DRM_PLACE_SYSTEM;
	object->cache = HM_CACHE_WRITE_BACK;
	return 0;
}

static int virtio_wait(struct drm_object *object, bool for_write, uint64_t timeout_ns)
{
	struct drm_virtgpu_3d_wait wait = {
		.handle = object->handle,
		.flags = timeout_ns ? 0 : VIRTGPU_WAIT_NOWAIT,
	};
	int r;

	/* It waits for reads and writes alike, 15 s at most [virtio_gpu_wait_ioctl()]. */
	(void)for_write;
	r = drm_call(object->node, DRM_IOCTL_VIRTGPU_WAIT, &wait);
	return r == -EBUSY ? -ETIME : r;
}

const struct drm_driver drm_virtio_gpu = {
	.name = "virtio_gpu",
	.description = "memory of a virtual machine's graphics card",
	.caps = HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_EXPORT,
	.present = true,
	.create = virtio_create,
	.map_offset = virtio_map_offset,
	.describe = virtio_describe,
	.wait = virtio_wait,
};
