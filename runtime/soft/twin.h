/* SPDX-License-Identifier: MIT */
/*
 * Structures and functions that the files of the twin share. Names are the module's
 * (drivers/sim/sim.h) with soft_ for sim_; names with sim_ are of the model, which the two have in
 * common (drivers/sim/model/model.h).
 *
 * Locks, outermost first:
 *
 *     soft_va.change           one bind or unbind at a time
 *     soft_buffer.change       one resize or move at a time. While one is held, further ones
 *                              are only tried
 *     soft_device.lock         its openers and buffers: lists and slots; the turn of calling
 *                              hooks
 *     soft_buffer.lock         its pages; held for reading by pread and pwrite
 *     soft_device.uses_lock    the fences of buffers, while a job that names some gets its number
 *     soft_va.lock             the page table; held for reading by engines over a burst, so
 *                              that no page goes away under one
 *     soft_queue.lock
 *     soft_device.memory_lock  innermost
 *
 * The table of devices has a lock that is a leaf, and so has that of mapped timelines. Hooks
 * (soft.h) are called with none of these locks held; those that show something, by one thread of a
 * device at a time.
 */
#ifndef HETMAP_RUNTIME_TWIN_H
#define HETMAP_RUNTIME_TWIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <urcu/list.h>

#include "soft/soft.h"

#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"
#include "model/model.h"

struct soft_counters {
	_Atomic uint64_t value[SIM_N_COUNTERS];
};

struct soft_buffer;
struct soft_queue;
struct soft_sample;

struct soft_device {
	_Atomic uint32_t refs; /* held by the table, openers, buffers */
	_Atomic bool gone;     /* never false again */
	_Atomic uint64_t n_resets;
	_Atomic uint32_t n_queues; /* for all openers together */
	uint32_t index;
	enum hetsim_kind kind;
	struct soft_counters counters;

	pthread_mutex_t lock;         /* protects the fields below, up to hooked */
	struct cds_list_head openers; /* soft_file.link */
	struct cds_list_head waits;   /* of threads, for timelines and fences (sync.c) */
	struct soft_buffer **buffers; /* by slot, from 1 on; NULL: free */
	uint32_t n_slots;             /* size of the array */
	uint32_t n_buffers;           /* number of buffers in it */
	bool hooking;                 /* a thread calls hooks: no opener leaves */
	uint32_t n_visiting;          /* threads that look at maps: likewise */
	pthread_cond_t hooked;        /* hooking or visiting ended, or the device is gone */

	_Atomic bool hides;       /* there is a window, or a page was ever harmed */
	_Atomic uint64_t changed; /* number of changes of CPUs' view */
	_Atomic uint64_t shown;   /* changes that all maps show */

	pthread_mutex_t uses_lock; /* protects soft_buffer.fences of all its buffers */

	uint64_t window_pages; /* of the space of offsets, for one buffer */
	_Atomic uint64_t uses;

	pthread_mutex_t memory_lock; /* protects memory.used, soft_account.pages_used */
	struct sim_memory memory;
};

/* Pages and counters of an opener: buffers may outlive the open file. */
struct soft_account {
	_Atomic uint32_t refs;
	_Atomic uint32_t n_buffers; /* live buffers that it made */
	_Atomic bool closed;        /* the open file is gone; never false again */
	_Atomic int64_t enomem;     /* injected: countdown to the call that fails */
	_Atomic int64_t eintr;
	uint64_t pages_used[SIM_N_PLACES];
	struct soft_counters counters;
};

struct soft_binding;

/* A page of a buffer, as the engine reaches it. */
struct soft_entry {
	char *page; /* in soft_buffer.bytes; NULL: not bound */
	struct soft_binding *binding;
};

struct soft_va {
	pthread_mutex_t change;        /* protects bindings */
	struct cds_list_head bindings; /* soft_binding.link, by start */
	uint32_t n_bindings;

	pthread_rwlock_t lock; /* protects the tables and the fields below */
	void **root;           /* three levels of tables, then soft_entry[512] */
	uint32_t n_tables;     /* without the root */
	_Atomic uint64_t generation;

