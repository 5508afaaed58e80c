// SPDX-License-Identifier: MIT
/*
 * Allocations. An alignment of up to a page is had by a class whose size is a multiple of it,
 * since spans begin at pages; more than that, and more than POOL_CLASS_MOST bytes, by a span of
 * the allocation's own.
 */
#include <inttypes.h>
#include <string.h>

#include "api/api.h"
#include "loss/device_loss.h"
#include "pool/poison.h"
#include "pool/cache.h"

/* Rounds of taking memory that others take away in between, until that is an error. */
#define TRIES 64

bool pool_is_idle(const struct pool_span *span, uint32_t index)
{
	struct hm_map *map = atomic_load_explicit(&span->map, memory_order_relaxed);
	uint64_t offset = span_address(span, index) - (uintptr_t)map->address;
	int r = map_use_wait(map, offset, span_size(span), HM_WRITE, 0);

	return r != -ETIME && r != -EINPROGRESS;
}

/* ---- taking ---- */

/* POOL_N_CLASS: a span of its own. */
static unsigned int class_for(uint64_t size, uint64_t alignment)
{
	unsigned int class;

	if (likely(alignment <= POOL_ALIGNMENT && size <= POOL_CLASS_MOST))
		return pool_class_of(size);
	size = max_u64(size, alignment);
	if (alignment > POOL_PAGE || size > POOL_CLASS_MOST)
		return POOL_N_CLASS;
	for (class = pool_class_of(size); class < POOL_N_CLASS; class ++)
		if (is_aligned(pool_class_size(class), alignment))
			break;
	return class;
}

static int take_long(struct hm_pool *pool, uint64_t size, uint64_t alignment,
		     struct pool_entry *ret_entry)
{
	uint64_t bytes = round_up(size, POOL_PAGE);
	struct pool_span *span;
	int r;

	pthread_mutex_lock(&pool->lock);
	r = heap_take(pool, bytes, max_u64(alignment, POOL_PAGE), bytes, 1, &span);
	if (!r) {
		span->class = POOL_N_CLASS;
		span_take_object(span);
		pool->out += bytes;
		pool->long_out += bytes;
		pool_count_locked(pool, (int64_t)size);
		*ret_entry = (struct pool_entry){
			.address = (char *)(uintptr_t)span_base(span),
			.tag = &span->tag[0],
		};
	}
	pthread_mutex_unlock(&pool->lock);
	return r;
}

/* Makes room. 0: try again. */
static int make_room(struct hm_pool *pool, unsigned int class, uint64_t size,
		     uint64_t alignment, bool *reclaimed)
{
	uint64_t bytes = class < POOL_N_CLASS ?
				 (uint64_t)pool->class[class].pages << POOL_PAGE_SHIFT :
				 round_up(size, POOL_PAGE);
	int r = pool_grow(pool, bytes, class < POOL_N_CLASS ? POOL_PAGE : alignment);

	if (likely(!r) || r == -EDEADLK)
		return r;
	if (!*reclaimed) {
		*reclaimed = true;
		if (pool_reclaim(pool))
			return 0;
	}
	return r == -EDQUOT ? pool_refuse_limit(pool, size) : r;
}

static int take(struct hm_pool *pool, uint64_t size, uint64_t alignment,
		struct pool_entry *ret_entry, uint64_t *ret_object)
{
	unsigned int class = class_for(size, alignment), tries;
	struct pool_cache *cache = cache_get(pool);
	bool reclaimed = false;
	int r;

	*ret_object = class < POOL_N_CLASS ? pool->class[class].size :
					     round_up(size, POOL_PAGE);
	for (tries = 0; tries < TRIES; tries++) {
		r = class < POOL_N_CLASS ? cache_take(pool, cache, class, size, ret_entry) :
					   take_long(pool, size, alignment, ret_entry);
		if (likely(!r))
			return 0;
		if (r == -ENOMEM)
			return err_set(r, "no memory for the lists of blocks of pool %s",
				       pool->name);
		if (!tries && pool->n_busy)
			central_sweep(pool);
		else
			r = make_room(pool, class, size, alignment, &reclaimed);
		if (r && r != -EAGAIN)
			return r;
	}
	return err_set(-EAGAIN, "other threads took all memory of pool %s %d times: try again",
		       pool->name, TRIES);
}

