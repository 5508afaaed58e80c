// SPDX-License-Identifier: MIT
/* The writers' side of the registry's tree: a map takes the largest entries that it fills. */
#include "registry/radix.h"

#include <errno.h>

#include "base/slab.h"

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

/* Whole cache lines: words that only writers count in share no line with words for readers. */
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

/* Makes @child, which may be new, visible to readers. */
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

/*
 * Does one entry of @level hold all of [first, last], and more? The node below that entry has the
 * range then. Most maps go down to a low level in this way.
 */
static inline bool is_part_of_one(uint64_t first, uint64_t last, int level)
{
	uint64_t mask = entry_mask(level);

	/* A page has no parts. */
	return level && (first ^ last) <= mask && last - first < mask;
}

/*
 * The entries of a node that [first, last] touches, where more than one entry or a whole entry
 * is touched. Only the two at the edges can be covered in part; those of [whole, behind) are
 * covered.
 */
struct entries {
	unsigned int first, last, whole, behind;
};

static inline struct entries entries_of(uint64_t first, uint64_t last, int level)
{
	uint64_t mask = entry_mask(level);
	struct entries entries = {
		.first = radix_index(first, level),
		.last = radix_index(last, level),
	};

	entries.whole = entries.first + !!(first & mask);
	entries.behind = entries.last + !(~last & mask);
	return entries;
}

/* Finds or makes the node below entry @i, for a map that needs a part of the entry. */
static inline int prepare_child(_Atomic uint64_t *node, int level, unsigned int i,
				_Atomic uint64_t **ret_child)
{
	_Atomic uint64_t *child = node_child(node, level, i);

	if (node_slot(node, i))
		return -EEXIST;
	if (!child)
		child = node_add_child(node, level, i);
	if (!child)
		return -ENOMEM;
	*ret_child = child;
	return 0;
}

static int prepare(_Atomic uint64_t *node, int level, uint64_t first, uint64_t last);

/* Prepares [first, last], a part of entry @i. */
static int prepare_below(_Atomic uint64_t *node, int level, unsigned int i, uint64_t first,
			 uint64_t last)
{
	int r = prepare_child(node, level, i, &node);

	return r ? r : prepare(node, level - 1, first, last);
}

static int prepare(_Atomic uint64_t *node, int level, uint64_t first, uint64_t last)
{
	struct entries in;
	unsigned int i;
	uint64_t mask;
	int r = 0;

	for (; is_part_of_one(first, last, level); level--) {
		r = prepare_child(node, level, radix_index(first, level), &node);
		if (r)
			return r;
	}
	in = entries_of(first, last, level);
	/* An empty node has no entry in the way. */
	for (i = live(node, level) ? in.whole : in.behind; i < in.behind; i++) {
		const _Atomic uint64_t *child = node_child(node, level, i);

		if (node_slot(node, i) || (child && live(child, level - 1)))
			return -EEXIST;
	}
	mask = entry_mask(level);
	if (in.first < in.whole)
		r = prepare_below(node, level, in.first, first, first | mask);
	if (!r && in.last >= in.behind)
		r = prepare_below(node, level, in.last, last & ~mask, last);
	return r;
}

int radix_prepare(uint64_t first, uint64_t last)
{
	return prepare(radix_root, RADIX_TOP, first, last);
}

static void enter(_Atomic uint64_t *node, int level, uint64_t first, uint64_t last,
		  struct registry_slot *slot);

/* Returns how many more of the node's entries are live: 1 or 0. */
static int enter_below(_Atomic uint64_t *node, int level, unsigned int i, uint64_t first,
		       uint64_t last, struct registry_slot *slot)
{
	_Atomic uint64_t *child = node_child(node, level, i);
	int added = !live(child, level - 1);

	enter(child, level - 1, first, last, slot);
	return added;
}

static void enter(_Atomic uint64_t *node, int level, uint64_t first, uint64_t last,
		  struct registry_slot *slot)
{
	struct entries in;
	uint64_t mask;
	unsigned int i;
	int added = 0;

	for (; is_part_of_one(first, last, level); level--) {
		_Atomic uint64_t *child = node_child(node, level, radix_index(first, level));

		/* The child has no live entry yet, and gets one below. */
		if (!live(child, level - 1))
			live_add(node, level, 1);
		node = child;
	}
	in = entries_of(first, last, level);
	mask = entry_mask(level);
	for (i = in.whole; i < in.behind; i++, added++)
		node_set_slot(node, i, slot);
	if (in.first < in.whole)
		added += enter_below(node, level, in.first, first, first | mask, slot);
	if (in.last >= in.behind)
		added += enter_below(node, level, in.last, last & ~mask, last, slot);
	live_add(node, level, added);
}

void radix_enter(uint64_t first, uint64_t last, struct registry_slot *slot)
{
	enter(radix_root, RADIX_TOP, first, last, slot);
}

/*
 * Clears the entries of @slot from @page on. Returns the page behind the last one cleared,
 * @page if none was.
 */
static uint64_t clear(_Atomic uint64_t *node, int level, uint64_t page,
		      const struct registry_slot *slot)
{
	unsigned int n = n_entry(level), i = radix_index(page, level);
	uint64_t mask = entry_mask(level);
	int removed = 0;

	while (i < n) {
		_Atomic uint64_t *child;
		uint64_t behind;

		for (; i < n && node_slot(node, i) == slot; i++, removed++) {
			node_show_child(node, i, node_child(node, level, i));
			page = (page | mask) + 1;
		}
		child = i < n ? node_child(node, level, i) : NULL;
		if (!child || !live(child, level - 1))
			break;
		behind = (page | mask) + 1;
		page = clear(child, level - 1, page, slot);
		removed += !live(child, level - 1);
		if (page != behind)
			break;
		i++;
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
		page = first - 1; /* wraps behind entry 0, where the loop ends */
	}
	return NULL;
}

struct registry_slot *radix_previous(uint64_t page, uint64_t *ret_first)
{
	return previous_in(radix_root, RADIX_TOP, min_u64(page, RADIX_PAGES - 1), ret_first);
}
