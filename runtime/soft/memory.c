// SPDX-License-Identifier: MIT
/*
 * The twin's memory: limits, accounts, and moves between VRAM, the window in it that CPUs reach,
 * and system memory, by command and to make room. Pages move in the accounts only; with a
 * window, maps hide the pages in VRAM outside of it.
 */
#include <errno.h>
#include <string.h>

#include "soft/engine.h"

/* Pages counted over at a time. */
#define MOVE_BATCH 512u

/* Counts the pages against the limits. -ENOSPC, with the missing pages in *@lack. */
static int memory_reserve(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages,
			  const uint64_t *leaving, bool evict, struct sim_lack *lack)
{
	struct soft_device *dev = buffer->dev;
	int r;

	pthread_mutex_lock(&dev->memory_lock);
	r = sim_memory_take(&dev->memory, buffer->account->pages_used, place, n_pages, leaving,
			    evict, lack);
	pthread_mutex_unlock(&dev->memory_lock);
	return r;
}

int soft_memory_take(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages,
		     const uint64_t *leaving, bool evict, struct sim_lack *lack)
{
	bool again = lack->n_pages;

	if (!evict && !again && soft_inject_due(&buffer->account->enomem))
		return -ENOMEM;
	if (!evict && !again && soft_inject_due(&buffer->account->eintr))
		return -EINTR;
	return memory_reserve(buffer, place, n_pages, leaving, evict, lack);
}

void soft_memory_give(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages)
{
	struct soft_device *dev = buffer->dev;

	pthread_mutex_lock(&dev->memory_lock);
	sim_memory_give(&dev->memory, buffer->account->pages_used, place, n_pages);
	pthread_mutex_unlock(&dev->memory_lock);
}

/*
 * Returns how many pages of a range are in @from, and in @ret_in how many in each place. The
 * caller holds buffer->change.
 */
static uint64_t pages_count(struct soft_buffer *buffer, uint64_t first, uint64_t n_pages,
			    unsigned long from, uint64_t *ret_in)
{
	uint64_t i, n = 0;

	memset(ret_in, 0, SIM_N_PLACES * sizeof(*ret_in));
	for (i = first; i < first + n_pages; i++) {
		if (!(from & BIT(buffer->place_of[i])))
			continue;
		ret_in[buffer->place_of[i]]++;
		n++;
	}
	return n;
}

/* Counts over pages in @from, @in of each place, to @place, where room has been taken. */
static void pages_exchange(struct soft_buffer *buffer, uint64_t first, uint64_t n_pages,
			   unsigned long from, const uint64_t *in, uint32_t place)
{
	uint64_t i;
	unsigned int p;

	pthread_rwlock_wrlock(&buffer->lock);
	for (i = first; i < first + n_pages; i++)
		if (from & BIT(buffer->place_of[i]))
			buffer->place_of[i] = (uint8_t)place;
	for (p = 0; p < SIM_N_PLACES; p++) {
		buffer->pages_in[p] -= in[p];
		buffer->pages_in[place] += in[p];
	}
	pthread_rwlock_unlock(&buffer->lock);
	for (p = 0; p < SIM_N_PLACES; p++)
		soft_memory_give(buffer, p, in[p]);
}

/*
 * Moves the pages of a range in @from to @place, as far as there is room; the rest stays as it
 * is. The caller holds buffer->change. @lack: as for soft_memory_take(). Sets *@ret_moved on
 * failure, too.
 */
static int pages_move(struct soft_buffer *buffer, uint64_t first, uint64_t n_pages,
		      unsigned long from, uint32_t place, bool evict, struct sim_lack *lack,
		      uint64_t *ret_moved)
{
	struct soft_device *dev = buffer->dev;
	uint64_t in[SIM_N_PLACES], done, batch, n;
	int r = 0;

	*ret_moved = 0;
	for (done = 0; done < n_pages && !r; done += batch) {
		batch = min_u64(n_pages - done, MOVE_BATCH);
		n = pages_count(buffer, first + done, batch, from, in);
		if (!n)
			continue;
		r = soft_memory_take(buffer, place, n, in, evict, lack);
		if (r)
			break;
		pages_exchange(buffer, first + done, batch, from, in, place);
		*ret_moved += n;
	}
	if (*ret_moved && dev->memory.limit[HETSIM_PLACE_WINDOW])
		soft_changed(buffer);
	soft_count_add(dev, buffer->account, SIM_BYTES_MOVED, *ret_moved << SIM_PAGE_SHIFT);
	return r;
}

