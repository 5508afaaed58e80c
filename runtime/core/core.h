/* SPDX-License-Identifier: MIT */
/*
 * The objects of the core: device, buffer, map, view.
 *
 * Lock order, outermost first:
 *
 *   buffer->lock    its size, segments and list of maps; held through a resize
 *   map->change     one change (resize, protect, lock, unmap) at a time; maps of
 *                   one buffer in address order
 *   view_mutex      attaching and detaching of views (view.c)
 *   map->lock       uses in flight, list of views, frozen; short, never held
 *                   over a system call or a callback
 *   registry's mutex, slab's mutex, buffer->segment_lock, control.c's mutex,
 *   identity.c's mutex
 *
 * A fence's completion takes map->lock. Nothing that waits for a fence holds it.
 */
#ifndef HETMAP_CORE_H
#define HETMAP_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include <hetmap/backend.h>
#include <hetmap/hetmap.h>

#include "tell/counts.h"
#include "base/counters.h"
#include "base/err.h"
#include "base/object.h"
#include "base/rangemap.h"
#include "registry/registry.h"
#include "map/retire.h"
#include "base/util.h"

struct device_link;
struct identity;

struct hm_device {
	struct hm_object object;
	const struct hm_backend_ops *ops;
	_Atomic(struct device_link *) link; /* without lock: link_get() */
	char name[64];
	/* Pool that serves HM_ALLOC_POOLED; NULL: none yet. Set once. */
	_Atomic(struct hm_pool *) pool;
	pthread_mutex_t lock;         /* a leaf; protects the three below, links' closing */
	struct cds_list_head buffers; /* hm_buffer.device_link */
	uint64_t n_buffer;            /* ever made */
	struct counts ended;          /* of buffers that have ended */
	_Atomic uint32_t generation;  /* number of recoveries */
	_Atomic uint32_t recovered;   /* ends of hm_device_recover() */
	pthread_mutex_t recovery;     /* one at a time, outermost: recover.c */
};

/* Steps of hm_device_unref() for a device with a pool of its own. */
struct device_pool_ops {
	bool (*put)(struct hm_device *device); /* as object_put() */
	void (*end)(struct hm_device *device);
};
/* Must be called before the library is used. */
void device_set_pool_ops(const struct device_pool_ops *ops);

#define BUFFER_NAME_MAX 64

struct segment_list {
	_Atomic uint32_t n_user;
	uint32_t n;
	uint64_t serial;            /* counts the buffer's lists, from 1 */
	uint32_t n_kept;            /* the first n_kept objects are in the next list, too */
	struct hm_segment *segment; /* n of them, by offset */
	struct device_link *link;   /* of the objects; held until they end */
	struct segment_list *next;  /* the newer list; or next of hm_buffer.spare */
};

struct hm_buffer {
	struct hm_object object;
	struct retired retired;           /* when the last reference is gone */
	struct hm_device *device;         /* holds a ref */
	struct cds_list_head device_link; /* device->buffers */
	char name[BUFFER_NAME_MAX];
	uint64_t serial;

	/* Each guarded copy reads these without lock: side by side. */
	uint64_t page_size; /* constant after creation */
	/*
	 * Its policy, where one was set; NULL: zeros. Set with lock held, freed with the buffer.
	 */
	_Atomic(struct loss *) loss;
	/* With other processes; NULL: neither sent nor received. Set once, with lock held. */
	_Atomic(struct share *) share;
	/*
	 * Cuts of bytes begun and completed, and the size that the last leaves. Written with
	 * lock held.
	 */
	_Atomic uint64_t cuts, cuts_over, cut_to;

	/* Constant after creation. */
	uint8_t ask;  /* enum ask; beside the fields above */
	bool created; /* by hm_buffer_create: further objects can be made the same way */
	uint64_t alignment;
	_Atomic uint32_t access; /* HM_READ | HM_WRITE that a map may have; a seal removes one */
	uint32_t cache;
	uint32_t numa_mode;
	uint64_t numa_nodes;
	uint32_t wanted;  /* enum hm_place, of further objects, too */
	uint32_t persist; /* enum hm_persist */

