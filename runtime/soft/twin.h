/* SPDX-License-Identifier: MIT */
/*
 * What the steps of the twin share. The names are the module's (drivers/sim/sim.h)
 * with soft_ for sim_.
 *
 * Locks, from the outermost in:
 *
 *	soft_va.change		one bind or unbind at a time
 *	soft_buffer.change	one resize or move at a time. While one is held,
 *				others are only tried
 *	soft_device.lock	its openers and buffers: lists and slots; the turn of
 *				who calls hooks
 *	soft_buffer.lock	its pages; held for reading by pread and pwrite
 *	soft_va.lock		the page table; held for reading by engines over a
 *				burst, so that no page goes away under one
 *	soft_queue.lock
 *	soft_device.memory_lock	innermost
 *
 * The table of devices has a lock with nothing inside it. Hooks (soft.h) are called
 * with none of them, those that show something by one thread of a device at a time.
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

#define SOFT_PAGE 4096ull
#define SOFT_PAGE_SHIFT 12

#define SOFT_FEATURES                                                                     \
	((uint64_t)HETSIM_FEATURE_BUFFERS | HETSIM_FEATURE_ENGINE | HETSIM_FEATURE_MOVE | \
	 HETSIM_FEATURE_DMABUF | HETSIM_FEATURE_INJECT | HETSIM_FEATURE_SAMPLE)

/* The module's limits. */
#define SOFT_MAX_DEVICES 16
#define SOFT_MAX_BUFFERS 65536
#define SOFT_MAX_OPENER_BUFFERS (SOFT_MAX_BUFFERS / 4) /* made by one opener */
#define SOFT_MAX_BINDINGS 16384
#define SOFT_MAX_TABLES (4 * SOFT_MAX_BINDINGS) /* of an opener: 128 GiB in one piece */
#define SOFT_MAX_QUEUES 16
#define SOFT_MAX_DEVICE_QUEUES 512 /* of all openers */
#define SOFT_MAX_PENDING 2048
#define SOFT_MAX_EVENTS 1024
#define SOFT_MAX_COMMANDS 256
#define SOFT_FAILURES 256
#define SOFT_TIMEOUT_MS 2000

#define SOFT_N_PLACES 3

/* In the order of struct hetsim_counters. */
enum soft_counter {
	SOFT_FAULTS,
	SOFT_FAULT_PAGES,
	SOFT_FAULTS_BY_ORDER,
	SOFT_FAULTS_REFUSED = SOFT_FAULTS_BY_ORDER + 10,
	SOFT_BYTES_READ,
	SOFT_BYTES_WRITTEN,
	SOFT_SUBMISSIONS,
	SOFT_COMMANDS,
	SOFT_BYTES_ENGINE,
	SOFT_TLB_HITS,
	SOFT_TLB_MISSES,
	SOFT_DEVICE_FAULTS,
	SOFT_RESETS,
	SOFT_MOVES,
	SOFT_BYTES_MOVED,
	SOFT_EVICTIONS,
	SOFT_BRACKETS,
	SOFT_BRACKETS_MISSED,
	SOFT_FAULTS_HUGE, /* none: the kernel fills its maps */
	SOFT_ENGINE_NS,
	SOFT_N_COUNTERS
};

struct soft_counters {
	_Atomic uint64_t value[SOFT_N_COUNTERS];
};

struct soft_kind {
	const char *name;
	uint64_t granule_min;
	uint64_t granule_max;
	uint64_t dma_align;
	uint64_t max_segment;
};

struct soft_buffer;
struct soft_queue;
struct soft_sample;

/* Where the member's bytes end. */
#define END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

struct soft_device {
	_Atomic uint32_t refs; /* the table, openers, buffers */
	_Atomic bool gone;     /* never false again */
	_Atomic uint64_t n_resets;
	_Atomic uint32_t n_queues; /* of all openers */
	uint32_t index;
	enum hetsim_kind kind;
	struct soft_counters counters;

	pthread_mutex_t lock;         /* protects what follows, up to hooked */
	struct cds_list_head openers; /* soft_file.link */
	struct soft_buffer **buffers; /* by slot, from 1 on; NULL: free */
	uint32_t n_slots;             /* of the array */
	uint32_t n_buffers;           /* in it */
	bool hooking;                 /* someone calls hooks: no opener goes */
	uint32_t n_visiting;          /* so many look at maps: likewise */
	pthread_cond_t hooked;        /* not so any more, or the device is gone */

	_Atomic bool hides;       /* there is a window, or a page was ever hurt */
	_Atomic uint64_t changed; /* times that CPUs came to find another thing */
	_Atomic uint64_t shown;   /* those of them that all maps show */

