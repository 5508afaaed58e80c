// SPDX-License-Identifier: MIT
/* nouveau, a chip of Maxwell's family on PCI Express. drivers/gpu/drm/nouveau/ */
#include <errno.h>
#include <stdint.h>
#include <time.h>

#include <nouveau_drm.h>

#include "fake.h"

/* The kernel's own; libdrm's header of Debian 12 has the numbers only. */
#define GETPARAM DRM_IOWR(DRM_COMMAND_BASE + DRM_NOUVEAU_GETPARAM, struct drm_nouveau_getparam)
#define GEM_NEW DRM_IOWR(DRM_COMMAND_BASE + DRM_NOUVEAU_GEM_NEW, struct drm_nouveau_gem_new)
#define GEM_CPU_PREP \
	DRM_IOW(DRM_COMMAND_BASE + DRM_NOUVEAU_GEM_CPU_PREP, struct drm_nouveau_gem_cpu_prep)
#define GEM_CPU_FINI \
	DRM_IOW(DRM_COMMAND_BASE + DRM_NOUVEAU_GEM_CPU_FINI, struct drm_nouveau_gem_cpu_fini)
#define GEM_INFO DRM_IOWR(DRM_COMMAND_BASE + DRM_NOUVEAU_GEM_INFO, struct drm_nouveau_gem_info)

/* nouveau_abi16.c, nouveau_abi16_ioctl_getparam */
static int getparam_call(struct fake_file *file, void *data)
{
	struct drm_nouveau_getparam *param = data;

	(void)file;
	switch (param->param) {
	case NOUVEAU_GETPARAM_FB_SIZE:
		param->value = FAKE_VRAM;
		break;
	case NOUVEAU_GETPARAM_AGP_SIZE:
		param->value = FAKE_SYSTEM;
		break;
	default:
		/* No row asks for other parameters. */
		return -EINVAL;
	}
	fake_trace("getparam %llu\n", (unsigned long long)param->param);
	return 0;
}

/* nouveau_gem.c, nouveau_gem_info */
static void fill_info(const struct fake_bo *bo, struct drm_nouveau_gem_info *info)
{
	bool one = bo->domains && !(bo->domains & (bo->domains - 1));

	/* An object of two domains reports its current one, which is VRAM at first. */
	info->domain = one ? (uint32_t)bo->domains : NOUVEAU_GEM_DOMAIN_VRAM;
	info->offset = 0x100000;
	info->size = bo->size;
	info->map_handle = bo->offset;
	info->tile_mode = bo->mode;
	info->tile_flags = (bo->flags & NOUVEAU_GEM_TILE_NONCONTIG) | bo->kind << 8;
}

/* nouveau_gem.c, nouveau_gem_ioctl_new, nouveau_gem_new; nouveau_bo.c, nouveau_bo_alloc */
static int new_call(struct fake_file *file, void *data)
{
	struct drm_nouveau_gem_new *req = data;
	uint32_t domain = req->info.domain, kind = (req->info.tile_flags & 0xff00) >> 8;
	uint32_t flags = req->info.tile_flags;
	uint64_t size;
	struct fake_bo *bo;
	int r;

	if (!(domain & (NOUVEAU_GEM_DOMAIN_VRAM | NOUVEAU_GEM_DOMAIN_GART)))
		domain |= NOUVEAU_GEM_DOMAIN_CPU;
	if (!req->info.size)
		return -EINVAL;
	/* nvif_mmu_kind_valid(): pitch, and the one for ordinary tiles */
	if (kind && kind != 0xfe)
		return -EINVAL;
	/* nouveau_bo_fixup_align(): to pages that both memories have */
	size = (req->info.size + FAKE_PAGE - 1) & ~(FAKE_PAGE - 1);
	/* ttm_bo_init_validate() by the managers' sizes */
	if (size > (domain & NOUVEAU_GEM_DOMAIN_VRAM ? FAKE_VRAM : FAKE_SYSTEM))
		return -ENOMEM;
	r = fake_bo_new(file, size, &bo, &req->info.handle);
	if (r)
		return r;
	bo->domains = domain & (NOUVEAU_GEM_DOMAIN_VRAM | NOUVEAU_GEM_DOMAIN_GART);
	bo->flags = flags;
	bo->mode = req->info.tile_mode;
	bo->kind = kind;
	fake_trace("new %llu domain %x mode %x kind %x %s align %u\n", (unsigned long long)size,
		   domain, bo->mode, kind,
		   flags & NOUVEAU_GEM_TILE_NONCONTIG ? "pages" : "whole", req->align);
	fill_info(bo, &req->info);
	return 0;
}

/* nouveau_gem.c, nouveau_gem_ioctl_info */
static int info_call(struct fake_file *file, void *data)
{
	struct drm_nouveau_gem_info *req = data;
	struct fake_bo *bo = fake_bo_of(file, req->handle);

	if (!bo)
		return -ENOENT;
	fill_info(bo, req);
	return 0;
}

/* nouveau_gem.c, nouveau_gem_ioctl_cpu_prep: of the flags, two are looked at */
static int prep_call(struct fake_file *file, void *data)
{
	struct drm_nouveau_gem_cpu_prep *req = data;
	bool no_wait = req->flags & NOUVEAU_GEM_CPU_PREP_NOWAIT;
	struct timespec pause = { .tv_nsec = 100 * 1000 * 1000 };

	if (!fake_bo_of(file, req->handle))
		return -ENOENT;
	fake_trace("prep %s %s\n", no_wait ? "now" : "30 s",
		   req->flags & NOUVEAU_GEM_CPU_PREP_WRITE ? "write" : "read");
	if (!fake_is_busy())
		return 0;
	/* Shorter than 30 seconds: a busy object never becomes idle here. */
	if (!no_wait)
		nanosleep(&pause, NULL);
	return -EBUSY;
}

/* nouveau_gem.c, nouveau_gem_ioctl_cpu_fini */
static int fini_call(struct fake_file *file, void *data)
{
	struct drm_nouveau_gem_cpu_fini *req = data;

	if (!fake_bo_of(file, req->handle))
		return -ENOENT;
	fake_trace("fini\n");
	return 0;
}

static const struct fake_call calls[] = {
	{ "drm_nouveau_getparam", GETPARAM, getparam_call },
	{ "drm_nouveau_gem_new", GEM_NEW, new_call },
	{ "drm_nouveau_gem_cpu_prep", GEM_CPU_PREP, prep_call },
	{ "drm_nouveau_gem_cpu_fini", GEM_CPU_FINI, fini_call },
	{ "drm_nouveau_gem_info", GEM_INFO, info_call },
	{ 0 },
};

/* nouveau_drm.c, driver_stub; nouveau_prime.c; ttm_bo_vm.c, ttm_bo_vm_reserve */
const struct fake_driver fake_nouveau = {
	.name = "nouveau",
	.description = "nVidia Riva/TNT/GeForce/Quadro/Tesla/Tegra K1+",
	.date = "20120801",
	.major = 1,
	.minor = 3,
	.patchlevel = 1,
	.vendor = 0x10de,
	.device = 0x1380,
	.foreign = FAKE_MAP_SIGBUS,
	.foreign_domains = NOUVEAU_GEM_DOMAIN_GART,
	.calls = calls,
};
