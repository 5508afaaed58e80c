// SPDX-License-Identifier: MIT
/* Makes, describes and ends pools of frames. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/sys.h"
#include "base/thread.h"
#include "frame/frame.h"

void frame_pool_drop_hold(struct hm_frame_pool *pool)
{
	if (atomic_fetch_sub_explicit(&pool->holds, 1, memory_order_acq_rel) != 1)
		return;
	pthread_mutex_destroy(&pool->lock);
	pthread_cond_destroy(&pool->returned);
	pthread_cond_destroy(&pool->published);
	free(pool->used);
	hm_device_unref(pool->device);
	pool->object.kind = OBJECT_FREED;
	free(pool);
}

/* ---- making ---- */

static int check_desc(const struct hm_frame_pool_desc *desc)
{
	if (desc->flags & ~HM_FRAME_POOL_POPULATE)
		return err_set(-EINVAL, "hm_frame_pool_desc.flags 0x%x has unknown bits 0x%x",
			       desc->flags, desc->flags & ~HM_FRAME_POOL_POPULATE);
	if (desc->policy > HM_FRAME_DROP_NEWEST)
		return err_set(-EINVAL, "hm_frame_pool_desc.policy %" PRIu32 " is unknown",
			       desc->policy);
	if (desc->reserved)
		return err_set(-EINVAL, "hm_frame_pool_desc.reserved is not 0");
	if (desc->name && strlen(desc->name) > FRAME_NAME_MAX)
		return err_set(-EINVAL, "hm_frame_pool_desc.name has %zu bytes, %d is the most",
			       strlen(desc->name), FRAME_NAME_MAX);
	if (desc->n_most && desc->n_least > desc->n_most)
		return err_set(-EINVAL,
			       "hm_frame_pool_desc.n_least %" PRIu32
			       " is above n_most, %" PRIu32,
			       desc->n_least, desc->n_most);
	return 0;
}

/* The layout of the description, checked; its size is that of the picture, rounded up. */
static int read_layout(const struct hm_frame_pool_desc *desc,
		       struct hm_frame_layout *ret_layout)
{
	struct hm_frame_align align;
	uint32_t i;
	int r;

	*ret_layout = *desc->layout;
	ret_layout->fourcc = desc->fourcc;
	ret_layout->modifier = desc->modifier;
	ret_layout->width = desc->width;
	ret_layout->height = desc->height;
	r = layout_join(desc->users, desc->n_users, &align);
	if (!r)
		r = layout_round(&align, &ret_layout->width, &ret_layout->height);
	if (r)
		return r;
	if (!ret_layout->bytes || ret_layout->bytes > FRAME_BYTES_MAX)
		return err_set(-EINVAL,
			       "hm_frame_layout.bytes %" PRIu64
			       " of a frame are not in 1 to 2^62",
			       ret_layout->bytes);
	for (i = ret_layout->n_planes; i < HM_FRAME_PLANES; i++)
		ret_layout->plane[i] = (struct hm_frame_plane){ 0 };
	return planes_check(ret_layout, 1, &ret_layout->bytes);
}

static int choose_layout(const struct hm_frame_pool_desc *desc,
			 struct hm_frame_layout *ret_layout)
{
	if (desc->layout)
		return read_layout(desc, ret_layout);
	if (desc->modifier != HM_FRAME_LINEAR)
		return err_set(-EOPNOTSUPP,
			       "the planes of modifier 0x%016" PRIx64
			       " are known to its driver only: pass its "
			       "hm_frame_pool_desc.layout, or HM_FRAME_LINEAR",
			       desc->modifier);
	return layout_make(desc->fourcc, desc->width, desc->height, desc->users, desc->n_users,
			   ret_layout);
}

