// SPDX-License-Identifier: MIT
/*
 * Queues of an engine, each with a queue of the port. A piece of work is one or more consecutive
 * submissions; it is done when the last of them is, and its bytes are back.
 */
#include "accel/engine/engine.h"

#include <errno.h>
#include <hetmap/sim.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sys.h"

/* Added to a work's own time limit, for slow machines. */
#define FULL_GRACE_MS 3000

int engine_queue_make(struct engine *engine, uint32_t type, struct engine_queue **ret_queue)
{
	struct hetsim_queue_create create = { .size = sizeof(create), .type = type };
	struct engine_queue *queue;
	int r;

	queue = sys_calloc(1, sizeof(*queue));
	if (!queue)
		return err_set(-ENOMEM, "%s: no memory for a queue", engine->name);
	r = sim_port_call(engine->port, HETSIM_QUEUE_CREATE, &create);
	if (r == -ENOSPC) {
		r = err_set(r,
			    "%s: all %u queues of the engine are taken, or all that its "
			    "device gives to %s: unref one that is not needed",
			    engine->name, engine->port->query.max_queues,
			    engine->port->ops->queue_limits);
		goto err_free;
	}
	if (r) {
		r = sim_port_explain(engine->port, r, "making a queue");
		goto err_free;
	}
	atomic_init(&queue->refs, 1);
	atomic_fetch_add(&engine->refs, 1);
	queue->engine = engine;
	queue->number = create.queue;
	queue->type = type;
	queue->latest = queue;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_mutex_init(&queue->failure_lock, NULL);
	*ret_queue = queue;
	return 0;

err_free:
	free(queue);
	return r;
}

int engine_queue_create(void *accel, void **ret_queue)
{
	struct engine_queue *queue;
	int r = engine_queue_make(accel, HETSIM_QUEUE_DMA_FENCE, &queue);

	if (!r)
		*ret_queue = queue;
	return r;
}

