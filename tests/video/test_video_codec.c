// SPDX-License-Identifier: MIT
/*
 * Codecs: streams of FWHT, made by vicodec's encoder, decoded by its decoder into frames, which a
 * display of vkms shows as they are or converted, and writes back.
 */
#ifdef HAVE_VIDEO
#include <convert.h>
#include <display_inner.h>
#include <errno.h>
#include <hetmap/video.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/command.h"
#include "lib/support.h"
#include "video/clips.h"
#include "video/codec.h"
#include "video/runs.h"

#define WIDTH 640
#define HEIGHT 480
#define PICTURES 6
#define MANY 12 /* a stream that is larger than the codec's buffers, so that pictures are cut */
/* Steps of 255: FWHT and the rounding of YUV change a full colour and grey so much. */
#define TOLERANCE 12

static struct hm_device *device;
static char *folder;

/* The stream of a test, of @n pictures; NULL: the test is left out. */
static char *stream_of(bool rgb, unsigned int n, char codec[PATH_ROOM])
{
	char *path;

	if (!codec_find(codec))
		return NULL;
	folder = folder_make();
	path = folder_path(folder, "clip.fwht");
	codec_encode(path, rgb, WIDTH, HEIGHT, n);
	CHECK_OK_FATAL(hm_device_open("host", &device));
	return path;
}

static char *stream_make(bool rgb, char codec[PATH_ROOM])
{
	return stream_of(rgb, PICTURES, codec);
}

static void stream_free(char *path)
{
	hm_device_unref(device);
	folder_remove(folder);
	free(path);
}

static struct hm_video *open_codec(const char *path, const char *codec, uint32_t flags)
{
	struct hm_video *video;

	CHECK_OK_FATAL(hm_video_open(path,
				     DESC(hm_video_desc, .flags = flags, .device = device,
					  .format = "FWHT", .codec = codec),
				     &video));
	return video;
}

/* Bars and mark of picture @number in XRGB8888. */
static void check_pixels(const uint8_t *pixels, uint64_t stride, unsigned int number)
{
	const uint8_t *mark = pixels + MARK_ROW(HEIGHT) * stride + WIDTH / 2 * 4;
	unsigned int off = bars_off(pixels, stride, WIDTH, HEIGHT);

	if (off > TOLERANCE)
		test_fail(__FILE__, __LINE__, "a bar of picture %u is %u of 255 off", number,
			  off);
	if (abs(*mark - (int)MARK(number)) > TOLERANCE)
		test_fail(__FILE__, __LINE__, "the mark is %u, not %u", *mark, MARK(number));
}

/* ---- decoding ---- */

static void decode(uint32_t flags, uint32_t memory)
{
	struct hm_frame_info frame_info = { .struct_size = sizeof(frame_info) };
	struct hm_video_info info = { .struct_size = sizeof(info) };
	char codec[PATH_ROOM], *path = stream_of(true, MANY, codec);
	struct hm_video *video;
	struct hm_frame *frame;
	unsigned int i;
	uint64_t bytes;

	if (!path)
		return;
	CHECK(clip_length(path) > 921600);
	video = open_codec(path, codec, flags);
	for (i = 0; i < MANY; i++) {
		CHECK_OK_FATAL(hm_video_read(video, &frame));
		CHECK_OK_FATAL(hm_frame_query(frame, &frame_info));
		CHECK_EQUAL(frame_info.fourcc, HM_FRAME_XRGB8888);
		CHECK_EQUAL(frame_info.props.visible.width, WIDTH);
		CHECK_EQUAL(frame_info.props.visible.height, HEIGHT);
		CHECK(frame_info.props.timestamp == HM_FRAME_NO_TIME);
		bytes = hm_map_length(frame_info.map[0]);
		CHECK_OK_FATAL(hm_map_begin_cpu(frame_info.map[0], 0, bytes, HM_READ));
		check_pixels(frame_info.address[0], frame_info.plane[0].stride, i);
		CHECK_OK(hm_map_end_cpu(frame_info.map[0], 0, bytes, HM_READ));
		hm_frame_unref(frame);
	}
	CHECK_ERROR(-ENODATA, hm_video_read(video, &frame));
	CHECK_ERROR(-ENODATA, hm_video_read(video, &frame));
	CHECK_OK(hm_video_query(video, &info));
	CHECK(!strcmp(info.decoder, "vicodec"));
	CHECK_EQUAL(info.memory, memory);
	CHECK_EQUAL(info.pictures, MANY);
	CHECK_EQUAL(info.bytes_copied, 0);
	CHECK_EQUAL(info.dropped, 0);
	hm_video_unref(video);
	stream_free(path);
}

static void dmabuf(void)
{
	decode(HM_VIDEO_DMABUF, HM_VIDEO_MEMORY_DMABUF);
}

static void expbuf(void)
{
	decode(HM_VIDEO_EXPBUF, HM_VIDEO_MEMORY_EXPBUF);
}