	pthread_mutex_t lock; /* buffer_lock(); protects the fields below */
	uint64_t size;
	uint64_t max_size;
	_Atomic uint64_t caps;          /* read without lock too */
	_Atomic uint32_t memory;        /* HM_MEMORY_*, MEMORY_*; likewise */
	_Atomic uint64_t announce_step; /* 0: not asked for yet; see announce.c */
	uint32_t flags;                 /* HM_BUFFER_* */
	uint32_t generation;
	uint32_t place;  /* enum hm_place that all objects are in */
	uint32_t sealed; /* HM_SEALED_* */
	bool seal_begun; /* a refused seal has removed writing here: it may be tried again */
	bool exported;
	bool pinned; /* a dma-buf has pinned the pages of its memfd: none can be given back */
	uint32_t n_segment;
	struct hm_segment *segment;              /* n_segment of them, by offset: the list's */
	_Atomic(struct segment_list *) segments; /* without lock: segments_get() */
	pthread_mutex_t segment_lock;            /* protects the three below */
	struct segment_list *oldest; /* possibly in use; the newest one is segments */
	struct segment_list *spare;
	struct segment_list first_list;  /* most buffers need no other: saves an allocation */
	struct hm_segment first_segment; /* of first_list */
	uint64_t n_list;                 /* published so far */
	struct cds_list_head maps;       /* hm_map.buffer_link, by address */
	uint32_t n_map;
	struct hm_map *ended;            /* off maps; buffer_unlock() does the rest */
	_Atomic(struct hm_map *) ending; /* no lock: see buffer_end_map() */
	_Atomic bool reach_changed;      /* likewise: buffer_unlock() updates the maps */
	_Atomic bool reach_failed; /* set with lock held: some map is still to be updated */
	/*
	 * Read without lock: the dma-buf of the first object's pages, from the time it was
	 * exported or imported until the buffer ends; brackets are announced to it. -1: no other
	 * holder. Its length is written first, and grows when a memfd that has grown is exported
	 * again.
	 */
	_Atomic int settled_fd;
	_Atomic uint64_t settled_length;
	/*
	 * settled_fd was made of a memfd's pages; if not, it is the first object's descriptor.
	 * Set before it.
	 */
	bool settled_own;

	/*
	 * identity.h: the bytes of the buffer as other buffers know them; NULL: no other has
	 * them. Set once, with lock held; identity_at is the position of the buffer's first byte
	 * in them, and set before.
	 */
	_Atomic(struct identity *) identity;
	uint64_t identity_at;

	/* Keeps the fields that each launch writes off the cache line that each bracket reads. */
	char unshared[CACHE_LINE];
	struct counts counts;
	_Atomic(struct bracket_count *) brackets; /* of all maps, ended ones included */
	struct bracket_count *free_brackets;      /* lock: those without a map */
	struct bracket_count first_brackets;
};

/* hm_buffer.memory, beside the recipe's bits: properties that other fields of the recipe tell. */
#define MEMORY_ANON (1u << 29)    /* HM_SEGMENT_ANON: anonymous pages, of this process alone */
#define MEMORY_PRIVATE (1u << 30) /* HM_SEGMENT_PRIVATE: nobody else sees stores */
/* HM_BUFFER_HUGETLB: a touch of a hole raises SIGBUS while the huge page pool is empty. */
#define MEMORY_HUGE (1u << 31)

/* Does the buffer's memory have any of the properties? Needs no lock. */
static inline bool buffer_is(const struct hm_buffer *buffer, uint32_t memory)
{
	return atomic_load_explicit(&buffer->memory, memory_order_relaxed) & memory;
}

struct reservation {
	char *base; /* start of the address range, guards included */
	uint64_t length;
};

/* The function behind begin_cpu or end_cpu: chosen when views change. */
typedef int bracket_function(struct hm_map *map, uint64_t offset, uint64_t length,
			     uint32_t access);

/*
 * hm_map.write_out: returns the first error, with a text, which the caller passes to
 * device_loss_notice() once it has no bracket open.
 */
typedef int write_out_function(struct hm_map *map);

/* A map's entry in the published table, as far as it may change (publish.c). */
struct map_published {
	uint32_t entry; /* index + 1; 0: no entry */
	uint32_t flags;
	const char *address;
	uint64_t span, length;
	uint32_t generation;
	const uint64_t *evictions; /* NULL: not counted in this process */
};

struct hm_map {
	/* Each guarded copy reads these without lock: side by side. */
	struct hm_object object;
	uint32_t access;                     /* at creation, and of new bytes; constant */
	struct hm_buffer *buffer;            /* holds a ref */
	uint64_t offset;                     /* in the buffer; constant */
	_Atomic uint64_t length;             /* written with change held */
	_Atomic(struct map_repair *) repair; /* core/map_repair.h; NULL: no handler came yet */
	/*
	 * A change and its undoing failed: no access any more. Written with change and lock
	 * held.
	 */
	_Atomic bool lost;
	bool whole; /* follows the buffer's size; constant */

	struct retired retired; /* when the last reference is gone */
	struct cds_list_head buffer_link;
	struct hm_map *next_ended; /* in hm_buffer.ending, then in .ended */
	struct registry_slot *slot;
	uint32_t map_flags; /* HM_MAP_*; constant */

