/* SPDX-License-Identifier: MIT */
/* Small things that every step uses. */
#ifndef HETMAP_UTIL_H
#define HETMAP_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* @unit is a power of two. round_up wraps to 0 on overflow: check before. */
static inline uint64_t round_down(uint64_t value, uint64_t unit)
{
	return value & ~(unit - 1);
}

static inline uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) & ~(unit - 1);
}

static inline bool is_aligned(uint64_t value, uint64_t unit)
{
	return !(value & (unit - 1));
}

/*
 * Do [a, a + a_length) and [b, b + b_length) share a byte? The caller has checked that neither
 * wraps.
 */
static inline bool ranges_overlap(uint64_t a, uint64_t a_length, uint64_t b, uint64_t b_length)
{
	return a < b + b_length && b < a + a_length;
}

uint64_t page_size(void);
uint64_t time_now_ns(void); /* CLOCK_MONOTONIC */

/* "4 KiB", "1.5 GiB" into @text of 16 bytes at least; returns @text. */
const char *format_bytes(uint64_t bytes, char *text, size_t size);

/*
 * Versioned structs: the caller's struct_size says how many bytes of the struct there are.
 *
 * struct_read copies the part that both sides know into @to, zeroes the rest, and refuses an
 * unknown tail that is not zero. struct_check_out refuses a size above @known or below @least.
 * struct_write fills the caller's part.
 */
int struct_read(void *to, size_t known, const void *from, uint32_t from_size, size_t least,
		const char *what);
int struct_check_out(uint32_t size, size_t known, size_t least, const char *what);
void struct_write(void *to, const void *from, uint32_t to_size);

/*
 * Copies as much of a name as fits, and a '\0': printf() would take far longer. A control character
 * becomes a '?', so that a name can't make a line of a log.
 */
void name_copy(char *to, size_t size, const char *from);

#endif
