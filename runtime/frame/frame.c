// SPDX-License-Identifier: MIT
/* One frame: its memory, its facts, its end. */
#include <stdlib.h>

#include "base/sys.h"
#include "frame/frame.h"

int frame_make(const struct hm_frame_layout *layout, const struct hm_frame_rect *visible,
	       uint32_t n_memory, const struct frame_memory *memory,
	       struct hm_frame **ret_frame)
{
	struct hm_frame *frame = sys_calloc(1, sizeof(*frame));
	uint32_t i;

	if (!frame)
		return err_set(-ENOMEM, "no memory for the description of a frame");
	object_init(&frame->object, OBJECT_FRAME);
	frame->layout = *layout;
	frame->n_memory = n_memory;
	for (i = 0; i < n_memory; i++)
		frame->memory[i] = memory[i];
	pthread_mutex_init(&frame->lock, NULL);
	CDS_INIT_LIST_HEAD(&frame->fences);
	props_init(&frame->props, visible);
	*ret_frame = frame;
	return 0;
}

void frame_end(struct hm_frame *frame)
{
	struct hm_frame_pool *pool = frame->pool;
	uint32_t i;

	frame_drop_fences(frame);
	for (i = 0; i < frame->n_memory; i++) {
		hm_map_unref(frame->memory[i].map);
		hm_buffer_unref(frame->memory[i].buffer);
	}
	pthread_mutex_destroy(&frame->lock);
	frame->object.kind = OBJECT_FREED;
	free(frame);
	if (pool)
		frame_pool_drop_hold(pool);
}

void frame_put(struct hm_frame *frame)
{
	if (!object_put(&frame->object))
		return;
	err_hold();
	frame->object.kind = OBJECT_FREED; /* until it is given out again */
	if (frame->pool)
		pool_take_back(frame);
	else
		frame_end(frame);
	err_release();
}

struct hm_frame *hm_frame_ref(struct hm_frame *frame)
{
	if (frame)
		object_ref(&frame->object);
	return frame;
}

void hm_frame_unref(struct hm_frame *frame)
{
	if (frame)
		frame_put(frame);
}

/* ---- facts ---- */

static void describe(struct hm_frame *frame, struct hm_frame_info *info)
{
	const struct hm_frame_layout *layout = &frame->layout;
	uint32_t i;

	*info = (struct hm_frame_info){
		.flags = frame->pool ? 0 : HM_FRAME_IMPORTED,
		.fourcc = layout->fourcc,
		.n_planes = layout->n_planes,
		.modifier = layout->modifier,
		.width = layout->width,
		.height = layout->height,
		.n_objects = frame->n_memory,
		.index = frame->index,
		.serial = frame->serial,
		.refs = atomic_load(&frame->object.refs),
	};
	for (i = 0; i < layout->n_planes; i++) {
		const struct frame_memory *memory = &frame->memory[layout->plane[i].object];

		info->plane[i] = layout->plane[i];
		info->address[i] =
			(char *)hm_map_address(memory->map) + layout->plane[i].offset;
	}
	for (i = 0; i < frame->n_memory; i++) {
		info->buffer[i] = frame->memory[i].buffer;
		info->map[i] = frame->memory[i].map;
	}
	pthread_mutex_lock(&frame->lock);
	if (frame->published)
		info->flags |= HM_FRAME_PUBLISHED;
	info->n_fences = frame->n_fence;
	info->props = frame->props;
	pthread_mutex_unlock(&frame->lock);
}

int hm_frame_query(struct hm_frame *frame, struct hm_frame_info *ret_info)
{
	struct hm_frame_info info;
	int r;

	err_begin();
	r = object_check((struct hm_object *)frame, OBJECT_FRAME);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_frame_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info),
			     offsetof(struct hm_frame_info, plane), "hm_frame_info");
	if (r)
		return r;
	describe(frame, &info);
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

int hm_frame_set(struct hm_frame *frame, uint32_t fields, const struct hm_frame_props *props)
{
	int r;

	err_begin();
	r = object_check((struct hm_object *)frame, OBJECT_FRAME);
	if (r)
		return r;
	if (!props || !fields)
		return err_set(-EINVAL, "hm_frame_set: %s",
			       fields ? "props is NULL" : "fields names no fact");
	pthread_mutex_lock(&frame->lock);
	if (frame->published)
		r = err_set(-EBUSY, "the frame was published, and its consumers may be reading "
				    "its facts: set them before hm_frame_publish()");
	else
		r = props_set(&frame->props, fields, props, &frame->layout);
	pthread_mutex_unlock(&frame->lock);
	return r;
}
