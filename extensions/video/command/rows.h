/* SPDX-License-Identifier: MIT */
/* Rows: pixels of a row from YUV to XRGB, compiled for several instruction sets. */
#ifndef HETMAP_VIDEO_ROWS_H
#define HETMAP_VIDEO_ROWS_H

#include <stdbool.h>
#include <stdint.h>

/* Factors of one picture, in 1/8192; black in 1/256 of a level of 8 bits. */
struct row_factors {
	int black, luma, r_by_v, g_by_u, g_by_v, b_by_u;
};

/* Where the samples of a row are. */
struct row {
	uint32_t *out;
	const uint8_t *luma, *u, *v;
	int luma_step, chroma_step; /* bytes from sample to sample */
	int shift;                  /* log2 of the pixels that share a sample of chroma */
	bool deep;                  /* samples have 16 bits */
};

/* Converts pixels [@begin, @end). */
void row_convert(const struct row *row, const struct row_factors *factors, uint64_t begin,
		 uint64_t end);
#ifdef __x86_64__
/* The same, for processors with AVX2. */
void row_convert_avx2(const struct row *row, const struct row_factors *factors, uint64_t begin,
		      uint64_t end);
/* Likewise, and faster for 8 bits whose pixels share chroma by pairs. (rows_pairs.c) */
void row_convert_pairs(const struct row *row, const struct row_factors *factors, uint64_t begin,
		       uint64_t end);
#endif

#endif
