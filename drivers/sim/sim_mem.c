// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Pages that stand for the device's memory: limits, and taking and giving them.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/gfp.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "sim.h"

#if IS_ENABLED(CONFIG_X86)
#include <asm/memtype.h>
#include <asm/set_memory.h>
#endif

#if IS_ENABLED(CONFIG_X86)
/*
 * A page-table entry for RAM gets the page's own cache mode whatever a driver
 * asks for, so the page's mode has to change. Where the processor's table of
 * cache modes is off, or has another mode in the place of combining, there is no combining.
 */
unsigned int sim_cache_modes(void)
{
	unsigned int modes = 1u << HETSIM_CACHE_BACK;

	if (pat_enabled() && cachemode2protval(_PAGE_CACHE_MODE_WC) !=
			     cachemode2protval(_PAGE_CACHE_MODE_UC_MINUS))
		modes |= 1u << HETSIM_CACHE_COMBINE;
	return modes;
}

/*
 * Before pages are given back. A page that can't be reset is kept, by a reference: its next
 * owner would use it as it is, or could never change it.
 */
static void sim_cache_reset(struct page **pages, u64 n_pages, u32 cache)
{
	u64 i;

	if (cache != HETSIM_CACHE_COMBINE || !set_pages_array_wb(pages, n_pages))
		return;
	pr_warn_once("pages that stay write-combined are lost\n");
	for (i = 0; i < n_pages; i++)
		get_page(pages[i]);
}

/*
 * The kernel answers EINVAL when it has no memory to split its own map of the pages,
 * and may have changed a part of them.
 */
static int sim_cache_set(struct page **pages, u64 n_pages, u32 cache)
{
	if (cache != HETSIM_CACHE_COMBINE || !set_pages_array_wc(pages, n_pages))
		return 0;
	sim_cache_reset(pages, n_pages, cache);
	return -ENOMEM;
}

/* The mode in the kernel's own map of the page; entries of maps are given the same. */
u32 sim_cache_of(struct page *page)
{
	pteval_t combine = cachemode2protval(_PAGE_CACHE_MODE_WC), now;
	unsigned int level;
	pte_t *entry;

	entry = lookup_address((unsigned long)page_address(page), &level);
	if (!entry)
		return HETSIM_CACHE_BACK;
	now = pte_val(*entry);
	if (level != PG_LEVEL_4K)
		now = protval_large_2_4k(now);
	return (now & _PAGE_CACHE_MASK) == combine ? HETSIM_CACHE_COMBINE : HETSIM_CACHE_BACK;
}
#else
unsigned int sim_cache_modes(void)
{
	return 1u << HETSIM_CACHE_BACK;
}

static int sim_cache_set(struct page **pages, u64 n_pages, u32 cache)
{
	return 0;
}

static void sim_cache_reset(struct page **pages, u64 n_pages, u32 cache)
{
}

u32 sim_cache_of(struct page *page)
{
	return HETSIM_CACHE_BACK;
}
#endif

/* Counts the pages against the limits; -ENOSPC with the missing room in *@lack. */
int sim_mem_reserve(struct sim_device *dev, struct sim_account *account, u32 place, u64 n_pages,
		    const u64 *leaving, bool evict, struct sim_lack *lack)
{
	int r;

	spin_lock(&dev->memory_lock);
	r = sim_memory_take(&dev->memory, account->pages_used, place, n_pages, leaving, evict,
			    lack);
	spin_unlock(&dev->memory_lock);
	return r;
}

/*
 * When it is the device that is full, pages that were not used for longest make room, except
 * those of @buffer, which needs it: 0 when there is reason to try again. Other calls may take
 * the pages that were made free, so SIM_MEM_TRIES bounds the tries. The caller holds no
 * buffer's change, because this may wait for that of another buffer: an owner that keeps on
 * moving its buffer must not leave a caller without room that finds it nowhere else.
 */
int sim_mem_make_room(struct sim_buffer *buffer, struct sim_lack *lack)
{
	u64 evicted;
	int r;

	if (!sim_lack_try(lack))
		return -ENOSPC;
	/* Pages of processes go first: they are used from system memory as well. */
	if (lack->place == HETSIM_PLACE_VRAM &&
	    sim_store_evict(buffer->dev->store, lack->n_pages))
		return 0;
	r = sim_evict(buffer, lack->place, lack->n_pages, &evicted);
	/* The owner may have taken away the buffer that was waited for: there is one more try. */
	if (!evicted)
		lack->tries = SIM_MEM_TRIES;
	return r;
}

void sim_mem_release(struct sim_device *dev, struct sim_account *account, u32 place,
		     u64 n_pages)
{
	spin_lock(&dev->memory_lock);
	sim_memory_give(&dev->memory, account->pages_used, place, n_pages);
	spin_unlock(&dev->memory_lock);
}

