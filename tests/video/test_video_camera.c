// SPDX-License-Identifier: MIT
/*
 * Cameras: vivid's pictures in frames of a pool and in frames of its own buffers, losses of a
 * slow consumer by each policy, and refused calls.
 */
#ifdef HAVE_VIDEO
#include <errno.h>
#include <hetmap/video.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/support.h"
#include "video/screen.h"

#define WIDTH 640
#define HEIGHT 480
#define BARS "100% Colorbar"
/* Steps of 255: rounding to 8 bits changes a full colour so much. */
#define TOLERANCE 4

static struct hm_device *device;

/* The camera with a pattern; NULL: there is none. */
static struct hm_video *open_camera(const char *format, uint32_t flags, uint32_t policy,
				    uint32_t n_most)
{
	char path[PATH_ROOM], input[PATH_ROOM + 8];
	struct hm_video_desc desc = {
		.struct_size = sizeof(desc),
		.flags = flags,
		.format = format,
		.policy = policy,
		.n_most = n_most,
	};
	struct hm_video *video;

	if (!vivid_find(path))
		return NULL;
	vivid_show(path, BARS);
	CHECK_OK_FATAL(hm_device_open("host", &device));
	desc.device = device;
	snprintf(input, sizeof(input), "v4l2:%s", path);
	CHECK_OK_FATAL(hm_video_open(input, &desc, &video));
	return video;
}

static void close_camera(struct hm_video *video)
{
	hm_video_unref(video);
	hm_device_unref(device);
}

static struct hm_video_info video_info(struct hm_video *video)
{
	struct hm_video_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_video_query(video, &info));
	return info;
}

/* Luma of the bars, in the order of bars_off(). The facts of the frame say how. */
static void check_luma(const struct hm_frame_info *info, uint32_t step)
{
	static const double rgb[8][3] = {
		{ 1, 1, 1 }, { 1, 1, 0 }, { 0, 1, 1 }, { 0, 1, 0 },
		{ 1, 0, 1 }, { 1, 0, 0 }, { 0, 0, 1 }, { 0, 0, 0 },
	};
	const bool bt709 = info->props.matrix == 1;
	const double red = bt709 ? 0.2126 : 0.299, blue = bt709 ? 0.0722 : 0.114;
	const uint8_t *row = info->address[0];
	unsigned int bar;
	double luma;
	int is;

	CHECK(bt709 || info->props.matrix == 6);
	CHECK(info->props.range != HM_FRAME_RANGE_UNKNOWN);
	row += HEIGHT / 2 * info->plane[0].stride;
	for (bar = 0; bar < 8; bar++) {
		luma = red * rgb[bar][0] + (1 - red - blue) * rgb[bar][1] + blue * rgb[bar][2];
		luma = info->props.range == HM_FRAME_RANGE_FULL ? 255 * luma : 16 + 219 * luma;
		is = row[(2 * bar + 1) * WIDTH / 16 * step];
		if (is < luma - TOLERANCE || is > luma + TOLERANCE)
			test_fail(__FILE__, __LINE__, "luma of bar %u is %d, not %.0f", bar, is,
				  luma);
	}
}

static void check_picture(struct hm_frame *frame, uint32_t fourcc, int64_t *last)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	uint64_t bytes;

	CHECK_OK_FATAL(hm_frame_query(frame, &info));
	CHECK_EQUAL(info.fourcc, fourcc);
	CHECK_EQUAL(info.props.visible.width, WIDTH);
	CHECK_EQUAL(info.props.visible.height, HEIGHT);
	CHECK(info.props.timestamp > *last);
	*last = info.props.timestamp;
	bytes = hm_map_length(info.map[0]);
	CHECK_OK_FATAL(hm_map_begin_cpu(info.map[0], 0, bytes, HM_READ));
	if (fourcc == HM_FRAME_XRGB8888)
		CHECK(bars_off(info.address[0], info.plane[0].stride, WIDTH, HEIGHT) <=
		      TOLERANCE);
	else
		check_luma(&info, fourcc == HM_FRAME_YUYV ? 2 : 1);
	CHECK_OK(hm_map_end_cpu(info.map[0], 0, bytes, HM_READ));
}

static void pictures(const char *format, uint32_t fourcc, uint32_t flags, uint32_t memory)
{
	struct hm_video *video = open_camera(format, flags, HM_FRAME_DROP_OLDEST, 0);
	struct hm_video_info info;
	struct hm_frame *frame;
	int64_t last = -1;
	unsigned int i;

	if (!video)
		return;
	/* More than there are buffers: each comes back. */
	for (i = 0; i < 24; i++) {
		CHECK_OK_FATAL(hm_video_read(video, &frame));
		check_picture(frame, fourcc, &last);
		hm_frame_unref(frame);
	}
	info = video_info(video);
	CHECK_EQUAL(info.memory, memory);
	CHECK_EQUAL(info.bytes_copied, 0);
	CHECK_EQUAL(info.in_place, 1);
	CHECK_EQUAL(info.pictures, 24);
	close_camera(video);
}

static void dmabuf(void)
{
	pictures("NV12:640x480", HM_FRAME_NV12, HM_VIDEO_DMABUF, HM_VIDEO_MEMORY_DMABUF);
	pictures("YUYV:640x480", HM_FRAME_YUYV, HM_VIDEO_DMABUF, HM_VIDEO_MEMORY_DMABUF);
	pictures("XR24:640x480", HM_FRAME_XRGB8888, HM_VIDEO_DMABUF, HM_VIDEO_MEMORY_DMABUF);
}

