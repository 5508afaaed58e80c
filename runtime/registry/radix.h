/* SPDX-License-Identifier: MIT */
/*
 * The registry's tree: page -> slot, by bits of the address, like a page table
 * over 48 bits. An entry of an upper level holds a slot, where one map covers
 * all of the entry's range, or else the node below, for smaller maps.
 *
 * The lower levels are narrow, so that readers of many small maps need little
 * cache: a window of 64 KiB at a multiple of 64 KiB, as map.c places them, is
 * one word, and 2 MiB of them are four cache lines. Bits of an address, from the top:
 *
 *   9 level 4   9 level 3   9 level 2   5 level 1   4 level 0   12 in the page
 *
 * Nodes are never unlinked. That bounds their memory by the address space ever
 * used (1/300 of it for maps in no alignment, 1/3600 for aligned windows), and
 * it is what lets readers walk without a lock: a node is what it was for good,
 * and no reader can look through a stale one and miss a map. The slots in the
 * entries may be stale; the registry deals with that.
 *
 * All functions but radix_find need the registry's mutex.
 */
#ifndef HETMAP_RADIX_H
#define HETMAP_RADIX_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

#define PAGE_SHIFT 12
#define RADIX_ADDRESS_BITS 48
#define RADIX_PAGES (1ull << (RADIX_ADDRESS_BITS - PAGE_SHIFT))

struct registry_slot;

/*
 * An entry of a level covers 1 << shift pages, a node has 1 << bits of them:
 *
 *	level  0: 16 entries of 4 KiB      2: 512 entries of 2 MiB
 *	       1: 32 entries of 64 KiB     3: 512 entries of 1 GiB
 *	                                   4: 512 entries of 512 GiB, the root
 */
#define RADIX_TOP 4
#define RADIX_ROOT_ENTRIES 512u

static inline unsigned int radix_shift(int level)
{
	return level > 1 ? 9 * (unsigned int)(level - 1) : 4 * (unsigned int)level;
}

static inline unsigned int radix_bits(int level)
{
	return level > 1 ? 9 : 4 + (unsigned int)level;
}

/*
 * A node of n entries is an array. The first n words are for readers: each is 0, the child
 * below, or, with RADIX_SLOT set, a slot. Behind them are words for writers only: n children
 * (none at level 0), which stay there while a slot hides them, and the number of entries with a
 * slot or with a live child.
 */

/* The sign bit, so that one comparison says "no child here". */
#define RADIX_SLOT (1ull << 63)

extern _Atomic uint64_t radix_root[2 * RADIX_ROOT_ENTRIES + 1];

static inline unsigned int radix_index(uint64_t page, int level)
{
	return (unsigned int)(page >> radix_shift(level)) & ((1u << radix_bits(level)) - 1);
}

/* The slot entered for an address, or NULL. Readers need no lock. */
static inline struct registry_slot *radix_find(uint64_t address)
{
	uint64_t page = address >> PAGE_SHIFT;
	const _Atomic uint64_t *node = radix_root;
	uint64_t at;

	if (unlikely(page >= RADIX_PAGES))
		return NULL;
	at = atomic_load_explicit(&node[radix_index(page, 4)], memory_order_acquire);
	if (unlikely((int64_t)at <= 0))
		goto no_child;
	node = (const _Atomic uint64_t *)(uintptr_t)at;
	at = atomic_load_explicit(&node[radix_index(page, 3)], memory_order_acquire);
	if (unlikely((int64_t)at <= 0))
		goto no_child;
	node = (const _Atomic uint64_t *)(uintptr_t)at;
	at = atomic_load_explicit(&node[radix_index(page, 2)], memory_order_acquire);
	if (unlikely((int64_t)at <= 0))
		goto no_child;
	node = (const _Atomic uint64_t *)(uintptr_t)at;
	at = atomic_load_explicit(&node[radix_index(page, 1)], memory_order_acquire);
	if ((int64_t)at <= 0)
		goto no_child;
	node = (const _Atomic uint64_t *)(uintptr_t)at;
	at = atomic_load_explicit(&node[radix_index(page, 0)], memory_order_acquire);

no_child:
	return (struct registry_slot *)(uintptr_t)(at & ~RADIX_SLOT);
}

/*
 * Makes room for pages [first, last] by linking the nodes that are missing.
 * -EEXIST: one of the pages is taken.
 * -ENOMEM. Nodes linked before a failure stay, empty, for the next call.
 */
int radix_prepare(uint64_t first, uint64_t last);

/* Enters @slot for a range that was prepared. */
void radix_enter(uint64_t first, uint64_t last, struct registry_slot *slot);

/* Clears the entries of @slot, the first page of which is @first. */
void radix_clear(uint64_t first, struct registry_slot *slot);

/*
 * radix_next: the first slot entered at or after @page, and the page behind its entry.
 * radix_previous: the last slot at or before @page, and the first page of its entry. A long map
 * has several entries.
 */
struct registry_slot *radix_next(uint64_t page, uint64_t *ret_behind);
struct registry_slot *radix_previous(uint64_t page, uint64_t *ret_first);

#endif
