/* SPDX-License-Identifier: MIT */
/* Memory of a device in pieces that all end at once: accelerators take each in place. */
#ifndef HETMAP_TABLE_ARENA_H
#define HETMAP_TABLE_ARENA_H

#include <hetmap/hetmap.h>

struct arena {
	struct hm_device *device; /* the caller holds a reference */
	struct arena_block {
		char *bytes; /* of hm_alloc() */
		uint64_t size, used;
	} * block;
	uint32_t n;
	uint64_t taken; /* bytes of all pieces, since the begin */
};

/* A piece of @bytes bytes, from 1. 0; -ENOMEM; or an error of hm_alloc(). */
int arena_take(struct arena *arena, uint64_t bytes, void **ret_piece);
/* Ends all pieces, and keeps the largest block for the next ones. */
void arena_reset(struct arena *arena);
void arena_end(struct arena *arena);

#endif
