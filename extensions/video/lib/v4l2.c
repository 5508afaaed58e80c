// SPDX-License-Identifier: MIT
/* Cameras: opening, the thread that serves the driver, reading, the end. */
#include "camera.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PREFIX "v4l2:"
#define DRIVERS 4 /* buffers that a driver has */

bool camera_is_input(const char *input)
{
	return !strncmp(input, PREFIX, sizeof(PREFIX) - 1);
}

/* ---- the driver ---- */

int camera_ioctl(const struct camera *camera, unsigned long request, void *argument)
{
	int r;

	do {
		r = ioctl(camera->fd, request, argument) < 0 ? -errno : 0;
	} while (r == -EINTR);
	return r;
}

int camera_failed(const struct camera *camera, int r, const char *what)
{
	return hm_error_set(r, "%s %s: %s", camera->name, what, strerror(-r));
}

int camera_request(struct camera *camera, uint32_t type, uint32_t n, uint32_t *ret_n)
{
	struct v4l2_requestbuffers request = {
		.count = n,
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = type,
	};
	int r = camera_ioctl(camera, VIDIOC_REQBUFS, &request);

	if (!r && ret_n)
		*ret_n = request.count;
	return r;
}

int camera_queue(struct camera *camera, uint32_t index, int fd)
{
	struct v4l2_buffer buffer = {
		.index = index,
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = camera->way->type,
	};
	int r;

	if (camera->way->type == V4L2_MEMORY_DMABUF) {
		buffer.m.fd = fd;
		buffer.length = (uint32_t)camera->layout.bytes;
	}
	r = camera_ioctl(camera, VIDIOC_QBUF, &buffer);
	return r ? camera_failed(camera, r, "does not take a buffer") : 0;
}

/* What the driver counts, and we do not get. */
static void count_gap(struct camera *camera, uint32_t sequence)
{
	uint32_t gap;

	pthread_mutex_lock(&camera->lock);
	gap = camera->counting ? sequence - camera->sequence - 1 : 0;
	if (gap < INT32_MAX)
		camera->dropped += gap;
	camera->sequence = sequence;
	camera->counting = true;
	pthread_mutex_unlock(&camera->lock);
}

/* -EAGAIN: there is none yet. -ENODATA: none comes any more. */
static int dequeue(struct camera *camera, struct camera_picture *ret_picture)
{
	struct v4l2_buffer buffer = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.memory = camera->way->type,
	};
	int r;

	r = camera_ioctl(camera, VIDIOC_DQBUF, &buffer);
	if (r == -EAGAIN)
		return r;
	if (camera->feed && r == -EPIPE)
		return -ENODATA;
	if (r)
		return camera_failed(camera, r, "gives no picture");
	if (buffer.index >= camera->n_slot)
		return hm_error_set(-EIO, "%s: it has no buffer %u", camera->name,
				    buffer.index);
	ret_picture->index = buffer.index;
	ret_picture->props = camera->props;
	ret_picture->last = camera->feed && buffer.flags & V4L2_BUF_FLAG_LAST;
	if (ret_picture->last && !buffer.bytesused)
		return -ENODATA;
	ret_picture->damaged = buffer.flags & V4L2_BUF_FLAG_ERROR ||
			       buffer.bytesused < camera->image_size;
	if (camera->feed)
		return 0;
	count_gap(camera, buffer.sequence);
	ret_picture->props.timestamp =
		(int64_t)buffer.timestamp.tv_sec * 1000000 + buffer.timestamp.tv_usec;
	return 0;
}

/* ---- the thread ---- */

/* The driver may have no buffer, as each of them is a consumer's. */
static int rest(struct camera *camera)
{
	struct v4l2_capability ask;

	if (camera_ioctl(camera, VIDIOC_QUERYCAP, &ask) == -ENODEV)
		return camera_failed(camera, -ENODEV, "was taken away");
	usleep(CAMERA_LOOK_MS * 1000);
	return 0;
}

static int take_picture(struct camera *camera)
{
	struct camera_picture picture = { 0 };
	int r = dequeue(camera, &picture);

	if (r == -EAGAIN)
		return 0;
	if (r == -ENODATA) {
		camera->ended = true;
		return codec_ended(camera);
	}
	if (r)
		return r;
	/* A camera goes on: the next picture does not depend on this one. */
	if (camera->feed && picture.damaged)
		return hm_error_set(-EBADMSG, "%s, behind picture %llu: it is damaged there",
				    camera->video->input,
				    (unsigned long long)camera->n_picture);
	r = camera->way->finish(camera, &picture);
	if (r)
		return r;
	camera->n_picture++;
	camera->ended = picture.last;
	return picture.last ? codec_ended(camera) : 0;
}

