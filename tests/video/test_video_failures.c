// SPDX-License-Identifier: MIT
/* hm_video: damaged files, missing frames, wrong calls, and their texts. */
#ifdef HAVE_VIDEO
#include <errno.h>
#include <hetmap/backend.h>
#include <hetmap/video.h>
#include <stdlib.h>
#include <string.h>

#include "lib/minimal_backend.h"
#include "lib/support.h"
#include "video/clips.h"

/* The header with the lengths of pictures comes before them. */
static const char *const faststart[] = { "-c:v",      "libx264",    "-pix_fmt", "yuv420p",
					 "-movflags", "+faststart", NULL };
static const char *const deep[] = { "-c:v", "ffv1", "-pix_fmt", "yuv420p10le", NULL };

/* ---- frames ---- */

/* A limit below the decoder's need ends in an error that says so, in time. */
static void limit(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *path = clip_make(folder, "clip.mp4", 320, 240, clip_h264);
	AUTO(hm_device) *device = host_device();
	struct hm_video_desc desc = video_desc(device);
	struct hm_frame *frame, *all[32];
	unsigned int n = 0;
	AUTO(hm_video) *video = NULL;
	int r = 0;

	if (!path)
		return;
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
}

/* One frame is less than any decoder needs: no picture is left out in silence. */
static void starved(void)
{
	static const struct {
		const char *name;
		const char *const *options;
	} clips[] = { { "clip.mp4", clip_h264 },
		      { "clip.webm", clip_vp9 },
		      { "clip.mpg", clip_mpeg2 } };
	AUTO_TEXT *folder = folder_make();
	AUTO(hm_device) *device = host_device();
	struct hm_video_desc desc = video_desc(device);
	struct hm_frame *frame;
	struct hm_video *video;
	size_t i;
	int r;

	desc.n_most = 1;
	desc.timeout_ns = 20 * 1000 * 1000;
	for (i = 0; i < 2 * sizeof(clips) / sizeof(clips[0]); i++) {
		AUTO_TEXT *path =
			clip_make(folder, clips[i / 2].name, 320, 240, clips[i / 2].options);

		if (!path)
			continue;
		desc.threads = i % 2 ? 4 : 1;
		CHECK_OK_FATAL(hm_video_open(path, &desc, &video));
		while (!(r = hm_video_read(video, &frame)))
			hm_frame_unref(frame);
		if (r != -ETIME || !strstr(hm_errmsg(), "in use"))
			test_fail(__FILE__, __LINE__, "%s: %d: %s", path, r, hm_errmsg());
		hm_video_unref(video);
	}
}

/* A pool of other frames than the pictures are. */
static void wrong_pool(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *path = clip_make(folder, "clip.mp4", 320, 240, clip_h264);
	AUTO(hm_device) *device = host_device();
	struct hm_frame_pool_desc pool_desc = {
		.struct_size = sizeof(pool_desc),
		.fourcc = HM_FRAME_NV12,
		.width = 640,
		.height = 480,
	};
	struct hm_video_desc desc = video_desc(NULL);
	struct hm_video *video;

	if (!path)
		return;
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
}

static int bracketed_create(void *device, const struct hm_buffer_desc *desc,
			    struct hm_recipe *ret_recipe)
{
	int r = growing_backend.create(device, desc, ret_recipe);

	if (!r)
		ret_recipe->caps |= HM_CAP_BRACKET;
	return r;
}

static int bracket(void *device, const struct hm_segment *segments, uint32_t n, uint64_t offset,
		   uint64_t length, uint32_t access)
{
	(void)device, (void)segments, (void)n, (void)offset, (void)length, (void)access;
	return 0;
}

static struct hm_device *bracketed_open(void)
{
	static struct hm_backend_ops ops;
	struct hm_device *device;

	ops = growing_backend;
	ops.name = "bracketed";
	ops.caps |= HM_CAP_BRACKET | HM_BACKEND_BRACKET_END;
	ops.create = bracketed_create;
	ops.begin_cpu = bracket;
	ops.end_cpu = bracket;
	/* The second round finds it there. */
	CHECK_FATAL(!hm_device_open("bracketed", &device) ||
		    (!hm_backend_register(&ops) && !hm_device_open("bracketed", &device)));
	return device;
}

