// SPDX-License-Identifier: MIT
/* Cameras: formats, planes and colour, V4L2's and those of frames. */
#include "camera.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <string.h>
#include <unistd.h>

/* Formats of one memory plane. Most have the same number in both. */
static const struct kind {
	uint32_t v4l2;
	uint32_t fourcc;
	uint8_t n_planes;
	uint8_t shift_y;       /* log2 of the rows that share a row of chroma */
	uint8_t chroma_stride; /* luma's divided by it */
	bool rgb;
} kinds[] = {
	{ V4L2_PIX_FMT_NV12, HM_FRAME_NV12, 2, 1, 1, false },
	{ V4L2_PIX_FMT_NV21, HM_FRAME_FOURCC('N', 'V', '2', '1'), 2, 1, 1, false },
	{ V4L2_PIX_FMT_NV16, HM_FRAME_FOURCC('N', 'V', '1', '6'), 2, 0, 1, false },
	{ V4L2_PIX_FMT_NV61, HM_FRAME_FOURCC('N', 'V', '6', '1'), 2, 0, 1, false },
	{ V4L2_PIX_FMT_YUV420, HM_FRAME_YUV420, 3, 1, 2, false },
	{ V4L2_PIX_FMT_YUYV, HM_FRAME_YUYV, 1, 0, 1, false },
	{ V4L2_PIX_FMT_UYVY, HM_FRAME_FOURCC('U', 'Y', 'V', 'Y'), 1, 0, 1, false },
	{ V4L2_PIX_FMT_XBGR32, HM_FRAME_XRGB8888, 1, 0, 1, true },
	{ V4L2_PIX_FMT_GREY, HM_FRAME_R8, 1, 0, 1, false },
};

#define N_KIND (sizeof(kinds) / sizeof(kinds[0]))
#define KINDS "NV12, NV21, NV16, NV61, YU12, YUYV, UYVY, XR24, R8"

static const struct kind *kind_of_v4l2(uint32_t v4l2)
{
	size_t i;

	for (i = 0; i < N_KIND; i++)
		if (kinds[i].v4l2 == v4l2)
			return &kinds[i];
	return NULL;
}

static const struct kind *kind_by_name(const char *name, size_t length)
{
	char code[] = "    ";
	size_t i;

	if (!length || length > 4)
		return NULL;
	memcpy(code, name, length);
	for (i = 0; i < N_KIND; i++)
		if (!memcmp(&kinds[i].fourcc, code, 4))
			return &kinds[i];
	return NULL;
}

/* ---- colour ---- */

static uint32_t matrix_of(const struct v4l2_pix_format *pix)
{
	uint32_t code = pix->ycbcr_enc ? pix->ycbcr_enc :
					 V4L2_MAP_YCBCR_ENC_DEFAULT(pix->colorspace);

	switch (code) {
	case V4L2_YCBCR_ENC_601:
	case V4L2_YCBCR_ENC_XV601:
		return 6;
	case V4L2_YCBCR_ENC_709:
	case V4L2_YCBCR_ENC_XV709:
		return 1;
	case V4L2_YCBCR_ENC_BT2020:
		return 9;
	case V4L2_YCBCR_ENC_BT2020_CONST_LUM:
		return 10;
	case V4L2_YCBCR_ENC_SMPTE240M:
		return 7;
	default:
		return 2;
	}
}

static uint32_t primaries_of(const struct v4l2_pix_format *pix)
{
	switch (pix->colorspace) {
	case V4L2_COLORSPACE_SMPTE170M:
		return 6;
	case V4L2_COLORSPACE_SMPTE240M:
		return 7;
	case V4L2_COLORSPACE_REC709:
	case V4L2_COLORSPACE_SRGB:
	case V4L2_COLORSPACE_JPEG:
		return 1;
	case V4L2_COLORSPACE_470_SYSTEM_M:
		return 4;
	case V4L2_COLORSPACE_470_SYSTEM_BG:
		return 5;
	case V4L2_COLORSPACE_BT2020:
		return 9;
	default:
		return 2;
	}
}

static uint32_t transfer_of(const struct v4l2_pix_format *pix)
{
	uint32_t code = pix->xfer_func ? pix->xfer_func :
					 V4L2_MAP_XFER_FUNC_DEFAULT(pix->colorspace);

	switch (code) {
	case V4L2_XFER_FUNC_709:
		return 1;
	case V4L2_XFER_FUNC_SRGB:
		return 13;
	case V4L2_XFER_FUNC_SMPTE240M:
		return 7;
	case V4L2_XFER_FUNC_NONE:
		return 8;
	case V4L2_XFER_FUNC_SMPTE2084:
		return 16;
	default:
		return 2;
	}
}

