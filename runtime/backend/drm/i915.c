// SPDX-License-Identifier: MIT
/*
 * Driver "i915". Values of fields follow the kernel's drivers/gpu/drm/i915/: i915_query.c,
 * gem/i915_gem_create.c, gem/i915_gem_mman.c, gem/i915_gem_wait.c, gem/i915_gem_userptr.c.
 * Memory regions need Linux 5.16.
 */
#include <errno.h>
#include <stddef.h>

#include <i915_drm.h>

#include "base/err.h"
#include "base/util.h"

#include "backend/drm/drm.h"

/* drm_node.data */
enum {
	NODE_DISCRETE, /* an object is mapped in one way only, which the kernel chose */
	NODE_LLC,      /* the CPU's caches and the GPU agree */
	NODE_INSTANCE, /* of the VRAM region */
	NODE_WINDOW,   /* the kernel knows windows smaller than VRAM, and the flag for them */
};

/* System memory and one for each tile: four tiles at most. */
#define REGIONS_MAX 8

/* struct drm_i915_query_memory_regions, with an array of fixed length. */
struct regions {
	uint32_t num_regions;
	uint32_t rsvd[3];
	struct drm_i915_memory_region_info region[REGIONS_MAX];
};

_Static_assert(offsetof(struct regions, region) ==
		       offsetof(struct drm_i915_query_memory_regions, regions),
	       "as the kernel's");

static int ask_regions(struct drm_node *node, struct regions *ret_regions)
{
	struct drm_i915_query_item item = {
		.query_id = DRM_I915_QUERY_MEMORY_REGIONS,
		.length = sizeof(*ret_regions),
		.data_ptr = (uintptr_t)ret_regions,
	};
	struct drm_i915_query query = { .num_items = 1, .items_ptr = (uintptr_t)&item };
	int r;

	*ret_regions = (struct regions){ 0 };
	r = drm_call(node, DRM_IOCTL_I915_QUERY, &query);
	if (r)
		return r;
	/* The item has an errno of its own. */
	if (item.length < 0)
		return item.length;
	return ret_regions->num_regions <= REGIONS_MAX ? 0 : -EOVERFLOW;
}

static int ask_llc(struct drm_node *node, int *ret_llc)
{
	struct drm_i915_getparam param = { .param = I915_PARAM_HAS_LLC, .value = ret_llc };

	return drm_call(node, DRM_IOCTL_I915_GETPARAM, &param);
}

static int i915_open(struct drm_node *node)
{
	const struct drm_i915_memory_region_info *region;
	struct regions regions;
	int llc = 0;
	uint32_t i;
	int r;

	r = ask_regions(node, &regions);
	if (r == -EINVAL)
		return err_set(-EOPNOTSUPP,
			       "drm:%s (i915): it does not tell its memory regions: the "
			       "kernel is older than 5.16",
			       node->path);
	if (!r)
		r = ask_llc(node, &llc);
	if (r)
		return r;
	node->data[NODE_LLC] = llc;
	for (i = 0; i < regions.num_regions; i++) {
		region = &regions.region[i];
		if (region->region.memory_class == I915_MEMORY_CLASS_SYSTEM)
			node->system_total = region->probed_size;
		/* Only the first: objects are made in one tile's memory. */
		if (region->region.memory_class != I915_MEMORY_CLASS_DEVICE ||
		    node->data[NODE_DISCRETE])
			continue;
		node->data[NODE_DISCRETE] = true;
		node->data[NODE_INSTANCE] = region->region.memory_instance;
		node->vram_total = region->probed_size;
		/*
		 * 0 before Linux 6.0: windows are as large as the memory there [i915_drm.h,
		 * struct drm_i915_memory_region_info].
		 */
		node->data[NODE_WINDOW] = region->probed_cpu_visible_size != 0;
		node->vram_visible = region->probed_cpu_visible_size ?
					     region->probed_cpu_visible_size :
					     region->probed_size;
	}
	return 0;
}

/* Without CAP_PERFMON the kernel reports a region as empty. */
static int i915_memory(struct drm_node *node, uint64_t *ret_total, uint64_t *ret_free)
{
	bool discrete = node->data[NODE_DISCRETE];
	const struct drm_i915_memory_region_info *region;
	struct regions regions;
	uint32_t i;
	int r;

	r = ask_regions(node, &regions);
	if (r)
		return r;
	for (i = 0; i < regions.num_regions; i++) {
		region = &regions.region[i];
		if (region->region.memory_class !=
			    (discrete ? I915_MEMORY_CLASS_DEVICE : I915_MEMORY_CLASS_SYSTEM) ||
		    (discrete && region->region.memory_instance != node->data[NODE_INSTANCE]))
			continue;
		*ret_total = region->probed_size;
		*ret_free = region->unallocated_size;
		return 0;
	}
	return -ENODATA;
}

