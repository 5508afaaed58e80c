// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Chunks of a mirror: finding the right size, and the kernel's notices that pages go away.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "sim_mirror.h"

/* From the largest on. */
static const unsigned int sim_chunk_orders[] = { SIM_LARGE_ORDER, 4, 0 };

static void sim_chunk_insert(struct sim_mirror *mirror, struct sim_chunk *chunk)
{
	struct rb_node **where = &mirror->chunks.rb_node, *parent = NULL;

	while (*where) {
		parent = *where;
		if (chunk->span.start < rb_entry(parent, struct sim_chunk, node)->span.start)
			where = &parent->rb_left;
		else
			where = &parent->rb_right;
	}
	rb_link_node(&chunk->node, parent, where);
	rb_insert_color(&chunk->node, &mirror->chunks);
}

/* Tells of entries that are gone. */
static void sim_chunk_tell(struct sim_mirror *mirror, enum hetsim_event_kind kind, u64 first,
			   u64 end, u64 value)
{
	struct hetsim_event event = {
		.kind = kind,
		.address = first << PAGE_SHIFT,
		.length = (end - first) << PAGE_SHIFT,
		.value = value,
	};

	sim_mirror_tell(mirror, &event);
}

/*
 * Takes away the entries of the pages from @first up to @end, with va->lock held for writing: from
 * here on no queue uses the pages. A large entry goes as a whole. Returns for how many pages there
 * were entries.
 */
unsigned int sim_chunk_drop(struct sim_chunk *chunk, u64 first, u64 end)
{
	struct sim_mirror *mirror = chunk->mirror;
	unsigned int n = 0, wasted = 0;
	u64 start = chunk->span.start, i;

	lockdep_assert_held_write(&mirror->va->lock);
	if (!chunk->n_entries)
		return 0;
	first = max(first, start);
	end = min(end, sim_span_end(&chunk->span));
	if (sim_chunk_is_large(chunk)) {
		first = start;
		end = sim_span_end(&chunk->span);
		n = chunk->n_entries;
		if (sim_entry_why(chunk->entries[0]) == HETSIM_WHY_PREFETCH)
			wasted = n;
		chunk->entries[0] = 0;
	} else {
		for (i = first - start; i < end - start; i++) {
			n += !!chunk->entries[i];
			wasted += sim_entry_why(chunk->entries[i]) == HETSIM_WHY_PREFETCH;
			chunk->entries[i] = 0;
		}
	}
	chunk->n_entries -= n;
	if (n)
		sim_mirror_count(mirror, SIM_TLB_SHOOTDOWNS, sim_tlb_drop(mirror->va, first, end));
	if (wasted) {
		sim_mirror_count(mirror, SIM_PREFETCH_WASTED, wasted);
		sim_chunk_tell(mirror, HETSIM_EVENT_PREFETCH_WASTED, first, end, wasted);
	}
	return n;
}

/* Is the range of the chunk not what it was, so that another size may be right? */
static bool sim_chunk_ends(const struct mmu_notifier_range *range)
{
	return range->event == MMU_NOTIFY_UNMAP || range->event == MMU_NOTIFY_RELEASE;
}

/* Are they about to move between the system's memory and this device's? */
static bool sim_chunk_moves(const struct sim_mirror *mirror,
			    const struct mmu_notifier_range *range)
{
	return mirror->dev->store && range->event == MMU_NOTIFY_MIGRATE &&
	       range->owner == mirror->dev->store;
}

/*
 * The kernel is about to take pages away, or rights to them. Called under any of its locks, and
 * when it frees memory. When it returns, the device uses none of the pages.
 */
