// SPDX-License-Identifier: MIT
/* The way of a frame: out of the pool, through the ready queue, and back. */
#include <inttypes.h>

#include "base/thread.h"
#include "fault/repair.h"
#include "frame/frame.h"
#include "loss/device_loss.h"

/*
 * Nobody wakes a thread when the work on a busy frame ends: a waiting thread looks again after
 * these times, the first one doubled up to the last.
 */
#define LOOK_FIRST_NS 50000ull
#define LOOK_LAST_NS 1000000ull

/* ---- back ---- */

static void put_locked(struct hm_frame_pool *pool, struct hm_frame *frame, bool idle)
{
	if (idle) {
		frame->state = FRAME_FREE;
		cds_list_add(&frame->link, &pool->free);
		pool->n_free++;
	} else {
		frame->state = FRAME_BUSY;
		cds_list_add_tail(&frame->link, &pool->busy);
		pool->n_busy++;
	}
}

void pool_take_back(struct hm_frame *frame)
{
	struct hm_frame_pool *pool = frame->pool;
	bool idle = frame_is_idle(frame), closed;

	pthread_mutex_lock(&pool->lock);
	closed = pool->closed;
	if (!closed) {
		put_locked(pool, frame, idle);
		if (idle)
			pthread_cond_signal(&pool->returned);
		else
			pthread_cond_broadcast(&pool->returned);
	}
	pthread_mutex_unlock(&pool->lock);
	if (closed)
		frame_end(frame);
}

/*
 * A frame counts as busy while it is looked at. One at a time leaves the list, so that a thread
 * that looks meanwhile finds the others.
 */
void pool_sweep(struct hm_frame_pool *pool)
{
	struct hm_frame *frame;
	uint32_t left;
	bool idle;

	pthread_mutex_lock(&pool->lock);
	/* Each once: one that is still busy goes to the end of the list. */
	for (left = pool->n_busy; left && !cds_list_empty(&pool->busy); left--) {
		frame = cds_list_first_entry(&pool->busy, struct hm_frame, link);
		cds_list_del(&frame->link);
		pthread_mutex_unlock(&pool->lock);
		idle = frame_is_idle(frame);
		pthread_mutex_lock(&pool->lock);
		pool->n_busy--;
		put_locked(pool, frame, idle);
		if (idle)
			pthread_cond_signal(&pool->returned);
	}
	pthread_mutex_unlock(&pool->lock);
}

/* ---- out ---- */

/* Takes the frame that came back last: its bytes may still be in caches. */
static struct hm_frame *take_free_locked(struct hm_frame_pool *pool)
{
	struct hm_frame *frame;

	if (cds_list_empty(&pool->free))
		return NULL;
	frame = cds_list_first_entry(&pool->free, struct hm_frame, link);
	cds_list_del(&frame->link);
	frame->state = FRAME_HELD;
	pool->n_free--;
	return frame;
}

static void leave_queue_locked(struct hm_frame_pool *pool, struct hm_frame *frame)
{
	cds_list_del(&frame->link);
	frame->ready = false;
	pool->n_ready--;
}

/* The oldest picture that the ready queue alone holds, with a further reference; or NULL. */
static struct hm_frame *find_oldest(struct hm_frame_pool *pool)
{
	struct hm_frame *frame, *oldest = NULL;

	pthread_mutex_lock(&pool->lock);
	cds_list_for_each_entry(frame, &pool->ready, link)
		if (atomic_load_explicit(&frame->object.refs, memory_order_acquire) == 1) {
			oldest = hm_frame_ref(frame);
			break;
		}
	pthread_mutex_unlock(&pool->lock);
	return oldest;
}

/* The device has gone, or handlers have replaced broken pages: the next picture would miss them. */
static bool is_broken(const struct hm_frame_pool *pool, const struct hm_frame *frame)
{
	const struct frame_memory *memory = &frame->memory[0];
	int r = 0;

	err_hold();
	if (pool->can_go)
		r = memory->map->lost ? -ENODEV : device_loss_check_buffer(memory->buffer);
	if (!r)
		r = repair_check(memory->map, 0, memory->map->length, NULL);
	err_release();
	return r;
}

/* The frame is not in use, and its memory is broken: it ends. */
static bool is_lost(struct hm_frame_pool *pool, struct hm_frame *frame)
{
	if (likely(!is_broken(pool, frame)))
		return false;
	pthread_mutex_lock(&pool->lock);
	pool_forget_locked(pool, frame);
	/* No frame may come back for which others could wait: each finds out for itself. */
	pthread_cond_broadcast(&pool->returned);
	pthread_mutex_unlock(&pool->lock);
	frame_end(frame);
	return true;
}

/*
 * HM_FRAME_DROP_OLDEST: the frame of a picture that can be dropped, or NULL. The picture stays in
 * the queue while its work is looked at, so that consumers find all pictures in order.
 */
