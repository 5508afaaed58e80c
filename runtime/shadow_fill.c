// SPDX-License-Identifier: MIT
/* All of a buffer comes into a new shadow: from the buffer, and what it lost from an old one. */
#include <errno.h>

#include "shadow.h"
#include "sys.h"

/* Bytes at a time, of which a page that can't be read has the others read one by one. */
#define FILL_STEP MIB(1)

/* What can't be read any more is as it was in @old, if there is one. */
static int fill_pages(struct shadow *shadow, struct hm_buffer *buffer, const struct shadow *old,
		      uint64_t from, uint64_t to)
{
	uint64_t length;
	int r = 0;

	for (; from < to && !r; from += length) {
		length = min_u64(page_size(), to - from);
		r = shadow_refresh(shadow, buffer, from, length);
		if (r == -EIO)
			r = shadow_take(shadow, old, from, length);
	}
	return r;
}

int shadow_fill(struct shadow *shadow, struct hm_buffer *buffer, const struct shadow *old,
		uint64_t size)
{
	uint64_t at, length;
	int r = 0;

	for (at = 0; at < size && !r; at += length) {
		length = min_u64(FILL_STEP, size - at);
		r = shadow_refresh(shadow, buffer, at, length);
		if (r == -EIO && old)
			r = fill_pages(shadow, buffer, old, at, at + length);
	}
	return r;
}
