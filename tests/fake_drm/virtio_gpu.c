// SPDX-License-Identifier: MIT
/*
 * virtio_gpu of two hosts: one that has pictures only, and one that has blobs, a window
 * of its memory, UUIDs and Venus. drivers/gpu/drm/virtio/
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "../../runtime/backend/drm/uapi/virtgpu.h" /* libdrm's of Debian 12 is older */
#include "fake.h"

/* As Linux 6.1's own header has them: no host here takes a blob, which would tell. */
static_assert(DRM_IOCTL_VIRTGPU_RESOURCE_CREATE_BLOB == 0xc030644a, "");
static_assert(DRM_IOCTL_VIRTGPU_CONTEXT_INIT == 0xc010644b, "");
static_assert(offsetof(struct drm_virtgpu_resource_create_blob, size) == 16, "");
static_assert(offsetof(struct drm_virtgpu_resource_create_blob, cmd_size) == 28, "");
static_assert(offsetof(struct drm_virtgpu_resource_create_blob, blob_id) == 40, "");
static_assert(offsetof(struct drm_virtgpu_context_init, ctx_set_params) == 8, "");
static_assert(sizeof(struct drm_virtgpu_context_set_param) == 16, "");

/* virtgpu_drv.h */
#define MAX_CAPSET_ID 63

/* include/uapi/linux/virtio_gpu.h: VIRGL, VIRGL2, VENUS */
#define CAPSETS (1u << 1 | 1u << 2 | 1u << 4)

/* virtgpu_kms.c, virtio_gpu_init: the host's features */
static bool has_all(const struct fake_file *file)
{
	return file->node == FAKE_VIRTIO_HOST;
}

/* virtgpu_ioctl.c, virtio_gpu_getparam_ioctl */
static int getparam_call(struct fake_file *file, void *data)
{
	struct drm_virtgpu_getparam *param = data;
	int value;

	switch (param->param) {
	case VIRTGPU_PARAM_3D_FEATURES:
	case VIRTGPU_PARAM_RESOURCE_BLOB:
	case VIRTGPU_PARAM_HOST_VISIBLE:
	case VIRTGPU_PARAM_CROSS_DEVICE:
	case VIRTGPU_PARAM_CONTEXT_INIT:
		value = has_all(file);
		break;
	case VIRTGPU_PARAM_CAPSET_QUERY_FIX:
		value = 1;
		break;
	case VIRTGPU_PARAM_SUPPORTED_CAPSET_IDs:
		value = has_all(file) ? CAPSETS : 0;
		break;
	default:
		return -EINVAL;
	}
	fake_trace("getparam %llu\n", (unsigned long long)param->param);
	return fake_write(param->value, &value, sizeof(value));
}

/* virtgpu_ioctl.c, virtio_gpu_create_context: of VIRGL, where none was asked for */
static void need_context(struct fake_file *file)
{
	if (file->context)
		return;
	file->context = true;
	fake_trace("context %u\n", file->capset);
}

/* virtgpu_ioctl.c, virtio_gpu_context_init_ioctl */
static int context_init_call(struct fake_file *file, void *data)
{
	struct drm_virtgpu_context_set_param params[3];
	struct drm_virtgpu_context_init *args = data;
	uint64_t polled = 0;
	uint32_t i, param, value, capset = 0, rings = 0;
	int r;

	if (!has_all(file))
		return -EINVAL;
	if (args->num_params > 3)
		return -EINVAL;
	for (i = 0; i < args->num_params; i++) {
		r = fake_read("drm_virtgpu_context_set_param", &params[i],
			      args->ctx_set_params + i * sizeof(params[0]), sizeof(params[0]));
		if (r)
			return r;
	}
	if (file->context)
		return -EEXIST;
	for (i = 0; i < args->num_params; i++) {
		/* The kernel takes 32 bits of each. */
		param = (uint32_t)params[i].param;
		value = (uint32_t)params[i].value;
		switch (param) {
		case VIRTGPU_CONTEXT_PARAM_CAPSET_ID:
			if (value > MAX_CAPSET_ID || !(CAPSETS & 1ull << value) || capset)
				return -EINVAL;
			capset = value;
			break;
		case VIRTGPU_CONTEXT_PARAM_NUM_RINGS:
			if (rings || value > 64) /* MAX_RINGS */
				return -EINVAL;
			rings = value;
			break;
		case VIRTGPU_CONTEXT_PARAM_POLL_RINGS_MASK:
			if (polled)
				return -EINVAL;
			polled = value;
			break;
		default:
			return -EINVAL;
		}
	}
	if (polled & ~((rings < 64 ? 1ull << rings : 0) - 1))
		return -EINVAL;
	file->capset = capset;
	need_context(file);
	return 0;
}

