// SPDX-License-Identifier: MIT
/* Stores of a line each, which no device sees in parts: MOVDIR64B. Empty for other CPUs. */
#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include "copy/copy.h"
#include "copy/pieces.h"

#define IN_SET __attribute__((target("movdir64b")))
#define MOVDIR64B (1u << 28) /* leaf 7, ECX [Intel SDM, volume 2, CPUID] */

static bool is_here(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & MOVDIR64B;
}

static IN_SET void line(void *to, const void *from)
{
	_movdir64b(to, from);
}

static IN_SET void stores(void *to_bytes, const void *from_bytes, size_t length)
{
	const char *from = from_bytes;
	char *to = to_bytes;
	size_t at = pieces_head(to, length);

	pieces_store(to, from, at);
	for (; length - at >= COPY_LINE; at += COPY_LINE)
		_movdir64b(to + at, from + at);
	pieces_store(to + at, from + at, length - at);
	_mm_sfence();
}

const struct copy_set copy_movdir64b = {
	.name = "movdir64b",
	.is_here = is_here,
	.stores = stores,
	.line = line,
	.line_stores = 1,
	.passes_caches = true,
};

#endif