static bool sim_chunk_invalidate(struct mmu_interval_notifier *notifier,
				 const struct mmu_notifier_range *range, unsigned long seq)
{
	struct sim_chunk *chunk = container_of(notifier, struct sim_chunk, notifier);
	struct sim_mirror *mirror = chunk->mirror;
	struct sim_va *va = mirror->va;
	u64 first = range->start >> PAGE_SHIFT;
	u64 end = DIV_ROUND_UP((u64)range->end, PAGE_SIZE);
	bool dies = false, moves = sim_chunk_moves(mirror, range);
	unsigned int n;

	if (mmu_notifier_range_blockable(range))
		down_write(&va->lock);
	else if (!down_write_trylock(&va->lock))
		return false;
	mmu_interval_set_seq(notifier, seq);
	if (sim_chunk_ends(range)) {
		first = 0;
		end = U64_MAX;
		dies = !chunk->dead;
	}
	n = sim_chunk_drop(chunk, first, end);
	if (moves)
		chunk->moves += chunk->moves < U16_MAX;
	if (dies) {
		sim_hot_forget(chunk);
		chunk->dead = true;
		list_add_tail(&chunk->dead_link, &mirror->dead);
	}
	up_write(&va->lock);

	/* Moves have events and counters of their own. */
	if (n && !moves) {
		sim_mirror_count(mirror, SIM_MIRROR_INVALIDATIONS, 1);
		sim_mirror_count(mirror, SIM_MIRROR_PAGES_INVALIDATED, n);
		sim_chunk_tell(mirror, HETSIM_EVENT_INVALIDATE, max(first, chunk->span.start),
			       min(end, sim_span_end(&chunk->span)), 0);
	}
	/* The notifier can't be removed in its own callback. */
	if (dies)
		schedule_work(&mirror->reap);
	return true;
}

static const struct mmu_interval_notifier_ops sim_chunk_ops = {
	.invalidate = sim_chunk_invalidate,
};

/* With mirror->lock held. The chunk's range may be another one's afterwards. */
void sim_chunk_free(struct sim_chunk *chunk)
{
	struct sim_mirror *mirror = chunk->mirror;

	lockdep_assert_held(&mirror->lock);
	down_write(&mirror->va->lock);
	sim_chunk_drop(chunk, 0, U64_MAX);
	rb_erase(&chunk->node, &mirror->chunks);
	/* From here on a notice changes nothing. */
	if (chunk->dead)
		list_del(&chunk->dead_link);
	chunk->dead = true;
	INIT_LIST_HEAD(&chunk->dead_link);
	up_write(&mirror->va->lock);

	list_del(&chunk->link);
	WRITE_ONCE(mirror->n_chunks, mirror->n_chunks - 1);
	/* Waits for notices that are under way. */
	mmu_interval_notifier_remove(&chunk->notifier);
	kvfree(chunk);
}

/* The next one that is to be freed, NULL if none is. */
static struct sim_chunk *sim_chunk_dead(struct sim_mirror *mirror)
{
	struct sim_chunk *chunk;

	down_read(&mirror->va->lock);
	chunk = list_first_entry_or_null(&mirror->dead, struct sim_chunk, dead_link);
	up_read(&mirror->va->lock);
	return chunk;
}

static void sim_chunks_reap(struct sim_mirror *mirror)
{
	struct sim_chunk *chunk;

	while ((chunk = sim_chunk_dead(mirror))) {
		sim_chunk_free(chunk);
		cond_resched();
	}
}

/* Makes room: the oldest goes. */
static void sim_chunk_evict(struct sim_mirror *mirror)
{
	struct sim_chunk *chunk = list_first_entry(&mirror->order, struct sim_chunk, link);
	struct sim_span span = chunk->span;

	sim_chunk_free(chunk);
	sim_mirror_count(mirror, SIM_MIRROR_EVICTIONS, 1);
	sim_chunk_tell(mirror, HETSIM_EVENT_EVICT, span.start, sim_span_end(&span), 0);
}

/* Frees as many chunks as reclaim has asked for. */
static void sim_chunks_shed(struct sim_mirror *mirror)
{
	while (atomic_dec_if_positive(&mirror->n_asked) >= 0) {
		if (list_empty(&mirror->order))
			atomic_set(&mirror->n_asked, 0);
		else
			sim_chunk_evict(mirror);
		cond_resched();
	}
}

void sim_chunk_reap(struct work_struct *work)
{
	struct sim_mirror *mirror = container_of(work, struct sim_mirror, reap);

	mutex_lock(&mirror->lock);
	sim_chunks_reap(mirror);
	sim_chunks_shed(mirror);
	mutex_unlock(&mirror->lock);
}

/*
 * The pages around @page that one chunk may have: of one map, that the engine may use, with one
 * advice about all of them, and in no chunk. HETSIM_REASON_NONE if there are any.
 */
static enum hetsim_fault_reason sim_chunk_bounds(struct sim_mirror *mirror, u64 page, u64 *start,
						 u64 *end)
{
	struct vm_area_struct *vma;
	enum hetsim_fault_reason reason;

	mmap_read_lock(mirror->mm);
	vma = find_vma(mirror->mm, page << PAGE_SHIFT);
	reason = sim_map_reason(vma, page, false);
	if (reason == HETSIM_REASON_NONE) {
		*start = max(*start, (u64)vma->vm_start >> PAGE_SHIFT);
		*end = min(*end, (u64)vma->vm_end >> PAGE_SHIFT);
	}
	mmap_read_unlock(mirror->mm);
	return reason;
}

