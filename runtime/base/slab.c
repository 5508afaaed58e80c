// SPDX-License-Identifier: MIT
/*
 * Type-stable memory: chunks from mmap(), cut into objects, never returned.
 */
#include "base/slab.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "base/util.h"

static _Atomic uint64_t total;

static _Atomic uint64_t *link_of(const struct slab *slab, void *object)
{
	return (_Atomic uint64_t *)((char *)object + slab->link);
}

void *slab_carve(struct slab *slab, uint32_t size)
{
	void *chunk;
	char *object;

	if (size > (size_t)(slab->end - slab->fresh)) {
		uint64_t length = max_u64(slab->chunk, round_up(size, KIB(4)));

		/*
		 * Populated: every page is about to be used, and a fault for each would cost
		 * several times as much.
		 */
		if (sys_mmap(NULL, length, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0, &chunk))
			return NULL;
		atomic_fetch_add_explicit(&total, length, memory_order_relaxed);
		slab->fresh = chunk;
		slab->end = slab->fresh + length;
	}
	object = slab->fresh;
	slab->fresh += size;
	return object;
}

void *slab_take(struct slab *slab)
{
	void *object = slab->oldest;
	uint64_t next;

	if (!object)
		return slab_carve(slab, slab->size);
	next = atomic_load_explicit(link_of(slab, object), memory_order_relaxed) & ~1ull;
	slab->oldest = (void *)(uintptr_t)next;
	if (!next)
		slab->newest = NULL;
	return object;
}

void slab_put(struct slab *slab, void *object)
{
	/* Release: a reader that sees the link sees all earlier writes to the object. */
	atomic_store_explicit(link_of(slab, object), 1, memory_order_release);
	if (slab->newest)
		atomic_store_explicit(link_of(slab, slab->newest),
				      (uint64_t)(uintptr_t)object | 1, memory_order_release);
	else
		slab->oldest = object;
	slab->newest = object;
}

uint64_t slab_total(void)
{
	return atomic_load_explicit(&total, memory_order_relaxed);
}
