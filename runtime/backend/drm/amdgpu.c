// SPDX-License-Identifier: MIT
/*
 * Driver "amdgpu". Values of fields follow the kernel's drivers/gpu/drm/amd/amdgpu/:
 * amdgpu_gem.c, amdgpu_object.c, amdgpu_kms.c.
 */
#include <errno.h>

#include <amdgpu_drm.h>

#include "base/util.h"

#include "backend/drm/drm.h"

/* drm_object.data */
enum {
	OBJECT_MADE, /* made here, not imported */
};

static int ask_memory(struct drm_node *node, struct drm_amdgpu_memory_info *ret_memory)
{
	struct drm_amdgpu_info info = {
		.return_pointer = (uintptr_t)ret_memory,
		.return_size = sizeof(*ret_memory),
		.query = AMDGPU_INFO_MEMORY,
	};

	return drm_call(node, DRM_IOCTL_AMDGPU_INFO, &info);
}

static int amdgpu_open(struct drm_node *node)
{
	struct drm_amdgpu_memory_info memory = { 0 };
	int r;

	r = ask_memory(node, &memory);
	if (r)
		return r;
	node->vram_total = memory.vram.total_heap_size;
	node->vram_visible = memory.cpu_accessible_vram.total_heap_size;
	node->system_total = memory.gtt.total_heap_size;
	return 0;
}

static int amdgpu_memory(struct drm_node *node, uint64_t *ret_total, uint64_t *ret_free)
{
	struct drm_amdgpu_memory_info memory = { 0 };
	const struct drm_amdgpu_heap_info *heap = &memory.vram;
	int r;

	r = ask_memory(node, &memory);
	if (r)
		return r;
	if (!heap->total_heap_size)
		heap = &memory.gtt;
	*ret_total = heap->total_heap_size;
	*ret_free = heap->usable_heap_size - min_u64(heap->heap_usage, heap->usable_heap_size);
	return 0;
}

/*
 * Reads the parameters that the object was made with. Where VRAM was full, the kernel has
 * silently made them VRAM or GTT (amdgpu_gem_create_ioctl retries). A foreign dma-buf is in GTT.
 */
static int amdgpu_describe(struct drm_object *object)
{
	struct drm_amdgpu_gem_create_in made = { 0 };
	struct drm_amdgpu_gem_op op = {
		.handle = object->handle,
		.op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO,
		.value = (uintptr_t)&made,
	};
	bool combined;
	int r;

	r = drm_call(object->node, DRM_IOCTL_AMDGPU_GEM_OP, &op);
	if (r)
		return r;
	/* CPUs see VRAM through the PCI window; its pages in GTT are ordinary ones. */
	combined = made.domains & AMDGPU_GEM_DOMAIN_VRAM ||
		   made.domain_flags & AMDGPU_GEM_CREATE_CPU_GTT_USWC;
	object->place = made.domains == AMDGPU_GEM_DOMAIN_VRAM ? DRM_PLACE_VRAM :
								 DRM_PLACE_SYSTEM;
	object->cache = combined ? HM_CACHE_WRITE_COMBINING : HM_CACHE_WRITE_BACK;
	return 0;
}

static int amdgpu_create(struct drm_node *node, uint64_t size, enum drm_place place,
			 struct drm_object *object)
{
	bool system = place == DRM_PLACE_SYSTEM;
	union drm_amdgpu_gem_create create = {
		.in = {
			.bo_size = size,
			.alignment = page_size(),
			.domains = system ? AMDGPU_GEM_DOMAIN_GTT : AMDGPU_GEM_DOMAIN_VRAM,
			/* TTM zeroes GTT; VRAM is zeroed on request only. */
			.domain_flags = system ? 0 :
						 AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED |
							 AMDGPU_GEM_CREATE_VRAM_CLEARED,
		},
	};
	int r;

	r = drm_call(node, DRM_IOCTL_AMDGPU_GEM_CREATE, &create);
	if (r)
		return r;
	object->handle = create.out.handle;
	object->size = size;
	object->data[OBJECT_MADE] = true;
	r = amdgpu_describe(object);
	if (r)
		goto err_handle;
	return 0;

err_handle:
	drm_handle_close(node, object->handle);
	return r;
}

/*
 * For another device's memory the kernel returns an offset, too, and raises SIGBUS at every
 * touch (ttm_bo_vm_reserve). The kernel does not tell the maker of an import, so no import is
 * mapped by the node.
 */
static int amdgpu_map_offset(struct drm_object *object)
{
	union drm_amdgpu_gem_mmap map = { .in = { .handle = object->handle } };
	int r;

	if (!object->data[OBJECT_MADE])
		return -EINVAL;
	r = drm_call(object->node, DRM_IOCTL_AMDGPU_GEM_MMAP, &map);
	if (r)
		return r;
	object->map_offset = map.out.addr_ptr;
	return 0;
}

/* Same for both rights: the kernel waits for readers and writers alike. */
static int amdgpu_wait(struct drm_object *object, bool for_write, uint64_t timeout_ns)
{
	uint64_t now = time_now_ns();
	union drm_amdgpu_gem_wait_idle wait = {
		.in = {
			.handle = object->handle,
			/* A point in time; without end where the sign bit is set. */
			.timeout = timeout_ns > INT64_MAX - now ? UINT64_MAX : now + timeout_ns,
		},
	};
	int r;

	(void)for_write;
	r = drm_call(object->node, DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE, &wait);
	if (r)
		return r;
	return wait.out.status ? -ETIME : 0;
}

/*
 * VALIDATE takes the pages once, so that unusable memory fails here; writable memory needs the
 * notifier that REGISTER installs. ANONONLY would refuse files, and the memory of most maps is
 * one (amdgpu_ttm_tt_get_user_pages).
 */
static int amdgpu_userptr(struct drm_node *node, void *address, uint64_t length, bool write,
			  struct drm_object *object)
{
	struct drm_amdgpu_gem_userptr user = {
		.addr = (uintptr_t)address,
		.size = length,
		.flags = AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_REGISTER |
			 (write ? 0 : AMDGPU_GEM_USERPTR_READONLY),
	};
	int r;

	r = drm_call(node, DRM_IOCTL_AMDGPU_GEM_USERPTR, &user);
	if (r)
		return r;
	object->handle = user.handle;
	object->size = length;
	object->place = DRM_PLACE_SYSTEM;
	object->cache = HM_CACHE_WRITE_BACK;
	return 0;
}

const struct drm_driver drm_amdgpu = {
	.name = "amdgpu",
	.description = "AMD GPU",
	.caps = HM_CAP_CREATE | HM_CAP_IMPORT | HM_CAP_EXPORT | HM_CAP_PLACE,
	.experimental = true,
	.open = amdgpu_open,
	.create = amdgpu_create,
	.map_offset = amdgpu_map_offset,
	.describe = amdgpu_describe,
	.wait = amdgpu_wait,
	.userptr = amdgpu_userptr,
	.memory = amdgpu_memory,
};
