// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Device faults: the kernel brings pages of the process, and the device gets entries for them.
 */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/hmm.h>
#include <linux/magic.h>
#include <linux/sched/mm.h>
#include <linux/userfaultfd_k.h>

#include "sim_mirror.h"
#include "sim_queue.h"

#define SIM_RACES 8u /* that a chunk loses before it becomes smaller */
#define SIM_CHUNK_SIZES 3u /* 2 MiB, 64 KiB, a page */

/* The kernel itself can't reach the pages of memfd_secret(), though it has them. */
static bool sim_map_is_secret(struct vm_area_struct *vma)
{
	return vma->vm_file && file_inode(vma->vm_file)->i_sb->s_magic == SECRETMEM_MAGIC;
}

/*
 * Why the engine can't use a page, as far as its map tells, with mmap_lock held. @vma: the first
 * map that ends behind the page.
 */
enum hetsim_fault_reason sim_map_reason(struct vm_area_struct *vma, u64 page, bool write)
{
	if (!vma || vma->vm_start > page << PAGE_SHIFT)
		return HETSIM_REASON_UNMAPPED;
	if (vma->vm_flags & (VM_IO | VM_PFNMAP) || sim_map_is_secret(vma))
		return HETSIM_REASON_DEVICE;
	if (!(vma->vm_flags & VM_READ))
		return HETSIM_REASON_READ;
	return write && !(vma->vm_flags & VM_WRITE) ? HETSIM_REASON_WRITE : HETSIM_REASON_NONE;
}

/*
 * Looks at the maps of a chunk, which may be several by now. -EFAULT: one has secret pages;
 * 1: user space answers the page faults of one; else 0. With mmap_lock held.
 */
static int sim_maps_look(struct mm_struct *mm, const struct sim_span *span)
{
	struct vm_area_struct *vma = find_vma(mm, span->start << PAGE_SHIFT);
	int r = 0;

	while (vma && vma->vm_start < sim_span_end(span) << PAGE_SHIFT) {
		if (sim_map_is_secret(vma))
			return -EFAULT;
		r |= userfaultfd_armed(vma);
		vma = find_vma(mm, vma->vm_end);
	}
	return r;
}

/* Why the kernel has refused to bring the page, with mmap_lock held since. */
static enum hetsim_fault_reason sim_refusal_reason(struct sim_mirror *mirror, u64 page, bool write)
{
	struct vm_area_struct *vma = find_vma(mirror->mm, page << PAGE_SHIFT);
	enum hetsim_fault_reason reason = sim_map_reason(vma, page, write);

	if (reason != HETSIM_REASON_NONE)
		return reason;
	/* Entries of a driver's own in a map that may have pages, too. */
	return vma->vm_flags & VM_MIXEDMAP ? HETSIM_REASON_DEVICE : HETSIM_REASON_NO_PAGE;
}

/* One call of hmm_range_fault() for a part of a chunk, with mmap_lock held. */
static int sim_hmm_ask(struct sim_mirror *mirror, struct sim_chunk *chunk, unsigned long seq,
		       u64 first, u64 end, unsigned long flags)
{
	struct hmm_range range = {
		.notifier = &chunk->notifier,
		.notifier_seq = seq,
		.start = first << PAGE_SHIFT,
		.end = end << PAGE_SHIFT,
		.hmm_pfns = mirror->pfns + (first - chunk->span.start),
		.default_flags = flags,
		.dev_private_owner = mirror->dev->store,
	};

	return first < end ? hmm_range_fault(&range) : 0;
}

/*
 * The kernel was asked for a page, and has not given it, or not for writing. -EREMCHG: it is in the
 * device's memory, where the kernel breaks no copy-on-write.
 */
static int sim_ask_lacks(struct sim_mirror *mirror, unsigned long pfn)
{
	bool on_device = false;

	if (pfn & HMM_PFN_VALID)
		sim_store_memory(mirror->dev->store, hmm_pfn_to_page(pfn), &on_device);
	return on_device ? -EREMCHG : -EFAULT;
}

