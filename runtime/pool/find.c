// SPDX-License-Identifier: MIT
/* For hm_pointer_find() and launches: from a map's range to that of an allocation in it. */
#include "pool/pool.h"

int pool_narrow(const void *pointer, struct hm_pointer_info *info)
{
	struct pool_place place;
	uint64_t length;
	int r = span_find((uintptr_t)pointer, &place);

	if (likely(r == -ENOENT))
		return 0;
	if (unlikely(r))
		return -ENOENT;
	length = place.size - (place.tag - 1);
	/* Also for tag 0, which is one too many. */
	if (unlikely(!place.tag || (uintptr_t)pointer - place.base >= length))
		return -ENOENT;
	info->base = (void *)(uintptr_t)place.base;
	info->length = length;
	info->pool = place.pool;
	return 0;
}
