// SPDX-License-Identifier: MIT
/* The plane arithmetic: every format, odd sizes, alignments, numbers beyond 2^31. */
#include <errno.h>
#include <string.h>

#include "frame/frame_support.h"
#include "lib/rig.h"

static struct hm_frame_layout layout_of(uint32_t fourcc, uint32_t width, uint32_t height)
{
	struct hm_frame_layout layout;

	CHECK_OK_FATAL(hm_frame_layout_query(fourcc, width, height, NULL, 0, &layout));
	return layout;
}

/* Strides, offsets and bytes worked out by hand, for the least alignment. */
static void by_hand(void)
{
	static const struct {
		uint32_t fourcc, width, height, n_planes;
		uint64_t stride[3], offset[3], bytes[3], all;
	} rows[] = {
		{ HM_FRAME_NV12,
		  1920,
		  1080,
		  2,
		  { 1920, 1920 },
		  { 0, 2076672 },
		  { 2073600, 1036800 },
		  3117056 },
		{ HM_FRAME_NV12, 1, 1, 2, { 64, 64 }, { 0, 4096 }, { 64, 64 }, 8192 },
		{ HM_FRAME_NV12, 65, 3, 2, { 128, 128 }, { 0, 4096 }, { 384, 256 }, 8192 },
		{ HM_FRAME_P010,
		  1920,
		  1080,
		  2,
		  { 3840, 3840 },
		  { 0, 4149248 },
		  { 4147200, 2073600 },
		  6225920 },
		{ HM_FRAME_P010, 33, 5, 2, { 128, 128 }, { 0, 4096 }, { 640, 384 }, 8192 },
		{ HM_FRAME_YUV420,
		  1920,
		  1080,
		  3,
		  { 1920, 960, 960 },
		  { 0, 2076672, 2596864 },
		  { 2073600, 518400, 518400 },
		  3117056 },
		{ HM_FRAME_YUV420,
		  129,
		  3,
		  3,
		  { 256, 128, 128 },
		  { 0, 4096, 8192 },
		  { 768, 256, 256 },
		  12288 },
		{ HM_FRAME_YUYV, 33, 2, 1, { 128 }, { 0 }, { 256 }, 4096 },
		{ HM_FRAME_YUYV, 1280, 720, 1, { 2560 }, { 0 }, { 1843200 }, 1843200 },
		{ HM_FRAME_XRGB8888, 3840, 2160, 1, { 15360 }, { 0 }, { 33177600 }, 33177600 },
		{ HM_FRAME_XRGB8888, 17, 1, 1, { 128 }, { 0 }, { 128 }, 4096 },
		{ HM_FRAME_R8, 65, 65, 1, { 128 }, { 0 }, { 8320 }, 12288 },
	};
	struct hm_frame_layout layout;
	uint32_t i, k;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		layout = layout_of(rows[i].fourcc, rows[i].width, rows[i].height);
		CHECK_EQUAL(layout.fourcc, rows[i].fourcc);
		CHECK_EQUAL(layout.modifier, HM_FRAME_LINEAR);
		CHECK_EQUAL(layout.n_planes, rows[i].n_planes);
		CHECK_EQUAL(layout.bytes, rows[i].all);
		CHECK(layout.width == rows[i].width && layout.height == rows[i].height);
		for (k = 0; k < layout.n_planes; k++) {
			CHECK_EQUAL(layout.plane[k].stride, rows[i].stride[k]);
			CHECK_EQUAL(layout.plane[k].offset, rows[i].offset[k]);
			CHECK_EQUAL(layout.plane[k].bytes, rows[i].bytes[k]);
			CHECK_EQUAL(layout.plane[k].object, 0);
		}
	}
}

