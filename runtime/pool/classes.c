// SPDX-License-Identifier: MIT
/* Size classes: how long a span is, and how many objects a thread keeps. */
#include "pool/classes.h"

#define OBJECTS_LEAST 4u
/* Spans of the smallest objects: longer ones would hold memory that few allocations use. */
#define SPAN_USUAL KIB(16)
/* Bytes of one class in a thread's cache, and how many objects that may be. */
#define CACHED_BYTES KIB(64)
#define CACHED_MOST 64u

uint32_t pool_class_pages(unsigned int class)
{
	uint64_t size = pool_class_size(class), bytes;

	if (size > POOL_SPAN_MOST)
		return (uint32_t)(size >> POOL_PAGE_SHIFT);
	bytes = round_up(max_u64(size * OBJECTS_LEAST, size < KIB(1) ? SPAN_USUAL : 0),
			 POOL_PAGE);
	while (bytes % size > bytes / 16)
		bytes += POOL_PAGE;
	return (uint32_t)(bytes >> POOL_PAGE_SHIFT);
}

uint32_t pool_class_objects(unsigned int class)
{
	return (uint32_t)(((uint64_t)pool_class_pages(class) << POOL_PAGE_SHIFT) /
			  pool_class_size(class));
}

uint32_t pool_class_cached(unsigned int class)
{
	uint64_t n = CACHED_BYTES / pool_class_size(class);

	/* Two at least: one that was freed and one more, without a lock in between. */
	return (uint32_t)min_u64(max_u64(n, 2), CACHED_MOST);
}
