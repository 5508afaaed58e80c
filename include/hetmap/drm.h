/* SPDX-License-Identifier: MIT */
/*
 * DRM nodes: what this machine has in /dev/dri, or should have: also those that can't
 * be opened, with the reason. Devices of the backend "drm" are made of them.
 */
#ifndef HETMAP_DRM_H
#define HETMAP_DRM_H

#include <hetmap/buffer.h>
#include <hetmap/fence.h>
#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_drm_node {
	uint32_t struct_size;
	uint32_t primary;  /* 1: a card node, which opens only by its path */
	char path[64];     /* "/dev/dri/renderD128" */
	char driver[32];   /* "amdgpu"; "": unknown */
	char version[24];  /* of the driver; "": not asked, or can't be opened */
	char bus[16];      /* "pci", "platform", ...; "": unknown */
	char address[32];  /* "pci-0000:00:02.0"; "": none */
	uint16_t vendor;   /* PCI; 0: none */
	uint16_t device;   /* PCI; 0: none */
	int32_t numa_node; /* -1: none or unknown */
	int32_t error;     /* 0; or why it can't be opened, a negative errno */
	uint32_t features; /* HM_DRM_*; 0 of those that were not asked, see below */
	char remedy[160];  /* with error */
	uint64_t caps;     /* HM_CAP_* that the driver is known for; 0: none on this node */
	/* Bytes; 0: there are none, or the driver does not tell, or was not asked. */
	uint64_t memory;         /* of the device's own */
	uint64_t memory_visible; /* of those, what CPUs reach */
	uint64_t memory_system;  /* of the host's that it can use */
};

/* hm_drm_node.features */
#define HM_DRM_WAIT (1u << 0)    /* brackets wait for the work on a buffer by a driver's call */
#define HM_DRM_USERPTR (1u << 1) /* hm_drm_view_create(), where the hardware can */
#define HM_DRM_SYNCOBJ (1u << 2) /* hm_fence_import_syncobj(), hm_fence_export_syncobj() */
#define HM_DRM_TIMELINE (1u << 3) /* the same with points */

/**
 * hm_drm_list - the DRM nodes of this machine
 * @nodes:    [in,out] array of @capacity; may be NULL when @capacity is 0.
 *            nodes[0].struct_size gives the stride and must be set
 * @capacity: [in] entries in @nodes
 * @ret_n:    [out] nodes there are, also when more than @capacity
 *
 * Render nodes first. They are opened to ask for their driver, and what it has, where a
 * device can be made of them; card nodes are not. Of what a device that is opened by a node
 * can, caps has what makes, imports and exports buffers, known by the name of the driver:
 * hm_device_query() has asked it.
 * May be called from any thread.
 *
 * Errors: -EINVAL ret_n or nodes is NULL; -E2BIG; -ENOMEM.
 */
HM_API int hm_drm_list(struct hm_drm_node *nodes, uint32_t capacity, uint32_t *ret_n);

/*
 * ---- work of the caller's own ----
 *
 * Who submits work to a GPU by its driver's own calls names memory by a handle, which is
 * good on one open file of the node: the library's, @fd below.
 */

struct hm_drm_handle {
	uint32_t struct_size;
	uint32_t handle; /* GEM */
	int32_t fd;      /* it is good on this one, which stays the library's */
	uint32_t access; /* HM_READ, HM_WRITE: what the device may do */
	uint64_t offset; /* of the first byte that was asked for, in the object */
	uint64_t length; /* bytes from there on */
};

/**
 * hm_drm_buffer_handle - the handle of a buffer that is on the node
 * @buffer: [in] of a device "drm:..."
 * @offset: [in] a byte of it: it may be several objects
 * @ret_handle: [in,out] struct_size set by the caller
 *
 * It is good until the buffer is resized or ends: a map's view (hm_view_create) is told
 * before. From here on brackets of the buffer's maps wait for the work on it, where the
 * driver can (all but xe and dumb buffers), and it counts as exported: a resize does not
 * replace the object. Do not close it. May be called from any thread.
 *
 * Errors: -EOPNOTSUPP the buffer is no DRM node's (hm_drm_view_create is for those);
 * -ERANGE; -EACCES the access hook refused; -EDEADLK from a view's callback; -E2BIG;
 * -EINVAL; -EOWNERDEAD; -ENODEV the device was taken away.
 */
HM_API int hm_drm_buffer_handle(struct hm_buffer *buffer, uint64_t offset,
				struct hm_drm_handle *ret_handle);

struct hm_drm_view;

