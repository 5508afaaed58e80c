// SPDX-License-Identifier: MIT
/* Codecs of a machine under test: finding vicodec, and its encoder. */
#ifdef HAVE_VIDEO
#include "video/codec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"

#define NODES 16
#define WAIT_MS 20000

/* R, G, B, in the order of bars_off(). */
static const uint8_t bars[8][3] = {
	{ 255, 255, 255 }, { 255, 255, 0 }, { 0, 255, 255 }, { 0, 255, 0 },
	{ 255, 0, 255 },   { 255, 0, 0 },   { 0, 0, 255 },   { 0, 0, 0 },
};

/* ---- finding it ---- */

/* Is it vicodec's, with FWHT on this side? */
static bool is_side(const char *path, uint32_t type)
{
	struct v4l2_capability ask = { 0 };
	struct v4l2_fmtdesc desc = { .type = type };
	int fd = open(path, O_RDWR | O_CLOEXEC);
	bool is;

	if (fd < 0)
		return false;
	is = !ioctl(fd, VIDIOC_QUERYCAP, &ask) &&
	     !strcmp((const char *)ask.driver, "vicodec") &&
	     !ioctl(fd, VIDIOC_ENUM_FMT, &desc) && desc.pixelformat == V4L2_PIX_FMT_FWHT;
	close(fd);
	return is;
}

static bool find_side(uint32_t type, char path[PATH_ROOM])
{
	int i;

	for (i = 0; i < NODES; i++) {
		snprintf(path, PATH_ROOM, "/dev/video%d", i);
		if (is_side(path, type))
			return true;
	}
	return false;
}

bool codec_find(char name[PATH_ROOM])
{
	char path[PATH_ROOM];

	if (!find_side(V4L2_BUF_TYPE_VIDEO_OUTPUT, path)) {
		test_skip("media", "there is no decoder of the driver vicodec: make vm-video");
		return false;
	}
	snprintf(name, PATH_ROOM, "v4l2:%.50s", path);
	return true;
}

/* ---- pictures ---- */

static bool is_marked(uint32_t y, uint32_t height)
{
	return y >= height / 4 && y < height * 35 / 100;
}

static void pixel_of(uint32_t x, uint32_t y, uint32_t width, uint32_t height,
		     unsigned int number, uint8_t rgb[3])
{
	if (is_marked(y, height))
		memset(rgb, (int)MARK(number), 3);
	else if (y > height * 60 / 100 && y < height * 90 / 100)
		memset(rgb, (int)((x * 2654435761u ^ y * 40503u * (number + 1)) >> 13 & 255),
		       3);
	else
		memcpy(rgb, bars[x * 8 / width], 3);
}

static void draw_rgb(uint8_t *to, uint32_t stride, uint32_t width, uint32_t height,
		     unsigned int number)
{
	uint8_t rgb[3];
	uint32_t x, y;

	for (y = 0; y < height; y++)
		for (x = 0; x < width; x++) {
			uint8_t *pixel = to + (size_t)y * stride + x * 4;

			pixel_of(x, y, width, height, number, rgb);
			pixel[0] = rgb[2];
			pixel[1] = rgb[1];
			pixel[2] = rgb[0];
			pixel[3] = 0;
		}
}

static void draw_nv12(uint8_t *to, uint32_t stride, uint32_t width, uint32_t height,
		      unsigned int number)
{
	uint8_t rgb[3], *chroma = to + (size_t)stride * height;
	uint32_t x, y;

	for (y = 0; y < height; y++)
		for (x = 0; x < width; x++) {
			double r, g, b, luma;

			pixel_of(x, y, width, height, number, rgb);
			r = rgb[0] / 255.0;
			g = rgb[1] / 255.0;
			b = rgb[2] / 255.0;
			luma = 0.2126 * r + 0.7152 * g + 0.0722 * b;
			to[(size_t)y * stride + x] = (uint8_t)(16.5 + 219 * luma);
			if (y % 2 || x % 2)
				continue;
			chroma[(size_t)y / 2 * stride + x] =
				(uint8_t)(128.5 + 224 * (b - luma) / 1.8556);
			chroma[(size_t)y / 2 * stride + x + 1] =
				(uint8_t)(128.5 + 224 * (r - luma) / 1.5748);
		}
}

/* ---- the encoder ---- */

