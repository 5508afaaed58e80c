// SPDX-License-Identifier: MIT
/*
 * A thread that keeps batches ahead: it fills slots of the caller's in turn. A slot is free,
 * then ready, then taken, and free again; the thread touches free ones only.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/rlimits.h"
#include "base/sys.h"
#include "base/thread.h"
#include "format/tokens/tokens.h"

#define SLOTS_MAX 4096
#define BATCH_LEAST offsetof(struct hm_batch, lengths)

enum slot_state { SLOT_FREE, SLOT_READY, SLOT_TAKEN };

struct slot {
	void *x, *y;
	uint64_t *starts;  /* batch of them, one for each block */
	uint64_t *lengths; /* likewise, or NULL: not of documents */
	uint64_t epoch;
	enum slot_state state;
};

/* Protected by hm_batches.lock, except for a free slot's contents, which are the thread's. */
struct batch_ring {
	pthread_t thread;
	bool end;          /* the thread must end */
	int error;         /* the thread's, which has then ended; or 0 */
	char *text;        /* of the error, ERR_TEXT_MAX */
	uint64_t taken;    /* batches so far: the next one is in slot taken % n */
	uint32_t n_taken;  /* slots that are taken */
	uint64_t *starts;  /* for all slots, */
	uint64_t *lengths; /* and of documents: for all slots, or NULL */
	uint32_t n;
	struct slot slot[];
};

/* ---- the thread ---- */

/* Waits until the slot is free. False: the thread must end. */
static bool await_free(struct hm_batches *batches, const struct batch_ring *ring,
		       const struct slot *slot)
{
	while (!ring->end && slot->state != SLOT_FREE)
		pthread_cond_wait(&batches->changed, &batches->lock);
	return !ring->end;
}

static void *run(void *user)
{
	struct hm_batches *batches = user;
	struct batch_ring *ring;
	struct slot *slot;
	uint64_t i, done;
	int r = 0;

	pthread_mutex_lock(&batches->lock);
	ring = batches->ring;
	done = batches->done;
	for (i = 0; !r; i++, done += batches->batch) {
		slot = &ring->slot[i % ring->n];
		if (!await_free(batches, ring, slot))
			break;
		pthread_mutex_unlock(&batches->lock);
		r = batches_fill(batches, done, slot->x, slot->y, slot->starts, slot->lengths);
		slot->epoch =
			order_epoch(&batches->order,
				    batches->base + done * batches->members + batches->member);
		pthread_mutex_lock(&batches->lock);
		if (r) {
			ring->error = r;
			name_copy(ring->text, ERR_TEXT_MAX, hm_errmsg());
		} else {
			slot->state = SLOT_READY;
		}
		pthread_cond_broadcast(&batches->changed);
	}
	pthread_mutex_unlock(&batches->lock);
	return NULL;
}

/* ---- begin and end ---- */

static void free_ring(struct batch_ring *ring)
{
	free(ring->starts);
	free(ring->lengths);
	free(ring->text);
	free(ring);
}

static int create_ring(const struct hm_batches *batches, const struct hm_batch_slot *slots,
		       uint32_t n, struct batch_ring **ret_ring)
{
	struct batch_ring *ring;
	uint32_t i;

	ring = sys_calloc(1, sizeof(*ring) + n * sizeof(*ring->slot));
	if (!ring)
		return err_set(-ENOMEM, "no memory for %u slots", n);
	ring->text = sys_calloc(1, ERR_TEXT_MAX);
	ring->starts = sys_calloc(batches->batch, n * sizeof(*ring->starts));
	if (batches->documents)
		ring->lengths = sys_calloc(batches->batch, n * sizeof(*ring->lengths));
	if (!ring->text || !ring->starts || (batches->documents && !ring->lengths)) {
		free_ring(ring);
		return err_set(-ENOMEM, "no memory for %u slots", n);
	}
	ring->n = n;
	for (i = 0; i < n; i++)
		ring->slot[i] = (struct slot){
			.x = slots[i].x,
			.y = slots[i].y,
			.starts = ring->starts + i * batches->batch,
			.lengths = ring->lengths ? ring->lengths + i * batches->batch : NULL,
		};
	*ret_ring = ring;
	return 0;
}

static int check_slots(const struct hm_batches *batches, const struct hm_batch_slot *slots,
		       uint32_t n)
{
	uint32_t i;
	int r = 0;

	if (!slots || !n || n > SLOTS_MAX)
		return err_set(-EINVAL, "hm_batches_start: %u slots%s: 1 to %d are allowed", n,
			       slots ? "" : ", and slots is NULL", SLOTS_MAX);
	for (i = 0; i < n && !r; i++)
		r = batches_check_memory(batches, slots[i].x, slots[i].y, "hm_batches_start");
	return r;
}

int hm_batches_start(struct hm_batches *batches, const struct hm_batch_slot *slots,
		     uint32_t n_slots)
{
	struct batch_ring *ring = NULL;
	int r;

	err_begin();
	r = batches_check_object(batches);
	if (r)
		return r;
	pthread_mutex_lock(&batches->lock);
	if (batches->ring)
		r = err_set(-EBUSY, "hm_batches_start: it is started already");
	if (!r)
		r = check_slots(batches, slots, n_slots);
	if (!r)
		r = create_ring(batches, slots, n_slots, &ring);
	if (r)
		goto out;
	batches->ring = ring;
	r = thread_start(&ring->thread, run, batches);
	if (r) {
		rlimits_explain_thread(r, "hm_batches_start");
		batches->ring = NULL;
		free_ring(ring);
	}
out:
	pthread_mutex_unlock(&batches->lock);
	return r;
}

