// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Pages of processes that come back from a device's memory: as a CPU uses them, to make room, at
 * the end of their opener or device, and by PREFETCH.
 */
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/sched/mm.h>

#include "sim_mirror.h"
#include "sim_store.h"

#define SIM_RETURN_PAGES 16u /* that a CPU's fault brings back: 64 KiB */
#define SIM_RETURN_TRIES 20 /* to bring back pages that were held */

/* The page of a store that leaves it, or NULL. The caller's reference keeps it used. */
static struct sim_store_page *sim_leaving(unsigned long from)
{
	struct page *page = from & MIGRATE_PFN_MIGRATE ? migrate_pfn_to_page(from) : NULL;

	return page ? sim_store_page_of(page) : NULL;
}

/* Tells of the pages that leave, by those that are in a row in one process. */
static void sim_return_tell(const unsigned long *from, const unsigned long *to, unsigned int n,
			    enum hetsim_event_kind kind)
{
	struct hetsim_event event = { .kind = kind };
	struct sim_account *account = NULL;
	unsigned int i;

	for (i = 0; i <= n; i++) {
		struct sim_store_page *page = i < n && to[i] ? sim_leaving(from[i]) : NULL;

		if (page && account == page->account &&
		    page->address == event.address + event.length) {
			event.length += PAGE_SIZE;
			continue;
		}
		if (account) {
			event.value = kind == HETSIM_EVENT_MIGRATE_BEGIN ?
					      HETSIM_LOCATION_HOST : event.length >> PAGE_SHIFT;
			sim_account_tell(account, &event);
		}
		account = page ? page->account : NULL;
		event.address = page ? page->address : 0;
		event.length = PAGE_SIZE;
	}
}

/*
 * Makes a page of system memory for each that leaves, with its bytes. Where there is no memory
 * for one it stays. @vma: the map that they are in, from @address on; NULL: any.
 */
static void sim_return_copy(const unsigned long *from, unsigned long *to, unsigned int n,
			    struct vm_area_struct *vma, unsigned long address)
{
	const gfp_t gfp = GFP_HIGHUSER_MOVABLE | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct sim_store_page *page = sim_leaving(from[i]);
		struct page *fresh;

		to[i] = 0;
		if (!page)
			continue;
		if (vma)
			fresh = alloc_page_vma(gfp, vma, address + i * PAGE_SIZE);
		else
			fresh = alloc_page(gfp);
		if (!fresh)
			continue;
		lock_page(fresh);
		copy_highpage(fresh, page->memory);
		to[i] = migrate_pfn(page_to_pfn(fresh));
		if (from[i] & MIGRATE_PFN_WRITE)
			to[i] |= MIGRATE_PFN_WRITE;
	}
	sim_return_tell(from, to, n, HETSIM_EVENT_MIGRATE_BEGIN);
}

/* Counts the pages that have left, and tells of them. Returns their number. */
static unsigned int sim_return_count(const unsigned long *from, const unsigned long *to,
				     unsigned int n, bool evicts)
{
	unsigned int moved = 0, i;

	for (i = 0; i < n; i++) {
		struct sim_store_page *page = to[i] ? sim_leaving(from[i]) : NULL;

		if (!page)
			continue;
		sim_count(page->dev, page->account, SIM_PAGES_RETURNED, 1);
		if (evicts)
			sim_count(page->dev, page->account, SIM_PAGES_EVICTED, 1);
		moved++;
	}
	sim_return_tell(from, to, n, HETSIM_EVENT_MIGRATE_END);
	if (evicts)
		sim_return_tell(from, to, n, HETSIM_EVENT_EVICT);
	return moved;
}

/* Pages of one map, with mmap_lock held. Returns how many have come back. */
static unsigned int sim_return_map(struct migrate_vma *args)
{
	unsigned int n = (args->end - args->start) >> PAGE_SHIFT, moved;

	if (migrate_vma_setup(args))
		return 0;
	sim_return_copy(args->src, args->dst, n, args->vma, args->start);
	migrate_vma_pages(args);
	moved = sim_return_count(args->src, args->dst, n, false);
	migrate_vma_finalize(args);
	return moved;
}

