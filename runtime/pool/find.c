// SPDX-License-Identifier: MIT
/* For hm_pointer_find() and launches: from a map's range to that of an allocation in it. */
#include <sched.h>

#include "pool/pool.h"

/* Bounded: in a fork child, a thread that is not there may have been changing the span. */
#define WAITS 100000

int pool_narrow(const void *pointer, struct hm_pointer_info *info)
{
	struct pool_place place;
	uint64_t length;
	int r = span_find((uintptr_t)pointer, &place);

	if (likely(r == -ENOENT))
		return 0;
	if (unlikely(r))
		return r == -EAGAIN ? r : -ENOENT;
	length = place.size - (place.tag - 1);
	/* Also for tag 0, which is one too many. */
	if (unlikely(!place.tag || (uintptr_t)pointer - place.base >= length))
		return -ENOENT;
	info->base = (void *)(uintptr_t)place.base;
	info->length = length;
	info->pool = place.pool;
	return 0;
}

int pool_narrow_wait(const void *pointer, struct hm_pointer_info *info)
{
	int r = pool_narrow(pointer, info), waits;

	for (waits = 0; waits < WAITS && r == -EAGAIN; waits++) {
		sched_yield();
		r = pool_narrow(pointer, info);
	}
	return r;
}
