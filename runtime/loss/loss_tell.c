// SPDX-License-Identifier: MIT
/*
 * The list of policies, and the callbacks about losses: one event after the other, each once.
 */
#include "loss/loss.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "core/device_link.h"
#include "base/callback.h"
#include "loss/device_loss.h"
#include "map/remap.h"
#include "core/segments.h"
#include "loss/shadow.h"

/* ---- all policies, on all devices ---- */

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER; /* no callback runs with it */
static CDS_LIST_HEAD(all);

void loss_enter(struct loss *loss)
{
	pthread_mutex_lock(&all_lock);
	cds_list_add_tail(&loss->link, &all);
	pthread_mutex_unlock(&all_lock);
}

void loss_leave(struct loss *loss)
{
	pthread_mutex_lock(&all_lock);
	cds_list_del(&loss->link);
	pthread_mutex_unlock(&all_lock);
}

void loss_each(void (*visit)(struct hm_buffer *buffer))
{
	static uint32_t last; /* under all_lock */
	struct hm_buffer *found;
	struct loss *loss;
	uint32_t pass;

	pthread_mutex_lock(&all_lock);
	pass = ++last;
	do {
		found = NULL;
		cds_list_for_each_entry(loss, &all, link) {
			if (loss->pass == pass || !object_try_ref(&loss->buffer->object))
				continue;
			loss->pass = pass;
			found = loss->buffer;
			/* Moved to the end of the list, so that each is visited once. */
			cds_list_del(&loss->link);
			cds_list_add_tail(&loss->link, &all);
			break;
		}
		pthread_mutex_unlock(&all_lock);
		if (found) {
			visit(found);
			hm_buffer_unref(found);
		}
		pthread_mutex_lock(&all_lock);
	} while (found);
	pthread_mutex_unlock(&all_lock);
}

/* ---- telling ---- */

/* Lost callbacks that this thread is in: it must not wait for those. */
static _Thread_local uint32_t inside;

/*
 * Does this thread hold some device's recovery? If so, calls of the library come from its
 * callback.
 */
static _Thread_local bool recovering;

void loss_drain(struct loss *loss)
{
	if (inside || recovering)
		return;
	pthread_mutex_lock(&loss->lock);
	while (loss->calling)
		pthread_cond_wait(&loss->called, &loss->lock);
	pthread_mutex_unlock(&loss->lock);
}

void loss_call(struct hm_buffer *buffer, enum hm_loss_event event)
{
	struct loss *loss = atomic_load(&buffer->loss);
	struct hm_loss_desc desc;
	struct callback callback;

	pthread_mutex_lock(&loss->lock);
	desc = loss->desc;
	loss->calling += desc.lost != NULL;
	pthread_mutex_unlock(&loss->lock);
	if (!desc.lost)
		return;
	inside++;
	callback = callback_begin();
	desc.lost(buffer, event, desc.user);
	callback_end(callback);
	inside--;
	pthread_mutex_lock(&loss->lock);
	if (!--loss->calling)
		pthread_cond_broadcast(&loss->called);
	pthread_mutex_unlock(&loss->lock);
}

/* Identifies this thread; never 0. */
static uint64_t self(void)
{
	static _Thread_local char here;

	return (uintptr_t)&here;
}

bool loss_is_being_told(const struct loss *loss)
{
	uint64_t teller = atomic_load(&((struct loss *)loss)->teller);

	return teller && teller != self();
}

static bool is_teller(void)
{
	struct loss *loss;
	bool found = false;

	pthread_mutex_lock(&all_lock);
	cds_list_for_each_entry(loss, &all, link)
		found = found || atomic_load(&loss->teller) == self();
	pthread_mutex_unlock(&all_lock);
	return found;
}

/*
 * Refuses another device as well: the thread in that one's callback may ask for this recovery.
 */
int loss_recovery_lock(struct hm_device *device)
{
	const struct timespec past = { 0 };
	int r;

	if (recovering)
		return err_set(
			-EDEADLK,
			"%s: a callback of a recovery must not recover a device: call after "
			"the callback",
			device->name);
	r = is_teller() ? pthread_mutex_timedlock(&device->recovery, &past) :
			  pthread_mutex_lock(&device->recovery);
	if (r)
		return err_set(-EBUSY,
			       "%s: another thread recovers it, and waits for this callback: "
			       "return, and call again",
			       device->name);
	recovering = true;
	return 0;
}

