// SPDX-License-Identifier: MIT
/*
 * i915, discrete (local memory in pages of 64 KiB, behind a smaller window; with an old
 * kernel, too) and integrated (with a last-level cache). drivers/gpu/drm/i915/
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <i915_drm.h>

#include "fake.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define LOCAL_PAGE (64 * 1024ull)

/* intel_memory_region.h, INTEL_REGION_UNKNOWN: how many there may be. */
#define REGIONS_MAX 7

static bool is_discrete(const struct fake_file *file)
{
	return file->node != FAKE_I915_INTEGRATED;
}

/* 5.16 to 5.19: before "drm/i915/uapi: add NEEDS_CPU_ACCESS hint" and the sizes beside it. */
static bool is_old(const struct fake_file *file)
{
	return file->node == FAKE_I915_OLD;
}

/* i915_getparam.c, i915_getparam_ioctl */
static int getparam_call(struct fake_file *file, void *data)
{
	struct drm_i915_getparam *param = data;
	int value;

	/* No row asks for other parameters. */
	if (param->param != I915_PARAM_HAS_LLC)
		return -EINVAL;
	value = !is_discrete(file);
	return fake_write((uintptr_t)param->value, &value, sizeof(value));
}

/* i915_query.c, query_memregion_info and copy_query_item */
static int query_regions(struct fake_file *file, const struct drm_i915_query_item *item)
{
	uint32_t n = is_discrete(file) ? 2 : 1, total, i;
	struct drm_i915_query_memory_regions query;
	struct drm_i915_memory_region_info info[2] = { 0 };

	if (item->flags)
		return -EINVAL;
	total = (uint32_t)(sizeof(query) + n * sizeof(info[0]));
	if (!item->length)
		return (int)total;
	if (item->length < (int32_t)total)
		return -EINVAL;
	if (fake_read("drm_i915_query_memory_regions", &query, item->data_ptr, sizeof(query)))
		return -EFAULT;
	if (query.num_regions)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(query.rsvd); i++)
		if (query.rsvd[i])
			return -EINVAL;
	info[0].region.memory_class = I915_MEMORY_CLASS_SYSTEM;
	info[0].probed_size = info[0].unallocated_size = FAKE_SYSTEM;
	info[0].probed_cpu_visible_size = info[0].unallocated_cpu_visible_size = FAKE_SYSTEM;
	info[1].region.memory_class = I915_MEMORY_CLASS_DEVICE;
	info[1].probed_size = FAKE_VRAM;
	info[1].unallocated_size = FAKE_VRAM - FAKE_MIB;
	info[1].probed_cpu_visible_size = info[1].unallocated_cpu_visible_size = FAKE_VISIBLE;
	for (i = 0; is_old(file) && i < n; i++)
		memset(info[i].rsvd1, 0, sizeof(info[i].rsvd1));
	query.num_regions = n;
	if (fake_write(item->data_ptr + sizeof(query), info, n * sizeof(info[0])) ||
	    fake_write(item->data_ptr, &query, sizeof(query)))
		return -EFAULT;
	return (int)total;
}

/* i915_query.c, i915_query_ioctl */
static int query_call(struct fake_file *file, void *data)
{
	struct drm_i915_query *args = data;
	struct drm_i915_query_item item;
	uint64_t at = args->items_ptr;
	uint32_t i;
	int32_t r;

	if (args->flags)
		return -EINVAL;
	for (i = 0; i < args->num_items; i++, at += sizeof(item)) {
		if (fake_read("drm_i915_query_item", &item, at, sizeof(item)))
			return -EFAULT;
		if (!item.query_id)
			return -EINVAL;
		/* No row makes other queries. */
		r = -EINVAL;
		if (item.query_id == DRM_I915_QUERY_MEMORY_REGIONS)
			r = query_regions(file, &item);
		fake_trace("query length %d\n", item.length);
		if (r != item.length &&
		    fake_write(at + offsetof(struct drm_i915_query_item, length), &r,
			       sizeof(r)))
			return -EFAULT;
	}
	return 0;
}

struct create_ext {
	bool discrete;
	struct drm_i915_gem_memory_class_instance placements[REGIONS_MAX];
	uint32_t n_placement;
};

/* intel_memory_region.c, intel_memory_region_lookup */
static bool has_region(bool discrete, const struct drm_i915_gem_memory_class_instance *region)
{
	return !region->memory_instance &&
	       (region->memory_class == I915_MEMORY_CLASS_SYSTEM ||
		(discrete && region->memory_class == I915_MEMORY_CLASS_DEVICE));
}

