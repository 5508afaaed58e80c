// SPDX-License-Identifier: MIT
/* Arguments of a launch of yuv_to_xrgb: planes and factors of a picture. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <hetmap/error.h>

#include "convert.h"
#include "kernel.h"

#define ONE 8192 /* a factor of 1 */

/* Where samples lie, by format. */
static const struct samples {
	uint32_t fourcc;
	uint8_t u_plane, v_plane;
	uint8_t luma_at, u_at, v_at; /* bytes from the start of a row */
	uint8_t luma_step, chroma_step;
	uint8_t shift_x, shift_y;
	bool deep, grey;
} kinds[] = {
	{ HM_FRAME_YUV420, 1, 2, 0, 0, 0, 1, 1, 1, 1, false, false },
	{ HM_FRAME_FOURCC('Y', 'U', '1', '6'), 1, 2, 0, 0, 0, 1, 1, 1, 0, false, false },
	{ HM_FRAME_FOURCC('Y', 'U', '2', '4'), 1, 2, 0, 0, 0, 1, 1, 0, 0, false, false },
	{ HM_FRAME_NV12, 1, 1, 0, 0, 1, 1, 2, 1, 1, false, false },
	{ HM_FRAME_FOURCC('N', 'V', '2', '1'), 1, 1, 0, 1, 0, 1, 2, 1, 1, false, false },
	{ HM_FRAME_FOURCC('N', 'V', '1', '6'), 1, 1, 0, 0, 1, 1, 2, 1, 0, false, false },
	{ HM_FRAME_FOURCC('N', 'V', '2', '4'), 1, 1, 0, 0, 1, 1, 2, 0, 0, false, false },
	{ HM_FRAME_P010, 1, 1, 0, 0, 2, 2, 4, 1, 1, true, false },
	{ HM_FRAME_YUYV, 0, 0, 0, 1, 3, 2, 4, 1, 0, false, false },
	{ HM_FRAME_FOURCC('U', 'Y', 'V', 'Y'), 0, 0, 1, 0, 2, 2, 4, 1, 0, false, false },
	{ HM_FRAME_R8, 0, 0, 0, 0, 0, 1, 1, 0, 0, false, true },
};

/* Weights of red and blue in luma, by H.273's MatrixCoefficients. */
static const struct matrix {
	uint32_t number;
	const char *name;
	double red, blue;
} matrices[] = {
	{ 1, "BT.709", 0.2126, 0.0722 },   { 4, "FCC", 0.30, 0.11 },
	{ 5, "BT.601", 0.299, 0.114 },     { 6, "BT.601", 0.299, 0.114 },
	{ 7, "SMPTE 240M", 0.212, 0.087 }, { 9, "BT.2020", 0.2627, 0.0593 },
};

static const struct samples *samples_of(uint32_t fourcc)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].fourcc == fourcc)
			return &kinds[i];
	return NULL;
}

static const struct matrix *matrix_of(uint32_t number)
{
	size_t i;

	for (i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++)
		if (matrices[i].number == number)
			return &matrices[i];
	return NULL;
}

/* A picture that does not say has BT.709 from 720 rows on, as players take it. */
static uint32_t matrix_number(const struct hm_frame_info *from)
{
	if (from->props.matrix != 2)
		return from->props.matrix;
	return from->props.visible.height >= 720 ? 1 : 6;
}

/* Grey that does not say is full, as libavutil takes it. */
static bool is_full(const struct hm_frame_info *from)
{
	return from->props.range == HM_FRAME_RANGE_FULL ||
	       (from->props.range == HM_FRAME_RANGE_UNKNOWN && from->fourcc == HM_FRAME_R8);
}

bool convert_takes(uint32_t fourcc)
{
	return samples_of(fourcc);
}

void convert_colour_of(const struct hm_frame_info *from, struct convert_colour *ret_colour)
{
	const struct matrix *matrix = matrix_of(matrix_number(from));

	ret_colour->matrix = from->props.matrix == 0 ? "RGB" :
			     matrix                  ? matrix->name :
						       "unknown";
	ret_colour->range = is_full(from) ? "full" : "limited";
	ret_colour->guessed = from->props.matrix == 2;
}

int convert_create(struct hm_kernel **ret_kernel)
{
	static const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "yuv_to_xrgb",
		.opencl = kernel_source,
		.cpu = kernel_cpu,
		.signature = KERNEL_SIGNATURE,
	};

	return hm_kernel_create(&desc, ret_kernel);
}

static struct hm_arg number(double value)
{
	return HM_I32((int32_t)lrint(value));
}

