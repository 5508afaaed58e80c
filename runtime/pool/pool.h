/* SPDX-License-Identifier: MIT */
/*
 * Pools: allocations out of few buffers. From the caller down, each step in a file of its own:
 *
 *	alloc.c    hm_pool_alloc, _realloc, _free
 *	cache.c    a thread's freed objects of each class; cache.h has its calls
 *	central.c  from classes to spans, and objects that work still uses
 *	heap.c     runs of free pages: split, joined, found by length
 *	block.c    a buffer and its map: made, and given back
 *
 * Beside these: classes.h (sizes), span.h (an object's tag), page_table.h (address to span).
 *
 * Lock order, outermost first: cache_mutex (cache.c), a cache's lock, pool->lock, span_lock().
 * No system call but that of a slab is made under them, no callback and no call of another room:
 * blocks are made and released without locks.
 *
 * A pool ends when it has no reference and no block: pool->holds counts both.
 */
#ifndef HETMAP_POOL_INTERNAL_H
#define HETMAP_POOL_INTERNAL_H

#include <pthread.h>

#include <hetmap/pool.h>

#include "core/core.h"
#include "pool/span.h"

#define POOL_NAME_MAX 48
#define POOL_BLOCK_MOST GIB(1)
#define POOL_SIZE_MOST (1ull << 46)

/* Lists of free runs: by pages up to POOL_EXACT, and then four for each doubling. */
#define POOL_EXACT 64u
#define POOL_N_BIN (POOL_EXACT + 4 * 20)

struct pool_block {
	struct cds_list_head link;        /* pool->blocks, or a list of those to release */
	struct cds_list_head global_link; /* block.c */
	struct hm_pool *pool;
	struct hm_map *map; /* holds a ref, and so does the map on the buffer */
	uint64_t base;
	uint64_t bytes;
	uint64_t used; /* bytes of spans with objects */
	bool dead;     /* stayed lost after a recovery: nothing is allocated here */
};

/* Objects of a class. */
struct pool_class {
	struct cds_list_head spans; /* pool_span.link: those with free objects */
	uint32_t size, pages, objects;
	uint32_t cached; /* a thread keeps at most so many */
	uint32_t first;  /* index of the first of them in a thread's cache */
	uint64_t out;    /* in caches and allocations, now */
};

/* Counts of a thread: its allocations and frees, and their bytes. */
struct pool_counts {
	uint64_t allocated;
	uint64_t freed;
	int64_t live; /* bytes allocated less bytes freed: by other threads, too */
};

/* An object that was freed while work used it. */
struct pool_busy {
	struct pool_span *span;
	uint32_t index;
};

struct hm_pool {
	struct hm_object object;
	_Atomic uint32_t holds; /* 1 for all references, 1 for each block */
	struct hm_device *device;
	uint64_t serial;
	uint32_t flags;
	uint32_t alignment;
	uint64_t limit;
	uint64_t page; /* the device's */
	uint64_t block_least, block_most;
	bool inherited; /* fork children have the blocks */
	bool can_go;    /* the device may be taken away */
	bool of_device; /* device.c: holds no reference on the device */
	char name[64];
	struct hm_buffer_desc block_desc; /* of a block's buffer, without its size */

	/* No more references: what is freed goes to the blocks. Set under each cache's lock. */
	_Atomic bool closed;
	_Atomic uint32_t recoveries; /* of the device, as the blocks know it */

	/* Changes by up to POOL_REPORT for each thread are not in it yet. */
	_Atomic int64_t live;
	_Atomic int64_t live_peak;

