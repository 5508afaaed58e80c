// SPDX-License-Identifier: MIT
/*
 * A thread's cache of one pool: freed objects of each class, taken last in first out. The thread
 * alone uses it, except when the pool is trimmed, short of memory or at its end: so the lock is
 * nearly always free, and costs one atomic exchange.
 *
 * A cache ends with its thread, and is of no pool any more once its pool has ended.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "pool/pool.h"

/* Bytes of all objects in a cache. Beyond that all of them go back. */
#define CACHE_MOST MIB(2)
/* The pool learns of changes of a thread's live bytes in steps of this. */
#define REPORT KIB(64)
/* Caches of a thread that are found at once. */
#define SLOTS 8u

struct pool_cache {
	_Atomic uint32_t lock; /* protects the fields up to link */
	int tid;
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

/* Outermost of the pool's locks: protects which caches pools have. */
static pthread_mutex_t cache_mutex = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local struct pool_cache *slots[SLOTS];
static _Thread_local struct pool_cache *first; /* all of the thread's */
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;

static void lock(struct pool_cache *cache)
{
	while (atomic_exchange_explicit(&cache->lock, 1, memory_order_acquire))
		sched_yield();
}

static void unlock(struct pool_cache *cache)
{
	atomic_store_explicit(&cache->lock, 0, memory_order_release);
}

/* ---- counting ---- */

static void report(struct hm_pool *pool, int64_t bytes)
{
	int64_t now =
		atomic_fetch_add_explicit(&pool->live, bytes, memory_order_relaxed) + bytes;
	int64_t peak = atomic_load_explicit(&pool->live_peak, memory_order_relaxed);

	while (now > peak && !atomic_compare_exchange_weak(&pool->live_peak, &peak, now))
		;
}

static inline void count(struct pool_counts *counts, int64_t bytes)
{
	if (bytes > 0)
		counts->allocated++;
	else
		counts->freed++;
	counts->live += bytes;
}

static inline void count_here(struct pool_cache *cache, struct hm_pool *pool, int64_t bytes)
{
	count(&cache->counts, bytes);
	cache->unreported += bytes;
	if (likely((uint64_t)(cache->unreported + (int64_t)REPORT) <= 2 * REPORT))
		return;
	report(pool, cache->unreported);
	cache->unreported = 0;
}

void pool_count_locked(struct hm_pool *pool, int64_t bytes)
{
	count(&pool->past, bytes);
	report(pool, bytes);
}

void pool_count_resized_locked(struct hm_pool *pool, int64_t bytes)
{
	pool->past.live += bytes;
	report(pool, bytes);
}

/* ---- objects ---- */

static inline struct pool_entry *entries_of(struct pool_cache *cache, struct hm_pool *pool,
					    unsigned int class)
{
	return &cache->entry[pool->class[class].first];
}

static void put_entry_locked(const struct pool_entry *entry)
{
	struct pool_span *span = pool_span_at((uintptr_t)entry->address);

	central_put_locked(span, (uint32_t)(entry->tag - span->tag));
}

/* Gives the @n oldest objects of a class back. Caller holds the cache's and the pool's lock. */
static void drain_locked(struct pool_cache *cache, struct hm_pool *pool, unsigned int class,
			 uint32_t n)
{
	struct pool_entry *entries = entries_of(cache, pool, class);
	uint32_t i;

	for (i = 0; i < n; i++)
		put_entry_locked(&entries[i]);
	cache->n[class] -= n;
	cache->bytes -= n * (uint64_t)pool->class[class].size;
	memmove(entries, entries + n, cache->n[class] * sizeof(*entries));
}

static void drain_all_locked(struct pool_cache *cache, struct hm_pool *pool)
{
	unsigned int class;

	for (class = 0; class < POOL_N_CLASS; class ++)
		if (cache->n[class])
			drain_locked(cache, pool, class, cache->n[class]);
}

/* Without a cache. */
static int take_past(struct hm_pool *pool, unsigned int class, uint64_t bytes,
		     struct pool_entry *ret_entry)
{
	uint32_t n;
	int r;

