// SPDX-License-Identifier: MIT
/*
 * The twin's memory: limits, what counts against them, and moves between VRAM, the
 * window in it that CPUs can reach, and system memory, by command and to make room.
 * Pages move in the accounts only; where there is a window, maps hide those that are
 * in VRAM outside of it.
 */
#include <errno.h>
#include <string.h>

#include "twin.h"

/* Pages that are counted over at a time. */
#define MOVE_BATCH 512u

/* Sets of places, as bits. */
#define PLACE(place) (1u << (place))
#define PLACES_ALL (PLACE(SOFT_N_PLACES) - 1)

/*
 * How many of @n_pages lack room, and where it has to be made: the window is a part
 * of VRAM, so either may be what is full. VRAM gets no fuller by what leaves a place in
 * it: until that is gone, it may count more than it has. With dev->memory_lock held.
 */
static uint64_t memory_missing(const struct soft_device *dev, uint32_t place, uint64_t n_pages,
			       const uint64_t *leaving, uint32_t *ret_where)
{
	uint64_t vram =
		dev->pages_used[HETSIM_PLACE_VRAM] + dev->pages_used[HETSIM_PLACE_WINDOW];
	uint64_t limit = dev->pages_limit[HETSIM_PLACE_VRAM];
	uint64_t left = dev->pages_limit[place] - dev->pages_used[place];

	*ret_where = place;
	if (place == HETSIM_PLACE_SYSTEM || (place == HETSIM_PLACE_WINDOW && left < n_pages))
		return n_pages - min_u64(n_pages, left);
	*ret_where = HETSIM_PLACE_VRAM;
	if (leaving)
		limit += leaving[HETSIM_PLACE_VRAM] + leaving[HETSIM_PLACE_WINDOW];
	return n_pages - min_u64(n_pages, limit - min_u64(vram, limit));
}

/*
 * Is it more than the opener may have? What takes the place of others is no more of
 * all places together. With dev->memory_lock held.
 */
static bool memory_exceeds(const struct soft_device *dev, const struct soft_account *account,
			   uint32_t place, uint64_t n_pages, const uint64_t *leaving)
{
	uint64_t system = account->pages_used[HETSIM_PLACE_SYSTEM], mine = 0;
	unsigned int i;

	for (i = 0; i < SOFT_N_PLACES; i++)
		mine += account->pages_used[i];
	if (!leaving && n_pages > dev->opener_pages - min_u64(mine, dev->opener_pages))
		return true;
	return place == HETSIM_PLACE_SYSTEM &&
	       n_pages > dev->opener_system_pages - min_u64(system, dev->opener_system_pages);
}

/*
 * Counts the pages unless there is no room for them; @ret_missing: how many there
 * is none for, @ret_where: in which place. -ENOSPC: the opener's limit.
 */
static int memory_reserve(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages,
			  const uint64_t *leaving, bool evict, uint64_t *ret_missing,
			  uint32_t *ret_where)
{
	struct soft_device *dev = buffer->dev;
	struct soft_account *account = buffer->account;
	uint64_t missing;
	int r = 0;

	pthread_mutex_lock(&dev->memory_lock);
	if (!evict && memory_exceeds(dev, account, place, n_pages, leaving)) {
		r = -ENOSPC;
		goto out;
	}
	missing = memory_missing(dev, place, n_pages, leaving, ret_where);
	if (!missing) {
		dev->pages_used[place] += n_pages;
		account->pages_used[place] += n_pages;
	}
	*ret_missing = missing;
out:
	pthread_mutex_unlock(&dev->memory_lock);
	return r;
}

void soft_memory_give(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages)
{
	struct soft_device *dev = buffer->dev;

	pthread_mutex_lock(&dev->memory_lock);
	dev->pages_used[place] -= n_pages;
	buffer->account->pages_used[place] -= n_pages;
	pthread_mutex_unlock(&dev->memory_lock);
}

/*
 * How many pages of a range are in @from; @ret_in: in each of them. With buffer->change
 * held.
 */
