// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Moving pages between VRAM, the window in it that CPUs can reach, and system
 * memory: by command, and to make room.
 */
#include <linux/highmem.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "sim.h"
#include "sim_trace.h"

#define SIM_MOVE_BATCH 512u

/* Sets of places, as bits. */
#define SIM_PLACES_ALL (BIT(SIM_N_PLACES) - 1)

static bool sim_page_in(struct page *page, unsigned long places)
{
	return places & BIT(sim_page_place(page));
}

/*
 * Puts @fresh in the place of those of @n_pages that are in @from. Afterwards it
 * has the old ones. CPUs fault until it is over, the engine waits; neither has to
 * wait for anything but the copy. -EBUSY when other devices have the addresses.
 */
static int sim_pages_exchange(struct sim_buffer *buffer, u64 first, unsigned int n_pages,
			      unsigned long from, u32 place, struct page **fresh)
{
	unsigned int i, n = 0;

	down_write(&buffer->lock);
	if (buffer->n_pins) {
		up_write(&buffer->lock);
		return -EBUSY;
	}
	sim_mmap_revoke(buffer, first, n_pages);
	sim_va_rebind(buffer, first, n_pages, true);
	for (i = 0; i < n_pages; i++) {
		struct page **slot = &buffer->pages[first + i];
		struct page *old = *slot;

		if (!sim_page_in(old, from))
			continue;
		copy_highpage(fresh[n], old);
		buffer->pages_in[sim_page_place(old)]--;
		buffer->pages_in[place]++;
		*slot = fresh[n];
		fresh[n++] = old;
	}
	sim_va_rebind(buffer, first, n_pages, false);
	up_write(&buffer->lock);
	return 0;
}

/*
 * How many pages of a range are in @from; @ret_in: in each of them. With
 * buffer->change held.
 */
static unsigned int sim_pages_in(struct sim_buffer *buffer, u64 first, unsigned int n_pages,
				 unsigned long from, u64 *ret_in)
{
	unsigned int i, n = 0;

	memset(ret_in, 0, SIM_N_PLACES * sizeof(*ret_in));
	for (i = 0; i < n_pages; i++) {
		struct page *page = buffer->pages[first + i];

		if (!sim_page_in(page, from))
			continue;
		ret_in[sim_page_place(page)]++;
		n++;
	}
	return n;
}

/*
 * Moves what a range has in @from to @place, or as much as goes; the rest stays
 * as it is. With buffer->change held. @evict: to make room for others, as it is told.
 * *@ret_moved is set also when it fails.
 */
static int sim_pages_move(struct sim_buffer *buffer, u64 first, u64 n_pages,
			  unsigned long from, u32 place, bool evict, u64 *ret_moved)
{
	u64 in[SIM_N_PLACES], done;
	struct page **fresh;
	int r = 0;

	*ret_moved = 0;
	fresh = kvcalloc(SIM_MOVE_BATCH, sizeof(*fresh), GFP_KERNEL);
	if (!fresh)
		return -ENOMEM;
	for (done = 0; done < n_pages; done += SIM_MOVE_BATCH) {
		unsigned int batch = min_t(u64, n_pages - done, SIM_MOVE_BATCH);
		unsigned int n = sim_pages_in(buffer, first + done, batch, from, in);

		if (!n)
			continue;
		r = sim_mem_pages_get(buffer, place, fresh, 0, n, in, evict);
		if (r)
			break;
		r = sim_pages_exchange(buffer, first + done, batch, from, place, fresh);
		sim_mem_pages_put(buffer, fresh, n); /* the old ones, or these again */
		if (r)
			break;
		trace_move(buffer, first + done, n, place, evict);
		*ret_moved += n;
	}
	kvfree(fresh);
	sim_count(buffer->dev, buffer->account, SIM_BYTES_MOVED, *ret_moved << PAGE_SHIFT);
	return r;
}

/* Pages in which places are in the way in @place. */
static unsigned long sim_evict_from(u32 place)
{
	return BIT(HETSIM_PLACE_WINDOW) | BIT(place);
}

/* How many buffers one look through all of them finds: an opener may have many. */
#define SIM_EVICT_BATCH 32u

struct sim_evictee {
	struct sim_buffer *buffer; /* with a reference; NULL: on its way out already */
	s64 last_use;
};

/*
 * Fills @found with those not used for longest, of those last used after @after
 * and up to @until, in this order. Returns how many they are.
 */
static unsigned int sim_evict_find(struct sim_device *dev, u32 place, s64 after, s64 until,
				   struct sim_evictee *found)
{
	struct sim_buffer *buffer;
	unsigned long slot;
	unsigned int n = 0, i;