/* ---- eviction: out of the window into VRAM elsewhere, out of VRAM to the system ---- */

static bool in_the_way(struct soft_buffer *buffer, uint32_t place)
{
	bool found;

	pthread_rwlock_rdlock(&buffer->lock);
	found = buffer->pages_in[place] || buffer->pages_in[HETSIM_PLACE_WINDOW];
	pthread_rwlock_unlock(&buffer->lock);
	return found;
}

/*
 * Returns, with a reference, the least recently used buffer with pages that can make room in
 * @place, among those last used after @after and without @except; NULL: there is none.
 */
static struct soft_buffer *evict_find(struct soft_buffer *except, uint32_t place, int64_t after,
				      int64_t *ret_last_use)
{
	struct soft_device *dev = except->dev;
	struct soft_buffer *buffer, *best = NULL;
	int64_t last_use;
	uint32_t slot;

	for (slot = 1; (buffer = soft_buffer_next(dev, &slot)); slot++) {
		last_use = (int64_t)atomic_load(&buffer->last_use);
		if (buffer == except || last_use <= after ||
		    (best && last_use >= *ret_last_use) || !in_the_way(buffer, place)) {
			soft_buffer_put(buffer);
			continue;
		}
		if (best)
			soft_buffer_put(best);
		best = buffer;
		*ret_last_use = last_use;
	}
	return best;
}

/*
 * Evicts up to @n_pages, as far as there is room for them, from the buffer's end on. The caller
 * holds buffer->change. Sets *@ret_evicted on failure, too: the buffer has more pages, which did
 * not go.
 */
