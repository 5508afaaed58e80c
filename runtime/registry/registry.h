/* SPDX-License-Identifier: MIT */
/*
 * Registry: address -> map, for the whole process.
 *
 * Readers take no lock and need no registration; a lookup is legal in a signal handler. Writers
 * are serialised by one mutex inside registry.c, which is taken with a map's locks held. No
 * lock is taken under it.
 *
 * The registry is a radix tree by address over 48 bits, like a page table: an entry at any
 * level may be a whole map's, so a map of 1 TiB costs as much as a map of 4 MiB. An entry
 * points to a slot, which has a descriptor of the map. A change fills a fresh descriptor first,
 * and one store makes it the valid one; a change of the generation alone is one store in place.
 *
 * A reader sees the old descriptor or the new one, never a mixture, and never waits: slots and
 * descriptors are in slabs, which keep their type and are reused oldest first, and a sequence
 * tells a reader of a change or a reuse. After a bounded number of tries the lookup is -EAGAIN.
 * hm_stats_get() tells the bytes of the slabs.
 */
#ifndef HETMAP_REGISTRY_H
#define HETMAP_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <hetmap/pointer.h>

#include "registry/radix.h"
#include "base/rangemap.h"

struct registry_slot;
struct registry_descriptor;

/* The result of a lookup. */
struct registry_entry {
	uint64_t base;          /* address of its first byte */
	uint64_t length;        /* bytes that may be touched now */
	uint64_t buffer_offset; /* of the base, in the buffer */
	struct hm_map *map;
	struct hm_buffer *buffer;
	struct hm_device *device;
	uint32_t generation;
	bool not_inherited; /* MADV_DONTFORK: -ENOENT in a fork child */
	/*
	 * Rights by range; copied into a slab. registry_nearest() and registry_each() leave it
	 * out.
	 */
	const struct rangemap *access;
};

/*
 * Inserts a map that owns [base, base + span), span >= entry->length, both multiples of 4 KiB:
 * growth inside the span only changes the descriptor.
 * -EEXIST: the span overlaps another one.
 * -EINVAL: a misaligned or empty span, or one beyond 48 bits.
 * -ENOMEM. No entry is left behind by a failure.
 */
int registry_insert(const struct registry_entry *entry, uint64_t span,
		    struct registry_slot **ret_slot);

/*
 * A change in two steps, so that the step that can fail comes before the system calls that the
 * change describes. base and span stay.
 */
int registry_stage(const struct registry_entry *entry, struct registry_descriptor **ret_staged);
/*
 * Replaces the contents of @staged by @entry, which has one run of rights: allocates nothing.
 */
void registry_restage(const struct registry_entry *entry, struct registry_descriptor *staged);
void registry_commit(struct registry_slot *slot, struct registry_descriptor *staged);
void registry_abandon(struct registry_descriptor *staged);

/* For new bytes in the same range. Allocates nothing, since one word holds the generation. */
void registry_set_generation(struct registry_slot *slot, uint32_t generation);

/* Removes a map; the slot is reused later, oldest first. */
void registry_remove(struct registry_slot *slot);

/* The body of hm_pointer_find(). */
int registry_find(const void *pointer, struct hm_pointer_info *ret_info);

/*
 * Maps of other cache modes than write-back. Raised before such a map is inserted, and lowered
 * after it is removed: who has an address in one sees it.
 */
extern _Atomic uint64_t registry_n_special;

/* False: registry_find() would answer -ENOENT. Inline, for callers that expect that answer. */
static inline bool registry_may_find(const void *pointer)
{
	return radix_find((uintptr_t)pointer) != NULL;
}

/*
 * As registry_find(), but in all of the address range that a map owns: map_offset may be beyond
 * the map's length, and access and cache mode are then those of its first byte.
 */
int registry_find_reserved(const void *pointer, struct hm_pointer_info *ret_info);

/*
 * Returns the map that holds @pointer, with a reference taken under the registry's mutex, and
 * its length at that moment. NULL: no map holds it.
 */
struct hm_map *registry_acquire(const void *pointer, struct hm_pointer_info *ret_info);

/*
 * For a pointer in no map: -EOWNERDEAD, with a text, if it is in a map of the parent that this fork
 * child has not inherited; otherwise 0.
 */
int registry_check_left(const void *pointer);

/*
 * Finds the map nearest to @pointer in either direction, for error texts. False: there are no maps.
 * Takes the mutex, and is not fast.
 */
bool registry_nearest(const void *pointer, struct registry_entry *ret_entry);

/*
 * Calls @each for every live map in address order under the mutex, until it returns non-zero,
 * which is the result. @each must not call the registry. Begins with the map that holds the
 * address @from, or with the next one.
 */
int registry_each(uint64_t from, int (*each)(void *user, const struct registry_entry *entry),
		  void *user);

/* Bytes of slabs, which are never given back; lookups tried again after a change. */
uint64_t registry_slab_bytes(void);
uint64_t registry_find_retries(void);

/* fork(2): the mutex is held across it. fork_generation hides maps that were not inherited. */
void registry_fork_prepare(void);
void registry_fork_parent(void);
void registry_fork_child(void);

#endif
