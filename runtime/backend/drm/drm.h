/* SPDX-License-Identifier: MIT */
/*
 * DRM nodes as devices: what the steps of backend "drm" share.
 *
 *	discover.c   which nodes there are, and why one can't be opened
 *	node.c       open nodes, one for each path, shared by all who name it
 *	object.c     kernel handles: one object for each, however often it comes in
 *	bracket.c    the CPU's access to what others work on, too
 *	view.c       handles for who submits work of his own, of buffers and of any memory
 *	idle.c       objects that nobody holds, kept for who asks for the like next
 *	drivers.c    the table of drivers; one file for each that it names
 *	../backend/drm.c  the backend over all of them
 *
 * A handle is the open file's, and a dma-buf that comes back has the handle it had
 * ("evil twins"): so handles are counted here, and the last who holds one closes it.
 *
 * Objects have a length for life (HM_CAP_RESIZE_REPLACES). A map reserves more addresses than
 * the object has bytes. A resize makes a new object and moves it into place; where other code
 * knows the old object, the resize appends one instead. The kernel finds an object by its first
 * byte only (HM_SEGMENT_FROM_START): a map of a part is mapped whole elsewhere, and the part
 * moved. Memory of a virtio_gpu's host is mapped as a whole (HM_SEGMENT_WHOLE): such an object
 * has room for all of max_size, and is never appended to. A dma-buf of another device is mapped
 * itself: through the importer's node these drivers refuse the map, or allow it and raise SIGBUS.
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
	/* What was opened: the number may be closed behind us, and be another's by now. */
	uint64_t rdev, inode;
	uint32_t refs; /* under node.c's lock */
	char path[64]; /* /dev/dri/renderD128 */
	char name[32]; /* of the driver, as drmGetVersion() has it: "virtio_gpu" */
	const struct drm_driver *driver;
	int32_t numa_node; /* -1: none or unknown */
	bool primary;      /* a card node, which only who was told to opens */
	_Atomic bool gone; /* a call was answered with ENODEV: unbound or unplugged */
	uint64_t caps;     /* HM_CAP_*: what the driver can on this node */

	/* Filled by drm_driver.open; 0: the driver does not tell. */
	uint64_t vram_total, vram_visible; /* what the CPU can reach of it */
	uint64_t system_total;
	uint64_t data[4]; /* the driver's own */

	uint64_t idle_max;   /* bytes that idle objects may have; 0: none is kept */
	uint64_t idle_bytes; /* that they have; under idle.c's lock */

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
	uint64_t map_offset; /* what mmap(2) on the node takes */
	int dma_buf;         /* what is mapped instead, from 0 on; -1: the node is */
	_Atomic int sync;    /* a dma-buf of it to begin and end access by; -1: none */
	/* One that may not write, for maps of who may not: mprotect() can't change that. */
	_Atomic int read_only; /* -1: none */
	uint32_t place;        /* enum drm_place it is in */
	uint32_t cache;        /* enum hm_cache that its maps have */
	bool whole;            /* it is mapped as a whole or not at all */
	uint64_t data[2];      /* the driver's own */
	struct cds_list_head link;

	/* Of what was made here: */
	_Atomic bool own;       /* nobody else knows it: neither exported nor brought in */
	uint32_t wanted;        /* enum drm_place that was asked for ... */
	uint64_t asked;         /* ... and bytes: what its maps have */
	_Atomic(void *) mapped; /* where all of that is mapped, for no map; NULL: nowhere */
	uint64_t idle_since;    /* ns; under idle.c's lock */
};

/*
 * One row of the table. All are called with an open node; none keeps a pointer. Each
 * returns 0 or a negative errno, and leaves the text to drm_explain() unless it
 * knows better (err_set()). @object comes zeroed, with node set.
 */
struct drm_driver {
	const char *name;
	const char *description;
	uint64_t caps; /* HM_CAP_* on a render node */
	/*
	 * Its fault handler counts pages from where the mapping begins, not from the
	 * object's offset, so that a mapping which mprotect() or munmap() has cut gets
	 * others' pages [drm_gem_shmem_fault(); of another driver its own must be read]:
	 * they are brought in before.
	 */
	bool present;
	bool vram_whole; /* what it makes in VRAM is mapped as a whole or not at all */

