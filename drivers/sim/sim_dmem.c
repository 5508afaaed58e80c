// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The control group for device memory (dmem, since Linux 6.14): pages of buffers in VRAM are
 * charged to the group of the caller that brings them there, and given back as they leave it.
 *
 * The kernel takes back a charge as a whole only, and pages leave one by one: each page is a charge
 * of its own. A buffer counts its charges by pools, most of the time one.
 */
#include <linux/cgroup_dmem.h>
#include <linux/slab.h>

#include "sim.h"

#define SIM_DMEM_BATCH 512u /* charges between chances for other tasks */

struct sim_dmem_charges {
	struct list_head link; /* in sim_buffer.charges: the newest are first */
	struct dmem_cgroup_pool_state *pool;
	u64 n_pages;
};

/* A region is there until sim_dmem_exit(), with which all charges are gone. */
int sim_dmem_init(struct sim_device *dev)
{
	u64 bytes = dev->memory.limit[HETSIM_PLACE_VRAM] << PAGE_SHIFT;
	struct dmem_cgroup_region *region;

	region = dmem_cgroup_register_region(bytes, "%s/vram", dev->name);
	if (IS_ERR(region))
		return PTR_ERR(region);
	dev->dmem = region;
	return 0;
}

void sim_dmem_exit(struct sim_device *dev)
{
	dmem_cgroup_unregister_region(dev->dmem);
}

/* Makes @pool the one that the buffer's newest charges are counted by. */
static int sim_dmem_turn_to(struct sim_buffer *buffer, struct dmem_cgroup_pool_state *pool)
{
	struct sim_dmem_charges *charges;

	charges = list_first_entry_or_null(&buffer->charges, struct sim_dmem_charges, link);
	if (charges && charges->pool == pool)
		return 0;
	charges = kzalloc(sizeof(*charges), SIM_GFP);
	if (!charges)
		return -ENOMEM;
	charges->pool = pool;
	list_add(&charges->link, &buffer->charges);
	return 0;
}

static int sim_dmem_charge_page(struct sim_buffer *buffer)
{
	struct dmem_cgroup_pool_state *pool;
	int r;

	r = dmem_cgroup_try_charge(buffer->dev->dmem, PAGE_SIZE, &pool, NULL);
	if (r)
		return r == -EAGAIN ? -ENOSPC : r;
	r = sim_dmem_turn_to(buffer, pool);
	if (r) {
		dmem_cgroup_uncharge(pool, PAGE_SIZE);
		return r;
	}
	list_first_entry(&buffer->charges, struct sim_dmem_charges, link)->n_pages++;
	buffer->n_charged++;
	return 0;
}

/*
 * Charges the caller's group with buffer->change held, or before a look-up finds the buffer: so for
 * the functions below. -ENOSPC: the group has no more, and no other opener's room would help.
 */
int sim_dmem_charge(struct sim_buffer *buffer, u64 n_pages)
{
	u64 i;
	int r;

	if (!buffer->dev->dmem)
		return 0;
	for (i = 0; i < n_pages; i++) {
		r = sim_dmem_charge_page(buffer);
		if (r) {
			sim_dmem_uncharge(buffer, i);
			return r;
		}
		if (i % SIM_DMEM_BATCH == SIM_DMEM_BATCH - 1)
			cond_resched();
	}
	return 0;
}

/* Gives back as many charges, if there are so many, from the newest on. */
void sim_dmem_uncharge(struct sim_buffer *buffer, u64 n_pages)
{
	struct sim_dmem_charges *charges;

	for (n_pages = min(n_pages, buffer->n_charged); n_pages; n_pages--) {
		charges = list_first_entry(&buffer->charges, struct sim_dmem_charges, link);
		dmem_cgroup_uncharge(charges->pool, PAGE_SIZE);
		buffer->n_charged--;
		if (!--charges->n_pages) {
			list_del(&charges->link);
			kfree(charges);
		}
		if (n_pages % SIM_DMEM_BATCH == 0)
			cond_resched();
	}
}

/* Pages of the buffer have left VRAM, or never came. */
void sim_dmem_settle(struct sim_buffer *buffer)
{
	u64 n_pages = buffer->pages_in[HETSIM_PLACE_VRAM] +
		      buffer->pages_in[HETSIM_PLACE_WINDOW];

	if (buffer->n_charged > n_pages)
		sim_dmem_uncharge(buffer, buffer->n_charged - n_pages);
}
