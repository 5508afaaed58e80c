/* SPDX-License-Identifier: MIT */
/*
 * AddressSanitizer: bytes of a block that are in no allocation are poisoned, so that a touch of
 * them is reported. Without the sanitizer there is nothing to do.
 */
#ifndef HETMAP_POOL_POISON_H
#define HETMAP_POOL_POISON_H

#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define POOL_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_POISONS 1
#endif
#endif

#ifdef POOL_POISONS
#include <sanitizer/asan_interface.h>

static inline void poison(uint64_t address, uint64_t bytes)
{
	__asan_poison_memory_region((void *)(uintptr_t)address, bytes);
}

static inline void unpoison(uint64_t address, uint64_t bytes)
{
	__asan_unpoison_memory_region((void *)(uintptr_t)address, bytes);
}
#else
static inline void poison(uint64_t address, uint64_t bytes)
{
	(void)address, (void)bytes;
}

static inline void unpoison(uint64_t address, uint64_t bytes)
{
	(void)address, (void)bytes;
}
#endif

#endif