/* gem/i915_gem_create.c, set_placements and ext_set_placements */
static int set_placements(uint64_t at, struct create_ext *ext)
{
	struct drm_i915_gem_create_ext_memory_regions args;
	struct drm_i915_gem_memory_class_instance *region;
	uint32_t i, mask = 0;

	if (fake_read("drm_i915_gem_create_ext_memory_regions", &args, at, sizeof(args)))
		return -EFAULT;
	if (args.pad || !args.num_regions || args.num_regions > REGIONS_MAX)
		return -EINVAL;
	if (ext->n_placement)
		return -EINVAL;
	for (i = 0; i < args.num_regions; i++) {
		region = &ext->placements[i];
		if (fake_read("drm_i915_gem_memory_class_instance", region,
			      args.regions + i * sizeof(*region), sizeof(*region)))
			return -EFAULT;
		if (!has_region(ext->discrete, region) || mask & 1u << region->memory_class)
			return -EINVAL;
		mask |= 1u << region->memory_class;
	}
	ext->n_placement = args.num_regions;
	return 0;
}

/*
 * i915_user_extensions.c, i915_user_extensions: the head of each is checked before
 * its function reads the whole. @ext NULL: of a call that knows none.
 */
static int user_extensions(uint64_t at, struct create_ext *ext)
{
	struct i915_user_extension head;
	unsigned int depth = 512, i;
	int r;

	while (at) {
		if (!depth--)
			return -E2BIG;
		if (fake_read("i915_user_extension", &head, at, sizeof(head)))
			return -EFAULT;
		if (head.flags)
			return -EINVAL;
		for (i = 0; i < ARRAY_SIZE(head.rsvd); i++)
			if (head.rsvd[i])
				return -EINVAL;
		/* PROTECTED_CONTENT: intel_pxp_is_enabled() is false here. */
		if (ext && head.name == I915_GEM_CREATE_EXT_PROTECTED_CONTENT)
			return -ENODEV;
		if (!ext || head.name != I915_GEM_CREATE_EXT_MEMORY_REGIONS)
			return -EINVAL;
		r = set_placements(at, ext);
		if (r)
			return r;
		at = head.next_extension;
	}
	return 0;
}

/* gem/i915_gem_create.c, i915_gem_create_ext_ioctl, __i915_gem_object_create_user_ext */
static int create_call(struct fake_file *file, void *data)
{
	struct drm_i915_gem_create_ext *args = data;
	struct create_ext ext = { .discrete = is_discrete(file) };
	bool local = false, system = false;
	struct fake_bo *bo;
	uint64_t size;
	uint32_t i;
	int r;

	if (args->flags &
	    (is_old(file) ? ~0u : ~(uint32_t)I915_GEM_CREATE_EXT_FLAG_NEEDS_CPU_ACCESS))
		return -EINVAL;
	r = user_extensions(args->extensions, &ext);
	if (r)
		return r;
	if (!ext.n_placement)
		ext.placements[ext.n_placement++].memory_class = I915_MEMORY_CLASS_SYSTEM;
	for (i = 0; i < ext.n_placement; i++) {
		local |= ext.placements[i].memory_class == I915_MEMORY_CLASS_DEVICE;
		system |= ext.placements[i].memory_class == I915_MEMORY_CLASS_SYSTEM;
	}
	if (args->flags & I915_GEM_CREATE_EXT_FLAG_NEEDS_CPU_ACCESS &&
	    (ext.n_placement == 1 || !system))
		return -EINVAL;
	size = local ? (args->size + LOCAL_PAGE - 1) & ~(LOCAL_PAGE - 1) :
		       (args->size + FAKE_PAGE - 1) & ~(FAKE_PAGE - 1);
	if (!size)
		return -EINVAL;
	/* gem/i915_gem_object.h, i915_gem_object_size_2big: more than INT_MAX pages */
	if (size >> 12 > INT32_MAX)
		return -E2BIG;
	/* gem/i915_gem_region.c, __i915_gem_object_create_region: TTM's managers are full */
	if (size > (system ? FAKE_SYSTEM : FAKE_VRAM))
		return -ENOMEM;
	r = fake_bo_new(file, size, &bo, &args->handle);
	if (r)
		return r;
	bo->domains = (local ? 2 : 0) | (system ? 1 : 0);
	bo->flags = args->flags;
	fake_trace("create %llu flags %x regions %llx\n", (unsigned long long)size, args->flags,
		   (unsigned long long)bo->domains);
	args->size = size;
	return 0;
}

