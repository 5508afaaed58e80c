// SPDX-License-Identifier: MIT
/* Memory of a device in pieces, out of few buffers: a map each would be too many. */
#include "arena.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCK_LEAST (4ull << 20)
/* Pieces begin at multiples: pages, and for short ones the most that an accelerator asks for. */
#define ALIGN_LONG 4096
#define ALIGN_SHORT 512

static int add_block(struct arena *arena, uint64_t bytes)
{
	struct arena_block *block = realloc(arena->block, (arena->n + 1) * sizeof(*block));
	uint64_t size = bytes < BLOCK_LEAST ? BLOCK_LEAST : bytes;
	int r;

	if (!block)
		return -ENOMEM;
	arena->block = block;
	block[arena->n] = (struct arena_block){ .size = size };
	r = hm_alloc(arena->device, size, HM_READ | HM_WRITE, &block[arena->n].bytes);
	if (!r)
		arena->n++;
	return r;
}

int arena_take(struct arena *arena, uint64_t bytes, void **ret_piece)
{
	uint64_t align = bytes < ALIGN_LONG ? ALIGN_SHORT : ALIGN_LONG, at = 0;
	struct arena_block *block;
	int r;

	if (arena->n) {
		block = &arena->block[arena->n - 1];
		at = (block->used + align - 1) / align * align;
	}
	if (!arena->n || at > arena->block[arena->n - 1].size ||
	    arena->block[arena->n - 1].size - at < bytes) {
		r = add_block(arena, bytes);
		if (r)
			return r;
		at = 0;
	}
	block = &arena->block[arena->n - 1];
	*ret_piece = block->bytes + at;
	block->used = at + bytes;
	arena->taken += bytes;
	return 0;
}

void arena_reset(struct arena *arena)
{
	struct arena_block kept = { 0 }, *block;
	uint32_t i;

	for (i = 0; i < arena->n; i++) {
		block = &arena->block[i];
		if (block->size > kept.size) {
			hm_free(kept.bytes);
			kept = *block;
		} else {
			hm_free(block->bytes);
		}
	}
	if (!arena->n)
		return;
	kept.used = 0;
	arena->block[0] = kept;
	arena->n = 1;
}

void arena_end(struct arena *arena)
{
	uint32_t i;

	for (i = 0; i < arena->n; i++)
		hm_free(arena->block[i].bytes);
	free(arena->block);
	arena->block = NULL;
	arena->n = 0;
}