struct side {
	uint32_t type, stride;
	uint8_t *bytes;
	uint32_t length;
};

static void set_side(int fd, struct side *side, uint32_t fourcc, uint32_t width,
		     uint32_t height)
{
	struct v4l2_format format = { .type = side->type };
	struct v4l2_requestbuffers request = { .count = 1,
					       .type = side->type,
					       .memory = V4L2_MEMORY_MMAP };
	struct v4l2_buffer buffer = { .type = side->type, .memory = V4L2_MEMORY_MMAP };

	format.fmt.pix.pixelformat = fourcc;
	format.fmt.pix.width = width;
	format.fmt.pix.height = height;
	format.fmt.pix.colorspace = V4L2_COLORSPACE_REC709;
	CHECK_FATAL(!ioctl(fd, VIDIOC_S_FMT, &format));
	CHECK_EQUAL(format.fmt.pix.pixelformat, fourcc);
	CHECK_EQUAL(format.fmt.pix.width, width);
	CHECK_EQUAL(format.fmt.pix.height, height);
	CHECK_FATAL(!ioctl(fd, VIDIOC_REQBUFS, &request));
	CHECK_FATAL(!ioctl(fd, VIDIOC_QUERYBUF, &buffer));
	side->stride = format.fmt.pix.bytesperline;
	side->length = buffer.length;
	side->bytes = mmap(NULL, buffer.length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   buffer.m.offset);
	CHECK_FATAL(side->bytes != MAP_FAILED);
}

static void queue_side(int fd, const struct side *side, uint32_t bytes)
{
	struct v4l2_buffer buffer = { .type = side->type,
				      .memory = V4L2_MEMORY_MMAP,
				      .field = V4L2_FIELD_NONE,
				      .bytesused = bytes };

	CHECK_FATAL(!ioctl(fd, VIDIOC_QBUF, &buffer));
}

/* Returns the bytes in its buffer. */
static uint32_t dequeue_side(int fd, const struct side *side)
{
	struct v4l2_buffer buffer = { .type = side->type, .memory = V4L2_MEMORY_MMAP };

	CHECK_FATAL(!ioctl(fd, VIDIOC_DQBUF, &buffer));
	CHECK(!(buffer.flags & V4L2_BUF_FLAG_ERROR));
	return buffer.bytesused;
}

static void encode(int fd, FILE *file, struct side *raw, struct side *coded)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	queue_side(fd, raw, raw->length);
	queue_side(fd, coded, 0);
	CHECK_FATAL(poll(&poll_fd, 1, WAIT_MS) == 1);
	CHECK_EQUAL(fwrite(coded->bytes, dequeue_side(fd, coded), 1, file), 1);
	dequeue_side(fd, raw);
}

void codec_encode(const char *path, bool rgb, uint32_t width, uint32_t height, unsigned int n)
{
	struct side raw = { .type = V4L2_BUF_TYPE_VIDEO_OUTPUT };
	struct side coded = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	char node[PATH_ROOM];
	unsigned int i;
	FILE *file;
	int fd;

	CHECK_FATAL(find_side(V4L2_BUF_TYPE_VIDEO_CAPTURE, node));
	fd = open(node, O_RDWR | O_CLOEXEC);
	CHECK_FATAL(fd >= 0);
	file = fopen(path, "ae");
	CHECK_FATAL(file);
	set_side(fd, &raw, rgb ? V4L2_PIX_FMT_XBGR32 : V4L2_PIX_FMT_NV12, width, height);
	set_side(fd, &coded, V4L2_PIX_FMT_FWHT, width, height);
	CHECK_FATAL(!ioctl(fd, VIDIOC_STREAMON, &raw.type));
	CHECK_FATAL(!ioctl(fd, VIDIOC_STREAMON, &coded.type));
	for (i = 0; i < n; i++) {
		(rgb ? draw_rgb : draw_nv12)(raw.bytes, raw.stride, width, height, i);
		encode(fd, file, &raw, &coded);
	}
	CHECK_EQUAL(fclose(file), 0);
	munmap(raw.bytes, raw.length);
	munmap(coded.bytes, coded.length);
	close(fd);
}
#else
/* An object without a symbol is none for an archive's index. */
extern int codecs_are_not_built;
int codecs_are_not_built;
#endif
