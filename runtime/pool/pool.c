// SPDX-License-Identifier: MIT
/* Makes and ends pools. */
#include "api/api.h"
#include "pool/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "pool/cache.h"

/*
 * Bytes of blocks by the kind of device: the first row that fits counts. A device's granule says
 * its kind, where its backend does not.
 */
static const struct block_row {
	const char *backend; /* NULL: any */
	uint64_t granule;    /* at most this */
	uint64_t least, most;
} block_rows[] = {
	{ "host", UINT64_MAX, MIB(2), MIB(32) },
	{ "drm", UINT64_MAX, MIB(2), MIB(128) }, /* GPU */
	{ NULL, KIB(32), MIB(2), MIB(32) },      /* none that is known */
	{ NULL, KIB(64), KIB(64), MIB(4) },      /* FPGA: its unit of DMA */
	{ NULL, MIB(4), MIB(2), MIB(4) },        /* NIC */
	{ NULL, UINT64_MAX, MIB(2), MIB(128) },  /* GPU */
};

static void choose_blocks(struct hm_pool *pool, const struct hm_device_info *info)
{
	const struct block_row *row = block_rows;

	while (info->granule > row->granule ||
	       (row->backend && strcmp(row->backend, info->backend)))
		row++;
	pool->block_least = max_u64(row->least, info->granule);
	pool->block_most = max_u64(row->most, pool->block_least);
}

static int check_desc(const struct hm_pool_desc *desc, uint64_t page)
{
	if (desc->flags & ~HM_POOL_ZERO)
		return err_set(-EINVAL, "hm_pool_desc.flags 0x%x has unknown bits 0x%x",
			       desc->flags, desc->flags & ~HM_POOL_ZERO);
	if (desc->name && strlen(desc->name) > POOL_NAME_MAX)
		return err_set(-EINVAL, "hm_pool_desc.name has %zu bytes, %d is the most",
			       strlen(desc->name), POOL_NAME_MAX);
	if (!is_aligned(desc->block_size, page) || desc->block_size > POOL_BLOCK_MOST)
		return err_set(-EINVAL,
			       "hm_pool_desc.block_size %" PRIu64
			       " is not a multiple of %" PRIu64 ", the page size, up to 2^30",
			       desc->block_size, page);
	if (desc->alignment & (desc->alignment - 1) || desc->alignment > POOL_BLOCK_MOST)
		return err_set(-EINVAL,
			       "hm_pool_desc.alignment %" PRIu64
			       " is not a power of two up to 2^30",
			       desc->alignment);
	if (desc->limit && desc->limit < page)
		return err_set(-EINVAL,
			       "hm_pool_desc.limit %" PRIu64 " is below one page, %" PRIu64
			       " bytes",
			       desc->limit, page);
	return 0;
}

static void fill_classes(struct hm_pool *pool)
{
	unsigned int i;
	uint32_t first = 0;

	for (i = 0; i < POOL_N_CLASS; i++) {
		struct pool_class *of = &pool->class[i];

		CDS_INIT_LIST_HEAD(&of->spans);
		of->size = (uint32_t)pool_class_size(i);
		of->pages = pool_class_pages(i);
		of->objects = pool_class_objects(i);
		of->cached = pool_class_cached(i);
		of->first = first;
		first += of->cached;
	}
}