/* virtgpu_object.c, virtio_gpu_object_create; drm_gem_shmem_helper.c, __drm_gem_shmem_create */
static int object_create(struct fake_file *file, uint64_t size, struct fake_bo **ret_bo,
			 uint32_t *ret_handle)
{
	size = (size + FAKE_PAGE - 1) & ~(FAKE_PAGE - 1);
	if (!size)
		return -EINVAL;
	/* drm_gem_shmem_get_pages() */
	if (size > FAKE_SYSTEM)
		return -ENOMEM;
	return fake_bo_new(file, size, ret_bo, ret_handle);
}

/* virtgpu_ioctl.c, virtio_gpu_resource_create_ioctl */
static int create_call(struct fake_file *file, void *data)
{
	struct drm_virtgpu_resource_create *rc = data;
	uint64_t size = rc->size ? rc->size : FAKE_PAGE;
	struct fake_bo *bo;
	int r;

	if (has_all(file))
		need_context(file);
	else if (rc->depth > 1 || rc->nr_samples > 1 || rc->last_level > 1 || rc->target != 2 ||
		 rc->array_size > 1)
		return -EINVAL;
	r = object_create(file, size, &bo, &rc->bo_handle);
	if (r)
		return r;
	/* The rest goes to the host, whose answer is not waited for. */
	fake_trace("create %llu: %ux%u format %u\n", (unsigned long long)bo->size, rc->width,
		   rc->height, rc->format);
	if (has_all(file))
		fake_trace("of 3D: target %u bind %u depth %u layers %u level %u samples %u "
			   "flags %x\n",
			   rc->target, rc->bind, rc->depth, rc->array_size, rc->last_level,
			   rc->nr_samples, rc->flags);
	rc->res_handle = rc->bo_handle + 100;
	return 0;
}

/* virtgpu_vram.c, virtio_gpu_vram_create and virtio_gpu_vram_map */
static int vram_create(struct fake_file *file,
		       const struct drm_virtgpu_resource_create_blob *rc,
		       struct fake_bo **ret_bo, uint32_t *ret_handle)
{
	uint64_t size = (rc->size + FAKE_PAGE - 1) & ~(FAKE_PAGE - 1);
	int r;

	/* drm_mm_insert_node(), of the window */
	if (rc->blob_flags & VIRTGPU_BLOB_FLAG_USE_MAPPABLE && (!size || size > FAKE_VISIBLE))
		return -ENOSPC;
	r = fake_bo_new(file, size, ret_bo, ret_handle);
	if (r)
		return r;
	(*ret_bo)->whole = true;
	if (!(rc->blob_flags & VIRTGPU_BLOB_FLAG_USE_MAPPABLE))
		(*ret_bo)->mmap_error = EINVAL; /* virtio_gpu_vram_mmap */
	return 0;
}

/* virtgpu_ioctl.c, verify_blob */
static int verify_blob(struct fake_file *file,
		       const struct drm_virtgpu_resource_create_blob *rc, bool *ret_guest)
{
	bool host = rc->blob_mem != VIRTGPU_BLOB_MEM_GUEST;

	/* This host has 3D and UUIDs where it has blobs. */
	if (!has_all(file))
		return -EINVAL;
	if (rc->blob_flags &
	    ~(uint32_t)(VIRTGPU_BLOB_FLAG_USE_MAPPABLE | VIRTGPU_BLOB_FLAG_USE_SHAREABLE |
			VIRTGPU_BLOB_FLAG_USE_CROSS_DEVICE))
		return -EINVAL;
	if (rc->blob_mem != VIRTGPU_BLOB_MEM_GUEST && rc->blob_mem != VIRTGPU_BLOB_MEM_HOST3D &&
	    rc->blob_mem != VIRTGPU_BLOB_MEM_HOST3D_GUEST)
		return -EINVAL;
	if (host ? rc->cmd_size % 4 != 0 : rc->blob_id || rc->cmd_size)
		return -EINVAL;
	*ret_guest = rc->blob_mem != VIRTGPU_BLOB_MEM_HOST3D;
	return 0;
}

