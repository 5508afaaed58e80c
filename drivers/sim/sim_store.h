/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The store of a device: memory that pages of processes move to. A store is there from insmod to
 * rmmod, and serves the device of its number, and the next one after an unplug. While a page of it
 * is used, the module can't be unloaded.
 *
 * The kernel gives a page back under any lock, or in an interrupt: it goes to a list that needs no
 * lock, and a worker does the rest. Nothing in this file waits for a device fault.
 */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include <linux/llist.h>
#include <linux/memremap.h>
#include <linux/migrate.h>
#include <linux/workqueue.h>

#include "sim.h"

#define SIM_STORE_BLOCK 512u /* pages that make room together */

struct sim_store;

struct sim_store_page {
	struct llist_node freed; /* in sim_store.freed */
	struct sim_store *store; /* never changes */
	/* The rest is set while the page is used. */
	struct page *memory; /* has the bytes */
	struct sim_account *account; /* counts it in VRAM; with a reference */
	struct sim_device *dev;	 /* the same */
	u64 address; /* of the process, when it moved here */
};

struct sim_store {
	enum hetsim_migration form; /* HETSIM_MIGRATION_NONE: there is none */
	struct resource *region; /* of addresses without memory; NULL: a BAR's */
	unsigned long first; /* page frame */
	unsigned long n_pages;
	struct sim_store_page *pages;

	struct mutex returning; /* protects the next two members; takes page locks by trylock */
	unsigned long from[SIM_STORE_BLOCK];
	unsigned long to[SIM_STORE_BLOCK];

	spinlock_t lock; /* protects the members up to block_uses, and sim_store_page.account */
	unsigned long *used; /* a bit for each page */
	unsigned long n_used;
	unsigned long next; /* where the search for a free one begins */
	u64 clock; /* ticks when a page is taken */
	u64 *block_uses; /* of each block: the time when a page of it was taken last */

	struct llist_head freed;
	struct work_struct drain;

	struct dev_pagemap pagemap; /* the last member: its ranges are behind it */
};

static inline bool sim_store_has(const struct sim_store *store, struct page *page)
{
	return store && page_to_pfn(page) - store->first < store->n_pages;
}

static inline struct sim_store_page *sim_store_page_of(struct page *page)
{
	return page->zone_device_data;
}

/* sim_store.c */
struct page *sim_store_take(struct sim_store *store, struct sim_mirror *mirror, u64 address);
void sim_store_drain(struct sim_store *store);
bool sim_store_oldest(struct sim_store *store, unsigned long *ret_first);
unsigned int sim_store_run(struct sim_store *store, unsigned long *at, unsigned long end,
			   const struct sim_device *dev, const struct sim_account *account);

/* sim_migrate.c */
bool sim_store_make_room(struct sim_store *store, struct sim_device *dev,
			 struct sim_account *account, u64 n_pages);

/* sim_return.c */
vm_fault_t sim_return_fault(struct vm_fault *vmf);
unsigned int sim_return_block(struct sim_store *store, unsigned long first);

#endif