static void fill(struct hm_frame_pool *pool, struct hm_device *device,
		 const struct hm_frame_pool_desc *desc)
{
	object_init(&pool->object, OBJECT_FRAME_POOL);
	atomic_init(&pool->holds, 1);
	pool->device = hm_device_ref(device);
	pool->flags = desc->flags;
	pool->policy = desc->policy;
	pool->n_least = desc->n_least;
	pool->n_most = desc->n_most;
	pool->can_go = backend_has(device->ops, HM_BACKEND_LOSS);
	snprintf(pool->name, sizeof(pool->name), "%s", desc->name ? desc->name : "frame");
	pool->desc = (struct hm_buffer_desc){
		.struct_size = sizeof(pool->desc),
		.size = pool->layout.bytes,
		.name = pool->name,
		.numa_mode = desc->numa_mode,
		.numa_nodes = desc->numa_nodes,
		.place = desc->place,
	};
	pthread_mutex_init(&pool->lock, NULL);
	thread_condition_init(&pool->returned);
	thread_condition_init(&pool->published);
	CDS_INIT_LIST_HEAD(&pool->free);
	CDS_INIT_LIST_HEAD(&pool->busy);
	CDS_INIT_LIST_HEAD(&pool->ready);
}

static int make_least(struct hm_frame_pool *pool)
{
	struct hm_frame *frame;
	uint32_t i;
	int r;

	for (i = 0; i < pool->n_least; i++) {
		pool->n_frame++;
		pool->n_making++;
		r = pool_make_frame(pool, &frame);
		if (r)
			return err_prefix(r, "frame %" PRIu32 " of %" PRIu32, i + 1,
					  pool->n_least);
		frame_put(frame);
	}
	return 0;
}

static int create(struct hm_device *device, const struct hm_frame_pool_desc *desc,
		  struct hm_frame_pool **ret_pool)
{
	struct hm_frame_pool *pool = sys_calloc(1, sizeof(*pool));
	int r;

	if (!pool)
		return err_set(-ENOMEM, "no memory for a frame pool's description");
	r = choose_layout(desc, &pool->layout);
	if (r)
		goto err_free;
	pool->visible = desc->visible;
	if (!pool->visible.width)
		pool->visible =
			(struct hm_frame_rect){ .width = desc->width, .height = desc->height };
	r = props_check_visible(&pool->visible, pool->layout.width, pool->layout.height);
	if (r)
		goto err_free;
	fill(pool, device, desc);
	r = make_least(pool);
	if (r) {
		hm_frame_pool_unref(pool);
		return r;
	}
	*ret_pool = pool;
	return 0;

err_free:
	free(pool);
	return r;
}

int hm_frame_pool_create(struct hm_device *device, const struct hm_frame_pool_desc *from,
			 struct hm_frame_pool **ret_pool)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_frame_pool_desc desc;
	int r;

	err_begin();
	r = object_check((struct hm_object *)device, OBJECT_DEVICE);
	if (r)
		return r;
	if (!from || !ret_pool)
		return err_set(-EINVAL, "hm_frame_pool_create: %s is NULL",
			       from ? "ret_pool" : "desc");
	r = struct_read(&desc, sizeof(desc), from, from->struct_size,
			offsetof(struct hm_frame_pool_desc, visible), "hm_frame_pool_desc");
	if (!r)
		r = check_desc(&desc);
	if (!r)
		r = device_query(device, &info);
	if (r)
		return r;
	if (!(info.caps & HM_CAP_CREATE))
		return err_set(-EOPNOTSUPP,
			       "hm_frame_pool_create: %s makes no buffers (HM_CAP_CREATE), and "
			       "frames are in such",
			       info.name);
	return create(device, &desc, ret_pool);
}

/* ---- state ---- */