/* ---- a device that may go ---- */

static int check_device(struct hm_pool *pool)
{
	uint32_t now;
	int r = device_loss_notice(pool->device, device_loss_check(pool->device));

	if (r)
		return r;
	now = atomic_load(&pool->device->recovered);
	if (likely(now == atomic_load(&pool->recoveries)))
		return 0;
	pthread_mutex_lock(&pool->lock);
	block_look_locked(pool);
	atomic_store(&pool->recoveries, now);
	pthread_mutex_unlock(&pool->lock);
	return 0;
}

static void give_back(const struct pool_entry *entry, uint64_t size)
{
	struct pool_span *span = pool_span_at((uintptr_t)entry->address);
	struct hm_pool *pool = span->block->pool;
	CDS_LIST_HEAD(to);

	pthread_mutex_lock(&pool->lock);
	pool_count_locked(pool, -(int64_t)size);
	central_put_locked(span, (uint32_t)(entry->tag - span->tag));
	block_take_surplus_locked(pool, &to);
	pthread_mutex_unlock(&pool->lock);
	block_release(&to);
}

static bool is_lost(const struct pool_entry *entry)
{
	const struct pool_span *span = pool_span_at((uintptr_t)entry->address);

	return atomic_load(&span->map)->lost;
}

/* Takes an object whose bytes are there: after a recovery some blocks stay lost. */
static int take_present(struct hm_pool *pool, uint64_t size, uint64_t alignment,
			struct pool_entry *ret_entry, uint64_t *ret_object)
{
	unsigned int tries;
	int r;

	for (tries = 0; tries < TRIES; tries++) {
		r = check_device(pool);
		if (!r)
			r = take(pool, size, alignment, ret_entry, ret_object);
		if (r || likely(!is_lost(ret_entry)))
			return r;
		give_back(ret_entry, size);
		/* Caches may hold more objects of the lost blocks: empty them all. */
		pool_reclaim(pool);
	}
	return err_set(-ENODEV, "%s was taken away, and is being recovered (hm_device_recover)",
		       pool->device->name);
}

int pool_clear(char *address, uint64_t from, uint64_t bytes)
{
	struct hm_map *map = atomic_load(&pool_span_at((uintptr_t)address)->map);
	uint64_t offset = (uint64_t)(address - map->address) + from;
	int r = map_begin_cpu(map, offset, bytes, HM_WRITE);

	if (r)
		return r;
	memset(address + from, 0, bytes);
	return map_end_cpu(map, offset, bytes, HM_WRITE);
}

int pool_alloc(struct hm_pool *pool, uint64_t size, uint64_t alignment, char **ret_pointer)
{
	struct pool_entry entry;
	uint64_t object = 0;
	int r;

	if (unlikely(pool->can_go))
		r = take_present(pool, size, alignment, &entry, &object);
	else
		r = take(pool, size, alignment, &entry, &object);
	if (unlikely(r))
		return r;
	unpoison((uintptr_t)entry.address, size);
	if (unlikely(pool->flags & HM_POOL_ZERO)) {
		r = pool_clear(entry.address, 0, size);
		if (r) {
			poison((uintptr_t)entry.address, object);
			give_back(&entry, size);
			return r;
		}
	}
	atomic_store_explicit(entry.tag, pool_tag(object, size), memory_order_release);
	*ret_pointer = entry.address;
	return 0;
}

int pool_check_size(uint64_t size, const char *what)
{
	if (likely(size && size <= POOL_SIZE_MOST))
		return 0;
	return err_set(-EINVAL, "%s: %" PRIu64 " bytes are not in 1 to 2^46", what, size);
}

int hm_pool_alloc(struct hm_pool *pool, uint64_t size, uint64_t alignment, void *ret_pointer)
{
	char *pointer;
	int r;

	err_begin();
	r = object_check((struct hm_object *)pool, OBJECT_POOL);
	if (unlikely(r))
		return r;
	if (unlikely(!ret_pointer))
		return err_set(-EINVAL, "hm_pool_alloc: ret_pointer is NULL");
	r = pool_check_size(size, "hm_pool_alloc");
	if (unlikely(r))
		return r;
	if (unlikely(alignment & (alignment - 1)) || unlikely(alignment > POOL_BLOCK_MOST))
		return err_set(-EINVAL,
			       "hm_pool_alloc: the alignment %" PRIu64
			       " is not a power of two up to 2^30",
			       alignment);
	r = pool_alloc(pool, size, max_u64(alignment, pool->alignment), &pointer);
	if (likely(!r))
		memcpy(ret_pointer, &pointer, sizeof(pointer));
	return r;
}