	pthread_mutex_t changed_lock; /* for the condition only */
	pthread_cond_t changed;       /* CLOCK_MONOTONIC: generation, gone, resets */
};

struct soft_binding {
	struct cds_list_head link;        /* in soft_va.bindings */
	struct cds_list_head buffer_link; /* in soft_buffer.bindings */
	struct soft_va *va;
	struct soft_buffer *buffer; /* with a reference */
	struct sim_span span;       /* of the address space */
	uint64_t first;             /* page of the buffer */
	bool write;
	bool by_maker; /* the opener has made the buffer */
};

struct soft_tlb {
	uint64_t generation;
	uint64_t hits, misses;
	struct {
		uint64_t page;
		struct soft_entry entry;
	} slot[SIM_TLB_ENTRIES];
};

struct soft_mirror;

struct soft_file {
	struct soft_device *dev;
	struct soft_account *account;
	const struct soft_hooks *hooks;
	void *user;
	int flags;                 /* of the open */
	struct cds_list_head link; /* in soft_device.openers */
	_Atomic bool accepted;
	_Atomic bool zero_when_lost;
	bool *handles;      /* by slot: the file has that handle; under dev->lock */
	uint32_t n_handles; /* size of the array */
	struct soft_va va;
	_Atomic(struct soft_mirror *) mirror;          /* NULL: not asked for yet */
	pthread_mutex_t queues_lock;                   /* protects the fields below */
	struct soft_queue *queues[SIM_MAX_QUEUES + 1]; /* by number, from 1 on */
};

struct soft_buffer {
	_Atomic uint32_t refs; /* handles, bindings, calls under way */
	struct soft_device *dev;
	struct soft_account *account; /* of the maker */
	uint32_t slot;
	uint32_t cache;
	_Atomic uint32_t place; /* of further pages */
	_Atomic uint64_t n_evictions;
	_Atomic uint64_t last_use;
	int fd;      /* memfd of n_pages, unsealed */
	int fd_read; /* the same without write access; -1: not needed yet */
	dev_t file_dev;
	ino_t file_ino;

	pthread_mutex_t change; /* protects fd_read, too */

	pthread_rwlock_t lock; /* protects the fields below */
	uint64_t n_pages;      /* this and the next four: written with both locks held */
	uint64_t capacity;     /* pages that there is room for */
	char *bytes;           /* the twin's own map of them */
	uint64_t pages_in[SIM_N_PLACES];
	uint8_t *place_of;             /* enum hetsim_place of each page */
	struct cds_list_head bindings; /* soft_binding.buffer_link */
	uint32_t n_bindings[2];        /* by soft_binding.by_maker */
	bool exported;                 /* never false again */
	uint64_t sigbus, poison;       /* injected: a page, SOFT_NO_PAGE */
	struct soft_sample *sample;    /* NULL: not sampled; written with both held */

	struct cds_list_head fences; /* soft_fence.link (uses.c) */

	_Atomic bool unshown; /* CPUs' view changed, and some map may not show it */
};

#define SOFT_NO_PAGE UINT64_MAX

static inline void soft_count_add(struct soft_device *dev, struct soft_account *account,
				  enum sim_counter counter, uint64_t n)
{
	atomic_fetch_add_explicit(&dev->counters.value[counter], n, memory_order_relaxed);
	atomic_fetch_add_explicit(&account->counters.value[counter], n, memory_order_relaxed);
}

static inline void soft_buffer_used(struct soft_buffer *buffer)
{
	uint64_t now = atomic_load_explicit(&buffer->dev->uses, memory_order_relaxed);

	/* The buffer was the last one used: saves a write for each page that the engine uses. */
	if (now && atomic_load_explicit(&buffer->last_use, memory_order_relaxed) == now)
		return;
	now = atomic_fetch_add_explicit(&buffer->dev->uses, 1, memory_order_relaxed);
	atomic_store_explicit(&buffer->last_use, now + 1, memory_order_relaxed);
}

/* Prefers writers, so that a stream of readers can't keep a change out for ever. */
static inline void soft_rwlock_init(pthread_rwlock_t *lock)
{
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(lock, &attr);
	pthread_rwlockattr_destroy(&attr);
}

