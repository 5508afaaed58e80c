// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Pages of the process move to the device's memory, by parts of a chunk. Pages that can't move are
 * used where they are.
 */
#include <linux/highmem.h>
#include <linux/sched/mm.h>
#include <linux/userfaultfd_k.h>

#include "sim_mirror.h"
#include "sim_store.h"

/* Would so many pages of the opener fit? *@lack: the room that other pages could make. */
static bool sim_store_has_room(struct sim_store *store, struct sim_device *dev,
			       struct sim_account *account, u64 n_pages, struct sim_lack *lack)
{
	bool fits = n_pages <= store->n_pages - READ_ONCE(store->n_used);

	if (!fits)
		lack->n_pages = n_pages;
	else if (sim_mem_reserve(dev, account, HETSIM_PLACE_VRAM, n_pages, NULL, false, lack))
		fits = false;
	else
		sim_mem_release(dev, account, HETSIM_PLACE_VRAM, n_pages);
	return fits;
}

/*
 * Pages that came long ago leave the store, if that makes room for @n_pages. Others may be faster:
 * then fewer pages move. With no lock of the process held.
 */
bool sim_store_make_room(struct sim_store *store, struct sim_device *dev,
			 struct sim_account *account, u64 n_pages)
{
	unsigned int tries;

	sim_store_drain(store);
	for (tries = 0; tries < SIM_MEM_TRIES; tries++) {
		struct sim_lack lack = {};
		unsigned long first;

		if (sim_store_has_room(store, dev, account, n_pages, &lack))
			return true;
		/* It is the opener's own limit. */
		if (!lack.n_pages || n_pages > store->n_pages)
			return false;
		if (!sim_store_oldest(store, &first))
			return false;
		sim_return_block(store, first);
		cond_resched();
	}
	return false;
}

/* Makes room in VRAM for buffers. Returns how many pages have left it. */
u64 sim_store_evict(struct sim_store *store, u64 n_pages)
{
	unsigned long first;
	u64 moved = 0;
	unsigned int tries;

	for (tries = 0; store && moved < n_pages && tries < SIM_MEM_TRIES; tries++) {
		if (!sim_store_oldest(store, &first))
			break;
		moved += sim_return_block(store, first);
		cond_resched();
	}
	return moved;
}

/* May pages of the map move? Those that are locked, or that user space brings, may not. */
static bool sim_map_moves(struct vm_area_struct *vma)
{
	if (vma->vm_flags & (VM_LOCKED | VM_SPECIAL | VM_HUGETLB | VM_SHARED))
		return false;
	return !userfaultfd_armed(vma);
}

/*
 * Makes a page of the store for each that can move, with its bytes. Pages that the process does
 * not have yet begin there, if they are @wanted.
 */
static void sim_migrate_copy(struct sim_mirror *mirror, const struct migrate_vma *args,
			     const struct sim_span *wanted)
{
	unsigned int n = (args->end - args->start) >> PAGE_SHIFT, i;
	struct sim_store *store = mirror->dev->store;

	for (i = 0; i < n; i++) {
		struct page *page = migrate_pfn_to_page(args->src[i]), *fresh;
		u64 at = (args->start >> PAGE_SHIFT) + i;
		struct page *memory;

		args->dst[i] = 0;
		if (!(args->src[i] & MIGRATE_PFN_MIGRATE))
			continue;
		if (!page && (at < wanted->start || at >= sim_span_end(wanted)))
			continue;
		fresh = sim_store_take(store, mirror, at << PAGE_SHIFT);
		if (!fresh)
			continue;
		memory = sim_store_page_of(fresh)->memory;
		if (page)
			copy_highpage(memory, page);
		else
			clear_highpage(memory);
		args->dst[i] = migrate_pfn(page_to_pfn(fresh));
		if (args->src[i] & MIGRATE_PFN_WRITE || (!page && args->vma->vm_flags & VM_WRITE))
			args->dst[i] |= MIGRATE_PFN_WRITE;
	}
}

static unsigned int sim_migrated(const struct migrate_vma *args)
{
	unsigned int n = (args->end - args->start) >> PAGE_SHIFT, moved = 0, i;

	for (i = 0; i < n; i++)
		moved += args->dst[i] && args->src[i] & MIGRATE_PFN_MIGRATE;
	return moved;
}

