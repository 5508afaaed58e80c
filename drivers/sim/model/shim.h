/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The few things of the kernel that the model uses. In the module they are the kernel's own; in
 * user space, where the library compiles the model for the twin, this file makes them.
 */
#ifndef SIM_MODEL_SHIM_H
#define SIM_MODEL_SHIM_H

#ifdef __KERNEL__

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/overflow.h>
#include <linux/sizes.h>
#include <linux/stddef.h>
#include <linux/types.h>

#define SIM_PAGE_SHIFT PAGE_SHIFT

#else

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
#define S64_MAX INT64_MAX
#define SZ_4K 0x1000
#define SZ_64K 0x10000
#define SZ_128K 0x20000
#define SZ_1M 0x100000
#define SZ_2M 0x200000
#define SZ_4M 0x400000
#define SZ_128M 0x8000000
#define SZ_1G 0x40000000

#define BIT(n) (1ul << (n))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define sizeof_field(type, member) sizeof(((type *)0)->member)
#define offsetofend(type, member) (offsetof(type, member) + sizeof_field(type, member))
#define check_add_overflow(a, b, sum) __builtin_add_overflow(a, b, sum)

/* The kernel bounds an index of an untrusted caller here even where the processor speculates. */
#define array_index_nospec(index, size) (index)

#define SIM_PAGE_SHIFT 12

#endif

#define SIM_PAGE_SIZE (1ull << SIM_PAGE_SHIFT)

#endif