/* A consumer that keeps the first pictures for a while: nothing is dropped. */
static void slow_consumer(void)
{
	char codec[PATH_ROOM], *path = stream_make(true, codec);
	struct hm_frame_info info = { .struct_size = sizeof(info) };
	struct hm_frame *frames[PICTURES];
	struct hm_video *video;
	unsigned int i;

	if (!path)
		return;
	video = open_codec(path, codec, HM_VIDEO_DMABUF);
	for (i = 0; i < PICTURES; i++) {
		CHECK_OK_FATAL(hm_video_read(video, &frames[i]));
		usleep(20000);
	}
	hm_video_unref(video);
	for (i = 0; i < PICTURES; i++) {
		CHECK_OK_FATAL(hm_frame_query(frames[i], &info));
		check_pixels(info.address[0], info.plane[0].stride, i);
		hm_frame_unref(frames[i]);
	}
	stream_free(path);
}

/* ---- the display ---- */

static struct display *open_vkms(char card[PATH_ROOM])
{
	struct display *display;

	if (!card_find("vkms", card))
		return NULL;
	CHECK_OK_FATAL(display_open(card, device, true, &display));
	CHECK(display->info.writeback);
	return display;
}

/* Compares vkms's writeback of its screen. */
static void check_screen(struct display *display, unsigned int number)
{
	const unsigned char *pixels;
	uint32_t stride;

	CHECK_OK_FATAL(display_writeback_read(display, &pixels, &stride));
	check_pixels(pixels, stride, number);
}

static void check_shown(struct display *display, uint64_t imported)
{
	struct display_info info;

	display_query(display, &info);
	CHECK_EQUAL(info.shown, PICTURES);
	CHECK_EQUAL(info.checked, PICTURES);
	CHECK_EQUAL(info.imported, imported);
	CHECK_EQUAL(!*info.not_imported, imported > 0);
}

static void show_as_they_are(uint32_t flags)
{
	char codec[PATH_ROOM], card[PATH_ROOM], *path = stream_make(true, codec);
	struct display *display = path ? open_vkms(card) : NULL;
	struct hm_video *video;
	struct hm_frame *frame;
	unsigned int i;

	if (display) {
		video = open_codec(path, codec, flags);
		for (i = 0; i < PICTURES; i++) {
			CHECK_OK_FATAL(hm_video_read(video, &frame));
			CHECK_OK_FATAL(display_import(display, frame));
			CHECK_OK_FATAL(display_show(display, frame));
			check_screen(display, i);
			hm_frame_unref(frame);
		}
		check_shown(display, PICTURES);
		display_close(display);
		hm_video_unref(video);
	}
	if (path)
		stream_free(path);
}

static void shown_dmabuf(void)
{
	show_as_they_are(HM_VIDEO_DMABUF);
}

static void shown_expbuf(void)
{
	show_as_they_are(HM_VIDEO_EXPBUF);
}

static void convert_and_show(struct display *display, struct hm_queue *queue,
			     struct hm_kernel *kernel, struct hm_frame *picture)
{
	struct hm_frame_info from = { .struct_size = sizeof(from) };
	struct hm_frame_info to = { .struct_size = sizeof(to) };
	struct hm_fence *fence;
	AUTO(hm_frame) *shown = NULL;

