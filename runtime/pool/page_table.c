// SPDX-License-Identifier: MIT
/* Writers of the page table of pools. */
#include "pool/page_table.h"

#include <errno.h>

#include "base/slab.h"
#include "pool/span.h"

_Atomic(struct pool_middle *) pool_top[1u << (POOL_ADDRESS_BITS - POOL_TOP_SHIFT)];

/* Protected by span_lock(). */
static struct slab tables = { .chunk = KIB(64) };

static _Atomic(struct pool_leaf *) *leaf_slot(struct pool_middle *middle, uint64_t address)
{
	return &middle->leaf[address >> POOL_LEAF_SHIFT & (ARRAY_SIZE(middle->leaf) - 1)];
}

static int prepare_locked(uint64_t address)
{
	_Atomic(struct pool_middle *) *top = &pool_top[address >> POOL_TOP_SHIFT];
	struct pool_middle *middle = atomic_load_explicit(top, memory_order_relaxed);
	struct pool_leaf *leaf;

	if (!middle) {
		middle = slab_carve(&tables, sizeof(*middle));
		if (!middle)
			return -ENOMEM;
		atomic_store_explicit(top, middle, memory_order_release);
	}
	if (atomic_load_explicit(leaf_slot(middle, address), memory_order_relaxed))
		return 0;
	leaf = slab_carve(&tables, sizeof(*leaf));
	if (!leaf)
		return -ENOMEM;
	atomic_store_explicit(leaf_slot(middle, address), leaf, memory_order_release);
	return 0;
}

int pool_table_prepare(uint64_t address, uint64_t bytes)
{
	uint64_t at = round_down(address, 1u << POOL_LEAF_SHIFT);
	int r = 0;

	if ((address + bytes - 1) >> POOL_ADDRESS_BITS)
		return -ENOMEM;
	span_lock();
	for (; !r && at < address + bytes; at += 1u << POOL_LEAF_SHIFT)
		r = prepare_locked(at);
	span_unlock();
	return r;
}

void pool_table_enter(uint64_t address, uint64_t bytes, struct pool_span *span)
{
	uint64_t end = address + bytes;

	while (address < end) {
		struct pool_middle *middle = atomic_load_explicit(
			&pool_top[address >> POOL_TOP_SHIFT], memory_order_relaxed);
		struct pool_leaf *leaf =
			atomic_load_explicit(leaf_slot(middle, address), memory_order_relaxed);
		uint64_t stop = min_u64(end, round_down(address, 1u << POOL_LEAF_SHIFT) +
						     (1u << POOL_LEAF_SHIFT));

		for (; address < stop; address += POOL_PAGE)
			atomic_store_explicit(&leaf->span[address >> POOL_PAGE_SHIFT &
							  (ARRAY_SIZE(leaf->span) - 1)],
					      span, memory_order_release);
	}
}