static bool is_full(const struct v4l2_pix_format *pix, bool rgb)
{
	if (pix->quantization)
		return pix->quantization == V4L2_QUANTIZATION_FULL_RANGE;
	/* V4L2_MAP_QUANTIZATION_DEFAULT() */
	return rgb || pix->colorspace == V4L2_COLORSPACE_JPEG;
}

static void take_facts(struct camera *camera, const struct v4l2_pix_format *pix, bool rgb)
{
	struct hm_frame_props *props = &camera->props;

	memset(props, 0, sizeof(*props));
	props->visible.width = pix->width;
	props->visible.height = pix->height;
	props->primaries = primaries_of(pix);
	props->transfer = transfer_of(pix);
	props->matrix = rgb ? 0 : matrix_of(pix);
	props->range = is_full(pix, rgb) ? HM_FRAME_RANGE_FULL : HM_FRAME_RANGE_LIMITED;
	props->time_base_num = 1;
	props->time_base_den = 1000000;
}

/* ---- planes ---- */

/* One after another in the buffer [V4L2's pages of the formats]. */
static int take_planes(struct camera *camera, const struct v4l2_pix_format *pix,
		       const struct kind *kind)
{
	struct hm_frame_layout *layout = &camera->layout;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t at = 0;
	uint32_t i;

	memset(layout, 0, sizeof(*layout));
	layout->fourcc = kind->fourcc;
	layout->n_planes = kind->n_planes;
	layout->modifier = HM_FRAME_LINEAR;
	layout->width = pix->width;
	layout->height = pix->height;
	for (i = 0; i < kind->n_planes; i++) {
		struct hm_frame_plane *plane = &layout->plane[i];

		plane->offset = at;
		plane->stride = i ? pix->bytesperline / kind->chroma_stride : pix->bytesperline;
		plane->rows = i ? (pix->height + (1u << kind->shift_y) - 1) >> kind->shift_y :
				  pix->height;
		plane->bytes = plane->stride * plane->rows;
		at += plane->bytes;
	}
	if (at > pix->sizeimage)
		return hm_error_set(-EOPNOTSUPP,
				    "%s: planes of %llu bytes are not in its pictures of %u",
				    camera->video->input, (unsigned long long)at,
				    pix->sizeimage);
	camera->image_size = (uint32_t)at;
	/* A dma-buf has whole pages. */
	layout->bytes = (pix->sizeimage + page - 1) / page * page;
	return 0;
}

/* ---- setting ---- */

static int ask(const char *text, struct v4l2_pix_format *pix, struct hm_video_info *info)
{
	const char *colon = strchr(text, ':');
	const struct kind *kind;

	if (!colon || !raw_take_size(colon + 1, info))
		return hm_error_set(
			-EINVAL,
			"format \"%s\" of a camera is not FORMAT:WIDTHxHEIGHT[@RATE], "
			"as in NV12:640x480@30",
			text);
	kind = kind_by_name(text, (size_t)(colon - text));
	if (!kind)
		return hm_error_set(-EINVAL, "format \"%s\" of a camera: none of " KINDS, text);
	pix->pixelformat = kind->v4l2;
	pix->width = info->width;
	pix->height = info->height;
	pix->field = V4L2_FIELD_NONE;
	pix->bytesperline = pix->sizeimage = 0;
	pix->colorspace = pix->ycbcr_enc = pix->quantization = pix->xfer_func = 0;
	return 0;
}

