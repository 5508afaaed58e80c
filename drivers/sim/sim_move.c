// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Moving pages between VRAM, the window in it that CPUs can reach, and system
 * memory: by command, and to make room.
 */
#include <linux/highmem.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "sim_queue.h"
#include "sim_trace.h"

#define SIM_MOVE_BATCH 512u

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
 * Moves the pages of a range in @from to @place, as far as there is room; the rest stays
 * as it is. With buffer->change held. @evict: the trace says that this makes room;
 * @lack: as for sim_mem_pages_get(). *@ret_moved is set also when it fails.
 */
static int sim_pages_move(struct sim_buffer *buffer, u64 first, u64 n_pages,
			  unsigned long from, u32 place, bool evict, struct sim_lack *lack,
			  u64 *ret_moved)
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

		cond_resched();
		if (!n)
			continue;
		r = sim_mem_pages_get(buffer, place, fresh, 0, n, in, evict, lack);
		if (r)
			break;
		r = sim_pages_exchange(buffer, first + done, batch, from, place, fresh);
		sim_mem_pages_put(buffer, fresh, n); /* the old ones, or these again */
		sim_dmem_settle(buffer);
		if (r)
			break;
		trace_move(buffer, first + done, n, place, evict);
		*ret_moved += n;
	}
	kvfree(fresh);
	sim_count(buffer->dev, buffer->account, SIM_BYTES_MOVED, *ret_moved << PAGE_SHIFT);
	return r;
}

/* How many buffers one look through all of them finds: openers may have all that there can be. */
#define SIM_EVICT_BATCH 512u
#define SIM_EVICT_LOOKS 256u /* at buffers, while other tasks wait for the list */

struct sim_evictee {
	unsigned long slot;
	s64 last_use;
};

/* The least recently used buffers, in this order once sorted; up to twice as many before. */
struct sim_evictees {
	unsigned int n;
	s64 before; /* when those were last used that are still of interest */
	struct sim_evictee found[2 * SIM_EVICT_BATCH];
};

static int sim_evictees_compare(const void *a, const void *b)
{
	const struct sim_evictee *one = a, *other = b;

	return one->last_use < other->last_use ? -1 : one->last_use > other->last_use;
}

static void sim_evictees_sort(struct sim_evictees *list)
{
	sort(list->found, list->n, sizeof(*list->found), sim_evictees_compare, NULL);
	if (list->n < SIM_EVICT_BATCH)
		return;
	list->n = SIM_EVICT_BATCH;
	list->before = list->found[list->n - 1].last_use;
}

static void sim_evictees_add(struct sim_evictees *list, unsigned long slot, s64 last_use)
{
	if (last_use >= list->before)
		return;
	list->found[list->n].slot = slot;
	list->found[list->n++].last_use = last_use;
	if (list->n == ARRAY_SIZE(list->found))
		sim_evictees_sort(list);
}

static bool sim_evictable(struct sim_buffer *buffer, u32 place)
{
	return !READ_ONCE(buffer->n_pins) && (READ_ONCE(buffer->pages_in[place]) ||
					      READ_ONCE(buffer->pages_in[HETSIM_PLACE_WINDOW]));
}

/* Finds buffers, except @except, that were last used after @after. */
static void sim_evict_find(struct sim_buffer *except, u32 place, s64 after,
			   struct sim_evictees *list)
{
	struct sim_device *dev = except->dev;
	struct sim_buffer *buffer;
	unsigned int looks = 0;
	unsigned long slot;

	list->n = 0;
	list->before = S64_MAX;
	/* None is freed before the lock is given up. */
	xa_lock(&dev->buffers);
	xa_for_each(&dev->buffers, slot, buffer) {
		s64 last_use = atomic64_read(&buffer->last_use);

		if (buffer != except && last_use > after && sim_evictable(buffer, place))
			sim_evictees_add(list, slot, last_use);
		if (++looks % SIM_EVICT_LOOKS)
			continue;
		xa_unlock(&dev->buffers);
		cond_resched();
		xa_lock(&dev->buffers);
	}
	xa_unlock(&dev->buffers);
	sim_evictees_sort(list);
}

/*
 * The buffer with a reference. NULL if it has been let go since, and the buffer that is in its
 * slot now has no page to give. An import never has: its pages are another device's.
 */
static struct sim_buffer *sim_evictee_get(struct sim_device *dev, unsigned long slot, u32 place)
{
	struct sim_buffer *buffer;

	xa_lock(&dev->buffers);
	buffer = xa_load(&dev->buffers, slot);
	if (buffer && (!sim_evictable(buffer, place) || !kref_get_unless_zero(&buffer->ref)))
		buffer = NULL;
	xa_unlock(&dev->buffers);
	return buffer;
}

