// SPDX-License-Identifier: MIT
/*
 * The twin's page table: binding buffers into it, and translating through it for
 * the engine.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "soft/engine.h"
#include "base/thread.h"

int soft_va_init(struct soft_va *va)
{
	pthread_rwlockattr_t attr;

	va->root = sys_calloc(SIM_LEVEL_ENTRIES, sizeof(*va->root));
	if (!va->root)
		return -ENOMEM;
	pthread_mutex_init(&va->change, NULL);
	CDS_INIT_LIST_HEAD(&va->bindings);
	va->n_bindings = 0;
	va->n_tables = 0;
	/* Prefers writers: engines that read in turn must not keep a change out for ever. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&va->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	atomic_init(&va->generation, 1);
	pthread_mutex_init(&va->changed_lock, NULL);
	thread_condition_init(&va->changed);
	return 0;
}

/* The entry of a page; NULL: its table is not there. */
static struct soft_entry *entry_find(struct soft_va *va, uint64_t page)
{
	void **table = va->root;
	unsigned int level;

	for (level = SIM_LEVELS - 1; level && table; level--)
		table = table[sim_level_index(page, level)];
	return table ? (struct soft_entry *)table + sim_level_index(page, 0) : NULL;
}

/* ---- va->lock held for writing ---- */

/*
 * Makes the tables for a range. Their number is the module's, but the lowest level is twice as
 * large here. -ENOSPC, -ENOMEM: some of them are made.
 */
static int tables_make(struct soft_va *va, const struct sim_span *span)
{
	uint64_t page;

	for (page = span->start; page < sim_span_end(span);
	     page = round_down(page, SIM_LEVEL_ENTRIES) + SIM_LEVEL_ENTRIES) {
		void **table = va->root;
		unsigned int level;

		for (level = SIM_LEVELS - 1; level; level--) {
			void **slot = &table[sim_level_index(page, level)];

			if (!*slot) {
				if (va->n_tables == SIM_MAX_TABLES)
					return -ENOSPC;
				*slot = sys_calloc(SIM_LEVEL_ENTRIES,
						   level == 1 ? sizeof(struct soft_entry) :
								sizeof(void *));
				if (!*slot)
					return -ENOMEM;
				va->n_tables++;
			}
			table = *slot;
		}
	}
	return 0;
}

static bool table_is_empty(void *table, unsigned int level)
{
	const struct soft_entry *entry = table;
	void *const *slot = table;
	uint32_t i;

	for (i = 0; i < SIM_LEVEL_ENTRIES; i++)
		if (level ? !!slot[i] : !!entry[i].binding)
			return false;
	return true;
}

/* Frees the tables below @table that cover nothing. Returns their number. */
static uint32_t tables_free(void **table, unsigned int level, uint64_t start, uint64_t end)
{
	uint32_t n = 0;
	uint64_t span = 1ull << (level * SIM_LEVEL_BITS); /* pages of an entry */
	uint64_t page, next;

	for (page = start; page < end; page = next) {
		void **slot = &table[sim_level_index(page, level)];

		next = min_u64(round_down(page, span) + span, end);
		if (!*slot)
			continue;
		if (level > 1)
			n += tables_free(*slot, level - 1, page, next);
		if (table_is_empty(*slot, level - 1)) {
			free(*slot);
			*slot = NULL;
			n++;
		}
	}
	return n;
}

static void tables_prune(struct soft_va *va, const struct sim_span *span)
{
	va->n_tables -= tables_free(va->root, SIM_LEVELS - 1, span->start, sim_span_end(span));
}

/*
 * Writes the entries of a part of a binding: the buffer's pages if @bound, as far as it has
 * them. The caller holds buffer->lock for writing, too.
 */
static void entries_write(struct soft_binding *binding, uint64_t first, uint64_t n_pages,
			  bool bound)
{
	struct soft_buffer *buffer = binding->buffer;
	struct soft_entry *entry = NULL;
	uint64_t n = bound && !buffer->dev->gone ? buffer->n_pages : 0;
	uint64_t i;

	for (i = first; i < first + n_pages; i++) {
		uint64_t page = binding->span.start + i;

		if (!entry || !sim_level_index(page, 0))
			entry = entry_find(binding->va, page);
		else
			entry++;
		entry->binding = bound ? binding : NULL; /* also where it has no page */
		entry->page = NULL;
		if (binding->first + i < n)
			entry->page = buffer->bytes + ((binding->first + i) << SIM_PAGE_SHIFT);
	}
	atomic_fetch_add(&binding->va->generation, 1);
}

/* ---- */

/* Makes waiters for a page look again. */
static void changed(struct soft_va *va)
{
	pthread_mutex_lock(&va->changed_lock);
	pthread_cond_broadcast(&va->changed);
	pthread_mutex_unlock(&va->changed_lock);
}