/* virtgpu_ioctl.c, virtio_gpu_resource_create_blob_ioctl */
static int create_blob_call(struct fake_file *file, void *data)
{
	struct drm_virtgpu_resource_create_blob *rc = data;
	struct fake_bo *bo;
	uint32_t handle;
	bool guest;
	int r;

	r = verify_blob(file, rc, &guest);
	if (r)
		return r;
	need_context(file);
	/* memdup_user(); no row sends one. */
	if (rc->cmd_size && !fake_has_pages(rc->cmd & ~(FAKE_PAGE - 1), FAKE_PAGE))
		return -EFAULT;
	r = guest ? object_create(file, rc->size, &bo, &handle) :
		    vram_create(file, rc, &bo, &handle);
	if (r)
		return r;
	bo->domains = rc->blob_mem;
	fake_trace("blob %llu memory %u flags %x id %llu context %u\n",
		   (unsigned long long)bo->size, rc->blob_mem, rc->blob_flags,
		   (unsigned long long)rc->blob_id, file->capset);
	rc->res_handle = handle + 100;
	rc->bo_handle = handle;
	return 0;
}

/* virtgpu_ioctl.c, virtio_gpu_map_ioctl; virtgpu_gem.c, virtio_gpu_mode_dumb_mmap */
static int map_call(struct fake_file *file, void *data)
{
	struct drm_virtgpu_map *map = data;
	struct fake_bo *bo = fake_bo_of(file, map->handle);

	if (!bo)
		return -ENOENT;
	map->offset = bo->offset;
	return 0;
}

/* virtgpu_ioctl.c, virtio_gpu_resource_info_ioctl: the last field, of blobs only */
static int info_call(struct fake_file *file, void *data)
{
	struct drm_virtgpu_resource_info *info = data;
	struct fake_bo *bo = fake_bo_of(file, info->bo_handle);

	if (!bo)
		return -ENOENT;
	info->size = (uint32_t)bo->size;
	info->res_handle = info->bo_handle + 100;
	if (bo->domains)
		info->VIRTGPU_INFO_BLOB_MEM = (uint32_t)bo->domains;
	return 0;
}

/* virtgpu_ioctl.c, virtio_gpu_wait_ioctl: of the flags, one is looked at */
static int wait_call(struct fake_file *file, void *data)
{
	struct drm_virtgpu_3d_wait *args = data;
	bool no_wait = args->flags & VIRTGPU_WAIT_NOWAIT;
	struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };

	if (!fake_bo_of(file, args->handle))
		return -ENOENT;
	fake_trace("wait %s\n", no_wait ? "now" : "15 s");
	if (!fake_is_busy())
		return 0;
	/* Shorter than 15 seconds: only a test ends the work of a busy object. */
	if (!no_wait)
		nanosleep(&pause, NULL);
	return -EBUSY;
}

static const struct fake_call calls[] = {
	{ "drm_virtgpu_getparam", DRM_IOCTL_VIRTGPU_GETPARAM, getparam_call },
	{ "drm_virtgpu_context_init", DRM_IOCTL_VIRTGPU_CONTEXT_INIT, context_init_call },
	{ "drm_virtgpu_resource_create", DRM_IOCTL_VIRTGPU_RESOURCE_CREATE, create_call },
	{ "drm_virtgpu_resource_create_blob", DRM_IOCTL_VIRTGPU_RESOURCE_CREATE_BLOB,
	  create_blob_call },
	{ "drm_virtgpu_map", DRM_IOCTL_VIRTGPU_MAP, map_call },
	{ "drm_virtgpu_resource_info", DRM_IOCTL_VIRTGPU_RESOURCE_INFO, info_call },
	{ "drm_virtgpu_3d_wait", DRM_IOCTL_VIRTGPU_WAIT, wait_call },
	{ 0 },
};

/* virtgpu_drv.c, driver; virtgpu_prime.c, virtgpu_gem_prime_import_sg_table */
const struct fake_driver fake_virtio_gpu = {
	.name = "virtio_gpu",
	.description = "virtio GPU",
	.date = "0",
	.major = 0,
	.minor = 1,
	.vendor = 0x1af4,
	.device = 0x1050,
	.foreign_error = -ENODEV,
	.calls = calls,
};
