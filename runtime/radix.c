// SPDX-License-Identifier: MIT
/* The registry's tree, the writers' side: a map takes the largest entries it fills. */
#include "radix.h"

#include <errno.h>

#include "slab.h"

struct radix_node radix_root;

/* Holds the nodes on both edges of a map, however long, in two chunks. */
static struct slab nodes = { .chunk = KIB(24) };

/* Pages below the last one that an entry of @level covers. */
static uint64_t entry_mask(int level)
{
	return (1ull << (RADIX_BITS * level)) - 1;
}

static struct registry_slot *leaf_slot(const struct radix_leaf *leaf, unsigned int i)
{
	return atomic_load_explicit(&leaf->slot[i], memory_order_relaxed);
}

static struct registry_slot *node_slot(const struct radix_node *node, unsigned int i)
{
	uint64_t at = atomic_load_explicit(&node->entry[i], memory_order_relaxed);

	return at & RADIX_SLOT ? (struct registry_slot *)(uintptr_t)(at & ~RADIX_SLOT) : NULL;
}

static void node_set_slot(struct radix_node *node, unsigned int i, struct registry_slot *slot)
{
	atomic_store_explicit(&node->entry[i], (uintptr_t)slot | RADIX_SLOT,
			      memory_order_release);
}

/* What is below shows again, or for the first time. */
static void node_set_child(struct radix_node *node, unsigned int i, void *child)
{
	node->child[i] = child;
	atomic_store_explicit(&node->entry[i], (uintptr_t)child, memory_order_release);
}

static uint32_t live_at(const void *node, int level)
{
	return level ? ((const struct radix_node *)node)->live :
		       ((const struct radix_leaf *)node)->live;
}

/* Of the range inside one entry: its part of [first, last]. */
static uint64_t part_first(uint64_t first, unsigned int i, unsigned int i_first, int level)
{
	return i == i_first ? first : (uint64_t)i << (RADIX_BITS * level);
}

static uint64_t part_last(uint64_t last, unsigned int i, unsigned int i_last, int level)
{
	return i == i_last ? last : ((uint64_t)i << (RADIX_BITS * level)) | entry_mask(level);
}

/* Only the entries on the two edges of a range can be covered in part. */
static bool covers(uint64_t first, uint64_t last, unsigned int i, unsigned int i_first,
		   unsigned int i_last, int level)
{
	return !((i == i_first && (first & entry_mask(level))) ||
		 (i == i_last && ~last & entry_mask(level)));
}

static int prepare_leaf(const struct radix_leaf *leaf, uint64_t first, uint64_t last)
{
	unsigned int i;

	if (!leaf->live)
		return 0;
	for (i = radix_index(first, 0); i <= radix_index(last, 0); i++)
		if (leaf_slot(leaf, i))
			return -EEXIST;
	return 0;
}

static int prepare(struct radix_node *node, int level, uint64_t first, uint64_t last)
{
	unsigned int i_first = radix_index(first, level);
	unsigned int i_last = radix_index(last, level);
	unsigned int i;
	int r;

	for (i = i_first; i <= i_last; i++) {
		void *child = node->child[i];

		if (node_slot(node, i))
			return -EEXIST;
		if (covers(first, last, i, i_first, i_last, level)) {
			if (child && live_at(child, level - 1))
				return -EEXIST;
			continue;
		}
		if (!child) {
			child = slab_carve(&nodes, level > 1 ? sizeof(struct radix_node) :
							       sizeof(struct radix_leaf));
			if (!child)
				return -ENOMEM;
			node_set_child(node, i, child);
		}
		if (level > 1)
			r = prepare(child, level - 1, part_first(first, i, i_first, level),
				    part_last(last, i, i_last, level));
		else
			r = prepare_leaf(child, part_first(first, i, i_first, level),
					 part_last(last, i, i_last, level));
		if (r)
			return r;
	}
	return 0;
}

int radix_prepare(uint64_t first, uint64_t last)
{
	return prepare(&radix_root, 3, first, last);
}

static void enter_leaf(struct radix_leaf *leaf, uint64_t first, uint64_t last,
		       struct registry_slot *slot)
{
	unsigned int i;