/*
 * A CPU uses a page that only the device reaches: it comes back, and its neighbours with it. The
 * kernel holds a reference on the page, and mmap_lock. Where another reference keeps the page
 * from moving, the CPU tries again.
 */
vm_fault_t sim_return_fault(struct vm_fault *vmf)
{
	struct sim_store *store = sim_store_page_of(vmf->page)->store;
	unsigned long from[SIM_RETURN_PAGES] = {}, to[SIM_RETURN_PAGES] = {};
	unsigned long block = ALIGN_DOWN(vmf->address, SIM_RETURN_PAGES * PAGE_SIZE);
	struct migrate_vma args = {
		.vma = vmf->vma,
		.start = max(block, vmf->vma->vm_start),
		.end = min(block + SIM_RETURN_PAGES * PAGE_SIZE, vmf->vma->vm_end),
		.src = from,
		.dst = to,
		.pgmap_owner = store,
		.flags = MIGRATE_VMA_SELECT_DEVICE_PRIVATE,
		.fault_page = vmf->page,
	};
	unsigned long i = (ALIGN_DOWN(vmf->address, PAGE_SIZE) - args.start) >> PAGE_SHIFT;

	sim_return_map(&args);
	/* It could have moved, and there was no memory for it. */
	return from[i] && !to[i] && from[i] & MIGRATE_PFN_VALID && args.cpages ?
		       VM_FAULT_OOM : 0;
}

/* A part of a store, up to a block. Returns how many pages have come back. */
static unsigned int sim_return_run(struct sim_store *store, unsigned long first, unsigned int n,
				   bool evicts)
{
	unsigned int moved;

	mutex_lock(&store->returning);
	migrate_device_range(store->from, store->first + first, n);
	sim_return_copy(store->from, store->to, n, NULL, 0);
	migrate_device_pages(store->from, store->to, n);
	moved = sim_return_count(store->from, store->to, n, evicts);
	migrate_device_finalize(store->from, store->to, n);
	mutex_unlock(&store->returning);
	return moved;
}

/* The pages of a block make room. Returns how many. */
unsigned int sim_return_block(struct sim_store *store, unsigned long first)
{
	unsigned long end = min(first + SIM_STORE_BLOCK, store->n_pages);
	unsigned int moved = 0, n;

	for (; (n = sim_store_run(store, &first, end, NULL, NULL)); first += n)
		moved += sim_return_run(store, first, n, true);
	sim_store_drain(store);
	return moved;
}

/*
 * Brings back all pages of a device, or of one opener only. Pages with further
 * references stay: they count until these are gone. The device's entries for them are gone before.
 */
void sim_store_return(struct sim_store *store, const struct sim_device *dev,
		      const struct sim_account *account)
{
	unsigned int tries, n, left = 1;

	if (!store)
		return;
	for (tries = 0; left && tries < SIM_RETURN_TRIES; tries++) {
		unsigned long at = 0;

		if (tries)
			usleep_range(500, 1000);
		sim_store_drain(store);
		left = 0;
		for (; (n = sim_store_run(store, &at, store->n_pages, dev, account)); at += n) {
			left += n - sim_return_run(store, at, n, false);
			cond_resched();
		}
	}
	sim_store_drain(store);
}

/* Brings the pages of a range of the process back, as far as its maps go. mirror->lock is held. */
void sim_return_span(struct sim_mirror *mirror, const struct sim_span *span)
{
	u64 at = span->start << PAGE_SHIFT, end = sim_span_end(span) << PAGE_SHIFT;
	struct migrate_vma args = {
		.src = mirror->from,
		.dst = mirror->to,
		.pgmap_owner = mirror->dev->store,
		.flags = MIGRATE_VMA_SELECT_DEVICE_PRIVATE | MIGRATE_VMA_SELECT_DEVICE_COHERENT,
	};

	mmap_read_lock(mirror->mm);
	while (at < end) {
		args.vma = find_vma(mirror->mm, at);
		if (!args.vma || args.vma->vm_start >= end)
			break;
		args.start = max_t(u64, at, args.vma->vm_start);
		args.end = min_t(u64, end, args.vma->vm_end);
		sim_return_map(&args);
		at = args.end;
	}
	mmap_read_unlock(mirror->mm);
	sim_store_drain(mirror->dev->store);
}
