// SPDX-License-Identifier: MIT
/*
 * Driver "virtio_gpu": a virtual machine's graphics card. Values of fields follow the kernel's
 * drivers/gpu/drm/virtio/: virtgpu_ioctl.c, virtgpu_object.c, virtgpu_vram.c. Three kinds of
 * memory:
 *
 *     guest blob   the machine's own; the host has a list of its pages. It has no format,
 *                  64 bits of size and no picture at the host, and other virtio devices
 *                  import it: the default where the host knows blobs
 *     2D resource  the same memory behind a picture of one pixel, for other hosts
 *     host blob    the host's memory in a window of the machine's: on request, where the
 *                  host has the window and a kind of context that gives memory
 */
#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/util.h"

#include "backend/drm/drm.h"
#include "backend/drm/uapi/virtgpu.h"

/* drm_node.data */
enum {
	NODE_BLOB,    /* the host knows blobs */
	NODE_VISIBLE, /* and shows its memory in a window */
	NODE_CROSS,   /* other virtio devices can import objects by a UUID */
	NODE_HOST,    /* this file has a context that gives the host's memory */
};

/* PIPE_TEXTURE_2D, VIRTIO_GPU_FORMAT_B8G8R8A8_UNORM: hosts without 3D have them, too. */
#define TARGET_2D 2
#define FORMAT_BGRA 1

/* drm_virtgpu_resource_create.size has 32 bits. */
#define SIZE_MAX_2D round_down(UINT32_MAX, page_size())

/* 0 where the kernel does not know the question. */
static int ask(struct drm_node *node, uint64_t what, uint64_t *ret_value)
{
	int value = 0;
	struct drm_virtgpu_getparam param = { .param = what, .value = (uintptr_t)&value };
	int r;

	r = drm_call(node, DRM_IOCTL_VIRTGPU_GETPARAM, &param);
	if (r && r != -EINVAL)
		return r;
	*ret_value = r ? 0 : (uint32_t)value;
	return 0;
}

/*
 * Makes a Venus context: blob 0 of it is ordinary memory of the host [virglrenderer,
 * vkr_context_get_blob()]; other contexts give only memory that commands made before. A file has
 * one context, for good, and without this its first object would give it another.
 */
static int make_context(struct drm_node *node)
{
	struct drm_virtgpu_context_set_param capset = {
		.param = VIRTGPU_CONTEXT_PARAM_CAPSET_ID,
		.value = VIRTGPU_DRM_CAPSET_VENUS,
	};
	struct drm_virtgpu_context_init init = {
		.num_params = 1,
		.ctx_set_params = (uintptr_t)&capset,
	};

	return drm_call(node, DRM_IOCTL_VIRTGPU_CONTEXT_INIT, &init);
}

static int virtio_open(struct drm_node *node)
{
	uint64_t contexts = 0, capsets = 0;
	int r;

	r = ask(node, VIRTGPU_PARAM_RESOURCE_BLOB, &node->data[NODE_BLOB]);
	if (!r)
		r = ask(node, VIRTGPU_PARAM_HOST_VISIBLE, &node->data[NODE_VISIBLE]);
	if (!r)
		r = ask(node, VIRTGPU_PARAM_CROSS_DEVICE, &node->data[NODE_CROSS]);
	if (!r)
		r = ask(node, VIRTGPU_PARAM_CONTEXT_INIT, &contexts);
	if (!r)
		r = ask(node, VIRTGPU_PARAM_SUPPORTED_CAPSET_IDs, &capsets);
	if (r)
		return r;
	if (!node->data[NODE_BLOB] || !node->data[NODE_VISIBLE] || !contexts ||
	    !(capsets & 1u << VIRTGPU_DRM_CAPSET_VENUS))
		return 0;
	r = make_context(node);
	if (!r)
		node->data[NODE_HOST] = true;
	return r;
}

static int create_blob(struct drm_node *node, uint64_t size, uint32_t memory, uint32_t flags,
		       struct drm_object *object)
{
	struct drm_virtgpu_resource_create_blob create = {
		.blob_mem = memory,
		.blob_flags = flags,
		.size = size,
	};
	int r;

	r = drm_call(node, DRM_IOCTL_VIRTGPU_RESOURCE_CREATE_BLOB, &create);
	if (!r)
		object->handle = create.bo_handle;
	return r;
}

