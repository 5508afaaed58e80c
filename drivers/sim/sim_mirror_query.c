// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * RANGE_QUERY: the device's entries for pages of the process.
 */
#include <linux/log2.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "sim_mirror.h"

#define SIM_QUERY_BATCH 64u /* pages, between looks at the memory of the caller */

/* With va->lock held. */
static struct hetsim_page sim_page_state(struct sim_mirror *mirror, u64 page)
{
	struct sim_chunk *chunk = sim_chunk_after(mirror, page);
	struct hetsim_page state = {};
	bool large;
	u64 entry;

	if (!chunk || chunk->span.start > page)
		return state;
	state.chunk_order = ilog2(chunk->span.n_pages);
	state.moves = chunk->moves;
	large = sim_chunk_is_large(chunk);
	entry = chunk->entries[large ? 0 : page - chunk->span.start];
	if (!entry)
		return state;
	state.rights = HETSIM_PAGE_READ | (entry & SIM_ENTRY_WRITE ? HETSIM_PAGE_WRITE : 0);
	state.location = entry & SIM_ENTRY_DEVICE ? HETSIM_LOCATION_DEVICE : HETSIM_LOCATION_HOST;
	state.why = sim_entry_why(entry);
	state.order = large ? SIM_LARGE_ORDER : 0;
	return state;
}

int sim_range_query(struct file *file, void *argument)
{
	const struct hetsim_range_query *query = argument;
	struct sim_mirror *mirror = sim_mirror_of(file->private_data);
	struct sim_span span = sim_span_of(query->address, query->length);
	struct hetsim_page __user *to = u64_to_user_ptr(query->pages);
	struct hetsim_page batch[SIM_QUERY_BATCH];
	u64 page = span.start;
	unsigned int n, i;

	if (IS_ERR(mirror))
		return PTR_ERR(mirror);
	for (; page < sim_span_end(&span); page += n, to += n) {
		n = min_t(u64, SIM_QUERY_BATCH, sim_span_end(&span) - page);
		down_read(&mirror->va->lock);
		for (i = 0; i < n; i++)
			batch[i] = sim_page_state(mirror, page + i);
		up_read(&mirror->va->lock);
		if (copy_to_user(to, batch, n * sizeof(batch[0])))
			return -EFAULT;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}
