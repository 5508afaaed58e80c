// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Translations that queues have at hand. A slot is found by its page's number alone, so a page
 * takes the place of another one. Large pages have slots of their own.
 */
#include "sim.h"

void sim_tlb_add(struct sim_va *va, struct sim_tlb *tlb)
{
	down_write(&va->lock);
	list_add_tail(&tlb->link, &va->tlbs);
	up_write(&va->lock);
}

void sim_tlb_remove(struct sim_va *va, struct sim_tlb *tlb)
{
	down_write(&va->lock);
	list_del(&tlb->link);
	up_write(&va->lock);
}

/* With va->lock held, by the queue's own thread. */
void sim_tlb_clear(struct sim_tlb *tlb)
{
	memset(tlb->slot, 0, sizeof(tlb->slot));
	memset(tlb->large, 0, sizeof(tlb->large));
}

static u64 sim_large_first(u64 page)
{
	return ALIGN_DOWN(page, BIT_ULL(SIM_LARGE_ORDER));
}

static struct sim_tlb_slot *sim_tlb_large(struct sim_tlb *tlb, u64 page)
{
	return &tlb->large[(page >> SIM_LARGE_ORDER) % SIM_TLB_LARGE];
}

/* The entry of one page in a large one. */
static u64 sim_large_part(u64 entry, u64 page)
{
	return (entry & ~SIM_ENTRY_LARGE) + ((page - sim_large_first(page)) << SIM_ENTRY_SHIFT);
}

/* The entry of the page, 0 if it is not at hand with what is @wanted of it. */
u64 sim_tlb_find(struct sim_tlb *tlb, u64 page, u64 wanted)
{
	struct sim_tlb_slot *slot = &tlb->slot[page % SIM_TLB_ENTRIES];
	u64 entry = slot->page == page ? slot->entry : 0;

	if ((entry & wanted) != wanted) {
		slot = sim_tlb_large(tlb, page);
		if (slot->page != sim_large_first(page) || (slot->entry & wanted) != wanted)
			return 0;
		entry = sim_large_part(slot->entry, page);
	}
	/* The slots may have served work that may use more. */
	return entry & SIM_ENTRY_MIRROR && !tlb->mirrors ? 0 : entry;
}

/*
 * Keeps what a walk has found for the page, unless each use is to walk. Returns the entry of this
 * page alone.
 */
u64 sim_tlb_put(struct sim_tlb *tlb, u64 page, u64 entry)
{
	struct sim_tlb_slot *slot;

	if (entry & SIM_ENTRY_COUNTED)
		return entry & SIM_ENTRY_LARGE ? sim_large_part(entry, page) : entry;
	if (entry & SIM_ENTRY_LARGE) {
		slot = sim_tlb_large(tlb, page);
		slot->page = sim_large_first(page);
		slot->entry = entry;
		return sim_large_part(entry, page);
	}
	slot = &tlb->slot[page % SIM_TLB_ENTRIES];
	slot->page = page;
	slot->entry = entry;
	return entry;
}

static unsigned int sim_tlb_drop_slot(struct sim_tlb_slot *slot, u64 first, u64 end, u64 pages)
{
	if (!slot->entry || slot->page >= end || slot->page + pages <= first)
		return 0;
	slot->entry = 0;
	return 1;
}

/*
 * The shoot-down: takes the translations of the pages from @first up to @end out of the TLBs of all
 * queues. With va->lock held for writing no queue is using one, and all of them know.
 * Returns how many there were.
 */
unsigned int sim_tlb_drop(struct sim_va *va, u64 first, u64 end)
{
	unsigned int n = 0, i;
	struct sim_tlb *tlb;
	u64 page;

	lockdep_assert_held_write(&va->lock);
	list_for_each_entry(tlb, &va->tlbs, link) {
		for (i = 0; i < SIM_TLB_LARGE; i++)
			n += sim_tlb_drop_slot(&tlb->large[i], first, end, BIT(SIM_LARGE_ORDER));
		if (end - first < SIM_TLB_ENTRIES) {
			for (page = first; page < end; page++)
				n += sim_tlb_drop_slot(&tlb->slot[page % SIM_TLB_ENTRIES], page,
						       page + 1, 1);
			continue;
		}
		for (i = 0; i < SIM_TLB_ENTRIES; i++)
			n += sim_tlb_drop_slot(&tlb->slot[i], first, end, 1);
	}
	return n;
}
