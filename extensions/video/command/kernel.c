// SPDX-License-Identifier: MIT
/*
 * yuv_to_xrgb: one work item a pixel, in OpenCL C and for CPUs. Both compute with the same
 * integers, so that both give the same bytes: luma and chroma in 1/256 of a level of 8 bits,
 * factors in 1/8192. Each pixel takes the sample of chroma that covers it.
 */
#include "kernel.h"

#include <stdbool.h>
#include <string.h>

const char kernel_source[] =
	"int sample(__global const uchar *at, int deep)\n"
	"{\n"
	"	return deep ? at[0] | at[1] << 8 : at[0] << 8;\n"
	"}\n"
	"\n"
	"__kernel void yuv_to_xrgb(__global const uchar *luma, __global const uchar *u_plane,\n"
	"	__global const uchar *v_plane, __global uint *out, int x, int y,\n"
	"	int luma_stride, int chroma_stride, int out_stride, int luma_at, int u_at,\n"
	"	int v_at, int luma_step, int chroma_step, int shift_x, int shift_y, int deep,\n"
	"	int black, int luma_scale, int r_by_v, int g_by_u, int g_by_v, int b_by_u)\n"
	"{\n"
	"	const int column = x + (int)get_global_id(0);\n"
	"	const int row = y + (int)get_global_id(1);\n"
	"	const size_t chroma = (size_t)(row >> shift_y) * chroma_stride +\n"
	"		(column >> shift_x) * chroma_step;\n"
	"	const int l = (sample(luma + (size_t)row * luma_stride + luma_at +\n"
	"			column * luma_step, deep) - black) * luma_scale;\n"
	"	const int u = sample(u_plane + chroma + u_at, deep) - 32768;\n"
	"	const int v = sample(v_plane + chroma + v_at, deep) - 32768;\n"
	"	const int r = (l + v * r_by_v + (1 << 20)) >> 21;\n"
	"	const int g = (l + u * g_by_u + v * g_by_v + (1 << 20)) >> 21;\n"
	"	const int b = (l + u * b_by_u + (1 << 20)) >> 21;\n"
	"\n"
	"	out[(size_t)get_global_id(1) * (out_stride / 4) + get_global_id(0)] =\n"
	"		0xff000000u | (uint)clamp(r, 0, 255) << 16 |\n"
	"		(uint)clamp(g, 0, 255) << 8 | (uint)clamp(b, 0, 255);\n"
	"}\n";

/* Factors of one picture. */
struct factors {
	int black, luma, r_by_v, g_by_u, g_by_v, b_by_u;
};

static inline int sample(const uint8_t *at, bool deep)
{
	return deep ? at[0] | at[1] << 8 : at[0] << 8;
}

static inline uint32_t clamp(int value)
{
	return value < 0 ? 0 : value > 255 ? 255 : (uint32_t)value;
}

static inline uint32_t pixel(int l, int r, int g, int b)
{
	return 0xff000000u | clamp((l + r) >> 21) << 16 | clamp((l + g) >> 21) << 8 |
	       clamp((l + b) >> 21);
}

/* Compiled once for each way that samples lie: @step and the like are constants there. */
static inline __attribute__((always_inline)) void
convert_row(uint32_t *out, const uint8_t *luma, const uint8_t *u_row, const uint8_t *v_row,
	    uint64_t begin, uint64_t end, int luma_step, int chroma_step, int shift, bool deep,
	    const struct factors *factors)
{
	const struct factors f = *factors;
	uint64_t i;

	for (i = begin; i < end; i++) {
		uint64_t at = (i >> shift) * (uint64_t)chroma_step;
		int l = (sample(luma + i * (uint64_t)luma_step, deep) - f.black) * f.luma;
		int u = sample(u_row + at, deep) - 32768, v = sample(v_row + at, deep) - 32768;

		out[i] = pixel(l + (1 << 20), v * f.r_by_v, u * f.g_by_u + v * f.g_by_v,
			       u * f.b_by_u);
	}
}

int kernel_cpu(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const struct factors factors = {
		args[ARG_BLACK].i32,  args[ARG_LUMA_SCALE].i32, args[ARG_R_BY_V].i32,
		args[ARG_G_BY_U].i32, args[ARG_G_BY_V].i32,     args[ARG_B_BY_U].i32,
	};
	const int luma_step = args[ARG_LUMA_STEP].i32, step = args[ARG_CHROMA_STEP].i32;
	const int shift = args[ARG_SHIFT_X].i32, x = args[ARG_X].i32;
	const bool deep = args[ARG_DEEP].i32;
	uint64_t row;

	for (row = range->begin[1]; row < range->end[1]; row++) {
		uint64_t from = row + (uint64_t)args[ARG_Y].i32;
		uint64_t chroma = (from >> args[ARG_SHIFT_Y].i32) *
				  (uint64_t)args[ARG_CHROMA_STRIDE].i32;
		const uint8_t *luma = (const uint8_t *)args[ARG_LUMA].pointer +
				      from * (uint64_t)args[ARG_LUMA_STRIDE].i32 +
				      args[ARG_LUMA_AT].i32;
		const uint8_t *u = (const uint8_t *)args[ARG_U].pointer + chroma +
				   args[ARG_U_AT].i32;
		const uint8_t *v = (const uint8_t *)args[ARG_V].pointer + chroma +
				   args[ARG_V_AT].i32;
		/* Pixels are counted from the coded picture's edge: @out begins left of its row. */
		uint32_t *out = (uint32_t *)((uintptr_t)args[ARG_OUT].pointer +
					     row * (uint64_t)args[ARG_OUT_STRIDE].i32 -
					     (uint64_t)x * sizeof(*out));
		uint64_t begin = range->begin[0] + (uint64_t)x;
		uint64_t end = range->end[0] + (uint64_t)x;

		if (!deep && luma_step == 1 && step == 1 && shift == 1)
			convert_row(out, luma, u, v, begin, end, 1, 1, 1, false, &factors);
		else if (!deep && luma_step == 1 && step == 2 && shift == 1)
			convert_row(out, luma, u, v, begin, end, 1, 2, 1, false, &factors);
		else if (!deep)
			convert_row(out, luma, u, v, begin, end, luma_step, step, shift, false,
				    &factors);
		else
			convert_row(out, luma, u, v, begin, end, luma_step, step, shift, true,
				    &factors);
	}
	return 0;
}