static int evict_buffer(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages,
			uint64_t *ret_evicted)
{
	uint32_t to = sim_evict_to(place);
	uint64_t first = buffer->n_pages, most = MOVE_BATCH, evicted = 0, moved, batch;
	struct sim_lack lack = { 0 };
	int r = 0;

	while (first && evicted < n_pages) {
		batch = min_u64(first, most);
		r = pages_move(buffer, first - batch, batch, sim_evict_from(place), to, true,
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
	atomic_fetch_add(&buffer->n_evictions, !!evicted);
	soft_count_add(buffer->dev, buffer->account, SIM_EVICTIONS, !!evicted);
	*ret_evicted = evicted;
	return r;
}

int soft_evict_part(struct soft_buffer *buffer, uint64_t n_pages)
{
	uint64_t evicted;
	int r;

	pthread_mutex_lock(&buffer->change);
	r = evict_buffer(buffer, HETSIM_PLACE_VRAM, n_pages, &evicted);
	pthread_mutex_unlock(&buffer->change);
	return r;
}

/* Like evict_buffer(); -EAGAIN: the buffer is being changed, and @wait is false. */
static int evict_unless_busy(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages,
			     bool wait, uint64_t *ret_evicted)
{
	int r;

	*ret_evicted = 0;
	if (wait)
		pthread_mutex_lock(&buffer->change);
	else if (pthread_mutex_trylock(&buffer->change))
		return -EAGAIN;
	r = evict_buffer(buffer, place, n_pages, ret_evicted);
	pthread_mutex_unlock(&buffer->change);
	return r;
}

/*
 * Evicts from the least recently used buffer on. Buffers in constant use come last, and again,
 * as long as they give pages. Adds to *@evicted. A page that leaves the window counts there
 * twice until it is gone: that passes.
 * Errors:
 *   -EAGAIN some buffers are being changed
 *   -ENOSPC there is no room for pages of any buffer that leave VRAM
 */
static int evict_in_order(struct soft_buffer *except, uint32_t place, uint64_t n_pages,
			  bool wait, uint64_t *evicted)
{
	int64_t after = -1, until = (int64_t)atomic_load(&except->dev->uses);
	struct soft_buffer *buffer;
	uint64_t more = 0;
	bool busy = false;
	int r;

	while (*evicted < n_pages && (more || after <= until)) {
		buffer = evict_find(except, place, after, &after);
		if (!buffer)
			break;
		r = evict_unless_busy(buffer, place, n_pages - *evicted, wait, &more);
		soft_buffer_put(buffer);
		*evicted += more;
		if (r == -ENOSPC && place == HETSIM_PLACE_VRAM)
			return r;
		busy = busy || r == -EAGAIN;
	}
	return busy ? -EAGAIN : 0;
}

/*
 * Makes room in @place from other buffers than @except. A change may take long: it is waited for
 * only if the unchanged buffers don't give enough.
 */
static uint64_t evict(struct soft_buffer *except, uint32_t place, uint64_t n_pages)
{
	uint64_t evicted = 0;

	if (evict_in_order(except, place, n_pages, false, &evicted) == -EAGAIN &&
	    evicted < n_pages)
		evict_in_order(except, place, n_pages, true, &evicted);
	return evicted;
}

int soft_memory_make_room(struct soft_buffer *buffer, struct sim_lack *lack)
{
	if (!sim_lack_try(lack))
		return -ENOSPC;
	/* Pages of processes go first: they are used from system memory as well. */
	if (lack->place == HETSIM_PLACE_VRAM &&
	    soft_place_make_room(buffer->dev, lack->n_pages))
		return 0;
	/* Owners may have freed the pages of the buffers waited for: allow one more try. */
	if (!evict(buffer, lack->place, lack->n_pages))
		lack->tries = SIM_MEM_TRIES;
	return 0;
}

/* ---- by command ---- */

/* Moves as far as there is room; *@ret_moved as for pages_move(). */
static int range_move(struct soft_buffer *buffer, const struct hetsim_buffer_move *move,
		      uint64_t end, struct sim_lack *lack, uint64_t *ret_moved)
{
	uint64_t n_pages = move->length >> SIM_PAGE_SHIFT;
	int r = -ERANGE;

	*ret_moved = 0;
	pthread_mutex_lock(&buffer->change);
	if (end >> SIM_PAGE_SHIFT <= buffer->n_pages) {
		soft_buffer_used(buffer);
		r = pages_move(buffer, move->offset >> SIM_PAGE_SHIFT, n_pages,
			       SIM_PLACES_ALL & ~BIT(move->place), move->place, false, lack,
			       ret_moved);
		if (!r && n_pages == buffer->n_pages)
			buffer->place = move->place;
	}
	pthread_mutex_unlock(&buffer->change);
	return r;
}

static int move_now(struct soft_buffer *buffer, const struct hetsim_buffer_move *move)
{
	struct sim_lack lack = { 0 };
	uint64_t moved, total = 0;
	int r;

	do {
		r = range_move(buffer, move, move->offset + move->length, &lack, &moved);
		/* Counts each page once: other buffers may be evicting them again. */
		total += moved;
		if (moved && total <= move->length >> SIM_PAGE_SHIFT)
			lack.tries = 0;
		if (r == -ENOSPC && !soft_memory_make_room(buffer, &lack))
			r = -EAGAIN;
	} while (r == -EAGAIN);
	soft_count_add(buffer->dev, buffer->account, SIM_MOVES, 1);
	return r;
}

/* The maps show the move before its end is told. */
static int move_work(struct soft_queue *queue, struct soft_job *job,
		     struct sim_fault *ret_fault)
{
	int r = move_now(job->move.buffer, &job->move.move);

	(void)ret_fault;
	soft_show(queue->file->dev);
	return r;
}

static void move_drop(struct soft_job *job)
{
	soft_buffer_put(job->move.buffer);
}

/* Takes over the reference on the buffer. */
static int move_later(struct soft_file *file, struct hetsim_buffer_move *move,
		      struct soft_buffer *buffer)
{
	const struct sim_later later = SIM_LATER(move);
	struct soft_job *job = soft_job_new(0);

	if (!job) {
		soft_buffer_put(buffer);
		return -ENOMEM;
	}
	job->work = move_work;
	job->drop = move_drop;
	job->move.buffer = buffer;
	job->move.move = *move;
	return soft_job_later(file, &later, job, &move->seqno);
}

int soft_buffer_move(struct soft_file *file, void *argument)
{
	struct hetsim_buffer_move *move = argument;
	struct soft_buffer *buffer;
	int r;

	if (!file->dev->memory.limit[move->place])
		return -EOPNOTSUPP;
	buffer = soft_buffer_get(file, move->handle);
	if (!buffer)
		return -ENOENT;
	if (move->queue)
		return move_later(file, move, buffer);
	move->seqno = 0;
	r = move_now(buffer, move);
	soft_buffer_put(buffer);
	return r;
}