void loss_recovery_unlock(struct hm_device *device)
{
	recovering = false;
	pthread_mutex_unlock(&device->recovery);
}

/*
 * Finds a policy that was not told of the loss of @backend, with a reference to its buffer. A
 * policy that another thread tells is left to that thread, which looks again when it is done.
 */
static struct hm_buffer *next_untold(const void *backend, bool *ret_nested)
{
	struct hm_buffer *found = NULL;
	struct segment_list *segments;
	struct loss *loss;

	pthread_mutex_lock(&all_lock);
	cds_list_for_each_entry(loss, &all, link) {
		if (atomic_load(&loss->told) || loss_is_being_told(loss))
			continue;
		segments = segments_get(loss->buffer);
		if (segments->link->backend == backend &&
		    object_try_ref(&loss->buffer->object)) {
			found = loss->buffer;
			*ret_nested = atomic_load(&loss->teller) == self();
			atomic_store(&loss->teller, self());
			atomic_store(&loss->told, true);
		}
		segments_put(loss->buffer, segments);
		if (found)
			break;
	}
	pthread_mutex_unlock(&all_lock);
	return found;
}

/*
 * Handles a loss that another thread found meanwhile: the buffer was recovered, and is lost
 * once more.
 */
static void tell_again(struct hm_buffer *buffer, const void *backend)
{
	struct segment_list *segments = segments_get(buffer);
	const void *now = segments->link->backend;
	bool gone = now != backend && device_loss_check_link(buffer->device, segments->link);

	segments_put(buffer, segments);
	/* Maps come first: this thread may be the first one to know. */
	if (gone)
		device_loss_tell(now);
}

void loss_tell(const void *backend)
{
	struct hm_buffer *buffer;
	struct shadow *shadow;
	struct loss *loss;
	bool nested;

	while ((buffer = next_untold(backend, &nested))) {
		loss = atomic_load(&buffer->loss);
		pthread_mutex_lock(&loss->lock);
		shadow = atomic_load(&loss->shadow);
		if (shadow)
			shadow_let_go(shadow);
		pthread_mutex_unlock(&loss->lock);
		loss_call(buffer, HM_LOSS_TAKEN);
		/* Inside a callback of this thread, the outer event is still being told. */
		if (!nested) {
			atomic_store(&loss->teller, 0);
			tell_again(buffer, backend);
		}
		hm_buffer_unref(buffer);
	}
}

bool loss_teller_take(struct hm_buffer *buffer)
{
	struct loss *loss = atomic_load(&buffer->loss);
	bool alone;

	if (!loss)
		return true;
	pthread_mutex_lock(&all_lock);
	alone = !atomic_load(&loss->teller);
	if (alone)
		atomic_store(&loss->teller, self());
	pthread_mutex_unlock(&all_lock);
	return alone;
}

void loss_teller_give(struct hm_buffer *buffer)
{
	struct loss *loss = atomic_load(&buffer->loss);

	/* A buffer that got its policy meanwhile has another teller, or none. */
	if (!loss || atomic_load(&loss->teller) != self())
		return;
	atomic_store(&loss->teller, 0);
	tell_again(buffer, NULL);
}

void loss_call_in_turn(struct hm_buffer *buffer, enum hm_loss_event event, bool whole)
{
	struct loss *loss = atomic_load(&buffer->loss);
	const struct timespec moment = { .tv_nsec = 200000 };
	uint64_t deadline = time_now_ns() + REMAP_TIMEOUT_NS;
	bool taken;

	/*
	 * The wait has an end, as the teller may wait for the caller. A teller further up in
	 * this thread is not waited for.
	 */
	while (!(taken = loss_teller_take(buffer)) && loss_is_being_told(loss) &&
	       time_now_ns() < deadline)
		nanosleep(&moment, NULL);
	loss_call(buffer, event);
	/*
	 * If it was lost again meanwhile, hm_device_recover() tells of that: it looks at its
	 * end.
	 */
	if (whole && event == HM_LOSS_RECOVERED)
		atomic_store(&loss->told, false);
	if (taken)
		loss_teller_give(buffer);
}

/* A fork child is not told about the parent's buffers. */
void loss_fork_child(void)
{
	all_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	CDS_INIT_LIST_HEAD(&all);
	/*
	 * The callback that forked goes on in the child, but the recovery that called it does
	 * not.
	 */
	recovering = false;
	inside = 0;
	loss_signal_fork_child();
}