/*
 * Moves up to @n_pages out of @place, none of an import, as far as there is room for them.
 * The pages at the buffer's end go first. The result is the errno that kept more from moving.
 */
static int sim_evict_buffer(struct sim_buffer *buffer, u32 place, u64 n_pages,
			    u64 *ret_evicted)
{
	u32 to = sim_evict_to(place);
	u64 first = buffer->n_pages, evicted = 0, moved;
	unsigned int most = SIM_MOVE_BATCH;
	struct sim_lack lack = {};
	int r = 0;

	while (first && evicted < n_pages) {
		unsigned int batch = min_t(u64, first, most);

		r = sim_pages_move(buffer, first - batch, batch, sim_evict_from(place), to, true,
				   &lack, &moved);
		evicted += moved;
		if (r == -ENOSPC && batch > 1) {
			most = batch / 2;
			continue;
		}
		if (r)
			break;
		first -= batch;
	}
	atomic64_add(!!evicted, &buffer->n_evictions);
	sim_count(buffer->dev, buffer->account, SIM_EVICTIONS, !!evicted);
	*ret_evicted = evicted;
	return r;
}

/* Moves so much of a buffer to system memory as if another buffer had needed the room. */
int sim_evict_part(struct sim_buffer *buffer, u64 n_pages)
{
	u64 evicted;
	int r;

	if (mutex_lock_interruptible(&buffer->change))
		return -EINTR;
	r = sim_evict_buffer(buffer, HETSIM_PLACE_VRAM, n_pages, &evicted);
	mutex_unlock(&buffer->change);
	return r;
}

static int sim_buffer_try_pin(struct sim_buffer *buffer, bool must)
{
	int r;

	down_write(&buffer->lock);
	r = sim_mem_pin(buffer, must);
	up_write(&buffer->lock);
	return r;
}

/*
 * Pins a buffer for an access that can't be refused. Pages that may not be pinned in their place
 * go to system memory, where pins have no limit. Those that find no room there, and those of a
 * buffer that another task is changing, are pinned where they are: the caller holds the buffer's
 * dma_resv, under which nothing waits for a change.
 */
void sim_buffer_pin(struct sim_buffer *buffer)
{
	u64 evicted;

	if (!sim_buffer_try_pin(buffer, false))
		return;
	if (mutex_trylock(&buffer->change)) {
		sim_evict_buffer(buffer, HETSIM_PLACE_VRAM, buffer->n_pages, &evicted);
		mutex_unlock(&buffer->change);
	}
	sim_buffer_try_pin(buffer, true);
}

/*
 * Evicts out of the buffer that is in a slot by now. -EAGAIN: another task is changing it, and
 * only @wait waits for that; -ENOSPC: there is no room for pages of other buffers either.
 * Other causes are this buffer's own affair.
 */
static int sim_evict_slot(struct sim_device *dev, unsigned long slot, u32 place, u64 n_pages,
			  bool wait, u64 *ret_evicted)
{
	struct sim_buffer *buffer;
	int r;

	*ret_evicted = 0;
	if (fatal_signal_pending(current))
		return -EINTR;
	buffer = sim_evictee_get(dev, slot, place);
	if (!buffer)
		return 0;
	if (wait)
		r = mutex_lock_killable(&buffer->change);
	else
		r = mutex_trylock(&buffer->change) ? 0 : -EAGAIN;
	if (r)
		goto out_put;
	r = sim_evict_buffer(buffer, place, n_pages, ret_evicted);
	mutex_unlock(&buffer->change);
	/* Pages that leave the window count in VRAM twice until they are gone: that passes. */
	if (r != -EINTR && (r != -ENOSPC || place == HETSIM_PLACE_WINDOW))
		r = 0;
out_put:
	sim_buffer_put(buffer);
	return r;
}

/*
 * Evicts from the least recently used buffers on. Buffers that are used all the time come last, and
 * again, as long as one has pages to give. Adds to *@evicted, also when it fails, like
 * sim_evict_slot().
 */
static int sim_evict_in_order(struct sim_buffer *except, u32 place, u64 n_pages, bool wait,
			      struct sim_evictees *list, u64 *evicted)
{
	s64 after = -1, until = atomic64_read(&except->dev->uses);
	u64 before = *evicted, moved;
	bool busy = false;
	unsigned int i;
	int r;

