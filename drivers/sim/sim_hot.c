// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * HETSIM_ADVISE_CACHE: pages that the engine uses often are in the device's memory, up to a limit.
 * The cache has no copies. A page is at one place, because the kernel tells no one when a CPU
 * writes to a page that it may write to already: a copy would be stale without a notice.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "sim_mirror.h"
#include "sim_store.h"

/* Pages that have lost their places go back to the host, with mirror->lock held. */
static void sim_hot_leave(struct sim_mirror *mirror)
{
	u64 leaves[SIM_HOT_LEAVES];
	unsigned int n, i;

	spin_lock(&mirror->uses_lock);
	n = mirror->n_hot_leaves;
	memcpy(leaves, mirror->hot_leaves, n * sizeof(leaves[0]));
	mirror->n_hot_leaves = 0;
	spin_unlock(&mirror->uses_lock);
	for (i = 0; i < n; i++)
		sim_return_span(mirror, &(struct sim_span){ leaves[i], 1 });
}

/* All pages that have places go back, and the places end, with mirror->lock held. */
static void sim_hot_end(struct sim_mirror *mirror)
{
	struct hot *hot = mirror->hot;
	u32 at = 0;
	u64 page;

	if (!hot)
		return;
	sim_hot_leave(mirror);
	spin_lock(&mirror->uses_lock);
	mirror->hot = NULL;
	spin_unlock(&mirror->uses_lock);
	while ((page = hot_next(hot, &at)) != HOT_NONE) {
		sim_return_span(mirror, &(struct sim_span){ page, 1 });
		cond_resched();
	}
	kvfree(hot);
}

/*
 * The limit of the cache, with mirror->lock held. With another one than before all pages go back.
 * 0 ends it; -ENOMEM leaves it as it was.
 */
int sim_hot_set(struct sim_mirror *mirror, u64 bytes)
{
	u64 n = min(bytes, sim_store_bytes(mirror->dev->store)) >> PAGE_SHIFT;
	u32 n_slots = min_t(u64, n, HOT_MOST);
	struct mem_cgroup *old;
	struct hot *hot;
	void *memory;

	if (mirror->hot ? mirror->hot->n_slots == n_slots : !n_slots)
		return 0;
	if (!n_slots) {
		sim_hot_end(mirror);
		return 0;
	}
	old = set_active_memcg(mirror->memcg);
	memory = kvmalloc(hot_size(n_slots), SIM_GFP_KV);
	set_active_memcg(old);
	if (!memory)
		return -ENOMEM;
	sim_hot_end(mirror);
	hot = hot_init(memory, n_slots);
	spin_lock(&mirror->uses_lock);
	mirror->hot = hot;
	spin_unlock(&mirror->uses_lock);
	return 0;
}

/*
 * Counts a use of a page that has an entry, with va->lock held for reading, as other queues do.
 * True: the page is to come before it is used.
 */
bool sim_hot_used(struct sim_chunk *chunk, u64 page, u64 entry)
{
	struct sim_mirror *mirror = chunk->mirror;
	enum hot_answer answer = HOT_COUNTED;
	u64 leaves;

	spin_lock(&mirror->uses_lock);
	if (mirror->hot && mirror->n_hot_leaves < SIM_HOT_LEAVES) {
		answer = hot_use(mirror->hot, page, entry & SIM_ENTRY_DEVICE, &leaves);
		if (answer == HOT_COMES && leaves != HOT_NONE)
			mirror->hot_leaves[mirror->n_hot_leaves++] = leaves;
	}
	spin_unlock(&mirror->uses_lock);
	if (answer == HOT_HIT)
		sim_mirror_count(mirror, SIM_CACHE_HITS, 1);
	else if (answer != HOT_COUNTED)
		sim_mirror_count(mirror, SIM_CACHE_MISSES, 1);
	return answer == HOT_COMES;
}

/* Moves the pages that are to come, after those whose places they take; with mirror->lock held. */
void sim_hot_move(struct sim_chunk *chunk, const struct sim_span *wanted)
{
	struct sim_mirror *mirror = chunk->mirror;
	u64 page;

	sim_hot_leave(mirror);
	for (page = wanted->start; page < sim_span_end(wanted); page++) {
		bool comes;

		spin_lock(&mirror->uses_lock);
		comes = mirror->hot && hot_comes(mirror->hot, page);
		spin_unlock(&mirror->uses_lock);
		if (comes)
			sim_migrate_page(mirror, page);
	}
}

/* The chunk's range is another one: what was there has left. Called under any lock. */
void sim_hot_forget(struct sim_chunk *chunk)
{
	struct sim_mirror *mirror = chunk->mirror;
	u64 page;

	if (!chunk->hot)
		return;
	spin_lock(&mirror->uses_lock);
	for (page = chunk->span.start; mirror->hot && page < sim_span_end(&chunk->span); page++)
		hot_drop(mirror->hot, page);
	spin_unlock(&mirror->uses_lock);
}
