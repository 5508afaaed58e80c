/* SPDX-License-Identifier: MIT */
/*
 * Instructions that C does not have, for each kind of CPU, with what all others do instead. Wider
 * copies are tables of their own: copy/copy.h.
 */
#ifndef HETMAP_ARCH_CPU_H
#define HETMAP_ARCH_CPU_H

#include <stdint.h>

/* Tells the CPU that this is a loop that spins. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* A counter that grows with time, for short times; 0 for CPUs without a cheap one. */
static inline uint64_t cpu_counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

/* Reads the counter after all earlier instructions have completed [Intel SDM, "RDTSC"]. */
static inline uint64_t cpu_counter_after(void)
{
#if defined(__x86_64__)
	__builtin_ia32_lfence();
#endif
	return cpu_counter();
}

/* Stores before it, also those past the caches, reach memory before those after it. */
static inline void cpu_store_fence(void)
{
#if defined(__x86_64__)
	__builtin_ia32_sfence();
#else
	__sync_synchronize();
#endif
}

#endif
