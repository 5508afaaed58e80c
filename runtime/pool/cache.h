/* SPDX-License-Identifier: MIT */
/* A thread's cache of one pool: cache.c. The short ways, which most calls take, are inline. */
#ifndef HETMAP_POOL_CACHE_H
#define HETMAP_POOL_CACHE_H

#include "pool/pool.h"

/* Bytes of all objects in a cache. Beyond that all of them go back. */
#define CACHE_MOST MIB(2)
/* The pool learns of changes of a thread's live bytes in steps of more than this. */
#define CACHE_REPORT ((int64_t)MIB(1))
/* Caches of a thread that are found at once. */
#define CACHE_SLOTS 8u

struct pool_cache {
	/* The lock of the fields up to link. */
	_Atomic uint32_t inside;  /* the thread is */
	_Atomic uint32_t stopped; /* another one is, and has cache_mutex */
	int tid;
	bool fences; /* the thread makes its own barriers; constant */
	uint32_t fork_gen;
	_Atomic(struct hm_pool *) pool; /* NULL: it has ended. Cleared under cache_mutex */
	uint64_t serial;                /* the pool's; constant */
	struct pool_counts counts;
	int64_t unreported; /* bytes of counts.live that the pool does not know */
	uint64_t bytes;     /* of all objects here */
	uint32_t n[POOL_N_CLASS];
	struct cds_list_head link; /* pool->caches; cache_mutex */
	struct pool_cache *next;   /* of the thread */
	struct pool_entry entry[]; /* from pool_class.first on for each class */
};

extern _Thread_local struct pool_cache *cache_slots[CACHE_SLOTS];

/* Must come before the first cache of the process. */
void cache_prepare(void);

struct pool_cache *cache_find(struct hm_pool *pool);
/* The calling thread's; NULL: there is no memory for one, or the pool is closed. */
static inline struct pool_cache *cache_get(struct hm_pool *pool)
{
	struct pool_cache *cache = cache_slots[pool->serial % CACHE_SLOTS];

	return likely(cache && cache->serial == pool->serial) ? cache : cache_find(pool);
}

/* ---- for the cache's own thread ---- */

void cache_wait_outside(struct pool_cache *cache);

static inline void cache_enter(struct pool_cache *cache)
{
	if (unlikely(cache->fences))
		atomic_store(&cache->inside, 1);
	else
		atomic_store_explicit(&cache->inside, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (unlikely(atomic_load(&cache->stopped)))
		cache_wait_outside(cache);
}

static inline void cache_leave(struct pool_cache *cache)
{
	atomic_store_explicit(&cache->inside, 0, memory_order_release);
}

static inline struct pool_entry *cache_entries(struct pool_cache *cache, struct hm_pool *pool,
					       unsigned int class)
{
	return &cache->entry[pool->class[class].first];
}

void cache_report(struct pool_cache *cache, struct hm_pool *pool);

static inline void cache_count(struct pool_cache *cache, struct hm_pool *pool, int64_t bytes)
{
	cache->unreported += bytes;
	if (unlikely(cache->unreported > CACHE_REPORT || cache->unreported < -CACHE_REPORT))
		cache_report(cache, pool);
}

/* Inside, with an object of the class in the cache. */
static inline void cache_pop(struct pool_cache *cache, struct hm_pool *pool, unsigned int class,
			     uint64_t bytes, struct pool_entry *ret_entry)
{
	*ret_entry = cache_entries(cache, pool, class)[--cache->n[class]];
	cache->bytes -= pool->class[class].size;
	cache->counts.allocated++;
	cache_count(cache, pool, (int64_t)bytes);
}

/* Inside, with room for one more. */
static inline void cache_push(struct pool_cache *cache, struct hm_pool *pool,
			      const struct pool_place *place, uint64_t bytes)
{
	unsigned int class = place->span->class;

	cache_entries(cache, pool, class)[cache->n[class]++] = (struct pool_entry){
		.address = (char *)(uintptr_t)place->base,
		.tag = &place->span->tag[place->index],
	};
	cache->bytes += pool->class[class].size;
	cache->counts.freed++;
	cache_count(cache, pool, -(int64_t)bytes);
}

int cache_take_slow(struct hm_pool *pool, struct pool_cache *cache, unsigned int class,
		    uint64_t bytes, struct pool_entry *ret_entry);
/*
 * Takes an object for an allocation of @bytes. Errors as for central_take_locked(). @cache may be
 * NULL.
 */
static inline int cache_take(struct hm_pool *pool, struct pool_cache *cache, unsigned int class,
			     uint64_t bytes, struct pool_entry *ret_entry)
{
	if (likely(cache)) {
		cache_enter(cache);
		if (likely(cache->n[class])) {
			cache_pop(cache, pool, class, bytes, ret_entry);
			cache_leave(cache);
			return 0;
		}
		cache_leave(cache);
	}
	return cache_take_slow(pool, cache, class, bytes, ret_entry);
}

void cache_put_slow(struct pool_cache *cache, const struct pool_place *place, uint64_t bytes);
/*
 * Takes an object back whose tag is 0 by now, from an allocation of @bytes. @cache may be NULL.
 * No locks are held: blocks may go back to the device.
 */
static inline void cache_put(struct pool_cache *cache, const struct pool_place *place,
			     uint64_t bytes)
{
	struct hm_pool *pool = place->pool;
	unsigned int class = place->span->class;

	if (likely(cache && class < POOL_N_CLASS)) {
		cache_enter(cache);
		if (likely(!atomic_load_explicit(&pool->closed, memory_order_relaxed) &&
			   cache->n[class] < pool->class[class].cached &&
			   cache->bytes + pool->class[class].size <= CACHE_MOST)) {
			cache_push(cache, pool, place, bytes);
			cache_leave(cache);
			return;
		}
		cache_leave(cache);
	}
	cache_put_slow(cache, place, bytes);
}

/* ---- all caches of a pool: no locks are held ---- */

/* Empties the caches of all threads. */
void cache_flush_all(struct hm_pool *pool);

struct cache_sums {
	struct pool_counts counts;
	uint64_t cached; /* bytes */
	uint32_t threads;
	uint64_t in_class[POOL_N_CLASS]; /* objects in caches */
	/* The thread that allocated most bytes more than it freed. */
	int tid;
	int64_t most;
};

/*
 * Adds up the counts of all threads at one moment, and returns with the pool's lock held: what the
 * lock protects is still as it was at that moment.
 */
void cache_sum_lock(struct hm_pool *pool, struct cache_sums *ret_sums);

void cache_fork_prepare(void);
void cache_fork_after(void);

#endif
