// SPDX-License-Identifier: MIT
/* Makes the frames of a pool, each with memory of its own. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/sys.h"
#include "frame/frame.h"

/* Indexes are reused, lowest first. The caller holds pool->lock. -ENOMEM. */
static int take_index_locked(struct hm_frame_pool *pool, uint32_t *ret_index)
{
	uint32_t i = 0, n = pool->n_used ? pool->n_used * 2 : 4;
	uint64_t *more;

	while (i < pool->n_used && pool->used[i] == UINT64_MAX)
		i++;
	if (i == pool->n_used) {
		more = sys_calloc(n, sizeof(*more));
		if (!more)
			return err_set(-ENOMEM, "no memory for a pool of %" PRIu32 " frames",
				       pool->n_frame);
		if (pool->n_used)
			memcpy(more, pool->used, pool->n_used * sizeof(*more));
		free(pool->used);
		pool->used = more;
		pool->n_used = n;
	}
	*ret_index = i * 64 + (uint32_t)__builtin_ctzll(~pool->used[i]);
	pool->used[i] |= 1ull << *ret_index % 64;
	return 0;
}

void pool_forget_locked(struct hm_frame_pool *pool, const struct hm_frame *frame)
{
	pool->n_frame--;
	pool->used[frame->index / 64] &= ~(1ull << frame->index % 64);
}

static int make_memory(struct hm_frame_pool *pool, struct frame_memory *memory)
{
	/* Of a part, though with all bytes: such a map keeps its address and its length. */
	const struct hm_map_desc desc = {
		.struct_size = sizeof(desc),
		.flags = pool->flags & HM_FRAME_POOL_POPULATE ? HM_MAP_POPULATE : 0,
		.access = HM_READ | HM_WRITE,
		.length = pool->layout.bytes,
	};
	int r;

	r = buffer_create(pool->device, &pool->desc, &memory->buffer);
	if (r)
		return r;
	r = map_create(memory->buffer, &desc, &memory->map);
	if (r)
		hm_buffer_unref(memory->buffer);
	return r;
}

int pool_make_frame(struct hm_frame_pool *pool, struct hm_frame **ret_frame)
{
	struct hm_frame *frame = NULL;
	struct frame_memory memory;
	int r;

	r = make_memory(pool, &memory);
	if (!r) {
		r = frame_make(&pool->layout, &pool->visible, 1, &memory, &frame);
		if (r) {
			hm_map_unref(memory.map);
			hm_buffer_unref(memory.buffer);
		}
	}
	pthread_mutex_lock(&pool->lock);
	pool->n_making--;
	if (!r)
		r = take_index_locked(pool, &frame->index);
	if (r)
		pool->n_frame--;
	else
		pool->peak = (uint32_t)max_u64(pool->peak, pool->n_frame - pool->n_making);
	/* Another thread may have waited for this one's room. */
	if (r)
		pthread_cond_broadcast(&pool->returned);
	pthread_mutex_unlock(&pool->lock);
	if (r) {
		if (frame)
			frame_end(frame);
		return r;
	}
	frame->pool = pool;
	atomic_fetch_add_explicit(&pool->holds, 1, memory_order_relaxed);
	*ret_frame = frame;
	return 0;
}
