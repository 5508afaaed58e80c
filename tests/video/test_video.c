// SPDX-License-Identifier: MIT
/* hm_video: pictures in frames without a copy, the same as libavcodec's own. */
#ifdef HAVE_VIDEO
#include <errno.h>
#include <hetmap/video.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/support.h"
#include "video/clips.h"

static const char *const h264_709[] = { "-c:v",        "libx264",      "-pix_fmt",
					"yuv420p",     "-color_range", "pc",
					"-colorspace", "bt709",        "-color_trc",
					"bt709",       "-bf",          "0",
					NULL };
static const char *const uncompressed[] = { "-c:v", "rawvideo", "-pix_fmt", "yuv420p", NULL };
static const char *const nv12[] = { "-pix_fmt", "nv12", "-f", "rawvideo", NULL };

static struct hm_frame_info frame_info(struct hm_frame *frame)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_frame_query(frame, &info));
	return info;
}

static struct hm_frame_pool_info pool_info(struct hm_frame_pool *pool)
{
	struct hm_frame_pool_info info = { .struct_size = sizeof(info) };

	CHECK_OK_FATAL(hm_frame_pool_query(pool, &info));
	return info;
}

/* The visible rows of each plane, which is in memory from @base on, are those of @picture. */
static bool same_picture(const struct hm_frame_info *info, const unsigned char *base,
			 const AVFrame *picture)
{
	const struct hm_frame_rect *visible = &info->props.visible;
	uint32_t i, row, half, rows, bytes;

	for (i = 0; i < info->n_planes; i++) {
		half = i && info->fourcc == HM_FRAME_YUV420;
		rows = half ? (visible->height + 1) / 2 : visible->height;
		bytes = half ? (visible->width + 1) / 2 : visible->width;
		for (row = 0; row < rows; row++)
			if (memcmp(base + info->plane[i].offset + row * info->plane[i].stride,
				   picture->data[i] + (int)row * picture->linesize[i],
				   bytes) != 0)
				return false;
	}
	return true;
}

/* Through a second map of the frame's memory, which only the kernel connects with it. */
static void check_second_map(struct hm_frame *frame, const AVFrame *picture)
{
	struct hm_frame_objects objects = { .struct_size = sizeof(objects) };
	const struct hm_frame_info info = frame_info(frame);
	unsigned char *second, *first = info.address[0];

	CHECK_OK_FATAL(hm_frame_export(frame, 0, &objects));
	second = mmap(NULL, objects.size[0], PROT_READ | PROT_WRITE, MAP_SHARED, objects.fd[0],
		      0);
	CHECK_FATAL(second != MAP_FAILED);
	CHECK(same_picture(&info, second, picture));
	/* And the other way round: the same pages. */
	second[info.plane[0].offset] ^= 0xff;
	CHECK(*first == second[info.plane[0].offset]);
	second[info.plane[0].offset] ^= 0xff;
	munmap(second, objects.size[0]);
	close(objects.fd[0]);
}

/* The planes are inside of the map of one buffer, each a unified pointer. */
static void check_planes(struct hm_frame *frame)
{
	const struct hm_frame_info info = frame_info(frame);
	struct hm_pointer_info at;
	uint32_t i;

	CHECK_EQUAL(info.n_objects, 1);
	for (i = 0; i < info.n_planes; i++) {
		CHECK_OK(hm_pointer_find(info.address[i], &at));
		CHECK(at.map == info.map[0]);
		CHECK_EQUAL(at.map_offset, info.plane[i].offset);
	}
}

/* Each picture of the clip is that of a plain decoder, in place. @visible: all of it is shown. */
static void compare(const char *path, uint64_t copied)
{
	AUTO(hm_device) *device = host_device();
	AUTO(hm_video) *video = video_open(device, path);
	uint64_t before = stats_now().bytes_copied;
	struct hm_frame *frame;
	struct hm_frame_info info;
	struct plain plain;
	unsigned int n = 0;
	int r;

	CHECK_FATAL(plain_open(&plain, path));
	while (!(r = hm_video_read(video, &frame)) && plain_next(&plain)) {
		info = frame_info(frame);
		CHECK_EQUAL(info.props.visible.width, plain.picture->width);
		CHECK_EQUAL(info.props.visible.height, plain.picture->height);
		CHECK(same_picture(&info,
				   (unsigned char *)info.address[0] - info.plane[0].offset,
				   plain.picture));
		check_planes(frame);
		check_second_map(frame, plain.picture);
		hm_frame_unref(frame);
		n++;
	}
	CHECK_EQUAL(r, -ENODATA);
	CHECK(!plain_next(&plain));
	CHECK_EQUAL(n, 25);
	CHECK_EQUAL(video_info(video).pictures, 25);
	CHECK_EQUAL(video_info(video).bytes_copied, copied);
	CHECK_EQUAL(stats_now().bytes_copied, before);
	/* The video stays at its end. */
	CHECK_ERROR(-ENODATA, hm_video_read(video, &frame));
	plain_close(&plain);
}

