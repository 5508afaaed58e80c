// SPDX-License-Identifier: MIT
/*
 * Converts integers of one type to another, with a loop for each pair. Types wide enough for all
 * values need no check; otherwise a value that does not fit is reported. Other types are copied
 * as they are, in this machine's byte order, and short floats become F32.
 */
#include <string.h>

#include "format/tokens/tokens.h"

/*
 * Steps of a constant length: compilers vectorise the loop even when asked for little code
 * (-O2).
 */
#define STEP 64

typedef uint8_t u8_value;
typedef int8_t i8_value;
/* In a file they may be at any address. */
typedef uint16_t __attribute__((aligned(1), may_alias)) u16_value;
typedef int16_t __attribute__((aligned(1), may_alias)) i16_value;
typedef uint32_t __attribute__((aligned(1), may_alias)) u32_value;
typedef int32_t __attribute__((aligned(1), may_alias)) i32_value;
typedef uint64_t __attribute__((aligned(1), may_alias)) u64_value;
typedef int64_t __attribute__((aligned(1), may_alias)) i64_value;

#define AS_IT_IS(value) (value)

/* The compiler decides which of the comparisons can be true. */
#pragma GCC diagnostic ignored "-Wtype-limits"

/* The value fits if it converts back to itself, with the same sign. */
#define ONE(at)                                            \
	do {                                               \
		source value = (source)TURN(from[at]);     \
                                                           \
		to[at] = (target)value;                    \
		bad |= (source)(target)value != value;     \
		bad |= (value < 0) != ((target)value < 0); \
	} while (0)

#define WIDEN(name, to_type, from_type, plain)                                                 \
	static bool name(void *restrict to_bytes, const void *restrict from_bytes, uint64_t n) \
	{                                                                                      \
		typedef to_type target;                                                        \
		typedef plain source;                                                          \
		const from_type *restrict from = from_bytes;                                   \
		target *restrict to = to_bytes;                                                \
		unsigned int bad = 0;                                                          \
		uint64_t i;                                                                    \
		int j;                                                                         \
                                                                                               \
		for (; n >= STEP; n -= STEP, from += STEP, to += STEP)                         \
			for (j = 0; j < STEP; j++)                                             \
				ONE(j);                                                        \
		for (i = 0; i < n; i++)                                                        \
			ONE(i);                                                                \
		return bad;                                                                    \
	}