	pthread_mutex_t lock; /* protects the fields below */
	pthread_cond_t grown; /* growing has become false */
	bool growing;         /* a thread makes a block, without the lock */
	pthread_t grower;
	struct cds_list_head blocks; /* pool_block.link */
	_Atomic uint32_t n_block;    /* read without lock too */
	uint32_t n_unused;           /* blocks without an object in a cache or an allocation */
	uint64_t held, held_peak;    /* with the block that is being made */
	uint64_t out;                /* bytes of objects in caches and allocations */
	uint64_t busy_bytes;
	struct pool_busy *busy;  /* n_busy of them; there is room for busy_room */
	_Atomic uint32_t n_busy; /* read without lock too */
	uint32_t busy_room;
	bool sweeping;
	uint64_t filled[(POOL_N_BIN + 63) / 64]; /* a bit for each bin with runs */
	struct cds_list_head bin[POOL_N_BIN];    /* pool_span.link: free runs */
	struct pool_class class[POOL_N_CLASS];
	uint64_t long_out;       /* bytes of spans of one object of any length */
	struct pool_counts past; /* of ended caches, and of calls that used none */

	/* cache_mutex: */
	struct cds_list_head caches; /* pool_cache.link */
};

/* ---- block.c ---- */

/*
 * Makes a block with room for @bytes at @alignment. No locks are held. Other threads that want
 * one meanwhile wait, and try the pool again (0).
 * -EDQUOT: the limit, without a text.
 */
int pool_grow(struct hm_pool *pool, uint64_t bytes, uint64_t alignment);
/*
 * Take unused blocks off the pool and put them on the list @to, for block_release() without the
 * pool's lock: down to @keep bytes of all blocks; all but one, and all of a pool that is closed.
 */
void block_take_unused_locked(struct hm_pool *pool, uint64_t keep, struct cds_list_head *to);
void block_take_surplus_locked(struct hm_pool *pool, struct cds_list_head *to);
/*
 * Gives blocks back to the device. No locks are held. Returns their bytes. May end the pool,
 * unless the caller has a reference.
 */
uint64_t block_release(struct cds_list_head *blocks);
/* After a recovery of the device blocks that are lost serve no allocations, and others do. */
void block_look_locked(struct hm_pool *pool);
/* Ends the pool with the last hold. No locks are held. */
void pool_hold_drop(struct hm_pool *pool);
/* In a fork child: takes blocks that were not inherited out of the page table. */
void block_fork_child(void);

/* ---- heap.c: caller holds the pool's lock ---- */

void heap_init(struct hm_pool *pool);
/*
 * A span of @bytes, whole pages, of objects of @size: from the shortest run that has room.
 * -EAGAIN: no run has. -ENOMEM: no memory for the span.
 */
int heap_take(struct hm_pool *pool, uint64_t bytes, uint64_t alignment, uint64_t size,
	      uint32_t n, struct pool_span **ret_span);
/* Makes a span without allocations a free run, joined with its neighbours. */
void heap_put(struct pool_span *span);
/*
 * Changes the end of a span with one object, an allocation that gets the tag. -EAGAIN: the pages
 * behind it are not free. -ENOMEM.
 */
int heap_resize(struct pool_span *span, uint64_t bytes, uint32_t tag);
/* The whole block becomes a run; and ceases to be one, where nothing is allocated in it. */
void heap_add_block(struct pool_block *block, struct pool_span *run);
void heap_remove_block(struct pool_block *block);
/* Takes a run of a block that has become dead out of its bin, or puts it in again. */
void heap_look(struct pool_span *run);
/* Bytes of the longest run. */
uint64_t heap_largest(const struct hm_pool *pool);

/* ---- cache.c ---- */

/* The pool ends: no thread's cache is of it any more. */
void cache_leave_all(struct hm_pool *pool);
/* Counts an allocation of @bytes, or the end of one (negative), that used no cache. */
void pool_count_locked(struct hm_pool *pool, int64_t bytes);
/* Counts an allocation that has @bytes more, or (negative) less. */
void pool_count_resized_locked(struct hm_pool *pool, int64_t bytes);

/* ---- central.c ---- */

/* An object on its way: the tag makes it an allocation. */
struct pool_entry {
	char *address;
	_Atomic uint32_t *tag;
};

/*
 * Takes up to @most objects of the class, at least one. -EAGAIN: the pool must grow by the
 * class's span. -ENOMEM. Caller holds the pool's lock, as for the next three.
 */