/* ---- freeing ---- */

static int refuse_foreign(const void *pointer, int r, const char *what)
{
	if (r != -ENOENT)
		return err_set(-EINVAL,
			       "%s: %p is in a block of a pool and in no allocation: freed "
			       "already, or beside one",
			       what, pointer);
	return err_set(-EINVAL, "%s: %p is in no pool: freed already, or foreign", what,
		       pointer);
}

int pool_find(struct hm_pool *pool, const void *pointer, const char *what,
	      struct pool_place *ret_place)
{
	uint64_t address = (uintptr_t)pointer;
	int r = span_find(address, ret_place);

	if (unlikely(r))
		return refuse_foreign(pointer, r, what);
	if (unlikely(pool && ret_place->pool != pool))
		return err_set(-EINVAL, "%s: %p belongs to pool %s, and not to pool %s", what,
			       pointer, ret_place->pool->name, pool->name);
	if (unlikely(!ret_place->tag))
		return err_set(-EINVAL, "%s: %p was freed already", what, pointer);
	if (unlikely(ret_place->base != address))
		return err_set(-EINVAL,
			       "%s: %p is %" PRIu64 " bytes into the allocation of %" PRIu64
			       " bytes that begins at %p: pass that",
			       what, pointer, address - ret_place->base, pool_length(ret_place),
			       (void *)(uintptr_t)ret_place->base);
	/* A child of the pool's process may look, and no more. */
	return likely(ret_place->pool->object.fork_gen == fork_generation) ?
		       0 :
		       object_refuse(&ret_place->pool->object, OBJECT_POOL);
}

static inline bool is_idle(const struct pool_place *place)
{
	const struct hm_map *map = atomic_load(&place->span->map);

	return likely(!atomic_load_explicit(&map->n_use, memory_order_acquire)) ||
	       pool_is_idle(place->span, place->index);
}

/*
 * Work in flight goes on, and the object waits for its end. A pool without references makes no
 * allocations any more, and work keeps the maps that it uses: there the object need not wait.
 */
static bool put_aside(const struct pool_place *place, uint64_t bytes)
{
	struct hm_pool *pool = place->pool;
	struct hm_map *map = atomic_load(&place->span->map);
	bool aside = false;
	int r = 0;

	pthread_mutex_lock(&pool->lock);
	if (!atomic_load(&pool->closed)) {
		r = central_busy_locked(place->span, place->index);
		aside = !r;
	}
	if (aside)
		pool_count_locked(pool, -(int64_t)bytes);
	pthread_mutex_unlock(&pool->lock);
	if (r) {
		map_use_wait(map, place->base - (uintptr_t)map->address, place->size, HM_WRITE,
			     UINT64_MAX);
		poison(place->base, place->size);
	}
	return aside;
}

int pool_free(struct hm_pool *pool, void *pointer, const char *what)
{
	struct pool_place place;
	uint64_t bytes;
	uint32_t tag;
	int r;

	r = pool_find(pool, pointer, what, &place);
	if (unlikely(r))
		return r;
	/* If two threads free it at once, the second one is refused. */
	tag = atomic_exchange_explicit(&place.span->tag[place.index], 0, memory_order_acq_rel);
	if (unlikely(!tag))
		return err_set(-EINVAL, "%s: %p was freed already", what, pointer);
	place.tag = tag;
	bytes = pool_length(&place);
	if (likely(is_idle(&place)))
		poison(place.base, place.size);
	else if (put_aside(&place, bytes))
		return 0;
	cache_put(cache_get(place.pool), &place, bytes);
	return 0;
}

int hm_pool_free(struct hm_pool *pool, void *pointer)
{
	int r = object_check((struct hm_object *)pool, OBJECT_POOL);

	if (unlikely(r) || unlikely(!pointer))
		return r;
	return pool_free(pool, pointer, "hm_pool_free");
}
