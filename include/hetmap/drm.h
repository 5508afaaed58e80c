/* SPDX-License-Identifier: MIT */
/*
 * DRM nodes: the nodes that this machine has in /dev/dri, or should have. The list also has the
 * nodes that cannot be opened, with the reason. Devices of the backend "drm" are made of these
 * nodes.
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
	uint32_t primary;  /* 1: a card node; hm_drm(3) says which names open it */
	char path[64];     /* "/dev/dri/renderD128" */
	char driver[32];   /* "amdgpu"; "": unknown */
	char version[24];  /* version of the driver; "": not asked, or cannot be opened */
	char bus[16];      /* "pci", "platform", ...; "": unknown */
	char address[32];  /* "pci-0000:00:02.0"; "": none */
	uint16_t vendor;   /* PCI; 0: none */
	uint16_t device;   /* PCI; 0: none */
	int32_t numa_node; /* -1: none or unknown */
	int32_t error;     /* 0, or a negative errno: why the node cannot be opened */
	uint32_t features; /* HM_DRM_*; only HM_DRM_EXPERIMENTAL if not asked, see hm_drm_list() */
	char remedy[160]; /* remedy for error */
	uint64_t caps;    /* HM_CAP_* that the driver is known for; 0: none on this node */
	/* Bytes; 0: none, not told by the driver, or not asked. */
	uint64_t memory;         /* the device's own memory */
	uint64_t memory_visible; /* part of memory within reach of CPUs */
	uint64_t memory_system;  /* memory of the host that the device can use */
};

/* hm_drm_node.features */
#define HM_DRM_WAIT (1u << 0)     /* brackets wait for work on a buffer by a driver's call */
#define HM_DRM_USERPTR (1u << 1)  /* hm_drm_view_create(), if the hardware can */
#define HM_DRM_SYNCOBJ (1u << 2)  /* hm_fence_import_syncobj(), hm_fence_export_syncobj() */
#define HM_DRM_TIMELINE (1u << 3) /* the same functions with points of timelines */
/* The library's code for this driver ran against a fake only, never on hardware. */
#define HM_DRM_EXPERIMENTAL (1u << 4)

/**
 * hm_drm_list - list the DRM nodes of this machine
 * @nodes:    [in,out] array of @capacity; may be NULL when @capacity is 0. nodes[0].struct_size
 *            is the size of one entry, and the caller must set it
 * @capacity: [in] entries in @nodes
 * @ret_n:    [out] number of nodes, even if larger than @capacity
 *
 * Render nodes come first. The library opens a node to ask for its driver and the driver's
 * abilities if a device can be made of the node. Card nodes stay closed. caps has the
 * capabilities of a device opened by the node to make, import and export buffers. The library
 * knows them by the name of the driver. hm_device_query() of the opened device has asked the
 * driver, and has all capabilities.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: @ret_n or @nodes is NULL.
 *   -E2BIG:  struct_size is larger than this library knows.
 *   -ENOMEM: not enough memory is available.
 */
HM_API int hm_drm_list(struct hm_drm_node *nodes, uint32_t capacity, uint32_t *ret_n);

/*
 * ---- work of the caller's own ----
 *
 * A program that submits work to a GPU by the calls of its driver names memory by a handle. A
 * handle is valid on one open file of the node: here on the library's, fd below.
 */

struct hm_drm_handle {
	uint32_t struct_size;
	uint32_t handle; /* GEM */
	int32_t fd;      /* open file on which the handle is valid; it stays the library's */
	uint32_t access; /* HM_READ, HM_WRITE: access that the device may make */
	uint64_t offset; /* bytes from the start of the object to the requested byte */
	uint64_t length; /* bytes from there on */
};

/**
 * hm_drm_buffer_handle - return the handle of a buffer that is on the node
 * @buffer:     [in] buffer of a device "drm:..."
 * @offset:     [in] a byte of the buffer, which may have several objects
 * @ret_handle: [in,out] struct_size set by the caller; the caller must close neither handle nor
 *              fd
 *
 * The handle is valid until the buffer is resized or ends. A view of the buffer's map
 * (hm_view_create()) hears of that change before it is made. From this call on brackets of the
 * buffer's maps wait for the work on the buffer, if the driver can do that (all can except xe
 * and dumb buffers). The buffer also counts as exported: a resize does not replace its object.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the buffer is not on a DRM node; use hm_drm_view_create().
 *   -ERANGE:     @offset is past the end of the buffer.
 *   -EACCES:     the access hook refused.
 *   -EDEADLK:    a view's callback made the call.
 *   -E2BIG:      struct_size is larger than this library knows.
 *   -EINVAL:     an argument is NULL, or struct_size is not set.
 *   -EOWNERDEAD: the parent made the buffer before fork().
 *   -ENODEV:     the device was taken away.
 */
HM_API int hm_drm_buffer_handle(struct hm_buffer *buffer, uint64_t offset,
				struct hm_drm_handle *ret_handle);

struct hm_drm_view;

