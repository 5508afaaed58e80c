// SPDX-License-Identifier: MIT
/*
 * From size classes to spans. Each class has a list of its spans with free objects; a span whose
 * objects are all free goes back to the heap at once, and may serve another class.
 *
 * An object that is freed while work uses it waits here, neither free nor an allocation, until
 * the work is done.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "pool/poison.h"
#include "pool/pool.h"

static int new_span(struct hm_pool *pool, unsigned int class)
{
	const struct pool_class *of = &pool->class[class];
	struct pool_span *span = NULL;
	int r = heap_take(pool, (uint64_t)of->pages << POOL_PAGE_SHIFT, POOL_PAGE, of->size,
			  of->objects, &span);

	if (r)
		return r;
	span->class = class;
	cds_list_add(&span->link, &pool->class[class].spans);
	return 0;
}

int central_take_locked(struct hm_pool *pool, unsigned int class, uint32_t most,
			struct pool_entry *entries, uint32_t *ret_n)
{
	struct pool_class *of = &pool->class[class];
	uint32_t n = 0, index;
	int r = 0;

	while (n < most) {
		struct pool_span *span;

		if (cds_list_empty(&of->spans)) {
			r = n ? -EAGAIN : new_span(pool, class);
			if (r)
				break;
		}
		span = cds_list_first_entry(&of->spans, struct pool_span, link);
		while (n < most && span->n_free) {
			index = span_take_object(span);
			entries[n].address = (char *)(uintptr_t)span_address(span, index);
			entries[n].tag = &span->tag[index];
			n++;
		}
		if (!span->n_free)
			cds_list_del(&span->link);
	}
	if (!n)
		return r;
	of->out += n;
	pool->out += n * (uint64_t)of->size;
	*ret_n = n;
	return 0;
}

/* In a dead block, the span is on no list. */
static void span_link(struct pool_span *span)
{
	if (span->block->dead)
		CDS_INIT_LIST_HEAD(&span->link);
	else
		cds_list_add(&span->link, &span->block->pool->class[span->class].spans);
}

void central_put_locked(struct pool_span *span, uint32_t index)
{
	struct hm_pool *pool = span->block->pool;
	bool linked = span->n_free;

	span_put_object(span, index);
	pool->out -= span_size(span);
	if (span->class < POOL_N_CLASS)
		pool->class[span->class].out--;
	else
		pool->long_out -= span_size(span);
	if (span->n_free == span_n(span)) {
		if (linked)
			cds_list_del(&span->link);
		heap_put(span);
	} else if (!linked) {
		span_link(span);
	}
}

void central_look(struct pool_span *span)
{
	cds_list_del(&span->link);
	span_link(span);
}

/* ---- objects that work still uses ---- */

static int busy_reserve_locked(struct hm_pool *pool)
{
	uint32_t room = pool->busy_room ? pool->busy_room * 2 : 16;
	struct pool_busy *more;

	if (pool->n_busy < pool->busy_room)
		return 0;
	more = sys_calloc(room, sizeof(*more));
	if (!more)
		return -ENOMEM;
	if (pool->n_busy)
		memcpy(more, pool->busy, pool->n_busy * sizeof(*more));
	free(pool->busy);
	pool->busy = more;
	pool->busy_room = room;
	return 0;
}

int central_busy_locked(struct pool_span *span, uint32_t index)
{
	struct hm_pool *pool = span->block->pool;
	int r = busy_reserve_locked(pool);

	if (r)
		return r;
	pool->busy[pool->n_busy++] = (struct pool_busy){ span, index };
	pool->busy_bytes += span_size(span);
	return 0;
}

static void busy_end_locked(struct hm_pool *pool, uint32_t at)
{
	struct pool_busy busy = pool->busy[at];

	pool->busy[at] = pool->busy[--pool->n_busy];
	pool->busy_bytes -= span_size(busy.span);
	central_put_locked(busy.span, busy.index);
}

void central_forget_busy_locked(struct hm_pool *pool)
{
	while (pool->n_busy)
		busy_end_locked(pool, pool->n_busy - 1);
}

/*
 * Only one thread sweeps, from the end on: others may append meanwhile, which moves none of the
 * objects in front.
 */
void central_sweep(struct hm_pool *pool)
{
	struct pool_busy busy;
	uint32_t i;
	bool done;

	pthread_mutex_lock(&pool->lock);
	if (!pool->n_busy || pool->sweeping || atomic_load(&pool->closed))
		goto unlock;
	pool->sweeping = true;
	for (i = pool->n_busy; i--;) {
		busy = pool->busy[i];
		pthread_mutex_unlock(&pool->lock);
		/* The object keeps its block, and so the map. */
		done = pool_is_idle(busy.span, busy.index);
		pthread_mutex_lock(&pool->lock);
		if (i >= pool->n_busy || !done)
			continue;
		poison(span_address(busy.span, busy.index), span_size(busy.span));
		busy_end_locked(pool, i);
	}
	pool->sweeping = false;
unlock:
	pthread_mutex_unlock(&pool->lock);
}
