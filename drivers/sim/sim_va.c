// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The device's page table: binding buffers into it, and translating through it
 * for the engine.
 */
#include <linux/slab.h>

#include "sim_queue.h"

#define SIM_TABLE_BYTES (SIM_LEVEL_ENTRIES * sizeof(u64))

int sim_va_init(struct sim_va *va)
{
	va->root = kzalloc(SIM_TABLE_BYTES, SIM_GFP);
	if (!va->root)
		return -ENOMEM;
	mutex_init(&va->change);
	init_rwsem(&va->lock);
	init_waitqueue_head(&va->changed);
	va->bindings = RB_ROOT;
	INIT_LIST_HEAD(&va->tlbs);
	va->generation = 1;
	return 0;
}

static u64 *sim_table_of(u64 entry)
{
	return (u64 *)(unsigned long)entry;
}

/* The entry of a page, NULL if the table that would have it is not there. */
static u64 *sim_entry_find(struct sim_va *va, u64 page)
{
	u64 *table = va->root;
	unsigned int level;

	for (level = SIM_LEVELS - 1; level; level--) {
		/* The table's zeros were written first: sim_tables_make(). */
		table = sim_table_of(smp_load_acquire(&table[sim_level_index(page, level)]));
		if (!table)
			return NULL;
	}
	return &table[sim_level_index(page, 0)];
}

/*
 * Makes the tables for a range. A new one is empty, so the engine may come
 * across it at any time. With va->change held.
 */
static int sim_tables_make(struct sim_va *va, const struct sim_span *span)
{
	u64 page = span->start;

	while (page < sim_span_end(span)) {
		u64 *table = va->root;
		unsigned int level;

		for (level = SIM_LEVELS - 1; level; level--) {
			u64 *slot = &table[sim_level_index(page, level)];

			if (!*slot) {
				if (va->n_tables == SIM_MAX_TABLES)
					return -ENOSPC;
				table = kzalloc(SIM_TABLE_BYTES, SIM_GFP);
				if (!table)
					return -ENOMEM;
				/* Its zeros first: sim_entry_find(). */
				smp_store_release(slot, (unsigned long)table);
				va->n_tables++;
			}
			table = sim_table_of(*slot);
		}
		page = ALIGN_DOWN(page, SIM_LEVEL_ENTRIES) + SIM_LEVEL_ENTRIES;
		cond_resched();
	}
	return 0;
}

/*
 * Frees the tables below @table that cover nothing, with va->change and va->lock held.
 * Returns how many tables that are.
 */
static unsigned int sim_tables_free(u64 *table, unsigned int level, u64 start, u64 end)
{
	unsigned int n = 0;
	u64 span = 1ull << level * SIM_LEVEL_BITS; /* pages of an entry */
	u64 page = start;

	while (page < end) {
		u64 next = min(ALIGN_DOWN(page, span) + span, end);
		u64 *slot = &table[sim_level_index(page, level)];
		u64 *below = sim_table_of(*slot);

		if (below) {
			if (level > 1)
				n += sim_tables_free(below, level - 1, page, next);
			if (!memchr_inv(below, 0, SIM_TABLE_BYTES)) {
				*slot = 0;
				kfree(below);
				n++;
			}
			cond_resched();
		}
		page = next;
	}
	return n;
}

static void sim_tables_prune(struct sim_va *va, const struct sim_span *span)
{
	va->n_tables -= sim_tables_free(va->root, SIM_LEVELS - 1, span->start,
					sim_span_end(span));
}

enum sim_entries {
	SIM_ENTRIES_NONE,
	SIM_ENTRIES_MOVING,
	SIM_ENTRIES_PAGES, /* as the buffer has them now */
};

/* Writes the entries of a part of a binding. With buffer->lock and va->lock held. */
static void sim_entries_write(struct sim_binding *binding, u64 first, u64 n_pages,
			      enum sim_entries how)
{
	struct sim_buffer *buffer = binding->buffer;
	u64 flags = SIM_ENTRY_BOUND | SIM_ENTRY_PRESENT |
		    (binding->write ? SIM_ENTRY_WRITE : 0) |
		    (buffer->import ? SIM_ENTRY_FOREIGN : 0);
	u64 *entry = NULL, i;