static void describe(struct hm_frame_pool *pool, struct hm_frame_pool_info *info)
{
	*info = (struct hm_frame_pool_info){
		.flags = pool->flags,
		.policy = pool->policy,
		.n_least = pool->n_least,
		.n_most = pool->n_most,
		.layout = pool->layout,
	};
	memcpy(info->name, pool->name, sizeof(pool->name));
	pthread_mutex_lock(&pool->lock);
	info->ended = pool->ended;
	info->frames = pool->n_frame - pool->n_making;
	info->free = pool->n_free;
	info->ready = pool->n_ready;
	info->busy = pool->n_busy;
	info->held = info->frames - info->free - info->ready - info->busy;
	info->frames_peak = pool->peak;
	info->bytes = info->frames * pool->layout.bytes;
	info->acquired = pool->acquired;
	info->published = pool->put;
	info->taken = pool->taken;
	info->dropped_oldest = pool->oldest;
	info->dropped_newest = pool->newest;
	info->waited = pool->waited;
	info->waited_ns = pool->waited_ns;
	pthread_mutex_unlock(&pool->lock);
}

int hm_frame_pool_query(struct hm_frame_pool *pool, struct hm_frame_pool_info *ret_info)
{
	struct hm_frame_pool_info info;
	int r;

	err_begin();
	r = object_check((struct hm_object *)pool, OBJECT_FRAME_POOL);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_frame_pool_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info),
			     offsetof(struct hm_frame_pool_info, policy), "hm_frame_pool_info");
	if (r)
		return r;
	pool_sweep(pool);
	describe(pool, &info);
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

/* ---- giving back ---- */

static void end_all(struct cds_list_head *frames)
{
	struct hm_frame *frame, *next;

	cds_list_for_each_entry_safe(frame, next, frames, link)
		frame_end(frame);
}

int hm_frame_pool_trim(struct hm_frame_pool *pool, uint32_t keep, uint32_t *ret_frames)
{
	struct hm_frame *frame;
	CDS_LIST_HEAD(to);
	uint32_t n = 0;
	int r;

	err_begin();
	r = object_check((struct hm_object *)pool, OBJECT_FRAME_POOL);
	if (r)
		return r;
	pool_sweep(pool);
	keep = keep < pool->n_least ? pool->n_least : keep;
	pthread_mutex_lock(&pool->lock);
	for (; pool->n_frame > keep && pool->n_free; n++) {
		/* The one that has not been used for longest. */
		frame = cds_list_entry(pool->free.prev, struct hm_frame, link);
		cds_list_del(&frame->link);
		pool_forget_locked(pool, frame);
		pool->n_free--;
		cds_list_add(&frame->link, &to);
	}
	pthread_mutex_unlock(&pool->lock);
	end_all(&to);
	if (ret_frames)
		*ret_frames = n;
	return 0;
}

int hm_frame_pool_end(struct hm_frame_pool *pool)
{
	int r;

	err_begin();
	r = object_check((struct hm_object *)pool, OBJECT_FRAME_POOL);
	if (r)
		return r;
	pthread_mutex_lock(&pool->lock);
	pool->ended = true;
	pthread_cond_broadcast(&pool->returned);
	pthread_cond_broadcast(&pool->published);
	pthread_mutex_unlock(&pool->lock);
	return 0;
}

struct hm_frame_pool *hm_frame_pool_ref(struct hm_frame_pool *pool)
{
	if (pool)
		object_ref(&pool->object);
	return pool;
}

/* From here on each frame ends with its last reference. */
static void close_pool(struct hm_frame_pool *pool)
{
	struct hm_frame *frame, *next;
	CDS_LIST_HEAD(to);
	CDS_LIST_HEAD(ready);

	pthread_mutex_lock(&pool->lock);
	pool->closed = true;
	cds_list_splice(&pool->free, &to);
	cds_list_splice(&pool->busy, &to);
	cds_list_splice(&pool->ready, &ready);
	pool->n_free = pool->n_busy = pool->n_ready = 0;
	pthread_mutex_unlock(&pool->lock);
	end_all(&to);
	cds_list_for_each_entry_safe(frame, next, &ready, link)
		frame_put(frame);
}

void hm_frame_pool_unref(struct hm_frame_pool *pool)
{
	if (!pool || !object_put(&pool->object))
		return;
	pool->object.kind = OBJECT_FREED;
	err_hold();
	close_pool(pool);
	frame_pool_drop_hold(pool);
	err_release();
}