static int serve(struct camera *camera)
{
	struct pollfd poll_fd = { .fd = camera->fd, .events = POLLIN };
	int r;

	if (camera->feed)
		poll_fd.events |= codec_events(camera);
	r = camera->way->refill(camera);
	if (r)
		return r;
	if (poll(&poll_fd, 1, CAMERA_LOOK_MS) <= 0)
		return 0;
	if (camera->feed) {
		r = codec_serve(camera, poll_fd.revents);
		if (r)
			return r;
	}
	if (poll_fd.revents & POLLIN)
		return take_picture(camera);
	return poll_fd.revents & (POLLPRI | POLLOUT) ? 0 : rest(camera);
}

static void *run(void *user)
{
	struct camera *camera = user;
	int r = 0;

	while (!r && !atomic_load(&camera->stop))
		r = serve(camera);
	if (!r)
		return NULL;
	pthread_mutex_lock(&camera->lock);
	failure_keep(&camera->failure, r);
	pthread_cond_broadcast(&camera->changed);
	pthread_mutex_unlock(&camera->lock);
	return NULL;
}

static int start(struct camera *camera)
{
	int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
	int r;

	r = camera_ioctl(camera, VIDIOC_STREAMON, &type);
	if (r)
		return camera_failed(camera, r, "does not start");
	r = pthread_create(&camera->thread, NULL, run, camera);
	if (r) {
		camera_ioctl(camera, VIDIOC_STREAMOFF, &type);
		return hm_error_set(-r, "no thread for a camera: %s", strerror(r));
	}
	camera->started = true;
	return 0;
}

static void stop(struct camera *camera)
{
	int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;

	if (camera->started) {
		atomic_store(&camera->stop, true);
		pthread_join(camera->thread, NULL);
		camera_ioctl(camera, VIDIOC_STREAMOFF, &type);
	}
	camera->started = false;
}

/* ---- reading ---- */

static int thread_failure(struct camera *camera)
{
	int r = 0;

	pthread_mutex_lock(&camera->lock);
	if (camera->failure.r)
		r = failure_tell(&camera->failure);
	pthread_mutex_unlock(&camera->lock);
	return r;
}

/* Pictures that were finished before a failure come first. */
static int camera_read(struct hm_video *video, struct hm_frame **ret_frame)
{
	struct camera *camera = video->camera;
	uint64_t left_ms = video->memory.timeout_ns / 1000000;
	int r = 0, failed;

	if (!camera->started)
		r = start(camera);
	if (r)
		return r;
	for (;;) {
		failed = thread_failure(camera);
		r = camera->way->take(camera, failed ? 0 : CAMERA_LOOK_MS, ret_frame);
		if (r != -ETIME)
			return r;
		if (failed)
			return thread_failure(camera);
		if (left_ms < CAMERA_LOOK_MS)
			return hm_error_set(
				-ETIME, "%s: no picture came for %llu ms", video->input,
				(unsigned long long)video->memory.timeout_ns / 1000000);
		left_ms -= CAMERA_LOOK_MS;
	}
}

static void camera_refresh(struct hm_video *video)
{
	struct hm_frame_pool_info info = { .struct_size = sizeof(info) };
	struct camera *camera = video->camera;

	pthread_mutex_lock(&camera->lock);
	video->info.dropped = camera->dropped;
	pthread_mutex_unlock(&camera->lock);
	if (camera->pool && !hm_frame_pool_query(camera->pool, &info))
		video->info.dropped += info.dropped_oldest + info.dropped_newest;
}

/* ---- opening ---- */

static int look(struct camera *camera, bool codec)
{
	const uint32_t kind = codec ? V4L2_CAP_VIDEO_M2M : V4L2_CAP_VIDEO_CAPTURE;
	struct v4l2_capability ask = { 0 };
	uint32_t caps;
	int r;

	r = camera_ioctl(camera, VIDIOC_QUERYCAP, &ask);
	if (r)
		return hm_error_set(-EOPNOTSUPP, "%s is no device of V4L2", camera->name);
	caps = ask.capabilities & V4L2_CAP_DEVICE_CAPS ? ask.device_caps : ask.capabilities;
	if (!(caps & kind) || !(caps & V4L2_CAP_STREAMING))
		return hm_error_set(-EOPNOTSUPP,
				    "%s (%.32s) does not %s single-planar pictures into "
				    "buffers: capabilities %#x",
				    camera->name, (const char *)ask.card,
				    codec ? "decode" : "capture", caps);
	snprintf(camera->video->info.decoder, sizeof(camera->video->info.decoder), "%s",
		 codec ? (const char *)ask.driver : "v4l2");
	return 0;
}

