/* SPDX-License-Identifier: MIT */
/*
 * DRM nodes as devices: declarations that the files of backend "drm" share.
 *
 *     discover.c   the nodes of the machine, and the reasons why one can't be opened
 *     node.c       open nodes, one for each path, shared by all devices of that name
 *     object.c     kernel handles: one object for each, however often it is imported
 *     bracket.c    the CPU's access to objects that other users work on
 *     view.c       handles of buffers, and of any memory, for callers with work of their own
 *     idle.c       objects without a holder, kept for the next buffer of their kind
 *     drivers.c    the table of drivers; a file for each driver in it
 *     backend.c    the backend over all of them
 *
 * A handle belongs to the open file, and an imported dma-buf has the handle that it had before
 * ("evil twins"): handles are therefore counted here, and the last holder closes one.
 *
 * Objects have a length for life (HM_CAP_RESIZE_REPLACES). A map reserves more addresses than
 * the object has bytes. A resize makes a new object and moves it into place; where other code
 * knows the old object, the resize appends one instead. The kernel finds an object by its first
 * byte only (HM_SEGMENT_FROM_START): a map of a part is mapped whole elsewhere, and the part
 * moved. Memory of a virtio_gpu's host is mapped as a whole (HM_SEGMENT_WHOLE): such an object
 * has room for all of max_size, and is never appended to. A dma-buf of another device is mapped
 * itself: through the importer's node these drivers refuse the map, or allow it and raise
 * SIGBUS.
 */
#ifndef HETMAP_RUNTIME_DRM_H
#define HETMAP_RUNTIME_DRM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <urcu/list.h>

#include <hetmap/backend.h>

#include "base/object.h"
#include "map/view.h"

struct drm_driver;

/* An open node. */
struct drm_node {
	int fd;
	/*
	 * Identify the file: foreign code may close the number, and it may then name another
	 * file.
	 */
	uint64_t rdev, inode;
	uint32_t refs; /* under node.c's lock */
	char path[64]; /* /dev/dri/renderD128 */
	char name[32]; /* of the driver, by drmGetVersion(): "virtio_gpu" */
	const struct drm_driver *driver;
	int32_t numa_node; /* -1: none or unknown */
	bool primary;      /* a card node, opened by name only */
	_Atomic bool gone; /* a call was answered with ENODEV: unbound or unplugged */
	uint64_t caps;     /* HM_CAP_* of the driver on this node */

	/* Filled by drm_driver.open; 0: the driver does not tell. */
	uint64_t vram_total, vram_visible; /* vram_visible: the part that the CPU reaches */
	uint64_t system_total;
	uint64_t data[4]; /* the driver's own */

	uint64_t idle_max;   /* most bytes of idle objects; 0: none are kept */
	uint64_t idle_bytes; /* present bytes of them; under idle.c's lock */

	struct drm_node *next;        /* in node.c's list */
	struct cds_list_head objects; /* drm_object.link, under object.c's lock */
};

enum drm_place {
	DRM_PLACE_DEFAULT = 0, /* the device's own memory where the CPU reaches it */
	DRM_PLACE_VRAM,
	DRM_PLACE_SYSTEM, /* GTT, TT, SMEM */
};

/* hm_segment.object of backend "drm". */
struct drm_object {
	struct drm_node *node; /* with a reference */
	uint32_t handle;
	uint32_t refs;       /* under object.c's lock */
	uint64_t size;       /* whole pages, as the kernel made it */
	uint64_t map_offset; /* argument of mmap(2) on the node */
	int dma_buf;         /* from 0 on: mapped instead of the node; -1: the node is */
	_Atomic int sync;    /* a dma-buf of it to begin and end access by; -1: none */
	/* A dma-buf without write access, for read-only maps: mprotect() can't undo that. */
	_Atomic int read_only; /* -1: none */
	uint32_t place;        /* enum drm_place of its bytes */
	uint32_t cache;        /* enum hm_cache of its maps */
	bool whole;            /* can only be mapped as a whole */
	uint64_t data[2];      /* the driver's own */
	struct cds_list_head link;

	/* For objects made here: */
	_Atomic bool own;       /* known only here: neither exported nor imported */
	uint32_t wanted;        /* requested enum drm_place ... */
	uint64_t asked;         /* ... and bytes: the length of its maps */
	_Atomic(void *) mapped; /* an idle mapping of all these bytes; NULL: none */
	uint64_t idle_since;    /* ns; under idle.c's lock */
};

/*
 * A row of the table. All functions are called with an open node; none keeps a pointer. Each
 * returns 0 or a negative errno, and leaves the text to drm_explain_row() unless it knows
 * better (err_set()). @object comes zeroed, with node set.
 */
struct drm_driver {
	const char *name;
	const char *description;
	uint64_t caps; /* HM_CAP_* on a render node */
	/*
	 * The fault handler counts pages from the beginning of the mapping, and not from the
	 * object's offset, so that a mapping cut by mprotect() or munmap() would get wrong pages
	 * [drm_gem_shmem_fault(); read another driver's own]: the pages must be brought in
	 * before.
	 */
	bool present;
	bool vram_whole;   /* objects in VRAM can only be mapped as a whole */
	bool experimental; /* ran against tests/fake_drm only, never on hardware */

