// SPDX-License-Identifier: MIT
/* amdgpu with a window that is smaller than its VRAM. drivers/gpu/drm/amd/amdgpu/ */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <amdgpu_drm.h>

#include "fake.h"

/* amdgpu_drm.h of kernel 5.19 and on; libdrm's of Debian 12 is older. */
#ifndef AMDGPU_GEM_CREATE_DISCARDABLE
#define AMDGPU_GEM_CREATE_DISCARDABLE (1 << 12)
#endif

#define GTT_SIZE FAKE_SYSTEM

/* amdgpu_kms.c, amdgpu_info_ioctl */
static int info_call(struct fake_file *file, void *data)
{
	struct drm_amdgpu_info *info = data;
	struct drm_amdgpu_memory_info memory = { 0 };
	size_t size = info->return_size;

	(void)file;
	if (!info->return_size || !info->return_pointer)
		return -EINVAL;
	/* No row makes other queries. */
	if (info->query != AMDGPU_INFO_MEMORY)
		return -EINVAL;
	memory.vram.total_heap_size = FAKE_VRAM;
	memory.vram.usable_heap_size = FAKE_VRAM - 8 * FAKE_MIB;
	memory.vram.heap_usage = FAKE_MIB;
	memory.vram.max_allocation = memory.vram.usable_heap_size * 3 / 4;
	memory.cpu_accessible_vram.total_heap_size = FAKE_VISIBLE;
	memory.cpu_accessible_vram.usable_heap_size = FAKE_VISIBLE;
	memory.gtt.total_heap_size = GTT_SIZE;
	memory.gtt.usable_heap_size = GTT_SIZE;
	if (size > sizeof(memory))
		size = sizeof(memory);
	fake_trace("info %zu\n", size);
	return fake_write(info->return_pointer, &memory, size);
}

/* amdgpu_gem.c, amdgpu_gem_are_domains_valid */
static bool are_domains_valid(uint32_t domains)
{
	uint32_t normal = AMDGPU_GEM_DOMAIN_CPU | AMDGPU_GEM_DOMAIN_GTT |
			  AMDGPU_GEM_DOMAIN_VRAM;
	uint32_t special = domains & AMDGPU_GEM_DOMAIN_MASK & ~normal;

	if (!special)
		return true;
	return !(domains & normal) && !(special & (special - 1));
}

/* amdgpu_object.c, amdgpu_bo_validate_size */
static bool is_size_valid(uint64_t size, uint64_t domains)
{
	if (domains & AMDGPU_GEM_DOMAIN_GTT)
		return size < GTT_SIZE;
	if (domains & AMDGPU_GEM_DOMAIN_VRAM)
		return size < FAKE_VRAM;
	return true;
}

/* amdgpu_gem.c, amdgpu_gem_object_create; amdgpu_object.c, amdgpu_bo_create */
static int object_create(struct fake_file *file, uint64_t size, uint64_t domains,
			 uint64_t flags, struct fake_bo **ret_bo, uint32_t *ret_handle)
{
	int r;

	size = (size + FAKE_PAGE - 1) & ~(FAKE_PAGE - 1);
	if (!is_size_valid(size, domains))
		return -ENOMEM;
	/* ttm_bo_init_reserved() of no pages */
	if (!size)
		return -EINVAL;
	r = fake_bo_new(file, size, ret_bo, ret_handle);
	if (r)
		return r;
	(*ret_bo)->domains = domains;
	(*ret_bo)->flags = flags;
	return 0;
}

/* amdgpu_gem.c, amdgpu_gem_create_ioctl */
static int create_call(struct fake_file *file, void *data)
{
	union drm_amdgpu_gem_create *args = data;
	uint64_t flags = args->in.domain_flags, size = args->in.bo_size;
	uint64_t domains = args->in.domains & 0xffffffff;
	uint64_t alignment = args->in.alignment;
	struct fake_bo *bo;
	uint32_t handle;
	int r;

	if (flags &
	    ~(uint64_t)(AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED |
			AMDGPU_GEM_CREATE_NO_CPU_ACCESS | AMDGPU_GEM_CREATE_CPU_GTT_USWC |
			AMDGPU_GEM_CREATE_VRAM_CLEARED | AMDGPU_GEM_CREATE_VM_ALWAYS_VALID |
			AMDGPU_GEM_CREATE_EXPLICIT_SYNC | AMDGPU_GEM_CREATE_ENCRYPTED |
			AMDGPU_GEM_CREATE_DISCARDABLE))
		return -EINVAL;
	if (args->in.domains & ~(uint64_t)AMDGPU_GEM_DOMAIN_MASK)
		return -EINVAL;
	if (!are_domains_valid((uint32_t)args->in.domains))
		return -EINVAL;
	/* This one has no trusted memory zone. */
	if (flags & AMDGPU_GEM_CREATE_ENCRYPTED)
		return -EINVAL;
	if (domains & (AMDGPU_GEM_DOMAIN_GDS | AMDGPU_GEM_DOMAIN_GWS | AMDGPU_GEM_DOMAIN_OA)) {
		if (flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
			return -EINVAL;
		flags |= AMDGPU_GEM_CREATE_NO_CPU_ACCESS;
	}
	for (;;) {
		r = object_create(file, size, domains, flags, &bo, &handle);
		if (!r)
			break;
		if (flags & AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED)
			flags &= ~(uint64_t)AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
		else if (domains == AMDGPU_GEM_DOMAIN_VRAM)
			domains |= AMDGPU_GEM_DOMAIN_GTT;
		else
			return r;
	}
	fake_trace("create %llu domains %llx flags %llx alignment %llu\n",
		   (unsigned long long)bo->size, (unsigned long long)domains,
		   (unsigned long long)flags, (unsigned long long)alignment);
	memset(args, 0, sizeof(*args));
	args->out.handle = handle;
	return 0;
}

/* amdgpu_gem.c, amdgpu_gem_mmap_ioctl and amdgpu_mode_dumb_mmap */
static int mmap_call(struct fake_file *file, void *data)
{
	union drm_amdgpu_gem_mmap *args = data;
	struct fake_bo *bo = fake_bo_of(file, args->in.handle);

	memset(args, 0, sizeof(*args));
	if (!bo)
		return -ENOENT;
	if (bo->map == FAKE_MAP_REFUSED || bo->flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS)
		return -EPERM;
	args->out.addr_ptr = bo->offset;
	return 0;
}

/* amdgpu_gem.c, amdgpu_gem_wait_idle_ioctl and amdgpu_gem_timeout */
static int wait_call(struct fake_file *file, void *data)
{
	union drm_amdgpu_gem_wait_idle *args = data;
	int64_t timeout = (int64_t)args->in.timeout;
	struct timespec now, pause = { .tv_nsec = 1000 * 1000 };
	bool busy;

	if (!fake_bo_of(file, args->in.handle))
		return -ENOENT;
	fake_trace("wait%s\n", timeout < 0 ? " for ever" : "");
	while ((busy = fake_is_busy())) {
		/* A wait without a limit for work that never ends is told so. */
		if (timeout < 0 && fake_is_busy_for_ever())
			return -EINTR;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec >= timeout && timeout >= 0)
			break;
		nanosleep(&pause, NULL);
	}
	memset(args, 0, sizeof(*args));
	args->out.status = busy;
	return 0;
}