static void sim_migrate_tell(struct sim_mirror *mirror, enum hetsim_event_kind kind,
			     const struct migrate_vma *args, u64 value)
{
	struct hetsim_event event = {
		.kind = kind,
		.address = args->start,
		.length = args->end - args->start,
		.value = value,
	};

	sim_mirror_tell(mirror, &event);
}

/* A part of one map, with mmap_lock held. Returns how many pages have moved. */
static unsigned int sim_migrate_map(struct sim_mirror *mirror, struct migrate_vma *args,
				    const struct sim_span *wanted)
{
	unsigned int moved = 0;

	if (!sim_map_moves(args->vma) || migrate_vma_setup(args))
		return 0;
	if (args->cpages) {
		sim_migrate_tell(mirror, HETSIM_EVENT_MIGRATE_BEGIN, args, HETSIM_LOCATION_DEVICE);
		sim_migrate_copy(mirror, args, wanted);
		migrate_vma_pages(args);
		moved = sim_migrated(args);
	}
	migrate_vma_finalize(args);
	if (args->cpages || moved)
		sim_migrate_tell(mirror, HETSIM_EVENT_MIGRATE_END, args, moved);
	return moved;
}

/* Moves the pages from @first up to @end, which lie in one chunk. */
static void sim_migrate_part(struct sim_mirror *mirror, u64 first, u64 end,
			     const struct sim_span *wanted)
{
	struct migrate_vma args = {
		.src = mirror->from,
		.dst = mirror->to,
		.pgmap_owner = mirror->dev->store,
		.flags = MIGRATE_VMA_SELECT_SYSTEM,
	};
	u64 at = first << PAGE_SHIFT, stop = end << PAGE_SHIFT;
	unsigned int moved = 0;

	if (!sim_store_make_room(mirror->dev->store, mirror->dev, mirror->account, end - first))
		return;
	mmap_read_lock(mirror->mm);
	while (at < stop) {
		args.vma = find_vma(mirror->mm, at);
		if (!args.vma || args.vma->vm_start >= stop)
			break;
		args.start = max_t(u64, at, args.vma->vm_start);
		args.end = min_t(u64, stop, args.vma->vm_end);
		moved += sim_migrate_map(mirror, &args, wanted);
		at = args.end;
	}
	mmap_read_unlock(mirror->mm);
	sim_mirror_count(mirror, SIM_PAGES_MIGRATED, moved);
}

void sim_migrate_page(struct sim_mirror *mirror, u64 page)
{
	struct sim_span wanted = { .start = page, .n_pages = 1 };

	sim_migrate_part(mirror, page, page + 1, &wanted);
}

/* Moves the pieces of a chunk that the engine has used often, and begins to count anew. */
static void sim_migrate_counted(struct sim_chunk *chunk, const struct sim_span *wanted)
{
	unsigned int i, n = DIV_ROUND_UP(chunk->span.n_pages, SIM_PIECE_PAGES);

	for (i = 0; i < n; i++) {
		u64 first = chunk->span.start + i * SIM_PIECE_PAGES;

		if (READ_ONCE(chunk->uses[i]) < chunk->counter)
			continue;
		WRITE_ONCE(chunk->uses[i], 0);
		sim_mirror_count(chunk->mirror, SIM_ACCESS_NOTICES, 1);
		sim_migrate_part(chunk->mirror, first,
				 min(first + SIM_PIECE_PAGES, sim_span_end(&chunk->span)), wanted);
	}
}

/*
 * Moves what is to move, before the device gets entries for a wish, of which all pages are in the
 * chunk. With mirror->lock held, and the process kept from ending.
 */
void sim_migrate(struct sim_chunk *chunk, const struct sim_want *want, u32 location)
{
	struct sim_span wanted = { .start = want->page, .n_pages = want->n_pages };
	struct sim_mirror *mirror = chunk->mirror;

	if (!mirror->dev->store || want->snapshot || location == HETSIM_LOCATION_HOST)
		return;
	if (want->moves)
		sim_migrate_part(mirror, wanted.start, sim_span_end(&wanted), &wanted);
	else if (location == HETSIM_LOCATION_DEVICE)
		sim_migrate_part(mirror, chunk->span.start, sim_span_end(&chunk->span), &wanted);
	else if (chunk->counter)
		sim_migrate_counted(chunk, &wanted);
	else if (chunk->hot)
		sim_hot_move(chunk, &wanted);
}