static void compare_clip(const char *name, unsigned int width, unsigned int height,
			 const char *const *options, uint64_t copied)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *path = clip_make(folder, name, width, height, options);

	if (path)
		compare(path, copied);
}

static void in_place_h264(void)
{
	compare_clip("clip.mp4", 320, 240, clip_h264, 0);
}

static void in_place_mjpeg(void)
{
	compare_clip("clip.avi", ODD_WIDTH, ODD_HEIGHT, clip_mjpeg, 0);
}

static void in_place_vp9(void)
{
	compare_clip("clip.webm", ODD_WIDTH, ODD_HEIGHT, clip_vp9, 0);
}

static void in_place_mpeg2(void)
{
	compare_clip("clip.mpg", 320, 240, clip_mpeg2, 0);
}

static void in_place_y4m(void)
{
	compare_clip("clip.y4m", ODD_WIDTH, ODD_HEIGHT, clip_y4m, 0);
}

/* A decoder that gives the packet's bytes: a copy, which is counted. */
static void copied_raw(void)
{
	compare_clip("clip.avi", 320, 240, uncompressed, 25ull * 320 * 240 * 3 / 2);
}

/* ---- raw files ---- */

static void raw(void)
{
	static const char *const wrong[] = { "",          "nv12",           "nv12:0x2",
					     "nv12:2x",   "nv12:321x243@",  "nv12:-1x2",
					     "nv12:2x2x", "nv12:99999999x2" };
	const uint64_t size = 320 * 240 * 3 / 2;
	AUTO(hm_device) *device = host_device();
	struct hm_video_desc desc = video_desc(device);
	unsigned char *bytes = malloc(size);
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *path = clip_make(folder, "clip.raw", 320, 240, nv12);
	struct hm_frame_info info;
	struct hm_frame *frame;
	struct hm_video *video;
	unsigned int n = 0, row;
	FILE *file;
	size_t i;

	if (!path)
		goto out;
	desc.format = "NV12:320x240@30000/1001";
	CHECK_OK_FATAL(hm_video_open(path, &desc, &video));
	file = fopen(path, "re");
	while (!hm_video_read(video, &frame)) {
		info = frame_info(frame);
		CHECK_EQUAL(fread(bytes, 1, size, file), size);
		CHECK_EQUAL(info.fourcc, HM_FRAME_NV12);
		CHECK_EQUAL(info.props.timestamp, n++);
		CHECK_EQUAL(info.props.time_base_num, 1001);
		for (row = 0; row < 240; row++)
			CHECK(!memcmp((char *)info.address[0] + row * info.plane[0].stride,
				      bytes + row * 320ul, 320));
		for (row = 0; row < 120; row++)
			CHECK(!memcmp((char *)info.address[1] + row * info.plane[1].stride,
				      bytes + (240 + row) * 320ul, 320));
		hm_frame_unref(frame);
	}
	CHECK_EQUAL(n, 25);
	fclose(file);
	hm_video_unref(video);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		desc.format = wrong[i];
		CHECK_ERROR(-EINVAL, hm_video_open(path, &desc, &video));
	}
	desc.format = "rgb24:320x240";
	CHECK_ERROR(-EOPNOTSUPP, hm_video_open(path, &desc, &video));
out:
	free(bytes);
}

/* ---- facts of a picture ---- */

static void facts(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *path = clip_make(folder, "clip.mp4", 322, 242, h264_709);
	AUTO(hm_device) *device = host_device();
	struct hm_frame_info info;
	struct hm_frame *frame;
	AUTO(hm_video) *video = NULL;
	int64_t last = -1;

	if (!path)
		return;
	video = video_open(device, path);
	CHECK_EQUAL(video_info(video).fourcc, HM_FRAME_YUV420);
	CHECK_EQUAL(video_info(video).rate_num / video_info(video).rate_den, 25);
	CHECK(!strcmp(video_info(video).decoder, "h264"));
	while (!hm_video_read(video, &frame)) {
		info = frame_info(frame);
		/* Coded in blocks of 16. */
		CHECK(info.width >= 336 && info.height >= 256);
		CHECK_EQUAL(info.props.visible.width, 322);
		CHECK_EQUAL(info.props.visible.height, 242);
		CHECK_EQUAL(info.props.range, HM_FRAME_RANGE_FULL);
		CHECK_EQUAL(info.props.matrix, 1);
		CHECK_EQUAL(info.props.transfer, 1);
		CHECK(info.props.timestamp > last);
		CHECK_EQUAL(info.props.duration * 25 * info.props.time_base_num,
			    info.props.time_base_den);
		last = info.props.timestamp;
		hm_frame_unref(frame);
	}
}