	pthread_mutex_t change; /* protects the fields below; see the lock order above */
	struct reservation reservation;
	char *address; /* first byte; changes with HM_MAY_MOVE only */
	uint64_t span; /* address space for bytes: max length, page-rounded */
	_Atomic uint32_t generation;
	struct rangemap *rights;       /* enum hm_access bits; written with lock held too */
	struct rangemap *spare_rights; /* one run, kept for the next change; or NULL */
	struct rangemap *base; /* the rights without open scopes; NULL: no scope is open */
	struct cds_list_head scopes; /* hm_scope.link (protect.c) */
	struct rangemap *locked;     /* lock_budget.h has the values; NULL: nothing is */
	/* Not 0 where CPUs find a SIGBUS (reach.c), unless the block is POISONED; or NULL. */
	struct rangemap *hidden;
	/* Lost for good: no recovery brings it back. Written with buffer->lock held too. */
	bool given_up;
	_Atomic bool narrowed; /* rights differ from access somewhere. Read without lock too */
	bool touched;          /* change was held: the mapping may differ from the first one */
	struct map_published published;

	/*
	 * Calls of hm_map_sync() inside msync(), without a lock: the addresses must stay the
	 * map's. Raised with change held, lowered without.
	 */
	_Atomic uint32_t n_sync;

	/*
	 * Stores of guarded_store() under way: the addresses must stay, too, and a move waits.
	 * One thread raises n_store and then loads moving, a move sets moving and then loads
	 * n_store, each sequentially consistent: one of the two sees the other.
	 */
	_Atomic uint32_t n_store;
	_Atomic bool moving;

	_Atomic bool allocation; /* made by hm_alloc, not yet freed */

	pthread_mutex_t lock; /* protects the fields below */
	/*
	 * A change is under way: launches are -EBUSY. Set with lock held, cleared with change
	 * held.
	 */
	_Atomic bool frozen;
	_Atomic uint32_t n_use;     /* read without lock too */
	uint64_t n_writer;          /* uses so far that may store */
	struct cds_list_head uses;  /* map_use.link: work in flight */
	struct cds_list_head views; /* map_view.link */
	uint32_t n_view;
	_Atomic(bracket_function *) bracket_begin; /* recomputed when views come and go; */
	_Atomic(bracket_function *) bracket_end;   /* read without lock */
	/*
	 * Writes out what the map's combines hold; NULL: there are none. Read without lock, by
	 * the end of each bracket: beside bracket_end.
	 */
	_Atomic(write_out_function *) write_out;
	struct cds_list_head combines; /* hm_combine.link */

	struct bracket_count *brackets; /* the buffer's; constant */
	_Atomic uint32_t turn; /* access that hm_fence_wait() began: bracket_turn_begin() */
};

/* Number of open brackets. */
static inline uint32_t map_brackets(const struct hm_map *map)
{
	return (uint32_t)atomic_load(&map->brackets->n);
}

/* ---- device.c, backend.c ---- */

/* Puts a buffer on its device's list, and takes it off. */
void device_add_buffer(struct hm_buffer *buffer);
void device_remove_buffer(struct hm_buffer *buffer);

/* Finds the backend of "name" or "name:rest"; NULL if there is none. */
const struct hm_backend_ops *backend_find(const char *name, const char **ret_rest);
/* In order of registration; NULL past the end. */
const struct hm_backend_ops *backend_at(uint32_t index);

/*
 * Gives a failed op a text where it has set none since err_count() gave @said: plug-ins can't.
 * Returns @r.
 */
int backend_explain(const struct hm_backend_ops *ops, uint32_t said, int r, const char *op);

/* Has the backend this capability, one of HM_CAP_* and HM_BACKEND_*? */
static inline bool backend_has(const struct hm_backend_ops *ops, uint64_t cap)
{
	return ops->caps & cap;
}

/*
 * Source that knows whether a map still shows its buffer's bytes, and no zeros: by
 * HM_BACKEND_LOSS and HM_BACKEND_LOSS_ASK.
 */
enum ask {
	ASK_NOBODY, /* its devices never go away */
	ASK_CHECK,  /* device_check, which makes no system call */
	ASK_DEVICE, /* the device itself: the news may not have reached the process */
};

/*
 * Sets the backends that every process has, in the order of hm_device_list(). Must be called
 * before the library is used.
 */
void backend_set_builtin(const struct hm_backend_ops *const *all, size_t n);
/* NULL past the end. */
const struct hm_backend_ops *backend_builtin(size_t index);

/* ---- work in flight (inflight.c) ---- */

/* Functions of the accelerators' side that wait for the work of a use. */
struct map_work_ops {
	struct hm_fence *(*ref)(struct hm_fence *fence);
	void (*unref)(struct hm_fence *fence);
	/*
	 * Waits for the work behind @fence and completes it, which calls map_use_end() for each
	 * of its uses. Returns the result of hm_fence_wait().
	 */
	int (*wait)(struct hm_fence *fence, uint64_t timeout_ns);
	/* The work is over, and no map has it in flight any more. */
	bool (*is_done)(struct hm_fence *fence);
};