static void fill(struct hm_pool *pool, struct hm_device *device,
		 const struct hm_pool_desc *desc, const struct hm_device_info *info)
{
	static _Atomic uint64_t serials;

	object_init(&pool->object, OBJECT_POOL);
	atomic_init(&pool->holds, 1);
	pool->serial = atomic_fetch_add(&serials, 1) + 1;
	pool->device = hm_device_ref(device);
	pool->flags = desc->flags;
	pool->limit = desc->limit;
	pool->alignment = (uint32_t)max_u64(desc->alignment, POOL_ALIGNMENT);
	pool->inherited = info->caps & HM_CAP_FORK;
	pool->can_go = backend_has(device->ops, HM_BACKEND_LOSS);
	pool->recoveries = atomic_load(&device->recovered);
	pool->page = info->page_size;
	choose_blocks(pool, info);
	if (desc->block_size)
		pool->block_least = pool->block_most = desc->block_size;
	snprintf(pool->name, sizeof(pool->name), "%s", desc->name ? desc->name : "pool");
	pool->block_desc = (struct hm_buffer_desc){
		.struct_size = sizeof(pool->block_desc),
		.name = pool->name,
		.numa_mode = desc->numa_mode,
		.numa_nodes = desc->numa_nodes,
		.place = desc->place,
	};
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->grown, NULL);
	CDS_INIT_LIST_HEAD(&pool->blocks);
	CDS_INIT_LIST_HEAD(&pool->caches);
	heap_init(pool);
	fill_classes(pool);
}

int pool_create(struct hm_device *device, const struct hm_pool_desc *from,
		struct hm_pool **ret_pool)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_pool_desc desc = { 0 };
	struct hm_pool *pool;
	int r;

	r = object_check((struct hm_object *)device, OBJECT_DEVICE);
	if (r)
		return r;
	if (!ret_pool)
		return err_set(-EINVAL, "hm_pool_create: ret_pool is NULL");
	if (from)
		r = struct_read(&desc, sizeof(desc), from, from->struct_size, sizeof(desc),
				"hm_pool_desc");
	if (!r)
		r = device_query(device, &info);
	if (!r)
		r = check_desc(&desc, info.page_size);
	if (r)
		return r;
	if (!(info.caps & HM_CAP_CREATE))
		return err_set(
			-EOPNOTSUPP,
			"hm_pool_create: %s makes no buffers (HM_CAP_CREATE), and a pool "
			"is made of such",
			info.name);
	pool = sys_calloc(1, sizeof(*pool));
	if (!pool)
		return err_set(-ENOMEM, "no memory for a pool's description");
	fill(pool, device, &desc, &info);
	cache_prepare();
	*ret_pool = pool;
	return 0;
}

int hm_pool_create(struct hm_device *device, const struct hm_pool_desc *from,
		   struct hm_pool **ret_pool)
{
	err_begin();
	return pool_create(device, from, ret_pool);
}

/* A device's own pool lives as long as the device, so a reference on one is on the other. */
struct hm_pool *hm_pool_ref(struct hm_pool *pool)
{
	if (pool && pool->of_device)
		hm_device_ref(pool->device);
	else if (pool)
		object_ref(&pool->object);
	return pool;
}

void pool_close(struct hm_pool *pool)
{
	CDS_LIST_HEAD(to);

	atomic_store(&pool->closed, true);
	pthread_mutex_lock(&pool->lock);
	central_forget_busy_locked(pool);
	pthread_mutex_unlock(&pool->lock);
	cache_flush_all(pool);
	pthread_mutex_lock(&pool->lock);
	block_take_surplus_locked(pool, &to);
	pthread_mutex_unlock(&pool->lock);
	block_release(&to);
}

void hm_pool_unref(struct hm_pool *pool)
{
	if (pool && pool->of_device) {
		hm_device_unref(pool->device);
		return;
	}
	if (!pool || !object_put(&pool->object))
		return;
	pool->object.kind = OBJECT_FREED;
	err_hold();
	pool_close(pool);
	pool_hold_drop(pool);
	err_release();
}

/* ---- fork(2) ---- */

/* A child takes no lock of a parent's pool, and these for its own ones. */
void pool_fork_prepare(void)
{
	pool_device_fork_prepare();
	cache_fork_prepare();
	span_lock();
}

void pool_fork_after(void)
{
	span_unlock();
	cache_fork_after();
	pool_device_fork_after();
}

void pool_fork_child(void)
{
	block_fork_child();
	pool_fork_after();
}