	lockdep_assert_held_write(&binding->va->lock);
	for (i = first; i < first + n_pages; i++) {
		u64 page = binding->span.start + i;

		if (!entry || !sim_level_index(page, 0)) {
			cond_resched();
			entry = sim_entry_find(binding->va, page);
		} else {
			entry++;
		}
		if (how == SIM_ENTRIES_MOVING)
			*entry = SIM_ENTRY_MOVING;
		else if (how == SIM_ENTRIES_PAGES && binding->first + i < buffer->n_pages)
			*entry = (u64)page_to_pfn(buffer->pages[binding->first + i])
					 << SIM_ENTRY_SHIFT | flags;
		else
			*entry = how == SIM_ENTRIES_NONE ? 0 : SIM_ENTRY_BOUND;
	}
	/* Queues that wait for it look without the lock. */
	WRITE_ONCE(binding->va->generation, binding->va->generation + 1);
}

/*
 * The pages of a range of the buffer are new ones now, or @moving: are about to be,
 * and until then nothing is there. With buffer->lock held.
 */
void sim_va_rebind(struct sim_buffer *buffer, u64 first, u64 n_pages, bool moving)
{
	struct sim_span changed = { first, n_pages };
	struct sim_binding *binding;

	lockdep_assert_held_write(&buffer->lock);
	list_for_each_entry(binding, &buffer->bindings, link) {
		struct sim_span there = { binding->first, binding->span.n_pages };
		struct sim_span part = sim_span_common(changed, there);

		if (!part.n_pages)
			continue;
		down_write(&binding->va->lock);
		sim_entries_write(binding, part.start - binding->first, part.n_pages,
				  moving ? SIM_ENTRIES_MOVING : SIM_ENTRIES_PAGES);
		up_write(&binding->va->lock);
		if (!moving) /* else there is nothing to find yet */
			wake_up_all(&binding->va->changed);
		cond_resched();
	}
}

/*
 * Counts a use of a page even when a TLB had it: the most used pages are seldom walked for.
 * Neighbours are of one buffer most of the time: to note each eighth is enough.
 */
static void sim_entry_used(u64 page, u64 entry, unsigned int i)
{
	if ((!i || !(page % 8)) && !(entry & (SIM_ENTRY_FOREIGN | SIM_ENTRY_MIRROR)))
		sim_buffer_used(sim_page_buffer(pfn_to_page(entry >> SIM_ENTRY_SHIFT)));
}

/*
 * The pages behind an address and following it: how many of @n there are, with
 * va->lock held, which the caller keeps as long as it uses them. -ENOENT if nothing is
 * bound at the first, and the mirror does not have it; -EFAULT if it has no page, or not
 * to write to; -EAGAIN if it is on its way to another place.
 */
int sim_va_translate(struct sim_va *va, struct sim_tlb *tlb, u64 address, bool write,
		     struct page **pages, unsigned int n)
{
	u64 wanted = SIM_ENTRY_PRESENT | (write ? SIM_ENTRY_WRITE : 0);
	u64 page = address >> PAGE_SHIFT, entry = 0, *found = NULL;
	unsigned int i;

	if (tlb->generation != va->generation) {
		sim_tlb_clear(tlb);
		tlb->generation = va->generation;
	}
	for (i = 0; i < n; i++, page++) {
		/* A walk serves those that follow in its table. */
		found = found && sim_level_index(page, 0) ? found + 1 : NULL;
		entry = sim_tlb_find(tlb, page, wanted);
		if (entry) {
			tlb->hits++;
		} else {
			tlb->misses++;
			if (!found && page < SIM_VA_PAGES)
				found = sim_entry_find(va, page);
			entry = found ? *found : 0;
			if (!entry && tlb->mirrors)
				entry = sim_mirror_entry(va->mirror, page);
			if ((entry & wanted) != wanted)
				break;
			entry = sim_tlb_put(tlb, page, entry);
		}
		sim_entry_used(page, entry, i);
		pages[i] = pfn_to_page(entry >> SIM_ENTRY_SHIFT);
	}
	if (i)
		return i;
	if (!entry || entry & SIM_ENTRY_MIRROR)
		return -ENOENT;
	return entry & SIM_ENTRY_MOVING ? -EAGAIN : -EFAULT;
}

