// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Pages that stand for the device's memory: limits, and taking and giving them.
 */
#include <linux/gfp.h>
#include <linux/sched/signal.h>

#include "sim.h"

#if IS_ENABLED(CONFIG_X86)
#include <asm/memtype.h>
#include <asm/set_memory.h>
#endif

/*
 * A page-table entry for RAM gets the page's own cache mode whatever a driver
 * asks for, so that mode is what has to change. Where the processor's table of
 * cache modes is off, combining is not to be had.
 */
unsigned int sim_cache_modes(void)
{
	unsigned int modes = 1u << HETSIM_CACHE_BACK;

	if (IS_ENABLED(CONFIG_X86) && pat_enabled())
		modes |= 1u << HETSIM_CACHE_COMBINE;
	return modes;
}

#if IS_ENABLED(CONFIG_X86)
static int sim_cache_set(struct page **pages, u64 n_pages, u32 cache)
{
	return cache == HETSIM_CACHE_COMBINE ? set_pages_array_wc(pages, n_pages) : 0;
}

static void sim_cache_reset(struct page **pages, u64 n_pages, u32 cache)
{
	if (cache == HETSIM_CACHE_COMBINE)
		set_pages_array_wb(pages, n_pages);
}
#else
static int sim_cache_set(struct page **pages, u64 n_pages, u32 cache)
{
	return 0;
}

static void sim_cache_reset(struct page **pages, u64 n_pages, u32 cache)
{
}
#endif

/* Counts the pages against the device's limit and the opener's. */
int sim_mem_reserve(struct sim_device *dev, struct sim_account *account, u32 place,
		    u64 n_pages)
{
	u64 mine = 0;
	int i, r = 0;

	spin_lock(&dev->memory_lock);
	for (i = 0; i < SIM_N_PLACES; i++)
		mine += account->pages_used[i];
	if (n_pages > dev->pages_limit[place] - dev->pages_used[place] ||
	    mine > dev->opener_pages || n_pages > dev->opener_pages - mine) {
		r = -ENOSPC;
	} else {
		dev->pages_used[place] += n_pages;
		account->pages_used[place] += n_pages;
	}
	spin_unlock(&dev->memory_lock);
	return r;
}

void sim_mem_release(struct sim_device *dev, struct sim_account *account, u32 place,
		     u64 n_pages)
{
	spin_lock(&dev->memory_lock);
	dev->pages_used[place] -= n_pages;
	account->pages_used[place] -= n_pages;
	spin_unlock(&dev->memory_lock);
}

/* How many pages change their cache mode, or go, between chances to stop. */
#define SIM_MEM_BATCH 512u

static int sim_mem_batch_get(struct page **pages, unsigned int n_pages, u32 cache)
{
	unsigned int i;
	int r;

	for (i = 0; i < n_pages; i++) {
		pages[i] = alloc_page(GFP_USER | __GFP_ACCOUNT | __GFP_ZERO |
				      __GFP_NOWARN | __GFP_RETRY_MAYFAIL);
		if (!pages[i]) {
			r = -ENOMEM;
			goto err_free;
		}
	}
	r = sim_cache_set(pages, n_pages, cache);
	if (r)
		goto err_free;
	return 0;

err_free:
	while (i--) {
		__free_page(pages[i]);
		pages[i] = NULL;
	}
	return r;
}

/*
 * Fills @pages with zeroed pages, charged to the caller's control group.
 * Not from high memory: the kernel's own map of it has no cache mode.
 */
int sim_mem_pages_get(struct page **pages, u64 n_pages, u32 cache)
{
	u64 done = 0;
	int r;

	while (done < n_pages) {
		unsigned int n = min_t(u64, n_pages - done, SIM_MEM_BATCH);

		if (signal_pending(current)) {
			r = -EINTR;
			goto err_put;
		}
		r = sim_mem_batch_get(pages + done, n, cache);
		if (r)
			goto err_put;
		done += n;
		cond_resched();
	}
	return 0;

err_put:
	sim_mem_pages_put(pages, done, cache);
	return r;
}

/*
 * Pages that pread() or pwrite() is still copying from or to are only given
 * back when that is done: it holds references.
 */
void sim_mem_pages_put(struct page **pages, u64 n_pages, u32 cache)
{
	while (n_pages) {
		unsigned int n = min_t(u64, n_pages, SIM_MEM_BATCH), i;

		sim_cache_reset(pages, n, cache);
		for (i = 0; i < n; i++) {
			put_page(pages[i]);
			pages[i] = NULL;
		}
		pages += n;
		n_pages -= n;
		cond_resched();
	}
}