	/*
	 * Asks what the node has: memory, versions. -EOPNOTSUPP: too old, with a text.
	 * NULL: there is nothing to ask.
	 */
	int (*open)(struct drm_node *node);
	/*
	 * An object of @size bytes, a multiple of the page size, zeroed by the kernel.
	 * Fills handle, size, place, cache, whole.
	 */
	int (*create)(struct drm_node *node, uint64_t size, enum drm_place place,
		      struct drm_object *object);
	/*
	 * Fills object->map_offset, of an object made here or brought in; of the latter
	 * -EINVAL where the driver maps no memory of others on its node: then the
	 * dma-buf is what is mapped.
	 */
	int (*map_offset)(struct drm_object *object);
	/*
	 * Optional from here on; NULL: not supported.
	 *
	 * What is known of an object that came in by dma-buf: fills place, cache, whole.
	 * cache is HM_CACHE_UNKNOWN before, and stays that where the driver does not tell.
	 */
	int (*describe)(struct drm_object *object);
	/*
	 * Until the device's work on it is done, or what writes of it. -ETIME;
	 * UINT64_MAX: it never is. -EINTR: signals kept coming, it may be called again.
	 */
	int (*wait)(struct drm_object *object, bool for_write, uint64_t timeout_ns);
	/* The end of the access that was waited for. NULL: the kernel need not know. */
	int (*wait_end)(struct drm_object *object);
	/* An object of memory that is mapped already. Fills handle, size. */
	int (*userptr)(struct drm_node *node, void *address, uint64_t length, bool write,
		       struct drm_object *object);
	/* Memory there is and is free, now; of VRAM where there is some. */
	int (*memory)(struct drm_node *node, uint64_t *ret_total, uint64_t *ret_free);
};

/* NULL past the end. */
const struct drm_driver *drm_driver_at(uint32_t index);
/* Of drivers without a row of their own that have dumb buffers: that row. */
const struct drm_driver *drm_driver_of(const char *name, bool has_dumb);

extern const struct drm_driver drm_virtio_gpu;
extern const struct drm_driver drm_dumb;
extern const struct drm_driver drm_amdgpu;
extern const struct drm_driver drm_i915;
extern const struct drm_driver drm_xe;
extern const struct drm_driver drm_nouveau;

/* ---- node.c ---- */

/*
 * The node of "drm:@rest": a path below /dev/dri, a driver's name with an optional
 * "#N", or "pci-DDDD:BB:DD.F"; "" is the first render node that opens. -ENODEV,
 * -EACCES (who may open it), -EOPNOTSUPP (no DRM node; no driver of the table).
 */
int drm_node_get(const char *rest, struct drm_node **ret_node);
void drm_node_ref(struct drm_node *node);
void drm_node_put(struct drm_node *node);

/*
 * ioctl(2), again after EINTR and EAGAIN with a bound. No text. ENODEV may be the
 * call's own answer: the node is gone if it answers nothing else any more.
 */
int drm_call(struct drm_node *node, unsigned long cmd, void *argument);

/* Notes what is open as node->fd, for drm_node_is_lost(). */
int drm_node_identify(struct drm_node *node);
/*
 * Is its number nobody's now, or somebody else's? A second file of the same node has the
 * same inode: that one is not told apart.
 */
bool drm_node_is_lost(const struct drm_node *node);
/* Before calls that another node would answer, too, about objects of its own. -EBADF. */
int drm_node_check(struct drm_node *node, const char *what);

/* A failed call as a sentence: node, driver, errno, remedy. Returns @r. */
int drm_explain(struct drm_node *node, int r, const char *what);

/* fork(2): held across it; a child has none. */
void drm_fork_prepare(void);
void drm_fork_parent(void);
void drm_fork_child(void);

/* ---- object.c ---- */

int drm_object_create(struct drm_node *node, uint64_t size, enum drm_place place,
		      struct drm_object **ret_object);
/* DRM_IOCTL_PRIME_FD_TO_HANDLE: an object that is there, or a new one. */
int drm_object_import(struct drm_node *node, int fd, struct drm_object **ret_object);
/*
 * DRM_IOCTL_PRIME_HANDLE_TO_FD with DRM_CLOEXEC, and DRM_RDWR where @write. The
 * kernel keeps one dma-buf of an object, with the rights of the first time: -EBUSY
 * where those are not @write's, with a text.
 */
int drm_object_export(struct drm_object *object, bool write, int *ret_fd);
/*
 * For maps that can never write, however they are changed: by @dma_buf, which was opened
 * O_RDONLY, instead of the node. -EMFILE, with a text.
 */
int drm_object_keep_read_only(struct drm_object *object, int dma_buf);
void drm_object_put(struct drm_object *object);
/* For who found its last holder gone: closes the handle, and the object is no more. */
void drm_object_end(struct drm_object *object);
/* Its first @length bytes as the core maps them. */
struct hm_segment drm_object_segment(struct drm_object *object, uint64_t length,
				     bool read_only);
