// SPDX-License-Identifier: MIT
/*
 * Every field that a row of runtime/drm sends is changed on its way into the fake
 * kernel, which must refuse it as the real one does, or do something else. What the
 * kernel does not look at is listed here as that, with the reason, and must be taken.
 * A byte of a struct that is in no line of the table fails the test.
 */
#include <amdgpu_drm.h>
#include <drm_mode.h>
#include <errno.h>
#include <fcntl.h>
#include <i915_drm.h>
#include <linux/dma-buf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <nouveau_drm.h> /* wants <stdint.h> */

#include "drm/uapi/virtgpu.h"
#include "drm/uapi/xe.h"
#include "drm_support.h"
#include "util.h"

#define PAGE 4096ull
#define SIZE (64 * 1024ull)

static const struct fake_drm_control *fake;

enum kind {
	BITS = 1, /* flags and numbers of things: each bit is flipped */
	LENGTH,   /* one more */
	HANDLE,   /* of another object or file, which there is not */
	POINTER,  /* to where nothing can be */
	ADDRESS,  /* of pages: likewise, and to the next byte */
	COUNT,    /* of what a pointer leads to: one off */
	ZERO,     /* reserved: the first and the last bit are set */
	UNREAD,   /* the kernel does not look at it, or writes it only */
};

struct field {
	const char *in; /* struct */
	const char *name;
	size_t offset, size;
	enum kind kind;
	/*
	 * Bits with which the kernel goes on: to do something else, or (spared) the same.
	 * All others are refused.
	 */
	uint64_t taken, spared;
	bool sometimes; /* refused in one of its calls at least */
	const char *why;
};

#define ALL UINT64_MAX
#define AT(in, type, member) \
#in, #member, offsetof(type, member), sizeof(((type *)NULL)->member)

#define STRUCT(in, member) AT(in, struct in, member)

/* Of unions the user's half, whose name is that of the table's struct. */
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
static const char flag[] = "a value that the kernel knows";
static const char passed[] = "the kernel passes it on to the host, which does not answer";
/* Of these numbers the kernel has half. */
#define UPPER 0xffffffff00000000ull

static const struct field fields[] = {
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

	{ STRUCT(dma_buf_sync, flags), .kind = BITS, .taken = DMA_BUF_SYNC_VALID_FLAGS_MASK,
	  .why = flag },
};

/* ---- all that the rows do ---- */

static int use_object(struct drm_node *node, enum drm_place place)
{
	struct drm_object *object, *again;
	int r, fd;

	r = drm_object_create(node, SIZE, place, &object);
	if (r)
		return r;
	if (node->driver->describe)
		r = node->driver->describe(object);
	if (!r && node->driver->wait)
		r = node->driver->wait(object, true, 1000000000);
	if (!r)
		r = drm_object_export(object, true, &fd);
	if (r)
		goto out;
	r = drm_object_import(node, fd, &again);
	if (!r)
		drm_object_put(again);
	close(fd);
	if (!r)
		r = drm_bracket_begin(object, HM_READ | HM_WRITE);
	if (!r)
		r = drm_bracket_end(object, HM_READ | HM_WRITE);
out:
	drm_object_put(object);
	return r;
}

static int use_memory(struct drm_node *node, bool write)
{
	struct drm_object object = { .node = node };
	struct drm_gem_close gem_close = { 0 };
	void *memory;
	int r;

	if (!node->driver->userptr)
		return 0;
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(memory != MAP_FAILED);
	r = node->driver->userptr(node, memory, SIZE, write, &object);
	gem_close.handle = object.handle;
	if (!r)
		r = drm_call(node, DRM_IOCTL_GEM_CLOSE, &gem_close);
	munmap(memory, SIZE);
	return r;
}

static bool makes_vram; /* on request, where it is no default */

static int use_all(struct drm_node *node)
{
	uint64_t total, available;
	int r;

	/* A file of its own: what the row does to one first, it does once. */
	close(node->fd);
	node->fd = open(node->path, O_RDWR | O_CLOEXEC);
	CHECK_FATAL(node->fd >= 0);
	CHECK_OK(drm_node_identify(node));
	memset(node->data, 0, sizeof(node->data));
	r = node->driver->open(node);
	if (!r && node->driver->memory)
		r = node->driver->memory(node, &total, &available);
	if (!r)
		r = use_object(node, DRM_PLACE_SYSTEM);
	if (!r)
		r = use_object(node, DRM_PLACE_DEFAULT);
	if (!r && makes_vram)
		r = use_object(node, DRM_PLACE_VRAM);
	if (!r)
		r = use_memory(node, true);
	if (!r)
		r = use_memory(node, false);
	/* A handle that was not closed is a failure that no call tells. */
	if (!r && fake->handles())
		r = -ENOTEMPTY;
	return r;
}

/* ---- the changes ---- */

static char *usual; /* trace without one */

/* With a change of @field: refused (an errno), something else (1), the same (0). */
static int outcome(enum fake_drm_node at, const struct field *field, unsigned int nth,
		   uint64_t bits, uint64_t add)
{
	struct drm_node *node = drm_open_fake(at);
	int r;

	fake->trace_clear();
	fake->mutate(field->in, nth, field->offset, min_u64(field->size, 8), bits, add);
	r = use_all(node);
	fake->mutate(NULL, 0, 0, 0, 0, 0);
	if (!r && strcmp(fake->trace(), usual) != 0)
		r = 1;
	drm_node_put(node);
	return r;
}

