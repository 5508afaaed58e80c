// SPDX-License-Identifier: MIT
/*
 * Codecs: a V4L2 device that decodes. Its pictures come as those of a camera do; this file gives
 * it the compressed stream, in parts as large as its buffers, and waits for the first header
 * [the kernel's Documentation/userspace-api/media/v4l/dev-decoder.rst].
 */
#include "camera.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define BUFFERS 4
#define PART (1u << 20) /* bytes of a buffer, where the driver leaves it to us */

struct camera_feed {
	FILE *file;
	bool ended;   /* the driver has all of it */
	bool changed; /* likewise, another one behind the first */
	bool sized;   /* it has told the size of the pictures */
	uint32_t n;   /* buffers */
	struct {
		void *bytes;
		size_t length;
	} buffer[BUFFERS];
};

/* ---- parts of the stream ---- */

static int give(struct camera *camera, uint32_t index)
{
	struct camera_feed *feed = camera->feed;
	struct v4l2_decoder_cmd stop = { .cmd = V4L2_DEC_CMD_STOP };
	struct v4l2_buffer buffer = {
		.index = index,
		.type = V4L2_BUF_TYPE_VIDEO_OUTPUT,
		.memory = V4L2_MEMORY_MMAP,
		.field = V4L2_FIELD_NONE,
	};
	size_t n = fread(feed->buffer[index].bytes, 1, feed->buffer[index].length, feed->file);
	int r;

	if (!n && ferror(feed->file))
		return hm_error_set(-EIO, "%s: it can't be read", camera->video->input);
	if (!n) {
		feed->ended = true;
		r = camera_ioctl(camera, VIDIOC_DECODER_CMD, &stop);
		return r ? camera_failed(camera, r, "does not take the end of the stream") : 0;
	}
	buffer.bytesused = (uint32_t)n;
	r = camera_ioctl(camera, VIDIOC_QBUF, &buffer);
	return r ? camera_failed(camera, r, "does not take a part of the stream") : 0;
}

/* Buffers that have come back get the next parts. */
static int give_more(struct camera *camera)
{
	int r = 0;

	while (!r && !camera->feed->ended) {
		struct v4l2_buffer buffer = {
			.type = V4L2_BUF_TYPE_VIDEO_OUTPUT,
			.memory = V4L2_MEMORY_MMAP,
		};

		r = camera_ioctl(camera, VIDIOC_DQBUF, &buffer);
		if (r == -EAGAIN)
			return 0;
		if (r)
			return camera_failed(camera, r, "gives no buffer back");
		if (buffer.index >= camera->feed->n)
			return hm_error_set(-EIO, "%s has no buffer %u", camera->name,
					    buffer.index);
		r = give(camera, buffer.index);
	}
	return r;
}

static void take_events(struct camera *camera)
{
	struct v4l2_event event = { 0 };

	while (!camera_ioctl(camera, VIDIOC_DQEVENT, &event)) {
		if (event.type != V4L2_EVENT_SOURCE_CHANGE ||
		    !(event.u.src_change.changes & V4L2_EVENT_SRC_CH_RESOLUTION))
			continue;
		camera->feed->changed = camera->feed->sized;
		camera->feed->sized = true;
	}
}

/* A change of the size ends the pictures before it, too. */
int codec_ended(const struct camera *camera)
{
	const char *input = camera->video->input;
	unsigned long long n = camera->n_picture;

	if (camera->feed->changed)
		return hm_error_set(-EOPNOTSUPP,
				    "%s, behind picture %llu: its pictures change their size",
				    input, n);
	if (!n)
		return hm_error_set(-EBADMSG, "%s: no picture of it can be decoded", input);
	return hm_error_set(-ENODATA, "%s: the video has ended", input);
}

short codec_events(const struct camera *camera)
{
	return camera->feed->ended ? POLLPRI : POLLPRI | POLLOUT;
}

int codec_serve(struct camera *camera, short events)
{
	if (events & POLLPRI)
		take_events(camera);
	return events & POLLOUT ? give_more(camera) : 0;
}

/* ---- the beginning ---- */

static int set_format(struct camera *camera, const char *format)
{
	struct v4l2_format set = { .type = V4L2_BUF_TYPE_VIDEO_OUTPUT };
	uint32_t asked;
	int r;

	if (!format || strlen(format) != 4)
		return hm_error_set(-EINVAL,
				    "%s needs the format of the stream, of four letters, as "
				    "FWHT or H264",
				    camera->name);
	memcpy(&asked, format, sizeof(asked));
	set.fmt.pix.pixelformat = asked;
	set.fmt.pix.field = V4L2_FIELD_NONE;
	set.fmt.pix.sizeimage = PART;
	r = camera_ioctl(camera, VIDIOC_S_FMT, &set);
	if (r)
		return camera_failed(camera, r, "does not take the format of the stream");
	if (set.fmt.pix.pixelformat != asked)
		return hm_error_set(-EOPNOTSUPP, "%s does not decode %s, but %.4s",
				    camera->name, format,
				    (const char *)&set.fmt.pix.pixelformat);
	return 0;
}

static int map_buffer(struct camera *camera, uint32_t index)
{
	struct v4l2_buffer buffer = {
		.index = index,
		.type = V4L2_BUF_TYPE_VIDEO_OUTPUT,
		.memory = V4L2_MEMORY_MMAP,
	};
	void *bytes;
	int r = camera_ioctl(camera, VIDIOC_QUERYBUF, &buffer);

	if (r)
		return camera_failed(camera, r, "does not tell where a buffer is");
	bytes = mmap(NULL, buffer.length, PROT_READ | PROT_WRITE, MAP_SHARED, camera->fd,
		     buffer.m.offset);
	if (bytes == MAP_FAILED)
		return camera_failed(camera, -errno, "does not map a buffer");
	camera->feed->buffer[index].bytes = bytes;
	camera->feed->buffer[index].length = buffer.length;
	return 0;
}