/* Every sample is inside of its plane, planes have no byte in common, nothing is wasted. */
static void check_layout(const struct frame_format *format, uint32_t width, uint32_t height,
			 const struct hm_frame_align *align, uint64_t stride_align,
			 uint64_t plane_align)
{
	uint64_t row, rows, end = 0, tail = align ? align->tail : 0, groups;
	const struct frame_sample *chroma = &format->sample[format->n_planes - 1];
	struct hm_frame_layout layout;
	uint32_t i, fewest = UINT32_MAX, bytes;

	CHECK_OK_FATAL(hm_frame_layout_query(frame_fourcc(format), width, height, align,
					     align != NULL, &layout));
	CHECK_EQUAL(layout.n_planes, format->n_planes);
	/* Bytes of as many pixels as the plane with the widest samples has in one. */
	for (i = 0; i < format->n_planes; i++) {
		bytes = format->sample[i].bytes * chroma->columns / format->sample[i].columns;
		fewest = bytes < fewest ? bytes : fewest;
	}
	for (i = 0; i < format->n_planes; i++) {
		const struct frame_sample *sample = &format->sample[i];
		const struct hm_frame_plane *plane = &layout.plane[i];

		bytes = sample->bytes * chroma->columns / sample->columns;
		row = (width + sample->columns - 1ull) / sample->columns * sample->bytes;
		rows = (height + sample->rows - 1ull) / sample->rows;
		groups = (width + chroma->columns - 1ull) / chroma->columns;
		CHECK_EQUAL(plane->rows, rows);
		CHECK(plane->stride >= row && !(plane->stride % stride_align));
		/* No more than the alignment of the plane with the fewest bytes asks for. */
		CHECK(plane->stride - groups * bytes <
		      (stride_align > fewest ? stride_align / fewest : 1) * bytes);
		CHECK_EQUAL(plane->stride * layout.plane[0].rows,
			    layout.plane[0].bytes * bytes /
				    (format->sample[0].bytes * chroma->columns /
				     format->sample[0].columns));
		CHECK_EQUAL(plane->bytes, plane->stride * rows);
		CHECK(!(plane->offset % plane_align));
		CHECK(plane->offset >= end && plane->offset - end < plane_align);
		end = plane->offset + plane->bytes + tail;
	}
	CHECK(layout.bytes >= end && !(layout.bytes % 4096));
	CHECK(align || layout.bytes - end < 4096);
}

static void every_format(void)
{
	const struct hm_frame_align wide = { .stride = 256, .plane = 65536, .tail = 100 };
	const struct frame_format *format;
	uint32_t width, height;

	for (format = frame_formats; format->n_planes; format++)
		for (width = 1; width < 300; width += 1 + width / 9)
			for (height = 1; height < 70; height += 1 + height / 5) {
				check_layout(format, width, height, NULL, 64, 4096);
				check_layout(format, width, height, &wide, 256, 65536);
			}
}

/* The strictest number of several users counts. */
static void several_users(void)
{
	const struct hm_frame_align users[] = {
		{ .stride = 32, .width = 16, .height = 32, .tail = 7 },
		{ .stride = 512, .plane = 1 << 16 },
		{ .size = 2 << 20, .width = 8, .height = 2 },
	};
	const struct hm_frame_align wrong[] = {
		{ .stride = 96 },          { .plane = 3 },  { .size = 1ull << 31 },
		{ .tail = (1 << 30) + 1 }, { .width = 24 }, { .height = 7 },
	};
	struct hm_frame_layout layout, before;
	uint32_t i;

	CHECK_OK(hm_frame_layout_query(HM_FRAME_NV12, 1001, 1001, users, 3, &layout));
	CHECK(layout.width == 1008 && layout.height == 1024);
	CHECK_EQUAL(layout.plane[0].stride, 1024);
	CHECK_EQUAL(layout.plane[0].bytes, 1 << 20);
	CHECK_EQUAL(layout.plane[1].offset, (1 << 20) + (1 << 16));
	CHECK_EQUAL(layout.plane[1].stride, 1024);
	CHECK_EQUAL(layout.plane[1].rows, 512);
	CHECK_EQUAL(layout.bytes, 2 << 20);
	memset(&before, 0x5a, sizeof(before));
	layout = before;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK_ERROR(-EINVAL, hm_frame_layout_query(HM_FRAME_NV12, 64, 64, &wrong[i], 1,
							   &layout));
		CHECK(strstr(hm_errmsg(), "user 0"));
	}
	CHECK_ERROR(-EINVAL, hm_frame_layout_query(HM_FRAME_NV12, 64, 64, NULL, 1, &layout));
	CHECK_ERROR(-EINVAL, hm_frame_layout_query(HM_FRAME_NV12, 64, 64, users, 1, NULL));
	CHECK(!memcmp(&before, &layout, sizeof(before)));
}

