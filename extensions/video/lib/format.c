// SPDX-License-Identifier: MIT
/* Formats of pictures: libavutil's and those of frames. */
#include "video.h"

#include <string.h>

static const struct {
	enum AVPixelFormat format;
	uint32_t fourcc;
} formats[] = {
	{ AV_PIX_FMT_YUV420P, HM_FRAME_YUV420 },
	{ AV_PIX_FMT_YUVJ420P, HM_FRAME_YUV420 },
	{ AV_PIX_FMT_YUV422P, HM_FRAME_FOURCC('Y', 'U', '1', '6') },
	{ AV_PIX_FMT_YUVJ422P, HM_FRAME_FOURCC('Y', 'U', '1', '6') },
	{ AV_PIX_FMT_YUV444P, HM_FRAME_FOURCC('Y', 'U', '2', '4') },
	{ AV_PIX_FMT_YUVJ444P, HM_FRAME_FOURCC('Y', 'U', '2', '4') },
	{ AV_PIX_FMT_NV12, HM_FRAME_NV12 },
	{ AV_PIX_FMT_NV21, HM_FRAME_FOURCC('N', 'V', '2', '1') },
	{ AV_PIX_FMT_NV16, HM_FRAME_FOURCC('N', 'V', '1', '6') },
	{ AV_PIX_FMT_NV24, HM_FRAME_FOURCC('N', 'V', '2', '4') },
	{ AV_PIX_FMT_P010LE, HM_FRAME_P010 },
	{ AV_PIX_FMT_YUYV422, HM_FRAME_YUYV },
	{ AV_PIX_FMT_UYVY422, HM_FRAME_FOURCC('U', 'Y', 'V', 'Y') },
	{ AV_PIX_FMT_GRAY8, HM_FRAME_R8 },
};

#define N_FORMAT (sizeof(formats) / sizeof(formats[0]))

uint32_t format_fourcc(enum AVPixelFormat format)
{
	size_t i;

	for (i = 0; i < N_FORMAT; i++)
		if (formats[i].format == format)
			return formats[i].fourcc;
	return 0;
}

enum AVPixelFormat format_of_fourcc(uint32_t fourcc)
{
	size_t i;

	for (i = 0; i < N_FORMAT; i++)
		if (formats[i].fourcc == fourcc)
			return formats[i].format;
	return AV_PIX_FMT_NONE;
}

enum AVPixelFormat format_by_name(const char *name, size_t length)
{
	char text[32], code[5] = "    ";
	enum AVPixelFormat format;

	if (!length || length >= sizeof(text))
		return AV_PIX_FMT_NONE;
	memcpy(text, name, length);
	text[length] = '\0';
	format = av_get_pix_fmt(text);
	if (format != AV_PIX_FMT_NONE)
		return format_fourcc(format) ? format : AV_PIX_FMT_NONE;
	if (length > 4)
		return AV_PIX_FMT_NONE;
	memcpy(code, text, length);
	return format_of_fourcc(HM_FRAME_FOURCC(code[0], code[1], code[2], code[3]));
}

const char *format_name(enum AVPixelFormat format)
{
	const char *name = av_get_pix_fmt_name(format);

	return name ? name : "unknown";
}

bool format_is_full(enum AVPixelFormat format)
{
	return format == AV_PIX_FMT_YUVJ420P || format == AV_PIX_FMT_YUVJ422P ||
	       format == AV_PIX_FMT_YUVJ444P;
}
