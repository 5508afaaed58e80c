// SPDX-License-Identifier: MIT
/* The registry's tree, the writers' side: a map takes the largest entries it fills. */
#include "radix.h"

#include <errno.h>

#include "slab.h"

_Atomic uint64_t radix_root[2 * RADIX_ROOT_ENTRIES + 1] __attribute__((aligned(64)));

/* Holds the nodes on both edges of a map, however long, in two chunks. */
static struct slab nodes = { .chunk = KIB(24) };

static unsigned int n_entry(int level)
{
	return 1u << radix_bits(level);
}

/* Pages below the last one that an entry of @level covers. */
static uint64_t entry_mask(int level)
{
	return (1ull << radix_shift(level)) - 1;
}

/* Whole cache lines: what writers count in is not what readers look at. */
static uint32_t node_size(int level)
{
	return (uint32_t)round_up((n_entry(level) * (level ? 2u : 1u) + 1) * sizeof(uint64_t),
				  64);
}

static struct registry_slot *node_slot(const _Atomic uint64_t *node, unsigned int i)
{
	uint64_t at = atomic_load_explicit(&node[i], memory_order_relaxed);

	return at & RADIX_SLOT ? (struct registry_slot *)(uintptr_t)(at & ~RADIX_SLOT) : NULL;
}

static void node_set_slot(_Atomic uint64_t *node, unsigned int i, struct registry_slot *slot)
{
	atomic_store_explicit(&node[i], (uintptr_t)slot | RADIX_SLOT, memory_order_release);
}

static _Atomic uint64_t *node_child(const _Atomic uint64_t *node, int level, unsigned int i)
{
	if (!level)
		return NULL;
	return (_Atomic uint64_t *)(uintptr_t)atomic_load_explicit(&node[n_entry(level) + i],
								   memory_order_relaxed);
}

/* What is below shows again, or for the first time. */
static void node_show_child(_Atomic uint64_t *node, unsigned int i,
			    const _Atomic uint64_t *child)
{
	atomic_store_explicit(&node[i], (uintptr_t)child, memory_order_release);
}

static _Atomic uint64_t *node_add_child(_Atomic uint64_t *node, int level, unsigned int i)
{
	_Atomic uint64_t *child = slab_carve(&nodes, node_size(level - 1));

	if (!child)
		return NULL;
	atomic_store_explicit(&node[n_entry(level) + i], (uintptr_t)child,
			      memory_order_relaxed);
	node_show_child(node, i, child);
	return child;
}

static uint64_t live(const _Atomic uint64_t *node, int level)
{
	return atomic_load_explicit(&node[n_entry(level) * (level ? 2u : 1u)],
				    memory_order_relaxed);
}

static void live_add(_Atomic uint64_t *node, int level, int by)
{
	atomic_store_explicit(&node[n_entry(level) * (level ? 2u : 1u)],
			      live(node, level) + (uint64_t)(int64_t)by, memory_order_relaxed);
}

/* Of the range inside one entry: its part of [first, last]. */
static uint64_t part_first(uint64_t first, unsigned int i, unsigned int i_first, int level)
{
	return i == i_first ? first : (uint64_t)i << radix_shift(level);
}

static uint64_t part_last(uint64_t last, unsigned int i, unsigned int i_last, int level)
{
	return i == i_last ? last : ((uint64_t)i << radix_shift(level)) | entry_mask(level);
}

/* Only the entries on the two edges of a range can be covered in part. */
static bool covers(uint64_t first, uint64_t last, unsigned int i, unsigned int i_first,
		   unsigned int i_last, uint64_t mask)
{
	return !((i == i_first && (first & mask)) || (i == i_last && ~last & mask));
}

static int prepare(_Atomic uint64_t *node, int level, uint64_t first, uint64_t last)
{
	unsigned int i_first = radix_index(first, level);
	unsigned int i_last = radix_index(last, level);
	uint64_t mask = entry_mask(level);
	bool empty = !live(node, level);
	unsigned int i;
	int r;

	/* Of an empty node only the edges need a look. */
	for (i = i_first; i <= i_last; i = empty && i < i_last ? i_last : i + 1) {
		_Atomic uint64_t *child = node_child(node, level, i);

		if (node_slot(node, i))
			return -EEXIST;
		/* At level 0 this is every entry. */
		if (covers(first, last, i, i_first, i_last, mask)) {
			if (child && live(child, level - 1))
				return -EEXIST;
			continue;
		}
		if (!child)
			child = node_add_child(node, level, i);
		if (!child)
			return -ENOMEM;
		r = prepare(child, level - 1, part_first(first, i, i_first, level),
			    part_last(last, i, i_last, level));
		if (r)
			return r;
	}
	return 0;
}