/* Frames that CPUs reach in brackets only: by the device, and by the pool of one. */
static void brackets(void)
{
	AUTO(hm_device) *device = bracketed_open();
	char *folder = folder_make(), *path[2];
	struct hm_frame_pool_info info = { .struct_size = sizeof(info) };
	struct hm_frame *frame;
	struct hm_video *video;
	size_t i;

	path[0] = clip_make(folder, "clip.mp4", 320, 240, clip_h264);
	path[1] = clip_make(folder, "clip.y4m", 320, 240, clip_y4m);
	for (i = 0; i < 2; i++) {
		struct hm_video_desc desc = video_desc(device);

		if (!path[i])
			continue;
		CHECK_ERROR(-EOPNOTSUPP, hm_video_open(path[i], &desc, &video));
		CHECK(strstr(hm_errmsg(), "brackets"));
		desc.device = NULL;
		CHECK_OK_FATAL(
			hm_frame_pool_create(device,
					     DESC(hm_frame_pool_desc, .fourcc = HM_FRAME_YUV420,
						  .width = 640, .height = 480),
					     &desc.pool));
		CHECK_OK_FATAL(hm_video_open(path[i], &desc, &video));
		CHECK_ERROR(-EOPNOTSUPP, hm_video_read(video, &frame));
		CHECK(strstr(hm_errmsg(), "brackets"));
		hm_video_unref(video);
		CHECK_OK(hm_frame_pool_query(desc.pool, &info));
		CHECK_EQUAL(info.held, 0);
		hm_frame_pool_unref(desc.pool);
		free(path[i]);
	}
	folder_remove(folder);
}

/* ---- files ---- */

/* Damage may also look like a feature that FFmpeg has not: the decoder says so in these words. */
static bool is_damage(int r)
{
	return r == -EBADMSG ||
	       (r == -EOPNOTSUPP && strstr(hm_errmsg(), "Not yet implemented in FFmpeg"));
}

/*
 * Pictures before the damage are delivered, and each read after that fails. @silent: damage
 * that may go unnoticed: other samples in a JPEG, whole pictures that are gone from a stream
 * without a container.
 */
static void damaged_maybe(const char *path, unsigned int least, unsigned int most, bool silent)
{
	AUTO(hm_device) *device = host_device();
	const struct hm_video_desc desc = video_desc(device);
	struct hm_frame *frame;
	AUTO(hm_video) *video = NULL;
	unsigned int n = 0;
	int r = hm_video_open(path, &desc, &video);

	if (r) {
		CHECK(is_damage(r));
		CHECK(strstr(hm_errmsg(), path));
		CHECK_EQUAL(least, 0);
		return;
	}
	while (!(r = hm_video_read(video, &frame))) {
		n++;
		hm_frame_unref(frame);
	}
	if ((!is_damage(r) && !(silent && r == -ENODATA)) || n < least || n > most)
		test_fail(__FILE__, __LINE__, "%s: %u pictures, then %d: %s", path, n, r,
			  hm_errmsg());
	CHECK(strstr(hm_errmsg(), path));
	CHECK_ERROR(r, hm_video_read(video, &frame));
	CHECK(strstr(hm_errmsg(), path));
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
		{ "clip.h264", "part.h264", clip_h264, 1 },
		{ "clip.avi", "part.avi", clip_mjpeg, 1 },
		{ "clip.webm", "part.webm", clip_vp9, 1 },
		{ "clip.mpg", "part.mpg", clip_mpeg2, 1 },
		{ "clip.y4m", "part.y4m", clip_y4m, 1 },
		{ "clip.mp4", "part.mp4", clip_h264, 0 },
		{ "fast.mp4", "cut.mp4", faststart, 1 },
	};
	AUTO_TEXT *folder = folder_make();
	char *path, *part;
	size_t i;

	for (i = 0; i < sizeof(clips) / sizeof(clips[0]); i++) {
		path = clip_make(folder, clips[i].name, 320, 240, clips[i].options);
		if (!path)
			continue;
		part = clip_cut(folder, clips[i].part, path, clip_length(path) * 3 / 5, 0);
		/* A stream without a container does not say that a picture should follow. */
		damaged_maybe(part, clips[i].least, 24, !strcmp(clips[i].name, "clip.h264"));
		free(part);
		free(path);
	}
}