static uint64_t pages_count(struct soft_buffer *buffer, uint64_t first, uint64_t n_pages,
			    unsigned int from, uint64_t *ret_in)
{
	uint64_t i, n = 0;

	memset(ret_in, 0, SOFT_N_PLACES * sizeof(*ret_in));
	for (i = first; i < first + n_pages; i++) {
		if (!(from & PLACE(buffer->place_of[i])))
			continue;
		ret_in[buffer->place_of[i]]++;
		n++;
	}
	return n;
}

/* There is room in @place for those in @from, which are @in. */
static void pages_exchange(struct soft_buffer *buffer, uint64_t first, uint64_t n_pages,
			   unsigned int from, const uint64_t *in, uint32_t place)
{
	uint64_t i;
	unsigned int p;

	pthread_rwlock_wrlock(&buffer->lock);
	for (i = first; i < first + n_pages; i++)
		if (from & PLACE(buffer->place_of[i]))
			buffer->place_of[i] = (uint8_t)place;
	for (p = 0; p < SOFT_N_PLACES; p++) {
		buffer->pages_in[p] -= in[p];
		buffer->pages_in[place] += in[p];
	}
	pthread_rwlock_unlock(&buffer->lock);
	for (p = 0; p < SOFT_N_PLACES; p++)
		soft_memory_give(buffer, p, in[p]);
}

/*
 * Moves what a range has in @from to @place, or as much as goes; the rest stays as
 * it is. With buffer->change held. *@ret_moved is set also when it fails.
 */
static int pages_move(struct soft_buffer *buffer, uint64_t first, uint64_t n_pages,
		      unsigned int from, uint32_t place, bool evict, uint64_t *ret_moved)
{
	struct soft_device *dev = buffer->dev;
	uint64_t in[SOFT_N_PLACES], done, batch, n;
	int r = 0;

	*ret_moved = 0;
	for (done = 0; done < n_pages && !r; done += batch) {
		batch = min_u64(n_pages - done, MOVE_BATCH);
		n = pages_count(buffer, first + done, batch, from, in);
		if (!n)
			continue;
		r = soft_memory_take(buffer, place, n, in, evict);
		if (r)
			break;
		pages_exchange(buffer, first + done, batch, from, in, place);
		*ret_moved += n;
	}
	if (*ret_moved && dev->pages_limit[HETSIM_PLACE_WINDOW])
		soft_changed(buffer);
	soft_count_add(dev, buffer->account, SOFT_BYTES_MOVED, *ret_moved << SOFT_PAGE_SHIFT);
	return r;
}

/* ---- eviction: out of the window into VRAM elsewhere, out of VRAM to the system ---- */

/* Pages in which places are in the way in @place. */
static unsigned int evict_from(uint32_t place)
{
	return PLACE(HETSIM_PLACE_WINDOW) | PLACE(place);
}

static bool in_the_way(struct soft_buffer *buffer, uint32_t place)
{
	bool found;

	pthread_rwlock_rdlock(&buffer->lock);
	found = buffer->pages_in[place] || buffer->pages_in[HETSIM_PLACE_WINDOW];
	pthread_rwlock_unlock(&buffer->lock);
	return found;
}

/*
 * The buffer in the way in @place that was not used for longest, of those last used
 * after @after and up to @until, with a reference; NULL if none.
 */
