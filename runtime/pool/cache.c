// SPDX-License-Identifier: MIT
/*
 * A thread's cache of one pool: freed objects of each class, taken last in first out. The thread
 * alone uses its cache, except when the pool is trimmed, short of memory or at its end.
 *
 * The lock of a cache favours its own thread, which stores "inside" and then loads "stopped". A
 * thread that wants to stop it stores "stopped" and then loads "inside". Both sides need a full
 * barrier between store and load, or both may go on. The stopping thread makes the barrier for all
 * threads by membarrier(2), so that the cache's own thread needs none. Where the kernel refuses
 * membarrier(2), the cache's own thread makes a barrier itself.
 *
 * A cache ends with its thread, and belongs to no pool once its pool has ended.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "pool/cache.h"

/* Outermost of the pool's locks: protects which caches pools have. */
static pthread_mutex_t cache_mutex = PTHREAD_MUTEX_INITIALIZER;

_Thread_local struct pool_cache *cache_slots[CACHE_SLOTS];
static _Thread_local struct pool_cache *first; /* all of the thread's */
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;

/* ---- the lock ---- */

/* sys_barrier() works in the process of this fork generation; -1: in none. */
static _Atomic int64_t barriers = -1;

void cache_prepare(void)
{
	if (atomic_load(&barriers) != fork_generation && !sys_barrier_prepare())
		atomic_store(&barriers, fork_generation);
}

void cache_wait_outside(struct pool_cache *cache)
{
	do {
		atomic_store_explicit(&cache->inside, 0, memory_order_release);
		while (atomic_load_explicit(&cache->stopped, memory_order_acquire))
			sched_yield();
		atomic_store(&cache->inside, 1);
	} while (atomic_load(&cache->stopped));
}

/* Keep the threads of the pool's caches outside. Caller holds cache_mutex. */
static void stop_all(struct hm_pool *pool)
{
	struct pool_cache *cache;

	cds_list_for_each_entry(cache, &pool->caches, link)
		atomic_store(&cache->stopped, 1);
	/* Registered before, it can't fail [membarrier(2)]. */
	if (atomic_load(&barriers) == fork_generation)
		sys_barrier();
	cds_list_for_each_entry(cache, &pool->caches, link)
		while (atomic_load(&cache->inside))
			sched_yield();
}

static void resume_all(struct hm_pool *pool)
{
	struct pool_cache *cache;

	cds_list_for_each_entry(cache, &pool->caches, link)
		atomic_store_explicit(&cache->stopped, 0, memory_order_release);
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

void cache_report(struct pool_cache *cache, struct hm_pool *pool)
{
	cache->counts.live += cache->unreported;
	report(pool, cache->unreported);
	cache->unreported = 0;
}

void pool_count_locked(struct hm_pool *pool, int64_t bytes)
{
	if (bytes > 0)
		pool->past.allocated++;
	else
		pool->past.freed++;
	pool->past.live += bytes;
	report(pool, bytes);
}

void pool_count_resized_locked(struct hm_pool *pool, int64_t bytes)
{
	pool->past.live += bytes;
	report(pool, bytes);
}

/* ---- objects ---- */

static void put_entry_locked(const struct pool_entry *entry)
{
	struct pool_span *span = pool_span_at((uintptr_t)entry->address);

	central_put_locked(span, (uint32_t)(entry->tag - span->tag));
}

/* Gives the @n oldest objects of a class back. Caller holds the cache's and the pool's lock. */
static void drain_locked(struct pool_cache *cache, struct hm_pool *pool, unsigned int class,
			 uint32_t n)
{
	struct pool_entry *entries = cache_entries(cache, pool, class);
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
				cache_entries(cache, pool, class), &cache->n[class]);
	pthread_mutex_unlock(&pool->lock);
	cache->bytes += cache->n[class] * (uint64_t)of->size;
	return r;
}