/* Bytes in the middle are not those of a picture; or the whole file is none. */
static void garbage(void)
{
	static const struct {
		const char *name;
		const char *const *options;
	} clips[] = { { "clip.h264", clip_h264 },
		      { "clip.avi", clip_mjpeg },
		      { "clip.mp4", clip_h264 } };
	AUTO_TEXT *folder = folder_make();
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
}

static void wrong_calls(void)
{
	AUTO(hm_device) *device = host_device();
	struct hm_video_desc desc = video_desc(device);
	struct {
		struct hm_video_desc desc;
		uint64_t more;
	} longer = { desc, 1 };
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *path = clip_make(folder, "clip.mkv", 320, 240, deep);
	struct hm_video *video;

	CHECK_ERROR(-EINVAL, hm_video_open(NULL, &desc, &video));
	CHECK_ERROR(-EINVAL, hm_video_open("clip", NULL, &video));
	CHECK_ERROR(-ENOENT, hm_video_open("/nonexistent", &desc, &video));
	CHECK_ERROR(-EISDIR, hm_video_open("/", &desc, &video));
	desc.format = "nv12:2x2";
	CHECK_ERROR(-EISDIR, hm_video_open("/", &desc, &video));
	desc = video_desc(device);
	desc.threads = 65;
	CHECK_ERROR(-EINVAL, hm_video_open("clip", &desc, &video));
	CHECK(strstr(hm_errmsg(), "65 threads"));
	desc = video_desc(device);
	desc.flags = 1;
	CHECK_ERROR(-EINVAL, hm_video_open("clip", &desc, &video));
	desc = video_desc(NULL);
	CHECK_ERROR(-EINVAL, hm_video_open("clip", &desc, &video));
	longer.desc.struct_size = sizeof(longer);
	CHECK_ERROR(-E2BIG, hm_video_open("clip", &longer.desc, &video));
	CHECK_ERROR(-EINVAL, hm_video_read(NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_video_query(NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_video_pool(NULL, NULL));
	CHECK(!hm_video_ref(NULL));
	hm_video_unref(NULL);
	/* Frames have no format for 10 bits in three planes. */
	desc = video_desc(device);
	if (path)
		CHECK_ERROR(-EOPNOTSUPP, hm_video_open(path, &desc, &video));
	if (path)
		CHECK(strstr(hm_errmsg(), "yuv420p10le"));
}

/* The text of an earlier failure is not that of a call that succeeds. */
static void texts(void)
{
	AUTO_TEXT *folder = folder_make();
	AUTO_TEXT *path = clip_make(folder, "clip.y4m", 320, 240, clip_y4m);
	AUTO(hm_device) *device = host_device();
	struct hm_frame_pool *pool;
	struct hm_frame *frame;
	struct hm_video *video;

	if (path) {
		video = video_open(device, path);
		CHECK_ERROR(-EINVAL, hm_video_pool(video, NULL));
		CHECK_OK(hm_video_pool(video, &pool));
		CHECK(!*hm_errmsg());
		hm_frame_pool_unref(pool);
		CHECK_ERROR(-EINVAL, hm_video_query(video, NULL));
		video_info(video);
		CHECK(!*hm_errmsg());
		CHECK_ERROR(-EINVAL, hm_video_read(video, NULL));
		CHECK_OK(hm_video_read(video, &frame));
		CHECK(!*hm_errmsg());
		hm_frame_unref(frame);
		hm_video_unref(video);
	}
}

/* An invalid argument of libavformat is the file's fault; no other place is opened. */
static void playlist(void)
{
	static const char list[] = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n"
				   "http://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n";
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "list.m3u8");

	file_write(folder, "list.m3u8", list, sizeof(list) - 1);
	damaged(path, 0, 0);
}

static const struct test tests[] = {
	{ .name = "limit", limit, 60 },           { .name = "starved", starved, 60 },
	{ .name = "wrong_pool", wrong_pool, 60 }, { .name = "brackets", brackets, 60 },
	{ .name = "truncated", truncated, 120 },  { .name = "garbage", garbage, 120 },
	{ .name = "playlist", playlist, 60 },     { .name = "wrong_calls", wrong_calls, 60 },
	{ .name = "texts", texts, 60 },           { 0 },
};

int main(int argc, char **argv)
{
	av_log_set_level(AV_LOG_QUIET);
	return harness_main(argc, argv, "video_failures", tests);
}
#else
#include "video/not_built.h"
#endif
