// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The stores of all devices: making them of a BAR, or of addresses without memory, and taking and
 * giving pages.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/ioport.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "sim_mirror.h"
#include "sim_store.h"

static struct sim_store *sim_stores[SIM_MAX_DEVICES];
static struct pci_dev *sim_bar_device; /* with a reference */
static int sim_bar = -1; /* its BAR that was requested */

/* The store of a device; NULL: its pages are used where they are. */
struct sim_store *sim_store_of(unsigned int index)
{
	return sim_stores[index];
}

enum hetsim_migration sim_store_form(const struct sim_store *store)
{
	return store ? store->form : HETSIM_MIGRATION_NONE;
}

u64 sim_store_bytes(const struct sim_store *store)
{
	return store ? (u64)store->n_pages << PAGE_SHIFT : 0;
}

/* The page that has the bytes of a page of the process, which the device may be the owner of. */
struct page *sim_store_memory(const struct sim_store *store, struct page *page,
			      bool *ret_on_device)
{
	*ret_on_device = sim_store_has(store, page);
	return *ret_on_device ? sim_store_page_of(page)->memory : page;
}

/* ---- pages that are given back ---- */

static void sim_store_give(struct sim_store *store, struct sim_store_page *given)
{
	unsigned long index = given - store->pages;
	struct page *page = pfn_to_page(store->first + index);
	struct sim_account *account;
	bool last;

	if (given->memory != page)
		__free_page(given->memory);
	spin_lock(&store->lock);
	account = given->account;
	given->account = NULL;
	spin_unlock(&store->lock);
	sim_mem_release(given->dev, account, HETSIM_PLACE_VRAM, 1);
	sim_account_put(account);
	sim_device_put(given->dev);

	spin_lock(&store->lock);
	__clear_bit(index, store->used);
	last = !--store->n_used;
	spin_unlock(&store->lock);
	/* Unloading waits for the worker, and for the calls that have come here. */
	if (last)
		module_put(THIS_MODULE);
}

static void sim_store_drain_work(struct work_struct *work)
{
	struct sim_store *store = container_of(work, struct sim_store, drain);
	struct sim_store_page *given, *next;

	llist_for_each_entry_safe(given, next, llist_del_all(&store->freed), freed)
		sim_store_give(store, given);
}

/*
 * Waits until all pages that were given back so far count as free. The caller holds no lock that
 * sim_device_free() waits for: not mmap_lock.
 */
void sim_store_drain(struct sim_store *store)
{
	if (store)
		flush_work(&store->drain);
}

static void sim_store_free(struct page *page)
{
	struct sim_store_page *given = sim_store_page_of(page);

	llist_add(&given->freed, &given->store->freed);
	schedule_work(&given->store->drain);
}

#ifdef HAVE_FOLIO_FREE
static void sim_store_folio_free(struct folio *folio)
{
	sim_store_free(&folio->page);
}
#endif

static const struct dev_pagemap_ops sim_store_ops = {
#ifdef HAVE_FOLIO_FREE
	.folio_free = sim_store_folio_free,
#else
	.page_free = sim_store_free,
#endif
	.migrate_to_ram = sim_return_fault,
};

/* ---- taking pages ---- */

/* Counts a page that is free as used. False: there is none. */
static bool sim_store_mark(struct sim_store *store, unsigned long *ret_index)
{
	unsigned long index;

	spin_lock(&store->lock);
	index = find_next_zero_bit(store->used, store->n_pages, store->next);
	if (index >= store->n_pages)
		index = find_first_zero_bit(store->used, store->n_pages);
	if (index < store->n_pages) {
		__set_bit(index, store->used);
		if (!store->n_used++)
			__module_get(THIS_MODULE);
		store->next = index + 1;
		store->block_uses[index / SIM_STORE_BLOCK] = ++store->clock;
	}
	spin_unlock(&store->lock);
	*ret_index = index;
	return index < store->n_pages;
}

static void sim_store_unmark(struct sim_store *store, unsigned long index)
{
	spin_lock(&store->lock);
	__clear_bit(index, store->used);
	/* The caller's open file holds the module, too. */
	if (!--store->n_used)
		module_put(THIS_MODULE);
	spin_unlock(&store->lock);
}