static int create_2d(struct drm_node *node, uint64_t size, struct drm_object *object)
{
	/*
	 * The picture, which the host keeps, too, is one pixel: the CPU maps the memory behind
	 * it, of the size given here.
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

	if (size > SIZE_MAX_2D)
		return err_set(-ENOSPC,
			       "drm:%s (%s): %" PRIu64 " bytes are more than a buffer "
			       "without blobs can have, %" PRIu64 ": let the host offer "
			       "blobs (QEMU: blob=on)",
			       node->path, node->name, size, (uint64_t)SIZE_MAX_2D);
	r = drm_call(node, DRM_IOCTL_VIRTGPU_RESOURCE_CREATE, &create);
	if (!r)
		object->handle = create.bo_handle;
	return r;
}

static int refuse_host_memory(const struct drm_node *node)
{
	const char *lacks =
		!node->data[NODE_BLOB]    ? "offers no blobs (QEMU: blob=on)" :
		!node->data[NODE_VISIBLE] ? "shows no window of its memory (QEMU: hostmem=)" :
					    "has no context of Venus (QEMU: venus=on)";

	return err_set(-EOPNOTSUPP,
		       "drm:%s (%s): there is no host memory: the host %s: place the buffer "
		       "in system memory",
		       node->path, node->name, lacks);
}

/*
 * Makes an object of the host's shared memory, cached like ours. It can only be mapped as a
 * whole [virtio_gpu_vram_mmap()].
 */
static int create_host(struct drm_node *node, uint64_t size, struct drm_object *object)
{
	int r;

	if (!node->data[NODE_HOST])
		return refuse_host_memory(node);
	/* Venus gives it for this use only: exporting is up to the guest's kernel. */
	r = create_blob(node, size, VIRTGPU_BLOB_MEM_HOST3D, VIRTGPU_BLOB_FLAG_USE_MAPPABLE,
			object);
	if (r)
		return r;
	object->size = size;
	object->place = DRM_PLACE_VRAM;
	object->cache = HM_CACHE_WRITE_BACK;
	object->whole = true;
	return 0;
}

static int virtio_create(struct drm_node *node, uint64_t size, enum drm_place place,
			 struct drm_object *object)
{
	int r;

	if (place == DRM_PLACE_VRAM)
		return create_host(node, size, object);
	if (node->data[NODE_BLOB])
		r = create_blob(
			node, size, VIRTGPU_BLOB_MEM_GUEST,
			VIRTGPU_BLOB_FLAG_USE_MAPPABLE | VIRTGPU_BLOB_FLAG_USE_SHAREABLE |
				(node->data[NODE_CROSS] ? VIRTGPU_BLOB_FLAG_USE_CROSS_DEVICE :
							  0),
			object);
	else
		r = create_2d(node, size, object);
	if (r)
		return r;
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

/*
 * Describes an import, which is always this device's own. The host has told the kernel how a
 * host blob is cached, and the kernel does not tell [virtio_gpu_vram_mmap()].
 */
static int virtio_describe(struct drm_object *object)
{
	struct drm_virtgpu_resource_info info = { .bo_handle = object->handle };
	bool host;
	int r;

	r = drm_call(object->node, DRM_IOCTL_VIRTGPU_RESOURCE_INFO, &info);
	if (r)
		return r;
	host = info.VIRTGPU_INFO_BLOB_MEM == VIRTGPU_BLOB_MEM_HOST3D;
	object->place = host ? DRM_PLACE_VRAM : DRM_PLACE_SYSTEM;
	object->cache = host ? HM_CACHE_UNKNOWN : HM_CACHE_WRITE_BACK;
	object->whole = host;
	return 0;
}

static int look(struct drm_object *object, bool for_write, bool now)
{
	struct drm_virtgpu_3d_wait wait = {
		.handle = object->handle,
		.flags = now ? VIRTGPU_WAIT_NOWAIT : 0,
	};

	/* The kernel waits for reads and writes alike, 15 s at most [virtio_gpu_wait_ioctl()]. */
	(void)for_write;
	return drm_call(object->node, DRM_IOCTL_VIRTGPU_WAIT, &wait);
}

static int virtio_wait(struct drm_object *object, bool for_write, uint64_t timeout_ns)
{
	return drm_wait_by_looks(object, look, for_write, timeout_ns);
}

const struct drm_driver drm_virtio_gpu = {
	.name = "virtio_gpu",
	.description = "memory of a virtual machine's graphics card",
	.caps = HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_EXPORT | HM_CAP_PLACE,
	.present = true,
	.vram_whole = true,
	.open = virtio_open,
	.create = virtio_create,
	.map_offset = virtio_map_offset,
	.describe = virtio_describe,
	.wait = virtio_wait,
};
