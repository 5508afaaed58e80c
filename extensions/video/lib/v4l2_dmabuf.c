// SPDX-License-Identifier: MIT
/*
 * Cameras that write into our memory: frames of a pool, exported as dma-bufs, are the driver's
 * buffers. The driver always has the same number of them: a frame with a picture leaves only
 * when the pool has given an empty one in its place.
 */
#include "camera.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <string.h>
#include <unistd.h>

#define CONSUMERS 12 /* further ones: ready, and with consumers */
#define NS_PER_MS 1000000ull

static int make_pool(struct camera *camera)
{
	uint32_t n_most = camera->n_driver + CONSUMERS;
	struct hm_frame_pool_desc desc = {
		.struct_size = sizeof(desc),
		.name = "camera",
		.fourcc = camera->layout.fourcc,
		.policy = camera->policy,
		.modifier = HM_FRAME_LINEAR,
		.width = camera->layout.width,
		.height = camera->layout.height,
		.layout = &camera->layout,
	};

	if (camera->n_most)
		n_most = camera->n_most;
	if (n_most <= camera->n_driver || n_most > CAMERA_FRAMES)
		return hm_error_set(-EINVAL,
				    "a camera has %u to %d frames, one more than the driver "
				    "at least: n_most is %u",
				    camera->n_driver + 1, CAMERA_FRAMES, n_most);
	desc.n_most = n_most;
	/* None ends while it is whole, so that a number means the same memory. */
	desc.n_least = n_most;
	return hm_frame_pool_create(camera->device, &desc, &camera->pool);
}

static void export_end(struct camera_export *export)
{
	if (export->buffer)
		close(export->fd);
	hm_buffer_unref(export->buffer);
	export->buffer = NULL;
}

/* The dma-buf of a frame, which is made once. */
static int descriptor_of(struct camera *camera, const struct camera_slot *slot, int *ret_fd)
{
	struct hm_frame_objects objects = { .struct_size = sizeof(objects) };
	struct camera_export *export = &camera->exports[slot->info.index];
	int r;

	if (export->buffer != slot->info.buffer[0]) {
		r = hm_frame_export(slot->frame, HM_EXPORT_DMABUF, &objects);
		if (r)
			return r;
		export_end(export);
		export->fd = objects.fd[0];
		export->buffer = hm_buffer_ref(slot->info.buffer[0]);
	}
	*ret_fd = export->fd;
	return 0;
}

static int queue(struct camera *camera, uint32_t index)
{
	int r, fd;

	r = descriptor_of(camera, &camera->slot[index], &fd);
	return r ? r : camera_queue(camera, index, fd);
}

/* An empty frame for a buffer of the driver. */
static int acquire(struct camera *camera, uint64_t timeout_ns, struct camera_slot *ret_slot)
{
	struct camera_slot slot = { .info.struct_size = sizeof(slot.info) };
	int r;

	r = hm_frame_pool_acquire(camera->pool, timeout_ns, &slot.frame);
	if (r)
		return r;
	r = hm_frame_query(slot.frame, &slot.info);
	if (!r && slot.info.index >= CAMERA_FRAMES)
		r = hm_error_set(-ERANGE, "frame %u is none of this camera's", slot.info.index);
	if (r) {
		hm_frame_unref(slot.frame);
		return r;
	}
	*ret_slot = slot;
	return 0;
}

static void drop_all(struct camera *camera)
{
	uint32_t i;

	for (i = 0; i < CAMERA_BUFFERS; i++) {
		hm_frame_unref(camera->slot[i].frame);
		camera->slot[i].frame = NULL;
	}
	for (i = 0; i < CAMERA_FRAMES; i++)
		export_end(&camera->exports[i]);
	hm_frame_pool_unref(camera->pool);
	camera->pool = NULL;
}

static int prepare(struct camera *camera)
{
	uint32_t i;
	int r;

	memset(camera->exports, 0, sizeof(camera->exports));
	r = make_pool(camera);
	if (r)
		return r;
	r = camera_request(camera, V4L2_MEMORY_DMABUF, camera->n_driver, &camera->n_slot);
	if (r) {
		r = camera_failed(camera, r, "takes no dma-bufs");
		goto err_pool;
	}
	if (camera->n_slot > CAMERA_BUFFERS) {
		r = hm_error_set(-EOPNOTSUPP, "%s wants %u buffers", camera->video->input,
				 camera->n_slot);
		goto err_request;
	}
	for (i = 0; i < camera->n_slot && !r; i++) {
		r = acquire(camera, 0, &camera->slot[i]);
		if (!r)
			r = queue(camera, i);
	}
	if (r)
		goto err_request;
	camera->video->memory.layout = camera->layout;
	camera->video->memory.pool = hm_frame_pool_ref(camera->pool);
	return 0;
err_request:
	camera_request(camera, V4L2_MEMORY_DMABUF, 0, NULL);
err_pool:
	drop_all(camera);
	return r;
}

/* -ENOBUFS: the policy drops the new picture. -ECANCELED: the camera stops. */
static int acquire_waiting(struct camera *camera, struct camera_slot *ret_slot)
{
	int r;

	do {
		r = atomic_load(&camera->stop) ?
			    -ECANCELED :
			    acquire(camera, CAMERA_LOOK_MS * NS_PER_MS, ret_slot);
	} while (r == -ETIME);
	return r;
}

static int publish(struct camera_slot *slot, const struct camera_picture *picture)
{
	const uint32_t facts = HM_FRAME_VISIBLE | HM_FRAME_COLOUR | HM_FRAME_TIME;
	int r = hm_frame_set(slot->frame, facts, &picture->props);

	if (!r)
		r = hm_frame_publish(slot->frame);
	hm_frame_unref(slot->frame);
	slot->frame = NULL;
	return r;
}

static int finish(struct camera *camera, const struct camera_picture *picture)
{
	struct camera_slot *slot = &camera->slot[picture->index], empty;
	int r;

	if (picture->damaged) {
		pthread_mutex_lock(&camera->lock);
		camera->dropped++;
		pthread_mutex_unlock(&camera->lock);
		return queue(camera, picture->index);
	}
	if (picture->last)
		return publish(slot, picture);
	r = acquire_waiting(camera, &empty);
	if (r == -ECANCELED)
		return 0;
	if (r == -ENOBUFS)
		return queue(camera, picture->index);
	if (r)
		return r;
	r = publish(slot, picture);
	*slot = empty;
	return r ? r : queue(camera, picture->index);
}

static int refill(struct camera *camera)
{
	(void)camera; /* finish() does it */
	return 0;
}

static int take(struct camera *camera, unsigned int ms, struct hm_frame **ret_frame)
{
	return hm_frame_pool_take(camera->pool, ms * NS_PER_MS, ret_frame);
}

static void end(struct camera *camera)
{
	camera_request(camera, V4L2_MEMORY_DMABUF, 0, NULL);
	drop_all(camera);
}

const struct camera_way camera_dmabuf = {
	.memory = HM_VIDEO_MEMORY_DMABUF,
	.type = V4L2_MEMORY_DMABUF,
	.prepare = prepare,
	.finish = finish,
	.refill = refill,
	.take = take,
	.close = end,
};