/* The memory of a page: the page itself, where the processor reaches it. */
static struct page *sim_store_memory_new(struct sim_store *store, struct sim_mirror *mirror,
					 struct page *page)
{
	struct mem_cgroup *old;
	struct page *memory;

	if (store->form == HETSIM_MIGRATION_COHERENT)
		return page;
	old = set_active_memcg(mirror->memcg);
	memory = alloc_page(GFP_HIGHUSER | __GFP_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	set_active_memcg(old);
	return memory;
}

static int sim_store_count(struct sim_mirror *mirror)
{
	struct sim_lack lack = {};

	if (READ_ONCE(mirror->dev->gone))
		return -ENODEV;
	if (sim_inject_due(&mirror->account->enomem))
		return -ENOMEM;
	return sim_mem_reserve(mirror->dev, mirror->account, HETSIM_PLACE_VRAM, 1, NULL, false,
			       &lack);
}

/*
 * Takes a page for a page of the process at @address, locked, with one reference, counted for the
 * mirror's opener. NULL: there is no room, or no memory. With mirror->lock and mmap_lock held.
 */
struct page *sim_store_take(struct sim_store *store, struct sim_mirror *mirror, u64 address)
{
	struct sim_store_page *taken;
	unsigned long index;
	struct page *page;

	if (sim_store_count(mirror))
		return NULL;
	if (!sim_store_mark(store, &index))
		goto err_release;
	page = pfn_to_page(store->first + index);
	taken = &store->pages[index];
	taken->memory = sim_store_memory_new(store, mirror, page);
	if (!taken->memory)
		goto err_unmark;
	kref_get(&mirror->account->ref);
	kref_get(&mirror->dev->ref);
	taken->dev = mirror->dev;
	taken->address = address;
	sim_zone_page_init(page, &store->pagemap);
	page->zone_device_data = taken;
	spin_lock(&store->lock);
	taken->account = mirror->account;
	spin_unlock(&store->lock);
	return page;

err_unmark:
	sim_store_unmark(store, index);
err_release:
	sim_mem_release(mirror->dev, mirror->account, HETSIM_PLACE_VRAM, 1);
	return NULL;
}

/* ---- finding pages ---- */

/*
 * The block whose last page was taken longest ago, and which counts as the newest afterwards: it
 * may have pages that can't move. False: no page is used.
 */
bool sim_store_oldest(struct sim_store *store, unsigned long *ret_first)
{
	unsigned long n = DIV_ROUND_UP(store->n_pages, SIM_STORE_BLOCK), i, best = n;

	spin_lock(&store->lock);
	for (i = 0; i < n; i++) {
		unsigned long first = i * SIM_STORE_BLOCK;
		unsigned long end = min(first + SIM_STORE_BLOCK, store->n_pages);

		if (find_next_bit(store->used, end, first) >= end)
			continue;
		if (best == n || store->block_uses[i] < store->block_uses[best])
			best = i;
	}
	if (best < n)
		store->block_uses[best] = ++store->clock;
	spin_unlock(&store->lock);
	*ret_first = best * SIM_STORE_BLOCK;
	return best < n;
}

/*
 * The next pages from *@at on, before @end, that are used in a row: of one device and opener,
 * unless these are NULL. Returns their number, up to a block's; 0: there are no more.
 */
unsigned int sim_store_run(struct sim_store *store, unsigned long *at, unsigned long end,
			   const struct sim_device *dev, const struct sim_account *account)
{
	unsigned long i = *at;
	unsigned int n = 0;

	spin_lock(&store->lock);
	for (i = find_next_bit(store->used, end, i); i < end && n < SIM_STORE_BLOCK; i++) {
		const struct sim_store_page *page = &store->pages[i];
		bool is = test_bit(i, store->used) && page->account &&
			  (!dev || page->dev == dev) && (!account || page->account == account);

		if (!is && n)
			break;
		if (is && !n)
			*at = i;
		n += is;
	}
	spin_unlock(&store->lock);
	return n;
}

/* ---- making and ending stores ---- */

static void sim_store_delete(struct sim_store *store)
{
	if (!store)
		return;
	bitmap_free(store->used);
	kvfree(store->block_uses);
	kvfree(store->pages);
	mutex_destroy(&store->returning);
	kvfree(store);
}

static struct sim_store *sim_store_new(enum hetsim_migration form, unsigned long n_pages)
{
	unsigned long most = n_pages / PAGES_PER_SECTION + 2, i; /* ranges */
	struct sim_store *store;