static void check(enum fake_drm_node at, const struct field *field, unsigned int nth,
		  uint64_t bits, uint64_t add, bool *refused)
{
	int r = outcome(at, field, nth, bits, add);
	uint64_t changed = bits ? bits : ALL;

	*refused |= r < 0;
	if (field->kind == UNREAD   ? !r :
	    field->spared & changed ? true :
	    field->taken & changed  ? r != 0 :
				      r < 0 || field->sometimes)
		return;
	test_fail(__FILE__, __LINE__, "%s.%s, call %u, bits %#llx + %llu: %s%s", field->in,
		  field->name, nth, (unsigned long long)bits, (unsigned long long)add,
		  r < 0 ? strerror(-r) :
		  r     ? "went on to something else" :
			  "went on as usual",
		  field->kind == UNREAD ? ", though nobody looks at it" : "");
}

static void change(enum fake_drm_node at, const struct field *field, unsigned int nth,
		   bool *refused)
{
	unsigned int bits = (unsigned int)min_u64(field->size, 8) * 8, i;

	switch (field->kind) {
	case BITS:
		for (i = 0; i < bits; i++)
			check(at, field, nth, 1ull << i, 0, refused);
		break;
	case LENGTH:
		check(at, field, nth, 0, 1, refused);
		break;
	case HANDLE:
		check(at, field, nth, 0, 1000, refused);
		break;
	case ADDRESS:
		check(at, field, nth, 0, 1, refused);
		check(at, field, nth, 1ull << 62, 0, refused);
		break;
	case POINTER:
		check(at, field, nth, 1ull << 62, 0, refused);
		break;
	case COUNT:
		check(at, field, nth, 1, 0, refused);
		break;
	case ZERO:
		check(at, field, nth, 1, 0, refused);
		check(at, field, nth, 1ull << (bits - 1), 0, refused);
		break;
	case UNREAD:
		check(at, field, nth, ALL, 0, refused);
		break;
	}
}

/* Is each byte of the struct in one line of the table, and in one only? */
static void check_complete(const char *in, size_t size)
{
	size_t i, at, lines;

	for (at = 0; at < size; at++) {
		for (i = lines = 0; i < ARRAY_SIZE(fields); i++)
			lines += !strcmp(fields[i].in, in) && at >= fields[i].offset &&
				 at < fields[i].offset + fields[i].size;
		if (lines != 1)
			test_fail(__FILE__, __LINE__, "%s: byte %zu is in %zu lines", in, at,
				  lines);
	}
}

struct sent {
	char name[64];
	size_t size;
	unsigned int times;
};

/* What the rows send when nothing is changed. */
static unsigned int list_sent(enum fake_drm_node at, struct sent *sent, unsigned int room)
{
	struct drm_node *node = drm_open_fake(at);
	const char *name;
	unsigned int n;

	fake->trace_clear();
	CHECK_OK_FATAL(use_all(node));
	usual = strdup(fake->trace());
	CHECK_FATAL(usual != NULL);
	for (n = 0; n < room && fake->read_struct(n, &name, &sent[n].size, &sent[n].times); n++)
		snprintf(sent[n].name, sizeof(sent[n].name), "%s", name);
	CHECK_FATAL(n && n < room);
	drm_node_put(node);
	return n;
}

static void mutate_all(enum fake_drm_node at)
{
	struct sent sent[32];
	unsigned int n = list_sent(at, sent, ARRAY_SIZE(sent)), i, nth;
	bool refused;
	size_t f;

	for (i = 0; i < n; i++) {
		check_complete(sent[i].name, sent[i].size);
		for (f = 0; f < ARRAY_SIZE(fields); f++) {
			if (strcmp(fields[f].in, sent[i].name) != 0)
				continue;
			refused = false;
			for (nth = 0; nth < sent[i].times; nth++)
				change(at, &fields[f], nth, &refused);
			if (fields[f].sometimes && !refused)
				test_fail(__FILE__, __LINE__, "%s.%s was never refused",
					  fields[f].in, fields[f].name);
		}
	}
	free(usual);
}

/* A line that spares something says why. */
static void reasons(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(fields); i++)
		if (!fields[i].why && (fields[i].kind == UNREAD || fields[i].taken ||
				       fields[i].spared || fields[i].sometimes))
			test_fail(__FILE__, __LINE__, "%s.%s: why?", fields[i].in,
				  fields[i].name);
}

static void amdgpu(void)
{
	mutate_all(FAKE_AMDGPU);
}

static void i915(void)
{
	mutate_all(FAKE_I915);
}

static void i915_old(void)
{
	mutate_all(FAKE_I915_OLD);
}

static void i915_integrated(void)
{
	mutate_all(FAKE_I915_INTEGRATED);
}

static void xe(void)
{
	mutate_all(FAKE_XE);
}

static void nouveau(void)
{
	mutate_all(FAKE_NOUVEAU);
}

static void virtio_gpu(void)
{
	mutate_all(FAKE_VIRTIO);
}

static void virtio_gpu_host(void)
{
	makes_vram = true;
	mutate_all(FAKE_VIRTIO_HOST);
	makes_vram = false;
}

static void card(void)
{
	fake->plug_card();
	mutate_all(FAKE_CARD);
}

static const struct test tests[] = {
	{ "reasons", reasons, .seconds = 0 },
	{ "amdgpu", amdgpu, .seconds = 60 },
	{ "i915", i915, .seconds = 60 },
	{ "i915_old", i915_old, .seconds = 60 },
	{ "i915_integrated", i915_integrated, .seconds = 60 },
	{ "xe", xe, .seconds = 60 },
	{ "nouveau", nouveau, .seconds = 60 },
	{ "virtio_gpu", virtio_gpu, .seconds = 60 },
	{ "virtio_gpu_host", virtio_gpu_host, .seconds = 60 },
	{ "card", card, .seconds = 60 },
	{ 0 },
};

int main(int argc, char **argv)
{
	fake = drm_under_fake(argv);
	return harness_main(argc, argv, "drm_mutation", tests);
}