/* The first binding that ends behind @page. */
static struct sim_binding *sim_binding_find(struct sim_va *va, u64 page)
{
	struct rb_node *node = va->bindings.rb_node;
	struct sim_binding *best = NULL;

	while (node) {
		struct sim_binding *binding = rb_entry(node, struct sim_binding, node);

		if (page < sim_span_end(&binding->span)) {
			best = binding;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return best;
}

static struct sim_binding *sim_binding_next(struct sim_binding *binding)
{
	return rb_entry_safe(rb_next(&binding->node), struct sim_binding, node);
}

static void sim_binding_insert(struct sim_va *va, struct sim_binding *binding)
{
	struct rb_node **where = &va->bindings.rb_node, *parent = NULL;

	while (*where) {
		parent = *where;
		if (binding->span.start < rb_entry(parent, struct sim_binding, node)->span.start)
			where = &parent->rb_left;
		else
			where = &parent->rb_right;
	}
	rb_link_node(&binding->node, parent, where);
	rb_insert_color(&binding->node, &va->bindings);
	va->n_bindings++;
}

/* With va->change held. When it returns, the engine is at none of the pages. */
static void sim_binding_remove(struct sim_binding *binding)
{
	struct sim_va *va = binding->va;
	struct sim_buffer *buffer = binding->buffer;

	down_write(&buffer->lock);
	list_del(&binding->link);
	buffer->n_bindings[binding->by_maker]--;
	down_write(&va->lock);
	sim_entries_write(binding, 0, binding->span.n_pages, SIM_ENTRIES_NONE);
	sim_tables_prune(va, &binding->span);
	up_write(&va->lock);
	up_write(&buffer->lock);

	rb_erase(&binding->node, &va->bindings);
	va->n_bindings--;
	sim_buffer_put(buffer);
	kfree(binding);
}

/* Nothing uses it any more: no call is under way, no thread runs. */
void sim_va_destroy(struct sim_va *va)
{
	struct rb_node *node;

	mutex_lock(&va->change);
	while ((node = rb_first(&va->bindings))) {
		sim_binding_remove(rb_entry(node, struct sim_binding, node));
		cond_resched();
	}
	mutex_unlock(&va->change);
	mutex_destroy(&va->change);
	kfree(va->root);
}

/* Counts a new binding in its buffer, if that has room for it. */
static int sim_binding_count(struct sim_binding *binding)
{
	struct sim_buffer *buffer = binding->buffer;
	unsigned int *n = &buffer->n_bindings[binding->by_maker];
	int r;

	down_write(&buffer->lock);
	r = sim_span_check_buffer(&binding->span, binding->first, buffer->n_pages, *n);
	if (!r)
		++*n;
	up_write(&buffer->lock);
	return r;
}

/* With va->change held; takes over the reference on the buffer on success. */
static int sim_bind_locked(struct sim_va *va, struct sim_binding *binding)
{
	struct sim_buffer *buffer = binding->buffer;
	struct sim_binding *next = sim_binding_find(va, binding->span.start);
	int r;

	r = sim_span_check_free(&binding->span, next ? &next->span : NULL, va->n_bindings);
	if (r)
		return r;
	r = sim_binding_count(binding);
	if (r)
		return r;
	r = sim_tables_make(va, &binding->span);
	if (r)
		goto err_prune;

	down_write(&buffer->lock);
	list_add_tail(&binding->link, &buffer->bindings);
	down_write(&va->lock);
	sim_entries_write(binding, 0, binding->span.n_pages, SIM_ENTRIES_PAGES);
	up_write(&va->lock);
	up_write(&buffer->lock);
	wake_up_all(&va->changed);
	sim_binding_insert(va, binding);
	return 0;

err_prune:
	down_write(&va->lock);
	sim_tables_prune(va, &binding->span);
	up_write(&va->lock);
	down_write(&buffer->lock);
	buffer->n_bindings[binding->by_maker]--;
	up_write(&buffer->lock);
	return r;
}

static void sim_binding_free(struct sim_binding *binding)
{
	sim_buffer_put(binding->buffer);
	kfree(binding);
}

/* A binding that is not made yet. */
static struct sim_binding *sim_binding_new(struct sim_opener *opener,
					   const struct hetsim_bind *bind)
{
	struct sim_binding *binding = kzalloc(sizeof(*binding), SIM_GFP);

	if (!binding)
		return ERR_PTR(-ENOMEM);
	binding->va = &opener->va;
	binding->span = sim_span_of(bind->address, bind->length);
	binding->first = bind->offset >> PAGE_SHIFT;
	binding->write = bind->flags & HETSIM_BIND_WRITE;
	binding->buffer = sim_buffer_get(opener, bind->handle);
	if (!binding->buffer) {
		kfree(binding);
		return ERR_PTR(-ENOENT);
	}
	binding->by_maker = binding->buffer->account == opener->account;
	return binding;
}

/* Takes over the binding on success. */
static int sim_bind_now(struct sim_binding *binding)
{
	struct sim_va *va = binding->va;
	int r;

	if (mutex_lock_interruptible(&va->change))
		return -EINTR;
	r = sim_bind_locked(va, binding);
	mutex_unlock(&va->change);
	return r;
}

static int sim_bind_work(struct sim_queue *queue, struct sim_job *job,
			 struct sim_fault *ret_fault)
{
	int r = sim_bind_now(job->binding);

	if (!r)
		job->binding = NULL;
	return r;
}

static void sim_bind_drop(struct sim_job *job)
{
	if (job->binding)
		sim_binding_free(job->binding);
}

/* Takes over the binding. */
static int sim_bind_later(struct sim_opener *opener, struct hetsim_bind *bind,
			  struct sim_binding *binding)
{
	const struct sim_later later = SIM_LATER(bind);
	struct sim_job *job = sim_job_new(0);

	if (!job) {
		sim_binding_free(binding);
		return -ENOMEM;
	}
	job->work = sim_bind_work;
	job->drop = sim_bind_drop;
	job->binding = binding;
	return sim_job_later(opener, bind, &later, job, &bind->seqno);
}

int sim_bind(struct file *file, void *argument)
{
	struct hetsim_bind *bind = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_binding *binding = sim_binding_new(opener, bind);
	int r;

	if (IS_ERR(binding))
		return PTR_ERR(binding);
	if (bind->queue)
		return sim_bind_later(opener, bind, binding);
	bind->seqno = 0;
	r = sim_bind_now(binding);
	if (r)
		sim_binding_free(binding);
	return r;
}

static int sim_unbind_now(struct sim_va *va, struct sim_span span)
{
	u64 end = sim_span_end(&span);
	struct sim_binding *first, *binding, *next;
	int r = 0;

	if (mutex_lock_interruptible(&va->change))
		return -EINTR;

	first = sim_binding_find(va, span.start);
	if (!first || first->span.start >= end) {
		r = -ENOENT;
		goto out;
	}
	for (binding = first; binding && binding->span.start < end;
	     binding = sim_binding_next(binding)) {
		if (sim_span_cuts(&span, &binding->span)) {
			r = -ERANGE;
			goto out;
		}
	}
	for (binding = first; binding && binding->span.start < end; binding = next) {
		next = sim_binding_next(binding);
		sim_binding_remove(binding);
		cond_resched();
	}
out:
	mutex_unlock(&va->change);
	return r;
}

static int sim_unbind_work(struct sim_queue *queue, struct sim_job *job,
			   struct sim_fault *ret_fault)
{
	return sim_unbind_now(&queue->opener->va, job->unbind);
}

int sim_unbind(struct file *file, void *argument)
{
	struct hetsim_unbind *unbind = argument;
	const struct sim_later later = SIM_LATER(unbind);
	struct sim_opener *opener = file->private_data;
	struct sim_span span = sim_span_of(unbind->address, unbind->length);
	struct sim_job *job;

	if (!unbind->queue) {
		unbind->seqno = 0;
		return sim_unbind_now(&opener->va, span);
	}
	job = sim_job_new(0);
	if (!job)
		return -ENOMEM;
	job->work = sim_unbind_work;
	job->unbind = span;
	return sim_job_later(opener, unbind, &later, job, &unbind->seqno);
}