	/* Nothing that is found is freed before the lock is given up. */
	xa_lock(&dev->buffers);
	xa_for_each(&dev->buffers, slot, buffer) {
		s64 last_use = atomic64_read(&buffer->last_use);

		if (last_use <= after || last_use > until || READ_ONCE(buffer->n_pins))
			continue;
		if (!READ_ONCE(buffer->pages_in[place]) &&
		    !READ_ONCE(buffer->pages_in[HETSIM_PLACE_WINDOW]))
			continue;
		if (n == SIM_EVICT_BATCH && last_use >= found[n - 1].last_use)
			continue;
		for (i = n < SIM_EVICT_BATCH ? n++ : n - 1;
		     i && found[i - 1].last_use > last_use; i--)
			found[i] = found[i - 1];
		found[i].buffer = buffer;
		found[i].last_use = last_use;
	}
	for (i = 0; i < n; i++) {
		if (!kref_get_unless_zero(&found[i].buffer->ref))
			found[i].buffer = NULL;
	}
	xa_unlock(&dev->buffers);
	return n;
}

/* Moves up to @n_pages out of @place. Those at the buffer's end go first. */
static u64 sim_evict_buffer(struct sim_buffer *buffer, u32 place, u64 n_pages)
{
	u32 to = place == HETSIM_PLACE_WINDOW ? HETSIM_PLACE_VRAM : HETSIM_PLACE_SYSTEM;
	u64 first = buffer->n_pages, evicted = 0, moved;
	int r = 0;

	while (first && evicted < n_pages && !r) {
		unsigned int batch = min_t(u64, first, SIM_MOVE_BATCH);

		first -= batch;
		r = sim_pages_move(buffer, first, batch, sim_evict_from(place), to, true,
				   &moved);
		evicted += moved;
	}
	sim_count(buffer->dev, buffer->account, SIM_EVICTIONS, !!evicted);
	return evicted;
}

/* Moves so much of a buffer to system memory as if others had needed the room. */
int sim_evict_part(struct sim_buffer *buffer, u64 n_pages)
{
	if (mutex_lock_interruptible(&buffer->change))
		return -EINTR;
	sim_evict_buffer(buffer, HETSIM_PLACE_VRAM, n_pages);
	mutex_unlock(&buffer->change);
	return 0;
}

/*
 * Makes room in @place for @n_pages: true if it could make any. Whoever calls may
 * hold some buffer's change, so those of others are only tried.
 */
bool sim_evict(struct sim_device *dev, u32 place, u64 n_pages)
{
	s64 after = -1, until = atomic64_read(&dev->uses);
	struct sim_evictee found[SIM_EVICT_BATCH];
	u64 evicted = 0;

	while (evicted < n_pages && !fatal_signal_pending(current)) {
		unsigned int n = sim_evict_find(dev, place, after, until, found), i;

		if (!n)
			break;
		after = found[n - 1].last_use;
		for (i = 0; i < n; i++) {
			struct sim_buffer *buffer = found[i].buffer;

			if (!buffer)
				continue;
			if (evicted < n_pages && mutex_trylock(&buffer->change)) {
				evicted += sim_evict_buffer(buffer, place, n_pages - evicted);
				mutex_unlock(&buffer->change);
			}
			sim_buffer_put(buffer);
		}
		cond_resched();
	}
	return evicted;
}

int sim_buffer_move(struct file *file, void *argument)
{
	struct hetsim_buffer_move *move = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_buffer *buffer;
	u64 first, n_pages, end, moved;
	int r;

	if (move->flags || move->place >= SIM_N_PLACES || !move->length ||
	    (move->offset | move->length) & ~PAGE_MASK)
		return -EINVAL;
	if (check_add_overflow((u64)move->offset, (u64)move->length, &end))
		return -EOVERFLOW;
	if (!opener->dev->pages_limit[move->place])
		return -EOPNOTSUPP;
	buffer = sim_buffer_get(opener, move->handle);
	if (!buffer)
		return -ENOENT;
	if (mutex_lock_interruptible(&buffer->change)) {
		r = -EINTR;
		goto out_put;
	}
	if (buffer->import) {
		r = -EOPNOTSUPP;
		goto out_unlock;
	}
	first = move->offset >> PAGE_SHIFT;
	n_pages = move->length >> PAGE_SHIFT;
	if (end >> PAGE_SHIFT > buffer->n_pages) {
		r = -ERANGE;
		goto out_unlock;
	}
	/* Used now, so that making room for it does not begin with itself. */
	sim_buffer_used(buffer);
	r = sim_pages_move(buffer, first, n_pages, SIM_PLACES_ALL & ~BIT(move->place),
			   move->place, false, &moved);
	if (!r && n_pages == buffer->n_pages)
		WRITE_ONCE(buffer->place, move->place);
	sim_count(buffer->dev, buffer->account, SIM_MOVES, 1);
out_unlock:
	mutex_unlock(&buffer->change);
out_put:
	sim_buffer_put(buffer);
	return r;
}
