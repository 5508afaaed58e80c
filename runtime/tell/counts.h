/* SPDX-License-Identifier: MIT */
/*
 * Counters of each buffer. They are in the buffer, on cache lines that no lookup and no bracket
 * reads; a device's counters are sums, made on request. The published table has the addresses
 * of a map's count of brackets and of its work in flight: other processes read both there,
 * which costs no store.
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
	/* Written without a lock: */
	COUNT_BYTES_LOCKED, /* now */
	COUNT_BYTES_COPIED,
	COUNT_PROTECTS,
	COUNT_BRACKETS, /* without those still in a struct bracket_count */
	COUNT_LAUNCHES,
	COUNT_VIEWS, /* now */
	COUNT_LOST,
	COUNT_RECOVERED,
	COUNTS,
};

struct counts {
	_Atomic uint64_t n[COUNTS];
};

/* @n may be the result of a subtraction: counters wrap. */
static inline void count_add(struct counts *counts, enum count which, uint64_t n)
{
	atomic_fetch_add_explicit(&counts->n[which], n, memory_order_relaxed);
}

/* As count_add(), where all writers hold one lock: needs no atomic operation. */
static inline void count_add_locked(struct counts *counts, enum count which, uint64_t n)
{
	uint64_t now = atomic_load_explicit(&counts->n[which], memory_order_relaxed);

	atomic_store_explicit(&counts->n[which], now + n, memory_order_relaxed);
}

/*
 * Brackets of one map: open ones in the low half, ended ones in the high half, so that a begin
 * and an end pay for the one atomic operation that each needs anyway. The struct belongs to the
 * buffer: a later map takes it over when this map has ended. It stays in place as long as the
 * buffer exists, so adding up needs no lock.
 */
struct bracket_count {
	_Atomic uint64_t n;
	struct bracket_count *next;      /* hm_buffer.brackets; constant */
	struct bracket_count *next_free; /* hm_buffer.free_brackets; buffer->lock */
	char unshared[CACHE_LINE - 3 * sizeof(uint64_t)];
};

#define BRACKET_ENDED (UINT64_C(1) << 32)
/* Set when so many brackets have ended that some of them must move to COUNT_BRACKETS. */
#define BRACKET_CARRY (UINT64_C(1) << 63)

/* Gives @map a count of brackets. The caller holds the buffer's lock. -ENOMEM. */
int brackets_take_locked(struct hm_map *map);
/*
 * Takes the count of a map that has ended: its open brackets never end. Caller holds
 * buffer->lock.
 */
void brackets_put_locked(struct hm_map *map);

/* Counts that @map has left its buffer's list. Caller holds buffer->lock. */
void counts_map_ended_locked(struct hm_map *map);

/* Counts the buffer's new size and, if @changed, a resize. Caller holds buffer->lock. */
void counts_sized_locked(struct hm_buffer *buffer, bool changed);

/*
 * counts_leave: adds the counters of a buffer that ends to @sums, its device's.
 * counts_end: frees its bracket counts.
 */
void counts_leave(struct hm_buffer *buffer, struct counts *sums);
void counts_end(struct hm_buffer *buffer);

uint64_t counts_get(const struct counts *counts, enum count which);
/* Adds the buffer's counters to @sums. Returns the number of brackets that are open. */
uint64_t counts_add_up(struct hm_buffer *buffer, struct counts *sums);

#endif
