/* SPDX-License-Identifier: MIT */
/*
 * From an address to the span that it is in, by shifting, for all pools of the process.
 *
 * Readers take no lock. Tables and spans keep their type for as long as the process lives: a
 * reader that is late finds a span that does not hold the address, or one that changes.
 *
 * The three levels are for 16 GiB, 2 MiB and 4 KiB. Writers hold a lock of the pool that owns
 * the block, and no two pools have a block at one address.
 */
#ifndef HETMAP_POOL_PAGE_TABLE_H
#define HETMAP_POOL_PAGE_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "pool/classes.h"

struct pool_span;

#define POOL_LEAF_SHIFT 21
#define POOL_TOP_SHIFT 34
#define POOL_ADDRESS_BITS 48

struct pool_leaf {
	_Atomic(struct pool_span *) span[1u << (POOL_LEAF_SHIFT - POOL_PAGE_SHIFT)];
};

struct pool_middle {
	_Atomic(struct pool_leaf *) leaf[1u << (POOL_TOP_SHIFT - POOL_LEAF_SHIFT)];
};

extern _Atomic(struct pool_middle *) pool_top[1u << (POOL_ADDRESS_BITS - POOL_TOP_SHIFT)];

/* The span entered for an address; NULL: no pool has the page. */
static inline struct pool_span *pool_span_at(uint64_t address)
{
	struct pool_middle *middle;
	struct pool_leaf *leaf;

	if (unlikely(address >> POOL_ADDRESS_BITS))
		return NULL;
	middle = atomic_load_explicit(&pool_top[address >> POOL_TOP_SHIFT],
				      memory_order_acquire);
	if (likely(!middle))
		return NULL;
	leaf = atomic_load_explicit(
		&middle->leaf[address >> POOL_LEAF_SHIFT & (ARRAY_SIZE(middle->leaf) - 1)],
		memory_order_acquire);
	if (!leaf)
		return NULL;
	return atomic_load_explicit(
		&leaf->span[address >> POOL_PAGE_SHIFT & (ARRAY_SIZE(leaf->span) - 1)],
		memory_order_acquire);
}

/* Makes the tables for a range that is missing some. -ENOMEM. */
int pool_table_prepare(uint64_t address, uint64_t bytes);
/* Enters @span for whole pages that were prepared. NULL: no pool has them any more. */
void pool_table_enter(uint64_t address, uint64_t bytes, struct pool_span *span);

#endif
