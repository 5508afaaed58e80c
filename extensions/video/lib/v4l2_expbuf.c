// SPDX-License-Identifier: MIT
/*
 * Cameras that write into their own memory: each buffer of the driver is exported as a dma-buf
 * (VIDIOC_EXPBUF), and imported as a frame. The frames have no pool, so the policy and the way
 * back are here: a buffer goes back to the driver when nobody else holds its frame, and no work
 * uses its map or is in its fences.
 */
#include "camera.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CONSUMERS 4 /* buffers beyond those of the driver: ready, and with consumers */
#define DRIVERS 2   /* buffers that the driver keeps, as long as a ready one can be dropped */

static int import(struct camera *camera, uint32_t index, int fd)
{
	struct hm_frame_objects objects = {
		.struct_size = sizeof(objects),
		.fourcc = camera->layout.fourcc,
		.modifier = HM_FRAME_LINEAR,
		.width = camera->layout.width,
		.height = camera->layout.height,
		.n_planes = camera->layout.n_planes,
		.n_objects = 1,
		.fd = { fd, -1, -1, -1 },
		.props = camera->props,
		.fields = HM_FRAME_VISIBLE | HM_FRAME_COLOUR,
	};
	struct camera_slot *slot = &camera->slot[index];
	int r;

	memcpy(objects.plane, camera->layout.plane, sizeof(objects.plane));
	r = hm_frame_import(camera->device, &objects, 0, &slot->frame);
	if (r)
		return r;
	slot->info.struct_size = sizeof(slot->info);
	return hm_frame_query(slot->frame, &slot->info);
}

static int export(struct camera *camera, uint32_t index)
{
	struct v4l2_exportbuffer export = {
		.index = index,
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.flags = O_RDWR | O_CLOEXEC,
	};
	int r;

	r = camera_ioctl(camera, VIDIOC_EXPBUF, &export);
	if (r)
		return camera_failed(camera, r, "exports no buffer");
	r = import(camera, index, export.fd);
	close(export.fd);
	return r;
}

static void drop_all(struct camera *camera)
{
	uint32_t i;

	for (i = 0; i < CAMERA_BUFFERS; i++) {
		hm_frame_unref(camera->slot[i].frame);
		camera->slot[i].frame = NULL;
	}
}

static int prepare(struct camera *camera)
{
	uint32_t i, n = camera->n_most;
	int r;

	if (n && (n <= DRIVERS || n > CAMERA_BUFFERS))
		return hm_error_set(-EINVAL,
				    "a camera with frames of its driver has %d to %d: "
				    "n_most is %u",
				    DRIVERS + 1, CAMERA_BUFFERS, n);
	r = camera_request(camera, V4L2_MEMORY_MMAP, n ? n : camera->n_driver + CONSUMERS,
			   &camera->n_slot);
	if (r)
		return camera_failed(camera, r, "has no buffers to share");
	if (camera->n_slot > CAMERA_BUFFERS || camera->n_slot <= DRIVERS) {
		r = hm_error_set(-EOPNOTSUPP, "%s gives %u buffers", camera->video->input,
				 camera->n_slot);
		goto err_request;
	}
	for (i = 0; i < camera->n_slot && !r; i++) {
		r = export(camera, i);
		if (!r)
			r = camera_queue(camera, i, -1);
	}
	if (!r)
		return 0;
	drop_all(camera);
err_request:
	camera_request(camera, V4L2_MEMORY_MMAP, 0, NULL);
	return r;
}

static uint32_t count_locked(const struct camera *camera, enum camera_state state)
{
	uint32_t i, n = 0;

	for (i = 0; i < camera->n_slot; i++)
		n += camera->slot[i].state == state;
	return n;
}

static uint32_t pop_locked(struct camera *camera)
{
	uint32_t index = camera->ready[0];

	camera->n_ready--;
	memmove(camera->ready, camera->ready + 1, camera->n_ready * sizeof(*camera->ready));
	return index;
}

static int requeue_locked(struct camera *camera, uint32_t index)
{
	camera->slot[index].state = CAMERA_QUEUED;
	return camera_queue(camera, index, -1);
}

static int finish(struct camera *camera, const struct camera_picture *picture)
{
	const uint32_t facts = HM_FRAME_VISIBLE | HM_FRAME_COLOUR | HM_FRAME_TIME;
	struct camera_slot *slot = &camera->slot[picture->index];
	bool scarce;
	int r = 0;

	pthread_mutex_lock(&camera->lock);
	/* The driver has had this one until now. */
	scarce = count_locked(camera, CAMERA_QUEUED) - 1 < DRIVERS;
	if (picture->damaged || (scarce && camera->policy == HM_FRAME_DROP_NEWEST)) {
		camera->dropped++;
		r = requeue_locked(camera, picture->index);
		goto unlock;
	}
	if (scarce && camera->policy == HM_FRAME_DROP_OLDEST && camera->n_ready) {
		camera->dropped++;
		r = requeue_locked(camera, pop_locked(camera));
	}
	if (!r)
		r = hm_frame_set(slot->frame, facts, &picture->props);
	if (!r) {
		slot->state = CAMERA_READY;
		camera->ready[camera->n_ready++] = picture->index;
		pthread_cond_signal(&camera->changed);
	}
unlock:
	pthread_mutex_unlock(&camera->lock);
	return r;
}

/* Has the last consumer, and all work that was submitted, ended? */
static bool is_back(const struct camera_slot *slot)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	struct hm_map_info map = { .struct_size = sizeof(map) };

	if (hm_frame_query(slot->frame, &info) || info.refs > 1)
		return false;
	if (hm_frame_wait(slot->frame, HM_READ | HM_WRITE, 0) == -ETIME)
		return false;
	return !hm_map_query(info.map[0], &map) && !map.in_flight;
}

static int refill(struct camera *camera)
{
	uint32_t i;
	int r = 0;

	if (camera->ended)
		return 0;
	pthread_mutex_lock(&camera->lock);
	for (i = 0; i < camera->n_slot && !r; i++)
		if (camera->slot[i].state == CAMERA_TAKEN && is_back(&camera->slot[i]))
			r = requeue_locked(camera, i);
	pthread_mutex_unlock(&camera->lock);
	return r;
}

static int take(struct camera *camera, unsigned int ms, struct hm_frame **ret_frame)
{
	struct timespec until;
	struct camera_slot *slot;
	int r = -ETIME;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)ms * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&camera->lock);
	if (!camera->n_ready && ms)
		pthread_cond_timedwait(&camera->changed, &camera->lock, &until);
	if (camera->n_ready) {
		slot = &camera->slot[pop_locked(camera)];
		slot->state = CAMERA_TAKEN;
		*ret_frame = hm_frame_ref(slot->frame);
		r = 0;
	}
	pthread_mutex_unlock(&camera->lock);
	return r;
}

/* The frames that consumers have outlive it: the dma-bufs keep the driver's memory. */
static void end(struct camera *camera)
{
	drop_all(camera);
	camera_request(camera, V4L2_MEMORY_MMAP, 0, NULL);
}

const struct camera_way camera_expbuf = {
	.memory = HM_VIDEO_MEMORY_EXPBUF,
	.type = V4L2_MEMORY_MMAP,
	.prepare = prepare,
	.finish = finish,
	.refill = refill,
	.take = take,
	.close = end,
};