static void refused(void)
{
	const struct hm_frame_align coarse = { .width = 1 << 30, .height = 1 << 30 };
	struct hm_frame_layout layout;

	CHECK_ERROR(-EINVAL, hm_frame_layout_query(HM_FRAME_NV12, 0, 16, NULL, 0, &layout));
	CHECK_ERROR(-EINVAL, hm_frame_layout_query(HM_FRAME_NV12, 16, 0, NULL, 0, &layout));
	CHECK_ERROR(-EOPNOTSUPP, hm_frame_layout_query(HM_FRAME_FOURCC('Y', '2', '1', '0'), 16,
						       16, NULL, 0, &layout));
	CHECK(strstr(hm_errmsg(), "Y210") && strstr(hm_errmsg(), " P010 "));
	CHECK_ERROR(-EOPNOTSUPP, hm_frame_layout_query(7, 16, 16, NULL, 0, &layout));
	CHECK(strstr(hm_errmsg(), "0x00000007"));
	CHECK_ERROR(-EOVERFLOW,
		    hm_frame_layout_query(HM_FRAME_R8, UINT32_MAX, 1, &coarse, 1, &layout));
	CHECK_ERROR(-EOVERFLOW, hm_frame_layout_query(HM_FRAME_XRGB8888, UINT32_MAX, UINT32_MAX,
						      NULL, 0, &layout));
	CHECK(strstr(hm_errmsg(), "17179869184"));
	/* The second plane is the one that is too much. */
	CHECK_ERROR(-EOVERFLOW,
		    hm_frame_layout_query(HM_FRAME_NV12, 1u << 31, 1u << 31, NULL, 0, &layout));
	CHECK(strstr(hm_errmsg(), "plane 1"));
}

/* In numbers, and in memory: of 6 GiB, of which two pages are touched. */
static void beyond_31_bits(void)
{
	struct hm_frame_layout layout = layout_of(HM_FRAME_XRGB8888, 1u << 31, 1000);
	AUTO(hm_frame_pool) *pool = NULL;
	AUTO(hm_device) *device = NULL;
	struct hm_frame_info info;
	AUTO(hm_frame) *frame = NULL;
	char *first;
	int r;

	CHECK_EQUAL(layout.plane[0].stride, 1ull << 33);
	CHECK_EQUAL(layout.bytes, 1000ull << 33);
	layout = layout_of(HM_FRAME_YUV420, UINT32_MAX, 3);
	CHECK_EQUAL(layout.plane[0].stride, 1ull << 32);
	CHECK_EQUAL(layout.plane[2].offset, (3ull << 32) + (2ull << 31));
	CHECK_OK_FATAL(hm_device_open("host", &device));
	pool = rig_frame_pool(device, DESC(hm_frame_pool_desc, .fourcc = HM_FRAME_R8,
					   .width = 3u << 30, .height = 2));
	r = hm_frame_pool_acquire(pool, 0, &frame);
	if (r == -EFBIG || r == -ENOMEM) {
		test_skip("kernel", "no room for 6 GiB of addresses: %s", hm_errmsg());
		return;
	}
	CHECK_OK_FATAL(r);
	info = frame_info(frame);
	CHECK_EQUAL(info.plane[0].stride, 3ull << 30);
	first = info.address[0];
	first[0] = 1;
	first[info.plane[0].stride] = 2;
	first[info.plane[0].bytes - 1] = 3;
	CHECK(first[0] == 1 && first[info.plane[0].stride] == 2);
}

static const struct test tests[] = {
	{ .name = "by_hand", .run = by_hand },
	{ .name = "every_format", .run = every_format, .seconds = 60 },
	{ .name = "several_users", .run = several_users },
	{ .name = "refused", .run = refused },
	{ .name = "beyond_31_bits", .run = beyond_31_bits },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "frame_layout", tests)
