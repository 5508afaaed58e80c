// SPDX-License-Identifier: MIT
/* Spans: their slabs, their objects, and the search for the object at an address. */
#include "pool/span.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/slab.h"
#include "pool/pool.h"

/* One slab for each power of two of objects. */
#define ORDERS 11
_Static_assert(1u << (ORDERS - 1) == POOL_OBJECTS_MOST, "the largest span");

/* How often a look-up tries while a span changes. */
#define TRIES 16

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct slab slabs[ORDERS];

#define LOAD SPAN_LOAD
#define STORE(field, value) atomic_store_explicit(&(field), value, memory_order_release)

void span_lock(void)
{
	pthread_mutex_lock(&mutex);
}

void span_unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

/* ---- slabs ---- */

static unsigned int order_of(uint32_t n)
{
	return n <= 1 ? 0 : 32 - (unsigned int)__builtin_clz(n - 1);
}

static uint32_t words_of(uint32_t capacity)
{
	return (capacity + 63) / 64;
}

/* Tags of two objects at least, so that the bits behind them are aligned. */
static uint32_t tags_of(uint32_t capacity)
{
	return capacity < 2 ? 2 : capacity;
}

static struct slab *slab_of(unsigned int order)
{
	struct slab *slab = &slabs[order];
	uint32_t capacity = 1u << order;

	slab->size = (uint32_t)round_up(sizeof(struct pool_span) +
						tags_of(capacity) * sizeof(uint32_t) +
						words_of(capacity) * sizeof(uint64_t),
					64);
	slab->link = offsetof(struct pool_span, slab_link);
	slab->chunk = KIB(32);
	return slab;
}

struct pool_span *span_take(uint32_t n)
{
	unsigned int order = order_of(n);
	struct pool_span *span;

	span_lock();
	span = slab_take(slab_of(order));
	span_unlock();
	if (!span)
		return NULL;
	span->capacity = 1u << order;
	span->free = (uint64_t *)(void *)&span->tag[tags_of(span->capacity)];
	return span;
}

void span_put(struct pool_span *span)
{
	uint32_t seq = LOAD(span->seq) | 1;

	/* Readers find no object from here on. */
	STORE(span->seq, seq);
	STORE(span->n, 0);
	STORE(span->seq, seq + 1);
	span_lock();
	slab_put(slab_of(order_of(span->capacity)), span);
	span_unlock();
}

/* ---- objects ---- */

/* All bits of @n objects. */
static void set_free(struct pool_span *span, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < words_of(n); i++)
		span->free[i] = n - i * 64 >= 64 ? UINT64_MAX : (1ull << (n - i * 64)) - 1;
	span->n_free = n;
}

void span_set(struct pool_span *span, struct pool_block *block, uint64_t base, uint64_t bytes,
	      uint64_t size, uint32_t n)
{
	uint32_t i, seq = LOAD(span->seq) | 1;

	STORE(span->seq, seq);
	for (i = 0; i < n; i++)
		STORE(span->tag[i], 0);
	STORE(span->base, base);
	STORE(span->bytes, bytes);
	STORE(span->size, size);
	/* Exact for each offset below 2^64 / size; a span with one object needs index 0 only. */
	STORE(span->reciprocal, n > 1 ? UINT64_MAX / size + 1 : 0);
	STORE(span->n, n);
	STORE(span->pool, block->pool);
	STORE(span->map, block->map);
	span->block = block;
	set_free(span, n);
	STORE(span->seq, seq + 1);
}

void span_resize(struct pool_span *span, uint64_t bytes, uint32_t tag)
{
	uint32_t seq = LOAD(span->seq) | 1;

	STORE(span->seq, seq);
	STORE(span->bytes, bytes);
	STORE(span->size, bytes);
	STORE(span->tag[0], tag);
	STORE(span->seq, seq + 1);
}

uint32_t span_take_object(struct pool_span *span)
{
	uint32_t i = 0, bit;

	while (!span->free[i])
		i++;
	bit = (uint32_t)__builtin_ctzll(span->free[i]);
	span->free[i] &= span->free[i] - 1;
	span->n_free--;
	return i * 64 + bit;
}

void span_put_object(struct pool_span *span, uint32_t index)
{
	span->free[index / 64] |= 1ull << index % 64;
	span->n_free++;
}

/* ---- looking up ---- */

int span_find_again(uint64_t address, struct pool_place *ret_place)
{
	int tries, r = -EAGAIN;

	for (tries = 1; tries < TRIES && r == -EAGAIN; tries++)
		r = span_find_once(address, ret_place);
	return r;
}