/* A function for each call: soft_handshake(), soft_query() and so on. */
#define HETSIM_CALL(NAME, name, last) int soft_##name(struct soft_file *file, void *argument);
#include "model/calls.h"

/* ---- device.c: settings, devices; file.c ---- */

extern bool soft_test; /* HETMAP_SOFT has test=1 */
/* Time that each device fault on memory of the process takes more: HETMAP_SOFT has fault_us=N. */
extern uint64_t soft_fault_ns;
/* 0, -EPROTO, -ENODEV: every call must begin with this check. */
int soft_file_check(struct soft_file *file);
/* Returns a reference. Sets the text on failure. */
int soft_device_get(uint32_t index, struct soft_device **ret_dev);
void soft_device_put(struct soft_device *dev);
void soft_account_put(struct soft_account *account);
/* Takes the device out of the table: no more opens. -ENODEV: it was not in it. */
int soft_device_take(struct soft_device *dev);

/* ---- memory.c: accounts, limits, eviction, moves ---- */

/*
 * Counts pages of @buffer in @place. @leaving: pages of the buffer, by place, that the new ones
 * replace and that leave soon; NULL: none. @evict: the call makes room for another buffer, and
 * does not meet the maker's injected failures. @lack: {} at first; -ENOSPC leaves the missing
 * pages there for soft_memory_make_room(), after which the caller must make the same call again.
 * -ENOSPC, -ENOMEM, -EINTR.
 */
int soft_memory_take(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages,
		     const uint64_t *leaving, bool evict, struct sim_lack *lack);
/*
 * Evicts pages of other buffers than @buffer: 0 when another try is worthwhile, -ENOSPC if not.
 * The caller holds no buffer's change, since this waits for those of other buffers.
 */
int soft_memory_make_room(struct soft_buffer *buffer, struct sim_lack *lack);
void soft_memory_give(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages);
/*
 * mirror_place.c: pages of processes leave VRAM, if there are any. The caller holds no lock.
 * Returns their number.
 */
uint64_t soft_place_make_room(struct soft_device *dev, uint64_t n_pages);
/* Moves pages to system memory. -ENOSPC: at most a part went. */
int soft_evict_part(struct soft_buffer *buffer, uint64_t n_pages);

static inline bool soft_page_reachable(const struct soft_buffer *buffer, uint64_t index)
{
	return sim_memory_reachable(&buffer->dev->memory, buffer->place_of[index]);
}

/* ---- pages.c ---- */

static inline uint64_t soft_slot_offset(const struct soft_device *dev, uint32_t slot)
{
	return (slot * dev->window_pages) << SIM_PAGE_SHIFT;
}

/* Makes the memfd of buffer->n_pages and the map of buffer->capacity. */
int soft_pages_make(struct soft_buffer *buffer);
void soft_pages_free(struct soft_buffer *buffer);
/* The caller holds buffer->change. On failure nothing is changed. */
int soft_pages_grow(struct soft_buffer *buffer, uint64_t n_pages, struct sim_lack *lack);
int soft_pages_shrink(struct soft_buffer *buffer, uint64_t n_pages);
/* Takes the pages from users of the twin, then, with drop, from all maps. */
void soft_pages_detach(struct soft_buffer *buffer);
void soft_pages_drop(struct soft_buffer *buffer);
/* Opens a descriptor that can't write. -ENOMEM, -EMFILE, -EOPNOTSUPP. */
int soft_pages_reader(struct soft_buffer *buffer);

/* ---- handle.c ---- */

/* Returns a reference; NULL: the file has no such handle. */
struct soft_buffer *soft_buffer_get(struct soft_file *file, uint32_t handle);
/* Finds the buffer of @file with the byte @offset of the device; returns a reference. */
struct soft_buffer *soft_buffer_at(struct soft_file *file, uint64_t offset,
				   uint64_t *ret_position);
