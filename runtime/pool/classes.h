/* SPDX-License-Identifier: MIT */
/*
 * Size classes: multiples of 16 up to 128 bytes, and then eight for each doubling up to 1 MiB, so
 * that rounding up costs less than an eighth. An allocation up to POOL_SPAN_MOST shares a span
 * with others of its class; a longer one has a span to itself, of whole pages.
 */
#ifndef HETMAP_POOL_CLASSES_H
#define HETMAP_POOL_CLASSES_H

#include <stdint.h>

#include "base/util.h"

#define POOL_ALIGNMENT 16u
#define POOL_PAGE_SHIFT 12
#define POOL_PAGE KIB(4)
#define POOL_SPAN_MOST KIB(32)
#define POOL_CLASS_MOST MIB(1)
#define POOL_N_CLASS 112
/* Allocations of a span: at most this many. */
#define POOL_OBJECTS_MOST 1024u

#define POOL_LINEAR_MOST 128u /* the classes up to here are multiples of 16 */

/* The class of the smallest objects that hold @size bytes, from 1 to POOL_CLASS_MOST. */
static inline unsigned int pool_class_of(uint64_t size)
{
	unsigned int doubling;

	if (size <= POOL_LINEAR_MOST)
		return (unsigned int)(size - 1) / POOL_ALIGNMENT;
	/* 2^doubling < size <= 2^(doubling + 1) */
	doubling = 63 - (unsigned int)__builtin_clzll(size - 1);
	return (doubling - 6) * 8 + (unsigned int)((size - 1) >> (doubling - 3) & 7);
}

/* Bytes of an object of a class. */
static inline uint64_t pool_class_size(unsigned int class)
{
	if (class < 8)
		return (uint64_t)(class + 1) * POOL_ALIGNMENT;
	return (uint64_t)(8 + class % 8 + 1) << (class / 8 + 3);
}

/*
 * Pages of a span of the class: the fewest that hold four objects or more and leave less than a
 * sixteenth at the end.
 */
uint32_t pool_class_pages(unsigned int class);
/* Objects in that many pages. */
uint32_t pool_class_objects(unsigned int class);
/* Objects that a thread's cache has room for. */
uint32_t pool_class_cached(unsigned int class);

#endif
