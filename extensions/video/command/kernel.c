// SPDX-License-Identifier: MIT
/*
 * yuv_to_xrgb: one work item a pixel, in OpenCL C and for CPUs. Both compute with the same
 * integers, so that both give the same bytes: luma and chroma in 1/256 of a level of 8 bits,
 * factors in 1/8192. Each pixel takes the sample of chroma that covers it.
 */
#include "kernel.h"

#include "rows.h"

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

typedef void convert_function(const struct row *row, const struct row_factors *factors,
			      uint64_t begin, uint64_t end);

static convert_function *choose(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		return row_convert_pairs;
#endif
	return row_convert;
}

int kernel_cpu(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	const struct row_factors factors = {
		args[ARG_BLACK].i32,  args[ARG_LUMA_SCALE].i32, args[ARG_R_BY_V].i32,
		args[ARG_G_BY_U].i32, args[ARG_G_BY_V].i32,     args[ARG_B_BY_U].i32,
	};
	const uint64_t x = (uint64_t)args[ARG_X].i32;
	convert_function *convert = choose();
	struct row row = {
		.luma_step = args[ARG_LUMA_STEP].i32,
		.chroma_step = args[ARG_CHROMA_STEP].i32,
		.shift = args[ARG_SHIFT_X].i32,
		.deep = args[ARG_DEEP].i32,
	};
	uint64_t i, from, chroma;

	for (i = range->begin[1]; i < range->end[1]; i++) {
		from = i + (uint64_t)args[ARG_Y].i32;
		chroma =
			(from >> args[ARG_SHIFT_Y].i32) * (uint64_t)args[ARG_CHROMA_STRIDE].i32;
		row.luma = (const uint8_t *)args[ARG_LUMA].pointer +
			   from * (uint64_t)args[ARG_LUMA_STRIDE].i32 + args[ARG_LUMA_AT].i32;
		row.u = (const uint8_t *)args[ARG_U].pointer + chroma + args[ARG_U_AT].i32;
		row.v = (const uint8_t *)args[ARG_V].pointer + chroma + args[ARG_V_AT].i32;
		/* Pixels are counted from the coded picture's edge: out begins left of its row. */
		row.out = (uint32_t *)((uintptr_t)args[ARG_OUT].pointer +
				       i * (uint64_t)args[ARG_OUT_STRIDE].i32 -
				       x * sizeof(*row.out));
		convert(&row, &factors, range->begin[0] + x, range->end[0] + x);
	}
	return 0;
}