/**
 * hm_drm_view_create - memory that is mapped already, as an object of a DRM node
 * @map:    [in] of a buffer in ordinary memory ("host", "file"); the view holds
 *          a reference
 * @offset: [in] in whole pages
 * @length: [in] in whole pages, or up to the map's end; 0: all from @offset on, following
 *          the map
 * @device: [in] "drm:..." of amdgpu or i915, which have the call (userptr)
 * @access: [in] HM_READ, or HM_READ | HM_WRITE: what the device may do
 * @ret_view: [out] dropped with hm_drm_view_unref()
 *
 * Nothing is copied. When the map grows, shrinks, moves or changes its rights, the view
 * follows: it waits for the work on its object, for 10 s at most (the change is -EBUSY
 * then), closes the handle, and makes another one of what holds afterwards.
 * hm_map_begin_cpu() waits for the work, too. May be called from any thread.
 *
 * Errors: -EOPNOTSUPP the driver has no such call, the hardware can't (some have no
 * read-only objects), or the map is of a device's own pages, which no other device can
 * hold: export and import those; -EACCES the map does not allow @access, or the access
 * hook refused; -EINVAL not in whole pages; -ERANGE; -ENOMEM; -EFAULT the driver can't use
 * these pages; -EDEADLK from a callback of a view of the map; -ENODEV the map is lost, or
 * a device was taken away; -EOWNERDEAD.
 * Source: DRM_IOCTL_AMDGPU_GEM_USERPTR, DRM_IOCTL_I915_GEM_USERPTR.
 */
HM_API int hm_drm_view_create(struct hm_map *map, uint64_t offset, uint64_t length,
			      struct hm_device *device, uint32_t access,
			      struct hm_drm_view **ret_view);

/**
 * hm_drm_view_hold - the view's handle, which stays until hm_drm_view_release()
 * @view: [in]
 * @ret_handle: [in,out] struct_size set by the caller
 *
 * Meanwhile a change of the map is -EBUSY: hold it while work is being submitted, not
 * until it is done. Of several holds each needs a release. May be called from any thread.
 *
 * Errors: -EBUSY the map is being changed, which may be waiting for work on the object: told
 * at once, try again; -ERANGE, -EACCES the map has no more bytes there, or no longer the
 * access; -ENODEV the device, or what the map was of, was taken away; or why no handle could
 * be made after the last change; -E2BIG; -EINVAL.
 */
HM_API int hm_drm_view_hold(struct hm_drm_view *view, struct hm_drm_handle *ret_handle);

/** hm_drm_view_release - the end of one hold. */
HM_API void hm_drm_view_release(struct hm_drm_view *view);

/**
 * hm_drm_view_unref - end the view, and close its handle; NULL is allowed
 *
 * Work in flight keeps the object. Waits for a change under way.
 */
HM_API void hm_drm_view_unref(struct hm_drm_view *view);

/*
 * ---- fences of a node's drivers ----
 *
 * A syncobj holds a fence, or a timeline of them, by a handle that is good on one open file
 * of a node [drm_syncobj.c]: the library's (hm_drm_handle.fd) or one of the caller's own.
 */

/**
 * hm_fence_import_syncobj - the fence that a syncobj holds now
 * @fd:     [in] an open DRM node
 * @handle: [in] a syncobj of it, which stays the caller's
 * @point:  [in] of its timeline; 0: it is a binary one
 * @ret_fence: [out] as of hm_fence_import_fd(), of a sync_file
 *
 * What the syncobj holds later changes nothing. May be called from any thread.
 *
 * Errors: -EINVAL it holds no fence yet, or none for that point, or ret_fence is NULL;
 * -ENOENT no such handle; -EOPNOTSUPP the node's driver has no syncobjs, or a point is
 * asked for and it has no timelines; -ENOTTY it is no DRM node; -EBADF; -EMFILE; -ENOMEM.
 */
HM_API int hm_fence_import_syncobj(int fd, uint32_t handle, uint64_t point,
				   struct hm_fence **ret_fence);

/**
 * hm_fence_export_syncobj - have a syncobj hold a fence
 * @fence:  [in] of which hm_fence_fd() is a sync_file: of sim:N's engine, imported from a
 *          sync_file or syncobj, or merged of such; or any whose work has ended well
 * @fd:     [in] an open DRM node
 * @handle: [in] a syncobj of it
 * @point:  [in] to be added to its timeline; 0: in place of what it holds
 *
 * Work on the node that waits for the syncobj begins when the fence's is done. May be
 * called from any thread.
 *
 * Errors: -EOPNOTSUPP the fence is no sync_file, as those of CPUs and of "soft:N", and its
 * work goes on or has failed, or the node's driver has no syncobjs, or no timelines where
 * a point is given; -ENOENT no such handle; -ENOTTY it is no DRM node; -EBADF @fd is not
 * open; -EINVAL @fence is none; -EOWNERDEAD it is a fork()'s parent's; otherwise as
 * hm_fence_fd().
 */
HM_API int hm_fence_export_syncobj(struct hm_fence *fence, int fd, uint32_t handle,
				   uint64_t point);

#ifdef __cplusplus
}
#endif

#endif
