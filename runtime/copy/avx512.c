// SPDX-License-Identifier: MIT
/* Copies by vectors of 64 bytes, a line each. Empty for other CPUs. */
#if defined(__x86_64__)

#define TARGET "avx512f"
#define VECTOR __m512i
#define VECTOR_LOAD(from) _mm512_loadu_si512(from)
#define VECTOR_STORE(to, bytes) _mm512_storeu_si512(to, bytes)
#define VECTOR_FETCH(from) _mm512_stream_load_si512((void *)(uintptr_t)(from))
#define VECTOR_STREAM(to, bytes) _mm512_stream_si512((void *)(to), bytes)

#include "copy/lines.h"

/*
 * VBMI2 came with the CPUs that these vectors do not slow down any more [Intel 64 and IA-32
 * Architectures Optimization Reference Manual, "Intel AVX-512 power management"].
 */
static bool is_here(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vbmi2");
}

const struct copy_set copy_avx512 = {
	.name = "avx512",
	.is_here = is_here,
	.stores = stores,
	.loads = loads,
	.line = line,
	.line_stores = VECTORS,
	.passes_caches = true,
};

#endif
