// SPDX-License-Identifier: MIT
/* hm_video: pictures in frames without a copy, the same as libavcodec's own, and what fails. */
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

static const char *const h264[] = { "-c:v", "libx264", "-pix_fmt", "yuv420p", "-g", "12", NULL };
/* What says how long its pictures are comes before them. */
static const char *const faststart[] = { "-c:v",      "libx264",    "-pix_fmt", "yuv420p",
					 "-movflags", "+faststart", NULL };
static const char *const h264_709[] = { "-c:v",        "libx264",      "-pix_fmt",
					"yuv420p",     "-color_range", "pc",
					"-colorspace", "bt709",        "-color_trc",
					"bt709",       "-bf",          "0",
					NULL };
static const char *const mjpeg[] = { "-c:v", "mjpeg", "-q:v", "3", NULL };
static const char *const vp9[] = { "-c:v",     "libvpx-vp9", "-b:v", "1M",
				   "-pix_fmt", "yuv420p",    NULL };
static const char *const mpeg2[] = { "-c:v", "mpeg2video", "-q:v", "3", NULL };
static const char *const uncompressed[] = { "-c:v", "rawvideo", "-pix_fmt", "yuv420p", NULL };
static const char *const y4m[] = { "-pix_fmt", "yuv420p", NULL };
static const char *const nv12[] = { "-pix_fmt", "nv12", "-f", "rawvideo", NULL };
static const char *const deep[] = { "-c:v", "ffv1", "-pix_fmt", "yuv420p10le", NULL };

static struct hm_device *host(void)
{
	struct hm_device *device;

	CHECK_OK_FATAL(hm_device_open("host", &device));
	return device;
}

static struct hm_video_desc desc_of(struct hm_device *device)
{
	struct hm_video_desc desc = { .struct_size = sizeof(desc), .device = device };

	return desc;
}

static struct hm_video *open_video(struct hm_device *device, const char *path)
{
	const struct hm_video_desc desc = desc_of(device);
	struct hm_video *video;

	CHECK_OK_FATAL(hm_video_open(path, &desc, &video));
	return video;
}

static struct hm_video_info info_of(struct hm_video *video)
{
	struct hm_video_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_video_query(video, &info));
	return info;
}

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

/* Through a second map of the frame's memory, which nobody but the kernel connects with it. */
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
	struct hm_device *device = host();
	struct hm_video *video = open_video(device, path);
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
	CHECK_EQUAL(info_of(video).pictures, 25);
	CHECK_EQUAL(info_of(video).bytes_copied, copied);
	CHECK_EQUAL(stats_now().bytes_copied, before);
	/* It stays at its end. */
	CHECK_ERROR(-ENODATA, hm_video_read(video, &frame));
	plain_close(&plain);
	hm_video_unref(video);
	hm_device_unref(device);
}

static void compare_clip(const char *name, unsigned int width, unsigned int height,
			 const char *const *options, uint64_t copied)
{
	char *folder = folder_make();
	char *path = clip_make(folder, name, width, height, options);

	if (path)
		compare(path, copied);
	free(path);
	folder_remove(folder);
}

static void in_place_h264(void)
{
	compare_clip("clip.mp4", 320, 240, h264, 0);
}

static void in_place_mjpeg(void)
{
	compare_clip("clip.avi", ODD_WIDTH, ODD_HEIGHT, mjpeg, 0);
}

static void in_place_vp9(void)
{
	compare_clip("clip.webm", ODD_WIDTH, ODD_HEIGHT, vp9, 0);
}

static void in_place_mpeg2(void)
{
	compare_clip("clip.mpg", 320, 240, mpeg2, 0);
}

