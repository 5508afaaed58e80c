// SPDX-License-Identifier: MIT
/*
 * A field that the kernel ignores is listed as UNREAD, with the reason. A byte of a struct that is
 * in no line fails test_drm_mutation.c.
 */
#include "drm/drm_fields.h"

#include <amdgpu_drm.h>
#include <drm.h>
#include <drm_mode.h>
#include <fcntl.h>
#include <i915_drm.h>
#include <linux/dma-buf.h>
#include <linux/sync_file.h>
#include <nouveau_drm.h> /* wants <stdint.h> */

#include "backend/drm/uapi/virtgpu.h"
#include "backend/drm/uapi/xe.h"
#include "base/util.h"

#define ALL UINT64_MAX
#define AT(in, type, member) \
#in, #member, offsetof(type, member), sizeof(((type *)NULL)->member)

#define STRUCT(in, member) AT(in, struct in, member)

/* The user's half of unions, with the name of the table's struct. */
#define CREATE(member)                                                                       \
	"drm_amdgpu_gem_create", #member, offsetof(struct drm_amdgpu_gem_create_in, member), \
		sizeof(((struct drm_amdgpu_gem_create_in *)NULL)->member)
#define MMAP(member)                                                                     \
	"drm_amdgpu_gem_mmap", #member, offsetof(struct drm_amdgpu_gem_mmap_in, member), \
		sizeof(((struct drm_amdgpu_gem_mmap_in *)NULL)->member)
#define WAIT(member)                                                  \
	"drm_amdgpu_gem_wait_idle", #member,                          \
		offsetof(struct drm_amdgpu_gem_wait_idle_in, member), \
		sizeof(((struct drm_amdgpu_gem_wait_idle_in *)NULL)->member)

#define AMDGPU_DOMAINS (AMDGPU_GEM_DOMAIN_CPU | AMDGPU_GEM_DOMAIN_GTT | AMDGPU_GEM_DOMAIN_VRAM)
/* Those that kernel 6.1 knows; the last is DISCARDABLE. */
#define AMDGPU_FLAGS                                                               \
	(AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED | AMDGPU_GEM_CREATE_NO_CPU_ACCESS | \
	 AMDGPU_GEM_CREATE_CPU_GTT_USWC | AMDGPU_GEM_CREATE_VRAM_CLEARED |         \
	 AMDGPU_GEM_CREATE_VM_ALWAYS_VALID | AMDGPU_GEM_CREATE_EXPLICIT_SYNC | 1u << 12)
#define AMDGPU_USER                                                  \
	(AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_ANONONLY | \
	 AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_REGISTER)

static const char written[] = "the kernel writes it only";
static const char pages[] = "the kernel rounds it up to pages";
static const char larger[] = "a picture of another size";
static const char point[] = "another point";
static const char flag[] = "a value that the kernel knows";
static const char passed[] = "the kernel passes it on to the host, which does not answer";
/* The kernel holds the lower half of these numbers. */
#define UPPER 0xffffffff00000000ull

