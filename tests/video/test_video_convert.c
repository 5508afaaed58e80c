// SPDX-License-Identifier: MIT
/*
 * The conversion to XRGB8888: against libswscale with the same matrix and range, the same bytes
 * on each accelerator and with each instruction set, and `hetmap run video` from end to end.
 */
#ifdef HAVE_VIDEO
#include <convert.h>
#include <errno.h>
#include <hetmap/accel.h>
#include <hetmap/frame.h>
#include <libswscale/swscale.h>
#include <rows.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/support.h"
#include "video/clips.h"

#define DB 45.0

static const struct kind {
	const char *name;
	uint32_t fourcc;
	enum AVPixelFormat format;
} kinds[] = {
	{ "YU12", HM_FRAME_YUV420, AV_PIX_FMT_YUV420P },
	{ "YU16", HM_FRAME_FOURCC('Y', 'U', '1', '6'), AV_PIX_FMT_YUV422P },
	{ "YU24", HM_FRAME_FOURCC('Y', 'U', '2', '4'), AV_PIX_FMT_YUV444P },
	{ "NV12", HM_FRAME_NV12, AV_PIX_FMT_NV12 },
	{ "NV21", HM_FRAME_FOURCC('N', 'V', '2', '1'), AV_PIX_FMT_NV21 },
	{ "NV24", HM_FRAME_FOURCC('N', 'V', '2', '4'), AV_PIX_FMT_NV24 },
	{ "NV16", HM_FRAME_FOURCC('N', 'V', '1', '6'), AV_PIX_FMT_NV16 },
	{ "P010", HM_FRAME_P010, AV_PIX_FMT_P010LE },
	{ "YUYV", HM_FRAME_YUYV, AV_PIX_FMT_YUYV422 },
	{ "UYVY", HM_FRAME_FOURCC('U', 'Y', 'V', 'Y'), AV_PIX_FMT_UYVY422 },
	{ "R8", HM_FRAME_R8, AV_PIX_FMT_GRAY8 },
};

#define N_KIND (sizeof(kinds) / sizeof(kinds[0]))

/* H.273's number, libswscale's, and full range. */
static const struct colour {
	uint32_t matrix;
	int sws;
	bool full;
} colours[] = {
	{ 6, SWS_CS_ITU601, false }, { 6, SWS_CS_ITU601, true },
	{ 1, SWS_CS_ITU709, false }, { 1, SWS_CS_ITU709, true },
	{ 9, SWS_CS_BT2020, false }, { 7, SWS_CS_SMPTE240M, false },
	{ 4, SWS_CS_FCC, false },
};

#define N_COLOUR (sizeof(colours) / sizeof(colours[0]))

struct scene {
	struct hm_device *device;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
};

static struct scene scene_begin(const char *accel)
{
	struct scene scene = { 0 };

	CHECK_OK_FATAL(hm_device_open("host", &scene.device));
	CHECK_OK_FATAL(hm_accel_open(accel, NULL, &scene.accel));
	CHECK_OK_FATAL(hm_queue_create(scene.accel, 0, &scene.queue));
	CHECK_OK_FATAL(convert_create(&scene.kernel));
	return scene;
}

static void scene_end(struct scene *scene)
{
	hm_kernel_unref(scene->kernel);
	hm_queue_unref(scene->queue);
	hm_accel_unref(scene->accel);
	hm_device_unref(scene->device);
}

AUTO_END(scene, scene_end)

/* A frame with a map of its own; its pool ends with it. */
static struct hm_frame *make_frame(struct scene *scene, uint32_t fourcc, uint32_t width,
				   uint32_t height, struct hm_frame_info *ret_info)
{
	const struct hm_frame_pool_desc desc = {
		.struct_size = sizeof(desc),
		.fourcc = fourcc,
		.width = width,
		.height = height,
	};
	struct hm_frame *frame;
	struct hm_frame_pool *pool = rig_frame_pool(scene->device, &desc);

	CHECK_OK_FATAL(hm_frame_pool_acquire(pool, 0, &frame));
	hm_frame_pool_unref(pool);
	ret_info->struct_size = sizeof(*ret_info);
	CHECK_OK_FATAL(hm_frame_query(frame, ret_info));
	return frame;
}