/* The same for all of it: the pages that are wanted are brought, the others asked for only. */
static int sim_chunk_ask_locked(struct sim_chunk *chunk, const struct sim_want *want,
				unsigned long seq)
{
	unsigned long flags = HMM_PFN_REQ_FAULT | (want->write ? HMM_PFN_REQ_WRITE : 0);
	struct sim_mirror *mirror = chunk->mirror;
	u64 start = chunk->span.start, end = sim_span_end(&chunk->span);
	u64 first = want->page, last = want->page + want->n_pages;
	unsigned long needed = flags;
	int r;

	r = sim_maps_look(mirror->mm, &chunk->span);
	if (r < 0)
		return r;
	/* The kernel would have to wait for user space, and refuses that to kernel threads. */
	if (r || want->snapshot)
		flags = 0;
	memset(mirror->pfns, 0, chunk->span.n_pages * sizeof(mirror->pfns[0]));
	r = sim_hmm_ask(mirror, chunk, seq, first, last, flags);
	if (!r)
		r = sim_hmm_ask(mirror, chunk, seq, start, first, 0);
	if (!r)
		r = sim_hmm_ask(mirror, chunk, seq, last, end, 0);
	if (!r && !want->snapshot && (mirror->pfns[first - start] & needed) != needed)
		r = sim_ask_lacks(mirror, mirror->pfns[first - start]);
	return r;
}

/*
 * Makes mirror->pfns what the process has in the chunk. -EBUSY: the kernel has taken something away
 * meanwhile; another error leaves the reason in *@reason.
 */
static int sim_chunk_ask(struct sim_chunk *chunk, const struct sim_want *want, unsigned long seq,
			 enum hetsim_fault_reason *reason)
{
	struct mm_struct *mm = chunk->mirror->mm;
	int r;

	mmap_read_lock(mm);
	r = sim_chunk_ask_locked(chunk, want, seq);
	if (r && r != -EBUSY)
		*reason = sim_refusal_reason(chunk->mirror, want->page, want->write);
	mmap_read_unlock(mm);
	return r;
}

/* May the whole chunk have one entry: is it one page of the process? */
static bool sim_chunk_may_be_large(struct sim_chunk *chunk)
{
	unsigned long pfn = chunk->mirror->pfns[0];

	return chunk->span.n_pages == SIM_CHUNK_PAGES && pfn & HMM_PFN_VALID &&
	       hmm_pfn_to_map_order(pfn) >= SIM_LARGE_ORDER &&
	       IS_ALIGNED(page_to_pfn(hmm_pfn_to_page(pfn)), SIM_CHUNK_PAGES);
}

/*
 * The entry of a page, with va->lock held. The device may write to it from here on until an
 * invalidation comes, without the CPU's page table knowing, so the page is dirty now.
 */
static u64 sim_entry_make(const struct sim_chunk *chunk, unsigned long pfn, bool write,
			  enum hetsim_why why)
{
	struct page *page = hmm_pfn_to_page(pfn);
	struct folio *folio = page_folio(page);
	struct page *memory;
	bool on_device;
	u64 entry;

	memory = sim_store_memory(chunk->mirror->dev->store, page, &on_device);
	entry = (u64)page_to_pfn(memory) << SIM_ENTRY_SHIFT | SIM_ENTRY_PRESENT |
		SIM_ENTRY_MIRROR | (u64)why << SIM_ENTRY_WHY_SHIFT;
	if (on_device)
		entry |= SIM_ENTRY_DEVICE;
	if (chunk->hot || (chunk->counter && !on_device))
		entry |= SIM_ENTRY_COUNTED;
	if (!write)
		return entry;
	if (!folio_test_dirty(folio))
		folio_mark_dirty(folio);
	return entry | SIM_ENTRY_WRITE;
}

/* Does the entry that is there do for the wish? */
static bool sim_entry_serves(u64 entry, bool write)
{
	return entry && (!write || entry & SIM_ENTRY_WRITE);
}

static u64 sim_chunk_fill_large(struct sim_chunk *chunk, const struct sim_want *want,
				bool present)
{
	unsigned long pfn = chunk->mirror->pfns[0];
	bool write = (want->write || present) && pfn & HMM_PFN_WRITE;

	if (chunk->n_entries && !sim_chunk_is_large(chunk))
		sim_chunk_drop(chunk, 0, U64_MAX);
	if (sim_entry_serves(chunk->entries[0], write))
		return 0;
	chunk->entries[0] = sim_entry_make(chunk, pfn, write, want->why) | SIM_ENTRY_LARGE;
	chunk->n_entries = SIM_CHUNK_PAGES;
	return SIM_CHUNK_PAGES;
}