	store = kvzalloc(struct_size(store, pagemap.ranges, most), GFP_KERNEL);
	if (!store)
		return NULL;
	store->form = form;
	store->n_pages = n_pages;
	mutex_init(&store->returning);
	spin_lock_init(&store->lock);
	init_llist_head(&store->freed);
	INIT_WORK(&store->drain, sim_store_drain_work);
	store->pages = kvcalloc(n_pages, sizeof(*store->pages), GFP_KERNEL);
	store->used = bitmap_zalloc(n_pages, GFP_KERNEL);
	store->block_uses = kvcalloc(DIV_ROUND_UP(n_pages, SIM_STORE_BLOCK),
				     sizeof(*store->block_uses), GFP_KERNEL);
	if (!store->pages || !store->used || !store->block_uses) {
		sim_store_delete(store);
		return NULL;
	}
	for (i = 0; i < n_pages; i++)
		store->pages[i].store = store;
	return store;
}

/*
 * Makes struct pages for physical addresses, from @start on. Each section is a range of its own:
 * where there is no memory for one, the kernel undoes the ranges before it, but not the sections
 * that it has added of a longer one.
 */
static int sim_store_map(struct sim_store *store, u64 start)
{
	u64 section = (u64)PAGES_PER_SECTION << PAGE_SHIFT, end = start + sim_store_bytes(store);
	u64 at, next;
	int n = 0;
	void *r;

	for (at = start; at < end; at = next) {
		next = min(ALIGN_DOWN(at, section) + section, end);
		store->pagemap.ranges[n++] = (struct range){ .start = at, .end = next - 1 };
	}

	store->pagemap.type = store->form == HETSIM_MIGRATION_COHERENT ?
				      MEMORY_DEVICE_COHERENT : MEMORY_DEVICE_PRIVATE;
	store->pagemap.nr_range = n;
	store->pagemap.ops = &sim_store_ops;
	store->pagemap.owner = store;
	store->first = start >> PAGE_SHIFT;
	r = memremap_pages(&store->pagemap, numa_node_id());
	return PTR_ERR_OR_ZERO(r);
}

/* The kernel has made it of whole sections: it may be larger than the store. */
static void sim_region_release(struct resource *region)
{
	release_mem_region(region->start, resource_size(region));
}

/* Addresses without memory: CPUs never use them. */
static int sim_store_private(unsigned int index, unsigned int mb)
{
	struct sim_store *store = sim_store_new(HETSIM_MIGRATION_PRIVATE,
						(unsigned long)mb << (20 - PAGE_SHIFT));
	int r;

	if (!store)
		return -ENOMEM;
	store->region = request_free_mem_region(&iomem_resource, sim_store_bytes(store), "hetsim");
	if (IS_ERR(store->region)) {
		r = PTR_ERR(store->region);
		goto err_delete;
	}
	r = sim_store_map(store, store->region->start);
	if (r)
		goto err_region;
	sim_stores[index] = store;
	return 0;

err_region:
	sim_region_release(store->region);
err_delete:
	sim_store_delete(store);
	return r;
}

/* A device's part of the BAR. */
static int sim_store_coherent(unsigned int index, u64 start, u64 length)
{
	struct sim_store *store = sim_store_new(HETSIM_MIGRATION_COHERENT, length >> PAGE_SHIFT);
	int r;

	if (!store)
		return -ENOMEM;
	r = sim_store_map(store, start);
	if (r) {
		sim_store_delete(store);
		return r;
	}
	sim_stores[index] = store;
	return 0;
}

/* The device at a PCI address, with a reference. -EINVAL, -ENODEV. */
static int sim_bar_find(const char *address, struct pci_dev **ret_device)
{
	unsigned int domain, bus, slot, function;
	char end;

	if (sscanf(address, "%x:%x:%x.%x%c", &domain, &bus, &slot, &function, &end) != 4 ||
	    bus > 0xff || slot > 0x1f || function > 7) {
		pr_err("bar=%s: not a PCI address like 0000:00:04.0\n", address);
		return -EINVAL;
	}
	*ret_device = pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, function));
	if (!*ret_device) {
		pr_err("bar=%s: no such device\n", address);
		return -ENODEV;
	}
	return 0;
}

