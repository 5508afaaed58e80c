// SPDX-License-Identifier: MIT
/*
 * Free runs of pages, by length: a request takes the shortest run that has room, and a span that
 * is given back joins its free neighbours at once, at most one on each side.
 *
 * The page table has the run at its first and its last page; entries in between are stale, and
 * readers find that the span there does not hold the address.
 */
#include "pool/pool.h"

/* Runs of a bin that are looked at for the best fit: a bin may have any number. */
#define FIT_TRIES 64

static unsigned int bin_of(uint64_t bytes)
{
	uint64_t pages = bytes >> POOL_PAGE_SHIFT;
	unsigned int doubling;

	if (pages < POOL_EXACT)
		return (unsigned int)pages;
	doubling = 63 - (unsigned int)__builtin_clzll(pages);
	return (unsigned int)min_u64(POOL_EXACT + (doubling - 6) * 4 +
					     (pages >> (doubling - 2) & 3),
				     POOL_N_BIN - 1);
}

void heap_init(struct hm_pool *pool)
{
	unsigned int i;

	for (i = 0; i < POOL_N_BIN; i++)
		CDS_INIT_LIST_HEAD(&pool->bin[i]);
}

/* Only the ends of a run are entered. */
static void run_link(struct pool_span *run)
{
	uint64_t base = span_base(run), bytes = span_bytes(run);
	struct hm_pool *pool = run->block->pool;
	unsigned int bin = bin_of(bytes);

	pool_table_enter(base, POOL_PAGE, run);
	pool_table_enter(base + bytes - POOL_PAGE, POOL_PAGE, run);
	if (run->block->dead) {
		CDS_INIT_LIST_HEAD(&run->link);
		return;
	}
	cds_list_add(&run->link, &pool->bin[bin]);
	pool->filled[bin / 64] |= 1ull << bin % 64;
}

static void run_unlink(struct pool_span *run)
{
	struct hm_pool *pool = run->block->pool;
	unsigned int bin = bin_of(span_bytes(run));

	cds_list_del(&run->link);
	if (cds_list_empty(&pool->bin[bin]))
		pool->filled[bin / 64] &= ~(1ull << bin % 64);
}

/* Bytes to skip in the run, so that @bytes at @alignment fit; or UINT64_MAX. */
static uint64_t skip_of(const struct pool_span *run, uint64_t bytes, uint64_t alignment)
{
	uint64_t skip = round_up(span_base(run), alignment) - span_base(run);

	return skip <= span_bytes(run) && bytes <= span_bytes(run) - skip ? skip : UINT64_MAX;
}

static struct pool_span *best_of(struct hm_pool *pool, unsigned int bin, uint64_t bytes,
				 uint64_t alignment)
{
	struct pool_span *run, *best = NULL;
	unsigned int tries = 0;

	cds_list_for_each_entry(run, &pool->bin[bin], link) {
		if (skip_of(run, bytes, alignment) != UINT64_MAX &&
		    (!best || span_bytes(run) < span_bytes(best)))
			best = run;
		if ((best && bin < POOL_EXACT) || ++tries == FIT_TRIES)
			break;
	}
	return best;
}

static struct pool_span *find_run(struct hm_pool *pool, uint64_t bytes, uint64_t alignment)
{
	unsigned int bin = bin_of(bytes), word = bin / 64;
	uint64_t bits = pool->filled[word] & UINT64_MAX << bin % 64;
	struct pool_span *run;

	for (;;) {
		while (!bits) {
			if (++word == ARRAY_SIZE(pool->filled))
				return NULL;
			bits = pool->filled[word];
		}
		run = best_of(pool, word * 64 + (unsigned int)__builtin_ctzll(bits), bytes,
			      alignment);
		if (run)
			return run;
		bits &= bits - 1;
	}
}

