// SPDX-License-Identifier: MIT
/*
 * Driver "xe". Values of fields follow the kernel's drivers/gpu/drm/xe/: xe_query.c and xe_bo.c.
 * The driver has no call that waits for an object (fences wait for work) and none that makes an
 * object of mapped memory (VM_BIND does that, at an address of the GPU).
 */
#include <errno.h>
#include <stddef.h>

#include "base/err.h"
#include "base/util.h"

#include "backend/drm/drm.h"
#include "backend/drm/uapi/xe.h"

/* drm_node.data */
enum {
	NODE_SYSTEM, /* bits of drm_xe_gem_create.placement */
	NODE_VRAM,   /* 0: no VRAM */
	NODE_PAGE,   /* page size of VRAM */
};

/* drm_object.data */
enum {
	OBJECT_MADE, /* made here, not imported */
};

/* System memory and one for each tile. */
#define REGIONS_MAX 8

/* struct drm_xe_query_mem_regions, with an array of fixed length. */
struct regions {
	uint32_t num_mem_regions;
	uint32_t pad;
	struct drm_xe_mem_region region[REGIONS_MAX];
};

_Static_assert(offsetof(struct regions, region) ==
		       offsetof(struct drm_xe_query_mem_regions, mem_regions),
	       "as the kernel's");

/* The kernel wants exactly its own size: a first call asks for it. */
static int ask_regions(struct drm_node *node, struct regions *ret_regions)
{
	struct drm_xe_device_query query = { .query = DRM_XE_DEVICE_QUERY_MEM_REGIONS };
	int r;

	*ret_regions = (struct regions){ 0 };
	r = drm_call(node, DRM_IOCTL_XE_DEVICE_QUERY, &query);
	if (r)
		return r;
	if (query.size > sizeof(*ret_regions))
		return -EOVERFLOW;
	query.data = (uintptr_t)ret_regions;
	r = drm_call(node, DRM_IOCTL_XE_DEVICE_QUERY, &query);
	if (r)
		return r;
	return ret_regions->num_mem_regions <= REGIONS_MAX ? 0 : -EOVERFLOW;
}

static int xe_open(struct drm_node *node)
{
	const struct drm_xe_mem_region *region;
	struct regions regions;
	uint32_t i;
	int r;

	r = ask_regions(node, &regions);
	if (r)
		return r;
	for (i = 0; i < regions.num_mem_regions; i++) {
		region = &regions.region[i];
		if (region->mem_class == DRM_XE_MEM_REGION_CLASS_SYSMEM) {
			node->data[NODE_SYSTEM] = 1ull << region->instance;
			node->system_total = region->total_size;
		} else if (region->mem_class == DRM_XE_MEM_REGION_CLASS_VRAM &&
			   !node->data[NODE_VRAM]) {
			/* Only the first: objects are made in one tile's memory. */
			node->data[NODE_VRAM] = 1ull << region->instance;
			node->data[NODE_PAGE] = region->min_page_size;
			node->vram_total = region->total_size;
			node->vram_visible = region->cpu_visible_size;
		}
	}
	return 0;
}

/* Without CAP_PERFMON the kernel reports a region as empty. */
static int xe_memory(struct drm_node *node, uint64_t *ret_total, uint64_t *ret_free)
{
	uint64_t wanted = node->data[node->data[NODE_VRAM] ? NODE_VRAM : NODE_SYSTEM];
	const struct drm_xe_mem_region *region;
	struct regions regions;
	uint32_t i;
	int r;

	r = ask_regions(node, &regions);
	if (r)
		return r;
	for (i = 0; i < regions.num_mem_regions; i++) {
		region = &regions.region[i];
		if (1ull << region->instance != wanted)
			continue;
		*ret_total = region->total_size;
		*ret_free = region->total_size - min_u64(region->used, region->total_size);
		return 0;
	}
	return -ENODATA;
}

/* The kernel zeroes objects. An object that may be in VRAM must be write-combined. */
static int xe_create(struct drm_node *node, uint64_t size, enum drm_place place,
		     struct drm_object *object)
{
	bool vram = place != DRM_PLACE_SYSTEM && node->data[NODE_VRAM];
	struct drm_xe_gem_create create = {
		.size = vram ? round_up(size, node->data[NODE_PAGE]) : size,
		.placement = (uint32_t)node->data[vram ? NODE_VRAM : NODE_SYSTEM],
		.flags = vram ? DRM_XE_GEM_CREATE_FLAG_NEEDS_VISIBLE_VRAM : 0,
		.cpu_caching = vram ? DRM_XE_GEM_CPU_CACHING_WC : DRM_XE_GEM_CPU_CACHING_WB,
	};
	int r;

	if (place == DRM_PLACE_VRAM && !vram)
		return err_set(
			-EOPNOTSUPP,
			"drm:%s (xe): it has no memory of its own: place the buffer in system "
			"memory",
			node->path);
	r = drm_call(node, DRM_IOCTL_XE_GEM_CREATE, &create);
	if (r)
		return r;
	object->handle = create.handle;
	object->data[OBJECT_MADE] = true;
	object->size = create.size;
	object->place = vram ? DRM_PLACE_VRAM : DRM_PLACE_SYSTEM;
	object->cache = vram ? HM_CACHE_WRITE_COMBINING : HM_CACHE_WRITE_BACK;
	return 0;
}

/* As for amdgpu: an import may be another device's, and would raise SIGBUS. */
static int xe_map_offset(struct drm_object *object)
{
	struct drm_xe_gem_mmap_offset map = { .handle = object->handle };
	int r;

	if (!object->data[OBJECT_MADE])
		return -EINVAL;
	r = drm_call(object->node, DRM_IOCTL_XE_GEM_MMAP_OFFSET, &map);
	if (r)
		return r;
	object->map_offset = map.offset;
	return 0;
}

const struct drm_driver drm_xe = {
	.name = "xe",
	.description = "Intel GPU (xe)",
	.caps = HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_EXPORT | HM_CAP_PLACE,
	.experimental = true,
	.open = xe_open,
	.create = xe_create,
	.map_offset = xe_map_offset,
	.memory = xe_memory,
};
