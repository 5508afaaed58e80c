/* SPDX-License-Identifier: MIT */
/* Kernel: the arguments of yuv_to_xrgb, and its form for CPUs. */
#ifndef HETMAP_VIDEO_KERNEL_H
#define HETMAP_VIDEO_KERNEL_H

#include <hetmap/hetmap.h>

/* In the order of the arguments: pointers first, then numbers of 32 bits. */
enum {
	ARG_LUMA,
	ARG_U,
	ARG_V,
	ARG_OUT,
	ARG_X, /* of the visible part's first pixel */
	ARG_Y,
	ARG_LUMA_STRIDE, /* bytes of a row */
	ARG_CHROMA_STRIDE,
	ARG_OUT_STRIDE,
	ARG_LUMA_AT, /* byte of a row's first sample */
	ARG_U_AT,
	ARG_V_AT,
	ARG_LUMA_STEP, /* bytes from sample to sample */
	ARG_CHROMA_STEP,
	ARG_SHIFT_X, /* log2 of the pixels that share a sample of chroma */
	ARG_SHIFT_Y,
	ARG_DEEP,       /* 1: samples have 16 bits, the upper ones count */
	ARG_BLACK,      /* luma of black, in 1/256 of a level */
	ARG_LUMA_SCALE, /* factors, in 1/8192 */
	ARG_R_BY_V,
	ARG_G_BY_U,
	ARG_G_BY_V,
	ARG_B_BY_U,
	N_ARG,
};

#define KERNEL_SIGNATURE                                                        \
	"in in in out i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 " \
	"i32 i32 i32 i32 i32"

extern const char kernel_source[];
int kernel_cpu(const struct hm_cpu_range *range, const struct hm_arg *args);

#endif