static void in_place_y4m(void)
{
	compare_clip("clip.y4m", ODD_WIDTH, ODD_HEIGHT, y4m, 0);
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
	struct hm_device *device = host();
	struct hm_video_desc desc = desc_of(device);
	unsigned char *bytes = malloc(size);
	char *folder = folder_make();
	char *path = clip_make(folder, "clip.raw", 320, 240, nv12);
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
	free(path);
	free(bytes);
	folder_remove(folder);
	hm_device_unref(device);
}

/* ---- what is told of a picture ---- */

static void facts(void)
{
	char *folder = folder_make();
	char *path = clip_make(folder, "clip.mp4", 322, 242, h264_709);
	struct hm_device *device = host();
	struct hm_frame_info info;
	struct hm_frame *frame;
	struct hm_video *video;
	int64_t last = -1;

	if (!path)
		goto out;
	video = open_video(device, path);
	CHECK_EQUAL(info_of(video).fourcc, HM_FRAME_YUV420);
	CHECK_EQUAL(info_of(video).rate_num / info_of(video).rate_den, 25);
	CHECK(!strcmp(info_of(video).decoder, "h264"));
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
	hm_video_unref(video);
out:
	free(path);
	folder_remove(folder);
	hm_device_unref(device);
}

/* ---- frames and pools ---- */

/* Frames that a consumer keeps are no one else's, and stay when the video is gone. */
static void kept(void)
{
	char *folder = folder_make();
	char *path = clip_make(folder, "clip.mp4", 320, 240, h264);
	struct hm_device *device = host();
	struct hm_frame *frame[25];
	struct hm_frame_info info;
	struct hm_frame_pool *pool;
	struct hm_video *video;
	struct plain plain;
	unsigned int i;

	if (!path)
		goto out;
	video = open_video(device, path);
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
	hm_frame_pool_unref(pool);
out:
	free(path);
	folder_remove(folder);
	hm_device_unref(device);
}

/* A limit that is below what the decoder needs ends in an error that says so, in time. */
static void limit(void)
{
	char *folder = folder_make();
	char *path = clip_make(folder, "clip.mp4", 320, 240, h264);
	struct hm_device *device = host();
	struct hm_video_desc desc = desc_of(device);
	struct hm_frame *frame, *all[32];
	unsigned int n = 0;
	struct hm_video *video;
	int r = 0;

	if (!path)
		goto out;
	desc.n_most = 6;
	desc.timeout_ns = 50 * 1000 * 1000;
	desc.threads = 1;
	CHECK_OK_FATAL(hm_video_open(path, &desc, &video));
	while (n < 25 && !(r = hm_video_read(video, &all[n])))
		n++;
	CHECK_EQUAL(r, -ETIME);
	CHECK(strstr(hm_errmsg(), "in use"));
	CHECK(n > 0 && n <= 6);
	while (n)
		hm_frame_unref(all[--n]);
	CHECK_ERROR(-ETIME, hm_video_read(video, &frame));
	hm_video_unref(video);
out:
	free(path);
	folder_remove(folder);
	hm_device_unref(device);
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
	char *folder = folder_make();
	char *path = clip_make(folder, "clip.mp4", 320, 240, h264);
	struct hm_device *device = host();
	struct hm_video_desc desc = desc_of(device);
	struct hm_frame_pool *pool, *same;
	struct reader reader[4] = { 0 };
	pthread_t thread[4];
	unsigned int i;

	if (!path)
		goto out;
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
	/* x264's 3 references and what is being decoded, by each thread and one picture ahead. */
	CHECK(pool_info(pool).frames_peak <= 4 * 12);
	hm_frame_pool_unref(pool);
out:
	free(path);
	folder_remove(folder);
	hm_device_unref(device);
}