/* The largest BAR of memory that is behind one address. -ENODEV. */
static int sim_bar_choose(struct pci_dev *device)
{
	int i, best = -ENODEV;

	for (i = 0; i < PCI_STD_NUM_BARS; i++) {
		if (!(pci_resource_flags(device, i) & IORESOURCE_MEM) ||
		    !pci_resource_start(device, i))
			continue;
		if (best < 0 || pci_resource_len(device, i) > pci_resource_len(device, best))
			best = i;
	}
	return best;
}

static int sim_bar_take(const char *address)
{
	struct pci_dev *device;
	int bar, r;

	r = sim_bar_find(address, &device);
	if (r)
		return r;
	bar = sim_bar_choose(device);
	if (bar < 0 || device->driver) {
		pr_err("bar=%s: it has no memory, or a driver\n", address);
		r = bar < 0 ? bar : -EBUSY;
		goto err_put;
	}
	r = pci_enable_device_mem(device);
	if (r)
		goto err_put;
	r = pci_request_region(device, bar, "hetsim");
	if (r) {
		pci_disable_device(device);
		goto err_put;
	}
	sim_bar_device = device;
	sim_bar = bar;
	return 0;

err_put:
	pci_dev_put(device);
	return r;
}

/* The stores' memory is one BAR in equal parts of whole blocks. */
static int sim_stores_of_bar(unsigned int n_devices, const char *address)
{
	u64 start, part;
	unsigned int i;
	int r;

	r = sim_bar_take(address);
	if (r)
		return r;
	start = ALIGN(pci_resource_start(sim_bar_device, sim_bar), SZ_2M);
	part = pci_resource_end(sim_bar_device, sim_bar) + 1;
	part = part > start ? ALIGN_DOWN((part - start) / n_devices, SZ_2M) : 0;
	if (!part) {
		pr_err("bar=%s: less than 2 MiB for each device\n", address);
		return -ENOSPC;
	}
	for (i = 0; i < n_devices && !r; i++)
		r = sim_store_coherent(i, start + i * part, part);
	return r;
}

/* @bar: a PCI address; NULL: none. @mb: of each device, where the kernel has DEVICE_PRIVATE. */
int sim_stores_init(unsigned int n_devices, const char *bar, unsigned int mb)
{
	unsigned int i;
	int r = 0;

	if (bar)
		r = sim_stores_of_bar(n_devices, bar);
	else if (IS_ENABLED(CONFIG_DEVICE_PRIVATE))
		for (i = 0; i < n_devices && mb && !r; i++)
			r = sim_store_private(i, mb);
	if (r) {
		pr_err("no memory that pages of processes move to: error %d\n", r);
		sim_stores_exit();
	}
	return r;
}

/* No page is used, as the module is not. */
void sim_stores_exit(void)
{
	unsigned int i;

	for (i = 0; i < SIM_MAX_DEVICES; i++) {
		struct sim_store *store = sim_stores[i];

		if (!store)
			continue;
		memunmap_pages(&store->pagemap);
		flush_work(&store->drain);
		if (store->region)
			sim_region_release(store->region);
		sim_store_delete(store);
		sim_stores[i] = NULL;
	}
	if (!sim_bar_device)
		return;
	pci_release_region(sim_bar_device, sim_bar);
	pci_disable_device(sim_bar_device);
	pci_dev_put(sim_bar_device);
	sim_bar_device = NULL;
}
