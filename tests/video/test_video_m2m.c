// SPDX-License-Identifier: MIT
/*
 * Converters of V4L2 (vim2m): a driver that reads one frame of a pool and writes another, both as
 * dma-bufs, between two kernels of the library's.
 */
#ifdef HAVE_VIDEO
#include <convert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/rig.h"
#include "lib/support.h"
#include "video/screen.h"

#define WIDTH 640
#define HEIGHT 480
#define PICTURES 4
#define NODES 16
#define WAIT_MS 20000
/* Conversion to 8-bit YUV and back changes a full colour by at most so much of 255. */
#define TOLERANCE 6

/* R, G, B, in the order of bars_off(). */
static const uint8_t bars[8][3] = {
	{ 255, 255, 255 }, { 255, 255, 0 }, { 0, 255, 255 }, { 0, 255, 0 },
	{ 255, 0, 255 },   { 255, 0, 0 },   { 0, 0, 255 },   { 0, 0, 0 },
};

/* ---- the driver ---- */

static bool is_converter(int fd)
{
	struct v4l2_capability ask = { 0 };

	return !ioctl(fd, VIDIOC_QUERYCAP, &ask) && !strcmp((const char *)ask.driver, "vim2m");
}

/* -1: the test is left out, and that is said. */
static int open_converter(void)
{
	char path[PATH_ROOM];
	int i, fd;

	for (i = 0; i < NODES; i++) {
		snprintf(path, sizeof(path), "/dev/video%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && is_converter(fd))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	test_skip("media", "there is no converter of the driver vim2m: make vm-video");
	return -1;
}

static void set_side(int fd, uint32_t type, uint32_t fourcc, uint32_t stride)
{
	struct v4l2_requestbuffers request = { .count = 1,
					       .type = type,
					       .memory = V4L2_MEMORY_DMABUF };
	struct v4l2_format format = { .type = type };

	format.fmt.pix.pixelformat = fourcc;
	format.fmt.pix.width = WIDTH;
	format.fmt.pix.height = HEIGHT;
	format.fmt.pix.field = V4L2_FIELD_NONE;
	CHECK_FATAL(!ioctl(fd, VIDIOC_S_FMT, &format));
	CHECK_EQUAL(format.fmt.pix.pixelformat, fourcc);
	CHECK_EQUAL(format.fmt.pix.width, WIDTH);
	CHECK_EQUAL(format.fmt.pix.height, HEIGHT);
	CHECK_EQUAL(format.fmt.pix.bytesperline, stride);
	CHECK_FATAL(!ioctl(fd, VIDIOC_REQBUFS, &request));
	CHECK_FATAL(!ioctl(fd, VIDIOC_STREAMON, &type));
}

static void queue_frame(int fd, uint32_t type, struct hm_frame *frame, uint32_t used)
{
	struct hm_frame_objects objects = { .struct_size = sizeof(objects) };
	struct v4l2_buffer buffer = { .type = type,
				      .memory = V4L2_MEMORY_DMABUF,
				      .field = V4L2_FIELD_NONE,
				      .bytesused = used };

	CHECK_OK_FATAL(hm_frame_export(frame, HM_EXPORT_DMABUF, &objects));
	CHECK_EQUAL(objects.n_objects, 1);
	buffer.m.fd = objects.fd[0];
	buffer.length = (uint32_t)objects.size[0];
	CHECK_FATAL(!ioctl(fd, VIDIOC_QBUF, &buffer));
	close(objects.fd[0]);
}

static void dequeue(int fd, uint32_t type)
{
	struct v4l2_buffer buffer = { .type = type, .memory = V4L2_MEMORY_DMABUF };

	CHECK_FATAL(!ioctl(fd, VIDIOC_DQBUF, &buffer));
	CHECK(!(buffer.flags & V4L2_BUF_FLAG_ERROR));
}

/* ---- frames ---- */

struct scene {
	struct hm_device *device, *host;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	struct hm_frame_pool *rgb, *yuv, *shown;
};

static struct hm_frame_pool *pool_make(struct hm_device *device, uint32_t fourcc,
				       uint32_t width)
{
	return rig_frame_pool(device, DESC(hm_frame_pool_desc, .fourcc = fourcc, .width = width,
					   .height = HEIGHT, .n_most = 1));
}

static struct scene begin(const char *device)
{
	struct scene scene = { 0 };

	CHECK_OK_FATAL(hm_device_open(device, &scene.device));
	CHECK_OK_FATAL(hm_device_open("host", &scene.host));
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &scene.accel));
	CHECK_OK_FATAL(hm_queue_create(scene.accel, 0, &scene.queue));
	CHECK_OK_FATAL(convert_create(&scene.kernel));
	/* The library has no RGB24: an R8 frame three times as wide has room for its bytes. */
	scene.rgb = pool_make(scene.device, HM_FRAME_R8, WIDTH * 3);
	scene.yuv = pool_make(scene.device, HM_FRAME_YUYV, WIDTH);
	scene.shown = pool_make(scene.host, HM_FRAME_XRGB8888, WIDTH);
	return scene;
}

static void end(struct scene *scene)
{
	hm_frame_pool_unref(scene->rgb);
	hm_frame_pool_unref(scene->yuv);
	hm_frame_pool_unref(scene->shown);
	hm_kernel_unref(scene->kernel);
	hm_queue_unref(scene->queue);
	hm_accel_unref(scene->accel);
	hm_device_unref(scene->host);
	hm_device_unref(scene->device);
}

