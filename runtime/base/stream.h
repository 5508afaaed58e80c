/* SPDX-License-Identifier: MIT */
/*
 * Copies whose bytes go to memory past the CPU's caches.
 *
 * A store to a line that is in no cache reads it first, and puts out another line that is
 * still wanted: of three transfers one is left where whole lines are written past them. It
 * pays for what nobody reads soon and no cache has (Intel 64 and IA-32 Optimization
 * Reference Manual, "Non-temporal Stores").
 */
#ifndef HETMAP_RUNTIME_STREAM_H
#define HETMAP_RUNTIME_STREAM_H

#include <stddef.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/*
 * @to, @from and @length: multiples of 64. What any thread stores after it is seen after
 * these bytes, as after memcpy().
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
	/* They are not in order with other stores by themselves. */
	_mm_sfence();
#else
	memcpy(to, from, length);
#endif
}

#endif