static int set(struct camera *camera, const char *text, struct v4l2_format *format)
{
	struct hm_video_info info = { 0 };
	struct v4l2_streamparm rate = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	struct v4l2_selection whole = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
		.target = V4L2_SEL_TGT_COMPOSE,
	};
	uint32_t asked;
	int r;

	r = ask(text, &format->fmt.pix, &info);
	if (r)
		return r;
	asked = format->fmt.pix.pixelformat;
	/* A refused format leaves the camera as it was, with its part of the picture. */
	r = camera_ioctl(camera, VIDIOC_TRY_FMT, format);
	if (r)
		return camera_failed(camera, r, "does not try a format");
	if (format->fmt.pix.pixelformat != asked || format->fmt.pix.width != info.width ||
	    format->fmt.pix.height != info.height)
		return hm_error_set(-EINVAL, "%s has no %s: the nearest is %.4s:%ux%u",
				    camera->video->input, text,
				    (const char *)&format->fmt.pix.pixelformat,
				    format->fmt.pix.width, format->fmt.pix.height);
	r = camera_ioctl(camera, VIDIOC_S_FMT, format);
	if (r)
		return camera_failed(camera, r, "does not take a format");
	/* A scaler may still fill the part that a smaller format had; many have none. */
	whole.r.width = info.width;
	whole.r.height = info.height;
	camera_ioctl(camera, VIDIOC_S_SELECTION, &whole);
	if (!info.rate_num)
		return 0;
	/* The nearest rate; many have one only, which hm_video_query() reports. */
	rate.parm.capture.timeperframe.numerator = info.rate_den;
	rate.parm.capture.timeperframe.denominator = info.rate_num;
	camera_ioctl(camera, VIDIOC_S_PARM, &rate);
	return 0;
}

/* The same samples in an order that is ours: what a codec may be asked for in place of its own. */
static const struct order {
	uint32_t v4l2, ours;
} orders[] = {
	{ V4L2_PIX_FMT_BGR24, V4L2_PIX_FMT_XBGR32 },
	{ V4L2_PIX_FMT_RGB24, V4L2_PIX_FMT_XBGR32 },
	{ V4L2_PIX_FMT_BGR32, V4L2_PIX_FMT_XBGR32 },
	{ V4L2_PIX_FMT_RGB32, V4L2_PIX_FMT_XBGR32 },
	{ V4L2_PIX_FMT_XRGB32, V4L2_PIX_FMT_XBGR32 },
	{ V4L2_PIX_FMT_RGBX32, V4L2_PIX_FMT_XBGR32 },
	{ V4L2_PIX_FMT_YVU420, V4L2_PIX_FMT_YUV420 },
	{ V4L2_PIX_FMT_YUV422P, V4L2_PIX_FMT_NV16 },
};

/* Drivers list formats of other samples, too, and take them: no list is asked. */
static void set_other(struct camera *camera, struct v4l2_format *format)
{
	struct v4l2_format other = *format;
	size_t i;

	for (i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		if (orders[i].v4l2 != format->fmt.pix.pixelformat)
			continue;
		other.fmt.pix.pixelformat = orders[i].ours;
		other.fmt.pix.bytesperline = other.fmt.pix.sizeimage = 0;
		if (!camera_ioctl(camera, VIDIOC_S_FMT, &other))
			*format = other;
		return;
	}
}

static void take_rate(struct camera *camera)
{
	struct v4l2_streamparm rate = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	struct hm_video_info *info = &camera->video->info;

	if (camera_ioctl(camera, VIDIOC_G_PARM, &rate) ||
	    !rate.parm.capture.timeperframe.numerator)
		return;
	info->rate_num = rate.parm.capture.timeperframe.denominator;
	info->rate_den = rate.parm.capture.timeperframe.numerator;
	if (info->rate_num)
		camera->props.duration =
			(int64_t)(1000000ull * info->rate_den / info->rate_num);
}

int camera_set_format(struct camera *camera, const char *text)
{
	struct v4l2_format format = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	struct hm_video_info *info = &camera->video->info;
	const struct kind *kind;
	int r;

	r = camera_ioctl(camera, VIDIOC_G_FMT, &format);
	if (r)
		return camera_failed(camera, r, "does not tell its format");
	if (text) {
		r = set(camera, text, &format);
		if (r)
			return r;
	}
	if (!kind_of_v4l2(format.fmt.pix.pixelformat) && camera->feed)
		set_other(camera, &format);
	kind = kind_of_v4l2(format.fmt.pix.pixelformat);
	if (!kind)
		return hm_error_set(-EOPNOTSUPP,
				    "%s: pictures of format %.4s: set one of " KINDS
				    ", as NV12:640x480",
				    camera->video->input,
				    (const char *)&format.fmt.pix.pixelformat);
	r = take_planes(camera, &format.fmt.pix, kind);
	if (r)
		return r;
	take_facts(camera, &format.fmt.pix, kind->rgb);
	take_rate(camera);
	info->fourcc = kind->fourcc;
	info->width = format.fmt.pix.width;
	info->height = format.fmt.pix.height;
	return 0;
}
