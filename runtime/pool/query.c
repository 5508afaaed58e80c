// SPDX-License-Identifier: MIT
/* Reports where the memory of a pool is, and gathers unused memory when it runs short. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pool/cache.h"

/* The numbers of the pool and of the caches, at one moment. */
static void look(struct hm_pool *pool, struct cache_sums *sums, struct hm_pool_info *info)
{
	cache_sum_lock(pool, sums);
	*info = (struct hm_pool_info){
		.flags = pool->flags,
		.limit = pool->limit,
		.block_least = pool->block_least,
		.block_most = pool->block_most,
		.alignment = pool->alignment,
		.blocks = pool->n_block,
		.held = pool->held,
		/* held includes a block that is being made, and that may fail. */
		.held_peak = max_u64(pool->held_peak, pool->held),
		.live = (uint64_t)sums->counts.live,
		.live_peak = (uint64_t)atomic_load(&pool->live_peak),
		.allocations = sums->counts.allocated - sums->counts.freed,
		.allocated = sums->counts.allocated,
		.cached = sums->cached,
		.busy = pool->busy_bytes,
		.unused = pool->held - pool->out,
		.rounding = pool->out - pool->busy_bytes - sums->cached -
			    (uint64_t)sums->counts.live,
		.largest = heap_largest(pool),
		.threads = sums->threads,
	};
	pthread_mutex_unlock(&pool->lock);
	memcpy(info->name, pool->name, sizeof(info->name));
}

int hm_pool_query(struct hm_pool *pool, struct hm_pool_info *ret_info)
{
	struct cache_sums sums;
	struct hm_pool_info info;
	int r;

	err_begin();
	r = object_check((struct hm_object *)pool, OBJECT_POOL);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_pool_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info),
			     offsetof(struct hm_pool_info, limit), "hm_pool_info");
	if (r)
		return r;
	central_sweep(pool);
	look(pool, &sums, &info);
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

/* ---- short of memory ---- */

static uint64_t give_back(struct hm_pool *pool, uint64_t keep)
{
	CDS_LIST_HEAD(to);

	central_sweep(pool);
	cache_flush_all(pool);
	pthread_mutex_lock(&pool->lock);
	block_take_unused_locked(pool, keep, &to);
	pthread_mutex_unlock(&pool->lock);
	return block_release(&to);
}

bool pool_reclaim(struct hm_pool *pool)
{
	uint64_t before, after, bytes;

	pthread_mutex_lock(&pool->lock);
	before = pool->out;
	pthread_mutex_unlock(&pool->lock);
	bytes = give_back(pool, 0);
	pthread_mutex_lock(&pool->lock);
	after = pool->out;
	pthread_mutex_unlock(&pool->lock);
	return bytes || after < before;
}

int hm_pool_trim(struct hm_pool *pool, uint64_t keep, uint64_t *ret_bytes)
{
	uint64_t bytes;
	int r;

	err_begin();
	r = object_check((struct hm_object *)pool, OBJECT_POOL);
	if (r)
		return r;
	bytes = give_back(pool, keep);
	if (ret_bytes)
		*ret_bytes = bytes;
	return 0;
}

/* The class with most bytes in allocations; POOL_N_CLASS: the spans of any length. */
static unsigned int largest_class(struct hm_pool *pool, const struct cache_sums *sums,
				  uint64_t *ret_bytes, uint64_t *ret_n)
{
	unsigned int class, largest = POOL_N_CLASS;
	uint64_t n;

	pthread_mutex_lock(&pool->lock);
	*ret_bytes = pool->long_out;
	*ret_n = 0;
	for (class = 0; class < POOL_N_CLASS; class ++) {
		n = pool->class[class].out;
		n -= min_u64(n, sums->in_class[class]);
		if (n * pool->class[class].size <= *ret_bytes)
			continue;
		largest = class;
		*ret_n = n;
		*ret_bytes = n * pool->class[class].size;
	}
	pthread_mutex_unlock(&pool->lock);
	return largest;
}

int pool_refuse_limit(struct hm_pool *pool, uint64_t size)
{
	uint64_t most, n;
	struct cache_sums sums;
	struct hm_pool_info info;
	char holder[128], thread[96] = "";
	unsigned int class;

	look(pool, &sums, &info);
	class = largest_class(pool, &sums, &most, &n);
	if (class < POOL_N_CLASS)
		snprintf(holder, sizeof(holder),
			 "%" PRIu64 " allocations of up to %" PRIu32 " bytes hold %" PRIu64, n,
			 pool->class[class].size, most);
	else
		snprintf(holder, sizeof(holder),
			 "allocations above %" PRIu64 " bytes hold %" PRIu64,
			 (uint64_t)POOL_CLASS_MOST, most);
	if (sums.tid)
		snprintf(thread, sizeof(thread),
			 ", thread %d has allocated %" PRId64 " bytes more than it freed",
			 sums.tid, sums.most);
	return err_set(-ENOSPC,
		       "pool %s: no room for %" PRIu64 " bytes: its limit is %" PRIu64
		       ", and its blocks have %" PRIu64 ": %" PRIu64 " in %" PRIu64
		       " allocations, %" PRIu64 " of rounding, %" PRIu64 " in %" PRIu32
		       " threads' caches, %" PRIu64 " freed under work, %" PRIu64
		       " in pieces, the longest of %" PRIu64 "; %s%s: free some, or raise "
		       "hm_pool_desc.limit",
		       pool->name, size, pool->limit, info.held, info.live, info.allocations,
		       info.rounding, info.cached, info.threads, info.busy, info.unused,
		       info.largest, holder, thread);
}
