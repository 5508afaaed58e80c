// SPDX-License-Identifier: MIT
/*
 * Blocks: a buffer of the pool's device and a map of all of it. Blocks are made and released
 * without locks, since both may ask the access hook and call views.
 */
#include <stdlib.h>

#include "api/api.h"
#include "base/sys.h"
#include "map/map.h"
#include "pool/pool.h"
#include "pool/poison.h"

/* A new block has this part of what the pool holds already, so that few blocks are enough. */
#define GROWTH 8

/* A device that is short of memory is asked for less, down to this. */
#define SHORTEST KIB(64)

/* All blocks of this process, for fork(). Protected by span_lock(). */
static CDS_LIST_HEAD(all);

static void list_add(struct pool_block *block)
{
	span_lock();
	cds_list_add_tail(&block->global_link, &all);
	span_unlock();
}

static void list_remove(struct pool_block *block)
{
	span_lock();
	cds_list_del(&block->global_link);
	span_unlock();
}

/* In a fork child: takes blocks that were not inherited out of the page table. */
void block_fork_child(void)
{
	struct pool_block *block;

	cds_list_for_each_entry(block, &all, global_link) {
		if (block->pool->inherited)
			continue;
		pool_table_enter(block->base, block->bytes, NULL);
		/* The kernel may give the addresses to other maps. */
		unpoison(block->base, block->bytes);
	}
	CDS_INIT_LIST_HEAD(&all);
}

void pool_hold_drop(struct hm_pool *pool)
{
	if (atomic_fetch_sub_explicit(&pool->holds, 1, memory_order_acq_rel) != 1)
		return;
	cache_leave_all(pool);
	pthread_mutex_destroy(&pool->lock);
	pthread_cond_destroy(&pool->grown);
	free(pool->busy);
	if (!pool->of_device)
		hm_device_unref(pool->device);
	pool->object.kind = OBJECT_FREED;
	free(pool);
}

/* ---- making ---- */

/*
 * The map is of a part, though one with all bytes: such a map keeps its address and its length,
 * whatever is done to the buffer.
 */
static int make_map(struct hm_pool *pool, uint64_t bytes, struct hm_map **ret_map)
{
	struct hm_buffer_desc desc = pool->block_desc;
	const struct hm_map_desc map_desc = {
		.struct_size = sizeof(map_desc),
		.access = HM_READ | HM_WRITE,
		.length = bytes,
	};
	struct hm_buffer *buffer;
	int r;

	desc.size = bytes;
	r = buffer_create(pool->device, &desc, &buffer);
	if (r)
		return r;
	r = map_create(buffer, &map_desc, ret_map);
	hm_buffer_unref(buffer); /* the map holds it */
	return r;
}

static int make(struct hm_pool *pool, uint64_t bytes, struct pool_block **ret_block,
		struct pool_span **ret_run)
{
	struct pool_block *block = sys_calloc(1, sizeof(*block));
	struct pool_span *run = span_take(1);
	int r = -ENOMEM;

	if (!block || !run) {
		err_set(r, "no memory for the description of a pool's block");
		goto err_free;
	}
	r = make_map(pool, bytes, &block->map);
	if (r)
		goto err_free;
	block->pool = pool;
	block->base = (uintptr_t)hm_map_address(block->map);
	block->bytes = bytes;
	r = pool_table_prepare(block->base, bytes);
	if (r) {
		err_set(r, "no memory for the page table of a pool");
		goto err_map;
	}
	*ret_block = block;
	*ret_run = run;
	return 0;

err_map:
	hm_map_unref(block->map);
err_free:
	if (run)
		span_put(run);
	free(block);
	return r;
}

/* The length of the next block; 0: the limit allows none that has room. */
static uint64_t length_of(const struct hm_pool *pool, uint64_t bytes)
{
	uint64_t length = pool->block_least, room;

	while (length < pool->block_most && length * 2 <= pool->held / GROWTH)
		length *= 2;
	length = max_u64(length, round_up(bytes, pool->block_least & -pool->block_least));
	if (!pool->limit)
		return length;
	room = round_down(pool->limit - min_u64(pool->limit, pool->held), pool->page);
	if (length <= room)
		return length;
	return bytes <= room ? room : 0;
}

/* A device that lacks a long range may have a shorter one. */
static bool shorter(const struct hm_pool *pool, int r, uint64_t bytes, uint64_t *length)
{
	uint64_t half = round_down(*length / 2, pool->page);

	if ((r != -ENOMEM && r != -ENOSPC && r != -EFBIG) || half < bytes || half < SHORTEST)
		return false;
	*length = half;
	return true;
}