void soft_va_rebind(struct soft_buffer *buffer, uint64_t first, uint64_t n_pages)
{
	struct sim_span moved = { first, n_pages };
	struct soft_binding *binding;

	cds_list_for_each_entry(binding, &buffer->bindings, buffer_link) {
		struct sim_span there = { binding->first, binding->span.n_pages };
		struct sim_span part = sim_span_common(moved, there);

		if (!part.n_pages)
			continue;
		pthread_rwlock_wrlock(&binding->va->lock);
		entries_write(binding, part.start - binding->first, part.n_pages, true);
		pthread_rwlock_unlock(&binding->va->lock);
		changed(binding->va);
	}
}

int soft_va_translate(struct soft_va *va, struct soft_tlb *tlb, uint64_t address, bool write,
		      char **ret_page)
{
	uint64_t page = address >> SIM_PAGE_SHIFT;
	uint64_t generation = atomic_load_explicit(&va->generation, memory_order_relaxed);
	struct soft_entry entry = { 0 }, *found;
	uint32_t slot = page % SIM_TLB_ENTRIES;

	if (tlb->generation != generation) {
		memset(tlb->slot, 0, sizeof(tlb->slot));
		tlb->generation = generation;
	}
	if (tlb->slot[slot].page == page)
		entry = tlb->slot[slot].entry;
	if (entry.page && (!write || entry.binding->write)) {
		tlb->hits++;
	} else {
		tlb->misses++;
		found = page < SIM_VA_PAGES ? entry_find(va, page) : NULL;
		if (!found || !found->page)
			return -ENOENT;
		if (write && !found->binding->write)
			return -EFAULT;
		entry = *found;
		tlb->slot[slot].page = page;
		tlb->slot[slot].entry = entry;
	}
	/* Also for a page in the TLB: the pages used most are seldom walked for. */
	soft_buffer_used(entry.binding->buffer);
	*ret_page = entry.page;
	return 0;
}

/* ---- with va->change held ---- */

/* The first binding that ends behind @page; NULL: none. */
static struct soft_binding *binding_find(struct soft_va *va, uint64_t page)
{
	struct soft_binding *binding;

	cds_list_for_each_entry(binding, &va->bindings, link)
		if (page < sim_span_end(&binding->span))
			return binding;
	return NULL;
}

static struct soft_binding *binding_next(struct soft_va *va, struct soft_binding *binding)
{
	if (binding->link.next == &va->bindings)
		return NULL;
	return cds_list_entry(binding->link.next, struct soft_binding, link);
}

/* Moves the binding to @removed. When it returns, the engine uses none of the pages. */
static void binding_remove(struct soft_binding *binding, struct cds_list_head *removed)
{
	struct soft_va *va = binding->va;
	struct soft_buffer *buffer = binding->buffer;

	pthread_rwlock_wrlock(&buffer->lock);
	cds_list_del(&binding->buffer_link);
	buffer->n_bindings[binding->by_maker]--;
	pthread_rwlock_wrlock(&va->lock);
	entries_write(binding, 0, binding->span.n_pages, false);
	tables_prune(va, &binding->span);
	pthread_rwlock_unlock(&va->lock);
	pthread_rwlock_unlock(&buffer->lock);

	cds_list_move(&binding->link, removed);
	va->n_bindings--;
}

/* Without va->change: the last reference to a buffer takes locks outside of it. */
static void bindings_free(struct cds_list_head *removed)
{
	struct soft_binding *binding, *next;

	cds_list_for_each_entry_safe(binding, next, removed, link) {
		soft_buffer_put(binding->buffer);
		free(binding);
	}
}

void soft_va_destroy(struct soft_va *va)
{
	struct soft_binding *binding, *next;
	CDS_LIST_HEAD(removed);

	pthread_mutex_lock(&va->change);
	cds_list_for_each_entry_safe(binding, next, &va->bindings, link)
		binding_remove(binding, &removed);
	pthread_mutex_unlock(&va->change);
	bindings_free(&removed);
	pthread_cond_destroy(&va->changed);
	pthread_mutex_destroy(&va->changed_lock);
	pthread_rwlock_destroy(&va->lock);
	pthread_mutex_destroy(&va->change);
	free(va->root);
}

