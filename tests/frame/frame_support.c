// SPDX-License-Identifier: MIT
/* Makes pools of frames for tests, and pictures. */
#include "frame/frame_support.h"
#include "lib/rig.h"

#include <string.h>

struct hm_frame_pool *frame_pool(const char *name, enum hm_frame_policy policy, uint32_t n_most)
{
	AUTO(hm_device) *device = rig_device(name);

	return rig_frame_pool(device, DESC(hm_frame_pool_desc, .name = "tested",
					   .fourcc = HM_FRAME_NV12, .policy = policy,
					   .width = 64, .height = 32, .n_most = n_most));
}

struct hm_frame_pool_info frame_pool_info(struct hm_frame_pool *pool)
{
	struct hm_frame_pool_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_frame_pool_query(pool, &info));
	CHECK_EQUAL(info.free + info.held + info.ready + info.busy, info.frames);
	CHECK(info.frames <= info.frames_peak);
	CHECK(!info.n_most || info.frames_peak <= info.n_most);
	CHECK_EQUAL(info.bytes, info.frames * info.layout.bytes);
	CHECK_EQUAL(info.taken + info.ready + info.dropped_oldest, info.published);
	return info;
}

struct hm_frame_info frame_info(struct hm_frame *frame)
{
	struct hm_frame_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_frame_query(frame, &info));
	return info;
}

struct hm_frame *frame_acquire(struct hm_frame_pool *pool)
{
	struct hm_frame *frame;

	CHECK_OK_FATAL(hm_frame_pool_acquire(pool, 0, &frame));
	return frame;
}

struct hm_frame *frame_take(struct hm_frame_pool *pool)
{
	struct hm_frame *frame;

	CHECK_OK_FATAL(hm_frame_pool_take(pool, 0, &frame));
	return frame;
}

void frame_stamp(struct hm_frame *frame, int64_t timestamp)
{
	const struct hm_frame_props props = {
		.timestamp = timestamp,
		.time_base_num = 1,
		.time_base_den = 25,
	};

	CHECK_OK(hm_frame_set(frame, HM_FRAME_TIME, &props));
}

void frame_produce(struct hm_frame_pool *pool, int64_t timestamp)
{
	AUTO(hm_frame) *frame = frame_acquire(pool);

	frame_stamp(frame, timestamp);
	CHECK_OK(hm_frame_publish(frame));
}

int64_t frame_consume(struct hm_frame_pool *pool)
{
	AUTO(hm_frame) *frame = frame_take(pool);
	struct hm_frame_info info = frame_info(frame);

	return info.props.timestamp;
}

/* ---- formats ---- */

/* Worked out from the comments of drm_fourcc.h, not from the library's table. */
const struct frame_format frame_formats[] = {
	{ "NV12", 2, { { 1, 1, 1 }, { 2, 2, 2 } } },
	{ "NV21", 2, { { 1, 1, 1 }, { 2, 2, 2 } } },
	{ "NV16", 2, { { 1, 1, 1 }, { 2, 1, 2 } } },
	{ "NV61", 2, { { 1, 1, 1 }, { 2, 1, 2 } } },
	{ "NV24", 2, { { 1, 1, 1 }, { 1, 1, 2 } } },
	{ "NV42", 2, { { 1, 1, 1 }, { 1, 1, 2 } } },
	{ "P010", 2, { { 1, 1, 2 }, { 2, 2, 4 } } },
	{ "P012", 2, { { 1, 1, 2 }, { 2, 2, 4 } } },
	{ "P016", 2, { { 1, 1, 2 }, { 2, 2, 4 } } },
	{ "YU12", 3, { { 1, 1, 1 }, { 2, 2, 1 }, { 2, 2, 1 } } },
	{ "YV12", 3, { { 1, 1, 1 }, { 2, 2, 1 }, { 2, 2, 1 } } },
	{ "YU16", 3, { { 1, 1, 1 }, { 2, 1, 1 }, { 2, 1, 1 } } },
	{ "YV16", 3, { { 1, 1, 1 }, { 2, 1, 1 }, { 2, 1, 1 } } },
	{ "YU24", 3, { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } } },
	{ "YV24", 3, { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } } },
	{ "YUYV", 1, { { 2, 1, 4 } } },
	{ "YVYU", 1, { { 2, 1, 4 } } },
	{ "UYVY", 1, { { 2, 1, 4 } } },
	{ "VYUY", 1, { { 2, 1, 4 } } },
	{ "XR24", 1, { { 1, 1, 4 } } },
	{ "AR24", 1, { { 1, 1, 4 } } },
	{ "XB24", 1, { { 1, 1, 4 } } },
	{ "AB24", 1, { { 1, 1, 4 } } },
	{ "RX24", 1, { { 1, 1, 4 } } },
	{ "RA24", 1, { { 1, 1, 4 } } },
	{ "BX24", 1, { { 1, 1, 4 } } },
	{ "BA24", 1, { { 1, 1, 4 } } },
	{ "R8  ", 1, { { 1, 1, 1 } } },
	{ "R16 ", 1, { { 1, 1, 2 } } },
	{ "GR88", 1, { { 1, 1, 2 } } },
	{ "", 0, { { 0, 0, 0 } } },
};

uint32_t frame_fourcc(const struct frame_format *format)
{
	const char *name = format->name;

	return HM_FRAME_FOURCC(name[0], name[1], name[2], name[3]);
}

/* ---- pictures ---- */

static const struct frame_sample *samples_of(uint32_t fourcc)
{
	const struct frame_format *format = frame_formats;

	while (format->n_planes && frame_fourcc(format) != fourcc)
		format++;
	CHECK_FATAL(format->n_planes);
	return format->sample;
}

static unsigned char byte_at(uint32_t salt, uint32_t plane, uint64_t row, uint64_t at)
{
	return (unsigned char)(salt * 31 + plane * 97 + row * 7 + at);
}

/* Writes with @write, else compares; is it as it should be? */
static bool each_byte(const struct hm_frame_info *info, uint32_t salt, bool write)
{
	const struct frame_sample *samples = samples_of(info->fourcc);
	uint64_t row, at, rows, bytes;
	unsigned char *line;
	uint32_t i;

	for (i = 0; i < info->n_planes; i++) {
		rows = (info->height + samples[i].rows - 1) / samples[i].rows;
		bytes = (info->width + samples[i].columns - 1) / samples[i].columns *
			(uint64_t)samples[i].bytes;
		for (row = 0; row < rows; row++) {
			line = (unsigned char *)info->address[i] + row * info->plane[i].stride;
			for (at = 0; at < bytes; at++)
				if (write)
					line[at] = byte_at(salt, i, row, at);
				else if (line[at] != byte_at(salt, i, row, at))
					return false;
		}
	}
	return true;
}

void frame_fill(const struct hm_frame_info *info, uint32_t salt)
{
	each_byte(info, salt, true);
}

bool frame_holds(const struct hm_frame_info *info, uint32_t salt)
{
	return each_byte(info, salt, false);
}