/* gem/i915_gem_mman.c, i915_gem_mmap_offset_ioctl and __assign_mmap_offset */
static int mmap_call(struct fake_file *file, void *data)
{
	struct drm_i915_gem_mmap_offset *args = data;
	struct fake_bo *bo;
	int r;

	r = user_extensions(args->extensions, NULL);
	if (r)
		return r;
	if (args->flags > I915_MMAP_OFFSET_FIXED)
		return -EINVAL;
	/* i915_ggtt_has_aperture(): only where the GPU is part of the CPU. */
	if (args->flags == I915_MMAP_OFFSET_GTT && is_discrete(file))
		return -ENODEV;
	bo = fake_bo_of(file, args->handle);
	if (!bo)
		return -ENOENT;
	if (bo->map == FAKE_MAP_REFUSED)
		return -ENODEV;
	if (is_discrete(file) != (args->flags == I915_MMAP_OFFSET_FIXED))
		return -ENODEV;
	fake_trace("mmap offset %llx\n", (unsigned long long)args->flags);
	args->offset = bo->offset;
	return 0;
}

/* gem/i915_gem_wait.c, i915_gem_wait_ioctl */
static int wait_call(struct fake_file *file, void *data)
{
	struct drm_i915_gem_wait *args = data;
	struct timespec pause = { .tv_nsec = 1000 * 1000 };

	if (args->flags)
		return -EINVAL;
	if (!fake_bo_of(file, args->bo_handle))
		return -ENOENT;
	fake_trace("wait %lld\n", (long long)args->timeout_ns);
	while (fake_is_busy()) {
		/* A wait without a limit for work that never ends is told so. */
		if (args->timeout_ns < 0 && fake_is_busy_for_ever())
			return -EINTR;
		if (!args->timeout_ns)
			return -ETIME;
		nanosleep(&pause, NULL);
		if (args->timeout_ns > pause.tv_nsec)
			args->timeout_ns -= pause.tv_nsec;
		else if (args->timeout_ns > 0)
			args->timeout_ns = 0;
	}
	return 0;
}

/* gem/i915_gem_userptr.c, i915_gem_userptr_ioctl and probe_range */
static int userptr_call(struct fake_file *file, void *data)
{
	struct drm_i915_gem_userptr *args = data;
	struct fake_bo *bo;
	int r;

	if (args->flags & ~(uint32_t)(I915_USERPTR_READ_ONLY | I915_USERPTR_UNSYNCHRONIZED |
				      I915_USERPTR_PROBE))
		return -EINVAL;
	if (args->user_size >> 12 > INT32_MAX)
		return -E2BIG;
	if (!args->user_size)
		return -EINVAL;
	if ((args->user_ptr | args->user_size) & (FAKE_PAGE - 1))
		return -EINVAL;
	/* access_ok() */
	if (args->user_ptr + args->user_size > 1ull << 47)
		return -EFAULT;
	if (args->flags & I915_USERPTR_UNSYNCHRONIZED)
		return -ENODEV;
	if (args->flags & I915_USERPTR_PROBE &&
	    !fake_has_pages(args->user_ptr, args->user_size))
		return -EFAULT;
	r = fake_bo_new(file, args->user_size, &bo, &args->handle);
	if (r)
		return r;
	bo->map = FAKE_MAP_REFUSED;
	fake_trace("userptr %llu flags %x\n", (unsigned long long)bo->size, args->flags);
	return 0;
}

static const struct fake_call calls[] = {
	{ "drm_i915_getparam", DRM_IOCTL_I915_GETPARAM, getparam_call },
	{ "drm_i915_query", DRM_IOCTL_I915_QUERY, query_call },
	{ "drm_i915_gem_create_ext", DRM_IOCTL_I915_GEM_CREATE_EXT, create_call },
	{ "drm_i915_gem_mmap_offset", DRM_IOCTL_I915_GEM_MMAP_OFFSET, mmap_call },
	{ "drm_i915_gem_wait", DRM_IOCTL_I915_GEM_WAIT, wait_call },
	{ "drm_i915_gem_userptr", DRM_IOCTL_I915_GEM_USERPTR, userptr_call },
	{ 0 },
};

/* i915_driver.c, i915_drm_driver; gem/i915_gem_dmabuf.c, i915_gem_object_dmabuf_ops */
const struct fake_driver fake_i915 = {
	.name = "i915",
	.description = "Intel Graphics",
	.date = "20201103",
	.major = 1,
	.minor = 6,
	.vendor = 0x8086,
	.device = 0x56a0,
	.userptr_export = -EINVAL, /* i915_gem_userptr.c, i915_gem_userptr_dmabuf_export */
	.cow = true,
	.foreign = FAKE_MAP_REFUSED,
	.syncobj = true,
	.timeline = true,
	.calls = calls,
};