/*
 * Writes the entries, with va->lock held for writing. Pages that are wanted can be written to when
 * the wish is to write; others are to read only, unless advice gives the device all that are
 * @present. Returns for how many pages there is more than before.
 */
static u64 sim_chunk_fill(struct sim_chunk *chunk, const struct sim_want *want, bool present)
{
	u64 first = want->page - chunk->span.start, end = first + want->n_pages, n = 0, i;
	unsigned long *pfns = chunk->mirror->pfns;

	if (sim_chunk_may_be_large(chunk))
		return sim_chunk_fill_large(chunk, want, present);
	if (sim_chunk_is_large(chunk))
		sim_chunk_drop(chunk, 0, U64_MAX);
	for (i = 0; i < chunk->span.n_pages; i++) {
		bool wanted = i >= first && i < end;
		bool write = ((wanted && want->write) || present) && pfns[i] & HMM_PFN_WRITE;
		enum hetsim_why other = present ? HETSIM_WHY_ADVICE : HETSIM_WHY_NEIGHBOUR;
		enum hetsim_why why = wanted ? want->why : other;

		if (!(pfns[i] & HMM_PFN_VALID) || sim_entry_serves(chunk->entries[i], write))
			continue;
		chunk->n_entries += !chunk->entries[i];
		chunk->entries[i] = sim_entry_make(chunk, pfns[i], write, why);
		n++;
	}
	return n;
}

/* One try, as sim_chunk_ask(). */
static int sim_chunk_try(struct sim_chunk *chunk, const struct sim_want *want, bool present,
			 u64 *ret_pages, enum hetsim_fault_reason *reason)
{
	struct sim_va *va = chunk->mirror->va;
	unsigned long seq = mmu_interval_read_begin(&chunk->notifier);
	int r = sim_chunk_ask(chunk, want, seq, reason);

	if (r)
		return r;
	down_write(&va->lock);
	if (chunk->dead || mmu_interval_read_retry(&chunk->notifier, seq))
		r = -EBUSY;
	else
		*ret_pages = sim_chunk_fill(chunk, want, present);
	up_write(&va->lock);
	return r;
}

/*
 * 0, or why the wish is to be given up: it is not the kernel that refuses. Where time is up, a
 * smaller chunk may still be faster than what takes pages away: each size has its tries, however
 * long the kernel needs for one.
 */
static int sim_want_poll(const struct sim_want *want, unsigned int lost)
{
	int r;

	if (want->queue) {
		r = sim_engine_poll(want->queue);
		return r == -ETIMEDOUT && lost < SIM_CHUNK_SIZES * SIM_RACES ? 0 : r;
	}
	cond_resched();
	return signal_pending(current) ? -EINTR : 0;
}

/*
 * How many pages a chunk may have that has lost so many races. The kernel took something of it away
 * while the pages were asked for. Where that goes on without end, at other pages of the chunk, a
 * smaller one has none of it.
 */
static u64 sim_chunk_most(unsigned int lost)
{
	if (lost < SIM_RACES)
		return SIM_CHUNK_PAGES;
	return lost < 2 * SIM_RACES ? SIM_PIECE_PAGES : 1;
}

/* Makes the wish one for pages of the chunk only, or for @all of them. */
static void sim_want_fit(struct sim_want *want, const struct sim_chunk *chunk, bool all)
{
	u64 end = min(want->page + want->n_pages, sim_span_end(&chunk->span));

	if (all) {
		want->page = chunk->span.start;
		end = sim_span_end(&chunk->span);
	}
	want->n_pages = end - want->page;
}

/*
 * Gives the device entries, with mirror->lock held and the process kept from ending. *@want
 * becomes what was served of it. -EFAULT: the engine can't use the first page, for *@reason.
 * -ENOMEM, or why the queue's work is to end; -EINTR without a queue.
 */
int sim_mirror_bring(struct sim_mirror *mirror, struct sim_want *want,
		     enum hetsim_fault_reason *reason)
{
	u64 page = want->page, asked = want->n_pages, pages = 0;
	struct sim_advice advice = sim_advice_find(mirror->advice, mirror->n_advice, page);
	bool present = advice.flags & SIM_ADVICE_ACCESSED_BY;
	bool whole = advice.flags & SIM_ADVICE_READ_MOSTLY && !want->write;
	bool moves = true, shared = false;
	unsigned int lost = 0, n_shared = 0;
	struct sim_chunk *chunk;
	int r;

