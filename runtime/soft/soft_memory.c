// SPDX-License-Identifier: MIT
/*
 * The twin's memory: limits, what counts against them, and moves between VRAM and
 * system memory, by command and to make room. Both are the same to the CPU, so
 * that pages move in the accounts only.
 */
#include <errno.h>

#include "twin.h"

/* Pages that are counted over at a time. */
#define MOVE_BATCH 512u

/*
 * Counts the pages unless there is no room for them; @ret_missing: how many there
 * is none for. -ENOSPC: the opener's limit.
 */
static int memory_reserve(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages,
			  bool instead, uint64_t *ret_missing)
{
	struct soft_device *dev = buffer->dev;
	struct soft_account *account = buffer->account;
	uint64_t mine = 0, left, missing;
	unsigned int i;
	int r = 0;

	pthread_mutex_lock(&dev->memory_lock);
	for (i = 0; i < SOFT_N_PLACES; i++)
		mine += account->pages_used[i];
	if (!instead && n_pages > dev->opener_pages - min_u64(mine, dev->opener_pages)) {
		r = -ENOSPC;
		goto out;
	}
	left = dev->pages_limit[place] - dev->pages_used[place];
	missing = n_pages - min_u64(n_pages, left);
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

/* How many pages of a range are in @place. With buffer->change held. */
static uint64_t pages_count(struct soft_buffer *buffer, uint64_t first, uint64_t n_pages,
			    uint32_t place)
{
	uint64_t i, n = 0;

	for (i = first; i < first + n_pages; i++)
		n += buffer->place_of[i] == place;
	return n;
}

/*
 * Moves what a range has in other places than @place, or as much as goes; the rest
 * stays as it is. With buffer->change held. *@ret_moved is set also when it fails.
 */
static int pages_move(struct soft_buffer *buffer, uint64_t first, uint64_t n_pages,
		      uint32_t place, uint64_t *ret_moved)
{
	uint32_t from = place == HETSIM_PLACE_VRAM ? HETSIM_PLACE_SYSTEM : HETSIM_PLACE_VRAM;
	uint64_t done, batch, n, i;
	int r = 0;

	*ret_moved = 0;
	for (done = 0; done < n_pages && !r; done += batch) {
		batch = min_u64(n_pages - done, MOVE_BATCH);
		n = pages_count(buffer, first + done, batch, from);
		if (!n)
			continue;
		r = soft_memory_take(buffer, place, n, true);
		if (r)
			break;
		pthread_rwlock_wrlock(&buffer->lock);
		for (i = first + done; i < first + done + batch; i++)
			buffer->place_of[i] = (uint8_t)place;
		buffer->pages_in[from] -= n;
		buffer->pages_in[place] += n;
		pthread_rwlock_unlock(&buffer->lock);
		soft_memory_give(buffer, from, n);
		*ret_moved += n;
	}
	soft_count_add(buffer->dev, buffer->account, SOFT_BYTES_MOVED,
		       *ret_moved << SOFT_PAGE_SHIFT);
	return r;
}

/* ---- eviction: out of VRAM, into system memory ---- */

static uint64_t vram_pages(struct soft_buffer *buffer)
{
	uint64_t n;

	pthread_rwlock_rdlock(&buffer->lock);
	n = buffer->pages_in[HETSIM_PLACE_VRAM];
	pthread_rwlock_unlock(&buffer->lock);
	return n;
}

/*
 * The buffer in VRAM that was not used for longest, of those last used after
 * @after and up to @until, with a reference; NULL if none.
 */
static struct soft_buffer *evict_find(struct soft_device *dev, int64_t after, int64_t until,
				      int64_t *ret_last_use)
{
	struct soft_buffer *buffer, *best = NULL;
	int64_t last_use;
	uint32_t slot;

	for (slot = 1; (buffer = soft_buffer_next(dev, &slot)); slot++) {
		last_use = (int64_t)atomic_load(&buffer->last_use);
		if (last_use <= after || last_use > until ||
		    (best && last_use >= *ret_last_use) || !vram_pages(buffer)) {
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
static uint64_t evict_buffer(struct soft_buffer *buffer, uint64_t n_pages)
{
	uint64_t first = buffer->n_pages, evicted = 0, moved, batch;
	int r = 0;

	while (first && evicted < n_pages && !r) {
		batch = min_u64(first, MOVE_BATCH);
		first -= batch;
		r = pages_move(buffer, first, batch, HETSIM_PLACE_SYSTEM, &moved);
		evicted += moved;
	}
	soft_count_add(buffer->dev, buffer->account, SOFT_EVICTIONS, !!evicted);
	return evicted;
}

int soft_evict_part(struct soft_buffer *buffer, uint64_t n_pages)
{
	pthread_mutex_lock(&buffer->change);
	evict_buffer(buffer, n_pages);
	pthread_mutex_unlock(&buffer->change);
	return 0;
}

/*
 * Makes room in VRAM: how much it could. Whoever calls may hold some buffer's
 * change, so those of others are only tried.
 */
static uint64_t evict(struct soft_device *dev, uint64_t n_pages)
{
	int64_t after = -1, until = (int64_t)atomic_load(&dev->uses);
	struct soft_buffer *buffer;
	uint64_t evicted = 0;

	while (evicted < n_pages) {
		buffer = evict_find(dev, after, until, &after);
		if (!buffer)
			break;
		if (!pthread_mutex_trylock(&buffer->change)) {
			evicted += evict_buffer(buffer, n_pages - evicted);
			pthread_mutex_unlock(&buffer->change);
		}
		soft_buffer_put(buffer);
	}
	return evicted;
}

int soft_memory_take(struct soft_buffer *buffer, uint32_t place, uint64_t n_pages, bool instead)
{
	uint64_t missing = 0;
	int r;

	if (soft_inject_due(&buffer->account->enomem))
		return -ENOMEM;
	if (soft_inject_due(&buffer->account->eintr))
		return -EINTR;
	r = memory_reserve(buffer, place, n_pages, instead, &missing);
	if (r || !missing)
		return r;

	/* Others may take what was made free: not for ever. */
	if (place == HETSIM_PLACE_SYSTEM || !evict(buffer->dev, missing))
		return -ENOSPC;
	r = memory_reserve(buffer, place, n_pages, instead, &missing);
	return !r && missing ? -ENOSPC : r;
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
	if (n_pages == buffer->n_pages)
		buffer->place = move->place;
	r = pages_move(buffer, move->offset >> SOFT_PAGE_SHIFT, n_pages, move->place, &moved);
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