/* A pool of other frames than the pictures are. */
static void wrong_pool(void)
{
	char *folder = folder_make();
	char *path = clip_make(folder, "clip.mp4", 320, 240, h264);
	struct hm_device *device = host();
	struct hm_frame_pool_desc pool_desc = {
		.struct_size = sizeof(pool_desc),
		.fourcc = HM_FRAME_NV12,
		.width = 640,
		.height = 480,
	};
	struct hm_video_desc desc = desc_of(NULL);
	struct hm_video *video;

	if (!path)
		goto out;
	CHECK_OK_FATAL(hm_frame_pool_create(device, &pool_desc, &desc.pool));
	CHECK_ERROR(-EINVAL, hm_video_open(path, &desc, &video));
	CHECK(strstr(hm_errmsg(), "NV12"));
	hm_frame_pool_unref(desc.pool);
	pool_desc.fourcc = HM_FRAME_YUV420;
	pool_desc.width = 160;
	CHECK_OK_FATAL(hm_frame_pool_create(device, &pool_desc, &desc.pool));
	CHECK_ERROR(-EINVAL, hm_video_open(path, &desc, &video));
	CHECK(strstr(hm_errmsg(), "160x"));
	hm_frame_pool_unref(desc.pool);
out:
	free(path);
	folder_remove(folder);
	hm_device_unref(device);
}

/* ---- what fails ---- */

/*
 * What comes before the damage is delivered, and the error after that is told again and again.
 * @silent: damage that nothing may tell of: other samples in a JPEG, whole pictures that are gone
 * from a stream without a container.
 */
static void damaged_maybe(const char *path, unsigned int least, unsigned int most, bool silent)
{
	struct hm_device *device = host();
	const struct hm_video_desc desc = desc_of(device);
	struct hm_frame *frame;
	struct hm_video *video;
	unsigned int n = 0;
	int r;

	r = hm_video_open(path, &desc, &video);
	if (r) {
		CHECK_EQUAL(r, -EBADMSG);
		CHECK(strstr(hm_errmsg(), path));
		CHECK_EQUAL(least, 0);
		hm_device_unref(device);
		return;
	}
	while (!(r = hm_video_read(video, &frame))) {
		n++;
		hm_frame_unref(frame);
	}
	if ((r != -EBADMSG && !(silent && r == -ENODATA)) || n < least || n > most)
		test_fail(__FILE__, __LINE__, "%s: %u pictures, then %d: %s", path, n, r,
			  hm_errmsg());
	CHECK(strstr(hm_errmsg(), path));
	CHECK_ERROR(r, hm_video_read(video, &frame));
	CHECK(strstr(hm_errmsg(), path));
	hm_video_unref(video);
	hm_device_unref(device);
}

static void damaged(const char *path, unsigned int least, unsigned int most)
{
	damaged_maybe(path, least, most, false);
}

static void truncated(void)
{
	static const struct {
		const char *name, *part;
		const char *const *options;
		unsigned int least;
	} clips[] = {
		{ "clip.h264", "part.h264", h264, 1 },   { "clip.avi", "part.avi", mjpeg, 1 },
		{ "clip.webm", "part.webm", vp9, 1 },    { "clip.mpg", "part.mpg", mpeg2, 1 },
		{ "clip.y4m", "part.y4m", y4m, 1 },      { "clip.mp4", "part.mp4", h264, 0 },
		{ "fast.mp4", "cut.mp4", faststart, 1 },
	};
	char *folder = folder_make();
	char *path, *part;
	size_t i;

	for (i = 0; i < sizeof(clips) / sizeof(clips[0]); i++) {
		path = clip_make(folder, clips[i].name, 320, 240, clips[i].options);
		if (!path)
			continue;
		part = clip_cut(folder, clips[i].part, path, clip_length(path) * 3 / 5, 0);
		/* Of a stream without a container nothing says that a picture should follow. */
		damaged_maybe(part, clips[i].least, 24, !strcmp(clips[i].name, "clip.h264"));
		free(part);
		free(path);
	}
	folder_remove(folder);
}