/* amdgpu_gem.c, amdgpu_gem_userptr_ioctl */
static int userptr_call(struct fake_file *file, void *data)
{
	struct drm_amdgpu_gem_userptr *args = data;
	struct fake_bo *bo;
	uint32_t handle;
	int r;

	if ((args->addr | args->size) & (FAKE_PAGE - 1))
		return -EINVAL;
	if (args->flags &
	    ~(uint32_t)(AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_ANONONLY |
			AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_REGISTER))
		return -EINVAL;
	if (!(args->flags & AMDGPU_GEM_USERPTR_READONLY) &&
	    !(args->flags & AMDGPU_GEM_USERPTR_REGISTER))
		return -EACCES;
	if (args->flags & AMDGPU_GEM_USERPTR_VALIDATE &&
	    !fake_has_pages(args->addr, args->size))
		return -EFAULT;
	r = object_create(file, args->size, AMDGPU_GEM_DOMAIN_CPU, 0, &bo, &handle);
	if (r)
		return r;
	bo->domains = AMDGPU_GEM_DOMAIN_GTT;
	bo->map = FAKE_MAP_REFUSED;
	fake_trace("userptr %llu flags %x\n", (unsigned long long)bo->size, args->flags);
	args->handle = handle;
	return 0;
}

/* amdgpu_gem.c, amdgpu_gem_op_ioctl */
static int op_call(struct fake_file *file, void *data)
{
	struct drm_amdgpu_gem_op *args = data;
	struct fake_bo *bo = fake_bo_of(file, args->handle);
	struct drm_amdgpu_gem_create_in info = { 0 };

	if (!bo)
		return -ENOENT;
	/* SET_PLACEMENT is known, too; no row sends it. */
	if (args->op != AMDGPU_GEM_OP_GET_GEM_CREATE_INFO)
		return -EINVAL;
	info.bo_size = bo->size;
	info.alignment = FAKE_PAGE;
	info.domains = bo->domains;
	info.domain_flags = bo->flags;
	return fake_write(args->value, &info, sizeof(info));
}

static const struct fake_call calls[] = {
	{ "drm_amdgpu_info", DRM_IOCTL_AMDGPU_INFO, info_call },
	{ "drm_amdgpu_gem_create", DRM_IOCTL_AMDGPU_GEM_CREATE, create_call },
	{ "drm_amdgpu_gem_mmap", DRM_IOCTL_AMDGPU_GEM_MMAP, mmap_call },
	{ "drm_amdgpu_gem_wait_idle", DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE, wait_call },
	{ "drm_amdgpu_gem_userptr", DRM_IOCTL_AMDGPU_GEM_USERPTR, userptr_call },
	{ "drm_amdgpu_gem_op", DRM_IOCTL_AMDGPU_GEM_OP, op_call },
	{ 0 },
};

/* amdgpu_drv.c, amdgpu_kms_driver; ttm_bo_vm.c, ttm_bo_mmap_obj and ttm_bo_vm_reserve */
const struct fake_driver fake_amdgpu = {
	.name = "amdgpu",
	.description = "AMD GPU",
	.date = "20150101",
	.major = 3,
	.minor = 49,
	.vendor = 0x1002,
	.device = 0x73bf,
	.userptr_export = -EPERM, /* amdgpu_dma_buf.c, amdgpu_gem_prime_export */
	.foreign = FAKE_MAP_SIGBUS,
	.foreign_domains = AMDGPU_GEM_DOMAIN_GTT,
	.syncobj = true,
	.timeline = true,
	.calls = calls,
};
