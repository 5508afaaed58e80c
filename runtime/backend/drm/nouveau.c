// SPDX-License-Identifier: MIT
/*
 * Driver "nouveau". Values of fields follow the kernel's drivers/gpu/drm/nouveau/:
 * nouveau_gem.c, nouveau_bo.c, nouveau_abi16.c. The driver does not tell how much memory is
 * free.
 */
#include <errno.h>
#include <stdint.h>

#include <nouveau_drm.h>

#include "base/err.h"
#include "base/util.h"

#include "backend/drm/drm.h"

/* Newer headers have these; Debian 12's have only the numbers. */
#ifndef DRM_IOCTL_NOUVEAU_GETPARAM
#define DRM_IOCTL_NOUVEAU_GETPARAM \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NOUVEAU_GETPARAM, struct drm_nouveau_getparam)
#endif
#ifndef DRM_IOCTL_NOUVEAU_GEM_NEW
#define DRM_IOCTL_NOUVEAU_GEM_NEW \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NOUVEAU_GEM_NEW, struct drm_nouveau_gem_new)
#define DRM_IOCTL_NOUVEAU_GEM_CPU_PREP \
	DRM_IOW(DRM_COMMAND_BASE + DRM_NOUVEAU_GEM_CPU_PREP, struct drm_nouveau_gem_cpu_prep)
#define DRM_IOCTL_NOUVEAU_GEM_CPU_FINI \
	DRM_IOW(DRM_COMMAND_BASE + DRM_NOUVEAU_GEM_CPU_FINI, struct drm_nouveau_gem_cpu_fini)
#define DRM_IOCTL_NOUVEAU_GEM_INFO \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NOUVEAU_GEM_INFO, struct drm_nouveau_gem_info)
#endif

static int ask(struct drm_node *node, uint64_t what, uint64_t *ret_value)
{
	struct drm_nouveau_getparam param = { .param = what };
	int r;

	r = drm_call(node, DRM_IOCTL_NOUVEAU_GETPARAM, &param);
	if (r)
		return r;
	*ret_value = param.value;
	return 0;
}

static int nouveau_open(struct drm_node *node)
{
	uint64_t vram, gart;
	int r;

	r = ask(node, NOUVEAU_GETPARAM_FB_SIZE, &vram);
	if (!r)
		r = ask(node, NOUVEAU_GETPARAM_AGP_SIZE, &gart);
	if (r)
		return r;
	node->vram_total = vram;
	node->system_total = gart;
	return 0;
}

static void take_in(struct drm_object *object, const struct drm_nouveau_gem_info *info)
{
	bool vram = info->domain == NOUVEAU_GEM_DOMAIN_VRAM;

	object->place = vram ? DRM_PLACE_VRAM : DRM_PLACE_SYSTEM;
	object->cache = vram ? HM_CACHE_WRITE_COMBINING : HM_CACHE_WRITE_BACK;
}

/*
 * Always in GART: nouveau_bo_move() does not clear an object's VRAM (ttm_bo_move_null), which
 * would show its last user's bytes; TTM zeroes pages of GART. That leaves no choice of place,
 * and the row has no HM_CAP_PLACE.
 */
static int nouveau_create(struct drm_node *node, uint64_t size, enum drm_place place,
			  struct drm_object *object)
{
	struct drm_nouveau_gem_new new = {
		.info = {
			.size = size,
			.domain = NOUVEAU_GEM_DOMAIN_GART,
			.tile_flags = NOUVEAU_GEM_TILE_NONCONTIG,
		},
		.align = (uint32_t)page_size(),
	};
	int r;

	if (place == DRM_PLACE_VRAM)
		return err_set(
			-EOPNOTSUPP,
			"drm:%s (nouveau): it does not clear the VRAM that it hands out: place "
			"the buffer in system memory",
			node->path);
	r = drm_call(node, DRM_IOCTL_NOUVEAU_GEM_NEW, &new);
	if (r)
		return r;
	object->handle = new.info.handle;
	object->size = new.info.size;
	object->map_offset = new.info.map_handle;
	take_in(object, &new.info);
	return 0;
}

static int nouveau_describe(struct drm_object *object)
{
	struct drm_nouveau_gem_info info = { .handle = object->handle };
	int r;

	r = drm_call(object->node, DRM_IOCTL_NOUVEAU_GEM_INFO, &info);
	if (r)
		return r;
	take_in(object, &info);
	return 0;
}

/* As for amdgpu: an import may be another device's, and would raise SIGBUS. */
static int nouveau_map_offset(struct drm_object *object)
{
	return object->map_offset ? 0 : -EINVAL;
}

static int look(struct drm_object *object, bool for_write, bool now)
{
	struct drm_nouveau_gem_cpu_prep prep = {
		.handle = object->handle,
		.flags = (now ? NOUVEAU_GEM_CPU_PREP_NOWAIT : 0) |
			 (for_write ? NOUVEAU_GEM_CPU_PREP_WRITE : 0),
	};

	return drm_call(object->node, DRM_IOCTL_NOUVEAU_GEM_CPU_PREP, &prep);
}

/* The kernel waits for 30 seconds or not at all [nouveau_gem_ioctl_cpu_prep()]. */
static int nouveau_wait(struct drm_object *object, bool for_write, uint64_t timeout_ns)
{
	return drm_wait_by_looks(object, look, for_write, timeout_ns);
}

/* Writes the CPU's stores out where caches are not coherent [nouveau_bo_sync_for_device()]. */
static int nouveau_wait_end(struct drm_object *object)
{
	struct drm_nouveau_gem_cpu_fini fini = { .handle = object->handle };

	return drm_call(object->node, DRM_IOCTL_NOUVEAU_GEM_CPU_FINI, &fini);
}

const struct drm_driver drm_nouveau = {
	.name = "nouveau",
	.description = "NVIDIA GPU (nouveau)",
	.caps = HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_EXPORT,
	.experimental = true,
	.open = nouveau_open,
	.create = nouveau_create,
	.map_offset = nouveau_map_offset,
	.describe = nouveau_describe,
	.wait = nouveau_wait,
	.wait_end = nouveau_wait_end,
};