static void set_factors(struct hm_arg *args, const struct hm_frame_info *from,
			const struct samples *samples, const struct matrix *matrix)
{
	const bool full = is_full(from);
	/* The largest sample, whose lower bits are zero where it has more than 8. */
	double most = samples->deep ? 1023 * 64 : 255 * 256;
	double luma = full ? 255 * 256 / most : 255.0 / 219;
	double chroma = full ? 255 * 256 / most : 255.0 / 224;
	double green = 1 - matrix->red - matrix->blue;

	if (samples->grey)
		chroma = 0;
	args[ARG_BLACK] = HM_I32(full ? 0 : 16 * 256);
	args[ARG_LUMA_SCALE] = number(luma * ONE);
	args[ARG_R_BY_V] = number(chroma * 2 * (1 - matrix->red) * ONE);
	args[ARG_B_BY_U] = number(chroma * 2 * (1 - matrix->blue) * ONE);
	args[ARG_G_BY_U] =
		number(-chroma * 2 * (1 - matrix->blue) * matrix->blue / green * ONE);
	args[ARG_G_BY_V] = number(-chroma * 2 * (1 - matrix->red) * matrix->red / green * ONE);
}

static struct hm_arg plane_range(const struct hm_frame_info *info, uint32_t plane,
				 uint32_t access)
{
	return HM_RANGE(info->address[plane], info->plane[plane].bytes, access);
}

int convert_launch(struct hm_queue *queue, struct hm_kernel *kernel,
		   const struct hm_frame_info *from, const struct hm_frame_info *to,
		   struct hm_fence **ret_fence)
{
	const struct matrix *matrix = matrix_of(matrix_number(from));
	const struct samples *samples = samples_of(from->fourcc);
	const struct hm_frame_rect *visible = &from->props.visible;
	uint64_t grid[3] = { visible->width, visible->height, 1 };
	struct hm_arg args[N_ARG];

	if (!samples || from->modifier != HM_FRAME_LINEAR)
		return hm_error_set(-EOPNOTSUPP, "pictures of format %.4s can't be converted",
				    (const char *)&from->fourcc);
	if (!matrix)
		return hm_error_set(-EOPNOTSUPP,
				    "pictures with matrix %u of H.273 can't be converted",
				    from->props.matrix);
	args[ARG_LUMA] = plane_range(from, 0, HM_READ);
	args[ARG_U] = plane_range(from, samples->u_plane, HM_READ);
	args[ARG_V] = plane_range(from, samples->v_plane, HM_READ);
	args[ARG_OUT] = plane_range(to, 0, HM_WRITE);
	args[ARG_X] = HM_I32((int32_t)visible->x);
	args[ARG_Y] = HM_I32((int32_t)visible->y);
	args[ARG_LUMA_STRIDE] = HM_I32((int32_t)from->plane[0].stride);
	args[ARG_CHROMA_STRIDE] = HM_I32((int32_t)from->plane[samples->u_plane].stride);
	args[ARG_OUT_STRIDE] = HM_I32((int32_t)to->plane[0].stride);
	args[ARG_LUMA_AT] = HM_I32(samples->luma_at);
	args[ARG_U_AT] = HM_I32(samples->u_at);
	args[ARG_V_AT] = HM_I32(samples->v_at);
	args[ARG_LUMA_STEP] = HM_I32(samples->luma_step);
	args[ARG_CHROMA_STEP] = HM_I32(samples->chroma_step);
	args[ARG_SHIFT_X] = HM_I32(samples->shift_x);
	args[ARG_SHIFT_Y] = HM_I32(samples->shift_y);
	args[ARG_DEEP] = HM_I32(samples->deep);
	set_factors(args, from, samples, matrix);
	return hm_queue_launch(queue, kernel, grid, args, N_ARG, ret_fence);
}

int convert_copy(struct hm_queue *queue, const struct hm_frame_info *from,
		 const struct hm_frame_info *to, struct hm_fence **ret_fence)
{
	const struct hm_frame_rect *visible = &from->props.visible;
	const unsigned char *source = from->address[0];
	unsigned char *out = to->address[0];
	uint64_t stride = from->plane[0].stride, bytes = visible->width * 4ull;
	uint32_t row, n = visible->height;
	int r = 0;

	if (from->fourcc != HM_FRAME_XRGB8888 || from->modifier != HM_FRAME_LINEAR)
		return hm_error_set(-EOPNOTSUPP, "pictures of format %.4s can't be copied",
				    (const char *)&from->fourcc);
	source += visible->y * stride + visible->x * 4ull;
	/* Rows without a gap are one. */
	if (bytes == stride && stride == to->plane[0].stride) {
		bytes *= n;
		n = 1;
	}
	for (row = 0; row < n && !r; row++)
		r = hm_queue_copy(queue, out + row * to->plane[0].stride, source + row * stride,
				  bytes, row + 1 == n ? ret_fence : NULL);
	return r;
}