	pthread_mutex_lock(&pool->lock);
	r = central_take_locked(pool, class, 1, ret_entry, &n);
	if (!r)
		pool_count_locked(pool, (int64_t)bytes);
	pthread_mutex_unlock(&pool->lock);
	return r;
}

static int refill(struct pool_cache *cache, struct hm_pool *pool, unsigned int class)
{
	const struct pool_class *of = &pool->class[class];
	int r;

	pthread_mutex_lock(&pool->lock);
	r = central_take_locked(pool, class, (of->cached + 1) / 2,
				entries_of(cache, pool, class), &cache->n[class]);
	pthread_mutex_unlock(&pool->lock);
	cache->bytes += cache->n[class] * (uint64_t)of->size;
	return r;
}

int cache_take(struct hm_pool *pool, struct pool_cache *cache, unsigned int class,
	       uint64_t bytes, struct pool_entry *ret_entry)
{
	uint64_t size = pool->class[class].size;
	int r = 0;

	if (unlikely(!cache))
		return take_past(pool, class, bytes, ret_entry);
	lock(cache);
	if (unlikely(!cache->n[class]))
		r = refill(cache, pool, class);
	if (likely(!r)) {
		*ret_entry = entries_of(cache, pool, class)[--cache->n[class]];
		cache->bytes -= size;
		count_here(cache, pool, (int64_t)bytes);
	}
	unlock(cache);
	return r;
}

static void put_past(const struct pool_place *place, uint64_t bytes, struct cds_list_head *to)
{
	struct hm_pool *pool = place->pool;

	pthread_mutex_lock(&pool->lock);
	pool_count_locked(pool, -(int64_t)bytes);
	central_put_locked(place->span, place->index);
	block_take_surplus_locked(pool, to);
	pthread_mutex_unlock(&pool->lock);
}

/* Makes room for one more object of the class. */
static void make_room(struct pool_cache *cache, struct hm_pool *pool, unsigned int class,
		      struct cds_list_head *to)
{
	const struct pool_class *of = &pool->class[class];

	pthread_mutex_lock(&pool->lock);
	if (cache->n[class] == of->cached)
		drain_locked(cache, pool, class, (of->cached + 1) / 2);
	if (cache->bytes + of->size > CACHE_MOST)
		drain_all_locked(cache, pool);
	block_take_surplus_locked(pool, to);
	pthread_mutex_unlock(&pool->lock);
}

void cache_put(struct pool_cache *cache, const struct pool_place *place, uint64_t bytes,
	       struct cds_list_head *to)
{
	struct hm_pool *pool = place->pool;
	unsigned int class = place->span->class;
	const struct pool_class *of = &pool->class[class];

