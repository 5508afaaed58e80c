/* SPDX-License-Identifier: MIT */
/*
 * The registry's tree: page -> slot, by 9 bits of the address a level, like a
 * page table over 48 bits. An entry of an upper level holds a slot, where one
 * map covers all of the entry's range, or else the node below, for smaller maps.
 *
 * Nodes are never unlinked. That bounds their memory by the address space ever
 * used (1/500 of it), and it is what lets readers walk without a lock: a node
 * is what it was for good, and no reader can look through a stale one and miss
 * a map. The slots in the entries may be stale; the registry deals with that.
 *
 * All functions but radix_find need the registry's mutex.
 */
#ifndef HETMAP_RADIX_H
#define HETMAP_RADIX_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "util.h"

#define PAGE_SHIFT 12
#define RADIX_BITS 9
#define RADIX_ENTRIES (1u << RADIX_BITS)
#define RADIX_ADDRESS_BITS 48
#define RADIX_PAGES (1ull << (RADIX_ADDRESS_BITS - PAGE_SHIFT))

struct registry_slot;

/* Entries of 4 KiB. */
struct radix_leaf {
	_Atomic(struct registry_slot *) slot[RADIX_ENTRIES];
	uint32_t live; /* entries in use; writers only */
} __attribute__((aligned(64)));

/* Entries of 2 MiB (level 1), 1 GiB (level 2), 512 GiB (level 3). */
struct radix_node {
	/* 0, the child below, or, with RADIX_SLOT set, a slot. */
	_Atomic uint64_t entry[RADIX_ENTRIES];
	/* Also while a slot stands before it; writers only. Leaves at level 1. */
	void *child[RADIX_ENTRIES];
	uint32_t live; /* entries with a slot, or with a live child; writers only */
} __attribute__((aligned(64)));

/* The sign: "no child here" is one comparison. */
#define RADIX_SLOT (1ull << 63)

extern struct radix_node radix_root; /* level 3 */

static inline unsigned int radix_index(uint64_t page, int level)
{
	return (unsigned int)(page >> (RADIX_BITS * level)) & (RADIX_ENTRIES - 1);
}

/* The slot entered for an address, or NULL. For readers: no lock. */
static inline struct registry_slot *radix_find(uint64_t address)
{
	uint64_t page = address >> PAGE_SHIFT;
	const struct radix_leaf *leaf;
	uint64_t at;

	if (unlikely(page >= RADIX_PAGES))
		return NULL;
	at = atomic_load_explicit(&radix_root.entry[radix_index(page, 3)],
				  memory_order_acquire);
	if (unlikely((int64_t)at <= 0))
		goto no_child;
	at = atomic_load_explicit(
		&((struct radix_node *)(uintptr_t)at)->entry[radix_index(page, 2)],
		memory_order_acquire);
	if (unlikely((int64_t)at <= 0))
		goto no_child;
	at = atomic_load_explicit(
		&((struct radix_node *)(uintptr_t)at)->entry[radix_index(page, 1)],
		memory_order_acquire);
	if (unlikely((int64_t)at <= 0))
		goto no_child;
	leaf = (const struct radix_leaf *)(uintptr_t)at;
	return atomic_load_explicit(&leaf->slot[radix_index(page, 0)], memory_order_acquire);

no_child:
	return (struct registry_slot *)(uintptr_t)(at & ~RADIX_SLOT);
}

/*
 * Makes room for [first, last], in pages: links the nodes that are missing.
 * -EEXIST: some page of it is taken; -ENOMEM. Nodes linked before a failure
 * stay, empty, for the next one.
 */
int radix_prepare(uint64_t first, uint64_t last);

/* Enters @slot for a range that was prepared. */
void radix_enter(uint64_t first, uint64_t last, struct registry_slot *slot);

/* Clears the entries of @slot, whose range begins at @first. */
void radix_clear(uint64_t first, struct registry_slot *slot);

/*
 * The first slot entered at or after @page, and the page behind its entry; the
 * last slot at or before @page, and the first page of its entry. A long map has
 * several entries.
 */
struct registry_slot *radix_next(uint64_t page, uint64_t *ret_behind);
struct registry_slot *radix_previous(uint64_t page, uint64_t *ret_first);

#endif