	uint64_t window_pages;        /* of the space of offsets, for one buffer */
	uint64_t opener_pages;        /* what one opener may take in all */
	uint64_t opener_system_pages; /* and ask for of SYSTEM */
	_Atomic uint64_t uses;

	pthread_mutex_t memory_lock; /* protects pages_used, soft_account.pages_used */
	uint64_t pages_limit[SOFT_N_PLACES];
	uint64_t pages_used[SOFT_N_PLACES];
};

/* What an opener holds and did: buffers may outlive the open file. */
struct soft_account {
	_Atomic uint32_t refs;
	_Atomic uint32_t n_buffers; /* that it made and are not gone */
	_Atomic bool closed;        /* the open file is gone; never false again */
	_Atomic int64_t enomem;     /* injected: so many from now */
	_Atomic int64_t eintr;
	uint64_t pages_used[SOFT_N_PLACES];
	struct soft_counters counters;
};

struct soft_binding;

/* A page of a buffer as the engine reaches it. */
struct soft_entry {
	char *page; /* in soft_buffer.bytes; NULL: not bound */
	struct soft_binding *binding;
};

#define SOFT_LEVELS 4
#define SOFT_LEVEL_BITS 9
#define SOFT_LEVEL_ENTRIES (1u << SOFT_LEVEL_BITS)

struct soft_va {
	pthread_mutex_t change;        /* protects bindings */
	struct cds_list_head bindings; /* soft_binding.link, by start */
	uint32_t n_bindings;

	pthread_rwlock_t lock; /* protects the tables and what follows */
	void **root;           /* three levels of tables, then soft_entry[512] */
	uint32_t n_tables;     /* but for the root */
	_Atomic uint64_t generation;

	pthread_mutex_t changed_lock; /* for the condition only */
	pthread_cond_t changed;       /* CLOCK_MONOTONIC: generation, gone, resets */
};

struct soft_binding {
	struct cds_list_head link;        /* in soft_va.bindings */
	struct cds_list_head buffer_link; /* in soft_buffer.bindings */
	struct soft_va *va;
	struct soft_buffer *buffer; /* with a reference */
	uint64_t start, n_pages;    /* pages of the address space */
	uint64_t first;             /* page of the buffer */
	bool write;
};

#define SOFT_TLB_ENTRIES 64

struct soft_tlb {
	uint64_t generation;
	uint64_t hits, misses;
	struct {
		uint64_t page;
		struct soft_entry entry;
	} slot[SOFT_TLB_ENTRIES];
};

struct soft_file {
	struct soft_device *dev;
	struct soft_account *account;
	const struct soft_hooks *hooks;
	void *user;
	int flags;                 /* of open */
	struct cds_list_head link; /* in soft_device.openers */
	_Atomic bool accepted;
	_Atomic bool zero_when_lost;
	bool *handles;      /* by slot: it is this file's; under dev->lock */
	uint32_t n_handles; /* of the array */
	struct soft_va va;
	pthread_mutex_t queues_lock;                    /* protects the below */
	struct soft_queue *queues[SOFT_MAX_QUEUES + 1]; /* by number, from 1 on */
};

struct soft_buffer {
	_Atomic uint32_t refs; /* handles, bindings, calls under way */
	struct soft_device *dev;
	struct soft_account *account; /* of who made it */
	uint32_t slot;
	uint32_t cache;
	_Atomic uint32_t place; /* where further pages go */
	_Atomic uint64_t n_evictions;
	_Atomic uint64_t last_use;
	int fd;      /* memfd of n_pages, unsealed */
	int fd_read; /* the same, not to be written; -1: none needed it yet */
	dev_t file_dev;
	ino_t file_ino;

	pthread_mutex_t change; /* protects fd_read, too */

	pthread_rwlock_t lock; /* protects what follows */
	uint64_t n_pages;      /* as the next four, written with both held */
	uint64_t capacity;     /* pages that there is room for */
	char *bytes;           /* the twin's own map of them */
	uint64_t pages_in[SOFT_N_PLACES];
	uint8_t *place_of;             /* enum hetsim_place of each page */
	struct cds_list_head bindings; /* soft_binding.buffer_link */
	bool exported;                 /* never false again */
	uint64_t sigbus, poison;       /* injected: a page, SOFT_NO_PAGE */
	struct soft_sample *sample;    /* NULL: not sampled; written with both held */

	_Atomic bool unshown; /* CPUs find another thing, and some map may not show it */
};

#define SOFT_NO_PAGE UINT64_MAX

static inline void soft_count_add(struct soft_device *dev, struct soft_account *account,
				  enum soft_counter counter, uint64_t n)
{
	atomic_fetch_add_explicit(&dev->counters.value[counter], n, memory_order_relaxed);
	atomic_fetch_add_explicit(&account->counters.value[counter], n, memory_order_relaxed);
}