static int make_buffers(struct camera *camera)
{
	struct v4l2_requestbuffers request = {
		.count = BUFFERS,
		.type = V4L2_BUF_TYPE_VIDEO_OUTPUT,
		.memory = V4L2_MEMORY_MMAP,
	};
	int type = V4L2_BUF_TYPE_VIDEO_OUTPUT;
	uint32_t i;
	int r = camera_ioctl(camera, VIDIOC_REQBUFS, &request);

	if (r)
		return camera_failed(camera, r, "has no buffers for the stream");
	if (request.count > BUFFERS)
		return hm_error_set(-EOPNOTSUPP, "%s wants %u buffers", camera->name,
				    request.count);
	camera->feed->n = request.count;
	for (i = 0; i < request.count && !r; i++)
		r = map_buffer(camera, i);
	if (r)
		return r;
	r = camera_ioctl(camera, VIDIOC_STREAMON, &type);
	if (r)
		return camera_failed(camera, r, "does not start");
	for (i = 0; i < request.count && !r && !camera->feed->ended; i++)
		r = give(camera, i);
	return r;
}

/* Until the driver has read how large the pictures are. */
static int wait_for_size(struct camera *camera)
{
	struct pollfd poll_fd = { .fd = camera->fd };
	uint64_t left_ms = camera->video->memory.timeout_ns / 1000000;
	int n, r = 0;

	while (!r && !camera->feed->sized && left_ms >= CAMERA_LOOK_MS) {
		poll_fd.events = codec_events(camera);
		n = poll(&poll_fd, 1, CAMERA_LOOK_MS);
		if (n > 0)
			r = codec_serve(camera, poll_fd.revents);
		/* Nothing more will come of a stream that it has seen all of. */
		if (n <= 0 || poll_fd.revents & POLLERR)
			left_ms -= camera->feed->ended && left_ms > 200 ? left_ms - 200 :
									  CAMERA_LOOK_MS;
	}
	if (!r && !camera->feed->sized)
		r = hm_error_set(-EBADMSG, "%s: %s finds no picture in it",
				 camera->video->input, camera->name);
	return r;
}

/* What the driver wants beyond those that wait for a consumer. */
static void ask_for_buffers(struct camera *camera)
{
	struct v4l2_control least = { .id = V4L2_CID_MIN_BUFFERS_FOR_CAPTURE };

	if (!camera_ioctl(camera, VIDIOC_G_CTRL, &least) && least.value > 0 &&
	    (uint32_t)least.value + 2 > camera->n_driver)
		camera->n_driver = (uint32_t)least.value + 2;
}

/* The part of the coded picture that is to be shown. */
static void take_visible(struct camera *camera)
{
	struct v4l2_selection shown = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.target = V4L2_SEL_TGT_COMPOSE,
	};
	struct hm_frame_rect *visible = &camera->props.visible;

	camera->props.timestamp = HM_FRAME_NO_TIME;
	if (camera_ioctl(camera, VIDIOC_G_SELECTION, &shown) || shown.r.left < 0 ||
	    shown.r.top < 0 || !shown.r.width || !shown.r.height ||
	    (uint32_t)shown.r.left + shown.r.width > camera->layout.width ||
	    (uint32_t)shown.r.top + shown.r.height > camera->layout.height)
		return;
	*visible = (struct hm_frame_rect){ (uint32_t)shown.r.left, (uint32_t)shown.r.top,
					   shown.r.width, shown.r.height };
	camera->video->info.width = visible->width;
	camera->video->info.height = visible->height;
}

static int open_file(struct camera *camera)
{
	const char *input = camera->video->input;
	struct stat status;

	camera->feed->file = fopen(input, "re");
	if (!camera->feed->file)
		return hm_error_set(-errno, "%s: %s", input, strerror(errno));
	if (!fstat(fileno(camera->feed->file), &status) && S_ISDIR(status.st_mode))
		return hm_error_set(-EISDIR, "%s is a directory", input);
	return 0;
}

int codec_begin(struct camera *camera, const char *format)
{
	struct v4l2_event_subscription subscription = { .type = V4L2_EVENT_SOURCE_CHANGE };
	int r;

	camera->feed = calloc(1, sizeof(*camera->feed));
	if (!camera->feed)
		return hm_error_set(-ENOMEM, "no memory for a codec");
	r = open_file(camera);
	if (!r)
		r = set_format(camera, format);
	if (r)
		return r;
	r = camera_ioctl(camera, VIDIOC_SUBSCRIBE_EVENT, &subscription);
	if (r)
		return camera_failed(camera, r, "does not tell the size of its pictures");
	r = make_buffers(camera);
	if (!r)
		r = wait_for_size(camera);
	if (!r)
		r = camera_set_format(camera, NULL);
	if (r)
		return r;
	ask_for_buffers(camera);
	take_visible(camera);
	return 0;
}

void codec_end(struct camera *camera)
{
	struct camera_feed *feed = camera->feed;
	int type = V4L2_BUF_TYPE_VIDEO_OUTPUT;
	uint32_t i;

	if (!feed)
		return;
	camera_ioctl(camera, VIDIOC_STREAMOFF, &type);
	for (i = 0; i < feed->n; i++)
		if (feed->buffer[i].bytes)
			munmap(feed->buffer[i].bytes, feed->buffer[i].length);
	if (feed->file)
		fclose(feed->file);
	free(feed);
	camera->feed = NULL;
}