/**
 * hm_drm_view_create - make an object of a DRM node from memory that is mapped already
 * @map:      [in] map of a buffer in ordinary memory ("host", "file"); the view holds a
 *            reference
 * @offset:   [in] bytes, in whole pages
 * @length:   [in] bytes, in whole pages, or up to the map's end; 0: all bytes from @offset on,
 *            following the map
 * @device:   [in] "drm:..." of amdgpu or i915, which have the call (userptr)
 * @access:   [in] HM_READ, or HM_READ | HM_WRITE: access that the device may make
 * @ret_view: [out] a view, which the caller ends with hm_drm_view_unref()
 *
 * The call copies nothing. The view follows when the map grows, shrinks, moves or changes its
 * rights: it waits for the work on its object, for 10 s at most. If the work does not end, the
 * change fails with -EBUSY. Otherwise the view closes the handle, and makes a new handle for
 * the changed map. hm_map_begin_cpu() waits for the work, too.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the driver has no such call; the hardware cannot do it (some hardware has no
 *                read-only objects); or the map is of a device's own pages, which no other
 *                device can hold: export and import them.
 *   -EACCES:     the map does not allow @access, or the access hook refused.
 *   -EINVAL:     the range is not made of whole pages.
 *   -ERANGE:     the range ends past the end of the map.
 *   -ENOMEM:     not enough memory is available.
 *   -EFAULT:     the driver cannot use these pages.
 *   -EDEADLK:    a callback of a view of the map made the call.
 *   -ENODEV:     the map is lost, or a device was taken away.
 *   -EOWNERDEAD: the parent made the object before fork().
 *
 * Source: DRM_IOCTL_AMDGPU_GEM_USERPTR, DRM_IOCTL_I915_GEM_USERPTR.
 */
HM_API int hm_drm_view_create(struct hm_map *map, uint64_t offset, uint64_t length,
			      struct hm_device *device, uint32_t access,
			      struct hm_drm_view **ret_view);

/**
 * hm_drm_view_hold - return the view's handle, and keep it until hm_drm_view_release()
 * @view:       [in] view
 * @ret_handle: [in,out] struct_size set by the caller; the caller must close neither handle nor
 *              fd
 *
 * A change of the map fails with -EBUSY meanwhile. Hold the view while work is being submitted,
 * not until the work is done. Each of several holds needs a release.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EBUSY:  the map is being changed, and the change may be waiting for work on the object.
 *            The call returns at once; call again.
 *   -ERANGE: the map has no more bytes there.
 *   -EACCES: the map no longer allows the access.
 *   -ENODEV: the device, or the device of the map, was taken away.
 *   -E2BIG:  struct_size is larger than this library knows.
 *   -EINVAL: an argument is NULL, or struct_size is not set.
 *
 * In addition the error that kept the view from making a handle after the last change.
 */
HM_API int hm_drm_view_hold(struct hm_drm_view *view, struct hm_drm_handle *ret_handle);

/** hm_drm_view_release - end one hold. */
HM_API void hm_drm_view_release(struct hm_drm_view *view);

/**
 * hm_drm_view_unref - end the view, and close its handle; NULL is allowed
 * @view: [in] view
 *
 * Work in flight keeps the object. The call waits for a change that is under way.
 *
 * Thread safety: any thread.
 */
HM_API void hm_drm_view_unref(struct hm_drm_view *view);

/*
 * ---- fences of a node's drivers ----
 *
 * A syncobj holds a fence, or a timeline of fences. A handle names the syncobj on one open file
 * of a node [drm_syncobj.c]: the library's (hm_drm_handle.fd) or one of the caller's own.
 */

/**
 * hm_fence_import_syncobj - make a fence of the fence that a syncobj holds now
 * @fd:        [in] an open DRM node
 * @handle:    [in] a syncobj of the node; the caller keeps it
 * @point:     [in] point of the syncobj's timeline; 0: the syncobj is a binary one
 * @ret_fence: [out] as of hm_fence_import_fd(), for a sync_file
 *
 * Fences that the syncobj holds later change nothing.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     the syncobj holds no fence yet, or no fence for @point; or @ret_fence is NULL.
 *   -ENOENT:     the node has no such handle.
 *   -EOPNOTSUPP: the node's driver has no syncobjs; or @point is not 0, and the driver has no
 *                timelines.
 *   -ENOTTY:     @fd is not a DRM node.
 *   -EBADF:      @fd is not an open file.
 *   -EMFILE:     the process has too many open files.
 *   -ENOMEM:     not enough memory is available.
 */
HM_API int hm_fence_import_syncobj(int fd, uint32_t handle, uint64_t point,
				   struct hm_fence **ret_fence);

/**
 * hm_fence_export_syncobj - store a fence in a syncobj
 * @fence:  [in] fence with a sync_file as its hm_fence_fd(): a fence of the engine of sim:N,
 *          imported from a sync_file or syncobj, or merged of such fences; or any fence with
 *          work that has ended without an error
 * @fd:     [in] an open DRM node
 * @handle: [in] a syncobj of the node
 * @point:  [in] point to add to the syncobj's timeline; 0: @fence replaces the syncobj's fence
 *
 * Work on the node that waits for the syncobj begins when the work of the fence is done.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the fence is not a sync_file (fences of CPUs and of "soft:N" are none), and
 *                its work goes on or has failed; the node's driver has no syncobjs; or @point
 *                is not 0, and the driver has no timelines.
 *   -ENOENT:     the node has no such handle.
 *   -ENOTTY:     @fd is not a DRM node.
 *   -EBADF:      @fd is not an open file.
 *   -EINVAL:     @fence is not a fence.
 *   -EOWNERDEAD: the parent made the fence before fork().
 *
 * In addition the errors of hm_fence_fd().
 */
HM_API int hm_fence_export_syncobj(struct hm_fence *fence, int fd, uint32_t handle,
				   uint64_t point);

#ifdef __cplusplus
}
#endif

#endif
