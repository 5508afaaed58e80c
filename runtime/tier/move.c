// SPDX-License-Identifier: MIT
/*
 * move_pages(2) reaches pages by the entries of this process only, so the entries are made first.
 * What it says of a page is not believed: the nodes of the pages are asked for afterwards.
 */
#include "tier/move.h"

#include <errno.h>
#include <inttypes.h>

#include "base/compat.h"
#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"

#define PAGE 4096ull
#define BATCH 64u /* pages of one call */

struct batch {
	void *pages[BATCH];
	int status[BATCH];
	uint32_t n;
};

static int explain(uint64_t address, uint32_t node, int r)
{
	switch (r) {
	case -ENODEV:
		return err_set(r, "pages can't move to node %u: it is not there, or offline",
			       node);
	case -EACCES:
		return err_set(r,
			       "pages can't move to node %u: this process may not use it, see "
			       "Mems_allowed in /proc/self/status",
			       node);
	case -ENOSYS:
		return err_set(-EOPNOTSUPP, "this kernel moves no pages between NUMA nodes");
	default:
		return err_set(r, "pages at 0x%" PRIx64 " can't move to node %u: %s", address,
			       node, err_name(r));
	}
}

/*
 * Calls @each with the pages of the range that are in memory, by batches, once they have entries.
 */
static int each_batch(uint64_t address, uint64_t length,
		      int (*each)(void *user, struct batch *batch), void *user)
{
	uint64_t at, end = address + length, n, i;
	unsigned char resident[BATCH];
	struct batch batch;
	int r = 0;

	for (at = address; at < end && !r; at += n * PAGE) {
		n = min_u64((end - at) / PAGE, BATCH);
		r = sys_mincore((void *)(uintptr_t)at, n * PAGE, resident);
		if (r == -ENOMEM)
			return err_set(-EFAULT, "nothing is mapped at 0x%" PRIx64, at);
		if (r)
			return err_set(r, "which pages at 0x%" PRIx64 " are in memory: %s", at,
				       err_name(r));
		batch.n = 0;
		for (i = 0; i < n; i++) {
			void *page = (void *)(uintptr_t)(at + i * PAGE);

			/* A page that goes meanwhile, or a kernel before 5.14: it stays. */
			if (!(resident[i] & 1))
				continue;
			batch.pages[batch.n++] = page;
		}
		if (batch.n == n)
			sys_madvise((void *)(uintptr_t)at, n * PAGE, MADV_POPULATE_READ);
		else
			for (i = 0; i < batch.n; i++)
				sys_madvise(batch.pages[i], PAGE, MADV_POPULATE_READ);
		if (batch.n)
			r = each(user, &batch);
	}
	return r;
}

/* ---- moves ---- */

struct move {
	uint32_t node;
	struct tier_moved *moved;
};

/* Leaves the pages that are elsewhere in the batch. */
static void drop_those_there(struct batch *batch, struct move *move)
{
	uint32_t i, n = 0;

	for (i = 0; i < batch->n; i++) {
		if (batch->status[i] == (int)move->node)
			move->moved->there += PAGE;
		else
			batch->pages[n++] = batch->pages[i];
	}
	batch->n = n;
}

static int move_batch(void *user, struct batch *batch)
{
	struct move *move = user;
	int nodes[BATCH], refusals[BATCH];
	uint32_t i;
	int r;

	r = sys_page_nodes(batch->pages, batch->n, batch->status);
	if (r)
		return explain((uintptr_t)batch->pages[0], move->node, r);
	drop_those_there(batch, move);
	if (!batch->n)
		return 0;
	for (i = 0; i < batch->n; i++) {
		nodes[i] = (int)move->node;
		refusals[i] = -EBUSY; /* where the kernel gave up before the page */
	}
	r = sys_move_pages(batch->pages, batch->n, nodes, refusals);
	/* -ENOENT: no page of them was there any more. */
	if (r < 0 && r != -ENOENT && r != -ENOMEM && r != -EBUSY)
		return explain((uintptr_t)batch->pages[0], move->node, r);
	if (sys_page_nodes(batch->pages, batch->n, batch->status))
		return 0;
	for (i = 0; i < batch->n; i++) {
		if (batch->status[i] == (int)move->node) {
			move->moved->moved += PAGE;
			continue;
		}
		move->moved->refused += PAGE;
		move->moved->why = refusals[i] < 0 ? refusals[i] : r < 0 ? r : -EBUSY;
	}
	return 0;
}

int tier_move(uint64_t address, uint64_t length, uint32_t node, struct tier_moved *moved)
{
	struct move move = { node, moved };

	return each_batch(address, length, move_batch, &move);
}

/* ---- counts ---- */

struct count {
	uint32_t a, b;
	struct tier_census *census;
};

static int count_batch(void *user, struct batch *batch)
{
	const struct count *count = user;
	uint32_t i;
	int r = sys_page_nodes(batch->pages, batch->n, batch->status);

	if (r)
		return explain((uintptr_t)batch->pages[0], count->a, r);
	for (i = 0; i < batch->n; i++) {
		if (batch->status[i] == (int)count->a)
			count->census->a += PAGE;
		else if (batch->status[i] == (int)count->b)
			count->census->b += PAGE;
		else
			count->census->other += PAGE;
	}
	return 0;
}

int tier_count(uint64_t address, uint64_t length, uint32_t a, uint32_t b,
	       struct tier_census *ret_census)
{
	struct tier_census census = { 0 };
	struct count count = { a, b, &census };
	int r = each_batch(address, length, count_batch, &count);

	if (!r)
		*ret_census = census;
	return r;
}