/* The first way, and where it is refused the second one, if both are allowed. */
static int prepare(struct camera *camera, uint32_t flags)
{
	struct failure first = { 0 }, second = { 0 };
	int r;

	camera->way = &camera_expbuf;
	if (flags == HM_VIDEO_EXPBUF)
		return camera->way->prepare(camera);
	camera->way = &camera_dmabuf;
	r = camera->way->prepare(camera);
	/* Another process has the camera, whichever way. */
	if (!r || r == -EBUSY || flags == HM_VIDEO_DMABUF)
		return r;
	failure_keep(&first, r);
	camera->way = &camera_expbuf;
	r = camera->way->prepare(camera);
	if (!r)
		return 0;
	failure_keep(&second, r);
	return hm_error_set(r, "%s; and the other way: %s", first.text, second.text);
}

static int check(const struct hm_video *video, const struct hm_video_desc *desc)
{
	if (desc->pool || !desc->device)
		return hm_error_set(-EINVAL, "a camera needs a device for frames of its own, "
					     "and takes no pool");
	if (desc->codec && !camera_is_input(desc->codec))
		return hm_error_set(-EINVAL, "codec \"%s\" is none as v4l2:/dev/video0",
				    desc->codec);
	if (desc->codec && camera_is_input(video->input))
		return hm_error_set(-EINVAL, "a codec decodes a file, and %s is a camera",
				    video->input);
	if (desc->policy > HM_FRAME_DROP_NEWEST)
		return hm_error_set(-EINVAL, "policy %u of a camera is unknown", desc->policy);
	return 0;
}

static void camera_free(struct camera *camera)
{
	codec_end(camera);
	pthread_cond_destroy(&camera->changed);
	pthread_mutex_destroy(&camera->lock);
	hm_device_unref(camera->device);
	close(camera->fd);
	free(camera->name);
	free(camera);
}

static void camera_close(struct hm_video *video)
{
	struct camera *camera = video->camera;

	stop(camera);
	camera->way->close(camera);
	camera_free(camera);
	video->camera = NULL;
}

static const struct source capture = { camera_read, camera_close, camera_refresh };

/* Opens the node @name. */
static int camera_new(struct hm_video *video, const char *name, struct camera **ret_camera)
{
	struct camera *camera = calloc(1, sizeof(*camera));
	pthread_condattr_t monotonic;
	int r;

	if (!camera)
		return hm_error_set(-ENOMEM, "no memory for a camera");
	camera->name = strdup(name);
	if (!camera->name) {
		r = hm_error_set(-ENOMEM, "no memory for a camera");
		goto err_free;
	}
	camera->fd = open(name + sizeof(PREFIX) - 1, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (camera->fd < 0) {
		r = hm_error_set(-errno, "%s: %s", name, strerror(errno));
		goto err_name;
	}
	camera->video = video;
	camera->n_driver = DRIVERS;
	atomic_init(&camera->stop, false);
	pthread_mutex_init(&camera->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&camera->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*ret_camera = camera;
	return 0;
err_name:
	free(camera->name);
err_free:
	free(camera);
	return r;
}

int camera_open(struct hm_video *video, const struct hm_video_desc *desc)
{
	struct camera *camera = NULL;
	int r;

	r = check(video, desc);
	if (r)
		return r;
	r = camera_new(video, desc->codec ? desc->codec : video->input, &camera);
	if (r)
		return r;
	camera->device = hm_device_ref(desc->device);
	/* A codec waits: each picture of a file is wanted. */
	camera->policy = desc->codec ? HM_FRAME_WAIT : desc->policy;
	camera->n_most = desc->n_most;
	r = look(camera, desc->codec);
	if (!r)
		r = desc->codec ? codec_begin(camera, desc->format) :
				  camera_set_format(camera, desc->format);
	if (!r)
		r = prepare(camera, desc->flags);
	if (r) {
		camera_free(camera);
		return r;
	}
	video->source = &capture;
	video->camera = camera;
	video->info.in_place = 1;
	video->info.memory = camera->way->memory;
	return 0;
}