	/*
	 * Reads memory sizes and versions of the node. -EOPNOTSUPP: too old, with a text. NULL:
	 * there is nothing to ask.
	 */
	int (*open)(struct drm_node *node);
	/*
	 * Makes an object of @size bytes, a multiple of the page size, zeroed by the kernel.
	 * Fills handle, size, place, cache, whole.
	 */
	int (*create)(struct drm_node *node, uint64_t size, enum drm_place place,
		      struct drm_object *object);
	/*
	 * Fills object->map_offset, for objects made here or imported. For an import, -EINVAL if
	 * the driver does not map foreign memory on its node: the dma-buf is mapped instead.
	 */
	int (*map_offset)(struct drm_object *object);
	/*
	 * Functions from here on are optional; NULL: not supported.
	 *
	 * Describes an object imported by dma-buf: fills place, cache, whole. cache is
	 * HM_CACHE_UNKNOWN before, and must stay that where the driver does not tell.
	 */
	int (*describe)(struct drm_object *object);
	/*
	 * Waits until the device's work on the object is done, or only its writes. @timeout_ns
	 * of UINT64_MAX: no limit. -ETIME; -EINTR: signals kept coming, the caller may call
	 * again.
	 */
	int (*wait)(struct drm_object *object, bool for_write, uint64_t timeout_ns);
	/* Ends the access that was waited for. NULL: the kernel need not know. */
	int (*wait_end)(struct drm_object *object);
	/* Makes an object of memory that is mapped already. Fills handle, size. */
	int (*userptr)(struct drm_node *node, void *address, uint64_t length, bool write,
		       struct drm_object *object);
	/* Present total and free memory; VRAM where there is some. */
	int (*memory)(struct drm_node *node, uint64_t *ret_total, uint64_t *ret_free);
};

/* NULL past the end. */
const struct drm_driver *drm_driver_at(uint32_t index);
/* The driver's row; for a driver without one that has dumb buffers, the row of those. */
const struct drm_driver *drm_driver_of(const char *name, bool has_dumb);

extern const struct drm_driver drm_virtio_gpu;
extern const struct drm_driver drm_dumb;
extern const struct drm_driver drm_amdgpu;
extern const struct drm_driver drm_i915;
extern const struct drm_driver drm_xe;
extern const struct drm_driver drm_nouveau;

/* ---- node.c ---- */

/*
 * Opens the node of "drm:@rest": a path below /dev/dri, a driver's name with an optional "#N",
 * or "pci-DDDD:BB:DD.F"; "" is the first render node that opens.
 * Errors:
 *   -ENODEV
 *   -EACCES the text tells who may open it
 *   -EOPNOTSUPP no DRM node, or no driver of the table
 */
int drm_node_get(const char *rest, struct drm_node **ret_node);
void drm_node_ref(struct drm_node *node);
void drm_node_put(struct drm_node *node);

/*
 * ioctl(2), again after EINTR and EAGAIN with a bound. Sets no text. ENODEV may be the request's
 * own answer: the node is gone if it answers nothing else any more.
 */
int drm_call(struct drm_node *node, unsigned long cmd, void *argument);

/* Notes the identity of node->fd's file, for drm_node_is_lost(). */
int drm_node_identify(struct drm_node *node);
/*
 * Has the node's descriptor been closed by foreign code, or does it name another file? A second
 * file of the same node has the same inode, and is not told apart.
 */
bool drm_node_is_lost(const struct drm_node *node);
/* Call before requests that another node would answer, too, about objects of its own. -EBADF. */
int drm_node_check(struct drm_node *node, const char *what);

/* Turns a failed call into a sentence: node, driver, errno, remedy. Returns @r. */
int drm_explain(struct drm_node *node, int r, const char *what);
/* The same for a row's function, unless that has set a text since err_count() gave @said. */
int drm_explain_row(struct drm_node *node, uint32_t said, int r, const char *what);

/* fork(2): the locks are held across it; a child has no nodes. */
void drm_fork_prepare(void);
void drm_fork_parent(void);
void drm_fork_child(void);

/* ---- object.c ---- */

int drm_object_create(struct drm_node *node, uint64_t size, enum drm_place place,
		      struct drm_object **ret_object);
/* DRM_IOCTL_PRIME_FD_TO_HANDLE: returns an existing object, or a new one. */
int drm_object_import(struct drm_node *node, int fd, struct drm_object **ret_object);
/*
 * DRM_IOCTL_PRIME_HANDLE_TO_FD with DRM_CLOEXEC, and DRM_RDWR where @write. The kernel keeps one
 * dma-buf of an object, with the rights of the first time: -EBUSY with a text if @write asks for
 * different ones.
 */
int drm_object_export(struct drm_object *object, bool write, int *ret_fd);
/*
 * Keeps @dma_buf, opened O_RDONLY, for maps that must never become writable: they map it instead
 * of the node. -EMFILE, with a text.
 */