	CHECK_OK_FATAL(hm_frame_query(picture, &from));
	CHECK_OK_FATAL(display_acquire(display, WIDTH, HEIGHT, 1000000000, &shown));
	CHECK_OK_FATAL(hm_frame_query(shown, &to));
	CHECK_OK_FATAL(convert_launch(queue, kernel, &from, &to, &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	CHECK_OK(display_show(display, shown));
}

/* vkms has no plane of YUV: frames of the display, which the accelerator converts into. */
static void shown_converted(void)
{
	char codec[PATH_ROOM], card[PATH_ROOM], *path = stream_make(false, codec);
	struct display *display = path ? open_vkms(card) : NULL;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	struct hm_video *video;
	struct hm_frame *frame;
	unsigned int i;

	if (display) {
		CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
		CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
		CHECK_OK_FATAL(convert_create(&kernel));
		video = open_codec(path, codec, HM_VIDEO_DMABUF);
		for (i = 0; i < PICTURES; i++) {
			CHECK_OK_FATAL(hm_video_read(video, &frame));
			CHECK_ERROR(-EOPNOTSUPP, display_import(display, frame));
			convert_and_show(display, queue, kernel, frame);
			check_screen(display, i);
			hm_frame_unref(frame);
		}
		check_shown(display, 0);
		display_close(display);
		hm_video_unref(video);
		hm_kernel_unref(kernel);
		hm_queue_unref(queue);
		hm_accel_unref(accel);
	}
	if (path)
		stream_free(path);
}

/* ---- the command ---- */

static void command(void)
{
	char codec[PATH_ROOM], card[PATH_ROOM], sink[PATH_ROOM + 16];
	char *path = stream_make(true, codec);
	const json_t *copied, *display;
	json_t *json;

	if (path && card_find("vkms", card)) {
		snprintf(sink, sizeof(sink), "display:%s", card);
		json = run_video(&(const struct command){
			.args = { "run", "video", "--json", "--accel", "cpu", "--codec", codec,
				  "--format", "FWHT", "--sink", sink, "--check", "--",
				  path } });
		copied = json_object_get(json, "bytes_copied");
		display = json_object_get(json, "display");
		CHECK_EQUAL(integer_of(json, "pictures"), PICTURES);
		CHECK_EQUAL(integer_of(json, "dropped"), 0);
		CHECK(!strcmp(string_of(json, "codec"), "dmabuf"));
		CHECK_EQUAL(integer_of(copied, "decode"), 0);
		CHECK_EQUAL(integer_of(copied, "convert"), 0);
		CHECK_EQUAL(integer_of(display, "shown"), PICTURES);
		CHECK_EQUAL(integer_of(display, "checked"), PICTURES);
		CHECK_EQUAL(integer_of(display, "imported"), PICTURES);
		CHECK(json_is_true(json_object_get(display, "writeback")));
		json_decref(json);
	}
	if (path)
		stream_free(path);
}

/* ---- damage, and refused calls ---- */

static void check_read_ends(struct hm_video *video, int r, unsigned int n)
{
	struct hm_frame *frame;
	unsigned int i = 0;
	int is;

	while (!(is = hm_video_read(video, &frame))) {
		hm_frame_unref(frame);
		i++;
	}
	CHECK_EQUAL(is, r);
	CHECK_EQUAL(i, n);
	CHECK(*hm_errmsg());
	hm_video_unref(video);
}

/* A picture of another size behind the others. */
static void other_size(void)
{
	char codec[PATH_ROOM], *path = stream_make(true, codec);

	if (!path)
		return;
	codec_encode(path, true, 1280, 720, 2);
	check_read_ends(open_codec(path, codec, 0), -EOPNOTSUPP, PICTURES);
	stream_free(path);
}

/* Bytes that are no stream, and none at all. */
static void no_stream(void)
{
	char codec[PATH_ROOM], *path = stream_make(true, codec), *bad;
	struct hm_video_desc desc = { .struct_size = sizeof(desc), .format = "FWHT" };
	struct hm_video *video;
	FILE *file;
	int i;

	if (!path)
		return;
	desc.device = device;
	desc.codec = codec;
	bad = folder_path(folder, "bad");
	for (i = 0; i < 2; i++) {
		file = fopen(bad, "we");
		CHECK_FATAL(file);
		while (i && ftell(file) < 3000000)
			fputs("This is no stream of FWHT. ", file);
		CHECK_EQUAL(fclose(file), 0);
		CHECK_ERROR(-EBADMSG, hm_video_open(bad, &desc, &video));
	}
	desc.format = "H264";
	CHECK_ERROR(-EOPNOTSUPP, hm_video_open(path, &desc, &video));
	desc.format = NULL;
	CHECK_ERROR(-EINVAL, hm_video_open(path, &desc, &video));
	desc.format = "FWHT";
	CHECK_ERROR(-ENOENT, hm_video_open("/no/such/file", &desc, &video));
	CHECK_ERROR(-EISDIR, hm_video_open(folder, &desc, &video));
	free(bad);
	stream_free(path);
}

/* Without a codec, too. */
static void refused(void)
{
	struct hm_video_desc desc = { .struct_size = sizeof(desc), .format = "FWHT" };
	struct hm_video *video;

	CHECK_OK_FATAL(hm_device_open("host", &desc.device));
	desc.codec = "/dev/video0";
	CHECK_ERROR(-EINVAL, hm_video_open("clip.fwht", &desc, &video));
	desc.codec = "v4l2:/dev/no-such-codec";
	CHECK_ERROR(-ENOENT, hm_video_open("clip.fwht", &desc, &video));
	desc.codec = "v4l2:/dev/null";
	CHECK_ERROR(-EOPNOTSUPP, hm_video_open("clip.fwht", &desc, &video));
	CHECK_ERROR(-EINVAL, hm_video_open("v4l2:/dev/video0", &desc, &video));
	hm_device_unref(desc.device);
	check_failure(&(const struct command){ .args = { "run", "video", "--decoders", "2",
							 "--codec", "v4l2:/dev/video1",
							 "clip.fwht" } },
		      2, "--codec decodes once");
}

static const struct test tests[] = {
	{ .name = "dmabuf", dmabuf, 60 },
	{ .name = "expbuf", expbuf, 60 },
	{ .name = "slow_consumer", slow_consumer, 60, TEST_ONCE },
	{ .name = "shown_dmabuf", shown_dmabuf, 60, TEST_ONCE },
	{ .name = "shown_expbuf", shown_expbuf, 60, TEST_ONCE },
	{ .name = "shown_converted", shown_converted, 60, TEST_ONCE },
	{ .name = "command", command, 60, TEST_ONCE },
	{ .name = "other_size", other_size, 60, TEST_ONCE },
	{ .name = "no_stream", no_stream, 60, TEST_ONCE },
	{ .name = "refused", refused, 60 },
	{ 0 },
};

TEST_MAIN(harness_main, "video_codec", tests)
#else
#include "video/not_built.h"
#endif