/* Samples of a wave in each plane, with some noise: all levels of the limited range occur. */
static void fill(const struct hm_frame_info *info, bool deep)
{
	uint64_t seed = 5, i;
	uint32_t plane;

	for (plane = 0; plane < info->n_planes; plane++) {
		unsigned char *bytes = info->address[plane];

		for (i = 0; i < info->plane[plane].bytes; i++) {
			uint64_t x = i % info->plane[plane].stride;

			bytes[i] = (unsigned char)(x * (plane + 1) + i / 200 +
						   test_random(&seed) % 8);
			bytes[i] = (unsigned char)(16 + bytes[i] * 219 / 255);
			if (deep && !(i % 2))
				bytes[i] &= 0xc0;
		}
	}
}

static void as_picture(const struct hm_frame_info *info, enum AVPixelFormat format,
		       AVFrame *picture)
{
	uint32_t i;

	memset(picture, 0, sizeof(*picture));
	picture->format = format;
	picture->width = (int)info->props.visible.width;
	picture->height = (int)info->props.visible.height;
	for (i = 0; i < info->n_planes; i++) {
		picture->data[i] = info->address[i];
		picture->linesize[i] = (int)info->plane[i].stride;
	}
}

static void convert(struct scene *scene, const struct hm_frame_info *from,
		    const struct hm_frame_info *to)
{
	AUTO(hm_fence) *fence = NULL;

	CHECK_OK_FATAL(convert_launch(scene->queue, scene->kernel, from, to, &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
}

static void set_colour(struct hm_frame_info *info, const struct colour *colour)
{
	info->props.matrix = colour->matrix;
	info->props.range = colour->full ? HM_FRAME_RANGE_FULL : HM_FRAME_RANGE_LIMITED;
}

static void against_swscale(void)
{
	const int stride = 4 * (ODD_WIDTH + 1) + 64;
	uint8_t *reference = malloc((size_t)stride * (ODD_HEIGHT + 1));
	struct hm_frame *in, *out;
	struct hm_frame_info from, to;
	struct scene scene;
	AVFrame picture;
	size_t i, j;
	double db;

	scene = scene_begin("cpu");
	out = make_frame(&scene, HM_FRAME_XRGB8888, ODD_WIDTH, ODD_HEIGHT, &to);
	for (i = 0; i < N_KIND; i++) {
		/* libswscale has no NV16. */
		if (!sws_isSupportedInput(kinds[i].format))
			continue;
		in = make_frame(&scene, kinds[i].fourcc, ODD_WIDTH, ODD_HEIGHT, &from);
		fill(&from, kinds[i].fourcc == HM_FRAME_P010);
		as_picture(&from, kinds[i].format, &picture);
		for (j = 0; j < N_COLOUR; j++) {
			/* Its grey is full. */
			if (kinds[i].fourcc == HM_FRAME_R8 && !colours[j].full)
				continue;
			set_colour(&from, &colours[j]);
			convert(&scene, &from, &to);
			CHECK_FATAL(swscale_reference(&picture, colours[j].sws, colours[j].full,
						      reference, stride));
			db = psnr(to.address[0], to.plane[0].stride, reference,
				  (uint64_t)stride, ODD_WIDTH, ODD_HEIGHT);
			if (db < DB)
				test_fail(__FILE__, __LINE__, "%s, matrix %u, %s: %.1f dB",
					  kinds[i].name, colours[j].matrix,
					  colours[j].full ? "full" : "limited", db);
		}
		hm_frame_unref(in);
	}
	hm_frame_unref(out);
	free(reference);
	scene_end(&scene);
}

/* A part of the picture, from odd pixels on, is the same as in the whole one. */
static void visible_part(void)
{
	struct hm_frame_info from, to, to_part;
	uint32_t row;
	size_t i;
	AUTO(scene) scene = scene_begin("cpu");
	AUTO(hm_frame) *out = make_frame(&scene, HM_FRAME_XRGB8888, ODD_WIDTH, ODD_HEIGHT, &to);
	AUTO(hm_frame) *part = make_frame(&scene, HM_FRAME_XRGB8888, 100, 51, &to_part);

	for (i = 0; i < N_KIND; i++) {
		AUTO(hm_frame) *in =
			make_frame(&scene, kinds[i].fourcc, ODD_WIDTH, ODD_HEIGHT, &from);

		fill(&from, false);
		set_colour(&from, &colours[0]);
		convert(&scene, &from, &to);
		from.props.visible = (struct hm_frame_rect){ 7, 3, 99, 51 };
		convert(&scene, &from, &to_part);
		for (row = 0; row < 51; row++)
			CHECK(!memcmp((char *)to_part.address[0] +
					      row * to_part.plane[0].stride,
				      (char *)to.address[0] + (row + 3) * to.plane[0].stride +
					      7 * 4ul,
				      99 * 4));
	}
}

/* The OpenCL form has the bytes of the form for CPUs. */
static void same_on_opencl(void)
{
	AUTO(scene) cpu = { 0 }, opencl = { 0 };
	AUTO(hm_frame) *out = NULL, *other = NULL;
	struct hm_frame_info from, to, to_other;
	size_t i, j;

	if (!have_opencl())
		return;
	cpu = scene_begin("cpu");
	opencl = scene_begin("opencl:0");
	out = make_frame(&cpu, HM_FRAME_XRGB8888, 322, ODD_HEIGHT, &to);
	other = make_frame(&cpu, HM_FRAME_XRGB8888, 322, ODD_HEIGHT, &to_other);
	for (i = 0; i < N_KIND; i++) {
		AUTO(hm_frame) *in = make_frame(&cpu, kinds[i].fourcc, 322, ODD_HEIGHT, &from);

		fill(&from, false);
		for (j = 0; j < N_COLOUR; j++) {
			set_colour(&from, &colours[j]);
			convert(&cpu, &from, &to);
			convert(&opencl, &from, &to_other);
			if (memcmp(to.address[0], to_other.address[0], 322ul * 4 * 200) != 0)
				test_fail(__FILE__, __LINE__, "%s, matrix %u: other bytes",
					  kinds[i].name, colours[j].matrix);
		}
	}
}

static void same_by_sets(void)
{
#ifdef __x86_64__
	static const struct row_factors factors = { 4096, 9539, 13075, -3209, -6660, 16525 };
	unsigned char *luma = malloc(8192), *chroma = malloc(16384);
	uint32_t *a = malloc(4096), *b = malloc(4096);
	uint64_t seed = 7, begin, end;
	unsigned int i;

	if (!__builtin_cpu_supports("avx2")) {
		test_skip("kernel", "this processor has no AVX2");
		goto out;
	}
	for (i = 0; i < 8192; i++)
		luma[i] = (unsigned char)test_random(&seed);
	for (i = 0; i < 16384; i++)
		chroma[i] = (unsigned char)test_random(&seed);
	for (i = 0; i < 192; i++) {
		struct row row = {
			.luma = luma,
			.u = chroma,
			.v = chroma + 8192,
			.luma_step = 1 + (int)(i & 1),
			.chroma_step = 1 + (int)(i >> 1 & 3),
			.shift = (int)(i >> 3 & 1),
			.deep = i >> 4 & 1,
		};

		/* One plane with both samples in turns: NV12, and the other order. */
		if (i >= 128) {
			row.luma_step = 1;
			row.chroma_step = 2;
			row.u = chroma + (i & 1);
			row.v = chroma + !(i & 1);
			row.shift = 1;
			row.deep = false;
		}

		begin = test_random(&seed) % 400;
		end = begin + test_random(&seed) % 600;
		memset(a, 0, 4096);
		memset(b, 0, 4096);
		row.out = a;
		row_convert(&row, &factors, begin, end);
		row.out = b;
		row_convert_avx2(&row, &factors, begin, end);
		CHECK(!memcmp(a, b, 4096));
		memset(b, 0, 4096);
		row_convert_pairs(&row, &factors, begin, end);
		CHECK(!memcmp(a, b, 4096));
	}
out:
	free(luma);
	free(chroma);
	free(a);
	free(b);
#endif
}

static void refused(void)
{
	struct hm_frame_info from, to;
	struct hm_fence *fence;
	AUTO(scene) scene = scene_begin("cpu");
	AUTO(hm_frame) *in = make_frame(&scene, HM_FRAME_NV12, 64, 64, &from);
	AUTO(hm_frame) *out = make_frame(&scene, HM_FRAME_XRGB8888, 64, 64, &to);

	from.props.matrix = 0;
	CHECK_ERROR(-EOPNOTSUPP, convert_launch(scene.queue, scene.kernel, &from, &to, &fence));
	CHECK_ERROR(-EOPNOTSUPP, convert_launch(scene.queue, scene.kernel, &to, &to, &fence));
}

static const struct test tests[] = {
	{ .name = "against_swscale", against_swscale, 120 },
	{ .name = "visible_part", visible_part, 60 },
	{ .name = "same_on_opencl", same_on_opencl, 120, TEST_ONCE },
	{ .name = "same_by_sets", same_by_sets, 60 },
	{ .name = "refused", refused, 60 },
	{ 0 },
};

TEST_MAIN(harness_main, "video_convert", tests)
#else
#include "video/not_built.h"
#endif