	do {
		r = sim_want_poll(want, lost);
		if (r)
			break;
		/* Again for each try: it may be dead. */
		r = sim_chunk_get(mirror, page, sim_chunk_most(lost), &chunk, reason);
		if (r)
			break;
		want->page = page;
		want->n_pages = asked;
		sim_want_fit(want, chunk, whole);
		if (moves)
			sim_migrate(chunk, want, advice.location);
		moves = false;
		r = sim_chunk_try(chunk, want, present, &pages, reason);
		lost += r == -EBUSY || r == -EREMCHG;
		if (r == -EREMCHG) {
			sim_return_span(mirror, &(struct sim_span){ page, want->n_pages });
			shared = !n_shared++ && !want->once;
			r = -EBUSY;
		} else if (!r && shared) {
			/* The process has pages of its own now, which can move. */
			shared = false;
			moves = true;
			r = -EBUSY;
		}
		if (want->once && r)
			break;
		/* Another page may be to blame. */
		if (r && r != -EBUSY && want->n_pages > 1) {
			asked = whole ? asked : want->n_pages / 2;
			whole = false;
			r = -EBUSY;
		}
		if (r && r != -EBUSY && r != -ENOMEM)
			r = -EFAULT;
	} while (r == -EBUSY);
	sim_mirror_count(mirror, SIM_MIRROR_PAGES, pages);
	return r;
}

/* Tells how a fault has ended that began at @start. */
static void sim_fault_tell(struct sim_mirror *mirror, const struct sim_want *want, u64 start,
			   int r, enum hetsim_fault_reason reason)
{
	struct hetsim_event event = {
		.kind = r ? HETSIM_EVENT_FAULT_REFUSED : HETSIM_EVENT_FAULT,
		.address = want->page << PAGE_SHIFT,
		.length = want->n_pages << PAGE_SHIFT,
		.value = r ? reason : 0,
		.write = want->write,
		.queue = want->queue->id,
		.duration_ns = min_t(u64, ktime_get_ns() - start, U32_MAX),
	};

	sim_mirror_count(mirror, SIM_MIRROR_FAULTS, 1);
	if (r == -EFAULT)
		sim_mirror_count(mirror, SIM_MIRROR_FAULTS_REFUSED, 1);
	if (!r || r == -EFAULT)
		sim_mirror_tell(mirror, &event);
}

/*
 * The same for the work of a queue, which holds no lock. *@want becomes what was served.
 * -EFAULT leaves the reason in @fault.
 */
int sim_fault_serve(struct sim_mirror *mirror, struct sim_want *want, struct sim_fault *fault)
{
	enum hetsim_fault_reason reason = HETSIM_REASON_EXITED;
	u64 start = ktime_get_ns();
	int r = -EFAULT;

	if (sim_fault_us)
		fsleep(sim_fault_us);
	if (mmget_not_zero(mirror->mm)) {
		mutex_lock(&mirror->lock);
		r = sim_mirror_bring(mirror, want, &reason);
		mutex_unlock(&mirror->lock);
		/* The last reference ends all maps of the process: not in an engine's thread. */
		mmput_async(mirror->mm);
	}
	sim_fault_tell(mirror, want, start, r, reason);
	if (r == -EFAULT)
		fault->reason = reason;
	return r;
}

/*
 * The engine is about to use @length bytes at an address that the device has no entry for.
 * 0: it may have one now.
 */
int sim_mirror_fault(struct sim_queue *queue, struct sim_fault *fault, u64 length)
{
	struct sim_mirror *mirror = queue->opener->va.mirror;
	u64 page = fault->address >> PAGE_SHIFT;
	struct sim_want want = {
		.queue = queue,
		.page = page,
		.n_pages = DIV_ROUND_UP(offset_in_page(fault->address) + length, PAGE_SIZE),
		.write = fault->write,
		.why = HETSIM_WHY_FAULT,
	};
	int r;

	sim_engine_bring(queue);
	r = sim_fault_serve(mirror, &want, fault);
	if (!r)
		sim_learn_used(mirror, want.page, want.n_pages, want.write);
	return r;
}