int radix_prepare(uint64_t first, uint64_t last)
{
	return prepare(radix_root, RADIX_TOP, first, last);
}

static void enter(_Atomic uint64_t *node, int level, uint64_t first, uint64_t last,
		  struct registry_slot *slot)
{
	unsigned int i_first = radix_index(first, level);
	unsigned int i_last = radix_index(last, level);
	uint64_t mask = entry_mask(level);
	int added = 0;
	unsigned int i;

	for (i = i_first; i <= i_last; i++) {
		_Atomic uint64_t *child;

		if (covers(first, last, i, i_first, i_last, mask)) {
			node_set_slot(node, i, slot);
			added++;
			continue;
		}
		child = node_child(node, level, i);
		if (!live(child, level - 1))
			added++;
		enter(child, level - 1, part_first(first, i, i_first, level),
		      part_last(last, i, i_last, level), slot);
	}
	live_add(node, level, added);
}

void radix_enter(uint64_t first, uint64_t last, struct registry_slot *slot)
{
	enter(radix_root, RADIX_TOP, first, last, slot);
}

/* Returns the page behind the last one cleared: @page when none was. */
static uint64_t clear(_Atomic uint64_t *node, int level, uint64_t page,
		      const struct registry_slot *slot)
{
	unsigned int n = n_entry(level);
	uint64_t mask = entry_mask(level);
	int removed = 0;
	unsigned int i;

	for (i = radix_index(page, level); i < n; i++) {
		uint64_t behind = (page | mask) + 1;
		_Atomic uint64_t *child = node_child(node, level, i);

		if (node_slot(node, i) == slot) {
			node_show_child(node, i, child);
			removed++;
			page = behind;
			continue;
		}
		if (!child || !live(child, level - 1))
			break;
		page = clear(child, level - 1, page, slot);
		if (!live(child, level - 1))
			removed++;
		if (page != behind)
			break;
	}
	live_add(node, level, -removed);
	return page;
}

void radix_clear(uint64_t first, struct registry_slot *slot)
{
	clear(radix_root, RADIX_TOP, first, slot);
}

static struct registry_slot *next_in(const _Atomic uint64_t *node, int level, uint64_t page,
				     uint64_t *ret_behind)
{
	unsigned int i;

	if (!live(node, level))
		return NULL;
	for (i = radix_index(page, level); i < n_entry(level); i++) {
		uint64_t behind = (page | entry_mask(level)) + 1;
		struct registry_slot *slot = node_slot(node, i);
		const _Atomic uint64_t *child;

		if (slot) {
			*ret_behind = behind;
			return slot;
		}
		child = node_child(node, level, i);
		if (child)
			slot = next_in(child, level - 1, page, ret_behind);
		if (slot)
			return slot;
		page = behind;
	}
	return NULL;
}

struct registry_slot *radix_next(uint64_t page, uint64_t *ret_behind)
{
	return page < RADIX_PAGES ? next_in(radix_root, RADIX_TOP, page, ret_behind) : NULL;
}

static struct registry_slot *previous_in(const _Atomic uint64_t *node, int level, uint64_t page,
					 uint64_t *ret_first)
{
	int i;

	if (!live(node, level))
		return NULL;
	for (i = (int)radix_index(page, level); i >= 0; i--) {
		uint64_t first = page & ~entry_mask(level);
		struct registry_slot *slot = node_slot(node, (unsigned int)i);
		const _Atomic uint64_t *child;

		if (slot) {
			*ret_first = first;
			return slot;
		}
		child = node_child(node, level, (unsigned int)i);
		if (child)
			slot = previous_in(child, level - 1, page, ret_first);
		if (slot)
			return slot;
		page = first - 1; /* wraps behind entry 0: not looked at */
	}
	return NULL;
}

struct registry_slot *radix_previous(uint64_t page, uint64_t *ret_first)
{
	return previous_in(radix_root, RADIX_TOP, min_u64(page, RADIX_PAGES - 1), ret_first);
}
