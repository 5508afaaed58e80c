// SPDX-License-Identifier: MIT
/*
 * The pool of a device, for HM_ALLOC_POOLED: made by the first such allocation, it ends with the
 * device. It holds no reference on the device, but each of its blocks does, by its buffer. So a
 * device that nothing holds besides blocks has been left: what is not allocated goes back then,
 * and each allocation's memory with its end.
 */
#include "pool/pool.h"

#include <hetmap/pool.h>

/* Serialises "am I the last user?" with dropping the reference. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int make(struct hm_device *device, struct hm_pool **ret_pool)
{
	const struct hm_pool_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_POOL_ZERO,
		.name = "alloc",
	};
	struct hm_pool *pool, *first = NULL;
	int r = pool_create(device, &desc, &pool);

	if (r)
		return r;
	pool->of_device = true;
	if (!atomic_compare_exchange_strong(&device->pool, &first, pool)) {
		pool->of_device = false;
		hm_pool_unref(pool);
		*ret_pool = first;
		return 0;
	}
	/* The caller has a reference, so this is not the last one. */
	object_put(&device->object);
	*ret_pool = pool;
	return 0;
}

int pool_alloc_of_device(struct hm_device *device, uint64_t size, char **ret_pointer)
{
	struct hm_pool *pool = atomic_load_explicit(&device->pool, memory_order_acquire);
	int r = pool ? 0 : make(device, &pool);

	if (r)
		return r;
	if (unlikely(atomic_load(&pool->closed)))
		return -ENOSPC;
	return pool_alloc(pool, size, pool->alignment, ret_pointer);
}

static bool is_left_locked(const struct hm_device *device, const struct hm_pool *pool)
{
	return atomic_load(&device->object.refs) - 1 <=
	       atomic_load_explicit(&pool->n_block, memory_order_acquire);
}

bool pool_device_put(struct hm_device *device)
{
	struct hm_pool *pool = atomic_load(&device->pool);
	bool last = false, left;

	pthread_mutex_lock(&mutex);
	left = is_left_locked(device, pool) && !atomic_load(&pool->closed);
	if (!left)
		last = object_put(&device->object);
	pthread_mutex_unlock(&mutex);
	if (!left)
		return last;
	/* The caller's reference is still there. */
	pool_close(pool);
	pthread_mutex_lock(&mutex);
	last = object_put(&device->object);
	pthread_mutex_unlock(&mutex);
	return last;
}

void pool_device_end(struct hm_device *device)
{
	struct hm_pool *pool = atomic_load(&device->pool);

	if (pool)
		pool_hold_drop(pool);
}

void pool_device_fork_prepare(void)
{
	pthread_mutex_lock(&mutex);
}

void pool_device_fork_after(void)
{
	pthread_mutex_unlock(&mutex);
}