/* A thread that waits for a completed fence may still be looking at the queue. */
void engine_queue_put(struct engine_queue *queue)
{
	if (atomic_fetch_sub(&queue->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&queue->failure_lock);
	pthread_mutex_destroy(&queue->lock);
	engine_put(queue->engine);
	free(queue);
}

void engine_queue_end(struct engine_queue *queue)
{
	struct hetsim_queue_destroy destroy = {
		.size = sizeof(destroy),
		.queue = queue->number,
	};

	atomic_store(&queue->ended, true);
	engine_slots_end(queue);
	engine_stage_put(queue->staged);
	queue->staged = NULL;
	sim_port_call(queue->engine->port, HETSIM_QUEUE_DESTROY, &destroy);
	engine_queue_put(queue);
}

void engine_queue_destroy(void *data)
{
	struct engine_queue *queue = data;

	if (queue->lane)
		engine_queue_end(queue->lane);
	engine_queue_end(queue);
}

int hm_sim_queue(struct hm_queue *queue, uint32_t *ret_number)
{
	int r;

	err_begin();
	r = object_check((struct hm_object *)queue, OBJECT_QUEUE);
	if (r)
		return r;
	if (!ret_number)
		return err_set(-EINVAL, "hm_sim_queue: ret_number is NULL");
	if (queue->ops != &sim_accel && queue->ops != &soft_accel)
		return err_set(-EOPNOTSUPP,
			       "hm_sim_queue: %s is no engine of a simulated device",
			       queue->accel->name);
	*ret_number = ((const struct engine_queue *)queue->data)->number;
	return 0;
}

/* ---- waiting ---- */

int engine_wait_number(struct sim_port *port, uint32_t queue, uint64_t number,
		       uint64_t deadline, struct engine_end *ret_end)
{
	struct hetsim_wait wait = {
		.size = sizeof(wait),
		.queue = queue,
		.seqno = number,
		.deadline_ns = deadline,
	};
	int r;

	do {
		r = sim_port_call(port, HETSIM_WAIT, &wait);
	} while (r == -EINTR && deadline);
	if (!r && deadline)
		sim_port_publish_events(port);
	/* Nothing of the device runs any more. */
	if (r == -ENODEV) {
		*ret_end = (struct engine_end){ .status = -ENODEV };
		return 0;
	}
	if (r)
		return r;
	*ret_end = (struct engine_end){ wait.status, wait.fault_address, wait.fault_reason,
					wait.fault_write };
	return 0;
}

static uint64_t deadline_of(uint64_t timeout_ns)
{
	uint64_t now;

	if (!timeout_ns || timeout_ns == UINT64_MAX)
		return timeout_ns;
	now = time_now_ns();
	return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

/* The end of work with a completed last submission: its first failure counts. */
static int find_end(struct engine_queue *queue, struct hm_accel_work *work,
		    struct engine_end *end)
{
	uint64_t number = work_number(work, WORK_FIRST);
	struct engine_end one;
	int r;

	for (; number < work_number(work, WORK_LAST); number++) {
		r = engine_wait_number(queue->engine->port, queue->number, number, 0, &one);
		if (r)
			return r;
		if (!one.status)
			continue;
		*end = one;
		break;
	}
	return 0;
}

static void fail_locked(struct engine_queue *queue, struct hm_accel_work *work,
			const struct engine_end *end)
{
	char text[96];

	if (work->status)
		return;
	snprintf(work->text, sizeof(work->text), "%s: %s", queue->engine->name,
		 engine_explain_end(queue->engine, end, text, sizeof(text)));
	work->status = end->status;
}

void engine_fail(struct engine_queue *queue, struct hm_accel_work *work,
		 const struct engine_end *end)
{
	pthread_mutex_lock(&queue->failure_lock);
	fail_locked(queue, work, end);
	pthread_mutex_unlock(&queue->failure_lock);
}

/*
 * The first thread that finds the work done sets its result: another may hear a moment later
 * that the device is gone, when the result has been read already.
 */
static void decide(struct engine_queue *queue, struct hm_accel_work *work,
		   const struct engine_end *end)
{
	pthread_mutex_lock(&queue->failure_lock);
	if (!work->data[WORK_DECIDED]) {
		work->data[WORK_DECIDED] = work;
		if (unlikely(end->status))
			fail_locked(queue, work, end);
	}
	pthread_mutex_unlock(&queue->failure_lock);
}

/* ---- progress told by SUBMIT; written with queue->lock held, read without ---- */

/* Devices tell it from this minor version on. */
#define TELLS_MINOR 1

/*
 * Writes good_after before done: a reader that loads done first never takes a failure for good.
 */
static void note_done(struct engine_queue *queue, const struct hetsim_submit *submit)
{
	if (submit->failures != queue->n_failures) {
		queue->n_failures = submit->failures;
		atomic_store_explicit(&queue->good_after, submit->done, memory_order_relaxed);
	}
	atomic_store_explicit(&queue->done, submit->done, memory_order_release);
}

static bool is_good(struct engine_queue *queue, const struct hm_accel_work *work)
{
	return work_number(work, WORK_LAST) <=
		       atomic_load_explicit(&queue->done, memory_order_acquire) &&
	       work_number(work, WORK_FIRST) >
		       atomic_load_explicit(&queue->good_after, memory_order_relaxed);
}

bool engine_may_be_done(void *data, const struct hm_accel_work *work)
{
	struct engine_queue *queue = work_queue(data, work);
	const struct sim_port *port = queue->engine->port;

	return work_number(work, WORK_LAST) <= atomic_load(&queue->done) ||
	       port->minor < TELLS_MINOR || port->gone;
}

/* ---- waiting for work ---- */

int engine_wait(void *data, struct hm_accel_work *work, uint64_t timeout_ns)
{
	struct engine_queue *queue = work_queue(data, work);
	struct sim_port *port = queue->engine->port;
	struct engine_stage *stage = work->data[WORK_STAGE];
	struct engine_end end = { 0 };
	bool good;
	int r = 0;

	/* The queue's end has waited for all its work. */
	if (atomic_load(&queue->ended))
		return 0;
	good = is_good(queue, work);
	if (!good)
		r = engine_wait_number(port, queue->number, work_number(work, WORK_LAST),
				       deadline_of(timeout_ns), &end);
	if (!r && !good && unlikely(work->data[WORK_FIRST] != work->data[WORK_LAST]))
		r = find_end(queue, work, &end);
	if (unlikely(r)) {
		if (r == -ETIME)
			return r;
		return atomic_load(&queue->ended) ?
			       0 :
			       sim_port_explain(port, r, "waiting for work");
	}
	if (unlikely(stage && !end.status))
		end.status = engine_stage_back(port, stage);
	if (unlikely(stage && end.status))
		engine_stage_drop(stage);
	decide(queue, work, &end);
	return 0;
}

int engine_fence_fd(void *data, struct hm_accel_work *work, int *ret_fd)
{
	const struct engine_stage *stage = work->data[WORK_STAGE];
	struct engine_queue *queue = work_queue(data, work);
	struct hetsim_fence_fd ask = {
		.size = sizeof(ask),
		.queue = queue->number,
		.seqno = work_number(work, WORK_LAST),
	};
	int r;

	/* The descriptor would be readable before the bytes are back; or a lane has none. */
	if ((stage && stage->n) || queue->type != HETSIM_QUEUE_DMA_FENCE)
		return -EOPNOTSUPP;
	r = sim_port_call(queue->engine->port, HETSIM_FENCE_FD, &ask);
	if (r == -EOPNOTSUPP)
		return r;
	if (r)
		return sim_port_explain(queue->engine->port, r, "a descriptor of a fence");
	*ret_fd = ask.fd;
	return 0;
}

void engine_work_release(struct hm_accel_work *work)
{
	struct engine_queue *queue = work->data[WORK_QUEUE];

	engine_stage_put(work->data[WORK_STAGE]);
	if (queue)
		engine_queue_put(queue);
}

/* ---- submitting; queue->lock is held ---- */

/* The queue is full: waits until its oldest work is done. */
static int wait_for_room(struct engine_queue *queue, uint64_t deadline)
{
	const struct hetsim_query *query = &queue->engine->port->query;
	uint64_t oldest =
		queue->last > query->max_pending ? queue->last - query->max_pending + 1 : 1;
	struct engine_end end;
	int r = -ETIME;

	if (time_now_ns() < deadline)
		r = engine_wait_number(queue->engine->port, queue->number, oldest, deadline,
				       &end);
	if (r == -ETIME)
		return err_set(-EBUSY,
			       "%s: the queue is full with %u pieces of work, and the oldest "
			       "does not end: wait for its fence, and submit again",
			       queue->engine->name, query->max_pending);
	return r ? sim_port_explain(queue->engine->port, r, "waiting for a full queue") : 0;
}

int engine_flush(struct engine_queue *queue)
{
	struct sim_port *port = queue->engine->port;
	struct hetsim_submit submit = {
		.size = sizeof(submit),
		.queue = queue->number,
		.commands = (uint64_t)(uintptr_t)queue->command,
		.command_size = sizeof(queue->command[0]),
		.uses = (uint64_t)(uintptr_t)queue->use,
		.n_uses = queue->n_use,
	};
	uint64_t deadline = 0;
	uint32_t sent = 0;
	int r = 0;

	while (!r && sent < queue->n_command) {
		submit.n_commands =
			(uint32_t)min_u64(queue->n_command - sent, port->query.max_commands);
		submit.commands = (uint64_t)(uintptr_t)&queue->command[sent];
		r = sim_port_call(port, HETSIM_SUBMIT, &submit);
		if (r == -EAGAIN) {
			if (!deadline)
				deadline =
					time_now_ns() +
					(port->query.timeout_ms + FULL_GRACE_MS) * 1000000ull;
			r = wait_for_room(queue, deadline);
		} else if (r) {
			r = sim_port_explain(port, r, "submitting work");
		} else {
			sent += submit.n_commands;
			queue->last = submit.seqno;
			note_done(queue, &submit);
		}
	}
	queue->n_command = 0;
	return r;
}

int engine_add(struct engine_queue *queue, const struct hetsim_command *command)
{
	queue->command[queue->n_command++] = *command;
	return queue->n_command == ARRAY_SIZE(queue->command) ? engine_flush(queue) : 0;
}

int engine_catch_up(struct engine_queue *queue)
{
	struct sim_port *port = queue->engine->port;
	struct engine_end end;
	int r;

	if (!queue->last)
		return 0;
	/* Only its own fence tells whether it succeeded. */
	r = engine_wait_number(port, queue->number, queue->last, ENGINE_FOREVER, &end);
	return r ? sim_port_explain(port, r, "waiting for earlier work") : 0;
}

/* Waits until bytes of earlier work are back: the next work may need them. */
static int settle(struct engine_queue *queue)
{
	struct sim_port *port = queue->engine->port;
	struct engine_end end;
	int r;

	if (likely(!queue->staged))
		return 0;
	r = engine_wait_number(port, queue->number, queue->last, ENGINE_FOREVER, &end);
	if (r)
		return sim_port_explain(port, r, "waiting for earlier work");
	/* Only its own fence tells whether it succeeded. */
	if (!end.status)
		engine_stage_back(port, queue->staged);
	engine_stage_put(queue->staged);
	queue->staged = NULL;
	return 0;
}

/* Gives each copied range a slot on the device; other ranges stay in place. */
static int place_ranges(struct engine_queue *queue, const struct hm_accel_work *work,
			uint64_t *address)
{
	const struct hm_accel_range *range;
	uint32_t i;
	int r;

	for (i = 0; i < work->n_arg; i++) {
		if (work->arg[i].kind != HM_ARG_POINTER)
			continue;
		range = &work->range[i];
		address[i] = (uint64_t)(uintptr_t)range->pointer;
		if (likely(range->way != HM_WAY_COPY))
			continue;
		r = engine_slot_get(queue, i, range->length);
		if (r)
			return r;
		address[i] = queue->slot[i].address;
	}
	return 0;
}

static bool is_staged(const struct hm_accel_work *work, uint32_t i)
{
	return work->arg[i].kind == HM_ARG_POINTER && work->range[i].way == HM_WAY_COPY;
}

/*
 * Copies all bytes in, also of ranges that are only written: unwritten bytes must come back
 * unchanged.
 */
static int bring_in(struct engine_queue *queue, struct hm_accel_work *work,
		    struct engine_stage **ret_stage)
{
	const struct hm_accel_range *range;
	struct engine_stage *stage;
	uint32_t i;
	int r;

	stage = engine_stage_new();
	if (!stage)
		return err_set(-ENOMEM, "%s: no memory to copy", queue->engine->name);
	r = engine_catch_up(queue);
	if (r)
		goto err_stage;
	for (i = 0; i < work->n_arg; i++) {
		if (!is_staged(work, i))
			continue;
		range = &work->range[i];
		r = engine_write(queue->engine->port, &queue->slot[i], range->pointer,
				 range->length);
		if (r)
			goto err_stage;
		work->bytes_in += range->length;
		if (!(range->access & HM_WRITE))
			continue;
		stage->back[stage->n].to = range->pointer;
		stage->back[stage->n].length = range->length;
		stage->back[stage->n].from = queue->slot[i].object->offset;
		stage->n++;
		work->bytes_out += range->length;
	}
	*ret_stage = stage;
	return 0;

err_stage:
	engine_stage_put(stage);
	work->bytes_in = 0;
	work->bytes_out = 0;
	return r;
}

static int launch(struct engine_queue *queue, struct hm_accel_work *work)
{
	uint64_t address[HM_KERNEL_MAX_ARGS];
	struct engine_stage *stage = NULL;
	int r;

	r = place_ranges(queue, work, address);
	if (!r)
		r = engine_program(queue, work, address);
	if (!r && unlikely(work->way == HM_WAY_COPY))
		r = bring_in(queue, work, &stage);
	work->data[WORK_STAGE] = stage;
	if (r) {
		queue->n_command = 0;
		return r;
	}
	return engine_flush(queue);
}

static uint32_t count_ranges(const struct hm_accel_work *work)
{
	if (work->kind == HM_WORK_LAUNCH)
		return work->n_arg;
	return work->kind == HM_WORK_COPY ? 2 : 1;
}

/* NULL: there is none. */
static void *view_at(const struct hm_accel_work *work, uint32_t i)
{
	if (work->kind == HM_WORK_LAUNCH && work->arg[i].kind != HM_ARG_POINTER)
		return NULL;
	return work->range[i].view;
}

/* Keeps views until the work that uses them has ended. */
static void note_views(const struct engine_queue *queue, const struct hm_accel_work *work)
{
	uint32_t i;

	for (i = 0; i < count_ranges(work); i++)
		if (view_at(work, i))
			engine_view_used(view_at(work, i), queue->number, queue->last);
}

/* With HM_ACCEL_IMPLICIT: names the buffers of the work to the device. */
static int name_buffers(struct engine_queue *lane, const struct hm_accel_work *work)
{
	uint32_t i;
	int r = 0;

	lane->n_use = 0;
	if (likely(!(lane->engine->flags & HM_ACCEL_IMPLICIT)))
		return 0;
	if (lane->type != HETSIM_QUEUE_DMA_FENCE)
		return err_set(-EOPNOTSUPP,
			       "%s: work on pointers outside maps has no fence for a dma-buf: "
			       "use memory of a map, or open the accelerator without "
			       "HM_ACCEL_IMPLICIT",
			       lane->engine->name);
	for (i = 0; i < count_ranges(work) && !r; i++)
		if (view_at(work, i))
			r = engine_view_name(view_at(work, i), work->range[i].access, lane);
	return r;
}

/* Submissions before the failure may still touch the ranges. */
static void undo_submit(struct engine_queue *queue, struct hm_accel_work *work)
{
	struct engine_end end;

	if (queue->last >= work_number(work, WORK_FIRST))
		engine_wait_number(queue->engine->port, queue->number, queue->last,
				   ENGINE_FOREVER, &end);
	engine_stage_put(work->data[WORK_STAGE]);
	work->data[WORK_STAGE] = NULL;
	work->bytes_in = 0;
	work->bytes_out = 0;
}

/* Does the work use pointers that nothing is bound at? */
static bool uses_any(const struct hm_accel_work *work)
{
	uint32_t i;

	if (work->kind != HM_WORK_LAUNCH)
		return false;
	for (i = 0; i < work->n_arg; i++)
		if (work->arg[i].kind == HM_ARG_POINTER && !work->range[i].view)
			return true;
	return false;
}

/* The queue of the port for the work, once the other one's work is done. */
static int choose_lane(struct engine_queue *queue, const struct hm_accel_work *work,
		       struct engine_queue **ret_lane)
{
	struct engine_queue *lane = queue;
	int r;

	if (unlikely(uses_any(work))) {
		if (!queue->lane) {
			r = engine_queue_make(queue->engine, HETSIM_QUEUE_COUNTER,
					      &queue->lane);
			if (r)
				return r;
		}
		lane = queue->lane;
	}
	if (unlikely(lane != queue->latest)) {
		r = settle(queue->latest);
		if (!r)
			r = engine_catch_up(queue->latest);
		if (r)
			return r;
	}
	*ret_lane = lane;
	return 0;
}

int engine_submit(void *data, struct hm_accel_work *work)
{
	struct engine_queue *queue = data, *lane;
	struct engine_stage *stage;
	int r;

	pthread_mutex_lock(&queue->lock);
	r = choose_lane(queue, work, &lane);
	if (!r)
		r = settle(lane);
	if (!r)
		r = name_buffers(lane, work);
	if (r)
		goto out;
	work->data[WORK_FIRST] = (void *)(uintptr_t)(lane->last + 1);
	r = work->kind == HM_WORK_LAUNCH ? launch(lane, work) : engine_transfer(lane, work);
	if (unlikely(r)) {
		undo_submit(lane, work);
		goto out;
	}
	queue->latest = lane;
	work->data[WORK_LAST] = (void *)(uintptr_t)lane->last;
	note_views(lane, work);
	atomic_fetch_add(&lane->refs, 1);
	work->data[WORK_QUEUE] = lane;
	stage = work->data[WORK_STAGE];
	if (unlikely(stage)) {
		atomic_fetch_add(&stage->refs, 1);
		lane->staged = stage;
	}
out:
	pthread_mutex_unlock(&queue->lock);
	return r;
}
