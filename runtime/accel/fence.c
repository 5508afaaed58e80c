// SPDX-License-Identifier: MIT
/*
 * Fences: taken from a queue's pool, completed by the first thread that finds the work done.
 *
 * PREPARING -> RUNNING -> COMPLETING -> DONE. The step to COMPLETING is a compare-and-swap, so
 * the uses end exactly once; all other threads wait for DONE. The work holds one reference from
 * fence_create on and drops it when done.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "accel/accel.h"
#include "loss/loss.h"
#include "loss/device_loss.h"
#include "tell/probe.h"
#include "fault/repair.h"
#include "fault/block_loss.h"
#include "map/bracket.h"
#include "base/sys.h"
#include "map/view.h"

#define CHUNK_FENCES 8

struct fence_chunk {
	struct fence_chunk *next;
	struct hm_fence fence[];
};

/* queue->lock is held. */
static int grow_pool(struct hm_queue *queue)
{
	uint32_t i, n = queue->foreign ? 1 : CHUNK_FENCES;
	struct fence_chunk *chunk = sys_calloc(1, sizeof(*chunk) + n * sizeof(chunk->fence[0]));

	if (!chunk)
		return err_set(-ENOMEM, "no memory for fences");
	chunk->next = queue->chunks;
	queue->chunks = chunk;
	for (i = 0; i < n; i++) {
		chunk->fence[i].queue = queue;
		cds_list_add(&chunk->fence[i].link, &queue->free);
	}
	return 0;
}