/* The largest chunk of up to @most pages within these bounds that overlaps no other. */
static struct sim_span sim_chunk_choose(struct sim_mirror *mirror, u64 page, u64 start, u64 end,
					u64 most)
{
	struct sim_span span = { .start = page, .n_pages = 1 };
	struct sim_chunk *other;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sim_chunk_orders); i++) {
		u64 n = BIT(sim_chunk_orders[i]);
		u64 first = ALIGN_DOWN(page, n);

		if (n > most || first < start || first + n > end)
			continue;
		other = sim_chunk_after(mirror, first);
		if (other && other->span.start < first + n)
			continue;
		span.start = first;
		span.n_pages = n;
		break;
	}
	return span;
}

static struct sim_chunk *sim_chunk_new(struct sim_mirror *mirror, struct sim_span span,
				       u16 counter, bool hot)
{
	struct mem_cgroup *old = set_active_memcg(mirror->memcg);
	struct sim_chunk *chunk;
	int r;

	chunk = kvzalloc(struct_size(chunk, entries, span.n_pages), SIM_GFP_KV);
	set_active_memcg(old);
	if (!chunk)
		return ERR_PTR(-ENOMEM);
	chunk->mirror = mirror;
	chunk->span = span;
	chunk->counter = counter;
	chunk->hot = hot;
	INIT_LIST_HEAD(&chunk->dead_link);
	r = mmu_interval_notifier_insert(&chunk->notifier, mirror->mm, span.start << PAGE_SHIFT,
					 span.n_pages << PAGE_SHIFT, &sim_chunk_ops);
	if (r) {
		kvfree(chunk);
		return ERR_PTR(r);
	}
	down_write(&mirror->va->lock);
	sim_chunk_insert(mirror, chunk);
	up_write(&mirror->va->lock);
	list_add_tail(&chunk->link, &mirror->order);
	WRITE_ONCE(mirror->n_chunks, mirror->n_chunks + 1);
	return chunk;
}

/*
 * The chunk of a page, of up to @most pages, which may be a new one; with mirror->lock held, and
 * the process kept from ending. -EFAULT: the engine can't use the page, for *@reason; -ENOMEM.
 */
int sim_chunk_get(struct sim_mirror *mirror, u64 page, u64 most, struct sim_chunk **ret_chunk,
		  enum hetsim_fault_reason *reason)
{
	struct sim_advice advice = sim_advice_find(mirror->advice, mirror->n_advice, page);
	/* Where pages move anyway, or stay, uses need not be counted. */
	bool counts = mirror->dev->store && advice.location == HETSIM_LOCATION_NONE;
	bool hot = counts && !advice.counter && advice.flags & SIM_ADVICE_CACHE && mirror->hot;
	u64 start = advice.start, end = advice.end;
	struct sim_chunk *chunk;

	lockdep_assert_held(&mirror->lock);
	if (advice.flags & SIM_ADVICE_NO_ACCESS) {
		*reason = HETSIM_REASON_NO_ACCESS;
		return -EFAULT;
	}
	if (page >= mirror->mm->task_size >> PAGE_SHIFT) {
		*reason = HETSIM_REASON_UNMAPPED;
		return -EFAULT;
	}
	sim_chunks_reap(mirror);
	if (advice.granule)
		most = min(most, advice.granule >> PAGE_SHIFT);
	chunk = sim_chunk_after(mirror, page);
	if (chunk && chunk->span.start <= page && chunk->span.n_pages > most) {
		sim_chunk_free(chunk);
		chunk = NULL;
	}
	if (!chunk || chunk->span.start > page) {
		*reason = sim_chunk_bounds(mirror, page, &start, &end);
		if (*reason != HETSIM_REASON_NONE)
			return -EFAULT;
		if (mirror->n_chunks >= SIM_MAX_CHUNKS)
			sim_chunk_evict(mirror);
		chunk = sim_chunk_new(mirror, sim_chunk_choose(mirror, page, start, end, most),
				      counts ? advice.counter : 0, hot);
		if (IS_ERR(chunk))
			return PTR_ERR(chunk);
	}
	*ret_chunk = chunk;
	return 0;
}
