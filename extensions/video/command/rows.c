// SPDX-License-Identifier: MIT
/*
 * Rows: samples are spread into arrays, one element a pixel, and the arrays become pixels in a
 * loop that a compiler makes as wide as the instruction set. The build compiles this file once
 * for each set: ROW_CONVERT is the name of the function then.
 */
#include "rows.h"

#ifndef ROW_CONVERT
#define ROW_CONVERT row_convert
#endif

#define CHUNK 256 /* pixels */

static inline int sample(const uint8_t *at, bool deep)
{
	return deep ? at[0] | at[1] << 8 : at[0] << 8;
}

static inline uint32_t clamp(int value)
{
	value = value < 0 ? 0 : value;
	return value > 255 ? 255 : (uint32_t)value;
}

/* Chroma of @n pixels from an even one on, where two share a sample. */
static inline __attribute__((always_inline)) void spread_pairs(int32_t *to, const uint8_t *from,
							       int step, bool deep, int n)
{
	int i;

	for (i = 0; i < n; i += 2)
		to[i] = to[i + 1] = sample(from + i / 2 * step, deep) - 32768;
}

static inline __attribute__((always_inline)) void spread(int32_t *to, const uint8_t *from,
							 int step, bool deep, int less, int n)
{
	int i;

	for (i = 0; i < n; i++)
		to[i] = sample(from + i * step, deep) - less;
}

static void spread_chroma(int32_t to[CHUNK], const struct row *row, const uint8_t *from, int n)
{
	const bool pairs = row->shift;

	if (row->deep && pairs)
		spread_pairs(to, from, row->chroma_step, true, n);
	else if (row->deep)
		spread(to, from, row->chroma_step, true, 32768, n);
	else if (pairs && row->chroma_step == 1)
		spread_pairs(to, from, 1, false, n);
	else if (pairs && row->chroma_step == 2)
		spread_pairs(to, from, 2, false, n);
	else if (pairs)
		spread_pairs(to, from, row->chroma_step, false, n);
	else
		spread(to, from, row->chroma_step, false, 32768, n);
}

static void spread_luma(int32_t to[CHUNK], const struct row *row, const uint8_t *from,
			int black, int n)
{
	if (row->deep)
		spread(to, from, row->luma_step, true, black, n);
	else if (row->luma_step == 1)
		spread(to, from, 1, false, black, n);
	else
		spread(to, from, row->luma_step, false, black, n);
}

static void combine(uint32_t *restrict out, const int32_t *restrict luma,
		    const int32_t *restrict u, const int32_t *restrict v,
		    const struct row_factors *factors, int n)
{
	const struct row_factors f = *factors;
	int i;

	for (i = 0; i < n; i++) {
		int l = luma[i] * f.luma + (1 << 20);
		uint32_t r = clamp((l + v[i] * f.r_by_v) >> 21);
		uint32_t g = clamp((l + u[i] * f.g_by_u + v[i] * f.g_by_v) >> 21);
		uint32_t b = clamp((l + u[i] * f.b_by_u) >> 21);

		out[i] = 0xff000000u | r << 16 | g << 8 | b;
	}
}

void ROW_CONVERT(const struct row *row, const struct row_factors *factors, uint64_t begin,
		 uint64_t end)
{
	/* One more: a pair may begin before the first pixel, and end behind the last one. */
	int32_t luma[CHUNK], u[CHUNK + 2], v[CHUNK + 2];
	uint64_t at, chroma;
	int n, odd;

	for (at = begin; at < end; at += (uint64_t)n) {
		n = end - at < CHUNK ? (int)(end - at) : CHUNK;
		odd = row->shift ? (int)(at & 1) : 0;
		chroma = (at >> row->shift) * (uint64_t)row->chroma_step;
		spread_luma(luma, row, row->luma + at * (uint64_t)row->luma_step,
			    factors->black, n);
		spread_chroma(u, row, row->u + chroma, n + odd);
		spread_chroma(v, row, row->v + chroma, n + odd);
		combine(row->out + at, luma, u + odd, v + odd, factors, n);
	}
}
