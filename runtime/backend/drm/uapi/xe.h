/* SPDX-License-Identifier: MIT */
/*
 * The part of the kernel's ioctl interface of driver "xe" that xe.c uses, for build
 * machines whose libdrm is older than 2.4.118 and has no <xe_drm.h>. Names, numbers
 * and layout are those of include/uapi/drm/xe_drm.h (MIT, Copyright (c) 2023 Intel
 * Corporation) of Linux 6.12; what each field means is documented there.
 */
#ifndef HETMAP_RUNTIME_DRM_UAPI_XE_H
#define HETMAP_RUNTIME_DRM_UAPI_XE_H

#if __has_include(<xe_drm.h>)
#include <xe_drm.h>
#else

#include <drm.h>

#define DRM_XE_DEVICE_QUERY 0x00
#define DRM_XE_GEM_CREATE 0x01
#define DRM_XE_GEM_MMAP_OFFSET 0x02

#define DRM_IOCTL_XE_DEVICE_QUERY \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_XE_DEVICE_QUERY, struct drm_xe_device_query)
#define DRM_IOCTL_XE_GEM_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_XE_GEM_CREATE, struct drm_xe_gem_create)
#define DRM_IOCTL_XE_GEM_MMAP_OFFSET \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_XE_GEM_MMAP_OFFSET, struct drm_xe_gem_mmap_offset)

#define DRM_XE_DEVICE_QUERY_MEM_REGIONS 1

struct drm_xe_device_query {
	__u64 extensions; /* none: 0 */
	__u32 query;      /* DRM_XE_DEVICE_QUERY_* */
	__u32 size;       /* [in/out] 0 asks for it, and then it must be exact */
	__u64 data;
	__u64 reserved[2];
};

enum drm_xe_memory_class {
	DRM_XE_MEM_REGION_CLASS_SYSMEM = 0,
	DRM_XE_MEM_REGION_CLASS_VRAM,
};

struct drm_xe_mem_region {
	__u16 mem_class; /* enum drm_xe_memory_class */
	__u16 instance;  /* bit of drm_xe_gem_create.placement */
	__u32 min_page_size;
	__u64 total_size;
	__u64 used; /* 0 without CAP_PERFMON */
	__u64 cpu_visible_size;
	__u64 cpu_visible_used;
	__u64 reserved[6];
};

struct drm_xe_query_mem_regions {
	__u32 num_mem_regions;
	__u32 pad;
	struct drm_xe_mem_region mem_regions[];
};

#define DRM_XE_GEM_CREATE_FLAG_DEFER_BACKING (1 << 0)
#define DRM_XE_GEM_CREATE_FLAG_SCANOUT (1 << 1)
#define DRM_XE_GEM_CREATE_FLAG_NEEDS_VISIBLE_VRAM (1 << 2)

#define DRM_XE_GEM_CPU_CACHING_WB 1
#define DRM_XE_GEM_CPU_CACHING_WC 2

struct drm_xe_gem_create {
	__u64 extensions;
	__u64 size;
	__u32 placement; /* mask of instances */
	__u32 flags;
	__u32 vm_id;
	__u32 handle; /* [out], and 0 before */
	__u16 cpu_caching;
	__u16 pad[3];
	__u64 reserved[2];
};

struct drm_xe_gem_mmap_offset {
	__u64 extensions;
	__u32 handle;
	__u32 flags;
	__u64 offset; /* [out] */
	__u64 reserved[2];
};

#endif
#endif
