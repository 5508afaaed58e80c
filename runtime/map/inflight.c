// SPDX-License-Identifier: MIT
/* Work in flight: the ranges of a map that submitted work may touch. */
#include <inttypes.h>

#include "fault/check.h"
#include "map/remap.h"

/* Caller holds map->lock, so there is no other writer. */
static void count(struct hm_map *map, int32_t more)
{
	uint32_t n = atomic_load_explicit(&map->n_use, memory_order_relaxed);

	atomic_store_explicit(&map->n_use, n + (uint32_t)more, memory_order_release);
}

int map_use_begin(struct map_use *use)
{
	struct hm_map *map = use->map;

	pthread_mutex_lock(&map->lock);
	if (unlikely(map->frozen)) {
		pthread_mutex_unlock(&map->lock);
		return err_set(-EBUSY, "the map at %p is being changed by another thread",
			       (void *)map->address);
	}
	if (unlikely(map->lost)) {
		pthread_mutex_unlock(&map->lock);
		return remap_refuse_lost(map);
	}
	cds_list_add_tail(&use->link, &map->uses);
	count(map, 1);
	if (use->access & HM_WRITE)
		map->n_writer++;
	pthread_mutex_unlock(&map->lock);
	if (unlikely(check_enabled()))
		check_begin(use);
	return 0;
}

void map_use_end(struct map_use *use)
{
	struct hm_map *map = use->map;

	if (unlikely(check_enabled()))
		check_end(use);
	pthread_mutex_lock(&map->lock);
	cds_list_del(&use->link);
	count(map, -1);
	pthread_mutex_unlock(&map->lock);
	use->map = NULL;
	hm_map_unref(map);
}

static bool conflicts(const struct map_use *use, uint64_t offset, uint64_t length,
		      uint32_t access)
{
	if (!((access | use->access) & HM_WRITE))
		return false; /* readers don't disturb readers */
	return ranges_overlap(use->offset, use->length, offset, length);
}

/*
 * Finds the first use that conflicts. Returns its fence, with a reference, and its functions;
 * or NULL.
 */
static struct hm_fence *find_conflict(struct hm_map *map, uint64_t offset, uint64_t length,
				      uint32_t access, const struct map_work_ops **ret_work)
{
	struct hm_fence *fence = NULL;
	struct map_use *use;

	pthread_mutex_lock(&map->lock);
	cds_list_for_each_entry(use, &map->uses, link)
		if (conflicts(use, offset, length, access)) {
			*ret_work = use->work;
			fence = use->work->ref(use->fence);
			break;
		}
	pthread_mutex_unlock(&map->lock);
	return fence;
}

int map_use_wait_each(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access,
		      uint64_t timeout_ns)
{
	const struct map_work_ops *work = NULL;
	uint64_t start = 0, spent = 0;
	struct hm_fence *fence;
	int r, first = 0;

	while ((fence = find_conflict(map, offset, length, access, &work))) {
		if (!start)
			start = time_now_ns();
		if (timeout_ns != UINT64_MAX)
			spent = min_u64(time_now_ns() - start, timeout_ns);
		r = work->wait(fence,
			       timeout_ns == UINT64_MAX ? timeout_ns : timeout_ns - spent);
		/* An accelerator that can't even wait would be asked for ever. */
		if (unlikely(r && r != -ETIME && !work->is_done(fence)))
			r = err_prefix(-EINPROGRESS, "work can't be waited for");
		work->unref(fence);
		if (r == -ETIME || r == -EINPROGRESS)
			return r;
		if (r && !first)
			first = r;
	}
	return first;
}