/* How many pages change their cache mode, or go, between chances to stop. */
#define SIM_MEM_BATCH SIM_FAULT_PAGES

/*
 * Single pages that lie behind each other, at a multiple of their length, which one entry
 * of a page table can map. Only where they are at hand: returns how many it got.
 */
static unsigned int sim_mem_block_get(struct page **pages)
{
	struct page *block;
	unsigned int i;

	block = alloc_pages((GFP_USER | __GFP_ACCOUNT | __GFP_ZERO | __GFP_NOWARN) &
			    ~__GFP_DIRECT_RECLAIM, SIM_BLOCK_ORDER);
	if (!block)
		return 0;
	split_page(block, SIM_BLOCK_ORDER);
	for (i = 0; i < SIM_FAULT_PAGES; i++)
		pages[i] = block + i;
	return i;
}

static int sim_mem_batch_get(struct sim_buffer *buffer, u32 place, struct page **pages,
			     unsigned int n_pages, bool evict)
{
	/* As many pages go back at once: the limit of a full group stops no eviction. */
	gfp_t gfp = GFP_USER | __GFP_ACCOUNT | __GFP_ZERO | __GFP_NOWARN | __GFP_RETRY_MAYFAIL |
		    (evict ? __GFP_HIGH : 0);
	struct mem_cgroup *old = set_active_memcg(buffer->memcg);
	unsigned int i = 0, j;
	int r;

	if (SIM_BLOCKS && sim_huge && n_pages == SIM_FAULT_PAGES)
		i = sim_mem_block_get(pages);
	for (j = 0; j < i; j++)
		set_page_private(pages[j], (unsigned long)buffer | place);
	for (; i < n_pages; i++) {
		pages[i] = alloc_page(gfp);
		if (!pages[i]) {
			r = -ENOMEM;
			goto err_free;
		}
		set_page_private(pages[i], (unsigned long)buffer | place);
	}
	r = sim_cache_set(pages, n_pages, buffer->cache);
	if (r)
		goto err_free;
	set_active_memcg(old);
	return 0;

err_free:
	while (i--) {
		__free_page(pages[i]);
		pages[i] = NULL;
	}
	set_active_memcg(old);
	return r;
}

/* How many pages more there will be in VRAM than before. */
static u64 sim_mem_more_in_vram(u32 place, u64 n_pages, const u64 *leaving)
{
	u64 less = leaving ? leaving[HETSIM_PLACE_VRAM] + leaving[HETSIM_PLACE_WINDOW] : 0;

	return place == HETSIM_PLACE_SYSTEM ? 0 : n_pages - min(n_pages, less);
}

/*
 * Fills @pages from @first on with zeroed pages, counted in @place, charged to the control
 * group of the buffer's maker.
 * @leaving: by place, the number of pages that these replace, and that soon go; NULL: none.
 * @evict: to make room for other openers, who do not meet the maker's injected faults.
 * @lack: {} at first; -ENOSPC leaves the missing room there for sim_mem_make_room(), after
 * which the caller makes the same call again.
 */
int sim_mem_pages_get(struct sim_buffer *buffer, u32 place, struct page **pages, u64 first,
		      u64 n_pages, const u64 *leaving, bool evict, struct sim_lack *lack)
{
	u64 charged = sim_mem_more_in_vram(place, n_pages, leaving), done = 0;
	bool again = lack->n_pages;
	int r;

	if (!evict && !again && sim_inject_due(&buffer->account->enomem))
		return -ENOMEM;
	if (!evict && !again && sim_inject_due(&buffer->account->eintr))
		return -EINTR;
	r = sim_mem_reserve(buffer->dev, buffer->account, place, n_pages, leaving, evict, lack);
	if (r)
		return r;
	r = sim_dmem_charge(buffer, charged);
	if (r) {
		lack->n_pages = 0; /* no room of other openers helps */
		charged = 0;
		goto err_put;
	}
	while (done < n_pages) {
		/* To the end of a block, if there are as many. */
		unsigned int n = min_t(u64, n_pages - done,
				       SIM_MEM_BATCH - (first + done) % SIM_MEM_BATCH);

		/* Other callers may come too often for the call to get to its end between them. */
		if (fatal_signal_pending(current)) {
			r = -EINTR;
			goto err_put;
		}
		r = sim_mem_batch_get(buffer, place, pages + first + done, n, evict);
		if (r)
			goto err_put;
		done += n;
		cond_resched();
	}
	return 0;

err_put:
	sim_mem_pages_put(buffer, pages + first, done);
	sim_mem_release(buffer->dev, buffer->account, place, n_pages - done);
	sim_dmem_uncharge(buffer, charged);
	return r;
}