/* Cache mode in system memory; objects that may be in VRAM are always write-combined. */
static uint32_t system_cache(const struct drm_node *node)
{
	return node->data[NODE_DISCRETE] || node->data[NODE_LLC] ? HM_CACHE_WRITE_BACK :
								   HM_CACHE_WRITE_COMBINING;
}

/* The user sees zeros in any region: I915_BO_ALLOC_USER. */
static int i915_create(struct drm_node *node, uint64_t size, enum drm_place place,
		       struct drm_object *object)
{
	bool vram = place != DRM_PLACE_SYSTEM && node->data[NODE_DISCRETE];
	const struct drm_i915_gem_memory_class_instance wanted[] = {
		{ I915_MEMORY_CLASS_DEVICE, (uint16_t)node->data[NODE_INSTANCE] },
		{ I915_MEMORY_CLASS_SYSTEM, 0 },
	};
	struct drm_i915_gem_create_ext_memory_regions placement = {
		.base = { .name = I915_GEM_CREATE_EXT_MEMORY_REGIONS },
		/* An object that CPUs reach must be allowed to move out to system memory. */
		.num_regions = vram ? 2 : 1,
		.regions = (uintptr_t)(vram ? &wanted[0] : &wanted[1]),
	};
	struct drm_i915_gem_create_ext create = {
		.size = size,
		/* Kernels that do not know the flag refuse all flags. */
		.flags = vram && node->data[NODE_WINDOW] ?
				 I915_GEM_CREATE_EXT_FLAG_NEEDS_CPU_ACCESS :
				 0,
		.extensions = (uintptr_t)&placement,
	};
	int r;

	if (place == DRM_PLACE_VRAM && !vram)
		return err_set(
			-EOPNOTSUPP,
			"drm:%s (i915): it has no memory of its own: place the buffer in system "
			"memory",
			node->path);
	r = drm_call(node, DRM_IOCTL_I915_GEM_CREATE_EXT, &create);
	if (r)
		return r;
	object->handle = create.handle;
	object->size = create.size; /* by VRAM's pages, of 64 KiB as a rule */
	object->place = vram ? DRM_PLACE_VRAM : DRM_PLACE_SYSTEM;
	object->cache = vram ? HM_CACHE_WRITE_COMBINING : system_cache(node);
	return 0;
}

/* The kernel answers -ENODEV for another device's dma-buf, and for a userptr. */
static int i915_map_offset(struct drm_object *object)
{
	struct drm_i915_gem_mmap_offset map = {
		.handle = object->handle,
		.flags = object->node->data[NODE_DISCRETE] ? I915_MMAP_OFFSET_FIXED :
			 object->node->data[NODE_LLC]      ? I915_MMAP_OFFSET_WB :
							     I915_MMAP_OFFSET_WC,
	};
	int r;

	r = drm_call(object->node, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &map);
	if (r == -ENODEV && !object->node->gone)
		return -EINVAL;
	if (r)
		return r;
	object->map_offset = map.offset;
	return 0;
}

/*
 * An integrated GPU's object has the cache mode that i915_map_offset() asks for. A discrete
 * GPU's follows its placements, which the kernel does not tell [i915_ttm_select_tt_caching()].
 */
static int i915_describe(struct drm_object *object)
{
	if (!object->node->data[NODE_DISCRETE])
		object->cache = system_cache(object->node);
	return 0;
}

/* Waits for readers and writers alike. */
static int i915_wait(struct drm_object *object, bool for_write, uint64_t timeout_ns)
{
	struct drm_i915_gem_wait wait = {
		.bo_handle = object->handle,
		/* Negative: no limit. The kernel stores the remaining time here. */
		.timeout_ns = timeout_ns > INT64_MAX ? -1 : (int64_t)timeout_ns,
	};

	(void)for_write;
	return drm_call(object->node, DRM_IOCTL_I915_GEM_WAIT, &wait);
}

/* PROBE: a range without pages of memory is refused here, and not at its first use. */
static int i915_userptr(struct drm_node *node, void *address, uint64_t length, bool write,
			struct drm_object *object)
{
	struct drm_i915_gem_userptr user = {
		.user_ptr = (uintptr_t)address,
		.user_size = length,
		.flags = I915_USERPTR_PROBE | (write ? 0 : I915_USERPTR_READ_ONLY),
	};
	int r;

	r = drm_call(node, DRM_IOCTL_I915_GEM_USERPTR, &user);
	if (r)
		return r;
	object->handle = user.handle;
	object->size = length;
	object->place = DRM_PLACE_SYSTEM;
	object->cache = HM_CACHE_WRITE_BACK;
	return 0;
}

const struct drm_driver drm_i915 = {
	.name = "i915",
	.description = "Intel GPU (i915)",
	.caps = HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_EXPORT | HM_CAP_PLACE,
	.experimental = true,
	.present = true, /* integrated ones: vm_fault_cpu() */
	.open = i915_open,
	.create = i915_create,
	.map_offset = i915_map_offset,
	.describe = i915_describe,
	.wait = i915_wait,
	.userptr = i915_userptr,
	.memory = i915_memory,
};