/* One range of one map that submitted work may touch. Embedded in a fence. */
struct map_use {
	struct cds_list_head link; /* map->uses; protected by map->lock */
	struct hm_map *map;        /* holds a ref */
	struct hm_fence *fence;
	const struct map_work_ops *work; /* the fence's */
	uint64_t offset;                 /* in the map */
	uint64_t length;
	uint32_t access;          /* HM_READ | HM_WRITE */
	struct check_sums *check; /* of the checking mode, or NULL */
};

/*
 * Enters @use. The caller fills in all fields but link, and hands its reference to the map over.
 * On failure the caller keeps the reference.
 * Errors:
 *   -EBUSY the map is being changed
 *   -ENODEV the map is lost
 */
int map_use_begin(struct map_use *use);
/* For work that is done: takes @use off the list and drops the reference. */
void map_use_end(struct map_use *use);
int map_use_wait_each(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access,
		      uint64_t timeout_ns);
/*
 * Waits until no work in flight conflicts with @access on the range: all work for HM_WRITE, work
 * that writes for HM_READ. The caller holds neither map->lock nor a fence's lock.
 * Errors:
 *   -ETIME after @timeout_ns
 *   -EINPROGRESS the accelerator can't wait
 *   others the work's own error
 */
static inline int map_use_wait(struct hm_map *map, uint64_t offset, uint64_t length,
			       uint32_t access, uint64_t timeout_ns)
{
	/* Acquire: the effects of work that has been counted off are visible, too. */
	if (likely(!atomic_load_explicit(&map->n_use, memory_order_acquire)))
		return 0;
	return map_use_wait_each(map, offset, length, access, timeout_ns);
}

/* ---- views (view.c) ---- */

struct map_view;

/* Like hm_view_ops, for users inside the library. All but release are optional. */
struct view_hooks {
	int (*quiesce)(struct map_view *view, const struct hm_view_change *change);
	void (*invalidate)(struct map_view *view, const struct hm_view_change *change);
	void (*reattach)(struct map_view *view, const struct hm_view_change *change);
	void (*lost)(struct map_view *view);
	/* Work of a bracket; NULL where the CPU and this user are coherent. */
	int (*begin_cpu)(struct map_view *view, uint64_t offset, uint64_t length,
			 uint32_t access);
	int (*end_cpu)(struct map_view *view, uint64_t offset, uint64_t length,
		       uint32_t access);
	/* The map goes away: frees the view. Called once, with view_mutex held. */
	void (*release)(struct map_view *view);
};

/* Embedded in the owner's record for a map. An accelerator's view holds no reference. */
struct map_view {
	struct cds_list_head link; /* map->views; view_mutex and map->lock */
	struct hm_map *map;
	uint64_t offset;
	uint64_t length; /* 0: all of the map, following it */
	const struct view_hooks *hooks;
	void *owner; /* set by the attaching side; view_find() compares it */
};

/* Held to attach, to detach, and while a map's destruction releases its views. */
extern pthread_mutex_t view_mutex;

/*
 * The caller holds view_mutex. Attach after map_use_begin() has succeeded for the map, so that
 * no change is under way that would miss the view.
 */
void view_attach_locked(struct hm_map *map, struct map_view *view);
/*
 * Drops view_mutex and takes it again: the function waits for a change of the map, and so is not
 * for callbacks (view_defer()). True: detached, the caller must free the view. False: the map is
 * going away, and the view's release hook is called as soon as view_mutex is free: look again.
 */
bool view_detach_locked(struct map_view *view);
/* The view of @owner with these hooks, or NULL. The caller holds a map ref. */
struct map_view *view_find(struct hm_map *map, const struct view_hooks *hooks,
			   const void *owner);

/* ---- steps that other files call ---- */

int map_refuse_range(struct hm_map *map, uint64_t offset, uint64_t length, const char *what);
/* Validates a range against the map's length; -EINVAL or -ERANGE, with a text. */
static inline int map_check_range(struct hm_map *map, uint64_t offset, uint64_t length,
				  const char *what)
{
	uint64_t end = atomic_load_explicit(&map->length, memory_order_relaxed);

	if (likely(length && offset <= end && length <= end - offset))
		return 0;
	return map_refuse_range(map, offset, length, what);
}
/* As above, with offset and length in whole pages, or up to the map's end. */
int map_check_pages(struct hm_map *map, uint64_t offset, uint64_t length, const char *what);
/* Do the rights at every byte of the range include @access? */
bool map_allows(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access);

int prot_of_access(uint32_t access);

#endif