	while (*evicted < n_pages && (*evicted > before || after <= until)) {
		sim_evict_find(except, place, after, list);
		if (!list->n)
			break;
		after = list->found[list->n - 1].last_use;
		before = *evicted;
		for (i = 0; i < list->n && *evicted < n_pages; i++) {
			r = sim_evict_slot(except->dev, list->found[i].slot, place,
					   n_pages - *evicted, wait, &moved);
			*evicted += moved;
			if (r && r != -EAGAIN)
				return r;
			busy |= r == -EAGAIN;
			cond_resched();
		}
	}
	return busy ? -EAGAIN : 0;
}

/*
 * Makes room in @place for @n_pages out of other buffers than @except, or as much as it can.
 * A change of a buffer may take long, as its owner's control group lets it. This waits for one
 * where the buffers without a change have not enough, so the caller holds no buffer's change.
 */
int sim_evict(struct sim_buffer *except, u32 place, u64 n_pages, u64 *ret_evicted)
{
	struct sim_evictees *list = kvmalloc(sizeof(*list), GFP_KERNEL);
	int r;

	*ret_evicted = 0;
	if (!list)
		return -ENOMEM;
	r = sim_evict_in_order(except, place, n_pages, false, list, ret_evicted);
	if (r == -EAGAIN && *ret_evicted < n_pages)
		r = sim_evict_in_order(except, place, n_pages, true, list, ret_evicted);
	kvfree(list);
	return r == -EINTR ? r : 0;
}

/* Moves a range as far as there is room; *@ret_moved as for sim_pages_move(). */
static int sim_move_range(struct sim_buffer *buffer, u64 first, u64 end, u32 place,
			  struct sim_lack *lack, u64 *ret_moved)
{
	int r;

	*ret_moved = 0;
	if (mutex_lock_interruptible(&buffer->change))
		return -EINTR;
	if (buffer->import) {
		r = -EOPNOTSUPP;
		goto out_unlock;
	}
	if (end > buffer->n_pages) {
		r = -ERANGE;
		goto out_unlock;
	}
	sim_buffer_used(buffer);
	r = sim_pages_move(buffer, first, end - first, SIM_PLACES_ALL & ~BIT(place), place, false,
			   lack, ret_moved);
	if (!r && !first && end == buffer->n_pages)
		WRITE_ONCE(buffer->place, place);
out_unlock:
	mutex_unlock(&buffer->change);
	return r;
}

static int sim_move_pages(struct sim_buffer *buffer, u64 first, u64 end, u32 place)
{
	struct sim_lack lack = {};
	u64 moved, total = 0;
	int r;

	do {
		r = sim_move_range(buffer, first, end, place, &lack, &moved);
		/* Each page once: an eviction may be taking them away again. */
		total += moved;
		if (moved && total <= end - first)
			lack.tries = 0;
		if (r == -ENOSPC)
			r = sim_mem_make_room(buffer, &lack) ?: -EAGAIN;
	} while (r == -EAGAIN);
	sim_count(buffer->dev, buffer->account, SIM_MOVES, 1);
	return r;
}

static int sim_move_work(struct sim_queue *queue, struct sim_job *job,
			 struct sim_fault *ret_fault)
{
	return sim_move_pages(job->move.buffer, job->move.first, job->move.end, job->move.place);
}

static void sim_move_drop(struct sim_job *job)
{
	sim_buffer_put(job->move.buffer);
}

/* Takes over the reference on the buffer. */
static int sim_move_later(struct sim_opener *opener, struct hetsim_buffer_move *move,
			  struct sim_buffer *buffer)
{
	const struct sim_later later = SIM_LATER(move);
	struct sim_job *job = sim_job_new(0);

	if (!job) {
		sim_buffer_put(buffer);
		return -ENOMEM;
	}
	job->work = sim_move_work;
	job->drop = sim_move_drop;
	job->move.buffer = buffer;
	job->move.first = move->offset >> PAGE_SHIFT;
	job->move.end = (move->offset + move->length) >> PAGE_SHIFT;
	job->move.place = move->place;
	return sim_job_later(opener, move, &later, job, &move->seqno);
}

int sim_buffer_move(struct file *file, void *argument)
{
	struct hetsim_buffer_move *move = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_buffer *buffer;
	int r;

	move->place = array_index_nospec(move->place, SIM_N_PLACES);
	if (!opener->dev->memory.limit[move->place])
		return -EOPNOTSUPP;
	buffer = sim_buffer_get(opener, move->handle);
	if (!buffer)
		return -ENOENT;
	if (move->queue)
		return sim_move_later(opener, move, buffer);
	move->seqno = 0;
	r = sim_move_pages(buffer, move->offset >> PAGE_SHIFT,
			   (move->offset + move->length) >> PAGE_SHIFT, move->place);
	sim_buffer_put(buffer);
	return r;
}