static inline void soft_buffer_used(struct soft_buffer *buffer)
{
	uint64_t now = atomic_load_explicit(&buffer->dev->uses, memory_order_relaxed);

	/* It was the last one, too: asked for each page that the engine uses. */
	if (now && atomic_load_explicit(&buffer->last_use, memory_order_relaxed) == now)
		return;
	now = atomic_fetch_add_explicit(&buffer->dev->uses, 1, memory_order_relaxed);
	atomic_store_explicit(&buffer->last_use, now + 1, memory_order_relaxed);
}

/* Readers that come one after the other do not keep a change out for ever. */
static inline void soft_rwlock_init(pthread_rwlock_t *lock)
{
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(lock, &attr);
	pthread_rwlockattr_destroy(&attr);
}

/* ---- soft_device.c: settings, devices; soft_file.c; soft_ioctl.c: the table ---- */

extern const struct soft_kind soft_kinds[];
extern bool soft_test; /* HETMAP_SOFT has test=1 */
/* 0, -EPROTO, -ENODEV: what every call begins with. */
int soft_file_check(struct soft_file *file);
/* With a reference. The text is set. */
int soft_device_get(uint32_t index, struct soft_device **ret_dev);
void soft_device_put(struct soft_device *dev);
void soft_account_put(struct soft_account *account);
/* Takes the device out of the table: no more opens. -ENODEV: it was not in it. */
int soft_device_take(struct soft_device *dev);

/* ---- soft_memory.c: accounts, limits, eviction, moves ---- */

/* What a call found no room for. */
struct soft_lack {
	uint32_t place;
	uint64_t n_pages; /* 0: nothing that others could make room for */
	unsigned int tries;
};

/*
 * Counts pages of @buffer in @place; @leaving: by place, instead of how many pages of the
 * buffer, which are soon to go; NULL: of none; @evict: to make room for others, who do not
 * meet what the maker has injected. @lack: {} at first; -ENOSPC leaves there what is
 * missing, for soft_memory_make_room(), after which the same call is made again. -ENOSPC,
 * -ENOMEM, -EINTR.
 */
int soft_memory_take(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages,
		     const uint64_t *leaving, bool evict, struct soft_lack *lack);
/*
 * Evicts others than @buffer: 0 when there is reason to try again, else -ENOSPC. The caller
 * holds no buffer's change, as those of others are waited for.
 */
int soft_memory_make_room(struct soft_buffer *buffer, struct soft_lack *lack);
void soft_memory_give(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages);
/* To system memory. -ENOSPC: a part went at most. */
int soft_evict_part(struct soft_buffer *buffer, uint64_t n_pages);
int soft_buffer_move(struct soft_file *file, void *argument);

/* Where there is a window, CPUs reach VRAM in it only. */
static inline bool soft_page_reachable(const struct soft_buffer *buffer, uint64_t index)
{
	return buffer->place_of[index] != HETSIM_PLACE_VRAM ||
	       !buffer->dev->pages_limit[HETSIM_PLACE_WINDOW];
}

/* ---- soft_pages.c ---- */

static inline uint64_t soft_max_pages(const struct soft_device *dev)
{
	return max_u64(dev->pages_limit[HETSIM_PLACE_VRAM],
		       dev->pages_limit[HETSIM_PLACE_SYSTEM]);
}

static inline uint64_t soft_slot_offset(const struct soft_device *dev, uint32_t slot)
{
	return (slot * dev->window_pages) << SOFT_PAGE_SHIFT;
}

/* The memfd of buffer->n_pages and the map of buffer->capacity. */
int soft_pages_make(struct soft_buffer *buffer);
void soft_pages_free(struct soft_buffer *buffer);
/* With buffer->change held. Nothing is changed when they fail. */
int soft_pages_grow(struct soft_buffer *buffer, uint64_t n_pages, struct soft_lack *lack);
int soft_pages_shrink(struct soft_buffer *buffer, uint64_t n_pages);
/* Away from whoever can reach them by the twin, then for everybody. */
void soft_pages_detach(struct soft_buffer *buffer);
void soft_pages_drop(struct soft_buffer *buffer);
/* -ENOMEM, -EMFILE, -EOPNOTSUPP: a descriptor that can't write. */
int soft_pages_reader(struct soft_buffer *buffer);

/* ---- soft_handle.c ---- */

/* With a reference; NULL: no such handle of this file. */
struct soft_buffer *soft_buffer_get(struct soft_file *file, uint32_t handle);
/* Which buffer of @file the byte @offset of the device is in, with a reference. */
struct soft_buffer *soft_buffer_at(struct soft_file *file, uint64_t offset,
				   uint64_t *ret_position);
