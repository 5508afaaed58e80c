/* SPDX-License-Identifier: MIT */
/* Contents of a slot of the registry: a map's descriptor, and its runs of rights. */
#ifndef HETMAP_DESCRIPTOR_H
#define HETMAP_DESCRIPTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <hetmap/pointer.h>

#include "base/fork.h"

/*
 * One cache line, in which the common case needs nothing unpacked. The last word has the layout of
 * the end of struct hm_pointer_info: generation, access, cache mode, and the flags below in the
 * place of its reserved field. A word without flags is copied as it is.
 */
struct registry_descriptor {
	/* Upper half: fork generation at publication. Or SEQ_FORWARD. */
	_Atomic uint64_t seq;
	_Atomic uint64_t base;
	_Atomic uint64_t length;
	_Atomic uint64_t buffer_offset;
	_Atomic uint64_t map; /* free: link to the next */
	_Atomic uint64_t buffer;
	_Atomic uint64_t device; /* DESCRIPTOR_RUNS: struct runs */
	_Atomic uint64_t tail;
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct registry_descriptor) == 64, "one cache line");

struct registry_slot {
	struct registry_descriptor descriptor;
};

/* Retired, or not full yet. */
#define SEQ_ODD 1ull
/* Only in a slot, during a change: a pointer to the descriptor that counts. */
#define SEQ_FORWARD (1ull << 63)

#define DESCRIPTOR_RUNS (1u << 0)          /* rights by range, in an array */
#define DESCRIPTOR_NOT_INHERITED (1u << 1) /* not valid in a fork child */

struct tail {
	uint32_t generation;
	uint8_t access;
	uint8_t cache;
	uint16_t flags;
};

#define INFO_TAIL offsetof(struct hm_pointer_info, generation)

_Static_assert(sizeof(struct tail) == sizeof(uint64_t) &&
		       offsetof(struct tail, access) ==
			       offsetof(struct hm_pointer_info, access) - INFO_TAIL &&
		       offsetof(struct tail, cache) ==
			       offsetof(struct hm_pointer_info, cache) - INFO_TAIL &&
		       offsetof(struct tail, flags) ==
			       offsetof(struct hm_pointer_info, reserved) - INFO_TAIL &&
		       sizeof(struct hm_pointer_info) == INFO_TAIL + sizeof(struct tail),
	       "struct tail is the end of struct hm_pointer_info");

/* A run is one word: a page-aligned offset, and access and cache mode in the bits below it. */
#define RUN_CACHE_SHIFT 2
#define RUN_FIELD_MASK 3u

_Static_assert(HM_CACHE_UNKNOWN <= RUN_FIELD_MASK, "a run has room for each cache mode");

/* Never changed while a descriptor with an even sequence points to it. */
struct runs {
	_Atomic uint64_t n; /* at most the class's; kept while the array is free */
	_Atomic uint64_t device;
	_Atomic uint64_t run[];
};

#define LOAD(field) atomic_load_explicit(&(field), memory_order_acquire)
#define STORE(field, value) atomic_store_explicit(&(field), value, memory_order_release)

static inline uint64_t tail_pack(struct tail tail)
{
	uint64_t word;

	memcpy(&word, &tail, sizeof(word));
	return word;
}

static inline struct tail tail_unpack(uint64_t word)
{
	struct tail tail;

	memcpy(&tail, &word, sizeof(tail));
	return tail;
}

/* Did the parent of this fork child have the map, which the child has not inherited? */
static inline bool is_left(uint64_t seq, uint64_t tail)
{
	return tail_unpack(tail).flags & DESCRIPTOR_NOT_INHERITED &&
	       seq >> 32 != fork_generation;
}

#endif
