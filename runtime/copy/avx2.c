// SPDX-License-Identifier: MIT
/* Copies by vectors of 32 bytes. Empty for other CPUs. */
#if defined(__x86_64__)

#define TARGET "avx2"
#define VECTOR __m256i
#define VECTOR_LOAD(from) _mm256_loadu_si256((const __m256i *)(const void *)(from))
#define VECTOR_STORE(to, bytes) _mm256_storeu_si256((__m256i *)(void *)(to), bytes)
#define VECTOR_FETCH(from) _mm256_stream_load_si256((const void *)(from))
#define VECTOR_STREAM(to, bytes) _mm256_stream_si256((__m256i *)(void *)(to), bytes)

#include "copy/lines.h"

static bool is_here(void)
{
	return __builtin_cpu_supports("avx2");
}

const struct copy_set copy_avx2 = {
	.name = "avx2",
	.is_here = is_here,
	.stores = stores,
	.loads = loads,
	.line = line,
	.line_stores = VECTORS,
	.passes_caches = true,
};

#endif