/* The first buffer from slot *@slot on, with a reference, and its slot; NULL. */
struct soft_buffer *soft_buffer_next(struct soft_device *dev, uint32_t *slot);
void soft_buffers_each(struct soft_device *dev, void (*run)(struct soft_buffer *buffer));
/*
 * Gives @buffer a slot, and @file its handle, with the caller's reference: from then
 * on another thread may close it. -ENODEV, -ENOSPC, -ENOMEM.
 */
int soft_buffer_publish(struct soft_file *file, struct soft_buffer *buffer,
			uint32_t *ret_handle);
void soft_slot_free(struct soft_buffer *buffer);
/* Gives @file a handle of @buffer, with a reference of its own. */
int soft_handle_add(struct soft_file *file, struct soft_buffer *buffer);
/* Closes it: the reference is the caller's. NULL: no such handle. */
struct soft_buffer *soft_handle_take(struct soft_file *file, uint32_t handle);
void soft_buffers_close(struct soft_file *file);

/* ---- soft_buffer.c ---- */

void soft_buffer_put(struct soft_buffer *buffer);
int soft_buffer_create(struct soft_file *file, void *argument);
int soft_buffer_close(struct soft_file *file, void *argument);
int soft_buffer_when_lost(struct soft_file *file, void *argument);
int soft_buffer_resize(struct soft_file *file, void *argument);
int soft_buffer_info(struct soft_file *file, void *argument);

/* ---- soft_share.c ---- */

int soft_buffer_export(struct soft_file *file, void *argument);
int soft_buffer_import(struct soft_file *file, void *argument);

/* ---- soft_show.c ---- */

/* The turn of calling hooks: while one has it, openers stay. */
void soft_hooks_begin(struct soft_device *dev);
void soft_hooks_end(struct soft_device *dev);
/* CPUs find another thing in @buffer from now on: soft_show() is to follow. */
void soft_changed(struct soft_buffer *buffer);
/*
 * With no lock of the twin's: when it returns, all maps show what this thread has
 * changed, unless the device is gone.
 */
void soft_show(struct soft_device *dev);

/*
 * hooks.maps of all who have a handle of @buffer: whoever waits for what @visit has to
 * have may be in soft_show() meanwhile. -ENODEV, or @visit's.
 */
int soft_visit_maps(struct soft_buffer *buffer, soft_visit *visit, void *context);

/* ---- soft_sample.c ---- */

int soft_buffer_sample(struct soft_file *file, void *argument);
/* With buffer->change held: also before a buffer changes its length. */
void soft_sample_stop(struct soft_buffer *buffer);

/* ---- soft_lost.c, soft_inject.c ---- */

/*
 * Unplugs: gone, engines wake and end what they have with -ENODEV, the hooks of
 * those who asked for zeros are called, every page goes.
 */
int soft_device_lose(struct soft_device *dev);
int soft_inject(struct soft_file *file, void *argument);
/* Counts down; true once, when it comes to its end. */
bool soft_inject_due(_Atomic int64_t *countdown);
/* True as many times as was asked for. */
bool soft_inject_take(_Atomic int64_t *count);

/* ---- soft_va.c ---- */

int soft_va_init(struct soft_va *va);
void soft_va_destroy(struct soft_va *va);
/* Bound pages from @first on are others now, or none. With buffer->lock written. */
void soft_va_rebind(struct soft_buffer *buffer, uint64_t first, uint64_t n_pages);
/* With va->lock read, kept as long as the page is used. -EFAULT. */
int soft_va_translate(struct soft_va *va, struct soft_tlb *tlb, uint64_t address, bool write,
		      char **ret_page);
int soft_bind(struct soft_file *file, void *argument);
int soft_unbind(struct soft_file *file, void *argument);

/* ---- soft_queue.c, soft_engine.c, soft_command.c, soft_wait.c ---- */

void soft_queues_destroy(struct soft_file *file);
/* The queue @id of the file, kept by soft_queue_put; NULL. */
struct soft_queue *soft_queue_get(struct soft_file *file, uint32_t id);
void soft_queue_put(struct soft_queue *queue);
/* HETSIM_INJECT_LATENCY, _STUCK, _LOST_INTERRUPT on a queue. -ENOENT. */
int soft_queue_inject(struct soft_file *file, const struct hetsim_inject *inject);
/* Whoever waits or sleeps looks again: the device is gone, or was reset. */
void soft_engines_wake(struct soft_device *dev);
uint32_t soft_queues_alive(struct soft_device *dev);
int soft_queue_create(struct soft_file *file, void *argument);
int soft_queue_destroy(struct soft_file *file, void *argument);
int soft_submit(struct soft_file *file, void *argument);
int soft_wait(struct soft_file *file, void *argument);
int soft_fence_fd(struct soft_file *file, void *argument);
int soft_queue_event(struct soft_file *file, void *argument);

#endif
