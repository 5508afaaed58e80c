// SPDX-License-Identifier: MIT
/*
 * A card node, of a driver that makes dumb buffers there and has no render node: mgag200
 * over drm_gem_shmem. drivers/gpu/drm/drm_dumb_buffers.c, drm_gem_shmem_helper.c
 */
#include <errno.h>

#include <drm.h>
#include <drm_mode.h>

#include "fake.h"

/* drm_ioctl.c, drm_ioctl_permit: for calls without DRM_RENDER_ALLOW */
static bool is_permitted(const struct fake_file *file)
{
	return file->node == FAKE_CARD;
}

/* drm_mode_create_dumb; drm_gem_shmem_dumb_create. It does not look at flags. */
int fake_create_dumb_call(struct fake_file *file, void *data)
{
	struct drm_mode_create_dumb *args = data;
	uint32_t bytes, stride, size;
	struct fake_bo *bo;
	int r;

	if (!is_permitted(file))
		return -EACCES;
	if (!args->width || !args->height || !args->bpp)
		return -EINVAL;
	if (args->bpp > UINT32_MAX - 8)
		return -EINVAL;
	bytes = (args->bpp + 7) / 8;
	if (bytes > UINT32_MAX / args->width)
		return -EINVAL;
	stride = bytes * args->width;
	if (args->height > UINT32_MAX / stride)
		return -EINVAL;
	/* PAGE_ALIGN() of 32 bits */
	size = args->height * stride;
	if (!((size + (uint32_t)FAKE_PAGE - 1) & ~((uint32_t)FAKE_PAGE - 1)))
		return -EINVAL;
	args->pitch = (uint32_t)(((uint64_t)args->width * args->bpp + 7) / 8);
	args->size = ((uint64_t)args->pitch * args->height + FAKE_PAGE - 1) & ~(FAKE_PAGE - 1);
	/* No driver does: the library looks all the same. */
	if (fake_dumb_is_short())
		args->size -= FAKE_PAGE;
	/* shmem_file_setup() checks the memory that there is */
	if (args->size > FAKE_SYSTEM)
		return -ENOMEM;
	r = fake_bo_new(file, args->size, &bo, &args->handle);
	if (!r)
		fake_trace("dumb %ux%u of %u: %llu\n", args->width, args->height, args->bpp,
			   (unsigned long long)args->size);
	return r;
}

/* drm_mode_mmap_dumb_ioctl; drm_gem_dumb_map_offset */
int fake_map_dumb_call(struct fake_file *file, void *data)
{
	struct drm_mode_map_dumb *args = data;
	const struct fake_bo *bo;

	if (!is_permitted(file))
		return -EACCES;
	bo = fake_bo_of(file, args->handle);
	if (!bo)
		return -ENOENT;
	/* "Don't allow imported objects to be mapped" */
	if (bo->map == FAKE_MAP_REFUSED)
		return -EINVAL;
	args->offset = bo->offset;
	return 0;
}

/* drm_mode_destroy_dumb; drm_gem_handle_delete */
int fake_destroy_dumb_call(struct fake_file *file, void *data)
{
	const struct drm_mode_destroy_dumb *args = data;

	if (!is_permitted(file))
		return -EACCES;
	fake_trace("dumb ends\n");
	return fake_handle_delete(file, args->handle);
}

static const struct fake_call calls[] = { { 0 } };

/* mgag200_drv.c, mgag200_driver; PCI ids of the G200 SE A */
const struct fake_driver fake_mgag200 = {
	.name = "mgag200",
	.description = "MGA G200 SE",
	.date = "20110418",
	.major = 1,
	.minor = 0,
	.vendor = 0x102b,
	.device = 0x0522,
	.userptr_export = -EINVAL,
	.foreign = FAKE_MAP_REFUSED,
	.calls = calls,
};
