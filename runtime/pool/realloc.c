// SPDX-License-Identifier: MIT
/* Resizing an allocation: in its object, in the pages behind it, or by a copy. */
#include <inttypes.h>
#include <string.h>

#include "api/api.h"
#include "pool/poison.h"
#include "pool/pool.h"

/* The object stays, and has room for @size. */
static void retag(const struct pool_place *place, uint64_t size)
{
	struct hm_pool *pool = place->pool;

	atomic_store_explicit(&place->span->tag[place->index], pool_tag(place->size, size),
			      memory_order_release);
	pthread_mutex_lock(&pool->lock);
	pool_count_resized_locked(pool, (int64_t)(size - pool_length(place)));
	pthread_mutex_unlock(&pool->lock);
}

/*
 * Gives pages behind the allocation back, or takes some. -EAGAIN: they are not free, or the pool
 * has no references: its free pages may still be used by work (put_aside() in alloc.c).
 */
static int resize_span(const struct pool_place *place, uint64_t size)
{
	uint64_t bytes = round_up(size, POOL_PAGE), old = place->size;
	struct pool_span *span = place->span;
	struct hm_pool *pool = place->pool;
	int r = -EAGAIN;

	pthread_mutex_lock(&pool->lock);
	if (bytes < old || !atomic_load(&pool->closed))
		r = heap_resize(span, bytes, pool_tag(bytes, size));
	if (!r) {
		if (span->class < POOL_N_CLASS) {
			pool->class[span->class].out--;
			pool->long_out += old;
			span->class = POOL_N_CLASS;
		}
		pool->long_out += bytes - old;
		pool->out += bytes - old;
		pool_count_resized_locked(pool, (int64_t)(size - pool_length(place)));
	}
	pthread_mutex_unlock(&pool->lock);
	return r;
}

static int resize_in_place(const struct pool_place *place, uint64_t size)
{
	bool alone = span_n(place->span) == 1, fits = size <= place->size;

	if (alone && !fits)
		return resize_span(place, size);
	/* Pages that work still uses must not go to another allocation. */
	if (alone && size + POOL_PAGE <= place->size &&
	    pool_is_idle(place->span, place->index) && !resize_span(place, size))
		return 0;
	if (!fits || place->size - size >= UINT32_MAX)
		return -EAGAIN;
	retag(place, size);
	return 0;
}

/* -EAGAIN: the allocation must move. A failure leaves it as it was. */
static int resize(const struct pool_place *place, uint64_t size)
{
	char *bytes = (char *)(uintptr_t)place->base;
	uint64_t old = pool_length(place);
	struct pool_place grown;
	int r;

	/* First: another thread may have the pages behind the new end at once. */
	if (size < old)
		poison(place->base + size, old - size);
	r = resize_in_place(place, size);
	unpoison(place->base, r ? old : size);
	if (r || size <= old || !(place->pool->flags & HM_POOL_ZERO))
		return r;
	r = pool_clear(bytes, old, size - old);
	if (r && !span_find(place->base, &grown))
		resize(&grown, old);
	return r;
}

/* A bracket of each end: the bytes may be out of reach of CPUs. */
static int copy(char *to, char *from, uint64_t bytes)
{
	struct hm_map *to_map = atomic_load(&pool_span_at((uintptr_t)to)->map);
	struct hm_map *from_map = atomic_load(&pool_span_at((uintptr_t)from)->map);
	uint64_t to_offset = (uint64_t)(to - to_map->address);
	uint64_t from_offset = (uint64_t)(from - from_map->address);
	int r;

	r = map_begin_cpu(from_map, from_offset, bytes, HM_READ);
	if (r)
		return r;
	r = map_begin_cpu(to_map, to_offset, bytes, HM_WRITE);
	if (!r) {
		memcpy(to, from, bytes);
		r = map_end_cpu(to_map, to_offset, bytes, HM_WRITE);
	}
	if (r)
		map_end_cpu(from_map, from_offset, bytes, HM_READ);
	else
		r = map_end_cpu(from_map, from_offset, bytes, HM_READ);
	return r;
}

static int move(const struct pool_place *place, uint64_t size, char **ret_pointer)
{
	char *from = (char *)(uintptr_t)place->base, *to;
	struct hm_pool *pool = place->pool;
	int r;

	if (atomic_load(&pool->closed))
		return err_set(-ENOSPC,
			       "pool %s has no references any more, and makes no new "
			       "allocations: %p can't move",
			       pool->name, (void *)from);
	r = pool_alloc(pool, size, pool->alignment, &to);
	if (r)
		return r;
	r = copy(to, from, min_u64(size, pool_length(place)));
	if (r) {
		err_hold();
		pool_free(NULL, to, "hm_pool_realloc");
		err_release();
		return r;
	}
	pool_free(NULL, from, "hm_pool_realloc");
	*ret_pointer = to;
	return 0;
}

static int refuse_move(const struct pool_place *place, uint64_t size, const char *what)
{
	return err_set(-ENOSPC,
		       "%s: the allocation of %" PRIu64 " bytes at %p can't have %" PRIu64
		       " without moving: pass HM_MAY_MOVE",
		       what, pool_length(place), (void *)(uintptr_t)place->base, size);
}

int pool_realloc(struct hm_pool *pool, void *pointer, uint64_t size, uint32_t flags,
		 const char *what, void *ret_pointer)
{
	struct pool_place place;
	char *to = pointer;
	int r;

	r = pool_check_size(size, what);
	if (!r)
		r = pool_find(pool, pointer, what, &place);
	if (r)
		return r;
	/* A short allocation in a long object would waste the rest of it, and moves if it can. */
	if (!(flags & HM_MAY_MOVE) || size >= place.size / 2 || span_n(place.span) == 1 ||
	    move(&place, size, &to)) {
		err_clear();
		r = resize(&place, size);
	}
	if (r == -EAGAIN)
		r = flags & HM_MAY_MOVE ? move(&place, size, &to) :
					  refuse_move(&place, size, what);
	if (!r && ret_pointer)
		memcpy(ret_pointer, &to, sizeof(to));
	return r;
}

int hm_pool_realloc(struct hm_pool *pool, void *pointer, uint64_t size, uint32_t flags,
		    void *ret_pointer)
{
	int r;

	err_begin();
	r = object_check((struct hm_object *)pool, OBJECT_POOL);
	if (r)
		return r;
	if (flags & ~HM_MAY_MOVE)
		return err_set(-EINVAL, "hm_pool_realloc: unknown flags 0x%x",
			       flags & ~HM_MAY_MOVE);
	return pool_realloc(pool, pointer, size, flags, "hm_pool_realloc", ret_pointer);
}