	if (unlikely(!cache || class == POOL_N_CLASS)) {
		put_past(place, bytes, to);
		return;
	}
	lock(cache);
	if (unlikely(atomic_load_explicit(&pool->closed, memory_order_relaxed))) {
		unlock(cache);
		put_past(place, bytes, to);
		return;
	}
	if (unlikely(cache->n[class] == of->cached || cache->bytes + of->size > CACHE_MOST))
		make_room(cache, pool, class, to);
	entries_of(cache, pool, class)[cache->n[class]++] = (struct pool_entry){
		.address = (char *)(uintptr_t)place->base,
		.tag = &place->span->tag[place->index],
	};
	cache->bytes += of->size;
	count_here(cache, pool, -(int64_t)bytes);
	unlock(cache);
}

/* ---- all caches of a pool ---- */

void cache_flush_all(struct hm_pool *pool)
{
	struct pool_cache *cache;

	pthread_mutex_lock(&cache_mutex);
	cds_list_for_each_entry(cache, &pool->caches, link) {
		lock(cache);
		pthread_mutex_lock(&pool->lock);
		drain_all_locked(cache, pool);
		pthread_mutex_unlock(&pool->lock);
		unlock(cache);
	}
	pthread_mutex_unlock(&cache_mutex);
}

void cache_sum(struct hm_pool *pool, struct cache_sums *ret_sums)
{
	struct pool_cache *cache;
	unsigned int class;

	memset(ret_sums, 0, sizeof(*ret_sums));
	pthread_mutex_lock(&cache_mutex);
	cds_list_for_each_entry(cache, &pool->caches, link) {
		lock(cache);
		report(pool, cache->unreported);
		cache->unreported = 0;
		ret_sums->counts.allocated += cache->counts.allocated;
		ret_sums->counts.freed += cache->counts.freed;
		ret_sums->counts.live += cache->counts.live;
		ret_sums->cached += cache->bytes;
		ret_sums->threads++;
		for (class = 0; class < POOL_N_CLASS; class ++)
			ret_sums->in_class[class] += cache->n[class];
		if (cache->counts.live > ret_sums->most) {
			ret_sums->most = cache->counts.live;
			ret_sums->tid = cache->tid;
		}
		unlock(cache);
	}
	pthread_mutex_lock(&pool->lock);
	ret_sums->counts.allocated += pool->past.allocated;
	ret_sums->counts.freed += pool->past.freed;
	ret_sums->counts.live += pool->past.live;
	pthread_mutex_unlock(&pool->lock);
	pthread_mutex_unlock(&cache_mutex);
}

void cache_leave_all(struct hm_pool *pool)
{
	struct pool_cache *cache, *next;

	pthread_mutex_lock(&cache_mutex);
	cds_list_for_each_entry_safe(cache, next, &pool->caches, link) {
		cds_list_del(&cache->link);
		atomic_store(&cache->pool, NULL);
	}
	pthread_mutex_unlock(&cache_mutex);
}

/* ---- a thread's caches ---- */

/* Gives back what the cache holds, if its pool is there. Caller holds cache_mutex. */
static void leave_locked(struct pool_cache *cache, struct cds_list_head *to)
{
	struct hm_pool *pool = atomic_load(&cache->pool);

	if (!pool || cache->fork_gen != fork_generation)
		return;
	cds_list_del(&cache->link);
	pool->n_cache--;
	report(pool, cache->unreported);
	pthread_mutex_lock(&pool->lock);
	drain_all_locked(cache, pool);
	pool->past.allocated += cache->counts.allocated;
	pool->past.freed += cache->counts.freed;
	pool->past.live += cache->counts.live;
	block_take_surplus_locked(pool, to);
	pthread_mutex_unlock(&pool->lock);
}

/* The thread ends. */
static void leave(void *unused)
{
	struct pool_cache *cache, *next, *all = first;
	CDS_LIST_HEAD(to);

	(void)unused;
	first = NULL;
	memset(slots, 0, sizeof(slots));
	pthread_mutex_lock(&cache_mutex);
	for (cache = all; cache; cache = next) {
		next = cache->next;
		leave_locked(cache, &to);
		free(cache);
	}
	pthread_mutex_unlock(&cache_mutex);
	block_release(&to);
}

static void make_key(void)
{
	key_made = !pthread_key_create(&key, leave);
}

/* Frees the thread's caches of pools that have ended, or are the parent process's. */
static void forget_ended(void)
{
	struct pool_cache *cache, **at = &first;

	while ((cache = *at)) {
		if (atomic_load(&cache->pool) && cache->fork_gen == fork_generation) {
			at = &cache->next;
			continue;
		}
		*at = cache->next;
		free(cache);
	}
	memset(slots, 0, sizeof(slots));
}

static struct pool_cache *make_cache(struct hm_pool *pool)
{
	const struct pool_class *last = &pool->class[POOL_N_CLASS - 1];
	struct pool_cache *cache;

	pthread_once(&key_once, make_key);
	forget_ended();
	cache = sys_calloc(1, sizeof(*cache) +
				      (last->first + last->cached) * sizeof(cache->entry[0]));
	if (!cache)
		return NULL;
	cache->serial = pool->serial;
	cache->fork_gen = fork_generation;
	cache->tid = gettid();
	atomic_init(&cache->pool, pool);
	cache->next = first;
	/* Without it nothing would end the cache with the thread. */
	if (!key_made || pthread_setspecific(key, &first)) {
		free(cache);
		return NULL;
	}
	first = cache;
	pthread_mutex_lock(&cache_mutex);
	cds_list_add(&cache->link, &pool->caches);
	pool->n_cache++;
	pthread_mutex_unlock(&cache_mutex);
	return cache;
}

static __attribute__((noinline)) struct pool_cache *find_cache(struct hm_pool *pool)
{
	struct pool_cache *cache;

	for (cache = first; cache; cache = cache->next)
		if (cache->serial == pool->serial)
			break;
	if (!cache && !atomic_load(&pool->closed))
		cache = make_cache(pool);
	if (cache)
		slots[pool->serial % SLOTS] = cache;
	return cache;
}

struct pool_cache *cache_get(struct hm_pool *pool)
{
	struct pool_cache *cache = slots[pool->serial % SLOTS];

	return likely(cache && cache->serial == pool->serial) ? cache : find_cache(pool);
}

void cache_fork_prepare(void)
{
	pthread_mutex_lock(&cache_mutex);
}

void cache_fork_after(void)
{
	pthread_mutex_unlock(&cache_mutex);
}
