// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Advice about ranges of the process. Chunks in the range go, since others may be right now.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "sim_mirror.h"

/* With mirror->lock held. When it returns, no queue uses pages of the range. */
static void sim_mirror_forget(struct sim_mirror *mirror, const struct sim_span *span)
{
	struct sim_chunk *chunk;

	while ((chunk = sim_chunk_after(mirror, span->start))) {
		if (chunk->span.start >= sim_span_end(span))
			break;
		sim_chunk_free(chunk);
		cond_resched();
	}
}

/* Replaces the list, or leaves it as it was. With mirror->lock held. */
static int sim_advice_change(struct sim_mirror *mirror, const struct hetsim_advise *advise,
			     struct sim_span span)
{
	unsigned int room = min(2 * mirror->n_advice + 2, SIM_MAX_ADVICE);
	struct mem_cgroup *old = set_active_memcg(mirror->memcg);
	struct sim_advice *fresh = kvmalloc_array(room, sizeof(*fresh), SIM_GFP_KV);
	int n;

	set_active_memcg(old);
	if (!fresh)
		return -ENOMEM;
	n = sim_advice_set(mirror->advice, mirror->n_advice, span, advise->advice, advise->value,
			   fresh, room);
	if (n < 0) {
		kvfree(fresh);
		return n;
	}
	kvfree(mirror->advice);
	mirror->advice = fresh;
	mirror->n_advice = n;
	return 0;
}

/* The first page from @page on that the process has mapped. */
static u64 sim_mapped_after(struct sim_mirror *mirror, u64 page)
{
	struct vm_area_struct *vma;

	mmap_read_lock(mirror->mm);
	vma = find_vma(mirror->mm, page << PAGE_SHIFT);
	page = vma ? max(page, (u64)vma->vm_start >> PAGE_SHIFT) : U64_MAX;
	mmap_read_unlock(mirror->mm);
	return page;
}

/*
 * Gives the device entries for what is there, as far as there is room for chunks, and until a
 * signal comes: what is missing then comes by faults. With mirror->lock held.
 */
static void sim_advice_apply(struct sim_mirror *mirror, struct sim_span span)
{
	enum hetsim_fault_reason reason;
	u64 page = span.start, end = sim_span_end(&span);
	int r;

	while (mirror->n_chunks < SIM_MAX_CHUNKS) {
		struct sim_want want = {
			.n_pages = 1,
			.snapshot = true,
			.why = HETSIM_WHY_ADVICE,
		};

		page = sim_mapped_after(mirror, page);
		if (page >= end)
			break;
		want.page = page;
		want.n_pages = end - page;
		r = sim_mirror_bring(mirror, &want, &reason);
		if (r && r != -EFAULT)
			break;
		page = r ? page + 1 : want.page + want.n_pages;
	}
}

int sim_advise(struct file *file, void *argument)
{
	const struct hetsim_advise *advise = argument;
	struct sim_mirror *mirror = sim_mirror_of(file->private_data);
	struct sim_span span = sim_span_of(advise->address, advise->length);
	int r = 0;

	if (IS_ERR(mirror))
		return PTR_ERR(mirror);
	if (mutex_lock_interruptible(&mirror->lock))
		return -EINTR;
	/* The limit stays when the advice has no room for one more range. */
	if (advise->advice == HETSIM_ADVISE_CACHE && advise->value)
		r = sim_hot_set(mirror, advise->value);
	if (!r)
		r = sim_advice_change(mirror, advise, span);
	if (!r) {
		sim_mirror_forget(mirror, &span);
		if (advise->advice == HETSIM_ADVISE_ACCESSED_BY && advise->value)
			sim_advice_apply(mirror, span);
	}
	mutex_unlock(&mirror->lock);
	return r;
}
