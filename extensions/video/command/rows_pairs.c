// SPDX-License-Identifier: MIT
/*
 * Rows of 8 bits whose pixels share a sample of chroma by pairs (NV12, YU12 and their like), for
 * processors with AVX2. The results are those of row_convert(), bit by bit: a sample of chroma is
 * a signed word of 16 bits, so that one instruction multiplies both samples of a pair by their
 * factors, and adds the products.
 */
#include "rows.h"

#ifdef __x86_64__
#include <immintrin.h>

#define WIDE __attribute__((target("avx2")))
#define STEP 16 /* pixels at a time, with 8 pairs of samples */

/* The factors of each instruction; the pairs of a sample are its even and its odd word. */
struct wide_factors {
	__m256i even, odd; /* of luma */
	__m256i black;     /* what is added to luma, with the half that rounds */
	__m256i r, g, b;   /* of chroma */
};

/* Words (@even, @odd), for all pairs. */
static WIDE __m256i both(int even, int odd)
{
	return _mm256_set1_epi32((int)((uint32_t)odd << 16 | (uint16_t)even));
}

static WIDE void widen(const struct row_factors *f, bool v_first, struct wide_factors *ret_wide)
{
	ret_wide->even = both(f->luma, 0);
	ret_wide->odd = both(0, f->luma);
	ret_wide->black =
		_mm256_set1_epi32((int)((1u << 20) - (uint32_t)f->black * (uint32_t)f->luma));
	ret_wide->r = v_first ? both(f->r_by_v, 0) : both(0, f->r_by_v);
	ret_wide->g = v_first ? both(f->g_by_v, f->g_by_u) : both(f->g_by_u, f->g_by_v);
	ret_wide->b = v_first ? both(0, f->b_by_u) : both(f->b_by_u, 0);
}

/* Levels of 8 pixels: (luma + chroma) / 2^21, from 0 to 255. */
static WIDE __m256i level(__m256i luma, __m256i chroma)
{
	__m256i sum = _mm256_srai_epi32(_mm256_add_epi32(luma, chroma), 21);

	return _mm256_min_epi32(_mm256_max_epi32(sum, _mm256_setzero_si256()),
				_mm256_set1_epi32(255));
}

static WIDE __m256i pixels(__m256i luma, __m256i r, __m256i g, __m256i b)
{
	__m256i pixel = _mm256_or_si256(level(luma, b), _mm256_set1_epi32((int)0xff000000));

	pixel = _mm256_or_si256(pixel, _mm256_slli_epi32(level(luma, g), 8));
	return _mm256_or_si256(pixel, _mm256_slli_epi32(level(luma, r), 16));
}

/* 16 pixels; @pairs: 8 samples of each kind of chroma, in turns. */
static WIDE void convert_step(uint32_t *out, const uint8_t *luma, __m128i pairs,
			      const struct wide_factors *f)
{
	__m256i y = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)luma));
	__m256i chroma = _mm256_slli_epi16(
		_mm256_cvtepu8_epi16(_mm_xor_si128(pairs, _mm_set1_epi8((char)0x80))), 8);
	__m256i r = _mm256_madd_epi16(chroma, f->r);
	__m256i g = _mm256_madd_epi16(chroma, f->g);
	__m256i b = _mm256_madd_epi16(chroma, f->b);
	/* Luma has 8 bits here, and 1/256 of a level in the factor of black. */
	__m256i even =
		_mm256_add_epi32(_mm256_slli_epi32(_mm256_madd_epi16(y, f->even), 8), f->black);
	__m256i odd =
		_mm256_add_epi32(_mm256_slli_epi32(_mm256_madd_epi16(y, f->odd), 8), f->black);
	__m256i low, high;

	even = pixels(even, r, g, b);
	odd = pixels(odd, r, g, b);
	low = _mm256_unpacklo_epi32(even, odd);
	high = _mm256_unpackhi_epi32(even, odd);
	_mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(low, high, 0x20));
	_mm256_storeu_si256((__m256i *)(out + STEP / 2),
			    _mm256_permute2x128_si256(low, high, 0x31));
}

/* Samples of both kinds, in one plane or in two. */
static WIDE void convert_pairs(const struct row *row, const struct wide_factors *f,
			       uint64_t begin, uint64_t end)
{
	const uint8_t *first = row->u < row->v ? row->u : row->v;
	uint64_t at;

	if (row->chroma_step == 2) {
		for (at = begin; at < end; at += STEP)
			convert_step(row->out + at, row->luma + at,
				     _mm_loadu_si128((const __m128i *)(first + at)), f);
		return;
	}
	for (at = begin; at < end; at += STEP)
		convert_step(
			row->out + at, row->luma + at,
			_mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(row->u + at / 2)),
					  _mm_loadl_epi64((const __m128i *)(row->v + at / 2))),
			f);
}

/* One plane with u and v in turns, or a plane of each. */
static bool has_pairs(const struct row *row)
{
	if (row->deep || row->luma_step != 1 || row->shift != 1)
		return false;
	return row->chroma_step == 1 ||
	       (row->chroma_step == 2 && (row->u + 1 == row->v || row->v + 1 == row->u));
}

/* Words of 16 bits hold them. */
static bool are_words(const struct row_factors *f)
{
	const int all[] = { f->luma, f->r_by_v, f->g_by_u, f->g_by_v, f->b_by_u };
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i] > INT16_MAX || all[i] < INT16_MIN)
			return false;
	return true;
}

void row_convert_pairs(const struct row *row, const struct row_factors *factors, uint64_t begin,
		       uint64_t end)
{
	uint64_t from = begin + (begin & 1), to = from;
	struct wide_factors wide;

	if (from < end && has_pairs(row) && are_words(factors)) {
		to += (end - from) / STEP * STEP;
		widen(factors, row->chroma_step == 2 && row->v < row->u, &wide);
		convert_pairs(row, &wide, from, to);
	}
	if (to == from) {
		row_convert_avx2(row, factors, begin, end);
		return;
	}
	row_convert_avx2(row, factors, begin, from);
	row_convert_avx2(row, factors, to, end);
}
#endif