/* Returns the first buffer from slot *@slot on, with a reference, and its slot; NULL. */
struct soft_buffer *soft_buffer_next(struct soft_device *dev, uint32_t *slot);
void soft_buffers_each(struct soft_device *dev, void (*run)(struct soft_buffer *buffer));
/*
 * Gives @buffer a slot, and @file its handle, with the caller's reference: from then on another
 * thread may close it. -ENODEV, -ENOSPC, -ENOMEM.
 */
int soft_buffer_publish(struct soft_file *file, struct soft_buffer *buffer,
			uint32_t *ret_handle);
void soft_slot_free(struct soft_buffer *buffer);
/* Gives @file a handle of @buffer, with a reference of its own. */
int soft_handle_add(struct soft_file *file, struct soft_buffer *buffer);
/* Closes the handle and gives its reference to the caller. NULL: no such handle. */
struct soft_buffer *soft_handle_take(struct soft_file *file, uint32_t handle);
void soft_buffers_close(struct soft_file *file);

/* ---- uses.c ---- */

/* The buffer is being freed. */
void soft_fences_free(struct soft_buffer *buffer);

/* ---- buffer.c ---- */

void soft_buffer_put(struct soft_buffer *buffer);

/* ---- show.c ---- */

/* Takes the turn of calling hooks: while a thread has it, openers stay. */
void soft_hooks_begin(struct soft_device *dev);
void soft_hooks_end(struct soft_device *dev);
/* Marks a change of CPUs' view of @buffer: the caller must call soft_show() later. */
void soft_changed(struct soft_buffer *buffer);
/*
 * The caller holds no lock of the twin. When it returns, all maps show this thread's changes,
 * unless the device is gone.
 */
void soft_show(struct soft_device *dev);

/*
 * Calls hooks.maps of all files with a handle of @buffer. Does not take the turn: a thread in
 * soft_show() may wait for locks that @visit needs. -ENODEV, or the result of @visit.
 */
int soft_visit_maps(struct soft_buffer *buffer, soft_visit *visit, void *context);

/* ---- sample.c ---- */

/* The caller holds buffer->change. Also called before a buffer changes its length. */
void soft_sample_stop(struct soft_buffer *buffer);

/* ---- lost.c, inject.c ---- */

/*
 * Unplugs the device: marks it gone, wakes engines to end their submissions with -ENODEV, calls
 * the hooks of files that asked for zeros, frees every page.
 */
int soft_device_lose(struct soft_device *dev);
/* Counts down; true once, when the count ends. */
bool soft_inject_due(_Atomic int64_t *countdown);
/* True as many times as requested. */
bool soft_inject_take(_Atomic int64_t *count);

/* ---- va.c ---- */

int soft_va_init(struct soft_va *va);
void soft_va_destroy(struct soft_va *va);
/*
 * Writes the entries of bound pages from @first on, which have moved or gone. The caller holds
 * buffer->lock for writing.
 */
void soft_va_rebind(struct soft_buffer *buffer, uint64_t first, uint64_t n_pages);
/*
 * The caller holds va->lock for reading, as long as it uses the page. -ENOENT: nothing is bound
 * there; -EFAULT: not for writing.
 */
int soft_va_translate(struct soft_va *va, struct soft_tlb *tlb, uint64_t address, bool write,
		      char **ret_page);

/* ---- queue.c, engine.c, command.c, wait.c ---- */

void soft_queues_destroy(struct soft_file *file);
/* Finds the queue @id of the file; the caller must call soft_queue_put(). NULL. */
struct soft_queue *soft_queue_get(struct soft_file *file, uint32_t id);
void soft_queue_put(struct soft_queue *queue);
/* Injects HETSIM_INJECT_LATENCY, _STUCK or _LOST_INTERRUPT into a queue. -ENOENT. */
int soft_queue_inject(struct soft_file *file, const struct hetsim_inject *inject);
/* Makes waiters and sleepers look again: the device is gone, or was reset. */
void soft_engines_wake(struct soft_device *dev);
/* timeline.c: held across fork(2). */
void soft_timelines_lock(void);
void soft_timelines_unlock(void);
uint32_t soft_queues_alive(struct soft_device *dev);

#endif
