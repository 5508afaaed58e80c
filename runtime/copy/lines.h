/* SPDX-License-Identifier: MIT */
/*
 * Copies of whole lines by vectors. The file that includes this names the instruction set and the
 * moves of a vector:
 *
 *	TARGET          for __attribute__((target()))
 *	VECTOR          the type
 *	VECTOR_LOAD     from any address
 *	VECTOR_STORE    to any address
 *	VECTOR_FETCH    streaming load, aligned
 *	VECTOR_STREAM   store past the caches, aligned
 */
#include <immintrin.h>

#include "copy/copy.h"
#include "copy/pieces.h"

#define IN_SET __attribute__((target(TARGET)))
#define VECTORS (COPY_LINE / sizeof(VECTOR)) /* in a line */
/* Lines that are loaded before any is stored: a CPU has ten or more buffers for them. */
#define AT_ONCE 4u

static inline IN_SET __attribute__((always_inline)) void
stream_lines(char *to, const char *from, size_t lines)
{
	VECTOR bytes[AT_ONCE * VECTORS];
	size_t i;

#pragma GCC unroll 8
	for (i = 0; i < lines * VECTORS; i++)
		bytes[i] = VECTOR_LOAD(from + i * sizeof(VECTOR));
#pragma GCC unroll 8
	for (i = 0; i < lines * VECTORS; i++)
		VECTOR_STREAM(to + i * sizeof(VECTOR), bytes[i]);
}

static inline IN_SET __attribute__((always_inline)) void fetch_lines(char *to, const char *from,
								     size_t lines)
{
	VECTOR bytes[AT_ONCE * VECTORS];
	size_t i;

#pragma GCC unroll 8
	for (i = 0; i < lines * VECTORS; i++)
		bytes[i] = VECTOR_FETCH(from + i * sizeof(VECTOR));
#pragma GCC unroll 8
	for (i = 0; i < lines * VECTORS; i++)
		VECTOR_STORE(to + i * sizeof(VECTOR), bytes[i]);
}

static IN_SET void line(void *to, const void *from)
{
	stream_lines(to, from, 1);
}

static IN_SET void stores(void *to_bytes, const void *from_bytes, size_t length)
{
	const char *from = from_bytes;
	char *to = to_bytes;
	size_t head = pieces_head(to, length), at;

	pieces_store(to, from, head);
	for (at = head; length - at >= AT_ONCE * COPY_LINE; at += AT_ONCE * COPY_LINE)
		stream_lines(to + at, from + at, AT_ONCE);
	for (; length - at >= COPY_LINE; at += COPY_LINE)
		stream_lines(to + at, from + at, 1);
	pieces_store(to + at, from + at, length - at);
	_mm_sfence();
}

static IN_SET void loads(void *to_bytes, const void *from_bytes, size_t length)
{
	const char *from = from_bytes;
	char *to = to_bytes;
	size_t head = pieces_head(from, length), at;

	/*
	 * A streaming load may come before earlier loads, such as one that has seen that the
	 * bytes are ready [Intel SDM, volume 2, MOVNTDQA].
	 */
	_mm_mfence();
	pieces_load(to, from, head);
	for (at = head; length - at >= AT_ONCE * COPY_LINE; at += AT_ONCE * COPY_LINE)
		fetch_lines(to + at, from + at, AT_ONCE);
	for (; length - at >= COPY_LINE; at += COPY_LINE)
		fetch_lines(to + at, from + at, 1);
	pieces_load(to + at, from + at, length - at);
}
