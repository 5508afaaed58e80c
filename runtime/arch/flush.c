// SPDX-License-Identifier: MIT
/*
 * Cache lines written back to memory. CLWB keeps the line in the cache, CLFLUSHOPT throws it out,
 * and both are ordered by SFENCE only; CLFLUSH waits for each line (Intel 64 and IA-32
 * Architectures Software Developer's Manual, volume 2). The processor is asked once.
 */
#include "arch/flush.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/util.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

#define LINE 64u

static void by_clwb(uintptr_t at, uintptr_t end)
{
	for (; at < end; at += LINE)
		__asm__ volatile("clwb (%0)" : : "r"(at) : "memory");
}

static void by_clflushopt(uintptr_t at, uintptr_t end)
{
	for (; at < end; at += LINE)
		__asm__ volatile("clflushopt (%0)" : : "r"(at) : "memory");
}

static void by_clflush(uintptr_t at, uintptr_t end)
{
	for (; at < end; at += LINE)
		_mm_clflush((const void *)at);
}

struct way {
	const char *name;
	void (*flush)(uintptr_t at, uintptr_t end);
	unsigned int bit; /* of EBX of CPUID 7; 0: every processor has it */
};

/* The best first. */
static const struct way ways[] = {
	{ "clwb", by_clwb, 1u << 24 },
	{ "clflushopt", by_clflushopt, 1u << 23 },
	{ "clflush", by_clflush, 0 },
};

static _Atomic(const struct way *) chosen;

static const struct way *choose(void)
{
	unsigned int a, b = 0, c, d;
	const struct way *way = ways;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		b = 0;
	while (way->bit && !(b & way->bit))
		way++;
	atomic_store(&chosen, way);
	return way;
}

static inline const struct way *the_way(void)
{
	const struct way *way = atomic_load_explicit(&chosen, memory_order_acquire);

	return likely(way != NULL) ? way : choose();
}

const char *flush_name(void)
{
	return the_way()->name;
}

void flush_lines(const void *address, uint64_t length)
{
	uintptr_t at = (uintptr_t)address;

	the_way()->flush(at & ~(uintptr_t)(LINE - 1), at + length);
	_mm_sfence();
}

void flush_fence(void)
{
	_mm_sfence();
}

#else

const char *flush_name(void)
{
	return NULL;
}

void flush_lines(const void *address, uint64_t length)
{
	(void)address, (void)length;
	atomic_thread_fence(memory_order_seq_cst);
}

void flush_fence(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

#endif