void fence_free_pool(struct hm_queue *queue)
{
	struct fence_chunk *chunk, *next;

	for (chunk = queue->chunks; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
}

int fence_create(struct hm_queue *queue, struct hm_fence **ret_fence)
{
	struct hm_accel_work *work;
	struct hm_fence *fence;
	int r = 0;

	pthread_mutex_lock(&queue->lock);
	if (unlikely(cds_list_empty(&queue->free)))
		r = grow_pool(queue);
	if (unlikely(r)) {
		pthread_mutex_unlock(&queue->lock);
		return r;
	}
	fence = cds_list_first_entry(&queue->free, struct hm_fence, link);
	cds_list_del(&fence->link);
	object_init(&fence->object, OBJECT_FENCE);
	atomic_store_explicit(&fence->state, FENCE_PREPARING, memory_order_relaxed);
	cds_list_add_tail(&fence->link, &queue->work);
	queue->n_fence++;
	pthread_mutex_unlock(&queue->lock);

	fence->kernel = NULL;
	fence->n_use = 0;
	fence->brackets = 0;
	fence->writes = 0;
	fence->any = 0;
	fence->loose = 0;
	work = &fence->work;
	work->n_arg = 0;
	work->kernel = NULL;
	work->bytes_in = 0;
	work->bytes_out = 0;
	work->way = HM_WAY_NONE;
	work->status = 0;
	memset(work->data, 0, sizeof(work->data));
	work->text[0] = '\0';
	*ret_fence = fence;
	return 0;
}

/* The last reference is gone. */
static void fence_free(struct hm_fence *fence)
{
	struct hm_queue *queue = fence->queue;
	bool last;

	if (unlikely(atomic_load_explicit(&fence->gone, memory_order_relaxed)))
		hm_device_unref(atomic_exchange(&fence->gone, NULL));
	queue->ops->work_release(&fence->work);
	pthread_mutex_lock(&queue->lock);
	/* Our own work holds its fence until it is done; foreign fences may still be listed. */
	if (atomic_load_explicit(&fence->state, memory_order_relaxed) != FENCE_DONE)
		cds_list_del(&fence->link);
	fence->object.kind = OBJECT_FREED;
	atomic_store_explicit(&fence->state, FENCE_FREE, memory_order_relaxed);
	cds_list_add(&fence->link, &queue->free);
	last = !--queue->n_fence && queue->closed;
	pthread_mutex_unlock(&queue->lock);
	if (unlikely(last))
		queue_free(queue);
}

static void fence_put(struct hm_fence *fence)
{
	if (object_put(&fence->object))
		fence_free(fence);
}

/* Publishes @state, takes a DONE fence off the list of work, and wakes waiters. */
static void set_state(struct hm_fence *fence, uint32_t state)
{
	struct hm_queue *queue = fence->queue;

	pthread_mutex_lock(&queue->lock);
	if (state == FENCE_DONE)
		cds_list_del(&fence->link);
	atomic_store_explicit(&fence->state, state, memory_order_release);
	if (unlikely(queue->n_waiter))
		pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

void fence_submitted(struct hm_fence *fence)
{
	set_state(fence, FENCE_RUNNING);
}

static void finish(struct hm_fence *fence)
{
	struct hm_kernel *kernel = fence->kernel;
	uint32_t i;

	for (i = 0; i < fence->n_use; i++)
		map_use_end(&fence->use[i]);
	set_state(fence, FENCE_DONE);
	fence->kernel = NULL;
	hm_kernel_unref(kernel);
	if (!fence->queue->foreign)
		fence_put(fence);
}

void fence_abandon(struct hm_fence *fence)
{
	atomic_store_explicit(&fence->state, FENCE_COMPLETING, memory_order_relaxed);
	finish(fence);
}

/*
 * Passes the bytes that the work wrote to the shadow, and checks that it read the device's
 * bytes; if not, the work has failed.
 */
static void keep_written(struct hm_fence *fence)
{
	struct hm_accel_work *work = &fence->work;
	const struct map_use *use;
	const void *asked = NULL;
	uint32_t i;
	int r;

	for (i = 0; i < fence->n_use; i++) {
		use = &fence->use[i];
		r = loss_after_launch(use, &asked);
		if (likely(!r) || work->status)
			continue;
		if (r == -ENODEV)
			atomic_store(&fence->gone, hm_device_ref(use->map->buffer->device));
		work->status = r;
		snprintf(work->text, sizeof(work->text),
			 "bytes of %.32s were lost, with their device, before the work was "
			 "done",
			 use->map->buffer->name);
	}
}

/*
 * The driver may report no failure where a handler has replaced bytes during the work: work on
 * such bytes has not succeeded.
 */
static void blame_lost(struct hm_fence *fence)
{
	struct hm_accel_work *work = &fence->work;
	const struct map_use *use;
	uint64_t at;
	uint32_t i;

	for (i = 0; i < fence->n_use && !work->status; i++) {
		use = &fence->use[i];
		if (unlikely(use->map->lost)) {
			work->status = -ENODEV;
			snprintf(work->text, sizeof(work->text),
				 "a map of %.32s was lost while the work ran",
				 use->map->buffer->name);
			break;
		}
		work->status = repair_check(use->map, use->offset, use->length, &at);
		if (unlikely(work->status))
			snprintf(work->text, sizeof(work->text),
				 "bytes of %.32s were lost, from %" PRIu64 " on, and replaced",
				 use->map->buffer->name, at);
	}
}

/* The driver reports the work done. The caller holds a reference. */
static PROBE_SITE void complete(struct hm_fence *fence)
{
	uint32_t running = FENCE_RUNNING;

	if (!atomic_compare_exchange_strong(&fence->state, &running, FENCE_COMPLETING))
		return;
	/* First: bytes lost after this have been kept, unless their policy keeps none. */
	keep_written(fence);
	blame_lost(fence);
	if (fence->work.status)
		fence->work.bytes_out = 0;
	else if (fence->work.bytes_out)
		launch_count_copied(fence, true);
	/* Foreign work was never submitted here. */
	if (!fence->queue->foreign)
		probe_launch_done(fence, fence->queue->accel->name, fence_work_name(fence),
				  fence->work.status, fence->work.bytes_out);
	finish(fence);
}

/* Waits until another thread has brought the fence out of @state. */
static int wait_past(struct hm_fence *fence, uint32_t state, uint64_t timeout_ns)
{
	struct hm_queue *queue = fence->queue;
	struct timespec deadline;
	int r = 0;

	deadline_after(timeout_ns, &deadline);
	pthread_mutex_lock(&queue->lock);
	queue->n_waiter++;
	while (!r && atomic_load(&fence->state) == state)
		r = pthread_cond_timedwait(&queue->changed, &queue->lock, &deadline);
	queue->n_waiter--;
	pthread_mutex_unlock(&queue->lock);
	return r ? -ETIME : 0;
}

/*
 * The end of all work does not mean that no thread is in the driver: of several waiters one
 * completes the fence, and the others have yet to return. The queue's end waits for them; a
 * thread that gets here later finds the work done, by the order of changes of queue->asking.
 */
void fence_ask_begin(struct hm_queue *queue)
{
	atomic_fetch_add_explicit(&queue->asking, 1, memory_order_acq_rel);
}

void fence_ask_end(struct hm_queue *queue)
{
	uint32_t last = QUEUE_ENDING | 1;

	if (likely(atomic_fetch_sub_explicit(&queue->asking, 1, memory_order_acq_rel) != last))
		return;
	pthread_mutex_lock(&queue->lock);
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

/* Waits in the driver, unless the work is done by now. */
static int ask(struct hm_fence *fence, uint64_t timeout_ns)
{
	struct hm_queue *queue = fence->queue;
	int r = 0;

	fence_ask_begin(queue);
	if (atomic_load_explicit(&fence->state, memory_order_acquire) == FENCE_RUNNING)
		r = queue->ops->wait(queue->data, &fence->work, timeout_ns);
	fence_ask_end(queue);
	return r;
}

int fence_wait_done(struct hm_fence *fence, uint64_t timeout_ns)
{
	uint32_t state;
	int r = 0;

	for (;;) {
		state = atomic_load_explicit(&fence->state, memory_order_acquire);
		if (state == FENCE_DONE)
			return 0;
		if (state == FENCE_RUNNING) {
			r = ask(fence, timeout_ns);
			if (!r)
				complete(fence);
		} else {
			r = wait_past(fence, state, timeout_ns);
		}
		if (r)
			return r;
	}
}

bool fence_is_done(struct hm_fence *fence)
{
	return atomic_load(&fence->state) == FENCE_DONE;
}

int fence_poll(struct hm_fence *fence)
{
	return fence_wait_done(fence, 0);
}

static int result(struct hm_fence *fence)
{
	if (likely(!fence->work.status))
		return 0;
	return err_set(fence->work.status, "the work failed: %s",
		       fence->work.text[0] ? fence->work.text : err_name(fence->work.status));
}

int fence_wait(struct hm_fence *fence, uint64_t timeout_ns)
{
	int r = fence_wait_done(fence, timeout_ns);

	if (r == -ETIME)
		return err_set(r, "the work is not done yet");
	return r ? r : result(fence);
}

const struct map_work_ops fence_work = {
	.ref = hm_fence_ref,
	.unref = hm_fence_unref,
	.wait = fence_wait,
	.is_done = fence_is_done,
};

/*
 * Looks the map up by address, as the uses have ended with the work: the caller is about to
 * touch the map that is there now, if any.
 */
static int bring_in(const struct hm_accel_range *range)
{
	struct hm_pointer_info info;
	struct hm_map *map;
	uint64_t length;
	int r = 0;

	map = registry_acquire(range->pointer, &info);
	if (!map)
		return 0;
	length = hm_map_length(map);
	if (map->buffer->caps & HM_CAP_BRACKET && info.map_offset < length) {
		length = min_u64(range->length, length - info.map_offset);
		r = device_loss_notice(map->buffer->device,
				       bracket_turn_begin(map, info.map_offset, length,
							  range->access));
	}
	hm_map_unref(map);
	return r;
}

/*
 * Begins the CPU's turn, which is no part of the work: the result does not depend on the room in
 * the window. Each range that did not fit is a warning. The parts of a merged fence are no merged
 * fences.
 */
static void bring_all_in(const struct hm_fence *fence)
{
	const struct hm_fence *part;
	uint32_t i;

	for (i = 0; (part = fence_part(fence, i)); i++)
		bring_all_in(part);
	if (i)
		return;
	for (i = 0; i < HM_KERNEL_MAX_ARGS; i++)
		if (fence->brackets & 1u << i && bring_in(&fence->work.range[i]))
			err_survive();
}

/* The work found that its device is gone: the first waiter reports the loss. */
static int tell_gone(struct hm_fence *fence, int r)
{
	struct hm_device *device;
	struct hm_fence *part;
	uint32_t i;

	r = block_loss_notice(r);
	/* In a view's callback the report is left to another thread's call. */
	if (likely(r != -ENODEV) || view_in_callback())
		return r;
	for (i = 0; (part = fence_part(fence, i)); i++)
		r = tell_gone(part, r);
	device = atomic_exchange(&fence->gone, NULL);
	if (!device)
		return r;
	r = device_loss_notice(device, r);
	hm_device_unref(device);
	return r;
}

int fence_wait_and_tell(struct hm_fence *fence, uint64_t timeout_ns)
{
	int r;

	r = object_check((struct hm_object *)fence, OBJECT_FENCE);
	if (r)
		return r;
	r = tell_gone(fence, fence_wait(fence, timeout_ns));
	if (likely(!fence->brackets) || r == -ETIME)
		return r;
	bring_all_in(fence);
	return r ? fence_wait(fence, 0) : 0; /* again, for its text */
}

int hm_fence_wait(struct hm_fence *fence, uint64_t timeout_ns)
{
	err_begin();
	return fence_wait_and_tell(fence, timeout_ns);
}

int hm_fence_query(struct hm_fence *fence, struct hm_fence_info *ret_info)
{
	struct hm_fence_info info = { 0 };
	int r;

	err_begin();
	r = object_check((struct hm_object *)fence, OBJECT_FENCE);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_fence_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info), sizeof(info),
			     "hm_fence_info");
	if (r)
		return r;
	r = fence_poll(fence);
	if (r && r != -ETIME)
		return r;
	err_clear(); /* a look at an unfinished fence may have left a text */
	info.done = !r;
	info.way_in = fence->work.way;
	info.bytes_copied = fence->work.bytes_in;
	if (!r) {
		info.status = fence->work.status;
		info.bytes_copied += fence->work.bytes_out;
	}
	struct_write(ret_info, &info, ret_info->struct_size);
	return 0;
}

/* A quick look: an accelerator that would have to ask its driver says so, and is left alone. */
static bool look(struct hm_queue *queue, struct hm_fence *fence)
{
	if (queue->ops->may_be_done && !queue->ops->may_be_done(queue->data, &fence->work))
		return false;
	return !queue->ops->wait(queue->data, &fence->work, 0);
}

void fence_reap(struct hm_queue *queue)
{
	struct hm_fence *fence;
	bool done = true;

	while (done) {
		pthread_mutex_lock(&queue->lock);
		fence = NULL;
		if (!cds_list_empty(&queue->work)) {
			fence = cds_list_first_entry(&queue->work, struct hm_fence, link);
			if (atomic_load(&fence->state) == FENCE_RUNNING)
				object_ref(&fence->object);
			else
				fence = NULL;
		}
		pthread_mutex_unlock(&queue->lock);
		if (!fence)
			return;
		done = look(queue, fence);
		if (done)
			complete(fence);
		fence_put(fence);
	}
}

void fence_drain(struct hm_queue *queue)
{
	struct hm_fence *fence;
	int r;

	pthread_mutex_lock(&queue->lock);
	while (!cds_list_empty(&queue->work)) {
		fence = cds_list_first_entry(&queue->work, struct hm_fence, link);
		object_ref(&fence->object);
		pthread_mutex_unlock(&queue->lock);
		r = fence_wait_done(fence, UINT64_MAX);
		if (r) {
			/* The driver can't even wait: its work is lost. */
			fence->work.status = r;
			complete(fence);
		}
		fence_put(fence);
		pthread_mutex_lock(&queue->lock);
	}
	queue->n_waiter++;
	atomic_fetch_or_explicit(&queue->asking, QUEUE_ENDING, memory_order_acq_rel);
	while (queue->n_notify ||
	       atomic_load_explicit(&queue->asking, memory_order_acquire) != QUEUE_ENDING)
		pthread_cond_wait(&queue->changed, &queue->lock);
	queue->n_waiter--;
	pthread_mutex_unlock(&queue->lock);
}

struct hm_fence *hm_fence_ref(struct hm_fence *fence)
{
	if (fence)
		object_ref(&fence->object);
	return fence;
}

void hm_fence_unref(struct hm_fence *fence)
{
	if (!fence)
		return;
	err_hold();
	fence_put(fence);
	err_release();
}