/* Bytes in the middle are not those of a picture; or the whole file is none. */
static void garbage(void)
{
	static const struct {
		const char *name;
		const char *const *options;
	} clips[] = { { "clip.h264", h264 }, { "clip.avi", mjpeg }, { "clip.mp4", h264 } };
	char *folder = folder_make();
	char *path, *part;
	size_t i;

	for (i = 0; i < sizeof(clips) / sizeof(clips[0]); i++) {
		path = clip_make(folder, clips[i].name, 320, 240, clips[i].options);
		if (!path)
			continue;
		part = clip_cut(folder, "wild", path, clip_length(path) / 2, 6000);
		damaged_maybe(part, 1, 25, strcmp(clips[i].name, "clip.mp4") != 0);
		free(part);
		part = clip_cut(folder, "none", path, 0, clip_length(path));
		damaged(part, 0, 0);
		free(part);
		free(path);
	}
	file_write(folder, "empty", "", 0);
	part = folder_path(folder, "empty");
	damaged(part, 0, 0);
	free(part);
	file_write(folder, "odd.y4m", "YUV4MPEG2 W0 H8 F25:1\n", 22);
	part = folder_path(folder, "odd.y4m");
	damaged(part, 0, 0);
	free(part);
	folder_remove(folder);
}

static void wrong_calls(void)
{
	struct hm_device *device = host();
	struct hm_video_desc desc = desc_of(device);
	struct {
		struct hm_video_desc desc;
		uint64_t more;
	} longer = { desc, 1 };
	char *folder = folder_make();
	char *path = clip_make(folder, "clip.mkv", 320, 240, deep);
	struct hm_video *video;

	CHECK_ERROR(-EINVAL, hm_video_open(NULL, &desc, &video));
	CHECK_ERROR(-EINVAL, hm_video_open("clip", NULL, &video));
	CHECK_ERROR(-ENOENT, hm_video_open("/nonexistent", &desc, &video));
	CHECK_ERROR(-EISDIR, hm_video_open("/", &desc, &video));
	desc.flags = 1;
	CHECK_ERROR(-EINVAL, hm_video_open("clip", &desc, &video));
	desc = desc_of(NULL);
	CHECK_ERROR(-EINVAL, hm_video_open("clip", &desc, &video));
	longer.desc.struct_size = sizeof(longer);
	CHECK_ERROR(-E2BIG, hm_video_open("clip", &longer.desc, &video));
	CHECK_ERROR(-EINVAL, hm_video_read(NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_video_query(NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_video_pool(NULL, NULL));
	CHECK(!hm_video_ref(NULL));
	hm_video_unref(NULL);
	/* Frames have no format for 10 bits in three planes. */
	desc = desc_of(device);
	if (path)
		CHECK_ERROR(-EOPNOTSUPP, hm_video_open(path, &desc, &video));
	if (path)
		CHECK(strstr(hm_errmsg(), "yuv420p10le"));
	free(path);
	folder_remove(folder);
	hm_device_unref(device);
}

static void in_child(void *user)
{
	struct hm_frame *frame;

	CHECK_ERROR(-EOWNERDEAD, hm_video_read(user, &frame));
	hm_video_unref(user);
}

static void forked(void)
{
	char *folder = folder_make();
	char *path = clip_make(folder, "clip.y4m", 320, 240, y4m);
	struct hm_device *device = host();
	struct hm_video *video;
	struct hm_frame *frame;

	if (path) {
		video = open_video(device, path);
		CHECK_EQUAL(test_fork(in_child, video), 0);
		CHECK_OK(hm_video_read(video, &frame));
		hm_frame_unref(frame);
		hm_video_unref(video);
	}
	free(path);
	folder_remove(folder);
	hm_device_unref(device);
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
	{ .name = "limit", limit, 60 },
	{ .name = "four_decoders", four_decoders, 60 },
	{ .name = "wrong_pool", wrong_pool, 60 },
	{ .name = "truncated", truncated, 120 },
	{ .name = "garbage", garbage, 120 },
	{ .name = "wrong_calls", wrong_calls, 60 },
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