#define WIDEN_TO_ALL(from, from_type, plain)             \
	WIDEN(from##_to_u8, uint8_t, from_type, plain)   \
	WIDEN(from##_to_i8, int8_t, from_type, plain)    \
	WIDEN(from##_to_u16, uint16_t, from_type, plain) \
	WIDEN(from##_to_i16, int16_t, from_type, plain)  \
	WIDEN(from##_to_u32, uint32_t, from_type, plain) \
	WIDEN(from##_to_i32, int32_t, from_type, plain)  \
	WIDEN(from##_to_u64, uint64_t, from_type, plain) \
	WIDEN(from##_to_i64, int64_t, from_type, plain)

#define TURN AS_IT_IS
WIDEN_TO_ALL(u8, u8_value, uint8_t)
WIDEN_TO_ALL(i8, i8_value, int8_t)
WIDEN_TO_ALL(u16, u16_value, uint16_t)
WIDEN_TO_ALL(i16, i16_value, int16_t)
WIDEN_TO_ALL(u32, u32_value, uint32_t)
WIDEN_TO_ALL(i32, i32_value, int32_t)
WIDEN_TO_ALL(u64, u64_value, uint64_t)
WIDEN_TO_ALL(i64, i64_value, int64_t)
#undef TURN

#define TURN(value) __builtin_bswap16((uint16_t)(value))
WIDEN_TO_ALL(swapped_u16, u16_value, uint16_t)
WIDEN_TO_ALL(swapped_i16, i16_value, int16_t)
#undef TURN
#define TURN(value) __builtin_bswap32((uint32_t)(value))
WIDEN_TO_ALL(swapped_u32, u32_value, uint32_t)
WIDEN_TO_ALL(swapped_i32, i32_value, int32_t)
#undef TURN
#define TURN(value) __builtin_bswap64((uint64_t)(value))
WIDEN_TO_ALL(swapped_u64, u64_value, uint64_t)
WIDEN_TO_ALL(swapped_i64, i64_value, int64_t)
#undef TURN

/* ---- the table ---- */

#define N_TYPE 8

/* The place of an integer type in the table; N_TYPE: no integer. */
static uint32_t place_of(uint32_t dtype)
{
	static const uint32_t types[N_TYPE] = {
		HM_DTYPE_U8,  HM_DTYPE_I8,  HM_DTYPE_U16, HM_DTYPE_I16,
		HM_DTYPE_U32, HM_DTYPE_I32, HM_DTYPE_U64, HM_DTYPE_I64,
	};
	uint32_t i;

	for (i = 0; i < N_TYPE && types[i] != dtype; i++)
		;
	return i;
}

#define ROW(from)                                                                        \
	{                                                                                \
		from##_to_u8, from##_to_i8, from##_to_u16, from##_to_i16, from##_to_u32, \
			from##_to_i32, from##_to_u64, from##_to_i64                      \
	}

/* [swapped][from][to] */
static widen_function *const table[2][N_TYPE][N_TYPE] = {
	{ ROW(u8), ROW(i8), ROW(u16), ROW(i16), ROW(u32), ROW(i32), ROW(u64), ROW(i64) },
	/* Single bytes have no order. */
	{ ROW(u8), ROW(i8), ROW(swapped_u16), ROW(swapped_i16), ROW(swapped_u32),
	  ROW(swapped_i32), ROW(swapped_u64), ROW(swapped_i64) },
};

/* ---- a bound ---- */

/* Signed values are compared as if they were not: negative ones are above all @most. */
#define ABOVE(name, type)                                                         \
	static bool name(const void *from_bytes, uint64_t n, uint64_t most_value) \
	{                                                                         \
		const type *from = from_bytes;                                    \
		unsigned int above = 0;                                           \
		type most = (type)most_value;                                     \
		uint64_t i;                                                       \
		int j;                                                            \
                                                                                  \
		for (; n >= STEP; n -= STEP, from += STEP)                        \
			for (j = 0; j < STEP; j++)                                \
				above |= (TURN(from[j])) > most;                  \
		for (i = 0; i < n; i++)                                           \
			above |= (TURN(from[i])) > most;                          \
		return above;                                                     \
	}

#define TURN AS_IT_IS
ABOVE(u8_above, u8_value)
ABOVE(u16_above, u16_value)
ABOVE(u32_above, u32_value)
ABOVE(u64_above, u64_value)
#undef TURN
#define TURN __builtin_bswap16
ABOVE(swapped_u16_above, u16_value)
#undef TURN
#define TURN __builtin_bswap32
ABOVE(swapped_u32_above, u32_value)
#undef TURN
#define TURN __builtin_bswap64
ABOVE(swapped_u64_above, u64_value)
#undef TURN

above_function *widen_find_above(uint32_t dtype, bool swapped, uint64_t vocab,
				 uint64_t *ret_most)
{
	static above_function *const above[4][2] = {
		{ u8_above, u8_above },
		{ u16_above, swapped_u16_above },
		{ u32_above, swapped_u32_above },
		{ u64_above, swapped_u64_above },
	};
	uint32_t bits = hm_dtype_bits(dtype), place = place_of(dtype);
	uint64_t largest = UINT64_MAX >> (64 - bits);

	if (place == N_TYPE)
		return NULL;
	/* In the table each unsigned type is before the signed one. */
	if (place % 2)
		largest >>= 1;
	else if (vocab > largest)
		return NULL;
	*ret_most = min_u64(vocab - 1, largest);
	return above[place / 2][swapped];
}

/* ---- other types ---- */

/* Each half of a complex number has a byte order of its own. */
static bool swapped_c64(void *restrict to, const void *restrict from, uint64_t n)
{
	return swapped_u32_to_u32(to, from, 2 * n);
}

/* Copies values as they are: one function for each width. */
static widen_function *find_copy(uint32_t dtype, bool swapped)
{
	if (dtype == HM_DTYPE_C64 && swapped)
		return swapped_c64;
	switch (hm_dtype_bits(dtype)) {
	case 8:
		return u8_to_u8;
	case 16:
		return swapped ? swapped_u16_to_u16 : u16_to_u16;
	case 32:
		return swapped ? swapped_u32_to_u32 : u32_to_u32;
	case 64:
		return swapped ? swapped_u64_to_u64 : u64_to_u64;
	default:
		return NULL; /* no type, or one of 4 or 6 bits */
	}
}

static inline uint32_t bf16_bits(uint16_t value)
{
	return (uint32_t)value << 16;
}

/* F32 has all values of F16; a NaN keeps its payload. */
static inline uint32_t f16_bits(uint16_t value)
{
	uint32_t exponent = value & 0x7c00, bits = (uint32_t)(value & 0x7fff) << 13;
	union {
		uint32_t bits;
		float value;
	} small = { .bits = bits + (113u << 23) }, least = { .bits = 113u << 23 };

	/* Subtracts the leading one, which a denormal number does not have. */
	small.value -= least.value;
	bits += exponent == 0x7c00 ? 224u << 23 : 112u << 23;
	bits = exponent ? bits : small.bits & 0x7fffffff;
	return bits | (uint32_t)(value & 0x8000) << 16;
}

#define WIDEN_FLOAT(name, bits_of)                                                             \
	static bool name(void *restrict to_bytes, const void *restrict from_bytes, uint64_t n) \
	{                                                                                      \
		const u16_value *restrict from = from_bytes;                                   \
		u32_value *restrict to = to_bytes;                                             \
		uint64_t i;                                                                    \
		int j;                                                                         \
                                                                                               \
		for (; n >= STEP; n -= STEP, from += STEP, to += STEP)                         \
			for (j = 0; j < STEP; j++)                                             \
				to[j] = bits_of(TURN(from[j]));                                \
		for (i = 0; i < n; i++)                                                        \
			to[i] = bits_of(TURN(from[i]));                                        \
		return false;                                                                  \
	}

#define TURN AS_IT_IS
WIDEN_FLOAT(f16_to_f32, f16_bits)
WIDEN_FLOAT(bf16_to_f32, bf16_bits)
#undef TURN
#define TURN __builtin_bswap16
WIDEN_FLOAT(swapped_f16_to_f32, f16_bits)
WIDEN_FLOAT(swapped_bf16_to_f32, bf16_bits)
#undef TURN

static const struct conversion {
	uint32_t to, from;
	widen_function *widen[2]; /* [1]: swapped */
} conversions[] = {
	{ HM_DTYPE_F32, HM_DTYPE_F16, { f16_to_f32, swapped_f16_to_f32 } },
	{ HM_DTYPE_F32, HM_DTYPE_BF16, { bf16_to_f32, swapped_bf16_to_f32 } },
};

widen_function *widen_find(uint32_t to, uint32_t from, bool swapped)
{
	uint32_t i = place_of(from), j = place_of(to);

	if (i < N_TYPE && j < N_TYPE)
		return table[swapped][i][j];
	if (to == from)
		return find_copy(to, swapped);
	for (i = 0; i < ARRAY_SIZE(conversions); i++)
		if (conversions[i].to == to && conversions[i].from == from)
			return conversions[i].widen[swapped];
	return NULL;
}

bool widen_is_integer(uint32_t dtype)
{
	return place_of(dtype) < N_TYPE;
}

bool widen_knows(uint32_t dtype)
{
	return widen_find(dtype, dtype, false);
}

void widen_swap(void *values, uint32_t dtype, uint64_t n)
{
	widen_function *turn = widen_find(dtype, dtype, true);
	uint32_t width = hm_dtype_bits(dtype) / 8;
	unsigned char piece[STEP * 8];
	uint64_t at, now;

	/* Through a piece: the loops read and write different memory. */
	for (at = 0; at < n; at += now) {
		now = min_u64(n - at, STEP);
		memcpy(piece, (char *)values + at * width, now * width);
		turn((char *)values + at * width, piece, now);
	}
}