static struct hm_frame *drop_oldest(struct hm_frame_pool *pool)
{
	struct hm_frame *frame = find_oldest(pool);
	bool drop;

	if (!frame)
		return NULL;
	frame_look(frame);
	pthread_mutex_lock(&pool->lock);
	/* No consumer has it, or has come to hold it, meanwhile. */
	drop = frame->ready && atomic_load(&frame->object.refs) == 2 && frame_seems_idle(frame);
	if (drop) {
		leave_queue_locked(pool, frame);
		pool->oldest++;
	}
	pthread_mutex_unlock(&pool->lock);
	if (!drop) {
		frame_put(frame);
		return NULL;
	}
	/* Both references are this thread's: give_out() makes one of them. */
	frame_drop_fences(frame);
	return is_lost(pool, frame) ? NULL : frame;
}

static void give_out(struct hm_frame_pool *pool, struct hm_frame *frame)
{
	object_init(&frame->object, OBJECT_FRAME);
	frame->published = false;
	props_init(&frame->props, &pool->visible);
	pthread_mutex_lock(&pool->lock);
	frame->serial = ++pool->acquired;
	pthread_mutex_unlock(&pool->lock);
}

static bool has_room_locked(const struct hm_frame_pool *pool)
{
	return !pool->n_most || pool->n_frame < pool->n_most;
}

/* A frame that is free, or may be made. 0, -EAGAIN: none now; or the failure to make one. */
static int try_take(struct hm_frame_pool *pool, struct hm_frame **ret_frame)
{
	struct hm_frame *frame;
	bool make = false, ended;

	do {
		pthread_mutex_lock(&pool->lock);
		ended = pool->ended;
		frame = ended ? NULL : take_free_locked(pool);
		if (!ended && !frame && has_room_locked(pool)) {
			make = true;
			pool->n_frame++;
			pool->n_making++;
		}
		pthread_mutex_unlock(&pool->lock);
	} while (frame && is_lost(pool, frame));
	if (ended)
		return err_set(-EPIPE, "frame pool %s was ended by hm_frame_pool_end()",
			       pool->name);
	if (make)
		return pool_make_frame(pool, ret_frame);
	if (!frame)
		return -EAGAIN;
	*ret_frame = frame;
	return 0;
}

/* Busy frames go before new ones. */
static int take_or_sweep(struct hm_frame_pool *pool, struct hm_frame **ret_frame)
{
	bool sweep;

	pthread_mutex_lock(&pool->lock);
	sweep = pool->n_busy && !pool->n_free;
	pthread_mutex_unlock(&pool->lock);
	if (sweep)
		pool_sweep(pool);
	return try_take(pool, ret_frame);
}

static int refuse(struct hm_frame_pool *pool, int r, const char *how)
{
	uint32_t n, busy, ready, making;

	pthread_mutex_lock(&pool->lock);
	n = pool->n_frame;
	busy = pool->n_busy;
	ready = pool->n_ready;
	making = pool->n_making;
	if (r == -ENOBUFS)
		pool->newest++;
	pthread_mutex_unlock(&pool->lock);
	return err_set(r,
		       "frame pool %s: %s: of %" PRIu32 " frames, %" PRIu32
		       " are held, %" PRIu32 " are ready, and %" PRIu32
		       " are busy: take and drop frames sooner, or raise "
		       "hm_frame_pool_desc.n_most, %" PRIu32,
		       pool->name, how, n, n - making - busy - ready, ready, busy,
		       pool->n_most);
}

struct wait {
	uint64_t start, timeout_ns, look_ns;
};

/* Waits until another look may help. False: the time is up. */
static bool wait_once(struct hm_frame_pool *pool, struct wait *wait)
{
	uint64_t now = time_now_ns(), left;
	struct timespec deadline;

	if (!wait->start)
		wait->start = now;
	if (wait->timeout_ns != UINT64_MAX && now - wait->start >= wait->timeout_ns)
		return false;
	left = wait->timeout_ns == UINT64_MAX ? UINT64_MAX :
						wait->timeout_ns - (now - wait->start);
	pthread_mutex_lock(&pool->lock);
	/* All that would have woken this thread may have happened since it found no frame. */
	if (!pool->n_free && !pool->ended && !has_room_locked(pool)) {
		/* With a policy that drops, a consumer may let go of a picture in the queue. */
		if (pool->n_busy || pool->policy == HM_FRAME_DROP_OLDEST) {
			left = min_u64(left, wait->look_ns);
			wait->look_ns = min_u64(wait->look_ns * 2, LOOK_LAST_NS);
		}
		deadline_after(left, &deadline);
		pthread_cond_timedwait(&pool->returned, &pool->lock, &deadline);
	}
	pthread_mutex_unlock(&pool->lock);
	return true;
}