/* Closes a handle of which there is no object; never somebody else's. */
void drm_handle_close(struct drm_node *node, uint32_t handle);
/* For fork only. */
void drm_objects_lock(void);
void drm_objects_unlock(void);

/* ---- idle.c ---- */

/* What HETMAP_DRM_IDLE says of a node's idle objects. -EINVAL, with a text. */
int drm_idle_limit(uint64_t *ret_bytes);
/* False: it is not to be kept, and still the caller's, who was its last holder. */
bool drm_idle_put(struct drm_object *object);
/* One of the like, of zeros, the caller's from here on; NULL: there is none. */
struct drm_object *drm_idle_take(struct drm_node *node, uint64_t size, enum drm_place place);
/* Ends those of all nodes: memory is short. False: there were none. */
bool drm_idle_empty(void);
/* Ends those of a node that nobody holds any more. */
void drm_idle_close(struct drm_node *node);
/* A mapping of all of @object that a map has left. -ENOSPC: it is not kept. */
int drm_idle_keep_mapping(struct drm_object *object, void *address);
/* It, with whatever rights; NULL: there is none. */
void *drm_idle_take_mapping(struct drm_object *object);
/* For fork only. */
void drm_idle_fork_prepare(void);
void drm_idle_fork_parent(void);
void drm_idle_fork_child(void);

/* ---- bracket.c ---- */

/*
 * From now on others may have work on @object: it was exported or brought in as
 * @dma_buf, or its handle was told (-1). Before they can know. -EMFILE, no text.
 */
int drm_object_shared(struct drm_object *object, int dma_buf);
/*
 * The CPU's access begins: waits, without a limit, for others' work that conflicts with
 * @access. -EINTR: signals kept coming; nothing has begun. Holds no lock.
 */
int drm_bracket_begin(struct drm_object *object, uint32_t access);
int drm_bracket_end(struct drm_object *object, uint32_t access);
/* hm_backend_ops.begin_cpu and end_cpu: of objects that others know only. */
int drm_segments_begin(void *device, const struct hm_segment *segments, uint32_t n_segment,
		       uint64_t offset, uint64_t length, uint32_t access);
int drm_segments_end(void *device, const struct hm_segment *segments, uint32_t n_segment,
		     uint64_t offset, uint64_t length, uint32_t access);

/* 0, or -EBUSY: at once where @now, else after a time of the kernel's. */
typedef int drm_look(struct drm_object *object, bool for_write, bool now);
/* drm_driver.wait of drivers whose call has no timeout of the caller's. */
int drm_wait_by_looks(struct drm_object *object, drm_look *look, bool for_write,
		      uint64_t timeout_ns);

/* ---- view.c ---- */

/* The node's own object of a range of a map. */
struct hm_drm_view {
	struct hm_object object;
	struct hm_view *view; /* of the map, which it holds */
	struct drm_node *node;
	uint32_t access;
	struct view_deferred deferred; /* when the last reference is gone, in a callback */

	pthread_mutex_t lock; /* protects the below; leaf, but for calls on the node */
	struct drm_object user;
	bool open;       /* user has a handle */
	int error;       /* why not */
	uint32_t n_hold; /* hm_drm_view_hold() */
	bool changing;   /* from the begin of quiesce to reattach: no hold */
};

/* ---- ../backend/drm.c ---- */

/* Of a device of this backend; NULL: of another. */
struct hm_device;
struct drm_node *drm_node_of(const struct hm_device *device);

/* ---- discover.c ---- */

/* A node of this machine, opened or not. */
struct drm_found {
	char path[64];
	char driver[32]; /* "": could not be asked */
	char version[24];
	char bus[16];            /* "pci", "platform", "virtio", "usb" */
	char address[32];        /* "pci-0000:00:02.0" or what the bus has; "" */
	uint16_t vendor, device; /* PCI; 0: none */
	int32_t numa_node;
	bool primary;
	int error;        /* 0, or why it can't be opened: -EACCES, -ENOENT (no node in /dev) */
	char remedy[160]; /* with error */
};

/* All nodes, render nodes first. *@ret_found is freed by free(). -ENOMEM. */
int drm_discover(struct drm_found **ret_found, uint32_t *ret_n);
/* The remedy where open(2) refused with @r; returns what the caller should. */
int drm_explain_open(int r, const char *path, char *remedy, size_t size);
/* Fills driver, of its path and by sysfs; "": that does not tell. */
void drm_find_driver(struct drm_found *found);
/* Of a node's device; -1: none or unknown. */
int32_t drm_numa_node(const char *path);

#endif