/* ---- frames and pools ---- */

/* Frames that a consumer keeps are no one else's, and stay when the video is gone. */
static void kept(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *path = clip_make(folder, "clip.mp4", 320, 240, clip_h264);
	AUTO(hm_device) *device = host_device();
	struct hm_frame *frame[25];
	struct hm_frame_info info;
	AUTO(hm_frame_pool) *pool = NULL;
	struct hm_video *video;
	struct plain plain;
	unsigned int i;

	if (!path)
		return;
	video = video_open(device, path);
	CHECK_OK(hm_video_pool(video, &pool));
	for (i = 0; i < 25; i++)
		CHECK_OK_FATAL(hm_video_read(video, &frame[i]));
	hm_video_unref(hm_video_ref(video));
	hm_video_unref(video);
	CHECK_EQUAL(pool_info(pool).held, 25);
	CHECK_FATAL(plain_open(&plain, path));
	for (i = 0; i < 25 && plain_next(&plain); i++) {
		info = frame_info(frame[i]);
		CHECK_EQUAL(info.refs, 1);
		CHECK(same_picture(&info,
				   (unsigned char *)info.address[0] - info.plane[0].offset,
				   plain.picture));
		hm_frame_unref(frame[i]);
	}
	CHECK_EQUAL(pool_info(pool).held, 0);
	plain_close(&plain);
}

struct reader {
	struct hm_video *video;
	unsigned int pictures;
	int r;
};

static void *read_all(void *user)
{
	struct reader *reader = user;
	struct hm_frame *frame;

	while (!(reader->r = hm_video_read(reader->video, &frame))) {
		reader->pictures++;
		hm_frame_unref(frame);
	}
	return NULL;
}

static void four_decoders(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *path = clip_make(folder, "clip.mp4", 320, 240, clip_h264);
	AUTO(hm_device) *device = host_device();
	struct hm_video_desc desc = video_desc(device);
	struct hm_frame_pool *pool, *same;
	struct reader reader[4] = { 0 };
	pthread_t thread[4];
	unsigned int i;

	if (!path)
		return;
	desc.threads = 2;
	for (i = 0; i < 4; i++) {
		CHECK_OK_FATAL(hm_video_open(path, &desc, &reader[i].video));
		if (!i) {
			CHECK_OK_FATAL(hm_video_pool(reader[0].video, &pool));
			desc.device = NULL;
			desc.pool = pool;
		}
		CHECK_OK_FATAL(hm_video_pool(reader[i].video, &same));
		CHECK(same == pool);
		hm_frame_pool_unref(same);
	}
	for (i = 0; i < 4; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, read_all, &reader[i]));
	for (i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		CHECK_EQUAL(reader[i].pictures, 25);
		CHECK_EQUAL(reader[i].r, -ENODATA);
		hm_video_unref(reader[i].video);
	}
	CHECK_EQUAL(pool_info(pool).held, 0);
	/* x264's 3 references and pictures being decoded, by each thread and one picture ahead. */
	CHECK(pool_info(pool).frames_peak <= 4 * 12);
	hm_frame_pool_unref(pool);
}

static void in_child(void *user)
{
	struct hm_frame *frame;

	CHECK_ERROR(-EOWNERDEAD, hm_video_read(user, &frame));
	hm_video_unref(user);
}

static void forked(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *path = clip_make(folder, "clip.y4m", 320, 240, clip_y4m);
	AUTO(hm_device) *device = host_device();
	struct hm_video *video;
	struct hm_frame *frame;

	if (path) {
		video = video_open(device, path);
		CHECK_EQUAL(test_fork(in_child, video), 0);
		CHECK_OK(hm_video_read(video, &frame));
		hm_frame_unref(frame);
		hm_video_unref(video);
	}
}

static const struct test tests[] = {
	{ .name = "in_place.h264", in_place_h264, 60 },
	{ .name = "in_place.mjpeg", in_place_mjpeg, 60 },
	{ .name = "in_place.vp9", in_place_vp9, 60 },
	{ .name = "in_place.mpeg2", in_place_mpeg2, 60 },
	{ .name = "in_place.y4m", in_place_y4m, 60 },
	{ .name = "copied.raw", copied_raw, 60 },
	{ .name = "raw", raw, 60 },
	{ .name = "facts", facts, 60 },
	{ .name = "kept", kept, 60 },
	{ .name = "four_decoders", four_decoders, 60 },
	{ .name = "forked", forked, 60 },
	{ 0 },
};

int main(int argc, char **argv)
{
	av_log_set_level(AV_LOG_QUIET);
	return harness_main(argc, argv, "video", tests);
}
#else
#include "video/not_built.h"
#endif