int heap_take(struct hm_pool *pool, uint64_t bytes, uint64_t alignment, uint64_t size,
	      uint32_t n, struct pool_span **ret_span)
{
	struct pool_span *run = find_run(pool, bytes, alignment), *span, *front = NULL;
	uint64_t base, length, skip;

	if (!run)
		return -EAGAIN;
	skip = skip_of(run, bytes, alignment);
	base = span_base(run);
	length = span_bytes(run);
	span = span_take(n);
	if (skip)
		front = span_take(1);
	if (!span || (skip && !front)) {
		if (span)
			span_put(span);
		return -ENOMEM;
	}
	run_unlink(run);
	span_set(span, run->block, base + skip, bytes, size, n);
	pool_table_enter(base + skip, bytes, span);
	if (front) {
		span_set(front, run->block, base, skip, 0, 0);
		run_link(front);
	}
	if (skip + bytes < length) {
		span_set(run, run->block, base + skip + bytes, length - skip - bytes, 0, 0);
		run_link(run);
	} else {
		span_put(run);
	}
	pool->n_unused -= !span->block->used;
	span->block->used += bytes;
	*ret_span = span;
	return 0;
}

/* The free run of the same block at @address; or NULL. */
static struct pool_span *run_at(const struct pool_block *block, uint64_t address)
{
	struct pool_span *span;

	if (address - block->base >= block->bytes)
		return NULL;
	span = pool_span_at(address);
	return span_n(span) ? NULL : span;
}

void heap_put(struct pool_span *span)
{
	struct pool_block *block = span->block;
	uint64_t base = span_base(span), bytes = span_bytes(span);
	struct pool_span *before = run_at(block, base - POOL_PAGE);
	struct pool_span *behind = run_at(block, base + bytes);

	block->used -= bytes;
	block->pool->n_unused += !block->used;
	if (before) {
		run_unlink(before);
		base = span_base(before);
		bytes += span_bytes(before);
		span_put(before);
	}
	if (behind) {
		run_unlink(behind);
		bytes += span_bytes(behind);
		span_put(behind);
	}
	span_set(span, block, base, bytes, 0, 0);
	run_link(span);
}

int heap_resize(struct pool_span *span, uint64_t bytes, uint32_t tag)
{
	struct pool_block *block = span->block;
	uint64_t base = span_base(span), old = span_bytes(span), room = 0;
	struct pool_span *run = run_at(block, base + old);

	if (run)
		room = span_bytes(run);
	if (bytes > old + room)
		return -EAGAIN;
	if (bytes == old) {
		span_resize(span, bytes, tag);
		return 0;
	}
	if (run) {
		run_unlink(run);
	} else {
		run = span_take(1);
		if (!run)
			return -ENOMEM;
	}
	block->used += bytes - old;
	span_resize(span, bytes, tag);
	if (bytes > old)
		pool_table_enter(base + old, bytes - old, span);
	if (bytes < old + room) {
		span_set(run, block, base + bytes, old + room - bytes, 0, 0);
		run_link(run);
	} else {
		span_put(run);
	}
	return 0;
}

void heap_add_block(struct pool_block *block, struct pool_span *run)
{
	span_set(run, block, block->base, block->bytes, 0, 0);
	/* All of it: an address of the block that was never allocated is known, too. */
	pool_table_enter(block->base, block->bytes, run);
	run_link(run);
}

void heap_remove_block(struct pool_block *block)
{
	struct pool_span *run = pool_span_at(block->base);

	run_unlink(run);
	pool_table_enter(block->base, block->bytes, NULL);
	span_put(run);
}

void heap_look(struct pool_span *run)
{
	run_unlink(run);
	run_link(run);
}

uint64_t heap_largest(const struct hm_pool *pool)
{
	unsigned int word = ARRAY_SIZE(pool->filled);
	const struct pool_span *run;
	uint64_t largest = 0;

	while (word-- && !largest) {
		unsigned int bin = word * 64 + 63;

		if (!pool->filled[word])
			continue;
		bin -= (unsigned int)__builtin_clzll(pool->filled[word]);
		cds_list_for_each_entry(run, &pool->bin[bin], link)
			largest = max_u64(largest, span_bytes(run));
	}
	return largest;
}