int cache_take_slow(struct hm_pool *pool, struct pool_cache *cache, unsigned int class,
		    uint64_t bytes, struct pool_entry *ret_entry)
{
	int r;

	if (!cache)
		return take_past(pool, class, bytes, ret_entry);
	cache_enter(cache);
	r = cache->n[class] ? 0 : refill(cache, pool, class);
	if (!r)
		cache_pop(cache, pool, class, bytes, ret_entry);
	cache_leave(cache);
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

void cache_put_slow(struct pool_cache *cache, const struct pool_place *place, uint64_t bytes)
{
	struct hm_pool *pool = place->pool;
	unsigned int class = place->span->class;
	bool done = false;
	CDS_LIST_HEAD(to);

	if (cache && class < POOL_N_CLASS) {
		cache_enter(cache);
		if (!atomic_load_explicit(&pool->closed, memory_order_relaxed)) {
			make_room(cache, pool, class, &to);
			cache_push(cache, pool, place, bytes);
			done = true;
		}
		cache_leave(cache);
	}
	if (!done)
		put_past(place, bytes, &to);
	block_release(&to);
}

/* ---- all caches of a pool ---- */

void cache_flush_all(struct hm_pool *pool)
{
	struct pool_cache *cache;

	pthread_mutex_lock(&cache_mutex);
	stop_all(pool);
	pthread_mutex_lock(&pool->lock);
	cds_list_for_each_entry(cache, &pool->caches, link)
		drain_all_locked(cache, pool);
	pthread_mutex_unlock(&pool->lock);
	resume_all(pool);
	pthread_mutex_unlock(&cache_mutex);
}

void cache_sum_lock(struct hm_pool *pool, struct cache_sums *ret_sums)
{
	struct pool_cache *cache;
	unsigned int class;

	memset(ret_sums, 0, sizeof(*ret_sums));
	pthread_mutex_lock(&cache_mutex);
	stop_all(pool);
	cds_list_for_each_entry(cache, &pool->caches, link) {
		cache_report(cache, pool);
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
	}
	pthread_mutex_lock(&pool->lock);
	ret_sums->counts.allocated += pool->past.allocated;
	ret_sums->counts.freed += pool->past.freed;
	ret_sums->counts.live += pool->past.live;
	/* From here on threads move objects between allocations and their caches at most. */
	resume_all(pool);
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
static void end_locked(struct pool_cache *cache, struct cds_list_head *to)
{
	struct hm_pool *pool = atomic_load(&cache->pool);

	if (!pool || cache->fork_gen != fork_generation)
		return;
	cds_list_del(&cache->link);
	cache_report(cache, pool);
	pthread_mutex_lock(&pool->lock);
	drain_all_locked(cache, pool);
	pool->past.allocated += cache->counts.allocated;
	pool->past.freed += cache->counts.freed;
	pool->past.live += cache->counts.live;
	block_take_surplus_locked(pool, to);
	pthread_mutex_unlock(&pool->lock);
}

/* The thread ends. */
static void end_all(void *unused)
{
	struct pool_cache *cache, *next, *all = first;
	CDS_LIST_HEAD(to);

	(void)unused;
	first = NULL;
	memset(cache_slots, 0, sizeof(cache_slots));
	pthread_mutex_lock(&cache_mutex);
	for (cache = all; cache; cache = next) {
		next = cache->next;
		end_locked(cache, &to);
		free(cache);
	}
	pthread_mutex_unlock(&cache_mutex);
	block_release(&to);
}

static void make_key(void)
{
	key_made = !pthread_key_create(&key, end_all);
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
	memset(cache_slots, 0, sizeof(cache_slots));
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
	cache->fences = atomic_load(&barriers) != fork_generation;
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
	pthread_mutex_unlock(&cache_mutex);
	return cache;
}

struct pool_cache *cache_find(struct hm_pool *pool)
{
	struct pool_cache *cache;

	for (cache = first; cache; cache = cache->next)
		if (cache->serial == pool->serial)
			break;
	if (!cache && !atomic_load(&pool->closed))
		cache = make_cache(pool);
	if (cache)
		cache_slots[pool->serial % CACHE_SLOTS] = cache;
	return cache;
}

void cache_fork_prepare(void)
{
	pthread_mutex_lock(&cache_mutex);
}

void cache_fork_after(void)
{
	pthread_mutex_unlock(&cache_mutex);
}
