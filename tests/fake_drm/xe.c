// SPDX-License-Identifier: MIT
/* xe, discrete, with VRAM in pages of 64 KiB. drivers/gpu/drm/xe/ */
#include <assert.h>
#include <errno.h>

#include "../../runtime/backend/drm/uapi/xe.h"

#include "fake.h"

/*
 * The carried header against Linux 6.12's: a number has the struct's size in it, and the offsets
 * are those of fields behind the first ones.
 */
static_assert(DRM_IOCTL_XE_DEVICE_QUERY == 0xc0286440, "");
static_assert(DRM_IOCTL_XE_GEM_CREATE == 0xc0386441, "");
static_assert(DRM_IOCTL_XE_GEM_MMAP_OFFSET == 0xc0286442, "");
static_assert(offsetof(struct drm_xe_device_query, data) == 16, "");
static_assert(offsetof(struct drm_xe_mem_region, cpu_visible_size) == 24, "");
static_assert(sizeof(struct drm_xe_mem_region) == 88, "");
static_assert(offsetof(struct drm_xe_query_mem_regions, mem_regions) == 8, "");
static_assert(offsetof(struct drm_xe_gem_create, vm_id) == 24, "");
static_assert(offsetof(struct drm_xe_gem_create, cpu_caching) == 32, "");
static_assert(offsetof(struct drm_xe_gem_mmap_offset, offset) == 16, "");

#define VRAM_PAGE (64 * 1024ull)

/* xe_query.c, query_mem_regions: bits of the placement mask */
#define INSTANCE_SYSTEM 0
#define INSTANCE_VRAM 1
#define REGION_MASK (1u << INSTANCE_SYSTEM | 1u << INSTANCE_VRAM)

/* xe_query.c, xe_query_ioctl and query_mem_regions */
static int query_call(struct fake_file *file, void *data)
{
	struct drm_xe_device_query *query = data;
	/* struct drm_xe_query_mem_regions, with an array that has a length. */
	struct {
		uint32_t num_mem_regions;
		uint32_t pad;
		struct drm_xe_mem_region region[2];
	} answer = { 0 };

	(void)file;
	if (query->extensions || query->reserved[0] || query->reserved[1])
		return -EINVAL;
	/* No row makes other queries. */
	if (query->query != DRM_XE_DEVICE_QUERY_MEM_REGIONS)
		return -EINVAL;
	if (!query->size) {
		query->size = sizeof(answer);
		return 0;
	}
	if (query->size != sizeof(answer))
		return -EINVAL;
	answer.num_mem_regions = 2;
	answer.region[0].mem_class = DRM_XE_MEM_REGION_CLASS_SYSMEM;
	answer.region[0].instance = INSTANCE_SYSTEM;
	answer.region[0].min_page_size = FAKE_PAGE;
	answer.region[0].total_size = FAKE_SYSTEM;
	answer.region[1].mem_class = DRM_XE_MEM_REGION_CLASS_VRAM;
	answer.region[1].instance = INSTANCE_VRAM;
	answer.region[1].min_page_size = VRAM_PAGE;
	answer.region[1].total_size = FAKE_VRAM;
	answer.region[1].used = FAKE_MIB;
	answer.region[1].cpu_visible_size = FAKE_VISIBLE;
	/* As the kernel has it: not -EFAULT. */
	return fake_write(query->data, &answer, sizeof(answer)) ? -ENOSPC : 0;
}

/* xe_bo.c, xe_gem_create_ioctl and ___xe_bo_create_locked */
static int create_call(struct fake_file *file, void *data)
{
	struct drm_xe_gem_create *args = data;
	bool vram = args->placement & 1u << INSTANCE_VRAM;
	struct fake_bo *bo;
	int r;

	if (args->extensions || args->pad[0] || args->pad[1] || args->pad[2] ||
	    args->reserved[0] || args->reserved[1])
		return -EINVAL;
	if (args->placement & ~REGION_MASK || !args->placement)
		return -EINVAL;
	if (args->flags &
	    ~(uint32_t)(DRM_XE_GEM_CREATE_FLAG_DEFER_BACKING | DRM_XE_GEM_CREATE_FLAG_SCANOUT |
			DRM_XE_GEM_CREATE_FLAG_NEEDS_VISIBLE_VRAM))
		return -EINVAL;
	if (args->handle)
		return -EINVAL;
	if (!args->size || args->size & (FAKE_PAGE - 1))
		return -EINVAL;
	if (args->flags & DRM_XE_GEM_CREATE_FLAG_NEEDS_VISIBLE_VRAM && !vram)
		return -EINVAL;
	if (!args->cpu_caching || args->cpu_caching > DRM_XE_GEM_CPU_CACHING_WC)
		return -EINVAL;
	if (vram && args->cpu_caching != DRM_XE_GEM_CPU_CACHING_WC)
		return -EINVAL;
	if (args->flags & DRM_XE_GEM_CREATE_FLAG_SCANOUT &&
	    args->cpu_caching == DRM_XE_GEM_CPU_CACHING_WB)
		return -EINVAL;
	/* xe_vm_lookup(): no row makes a VM. */
	if (args->vm_id)
		return -ENOENT;
	/* XE_VRAM_FLAGS_NEED64K */
	if (vram && args->size & (VRAM_PAGE - 1))
		return -EINVAL;
	/* ttm_bo_init_reserved() by the managers' sizes */
	if (args->size > (args->placement & 1u << INSTANCE_SYSTEM ? FAKE_SYSTEM :
			  args->flags & DRM_XE_GEM_CREATE_FLAG_NEEDS_VISIBLE_VRAM ?
								    FAKE_VISIBLE :
								    FAKE_VRAM))
		return -ENOMEM;
	r = fake_bo_new(file, args->size, &bo, &args->handle);
	if (r)
		return r;
	bo->domains = args->placement;
	bo->flags = args->flags;
	fake_trace("create %llu placement %x flags %x caching %u\n",
		   (unsigned long long)args->size, args->placement, args->flags,
		   args->cpu_caching);
	return 0;
}

/* xe_bo.c, xe_gem_mmap_offset_ioctl */
static int mmap_call(struct fake_file *file, void *data)
{
	struct drm_xe_gem_mmap_offset *args = data;
	struct fake_bo *bo;

	if (args->extensions || args->reserved[0] || args->reserved[1])
		return -EINVAL;
	/* 6.12 knows none; PCI_BARRIER came later. */
	if (args->flags)
		return -EINVAL;
	bo = fake_bo_of(file, args->handle);
	if (!bo)
		return -ENOENT;
	args->offset = bo->offset;
	return 0;
}

static const struct fake_call calls[] = {
	{ "drm_xe_device_query", DRM_IOCTL_XE_DEVICE_QUERY, query_call },
	{ "drm_xe_gem_create", DRM_IOCTL_XE_GEM_CREATE, create_call },
	{ "drm_xe_gem_mmap_offset", DRM_IOCTL_XE_GEM_MMAP_OFFSET, mmap_call },
	{ 0 },
};

/* xe_device.c, driver; ttm_bo_vm.c, ttm_bo_mmap_obj and ttm_bo_vm_reserve */
const struct fake_driver fake_xe = {
	.name = "xe",
	.description = "Intel Xe Graphics",
	.date = "20201103",
	.major = 1,
	.minor = 1,
	.vendor = 0x8086,
	.device = 0xe20b,
	.foreign = FAKE_MAP_SIGBUS,
	.syncobj = true,
	.timeline = true,
	.calls = calls,
};