/* True: another thread has grown the pool meanwhile. */
static int wait_locked(struct hm_pool *pool, bool *ret_waited)
{
	*ret_waited = pool->growing;
	if (pool->growing && pthread_equal(pool->grower, pthread_self()))
		return err_set(-EDEADLK,
			       "pool %s: the access hook is asked for a new block of the pool, "
			       "and can't allocate from it: allocate outside of the hook",
			       pool->name);
	while (pool->growing)
		pthread_cond_wait(&pool->grown, &pool->lock);
	return 0;
}

static void publish_locked(struct hm_pool *pool, struct pool_block *block,
			   struct pool_span *run)
{
	cds_list_add_tail(&block->link, &pool->blocks);
	pool->n_block++;
	pool->n_unused++;
	atomic_fetch_add_explicit(&pool->holds, 1, memory_order_relaxed);
	list_add(block);
	poison(block->base, block->bytes);
	heap_add_block(block, run);
	pool->held_peak = max_u64(pool->held_peak, pool->held);
}

int pool_grow(struct hm_pool *pool, uint64_t bytes, uint64_t alignment)
{
	struct pool_block *block = NULL;
	struct pool_span *run = NULL;
	uint64_t length = 0, counted, least = bytes + max_u64(alignment, POOL_PAGE) - POOL_PAGE;
	bool waited;
	int r;

	pthread_mutex_lock(&pool->lock);
	r = wait_locked(pool, &waited);
	if (!r && !waited) {
		length = length_of(pool, least);
		pool->growing = length;
		pool->grower = pthread_self();
		/* Counted before it is there, so that the limit holds. */
		pool->held += length;
	}
	pthread_mutex_unlock(&pool->lock);
	if (r || waited)
		return r;
	if (!length)
		return -EDQUOT;
	counted = length;
	while ((r = make(pool, length, &block, &run)) && shorter(pool, r, least, &length))
		;
	pthread_mutex_lock(&pool->lock);
	pool->held -= r ? counted : counted - length;
	if (!r)
		publish_locked(pool, block, run);
	pool->growing = false;
	pthread_cond_broadcast(&pool->grown);
	pthread_mutex_unlock(&pool->lock);
	return r;
}

/* ---- giving back ---- */

static void take_locked(struct hm_pool *pool, struct pool_block *block,
			struct cds_list_head *to)
{
	heap_remove_block(block);
	pool->n_unused--;
	cds_list_del(&block->link);
	cds_list_add_tail(&block->link, to);
	list_remove(block);
	pool->n_block--;
	pool->held -= block->bytes;
}

void block_take_unused_locked(struct hm_pool *pool, uint64_t keep, struct cds_list_head *to)
{
	struct pool_block *block, *next;

	cds_list_for_each_entry_safe(block, next, &pool->blocks, link)
		if (!block->used && (block->dead || pool->held > keep))
			take_locked(pool, block, to);
}

void block_take_surplus_locked(struct hm_pool *pool, struct cds_list_head *to)
{
	uint32_t keep = atomic_load(&pool->closed) ? 0 : 1;
	struct pool_block *block, *next;

	if (likely(pool->n_unused <= keep))
		return;
	cds_list_for_each_entry_safe(block, next, &pool->blocks, link)
		if (pool->n_unused > keep && !block->used)
			take_locked(pool, block, to);
}

uint64_t block_release(struct cds_list_head *blocks)
{
	struct pool_block *block, *next;
	uint64_t bytes = 0;

	cds_list_for_each_entry_safe(block, next, blocks, link) {
		struct hm_pool *pool = block->pool;

		bytes += block->bytes;
		unpoison(block->base, block->bytes);
		hm_map_unref(block->map);
		free(block);
		pool_hold_drop(pool);
	}
	return bytes;
}

/* The page table has each span at its first page. */
static void look_at_spans(const struct pool_block *block)
{
	uint64_t at = block->base;

	while (at < block->base + block->bytes) {
		struct pool_span *span = pool_span_at(at);

		if (!span_n(span))
			heap_look(span);
		else if (span->n_free)
			central_look(span);
		at += span_bytes(span);
	}
}

void block_look_locked(struct hm_pool *pool)
{
	struct pool_block *block;

	cds_list_for_each_entry(block, &pool->blocks, link) {
		if (block->dead == block->map->lost)
			continue;
		block->dead = !block->dead;
		look_at_spans(block);
	}
}