/* Takes over the reference to the buffer on success. */
static int bind_locked(struct soft_va *va, struct soft_binding *binding)
{
	struct soft_buffer *buffer = binding->buffer;
	struct soft_binding *next = binding_find(va, binding->span.start);
	int r;

	r = sim_span_check_free(&binding->span, next ? &next->span : NULL, va->n_bindings);
	if (r)
		return r;
	pthread_rwlock_wrlock(&buffer->lock);
	r = sim_span_check_buffer(&binding->span, binding->first, buffer->n_pages,
				  buffer->n_bindings[binding->by_maker]);
	if (r)
		goto out_buffer;
	pthread_rwlock_wrlock(&va->lock);
	r = tables_make(va, &binding->span);
	if (r) {
		tables_prune(va, &binding->span);
		goto out_va;
	}
	entries_write(binding, 0, binding->span.n_pages, true);
	cds_list_add_tail(&binding->buffer_link, &buffer->bindings);
	buffer->n_bindings[binding->by_maker]++;
	cds_list_add_tail(&binding->link, next ? &next->link : &va->bindings);
	va->n_bindings++;
out_va:
	pthread_rwlock_unlock(&va->lock);
out_buffer:
	pthread_rwlock_unlock(&buffer->lock);
	if (!r)
		changed(va);
	return r;
}

/* ---- the functions below take va->change ---- */

static void binding_free(struct soft_binding *binding)
{
	soft_buffer_put(binding->buffer);
	free(binding);
}

/* A binding that is not made yet. */
static int binding_new(struct soft_file *file, const struct hetsim_bind *bind,
		       struct soft_binding **ret_binding)
{
	struct soft_binding *binding = sys_calloc(1, sizeof(*binding));

	if (!binding)
		return -ENOMEM;
	binding->va = &file->va;
	binding->span = sim_span_of(bind->address, bind->length);
	binding->first = bind->offset >> SIM_PAGE_SHIFT;
	binding->write = bind->flags & HETSIM_BIND_WRITE;
	binding->buffer = soft_buffer_get(file, bind->handle);
	if (!binding->buffer) {
		free(binding);
		return -ENOENT;
	}
	binding->by_maker = binding->buffer->account == file->account;
	*ret_binding = binding;
	return 0;
}

/* Takes over the binding on success. */
static int bind_now(struct soft_binding *binding)
{
	struct soft_va *va = binding->va;
	int r;

	pthread_mutex_lock(&va->change);
	r = bind_locked(va, binding);
	pthread_mutex_unlock(&va->change);
	return r;
}

static int bind_work(struct soft_queue *queue, struct soft_job *job,
		     struct sim_fault *ret_fault)
{
	int r = bind_now(job->binding);

	(void)queue;
	(void)ret_fault;
	if (!r)
		job->binding = NULL;
	return r;
}

static void bind_drop(struct soft_job *job)
{
	if (job->binding)
		binding_free(job->binding);
}

/* Takes over the binding. */
static int bind_later(struct soft_file *file, struct hetsim_bind *bind,
		      struct soft_binding *binding)
{
	const struct sim_later later = SIM_LATER(bind);
	struct soft_job *job = soft_job_new(0);

	if (!job) {
		binding_free(binding);
		return -ENOMEM;
	}
	job->work = bind_work;
	job->drop = bind_drop;
	job->binding = binding;
	return soft_job_later(file, &later, job, &bind->seqno);
}

int soft_bind(struct soft_file *file, void *argument)
{
	struct hetsim_bind *bind = argument;
	struct soft_binding *binding;
	int r;

	r = binding_new(file, bind, &binding);
	if (r)
		return r;
	if (bind->queue)
		return bind_later(file, bind, binding);
	bind->seqno = 0;
	r = bind_now(binding);
	if (r)
		binding_free(binding);
	return r;
}

static int unbind_now(struct soft_va *va, struct sim_span span)
{
	uint64_t end = sim_span_end(&span);
	struct soft_binding *first, *binding, *next;
	CDS_LIST_HEAD(removed);
	int r = 0;

	pthread_mutex_lock(&va->change);
	first = binding_find(va, span.start);
	if (!first || first->span.start >= end) {
		r = -ENOENT;
		goto out;
	}
	for (binding = first; binding && binding->span.start < end;
	     binding = binding_next(va, binding)) {
		if (sim_span_cuts(&span, &binding->span)) {
			r = -ERANGE;
			goto out;
		}
	}
	for (binding = first; binding && binding->span.start < end; binding = next) {
		next = binding_next(va, binding);
		binding_remove(binding, &removed);
	}
out:
	pthread_mutex_unlock(&va->change);
	bindings_free(&removed);
	return r;
}

static int unbind_work(struct soft_queue *queue, struct soft_job *job,
		       struct sim_fault *ret_fault)
{
	(void)ret_fault;
	return unbind_now(&queue->file->va, job->unbind);
}

int soft_unbind(struct soft_file *file, void *argument)
{
	struct hetsim_unbind *unbind = argument;
	const struct sim_later later = SIM_LATER(unbind);
	struct sim_span span = sim_span_of(unbind->address, unbind->length);
	struct soft_job *job;

	if (!unbind->queue) {
		unbind->seqno = 0;
		return unbind_now(&file->va, span);
	}
	job = soft_job_new(0);
	if (!job)
		return -ENOMEM;
	job->work = unbind_work;
	job->unbind = span;
	return soft_job_later(file, &later, job, &unbind->seqno);
}
