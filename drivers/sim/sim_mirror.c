// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The mirror of a process: its beginning and its end, and finding entries for the engine.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "sim_mirror.h"

/* The opener's mirror; NULL without one. */
static struct sim_mirror *sim_mirror_get(struct sim_opener *opener)
{
	/* Its members were written first: sim_mirror_publish(). */
	return smp_load_acquire(&opener->va.mirror);
}

/* The same, for a call of the process that it is of. -ENOENT, -EPERM. */
struct sim_mirror *sim_mirror_of(struct sim_opener *opener)
{
	struct sim_mirror *mirror = sim_mirror_get(opener);

	if (!mirror)
		return ERR_PTR(-ENOENT);
	return mirror->mm == current->mm ? mirror : ERR_PTR(-EPERM);
}

bool sim_mirror_is_mine(struct sim_opener *opener)
{
	return !IS_ERR(sim_mirror_of(opener));
}

/* The first chunk that ends behind @page, with mirror->lock or va->lock held; NULL. */
struct sim_chunk *sim_chunk_after(struct sim_mirror *mirror, u64 page)
{
	struct rb_node *node = mirror->chunks.rb_node;
	struct sim_chunk *best = NULL;

	while (node) {
		struct sim_chunk *chunk = rb_entry(node, struct sim_chunk, node);

		if (page < sim_span_end(&chunk->span)) {
			best = chunk;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return best;
}

/*
 * The engine uses the page for the first time since a prefetch has brought it, with va->lock held
 * for reading, as other queues do. Returns the entry as it is then.
 */
static u64 sim_entry_first_use(struct sim_chunk *chunk, u64 *slot, u64 entry, u64 page)
{
	u64 used = (entry & ~SIM_ENTRY_WHY) | (u64)HETSIM_WHY_FAULT << SIM_ENTRY_WHY_SHIFT;
	struct sim_mirror *mirror = chunk->mirror;
	u64 n = entry & SIM_ENTRY_LARGE ? SIM_CHUNK_PAGES : 1;
	struct hetsim_event event = {
		.kind = HETSIM_EVENT_PREFETCH_USED,
		.address = (n > 1 ? chunk->span.start : page) << PAGE_SHIFT,
		.length = n << PAGE_SHIFT,
	};

	if (cmpxchg64(slot, entry, used) == entry) {
		sim_mirror_count(mirror, SIM_PREFETCH_USED, n);
		sim_mirror_tell(mirror, &event);
		sim_learn_used(mirror, page, 1, entry & SIM_ENTRY_WRITE);
	}
	return used;
}

/*
 * Counts a use, with va->lock held for reading, as other queues do: one of two at the same time may
 * not count. True: there were enough, and the page is to move before it is used.
 */
static bool sim_chunk_used_often(struct sim_chunk *chunk, u64 page)
{
	u16 *uses = &chunk->uses[(page - chunk->span.start) / SIM_PIECE_PAGES];
	u16 n = READ_ONCE(*uses);

	if (n >= chunk->counter)
		return true;
	WRITE_ONCE(*uses, n + 1);
	return false;
}

/* Returns the device's entry for the page; 0: it has none. With va->lock held. */
u64 sim_mirror_entry(struct sim_mirror *mirror, u64 page)
{
	struct sim_chunk *chunk = sim_chunk_after(mirror, page);
	u64 *slot, entry;

	if (!chunk || page < chunk->span.start)
		return 0;
	slot = &chunk->entries[sim_chunk_is_large(chunk) ? 0 : page - chunk->span.start];
	entry = READ_ONCE(*slot);
	if (entry & SIM_ENTRY_COUNTED &&
	    (chunk->hot ? sim_hot_used(chunk, page, entry) : sim_chunk_used_often(chunk, page)))
		return 0;
	if (sim_entry_why(entry) == HETSIM_WHY_PREFETCH)
		return sim_entry_first_use(chunk, slot, entry, page);
	return entry;
}

/* How many there are, for debugfs. */
unsigned int sim_mirror_chunks(struct sim_opener *opener)
{
	struct sim_mirror *mirror = sim_mirror_get(opener);

	return mirror ? READ_ONCE(mirror->n_chunks) : 0;
}

static struct sim_mirror *sim_mirror_new(struct sim_opener *opener)
{
	struct sim_mirror *mirror = kvzalloc(sizeof(*mirror), SIM_GFP_KV);

	if (!mirror)
		return NULL;
	mirror->dev = opener->dev;
	mirror->account = opener->account;
	mirror->va = &opener->va;
	mirror->mm = current->mm;
	mmgrab(mirror->mm);
	mirror->memcg = get_mem_cgroup_from_mm(mirror->mm);
	mutex_init(&mirror->lock);
	INIT_LIST_HEAD(&mirror->order);
	mirror->chunks = RB_ROOT;
	INIT_LIST_HEAD(&mirror->dead);
	INIT_WORK(&mirror->reap, sim_chunk_reap);
	mirror->learns = true;
	ahead_init(&mirror->ahead, 1, SZ_2M / SZ_64K);
	spin_lock_init(&mirror->uses_lock);
	INIT_WORK(&mirror->learn, sim_learn_work);
	spin_lock_init(&mirror->events_lock);
	return mirror;
}

static void sim_mirror_free(struct sim_mirror *mirror)
{
	mutex_destroy(&mirror->lock);
	kvfree(mirror->hot);
	kvfree(mirror->advice);
	mem_cgroup_put(mirror->memcg);
	mmdrop(mirror->mm);
	kvfree(mirror);
}

/* The opener's mirror from now on is @mirror, unless it has one. */
static bool sim_mirror_publish(struct sim_va *va, struct sim_mirror *mirror)
{
	bool first;

	down_write(&va->lock);
	first = !va->mirror;
	if (first) {
		/* Its members first: sim_mirror_get(). */
		smp_store_release(&va->mirror, mirror);
	}
	up_write(&va->lock);
	return first;
}

int sim_mirror(struct file *file, void *argument)
{
	struct hetsim_mirror *answer = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_mirror *mirror;

	if (!sim_mirror_get(opener)) {
		mirror = sim_mirror_new(opener);
		if (!mirror)
			return -ENOMEM;
		if (sim_mirror_publish(&opener->va, mirror)) {
			sim_account_mirror(opener->account, mirror);
			sim_mirror_shrinks(mirror);
		} else {
			sim_mirror_free(mirror);
		}
	}
	mirror = sim_mirror_of(opener);
	if (IS_ERR(mirror))
		return PTR_ERR(mirror);
	answer->migration = sim_store_form(opener->dev->store);
	answer->migration_bytes = sim_store_bytes(opener->dev->store);
	answer->chunks = SIM_CHUNKS;
	answer->max_chunks = SIM_MAX_CHUNKS;
	return 0;
}

/* No queue and no call uses it any more. */
void sim_mirror_destroy(struct sim_opener *opener)
{
	struct sim_mirror *mirror = opener->va.mirror;
	struct sim_chunk *chunk, *next;

	if (!mirror)
		return;
	sim_mirror_shrinks_no_more(mirror);
	cancel_work_sync(&mirror->learn);
	mutex_lock(&mirror->lock);
	list_for_each_entry_safe(chunk, next, &mirror->order, link) {
		sim_chunk_free(chunk);
		cond_resched();
	}
	mutex_unlock(&mirror->lock);
	/* Neither a notifier nor reclaim starts it any more. */
	cancel_work_sync(&mirror->reap);
	sim_store_return(mirror->dev->store, NULL, mirror->account);
	sim_account_mirror(mirror->account, NULL);
	sim_mirror_tell_end(mirror);
	sim_mirror_free(mirror);
}