const struct drm_field drm_fields[] = {
	{ STRUCT(drm_version, version_major), .kind = UNREAD, .why = written },
	{ STRUCT(drm_version, version_minor), .kind = UNREAD, .why = written },
	{ STRUCT(drm_version, version_patchlevel), .kind = UNREAD, .why = written },
	{ "drm_version", "(padding)", 12, 4, .kind = UNREAD, .why = "no field" },
	{ STRUCT(drm_version, name_len), .kind = LENGTH, .spared = ALL,
	  .why = "drm_copy_field writes no more than the name has" },
	{ STRUCT(drm_version, name), .kind = POINTER },
	{ STRUCT(drm_version, date_len), .kind = UNREAD,
	  .why = "drm_copy_field: there is no buffer" },
	{ STRUCT(drm_version, date), .kind = UNREAD, .why = "drm_copy_field: of no length" },
	{ STRUCT(drm_version, desc_len), .kind = UNREAD,
	  .why = "drm_copy_field: there is no buffer" },
	{ STRUCT(drm_version, desc), .kind = UNREAD, .why = "drm_copy_field: of no length" },
	{ STRUCT(drm_get_cap, capability), .kind = BITS, .taken = ALL,
	  .why = "what the kernel does not know is not there" },
	{ STRUCT(drm_get_cap, value), .kind = UNREAD, .why = written },
	{ STRUCT(drm_gem_close, handle), .kind = HANDLE },
	{ STRUCT(drm_gem_close, pad), .kind = UNREAD, .why = "drm_gem_close_ioctl" },
	{ STRUCT(drm_prime_handle, handle), .kind = HANDLE },
	{ STRUCT(drm_prime_handle, flags), .kind = BITS, .taken = DRM_CLOEXEC | DRM_RDWR,
	  .why = flag },
	{ STRUCT(drm_prime_handle, fd), .kind = UNREAD, .why = written },
	{ "drm_prime_handle (import)", "handle", 0, 4, .kind = UNREAD, .why = written },
	{ "drm_prime_handle (import)", "flags", 4, 4, .kind = UNREAD,
	  .why = "of the other call" },
	{ "drm_prime_handle (import)", "fd", 8, 4, .kind = HANDLE },

	{ STRUCT(drm_syncobj_create, handle), .kind = UNREAD, .why = written },
	{ STRUCT(drm_syncobj_create, flags), .kind = BITS, .taken = DRM_SYNCOBJ_CREATE_SIGNALED,
	  .why = flag },
	{ STRUCT(drm_syncobj_destroy, handle), .kind = HANDLE },
	{ STRUCT(drm_syncobj_destroy, pad), .kind = ZERO },
	{ STRUCT(drm_syncobj_handle, handle), .kind = HANDLE },
	/* A syncobj's own descriptor is no fence. */
	{ STRUCT(drm_syncobj_handle, flags), .kind = BITS },
	{ STRUCT(drm_syncobj_handle, fd), .kind = UNREAD, .why = written },
	{ STRUCT(drm_syncobj_handle, pad), .kind = ZERO },
	{ "drm_syncobj_handle (import)", "handle", 0, 4, .kind = HANDLE },
	{ "drm_syncobj_handle (import)", "flags", 4, 4, .kind = BITS },
	{ "drm_syncobj_handle (import)", "fd", 8, 4, .kind = HANDLE },
	{ "drm_syncobj_handle (import)", "pad", 12, 4, .kind = ZERO },
	{ STRUCT(drm_syncobj_transfer, src_handle), .kind = HANDLE },
	{ STRUCT(drm_syncobj_transfer, dst_handle), .kind = HANDLE },
	{ STRUCT(drm_syncobj_transfer, src_point), .kind = BITS, .taken = ALL, .why = point },
	{ STRUCT(drm_syncobj_transfer, dst_point), .kind = BITS, .taken = ALL, .why = point },
	{ STRUCT(drm_syncobj_transfer, flags), .kind = UNREAD,
	  .why = "drm_syncobj_find_fence: of a fence that is there yet" },
	{ STRUCT(drm_syncobj_transfer, pad), .kind = ZERO },
	{ STRUCT(drm_syncobj_array, handles), .kind = POINTER },
	{ STRUCT(drm_syncobj_array, count_handles), .kind = COUNT },
	{ STRUCT(drm_syncobj_array, pad), .kind = ZERO },
	{ STRUCT(drm_syncobj_timeline_array, handles), .kind = POINTER },
	{ STRUCT(drm_syncobj_timeline_array, points), .kind = POINTER },
	{ STRUCT(drm_syncobj_timeline_array, count_handles), .kind = COUNT },
	{ STRUCT(drm_syncobj_timeline_array, flags), .kind = BITS },
	{ "drm_syncobj handles", "[0]", 0, 4, .kind = HANDLE },
	{ "drm_syncobj points", "[0]", 0, 8, .kind = BITS, .taken = ALL, .why = point },
	{ STRUCT(sync_file_info, name), .kind = UNREAD, .why = written },
	{ STRUCT(sync_file_info, status), .kind = UNREAD, .why = written },
	{ STRUCT(sync_file_info, flags), .kind = ZERO },
	{ STRUCT(sync_file_info, num_fences), .kind = COUNT },
	{ STRUCT(sync_file_info, pad), .kind = ZERO },
	{ STRUCT(sync_file_info, sync_fence_info), .kind = UNREAD,
	  .why = "sync_file_ioctl_fence_info: of no fences" },

	{ STRUCT(drm_amdgpu_info, return_pointer), .kind = POINTER },
	{ STRUCT(drm_amdgpu_info, return_size), .kind = LENGTH, .spared = ALL,
	  .why = "amdgpu_info_ioctl writes no more than it has" },
	{ STRUCT(drm_amdgpu_info, query), .kind = BITS },
	{ "drm_amdgpu_info", "(union)", 16, 16, .kind = UNREAD, .why = "of other queries" },
	{ CREATE(bo_size), .kind = LENGTH, .taken = ALL, .why = pages },
	{ CREATE(alignment), .kind = LENGTH, .taken = ALL,
	  .why = "amdgpu_bo_create rounds it up" },
	{ CREATE(domains), .kind = BITS, .taken = AMDGPU_DOMAINS, .why = flag },
	{ CREATE(domain_flags), .kind = BITS, .taken = AMDGPU_FLAGS, .why = flag },
	{ MMAP(handle), .kind = HANDLE },
	{ MMAP(_pad), .kind = UNREAD, .why = "amdgpu_gem_mmap_ioctl" },
	{ WAIT(handle), .kind = HANDLE },
	{ WAIT(flags), .kind = UNREAD, .why = "amdgpu_gem_wait_idle_ioctl" },
	{ WAIT(timeout), .kind = LENGTH, .spared = ALL,
	  .why = "what is idle is not waited for" },
	{ STRUCT(drm_amdgpu_gem_userptr, addr), .kind = ADDRESS },
	{ STRUCT(drm_amdgpu_gem_userptr, size), .kind = LENGTH },
	{ STRUCT(drm_amdgpu_gem_userptr, flags), .kind = BITS, .taken = AMDGPU_USER,
	  .why = flag },
	{ STRUCT(drm_amdgpu_gem_userptr, handle), .kind = UNREAD, .why = written },
	{ STRUCT(drm_amdgpu_gem_op, handle), .kind = HANDLE },
	{ STRUCT(drm_amdgpu_gem_op, op), .kind = BITS },
	{ STRUCT(drm_amdgpu_gem_op, value), .kind = POINTER },

	{ STRUCT(drm_i915_getparam, param), .kind = BITS },
	{ "drm_i915_getparam", "(padding)", 4, 4, .kind = UNREAD, .why = "no field" },
	{ STRUCT(drm_i915_getparam, value), .kind = POINTER },
	{ STRUCT(drm_i915_query, num_items), .kind = COUNT, .taken = ALL,
	  .why = "i915_query_ioctl is content with none" },
	{ STRUCT(drm_i915_query, flags), .kind = BITS },
	{ STRUCT(drm_i915_query, items_ptr), .kind = POINTER },
	{ STRUCT(drm_i915_query_item, query_id), .kind = BITS },
	{ STRUCT(drm_i915_query_item, length), .kind = LENGTH, .taken = ALL,
	  .why = "copy_query_item takes what is longer" },
	{ STRUCT(drm_i915_query_item, flags), .kind = BITS },
	{ STRUCT(drm_i915_query_item, data_ptr), .kind = POINTER },
	{ STRUCT(drm_i915_query_memory_regions, num_regions), .kind = ZERO },
	{ STRUCT(drm_i915_query_memory_regions, rsvd[0]), .kind = ZERO },
	{ STRUCT(drm_i915_query_memory_regions, rsvd[1]), .kind = ZERO },
	{ STRUCT(drm_i915_query_memory_regions, rsvd[2]), .kind = ZERO },
	{ STRUCT(drm_i915_gem_create_ext, size), .kind = LENGTH, .taken = ALL, .why = pages },
	{ STRUCT(drm_i915_gem_create_ext, handle), .kind = UNREAD, .why = written },
	{ STRUCT(drm_i915_gem_create_ext, flags), .kind = BITS,
	  .taken = I915_GEM_CREATE_EXT_FLAG_NEEDS_CPU_ACCESS, .why = flag },
	{ STRUCT(drm_i915_gem_create_ext, extensions), .kind = POINTER },
	{ STRUCT(i915_user_extension, next_extension), .kind = POINTER },
	{ STRUCT(i915_user_extension, name), .kind = BITS },
	{ STRUCT(i915_user_extension, flags), .kind = BITS },
	{ STRUCT(i915_user_extension, rsvd[0]), .kind = ZERO },
	{ STRUCT(i915_user_extension, rsvd[1]), .kind = ZERO },
	{ STRUCT(i915_user_extension, rsvd[2]), .kind = ZERO },
	{ STRUCT(i915_user_extension, rsvd[3]), .kind = ZERO },
	{ "drm_i915_gem_create_ext_memory_regions", "base", 0, 32, .kind = UNREAD,
	  .why = "it was read as i915_user_extension" },
	{ STRUCT(drm_i915_gem_create_ext_memory_regions, pad), .kind = ZERO },
	{ STRUCT(drm_i915_gem_create_ext_memory_regions, num_regions), .kind = COUNT },
	{ STRUCT(drm_i915_gem_create_ext_memory_regions, regions), .kind = POINTER },
	{ STRUCT(drm_i915_gem_memory_class_instance, memory_class), .kind = BITS,
	  .taken = I915_MEMORY_CLASS_DEVICE, .why = flag },
	{ STRUCT(drm_i915_gem_memory_class_instance, memory_instance), .kind = BITS },
	{ STRUCT(drm_i915_gem_mmap_offset, handle), .kind = HANDLE },
	{ STRUCT(drm_i915_gem_mmap_offset, pad), .kind = UNREAD,
	  .why = "i915_gem_mmap_offset_ioctl: old programs fill it with anything" },
	{ STRUCT(drm_i915_gem_mmap_offset, offset), .kind = UNREAD, .why = written },
	{ STRUCT(drm_i915_gem_mmap_offset, flags), .kind = BITS, .taken = 3, .why = flag },
	{ STRUCT(drm_i915_gem_mmap_offset, extensions), .kind = POINTER },
	{ STRUCT(drm_i915_gem_wait, bo_handle), .kind = HANDLE },
	{ STRUCT(drm_i915_gem_wait, flags), .kind = BITS },
	{ STRUCT(drm_i915_gem_wait, timeout_ns), .kind = LENGTH, .taken = ALL,
	  .why = "any time can be waited for" },
	{ STRUCT(drm_i915_gem_userptr, user_ptr), .kind = ADDRESS },
	{ STRUCT(drm_i915_gem_userptr, user_size), .kind = LENGTH },
	{ STRUCT(drm_i915_gem_userptr, flags), .kind = BITS,
	  .taken = I915_USERPTR_READ_ONLY | I915_USERPTR_PROBE, .why = flag },
	{ STRUCT(drm_i915_gem_userptr, handle), .kind = UNREAD, .why = written },

	{ STRUCT(drm_xe_device_query, extensions), .kind = ZERO },
	{ STRUCT(drm_xe_device_query, query), .kind = BITS },
	{ STRUCT(drm_xe_device_query, size), .kind = LENGTH },
	{ STRUCT(drm_xe_device_query, data), .kind = POINTER, .sometimes = true,
	  .why = "query_mem_regions does not look while the size is asked for" },
	{ STRUCT(drm_xe_device_query, reserved[0]), .kind = ZERO },
	{ STRUCT(drm_xe_device_query, reserved[1]), .kind = ZERO },
	{ STRUCT(drm_xe_gem_create, extensions), .kind = ZERO },
	{ STRUCT(drm_xe_gem_create, size), .kind = LENGTH },
	{ STRUCT(drm_xe_gem_create, placement), .kind = BITS, .taken = 3, .why = flag },
	{ STRUCT(drm_xe_gem_create, flags), .kind = BITS, .taken = 7, .why = flag },
	{ STRUCT(drm_xe_gem_create, vm_id), .kind = ZERO },
	{ STRUCT(drm_xe_gem_create, handle), .kind = ZERO },
	{ STRUCT(drm_xe_gem_create, cpu_caching), .kind = BITS },
	{ STRUCT(drm_xe_gem_create, pad[0]), .kind = ZERO },
	{ STRUCT(drm_xe_gem_create, pad[1]), .kind = ZERO },
	{ STRUCT(drm_xe_gem_create, pad[2]), .kind = ZERO },
	{ STRUCT(drm_xe_gem_create, reserved[0]), .kind = ZERO },
	{ STRUCT(drm_xe_gem_create, reserved[1]), .kind = ZERO },
	{ STRUCT(drm_xe_gem_mmap_offset, extensions), .kind = ZERO },
	{ STRUCT(drm_xe_gem_mmap_offset, handle), .kind = HANDLE },
	{ STRUCT(drm_xe_gem_mmap_offset, flags), .kind = ZERO },
	{ STRUCT(drm_xe_gem_mmap_offset, offset), .kind = UNREAD, .why = written },
	{ STRUCT(drm_xe_gem_mmap_offset, reserved[0]), .kind = ZERO },
	{ STRUCT(drm_xe_gem_mmap_offset, reserved[1]), .kind = ZERO },

	{ STRUCT(drm_nouveau_getparam, param), .kind = BITS, .taken = 1, .why = flag },
	{ STRUCT(drm_nouveau_getparam, value), .kind = UNREAD, .why = written },
	{ STRUCT(drm_nouveau_gem_new, info.handle), .kind = UNREAD, .why = written },
	{ STRUCT(drm_nouveau_gem_new, info.domain), .kind = BITS, .taken = ALL,
	  .why = "nouveau_gem_new takes any" },
	{ STRUCT(drm_nouveau_gem_new, info.size), .kind = LENGTH, .taken = ALL, .why = pages },
	{ STRUCT(drm_nouveau_gem_new, info.offset), .kind = UNREAD, .why = written },
	{ STRUCT(drm_nouveau_gem_new, info.map_handle), .kind = UNREAD, .why = written },
	{ STRUCT(drm_nouveau_gem_new, info.tile_mode), .kind = BITS, .taken = ALL,
	  .why = "nouveau_bo_alloc keeps any" },
	{ STRUCT(drm_nouveau_gem_new, info.tile_flags), .kind = BITS,
	  .taken = NOUVEAU_GEM_TILE_NONCONTIG,
	  .spared = ~(uint64_t)(NOUVEAU_GEM_TILE_LAYOUT_MASK | NOUVEAU_GEM_TILE_NONCONTIG),
	  .why = "nouveau_bo_alloc: of other families" },
	{ STRUCT(drm_nouveau_gem_new, channel_hint), .kind = UNREAD,
	  .why = "nouveau_gem_ioctl_new" },
	{ STRUCT(drm_nouveau_gem_new, align), .kind = LENGTH, .taken = ALL,
	  .why = "nouveau_bo_fixup_align" },
	{ STRUCT(drm_nouveau_gem_info, handle), .kind = HANDLE },
	{ STRUCT(drm_nouveau_gem_info, domain), .kind = UNREAD, .why = written },
	{ STRUCT(drm_nouveau_gem_info, size), .kind = UNREAD, .why = written },
	{ STRUCT(drm_nouveau_gem_info, offset), .kind = UNREAD, .why = written },
	{ STRUCT(drm_nouveau_gem_info, map_handle), .kind = UNREAD, .why = written },
	{ STRUCT(drm_nouveau_gem_info, tile_mode), .kind = UNREAD, .why = written },
	{ STRUCT(drm_nouveau_gem_info, tile_flags), .kind = UNREAD, .why = written },
	{ STRUCT(drm_nouveau_gem_cpu_fini, handle), .kind = HANDLE },
	{ STRUCT(drm_nouveau_gem_cpu_prep, handle), .kind = HANDLE },
	{ STRUCT(drm_nouveau_gem_cpu_prep, flags), .kind = BITS,
	  .taken = NOUVEAU_GEM_CPU_PREP_NOWAIT | NOUVEAU_GEM_CPU_PREP_WRITE,
	  .spared = ~(uint64_t)(NOUVEAU_GEM_CPU_PREP_NOWAIT | NOUVEAU_GEM_CPU_PREP_WRITE),
	  .why = "nouveau_gem_ioctl_cpu_prep looks at two" },

	{ STRUCT(drm_virtgpu_getparam, param), .kind = BITS, .taken = ALL,
	  .why = "what it does not know is not there" },
	{ STRUCT(drm_virtgpu_getparam, value), .kind = POINTER },
	{ STRUCT(drm_virtgpu_context_init, num_params), .kind = COUNT, .taken = ALL,
	  .why = "virtio_gpu_context_init_ioctl is content with none" },
	{ STRUCT(drm_virtgpu_context_init, pad), .kind = UNREAD,
	  .why = "virtio_gpu_context_init_ioctl" },
	{ STRUCT(drm_virtgpu_context_init, ctx_set_params), .kind = POINTER },
	{ STRUCT(drm_virtgpu_context_set_param, param), .kind = BITS, .spared = UPPER,
	  .why = "virtio_gpu_context_init_ioctl has 32 bits of it" },
	{ STRUCT(drm_virtgpu_context_set_param, value), .kind = BITS, .spared = UPPER,
	  .why = "virtio_gpu_context_init_ioctl has 32 bits of it" },
	{ STRUCT(drm_virtgpu_resource_create, target), .kind = BITS },
	{ STRUCT(drm_virtgpu_resource_create, format), .kind = BITS, .taken = ALL,
	  .why = passed },
	{ STRUCT(drm_virtgpu_resource_create, bind), .kind = UNREAD, .why = "of 3D" },
	{ STRUCT(drm_virtgpu_resource_create, width), .kind = BITS, .taken = ALL,
	  .why = passed },
	{ STRUCT(drm_virtgpu_resource_create, height), .kind = BITS, .taken = ALL,
	  .why = passed },
	{ STRUCT(drm_virtgpu_resource_create, depth), .kind = LENGTH },
	{ STRUCT(drm_virtgpu_resource_create, array_size), .kind = LENGTH },
	{ STRUCT(drm_virtgpu_resource_create, last_level), .kind = BITS, .spared = 1,
	  .why = "virtio_gpu_resource_create_ioctl takes 1, too" },
	{ STRUCT(drm_virtgpu_resource_create, nr_samples), .kind = BITS, .spared = 1,
	  .why = "virtio_gpu_resource_create_ioctl takes 1, too" },
	{ STRUCT(drm_virtgpu_resource_create, flags), .kind = UNREAD, .why = "of 3D" },
	{ STRUCT(drm_virtgpu_resource_create, bo_handle), .kind = UNREAD, .why = written },
	{ STRUCT(drm_virtgpu_resource_create, res_handle), .kind = UNREAD, .why = written },
	{ STRUCT(drm_virtgpu_resource_create, size), .kind = LENGTH, .taken = ALL,
	  .why = pages },
	{ STRUCT(drm_virtgpu_resource_create, stride), .kind = UNREAD,
	  .why = "virtio_gpu_resource_create_ioctl" },
	{ STRUCT(drm_virtgpu_resource_create_blob, blob_mem), .kind = BITS, .taken = 3,
	  .why = flag },
	{ STRUCT(drm_virtgpu_resource_create_blob, blob_flags), .kind = BITS, .taken = 7,
	  .why = flag },
	{ STRUCT(drm_virtgpu_resource_create_blob, bo_handle), .kind = UNREAD, .why = written },
	{ STRUCT(drm_virtgpu_resource_create_blob, res_handle), .kind = UNREAD,
	  .why = written },
	{ STRUCT(drm_virtgpu_resource_create_blob, size), .kind = LENGTH, .taken = ALL,
	  .why = pages },
	{ STRUCT(drm_virtgpu_resource_create_blob, pad), .kind = UNREAD,
	  .why = "virtio_gpu_resource_create_blob_ioctl" },
	{ STRUCT(drm_virtgpu_resource_create_blob, cmd_size), .kind = LENGTH },
	{ STRUCT(drm_virtgpu_resource_create_blob, cmd), .kind = UNREAD,
	  .why = "there is no command" },
	{ STRUCT(drm_virtgpu_resource_create_blob, blob_id), .kind = BITS, .taken = ALL,
	  .why = "of a host blob it is the host's affair" },
	{ STRUCT(drm_virtgpu_map, offset), .kind = UNREAD, .why = written },
	{ STRUCT(drm_virtgpu_map, handle), .kind = HANDLE },
	{ STRUCT(drm_virtgpu_map, pad), .kind = UNREAD, .why = "virtio_gpu_map_ioctl" },
	{ STRUCT(drm_virtgpu_resource_info, bo_handle), .kind = HANDLE },
	{ STRUCT(drm_virtgpu_resource_info, res_handle), .kind = UNREAD, .why = written },
	{ STRUCT(drm_virtgpu_resource_info, size), .kind = UNREAD, .why = written },
	{ STRUCT(drm_virtgpu_resource_info, VIRTGPU_INFO_BLOB_MEM), .kind = UNREAD,
	  .why = written },
	{ STRUCT(drm_virtgpu_3d_wait, handle), .kind = HANDLE },
	{ STRUCT(drm_virtgpu_3d_wait, flags), .kind = BITS, .taken = VIRTGPU_WAIT_NOWAIT,
	  .spared = ~(uint64_t)VIRTGPU_WAIT_NOWAIT,
	  .why = "virtio_gpu_wait_ioctl looks at one" },

	{ STRUCT(drm_mode_create_dumb, height), .kind = BITS, .taken = ALL, .why = larger },
	{ STRUCT(drm_mode_create_dumb, width), .kind = BITS, .taken = ALL, .why = larger },
	{ STRUCT(drm_mode_create_dumb, bpp), .kind = BITS, .taken = ALL, .why = larger },
	{ STRUCT(drm_mode_create_dumb, flags), .kind = UNREAD, .why = "drm_mode_create_dumb" },
	{ STRUCT(drm_mode_create_dumb, handle), .kind = UNREAD, .why = written },
	{ STRUCT(drm_mode_create_dumb, pitch), .kind = UNREAD, .why = written },
	{ STRUCT(drm_mode_create_dumb, size), .kind = UNREAD, .why = written },
	{ STRUCT(drm_mode_map_dumb, handle), .kind = HANDLE },
	{ STRUCT(drm_mode_map_dumb, pad), .kind = UNREAD, .why = "drm_mode_mmap_dumb_ioctl" },
	{ STRUCT(drm_mode_map_dumb, offset), .kind = UNREAD, .why = written },
	{ STRUCT(drm_mode_destroy_dumb, handle), .kind = HANDLE },

	{ STRUCT(dma_buf_sync, flags), .kind = BITS, .taken = DMA_BUF_SYNC_VALID_FLAGS_MASK,
	  .why = flag },
};

const size_t drm_n_field = ARRAY_SIZE(drm_fields);