int drm_object_keep_read_only(struct drm_object *object, int dma_buf);
void drm_object_put(struct drm_object *object);
/* For a caller that dropped the last reference: closes the handle, and frees the object. */
void drm_object_end(struct drm_object *object);
/* The first @length bytes, as a segment for the core. */
struct hm_segment drm_object_segment(struct drm_object *object, uint64_t length,
				     bool read_only);
/* Closes a handle without an object; never one of another file. */
void drm_handle_close(struct drm_node *node, uint32_t handle);
/* For fork only. */
void drm_objects_lock(void);
void drm_objects_unlock(void);

/* ---- idle.c ---- */

/*
 * Reads from HETMAP_DRM_IDLE how many bytes of idle objects a node may have. -EINVAL, with a
 * text.
 */
int drm_idle_limit(uint64_t *ret_bytes);
/*
 * Keeps an object without holders. False: not kept; the caller, its last holder, still owns it.
 */
bool drm_idle_put(struct drm_object *object);
/* Takes a kept object of that kind, zeroed; the caller owns it. NULL: there is none. */
struct drm_object *drm_idle_take(struct drm_node *node, uint64_t size, enum drm_place place);
/* Ends the idle objects of all nodes, when memory is short. False: there were none. */
bool drm_idle_empty(void);
/* Ends a node's idle objects. */
void drm_idle_close(struct drm_node *node);
/* Keeps a mapping of all of @object from an ended map. -ENOSPC: not kept. */
int drm_idle_keep_mapping(struct drm_object *object, void *address);
/* Takes the kept mapping, whatever its rights; NULL: there is none. */
void *drm_idle_take_mapping(struct drm_object *object);
/* For fork only. */
void drm_idle_fork_prepare(void);
void drm_idle_fork_parent(void);
void drm_idle_fork_child(void);

/* ---- bracket.c ---- */

/*
 * Notes, before other users can know @object, that they may have work on it from now on: it is
 * exported or imported as @dma_buf, or its handle is given out (-1). -EMFILE, no text.
 */
int drm_object_shared(struct drm_object *object, int dma_buf);
/*
 * Begins the CPU's access: waits, without a limit, for other users' work that conflicts with
 * @access. -EINTR: signals kept coming; nothing has begun. Holds no lock.
 */
int drm_bracket_begin(struct drm_object *object, uint32_t access);
int drm_bracket_end(struct drm_object *object, uint32_t access);
/* hm_backend_ops.begin_cpu and end_cpu: skip objects that other users don't know. */
int drm_segments_begin(void *device, const struct hm_segment *segments, uint32_t n_segment,
		       uint64_t offset, uint64_t length, uint32_t access);
int drm_segments_end(void *device, const struct hm_segment *segments, uint32_t n_segment,
		     uint64_t offset, uint64_t length, uint32_t access);

/* Returns 0, or -EBUSY: at once where @now; if not, after a time that the kernel chooses. */
typedef int drm_look(struct drm_object *object, bool for_write, bool now);
/* drm_driver.wait for drivers with a call that takes no timeout. */
int drm_wait_by_looks(struct drm_object *object, drm_look *look, bool for_write,
		      uint64_t timeout_ns);

/* ---- view.c ---- */

/* The node's object for a range of a map. */
struct hm_drm_view {
	struct hm_object object;
	struct hm_view *view; /* holds the map */
	struct drm_node *node;
	uint32_t access;
	struct view_deferred deferred; /* when the last reference is gone, in a callback */

	pthread_mutex_t lock; /* protects the fields below; a leaf but for calls on the node */
	struct drm_object user;
	bool open;       /* user has a handle */
	int error;       /* the reason why not */
	uint32_t n_hold; /* hm_drm_view_hold() */
	bool changing;   /* from the begin of quiesce to reattach: no hold */
};

/* ---- backend.c ---- */

/* Returns the node of a device of this backend; NULL for other devices. */
struct hm_device;
struct drm_node *drm_node_of(const struct hm_device *device);

/* ---- discover.c ---- */

/* A node of this machine, opened or not. */
struct drm_found {
	char path[64];
	char driver[32]; /* "": could not be asked */
	char version[24];
	char bus[16];            /* "pci", "platform", "virtio", "usb" */
	char address[32];        /* "pci-0000:00:02.0", or the address on another bus; "" */
	uint16_t vendor, device; /* PCI; 0: none */
	int32_t numa_node;
	bool primary;
	int error;        /* 0, or the error of an open: -EACCES, -ENOENT (no node in /dev) */
	char remedy[160]; /* with error */
};

/* All nodes, render nodes first. *@ret_found is freed by free(). -ENOMEM. */
int drm_discover(struct drm_found **ret_found, uint32_t *ret_n);
/* Writes the remedy where open(2) refused with @r; returns the errno for the caller. */
int drm_explain_open(int r, const char *path, char *remedy, size_t size);
/* Fills driver from the path and sysfs; "": they don't tell. */
void drm_find_driver(struct drm_found *found);
/* NUMA node of a node's device; -1: none or unknown. */
int32_t drm_numa_node(const char *path);

#endif