void batches_end_ring(struct hm_batches *batches)
{
	struct batch_ring *ring;

	/* Another thread is stopping it. */
	while (batches->stopping)
		pthread_cond_wait(&batches->changed, &batches->lock);
	ring = batches->ring;
	if (!ring)
		return;
	batches->stopping = true;
	ring->end = true;
	pthread_cond_broadcast(&batches->changed);
	pthread_mutex_unlock(&batches->lock);
	pthread_join(ring->thread, NULL);
	pthread_mutex_lock(&batches->lock);
	while (batches->takers)
		pthread_cond_wait(&batches->changed, &batches->lock);
	batches->ring = NULL;
	batches->stopping = false;
	/* Announcements for batches that come again stay valid. */
	pthread_cond_broadcast(&batches->changed);
	free_ring(ring);
}

int hm_batches_stop(struct hm_batches *batches)
{
	int r;

	err_begin();
	r = batches_check_object(batches);
	if (r)
		return r;
	pthread_mutex_lock(&batches->lock);
	batches_end_ring(batches);
	pthread_mutex_unlock(&batches->lock);
	return 0;
}

/* ---- taking ---- */

/* Waits until the next slot is ready, with lock held. */
static int await_ready(struct hm_batches *batches, struct batch_ring *ring, uint64_t timeout_ns)
{
	struct timespec deadline;
	int r = 0;

	if (timeout_ns != UINT64_MAX)
		deadline_after(timeout_ns, &deadline);
	for (;;) {
		if (ring->end)
			return err_set(-ECANCELED,
				       "hm_batches_take: hm_batches_stop() was called");
		if (ring->slot[ring->taken % ring->n].state == SLOT_READY)
			return 0;
		if (ring->error)
			return err_set(ring->error, "%s", ring->text);
		if (ring->n_taken == ring->n)
			return err_set(-EBUSY,
				       "hm_batches_take: all %u slots are taken: give one back",
				       ring->n);
		/* After one more look: the slot may have become ready at the last moment. */
		if (r == ETIMEDOUT)
			return err_set(-ETIME,
				       "hm_batches_take: no batch was ready within %" PRIu64
				       " ns",
				       timeout_ns);
		if (timeout_ns == UINT64_MAX)
			r = pthread_cond_wait(&batches->changed, &batches->lock);
		else
			r = pthread_cond_timedwait(&batches->changed, &batches->lock,
						   &deadline);
	}
}

static void hand_out(struct hm_batches *batches, struct batch_ring *ring,
		     struct hm_batch *ret_batch)
{
	uint32_t number = (uint32_t)(ring->taken % ring->n);
	struct slot *slot = &ring->slot[number];

	slot->state = SLOT_TAKEN;
	ring->taken++;
	ring->n_taken++;
	batches->done += batches->batch;
	struct_write(ret_batch,
		     &(struct hm_batch){
			     .slot = number,
			     .number = batches->handed++,
			     .epoch = slot->epoch,
			     .blocks = batches->batch,
			     .starts = slot->starts,
			     .lengths = slot->lengths,
		     },
		     ret_batch->struct_size);
}

int hm_batches_take(struct hm_batches *batches, uint64_t timeout_ns, struct hm_batch *ret_batch)
{
	uint64_t begin;
	int r;

	err_begin();
	if (!ret_batch)
		return err_set(-EINVAL, "hm_batches_take: ret_batch is NULL");
	r = batches_check_object(batches);
	if (!r)
		r = struct_check_out(ret_batch->struct_size, sizeof(*ret_batch), BATCH_LEAST,
				     "hm_batch");
	if (r)
		return r;
	pthread_mutex_lock(&batches->lock);
	if (!batches->ring) {
		r = err_set(-EINVAL, "hm_batches_take: call hm_batches_start() first");
		goto out;
	}
	begin = time_now_ns();
	batches->takers++;
	r = await_ready(batches, batches->ring, timeout_ns);
	if (!r)
		hand_out(batches, batches->ring, ret_batch);
	if (!--batches->takers && batches->stopping)
		pthread_cond_broadcast(&batches->changed);
	batches->waited_ns += time_now_ns() - begin;
out:
	pthread_mutex_unlock(&batches->lock);
	return r;
}

int hm_batches_give(struct hm_batches *batches, uint32_t number)
{
	struct batch_ring *ring;
	int r;

	err_begin();
	r = batches_check_object(batches);
	if (r)
		return r;
	pthread_mutex_lock(&batches->lock);
	ring = batches->ring;
	if (!ring || number >= ring->n || ring->slot[number].state != SLOT_TAKEN) {
		r = err_set(-EINVAL, "hm_batches_give: slot %u is not taken", number);
	} else {
		ring->slot[number].state = SLOT_FREE;
		ring->n_taken--;
		pthread_cond_broadcast(&batches->changed);
	}
	pthread_mutex_unlock(&batches->lock);
	return r;
}