AUTO_END(scene, end)

static void begin_cpu(const struct hm_frame_info *info, uint32_t access)
{
	CHECK_OK_FATAL(hm_map_begin_cpu(info->map[0], 0, hm_map_length(info->map[0]), access));
}

static void end_cpu(const struct hm_frame_info *info, uint32_t access)
{
	CHECK_OK_FATAL(hm_map_end_cpu(info->map[0], 0, hm_map_length(info->map[0]), access));
}

/* Draws the bars, beginning with bar @first, so that pictures differ. */
static struct hm_frame *draw(struct scene *scene, unsigned int first)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	struct hm_frame *frame;
	uint32_t x, y;

	CHECK_OK_FATAL(hm_frame_pool_acquire(scene->rgb, UINT64_MAX, &frame));
	CHECK_OK_FATAL(hm_frame_query(frame, &info));
	begin_cpu(&info, HM_WRITE);
	for (y = 0; y < HEIGHT; y++)
		for (x = 0; x < WIDTH; x++)
			memcpy((uint8_t *)info.address[0] + y * info.plane[0].stride + x * 3,
			       bars[(x * 8 / WIDTH + first) % 8], 3);
	end_cpu(&info, HM_WRITE);
	return frame;
}

/* vim2m makes YUV by BT.601 in limited range. */
static struct hm_frame *acquire_yuv(struct scene *scene)
{
	const struct hm_frame_props props = {
		.primaries = 1, .transfer = 1, .matrix = 6, .range = HM_FRAME_RANGE_LIMITED
	};
	struct hm_frame *frame;

	CHECK_OK_FATAL(hm_frame_pool_acquire(scene->yuv, UINT64_MAX, &frame));
	CHECK_OK_FATAL(hm_frame_set(frame, HM_FRAME_COLOUR, &props));
	return frame;
}

static void check_picture(struct scene *scene, struct hm_frame *yuv, unsigned int first)
{
	struct hm_frame_info from = { .struct_size = sizeof(from) };
	struct hm_frame_info to = { .struct_size = sizeof(to) };
	struct hm_fence_info done = { .struct_size = sizeof(done) };
	struct hm_frame *shown;
	struct hm_fence *fence;
	unsigned int bar, off = 0;

	CHECK_OK_FATAL(hm_frame_query(yuv, &from));
	CHECK_OK_FATAL(hm_frame_pool_acquire(scene->shown, UINT64_MAX, &shown));
	CHECK_OK_FATAL(hm_frame_query(shown, &to));
	CHECK_OK_FATAL(convert_launch(scene->queue, scene->kernel, &from, &to, &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	CHECK_OK(hm_fence_query(fence, &done));
	CHECK_EQUAL(done.bytes_copied, 0);
	hm_fence_unref(fence);
	begin_cpu(&to, HM_READ);
	for (bar = 0; bar < 8; bar++) {
		const uint8_t *pixel = (const uint8_t *)to.address[0] +
				       HEIGHT / 2 * to.plane[0].stride +
				       (bar * 2 + 1) * WIDTH / 16 * 4;
		const uint8_t *want = bars[(bar + first) % 8];
		int i;

		for (i = 0; i < 3; i++) {
			unsigned int by = (unsigned int)abs(pixel[2 - i] - want[i]);

			if (by > off)
				off = by;
		}
	}
	end_cpu(&to, HM_READ);
	hm_frame_unref(shown);
	if (off > TOLERANCE)
		test_fail(__FILE__, __LINE__, "a bar of picture %u is %u of 255 off", first,
			  off);
}

static void convert_one(struct scene *scene, int fd, unsigned int first)
{
	struct hm_frame *rgb = draw(scene, first), *yuv = acquire_yuv(scene);
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	queue_frame(fd, V4L2_BUF_TYPE_VIDEO_CAPTURE, yuv, 0);
	queue_frame(fd, V4L2_BUF_TYPE_VIDEO_OUTPUT, rgb, WIDTH * 3 * HEIGHT);
	CHECK_FATAL(poll(&poll_fd, 1, WAIT_MS) == 1);
	dequeue(fd, V4L2_BUF_TYPE_VIDEO_CAPTURE);
	dequeue(fd, V4L2_BUF_TYPE_VIDEO_OUTPUT);
	hm_frame_unref(rgb);
	check_picture(scene, yuv, first);
	hm_frame_unref(yuv);
}

static void convert_on(const char *device)
{
	AUTO(scene) scene = { 0 };
	int fd = open_converter();
	unsigned int i;

	if (fd < 0)
		return;
	scene = begin(device);
	set_side(fd, V4L2_BUF_TYPE_VIDEO_OUTPUT, V4L2_PIX_FMT_RGB24, WIDTH * 3);
	set_side(fd, V4L2_BUF_TYPE_VIDEO_CAPTURE, V4L2_PIX_FMT_YUYV, WIDTH * 2);
	for (i = 0; i < PICTURES; i++)
		convert_one(&scene, fd, i);
	close(fd);
}

static void host(void)
{
	convert_on("host");
}

static void sim(void)
{
	convert_on("sim:0");
}

static const struct test tests[] = {
	{ .name = "of_the_host", host, 60 },
	{ .name = "of_sim", sim, 60 },
	{ 0 },
};

TEST_MAIN(harness_main, "video_m2m", tests)
#else
#include "video/not_built.h"
#endif
