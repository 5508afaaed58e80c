/* SPDX-License-Identifier: MIT */
/*
 * Copies to memory that bypass the CPU's caches.
 *
 * A store to a line that is in no cache reads the line first, and evicts another that is still
 * wanted. Whole lines written past the caches need one of these three transfers. That pays for
 * bytes that are read late and cached nowhere (Intel 64 and IA-32 Optimization Reference Manual,
 * "Non-temporal Stores").
 */
#ifndef HETMAP_RUNTIME_STREAM_H
#define HETMAP_RUNTIME_STREAM_H

#include <stddef.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/*
 * @to, @from and @length must be multiples of 64. As with memcpy(), another thread that sees a
 * later store of this one sees these bytes, too.
 */
static inline void stream_copy(void *to, const void *from, size_t length)
{
#ifdef __SSE2__
	const __m128i *in = from, *end = (const __m128i *)((const char *)from + length);
	__m128i *out = to;

	for (; in < end; in += 4, out += 4) {
		__m128i a = _mm_load_si128(in), b = _mm_load_si128(in + 1);
		__m128i c = _mm_load_si128(in + 2), d = _mm_load_si128(in + 3);

		_mm_stream_si128(out, a);
		_mm_stream_si128(out + 1, b);
		_mm_stream_si128(out + 2, c);
		_mm_stream_si128(out + 3, d);
	}
	/* Streaming stores are not ordered with other stores by themselves. */
	_mm_sfence();
#else
	memcpy(to, from, length);
#endif
}

#endif