static void count_wait(struct hm_frame_pool *pool, const struct wait *wait)
{
	if (!wait->start || !wait->timeout_ns)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->waited++;
	pool->waited_ns += time_now_ns() - wait->start;
	pthread_mutex_unlock(&pool->lock);
}

static int acquire(struct hm_frame_pool *pool, uint64_t timeout_ns, struct hm_frame **ret_frame)
{
	struct wait wait = { .timeout_ns = timeout_ns, .look_ns = LOOK_FIRST_NS };
	struct hm_frame *frame;
	int r;

	while ((r = take_or_sweep(pool, &frame)) == -EAGAIN) {
		if (pool->policy == HM_FRAME_DROP_NEWEST)
			return refuse(pool, -ENOBUFS,
				      "no frame for a new picture, which is dropped");
		if (pool->policy == HM_FRAME_DROP_OLDEST && (frame = drop_oldest(pool))) {
			r = 0;
			break;
		}
		if (!wait_once(pool, &wait)) {
			r = refuse(pool, -ETIME, "all frames are in use");
			break;
		}
	}
	count_wait(pool, &wait);
	if (r)
		return r;
	give_out(pool, frame);
	*ret_frame = frame;
	return 0;
}

int hm_frame_pool_acquire(struct hm_frame_pool *pool, uint64_t timeout_ns,
			  struct hm_frame **ret_frame)
{
	int r;

	err_begin();
	r = object_check((struct hm_object *)pool, OBJECT_FRAME_POOL);
	if (r)
		return r;
	if (!ret_frame)
		return err_set(-EINVAL, "hm_frame_pool_acquire: ret_frame is NULL");
	return acquire(pool, timeout_ns, ret_frame);
}

/* ---- the ready queue ---- */

static int publish_locked(struct hm_frame_pool *pool, struct hm_frame *frame)
{
	bool before;

	if (pool->ended)
		return err_set(-EPIPE, "frame pool %s was ended by hm_frame_pool_end()",
			       pool->name);
	pthread_mutex_lock(&frame->lock);
	before = frame->published;
	frame->published = before || !pool->closed;
	pthread_mutex_unlock(&frame->lock);
	if (before)
		return err_set(-EBUSY, "the frame was published before, since it was acquired");
	/* The lists are gone, and nobody would drop the queue's reference. */
	if (pool->closed)
		return err_set(-EPIPE,
			       "frame pool %s has no references any more, so that no program "
			       "could take the picture",
			       pool->name);
	object_ref(&frame->object);
	frame->ready = true;
	cds_list_add_tail(&frame->link, &pool->ready);
	pool->n_ready++;
	pool->put++;
	pthread_cond_signal(&pool->published);
	return 0;
}

int hm_frame_publish(struct hm_frame *frame)
{
	int r;

	err_begin();
	r = object_check((struct hm_object *)frame, OBJECT_FRAME);
	if (r)
		return r;
	if (!frame->pool)
		return err_set(-EOPNOTSUPP, "an imported frame has no pool to be published in");
	pthread_mutex_lock(&frame->pool->lock);
	r = publish_locked(frame->pool, frame);
	pthread_mutex_unlock(&frame->pool->lock);
	return r;
}

static int take_ready_locked(struct hm_frame_pool *pool, const struct timespec *deadline,
			     struct hm_frame **ret_frame)
{
	struct hm_frame *frame;
	int r = 0;

	while (cds_list_empty(&pool->ready) && !pool->ended && !r)
		r = pthread_cond_timedwait(&pool->published, &pool->lock, deadline);
	if (cds_list_empty(&pool->ready)) {
		if (pool->ended)
			return err_set(-EPIPE,
				       "frame pool %s has no picture, and was ended by "
				       "hm_frame_pool_end()",
				       pool->name);
		return err_set(-ETIME, "frame pool %s has no picture yet", pool->name);
	}
	frame = cds_list_first_entry(&pool->ready, struct hm_frame, link);
	leave_queue_locked(pool, frame);
	pool->taken++;
	*ret_frame = frame;
	return 0;
}

int hm_frame_pool_take(struct hm_frame_pool *pool, uint64_t timeout_ns,
		       struct hm_frame **ret_frame)
{
	struct timespec deadline;
	int r;

	err_begin();
	r = object_check((struct hm_object *)pool, OBJECT_FRAME_POOL);
	if (r)
		return r;
	if (!ret_frame)
		return err_set(-EINVAL, "hm_frame_pool_take: ret_frame is NULL");
	deadline_after(timeout_ns, &deadline);
	pthread_mutex_lock(&pool->lock);
	r = take_ready_locked(pool, &deadline, ret_frame);
	pthread_mutex_unlock(&pool->lock);
	return r;
}