int central_take_locked(struct hm_pool *pool, unsigned int class, uint32_t most,
			struct pool_entry *entries, uint32_t *ret_n);
/* Gives an object back to its span, and the span, once it is empty, to the heap. */
void central_put_locked(struct pool_span *span, uint32_t index);
/* Takes a span of a block that has become dead off its class, or puts it there again. */
void central_look(struct pool_span *span);
/* Notes an object that work still uses. -ENOMEM: there is no room to note it. */
int central_busy_locked(struct pool_span *span, uint32_t index);
/* After the end of all references: work keeps the maps that it uses. */
void central_forget_busy_locked(struct hm_pool *pool);
/* Looks at those objects again. No locks are held. */
void central_sweep(struct hm_pool *pool);
/* Does no work use the object any more? No locks are held. */
bool pool_is_idle(const struct pool_span *span, uint32_t index);

/* ---- alloc.c ---- */

/* Bodies of the public functions, with checked pools. @what: the public function's name. */
int pool_alloc(struct hm_pool *pool, uint64_t size, uint64_t alignment, char **ret_pointer);
/* @pool: the pool that the caller named, or NULL, as for pool_find() and pool_realloc(). */
int pool_free(struct hm_pool *pool, void *pointer, const char *what);
int pool_realloc(struct hm_pool *pool, void *pointer, uint64_t size, uint32_t flags,
		 const char *what, void *ret_pointer);
/* Finds the allocation that begins at @pointer, or refuses, with a text. */
int pool_find(struct hm_pool *pool, const void *pointer, const char *what,
	      struct pool_place *ret_place);
int pool_check_size(uint64_t size, const char *what);
/* hm_pool_create() without its door. */
int pool_create(struct hm_device *device, const struct hm_pool_desc *from,
		struct hm_pool **ret_pool);
/* Clears bytes of the object at @address, within a bracket. No locks are held. */
int pool_clear(char *address, uint64_t from, uint64_t bytes);

static inline uint32_t pool_tag(uint64_t object, uint64_t bytes)
{
	return (uint32_t)(object - bytes) + 1;
}

/* Bytes of the allocation. */
static inline uint64_t pool_length(const struct pool_place *place)
{
	return place->size - (place->tag - 1);
}

/* ---- query.c ---- */

/* -ENOSPC, with a text: who holds what. */
int pool_refuse_limit(struct hm_pool *pool, uint64_t size);
/* Brings unused memory together. True: there may be room now. No locks are held. */
bool pool_reclaim(struct hm_pool *pool);

/* ---- pool.c ---- */

/*
 * From here on each object that is freed goes to its block, and each block without objects to
 * the device.
 */
void pool_close(struct hm_pool *pool);

/* ---- device.c ---- */

/* For HM_ALLOC_POOLED: zeroed bytes of the device's own pool. */
int pool_alloc_of_device(struct hm_device *device, uint64_t size, char **ret_pointer);
/* Steps of hm_device_unref() for a device with a pool: struct device_pool_ops has them. */
bool pool_device_put(struct hm_device *device);
void pool_device_end(struct hm_device *device);
void pool_device_fork_prepare(void);
void pool_device_fork_after(void);

/* ---- find.c: for the rooms above ---- */

/* Is the address in a block of a pool? */
static inline bool pool_has(const void *pointer)
{
	return pool_span_at((uintptr_t)pointer) != NULL;
}

/*
 * Narrows what the registry found to the allocation, where the address is in a pool. -ENOENT,
 * without a text: it is there, and in no allocation. -EAGAIN: another thread resizes it. Legal in
 * a signal handler.
 */
int pool_narrow(const void *pointer, struct hm_pointer_info *info);
/* Waits for the other thread, instead of -EAGAIN. Not for signal handlers. */
int pool_narrow_wait(const void *pointer, struct hm_pointer_info *info);

void pool_fork_prepare(void);
void pool_fork_after(void);
void pool_fork_child(void);

#endif