static void expbuf(void)
{
	pictures("NV12:640x480", HM_FRAME_NV12, HM_VIDEO_EXPBUF, HM_VIDEO_MEMORY_EXPBUF);
	pictures("YUYV:640x480", HM_FRAME_YUYV, HM_VIDEO_EXPBUF, HM_VIDEO_MEMORY_EXPBUF);
	pictures("XR24:640x480", HM_FRAME_XRGB8888, HM_VIDEO_EXPBUF, HM_VIDEO_MEMORY_EXPBUF);
}

/* Frames outlive the camera, and the ones that consumers have keep their bytes. */
static void outlives(void)
{
	static const uint32_t ways[] = { HM_VIDEO_DMABUF, HM_VIDEO_EXPBUF };
	struct hm_frame *frame;
	struct hm_video *video;
	int64_t last = -1;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		video = open_camera("XR24:640x480", ways[i], HM_FRAME_DROP_OLDEST, 0);
		if (!video)
			return;
		CHECK_OK_FATAL(hm_video_read(video, &frame));
		close_camera(video);
		check_picture(frame, HM_FRAME_XRGB8888, &last);
		hm_frame_unref(frame);
	}
}

/* ---- policies ---- */

static int64_t time_of(struct hm_frame *frame)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_frame_query(frame, &info));
	return info.props.timestamp;
}

/* A consumer that reads one picture, and the next one long after that: seconds between them. */
static double gap(uint32_t flags, uint32_t policy, uint64_t *ret_dropped)
{
	struct hm_video *video = open_camera("YUYV:640x480", flags, policy, 8);
	struct hm_frame *frame;
	int64_t first, second;

	if (!video)
		return -1;
	CHECK_OK_FATAL(hm_video_read(video, &frame));
	first = time_of(frame);
	hm_frame_unref(frame);
	sleep(3);
	CHECK_OK_FATAL(hm_video_read(video, &frame));
	second = time_of(frame);
	hm_frame_unref(frame);
	*ret_dropped = video_info(video).dropped;
	close_camera(video);
	return (double)(second - first) / 1e6;
}

static void policies(void)
{
	static const uint32_t ways[] = { HM_VIDEO_DMABUF, HM_VIDEO_EXPBUF };
	uint64_t dropped = 0;
	unsigned int i;
	double seconds;

	for (i = 0; i < 2; i++) {
		seconds = gap(ways[i], HM_FRAME_DROP_OLDEST, &dropped);
		if (seconds < 0)
			return;
		CHECK(seconds > 1);
		CHECK(dropped > 0);
		CHECK(gap(ways[i], HM_FRAME_DROP_NEWEST, &dropped) < 1);
		CHECK(dropped > 0);
		CHECK(gap(ways[i], HM_FRAME_WAIT, &dropped) < 1);
	}
}

/* ---- refusals ---- */

/* Without a camera, too. */
static void refused(void)
{
	struct hm_video_desc desc = { .struct_size = sizeof(desc) };
	struct hm_video *video;

	CHECK_OK_FATAL(hm_device_open("host", &device));
	desc.device = device;
	CHECK_ERROR(-ENOENT, hm_video_open("v4l2:/dev/no-such-camera", &desc, &video));
	CHECK_ERROR(-EOPNOTSUPP, hm_video_open("v4l2:/dev/null", &desc, &video));
	desc.policy = 3;
	CHECK_ERROR(-EINVAL, hm_video_open("v4l2:/dev/null", &desc, &video));
	desc.policy = 0;
	desc.flags = 4;
	CHECK_ERROR(-EINVAL, hm_video_open("v4l2:/dev/null", &desc, &video));
	desc.flags = 0;
	desc.device = NULL;
	CHECK_ERROR(-EINVAL, hm_video_open("v4l2:/dev/null", &desc, &video));
	hm_device_unref(device);
}

/* Formats that parse badly, or that the camera has not; a camera that is in use. */
static void refused_by_camera(void)
{
	static const char *const formats[] = { "NV12",         "NV12:640",
					       "NV12:0x480",   "P010:640x480",
					       "ABCD:640x480", "NV12:640x480@x",
					       "NV12:1x1",     "NV12:60000x480" };
	struct hm_video *video = open_camera("NV12:640x480", 0, 0, 0), *other;
	struct hm_video_desc desc = { .struct_size = sizeof(desc) };
	char path[PATH_ROOM], input[PATH_ROOM + 8];
	unsigned int i;

	if (!video || !vivid_find(path))
		return;
	snprintf(input, sizeof(input), "v4l2:%s", path);
	desc.device = device;
	CHECK_ERROR(-EBUSY, hm_video_open(input, &desc, &other));
	hm_video_unref(video);
	for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		desc.format = formats[i];
		CHECK_ERROR(-EINVAL, hm_video_open(input, &desc, &other));
	}
	desc.format = "NV12:640x480";
	desc.n_most = 1;
	CHECK_ERROR(-EINVAL, hm_video_open(input, &desc, &other));
	hm_device_unref(device);
}

static const struct test tests[] = {
	{ .name = "dmabuf", dmabuf, 120 },
	{ .name = "expbuf", expbuf, 120 },
	{ .name = "outlives", outlives, 60 },
	{ .name = "policies", policies, 120 },
	{ .name = "refused", refused, 60 },
	{ .name = "refused_by_camera", refused_by_camera, 60 },
	{ 0 },
};

TEST_MAIN(harness_main, "video_camera", tests)
#else
#include "video/not_built.h"
#endif
