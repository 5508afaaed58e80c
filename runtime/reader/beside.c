// SPDX-License-Identifier: MIT
/* The thread that makes the next window. */
#include "beside.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "compat.h"
#include "reader.h"
#include "sys.h"
#include "thread.h"

/* Who wants the window waits for no more than such a part of it, tens of microseconds. */
#define PART MIB(2)

struct beside {
	struct hm_buffer *buffer; /* constant */
	pthread_t thread;         /* constant */
	pthread_mutex_t lock;     /* protects the below; a leaf */
	pthread_cond_t changed;
	bool end;
	bool ordered; /* and not begun */
	bool wanted;  /* somebody waits for it as it is */
	bool working; /* the thread is at it, without the lock */
	uint64_t offset, bytes;
	struct hm_map *map; /* of them; NULL: not made */
};

static void work_begin(struct beside *beside)
{
	beside->working = true;
	pthread_mutex_unlock(&beside->lock);
}

static void work_end(struct beside *beside)
{
	pthread_mutex_lock(&beside->lock);
	beside->working = false;
	pthread_cond_broadcast(&beside->changed);
}

/* What fails here is tried again by whoever wants the window, and is told there. */
static void make_locked(struct beside *beside)
{
	struct hm_map *map = NULL;
	uint64_t at, span;
	int r;

	work_begin(beside);
	r = window_map(beside->buffer, beside->offset, beside->bytes, &map);
	work_end(beside);
	beside->map = map;
	span = r ? 0 : map->span;
	for (at = 0; at < span && !beside->wanted && !r; at += PART) {
		work_begin(beside);
		/* Behind a file's end that is an error, and no signal. */
		r = sys_madvise(map->address + at, min_u64(PART, span - at),
				MADV_POPULATE_READ);
		work_end(beside);
	}
}

static void *run(void *user)
{
	struct beside *beside = user;

	pthread_mutex_lock(&beside->lock);
	while (!beside->end) {
		if (beside->ordered) {
			beside->ordered = false;
			make_locked(beside);
		} else {
			pthread_cond_wait(&beside->changed, &beside->lock);
		}
	}
	pthread_mutex_unlock(&beside->lock);
	return NULL;
}

int beside_begin(struct hm_buffer *buffer, struct beside **ret_beside)
{
	struct beside *beside = sys_calloc(1, sizeof(*beside));
	int r;

	if (!beside)
		return -ENOMEM;
	beside->buffer = buffer;
	pthread_mutex_init(&beside->lock, NULL);
	pthread_cond_init(&beside->changed, NULL);
	r = thread_start(&beside->thread, run, beside);
	if (r)
		goto err_beside;
	*ret_beside = beside;
	return 0;

err_beside:
	pthread_cond_destroy(&beside->changed);
	pthread_mutex_destroy(&beside->lock);
	free(beside);
	return r;
}

/* Nothing is ordered, and the thread waits. */
static void stop_locked(struct beside *beside)
{
	beside->ordered = false;
	beside->wanted = true;
	while (beside->working)
		pthread_cond_wait(&beside->changed, &beside->lock);
	beside->wanted = false;
}

void beside_end(struct beside *beside)
{
	if (!beside)
		return;
	pthread_mutex_lock(&beside->lock);
	stop_locked(beside);
	beside->end = true;
	pthread_cond_broadcast(&beside->changed);
	pthread_mutex_unlock(&beside->lock);
	pthread_join(beside->thread, NULL);
	hm_map_unref(beside->map);
	pthread_cond_destroy(&beside->changed);
	pthread_mutex_destroy(&beside->lock);
	free(beside);
}

void beside_order(struct beside *beside, uint64_t offset, uint64_t bytes)
{
	pthread_mutex_lock(&beside->lock);
	beside->offset = offset;
	beside->bytes = bytes;
	beside->ordered = true;
	pthread_cond_broadcast(&beside->changed);
	pthread_mutex_unlock(&beside->lock);
}

struct hm_map *beside_take(struct beside *beside, uint64_t offset, uint64_t bytes)
{
	struct hm_map *map;
	bool other;

	pthread_mutex_lock(&beside->lock);
	stop_locked(beside);
	map = beside->map;
	other = beside->offset != offset || beside->bytes != bytes;
	beside->map = NULL;
	beside->bytes = 0;
	pthread_mutex_unlock(&beside->lock);
	if (!other)
		return map;
	hm_map_unref(map);
	return NULL;
}

uint64_t beside_bytes(struct beside *beside)
{
	uint64_t bytes;

	pthread_mutex_lock(&beside->lock);
	bytes = beside->bytes;
	pthread_mutex_unlock(&beside->lock);
	return bytes;
}
