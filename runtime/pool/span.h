/* SPDX-License-Identifier: MIT */
/*
 * Span: pages of a block that are cut into objects of one size, or a run of free pages.
 *
 * Spans come from slabs that keep their type, so that hm_pointer_find() reads them without a
 * lock. A reader checks the sequence before and after: it is odd while a span changes what it
 * is. An allocation's owner needs no check, since its span stays as it is.
 *
 * The tag of an object is 0 while the object is in no allocation, and otherwise 1 more than the
 * bytes that it has beyond those that the caller asked for. hm_pool_free() exchanges it for 0,
 * which finds each double free, also of an object in a thread's cache.
 */
#ifndef HETMAP_POOL_SPAN_H
#define HETMAP_POOL_SPAN_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "pool/page_table.h"

struct hm_map;
struct hm_pool;
struct pool_block;

struct pool_span {
	/* Readers without a lock: one cache line. */
	_Atomic uint32_t seq;
	_Atomic uint32_t n;          /* objects; 0: a free run */
	_Atomic uint64_t base;       /* address of the first byte */
	_Atomic uint64_t size;       /* of an object */
	_Atomic uint64_t reciprocal; /* 2^64 / size, rounded up */
	_Atomic(struct hm_pool *) pool;
	_Atomic(struct hm_map *) map; /* of the block */
	uint32_t capacity;            /* tags; constant */
	uint32_t class;               /* POOL_N_CLASS: one object of any length */
	_Atomic uint64_t slab_link;

	/* Protected by the pool's lock, as class is. */
	_Atomic uint64_t bytes; /* whole pages */
	struct pool_block *block;
	struct cds_list_head link; /* spans with free objects of a class; or runs of a length */
	uint32_t n_free;
	uint64_t *free; /* a bit for each object that neither a thread nor an allocation has */

	_Atomic uint32_t tag[]; /* capacity of them, and then the bits */
};

/* An object, as a reader found it. */
struct pool_place {
	struct pool_span *span;
	uint64_t base;  /* of the object */
	uint64_t size;  /* bytes of the object */
	uint32_t index; /* in the span */
	uint32_t tag;   /* 0: no allocation */
	struct hm_pool *pool;
};

/*
 * Serialise the slabs and the making of tables, for all pools. Leaves: no other lock is taken
 * under it.
 */
void span_lock(void);
void span_unlock(void);

/* A span for @n objects, or NULL. span_put() gives it back. */
struct pool_span *span_take(uint32_t n);
void span_put(struct pool_span *span);

/*
 * Makes the span one of @n objects of @size bytes, all free; n 0: a free run. Caller holds the
 * pool's lock, as for all that follow.
 */
void span_set(struct pool_span *span, struct pool_block *block, uint64_t base, uint64_t bytes,
	      uint64_t size, uint32_t n);

/* Changes the length of a span with one object, and the object's tag. */
void span_resize(struct pool_span *span, uint64_t bytes, uint32_t tag);

/* Takes a free object; there is one. Returns its index. */
uint32_t span_take_object(struct pool_span *span);
void span_put_object(struct pool_span *span, uint32_t index);

static inline uint64_t span_base(const struct pool_span *span)
{
	return atomic_load_explicit(&span->base, memory_order_relaxed);
}

static inline uint64_t span_bytes(const struct pool_span *span)
{
	return atomic_load_explicit(&span->bytes, memory_order_relaxed);
}

static inline uint64_t span_size(const struct pool_span *span)
{
	return atomic_load_explicit(&span->size, memory_order_relaxed);
}

static inline uint32_t span_n(const struct pool_span *span)
{
	return atomic_load_explicit(&span->n, memory_order_relaxed);
}

static inline uint64_t span_address(const struct pool_span *span, uint32_t index)
{
	return span_base(span) + index * span_size(span);
}

#define SPAN_LOAD(field) atomic_load_explicit(&(field), memory_order_acquire)

/* Errors as for span_find(), -EAGAIN in the one try. */
static inline int span_find_once(uint64_t address, struct pool_place *ret_place)
{
	struct pool_span *span = pool_span_at(address);
	uint64_t base, size, offset, index;
	struct hm_pool *pool;
	uint32_t seq, n, tag;

	if (likely(!span))
		return -ENOENT;
	seq = SPAN_LOAD(span->seq);
	n = SPAN_LOAD(span->n);
	base = SPAN_LOAD(span->base);
	size = SPAN_LOAD(span->size);
	offset = address - base;
	index = (uint64_t)((unsigned __int128)offset * SPAN_LOAD(span->reciprocal) >> 64);
	pool = SPAN_LOAD(span->pool);
	/* The capacity is constant; n may be another span's by now. */
	tag = SPAN_LOAD(span->tag[index & (span->capacity - 1)]);
	if (unlikely(SPAN_LOAD(span->seq) != seq || (seq & 1)))
		return -EAGAIN;
	/* With one object, index 0 is all there is. */
	if (unlikely(index >= n || offset - index * size >= size))
		return -ESTALE;
	*ret_place = (struct pool_place){
		.span = span,
		.base = base + index * size,
		.size = size,
		.index = (uint32_t)index,
		.tag = tag,
		.pool = pool,
	};
	return 0;
}

int span_find_again(uint64_t address, struct pool_place *ret_place);

/*
 * Finds the object that holds an address, without a lock; legal in a signal handler.
 * -ENOENT: no pool has the address. -ESTALE: a pool has it, and no object is there. -EAGAIN: the
 * span was changing in each of a bounded number of tries.
 */
static inline int span_find(uint64_t address, struct pool_place *ret_place)
{
	int r = span_find_once(address, ret_place);

	return unlikely(r == -EAGAIN) ? span_find_again(address, ret_place) : r;
}

#endif