static struct soft_buffer *evict_find(struct soft_device *dev, uint32_t place, int64_t after,
				      int64_t until, int64_t *ret_last_use)
{
	struct soft_buffer *buffer, *best = NULL;
	int64_t last_use;
	uint32_t slot;

	for (slot = 1; (buffer = soft_buffer_next(dev, &slot)); slot++) {
		last_use = (int64_t)atomic_load(&buffer->last_use);
		if (last_use <= after || last_use > until ||
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

/* Up to @n_pages. Those at the buffer's end go first. With buffer->change held. */
static uint64_t evict_buffer(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages)
{
	uint32_t to = place == HETSIM_PLACE_WINDOW ? HETSIM_PLACE_VRAM : HETSIM_PLACE_SYSTEM;
	uint64_t first = buffer->n_pages, evicted = 0, moved, batch;
	int r = 0;

	while (first && evicted < n_pages && !r) {
		batch = min_u64(first, MOVE_BATCH);
		first -= batch;
		r = pages_move(buffer, first, batch, evict_from(place), to, true, &moved);
		evicted += moved;
	}
	soft_count_add(buffer->dev, buffer->account, SOFT_EVICTIONS, !!evicted);
	return evicted;
}

int soft_evict_part(struct soft_buffer *buffer, uint64_t n_pages)
{
	pthread_mutex_lock(&buffer->change);
	evict_buffer(buffer, HETSIM_PLACE_VRAM, n_pages);
	pthread_mutex_unlock(&buffer->change);
	return 0;
}

/*
 * Makes room in @place: how much it could. Whoever calls may hold some buffer's
 * change, so those of others are only tried.
 */
static uint64_t evict(struct soft_device *dev, uint32_t place, uint64_t n_pages)
{
	int64_t after = -1, until = (int64_t)atomic_load(&dev->uses);
	struct soft_buffer *buffer;
	uint64_t evicted = 0;

	while (evicted < n_pages) {
		buffer = evict_find(dev, place, after, until, &after);
		if (!buffer)
			break;
		if (!pthread_mutex_trylock(&buffer->change)) {
			evicted += evict_buffer(buffer, place, n_pages - evicted);
			pthread_mutex_unlock(&buffer->change);
		}
		soft_buffer_put(buffer);
	}
	return evicted;
}

/* Others may take what was made free: not for ever. */
#define MEMORY_TRIES 4

int soft_memory_take(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages,
		     const uint64_t *leaving, bool evicting)
{
	uint64_t missing = 0;
	unsigned int tries;
	uint32_t where;
	int r;

	if (!evicting && soft_inject_due(&buffer->account->enomem))
		return -ENOMEM;
	if (!evicting && soft_inject_due(&buffer->account->eintr))
		return -EINTR;
	for (tries = 0; tries < MEMORY_TRIES; tries++) {
		r = memory_reserve(buffer, place, n_pages, leaving, evicting, &missing, &where);
		if (r || !missing)
			return r;
		if (where == HETSIM_PLACE_SYSTEM || !evict(buffer->dev, where, missing))
			break;
	}
	return -ENOSPC;
}

/* ---- by command ---- */

/* With buffer->change held. */
static int buffer_move(struct soft_buffer *buffer, const struct hetsim_buffer_move *move,
		       uint64_t end)
{
	uint64_t n_pages = move->length >> SOFT_PAGE_SHIFT, moved;
	int r;

	if (end >> SOFT_PAGE_SHIFT > buffer->n_pages)
		return -ERANGE;
	/* Used now, so that making room for it does not begin with itself. */
	soft_buffer_used(buffer);
	r = pages_move(buffer, move->offset >> SOFT_PAGE_SHIFT, n_pages,
		       PLACES_ALL & ~PLACE(move->place), move->place, false, &moved);
	if (!r && n_pages == buffer->n_pages)
		buffer->place = move->place;
	soft_count_add(buffer->dev, buffer->account, SOFT_MOVES, 1);
	return r;
}

int soft_buffer_move(struct soft_file *file, void *argument)
{
	struct hetsim_buffer_move *move = argument;
	struct soft_buffer *buffer;
	uint64_t end;
	int r;

	if (move->flags || move->place >= SOFT_N_PLACES || !move->length ||
	    !is_aligned(move->offset | move->length, SOFT_PAGE))
		return -EINVAL;
	if (__builtin_add_overflow(move->offset, move->length, &end))
		return -EOVERFLOW;
	if (!file->dev->pages_limit[move->place])
		return -EOPNOTSUPP;
	buffer = soft_buffer_get(file, move->handle);
	if (!buffer)
		return -ENOENT;
	pthread_mutex_lock(&buffer->change);
	r = buffer_move(buffer, move, end);
	pthread_mutex_unlock(&buffer->change);
	soft_buffer_put(buffer);
	return r;
}
