/* SPDX-License-Identifier: MIT */
/*
 * The part of the kernel's ioctl interface of driver "virtio_gpu" that virtio_gpu.c
 * uses, for build machines whose libdrm has an older <virtgpu_drm.h>, as 2.4.114 does.
 * Names, numbers and layout are those of include/uapi/drm/virtgpu_drm.h (MIT, Copyright
 * 2013 Red Hat) of Linux 6.1; what each field means is documented there.
 */
#ifndef HETMAP_RUNTIME_DRM_UAPI_VIRTGPU_H
#define HETMAP_RUNTIME_DRM_UAPI_VIRTGPU_H

#include <drm.h>
#include <virtgpu_drm.h>

/* The last field of struct drm_virtgpu_resource_info. */
#ifdef VIRTGPU_PARAM_RESOURCE_BLOB
#define VIRTGPU_INFO_BLOB_MEM blob_mem
#else
#define VIRTGPU_INFO_BLOB_MEM stride

#define DRM_VIRTGPU_RESOURCE_CREATE_BLOB 0x0a
#define DRM_VIRTGPU_CONTEXT_INIT 0x0b

#define VIRTGPU_PARAM_RESOURCE_BLOB 3
#define VIRTGPU_PARAM_HOST_VISIBLE 4
#define VIRTGPU_PARAM_CROSS_DEVICE 5
#define VIRTGPU_PARAM_CONTEXT_INIT 6
#define VIRTGPU_PARAM_SUPPORTED_CAPSET_IDs 7

#define VIRTGPU_BLOB_MEM_GUEST 0x0001
#define VIRTGPU_BLOB_MEM_HOST3D 0x0002
#define VIRTGPU_BLOB_MEM_HOST3D_GUEST 0x0003

#define VIRTGPU_BLOB_FLAG_USE_MAPPABLE 0x0001
#define VIRTGPU_BLOB_FLAG_USE_SHAREABLE 0x0002
#define VIRTGPU_BLOB_FLAG_USE_CROSS_DEVICE 0x0004

struct drm_virtgpu_resource_create_blob {
	__u32 blob_mem;
	__u32 blob_flags;
	__u32 bo_handle;
	__u32 res_handle;
	__u64 size;
	__u32 pad;
	__u32 cmd_size;
	__u64 cmd;
	__u64 blob_id;
};

#define VIRTGPU_CONTEXT_PARAM_CAPSET_ID 0x0001
#define VIRTGPU_CONTEXT_PARAM_NUM_RINGS 0x0002
#define VIRTGPU_CONTEXT_PARAM_POLL_RINGS_MASK 0x0003

struct drm_virtgpu_context_set_param {
	__u64 param;
	__u64 value;
};

struct drm_virtgpu_context_init {
	__u32 num_params;
	__u32 pad;
	__u64 ctx_set_params;
};

#define DRM_IOCTL_VIRTGPU_RESOURCE_CREATE_BLOB                        \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VIRTGPU_RESOURCE_CREATE_BLOB, \
		 struct drm_virtgpu_resource_create_blob)
#define DRM_IOCTL_VIRTGPU_CONTEXT_INIT \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_VIRTGPU_CONTEXT_INIT, struct drm_virtgpu_context_init)

#endif

/* Linux 6.16's name; the number is the virtio specification's, VIRTIO_GPU_CAPSET_VENUS. */
#ifndef VIRTGPU_DRM_CAPSET_VENUS
#define VIRTGPU_DRM_CAPSET_VENUS 4
#endif

#endif