/*
 * Gives pages back: they count no more. A page that pread() or pwrite() is still copying goes when
 * that is done, because it holds a reference.
 */
void sim_mem_pages_put(struct sim_buffer *buffer, struct page **pages, u64 n_pages)
{
	while (n_pages) {
		unsigned int n = min_t(u64, n_pages, SIM_MEM_BATCH), i;
		u64 in[SIM_N_PLACES] = {};

		sim_cache_reset(pages, n, buffer->cache);
		for (i = 0; i < n; i++) {
			in[sim_page_place(pages[i])]++;
			set_page_private(pages[i], 0);
			put_page(pages[i]);
			pages[i] = NULL;
		}
		for (i = 0; i < SIM_N_PLACES; i++)
			sim_mem_release(buffer->dev, buffer->account, i, in[i]);
		pages += n;
		n_pages -= n;
		cond_resched();
	}
}

/* Sums pages as the limits count them: the window is a part of VRAM. */
static u64 sim_pins_in(const u64 *in, u32 place)
{
	return in[place] + (place == HETSIM_PLACE_VRAM ? in[HETSIM_PLACE_WINDOW] : 0);
}

static bool sim_pins_have_room(u64 most, const u64 *pinned, const u64 *more, u32 place)
{
	return sim_pins_in(more, place) <= most - min(most, sim_pins_in(pinned, place));
}

/* With dev->memory_lock held. */
static bool sim_pins_fit(const struct sim_buffer *buffer, const u64 *in)
{
	const struct sim_account *account = buffer->account;
	const struct sim_device *dev = buffer->dev;
	unsigned int i;

	lockdep_assert_held(&dev->memory_lock);
	for (i = 0; i < SIM_N_PLACES; i++) {
		u64 most = dev->memory.limit[i] / 2;

		if (i != HETSIM_PLACE_SYSTEM &&
		    (!sim_pins_have_room(most, dev->pages_pinned, in, i) ||
		     !sim_pins_have_room(most / 2, account->pages_pinned, in, i)))
			return false;
	}
	return true;
}

static int sim_pins_add(struct sim_buffer *buffer, const u64 *in, bool must)
{
	struct sim_account *account = buffer->account;
	struct sim_device *dev = buffer->dev;
	unsigned int i;
	int r;

	spin_lock(&dev->memory_lock);
	r = must || sim_pins_fit(buffer, in) ? 0 : -ENOSPC;
	for (i = 0; i < SIM_N_PLACES && !r; i++) {
		dev->pages_pinned[i] += in[i];
		account->pages_pinned[i] += in[i];
	}
	spin_unlock(&dev->memory_lock);
	return r;
}

/*
 * Pages that importers have the addresses of make no room. Half of VRAM, its window included,
 * and half of the window itself, therefore stays for openers that import nothing, and half of
 * the rest for exports of other makers than this buffer's. @must: the pin can't be refused.
 * With buffer->lock held for writing, as for the functions below.
 */
int sim_mem_pin(struct sim_buffer *buffer, bool must)
{
	int r = buffer->n_pins ? 0 : sim_pins_add(buffer, buffer->pages_in, must);

	if (!r)
		WRITE_ONCE(buffer->n_pins, buffer->n_pins + 1);
	return r;
}

/* Pages that a buffer gets in its place while it is pinned are so, too. */
int sim_mem_pin_more(struct sim_buffer *buffer, u64 n_pages)
{
	u64 in[SIM_N_PLACES] = {};

	in[buffer->place] = n_pages;
	return buffer->n_pins ? sim_pins_add(buffer, in, false) : 0;
}

/* A look, for a caller that would evict pages for nothing. Needs no lock of the buffer's. */
bool sim_mem_may_pin_more(struct sim_buffer *buffer, u64 n_pages)
{
	u64 in[SIM_N_PLACES] = {};
	bool fits;

	if (!READ_ONCE(buffer->n_pins))
		return true;
	in[buffer->place] = n_pages;
	spin_lock(&buffer->dev->memory_lock);
	fits = sim_pins_fit(buffer, in);
	spin_unlock(&buffer->dev->memory_lock);
	return fits;
}

void sim_mem_unpin(struct sim_buffer *buffer)
{
	struct sim_device *dev = buffer->dev;
	unsigned int i;

	WRITE_ONCE(buffer->n_pins, buffer->n_pins - 1);
	if (buffer->n_pins)
		return;
	spin_lock(&dev->memory_lock);
	for (i = 0; i < SIM_N_PLACES; i++) {
		dev->pages_pinned[i] -= buffer->pages_in[i];
		buffer->account->pages_pinned[i] -= buffer->pages_in[i];
	}
	spin_unlock(&dev->memory_lock);
}
