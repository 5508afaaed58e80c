// SPDX-License-Identifier: MIT
/* A window on a file's header, and memory for what is kept of it: see gguf_scan.h. */
#include "format/gguf/gguf_scan.h"

#include <byteswap.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/sys.h"

int scan_begin(struct scan *scan)
{
	scan->bytes = sys_calloc(1, SCAN_BYTES);
	if (!scan->bytes)
		return err_set(-ENOMEM, "no memory for %u bytes of the header", SCAN_BYTES);
	return 0;
}

void scan_end(struct scan *scan)
{
	free(scan->bytes);
	scan->bytes = NULL;
}

static int ends(const struct scan *scan, uint64_t n)
{
	return err_set(-EBADMSG,
		       "the header has %" PRIu64 " bytes from byte %" PRIu64
		       " on, and the file ends at %" PRIu64,
		       n, scan->at, scan->size);
}

/* Makes the next @n bytes be in the window. */
static int need(struct scan *scan, uint64_t n)
{
	uint64_t length;
	int r;

	if (likely(scan->at >= scan->begin && scan->at - scan->begin + n <= scan->n))
		return 0;
	if (n > scan->size - scan->at)
		return ends(scan, n);
	length = min_u64(SCAN_BYTES, scan->size - scan->at);
	r = scan->read(scan->user, scan->bytes, length, scan->at);
	scan->begin = scan->at;
	scan->n = r ? 0 : length;
	return r;
}

int scan_take(struct scan *scan, uint64_t n, const unsigned char **ret_bytes)
{
	int r = need(scan, n);

	if (r)
		return r;
	*ret_bytes = scan->bytes + (scan->at - scan->begin);
	scan->at += n;
	return 0;
}

int scan_skip(struct scan *scan, uint64_t n)
{
	if (n > scan->size - scan->at)
		return ends(scan, n);
	scan->at += n;
	return 0;
}

uint64_t number_load(const void *bytes, uint32_t n, bool swapped)
{
	uint64_t u64;
	uint32_t u32;
	uint16_t u16;

	switch (n) {
	case 1:
		return *(const uint8_t *)bytes;
	case 2:
		memcpy(&u16, bytes, sizeof(u16));
		return swapped ? bswap_16(u16) : u16;
	case 4:
		memcpy(&u32, bytes, sizeof(u32));
		return swapped ? bswap_32(u32) : u32;
	default:
		memcpy(&u64, bytes, sizeof(u64));
		return swapped ? bswap_64(u64) : u64;
	}
}

int scan_u32(struct scan *scan, uint32_t *ret_number)
{
	const unsigned char *bytes;
	int r = scan_take(scan, sizeof(*ret_number), &bytes);

	if (!r)
		*ret_number = (uint32_t)number_load(bytes, 4, scan->swapped);
	return r;
}

int scan_u64(struct scan *scan, uint64_t *ret_number)
{
	const unsigned char *bytes;
	int r = scan_take(scan, sizeof(*ret_number), &bytes);

	if (!r)
		*ret_number = number_load(bytes, 8, scan->swapped);
	return r;
}

/* Steps over those of @count strings that are whole in the window. Returns the rest. */
static uint64_t skip_in_memory(struct scan *scan, uint64_t count)
{
	const unsigned char *at = scan->bytes + (scan->at - scan->begin);
	const unsigned char *end = scan->bytes + scan->n;
	const uint64_t prefix = sizeof(uint64_t);
	uint64_t length;

	for (; count && (uint64_t)(end - at) >= prefix; count--) {
		length = number_load(at, prefix, scan->swapped);
		if (length > (uint64_t)(end - at) - prefix)
			break;
		at += prefix + length;
	}
	scan->at = scan->begin + (uint64_t)(at - scan->bytes);
	return count;
}

int scan_skip_strings(struct scan *scan, uint64_t count)
{
	uint64_t length;
	int r = 0;

	while (!r && count) {
		r = need(scan, sizeof(length));
		if (r)
			break;
		count = skip_in_memory(scan, count);
		if (!count)
			break;
		/* One that goes beyond the window. */
		r = scan_u64(scan, &length);
		if (!r)
			r = scan_skip(scan, length);
		count--;
	}
	return r;
}

/* ---- memory that is freed all at once ---- */

#define BLOCK KIB(64)

struct arena_block {
	struct arena_block *older;
	uint64_t size;
	unsigned char bytes[];
};

void *arena_take(struct arena *arena, size_t size)
{
	uint64_t rounded = round_up(size, sizeof(uint64_t));
	struct arena_block *block = arena->block;

	if (!block || rounded > arena->left) {
		uint64_t room = max_u64(rounded, BLOCK);

		block = sys_calloc(1, sizeof(*block) + room);
		if (!block)
			return NULL;
		block->older = arena->block;
		block->size = room;
		arena->block = block;
		arena->left = room;
	}
	arena->left -= rounded;
	return block->bytes + (block->size - arena->left - rounded);
}

char *arena_copy(struct arena *arena, const void *bytes, size_t n)
{
	char *copy = arena_take(arena, n + 1);

	if (copy) {
		memcpy(copy, bytes, n);
		copy[n] = '\0';
	}
	return copy;
}

void arena_free(struct arena *arena)
{
	struct arena_block *block = arena->block, *older;

	for (; block; block = older) {
		older = block->older;
		free(block);
	}
	*arena = (struct arena){ 0 };
}