	for (i = radix_index(first, 0); i <= radix_index(last, 0); i++)
		atomic_store_explicit(&leaf->slot[i], slot, memory_order_release);
	leaf->live += radix_index(last, 0) - radix_index(first, 0) + 1;
}

static void enter(struct radix_node *node, int level, uint64_t first, uint64_t last,
		  struct registry_slot *slot)
{
	unsigned int i_first = radix_index(first, level);
	unsigned int i_last = radix_index(last, level);
	unsigned int i;

	for (i = i_first; i <= i_last; i++) {
		void *child = node->child[i];

		if (covers(first, last, i, i_first, i_last, level)) {
			node_set_slot(node, i, slot);
			node->live++;
			continue;
		}
		if (!live_at(child, level - 1))
			node->live++;
		if (level > 1)
			enter(child, level - 1, part_first(first, i, i_first, level),
			      part_last(last, i, i_last, level), slot);
		else
			enter_leaf(child, part_first(first, i, i_first, level),
				   part_last(last, i, i_last, level), slot);
	}
}

void radix_enter(uint64_t first, uint64_t last, struct registry_slot *slot)
{
	enter(&radix_root, 3, first, last, slot);
}

/* Both return the page behind the last one cleared: @page when none was. */
static uint64_t clear_leaf(struct radix_leaf *leaf, uint64_t page,
			   const struct registry_slot *slot)
{
	unsigned int i;

	for (i = radix_index(page, 0); i < RADIX_ENTRIES; i++) {
		if (leaf_slot(leaf, i) != slot)
			break;
		atomic_store_explicit(&leaf->slot[i], NULL, memory_order_release);
		leaf->live--;
		page++;
	}
	return page;
}

static uint64_t clear(struct radix_node *node, int level, uint64_t page,
		      const struct registry_slot *slot)
{
	unsigned int i;

	for (i = radix_index(page, level); i < RADIX_ENTRIES; i++) {
		uint64_t behind = (page | entry_mask(level)) + 1;
		void *child = node->child[i];

		if (node_slot(node, i) == slot) {
			node_set_child(node, i, child);
			node->live--;
			page = behind;
			continue;
		}
		if (!child || !live_at(child, level - 1))
			break;
		page = level > 1 ? clear(child, level - 1, page, slot) :
				   clear_leaf(child, page, slot);
		if (!live_at(child, level - 1))
			node->live--;
		if (page != behind)
			break;
	}
	return page;
}

void radix_clear(uint64_t first, struct registry_slot *slot)
{
	clear(&radix_root, 3, first, slot);
}

static struct registry_slot *next_in(const void *node, int level, uint64_t page,
				     uint64_t *ret_behind)
{
	const struct radix_node *upper = node;
	const struct radix_leaf *leaf = node;
	unsigned int i;

	if (!live_at(node, level))
		return NULL;
	for (i = radix_index(page, level); i < RADIX_ENTRIES; i++) {
		uint64_t behind = (page | entry_mask(level)) + 1;
		struct registry_slot *slot;
		const void *child;

		slot = level ? node_slot(upper, i) : leaf_slot(leaf, i);
		if (slot) {
			*ret_behind = behind;
			return slot;
		}
		child = level ? upper->child[i] : NULL;
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
	return page < RADIX_PAGES ? next_in(&radix_root, 3, page, ret_behind) : NULL;
}

static struct registry_slot *previous_in(const void *node, int level, uint64_t page,
					 uint64_t *ret_first)
{
	const struct radix_node *upper = node;
	const struct radix_leaf *leaf = node;
	int i;

	if (!live_at(node, level))
		return NULL;
	for (i = (int)radix_index(page, level); i >= 0; i--) {
		uint64_t first = page & ~entry_mask(level);
		struct registry_slot *slot;
		const void *child;

		slot = level ? node_slot(upper, i) : leaf_slot(leaf, i);
		if (slot) {
			*ret_first = first;
			return slot;
		}
		child = level ? upper->child[i] : NULL;
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
	return previous_in(&radix_root, 3, min_u64(page, RADIX_PAGES - 1), ret_first);
}
