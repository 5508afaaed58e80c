/* SPDX-License-Identifier: MIT */
/*
 * What is counted of each buffer. The counters are in the buffer, on cache lines that no
 * look-up and no bracket reads; a device's are the sums, made by whoever asks. The published
 * table has the addresses of a map's count of brackets and of its work in flight: other
 * processes read both there, which costs no store.
 */
#ifndef HETMAP_COUNTS_H
#define HETMAP_COUNTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CACHE_LINE 64

struct hm_buffer;
struct hm_map;

enum count {
	/* Written with buffer->lock held: */
	COUNT_BYTES, /* now */
	COUNT_MAPS,  /* now */
	COUNT_MAPS_EVER,
	COUNT_BYTES_MAPPED, /* now */
	COUNT_RESIZES,
	/* And by anybody: */
	COUNT_BYTES_LOCKED, /* now */
	COUNT_BYTES_COPIED,
	COUNT_PROTECTS,
	COUNT_BRACKETS, /* those that no struct bracket_count has any more */
	COUNT_LAUNCHES,
	COUNT_VIEWS, /* now */
	COUNT_LOST,
	COUNT_RECOVERED,
	COUNTS,
};

struct counts {
	_Atomic uint64_t n[COUNTS];
};

/* @n may be what a subtraction gave: counters wrap. */
static inline void count_add(struct counts *counts, enum count which, uint64_t n)
{
	atomic_fetch_add_explicit(&counts->n[which], n, memory_order_relaxed);
}

/* Of those whose writers all hold one lock: without an atomic operation. */
static inline void count_add_locked(struct counts *counts, enum count which, uint64_t n)
{
	uint64_t now = atomic_load_explicit(&counts->n[which], memory_order_relaxed);

	atomic_store_explicit(&counts->n[which], now + n, memory_order_relaxed);
}

/*
 * Brackets of one map: open ones in the low half, ended ones in the high half, so that a
 * begin and an end pay for the one atomic operation that each needs anyway. It is its
 * buffer's, for a later map when this one has ended, and stays where it is as long as the
 * buffer does: who adds up needs no lock.
 */
struct bracket_count {
	_Atomic uint64_t n;
	struct bracket_count *next;      /* hm_buffer.brackets; constant */
	struct bracket_count *next_free; /* hm_buffer.free_brackets; buffer->lock */
	char unshared[CACHE_LINE - 3 * sizeof(uint64_t)];
};

#define BRACKET_ENDED (UINT64_C(1) << 32)
/* So many have ended that COUNT_BRACKETS is to have some of them. */
#define BRACKET_CARRY (UINT64_C(1) << 63)

/* One for @map, whose buffer's lock is held. -ENOMEM. */
int brackets_take_locked(struct hm_map *map);
/* Its map has ended: those that are open still never end. Caller holds buffer->lock. */
void brackets_put_locked(struct hm_map *map);

/* It has left its buffer's list. Caller holds buffer->lock. */
void counts_map_ended_locked(struct hm_map *map);

/* Its size is what it is now: counted, @changed, as a resize. Caller holds buffer->lock. */
void counts_sized_locked(struct hm_buffer *buffer, bool changed);

/* The buffer's counters are added to @sums, of its device, and it has nothing any more. */
void counts_leave(struct hm_buffer *buffer, struct counts *sums);
void counts_end(struct hm_buffer *buffer);

#endif
