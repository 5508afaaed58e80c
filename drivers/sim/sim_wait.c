// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Waiting for submissions: WAIT, and eventfds.
 */
#include <linux/hrtimer.h>
#include <linux/slab.h>

#include "sim_queue.h"

struct sim_waiter {
	struct wait_queue_entry entry; /* in sim_queue.completed */
	u64 seqno;
};

/* Wakes up the waiter, unless its submission is not done yet. */
static int sim_waiter_wake(struct wait_queue_entry *entry, unsigned int mode, int flags,
			   void *done)
{
	if (container_of(entry, struct sim_waiter, entry)->seqno > *(u64 *)done)
		return 0;
	return autoremove_wake_function(entry, mode, flags, NULL);
}

/* Wakes up the waiters for @done, or for an earlier submission. */
void sim_waiters_wake(struct sim_queue *queue, u64 done)
{
	__wake_up(&queue->completed, TASK_NORMAL, 0, &done);
}

/* 0 once the submission is done. */
static int sim_wait_done(struct sim_queue *queue, u64 seqno, u64 deadline)
{
	struct sim_waiter waiter = { .seqno = seqno };
	ktime_t until = min_t(u64, deadline, KTIME_MAX);
	bool expired = !deadline;
	int r = 0;

	init_wait(&waiter.entry);
	waiter.entry.func = sim_waiter_wake;
	while (READ_ONCE(queue->done) < seqno && !r) {
		if (expired) {
			r = -ETIME;
			break;
		}
		prepare_to_wait(&queue->completed, &waiter.entry, TASK_INTERRUPTIBLE);
		if (READ_ONCE(queue->done) >= seqno)
			break;
		if (signal_pending(current))
			r = -ERESTARTSYS;
		else
			expired = !schedule_hrtimeout(until == KTIME_MAX ? NULL : &until,
						      HRTIMER_MODE_ABS);
	}
	finish_wait(&queue->completed, &waiter.entry);
	return r;
}

/* Someone is going to wait for the submission. */
static bool sim_wait_begin(struct sim_queue *queue, u64 seqno)
{
	bool submitted, wake = false;

	spin_lock(&queue->lock);
	submitted = seqno && seqno <= queue->submitted;
	if (submitted && seqno > queue->done)
		wake = sim_engine_rouse(queue);
	spin_unlock(&queue->lock);
	if (wake)
		wake_up(&queue->work);
	return submitted;
}

int sim_wait(struct file *file, void *argument)
{
	struct hetsim_wait *wait = argument;
	struct sim_queue *queue;
	struct sim_fault fault = {};
	int r;

	queue = sim_queue_get(file->private_data, wait->queue);
	if (!queue)
		return -ENOENT;
	if (!sim_wait_begin(queue, wait->seqno)) {
		r = -ERANGE;
		goto out;
	}
	if (sim_inject_due(&queue->opener->account->eintr)) {
		r = -EINTR;
		goto out;
	}
	r = sim_wait_done(queue, wait->seqno, wait->deadline_ns);
	if (r)
		goto out;
	spin_lock(&queue->lock);
	wait->status = sim_failures_find(&queue->failures, wait->seqno, &fault);
	spin_unlock(&queue->lock);
	wait->fault_address = fault.address;
	wait->fault_reason = fault.reason;
	wait->fault_write = fault.write;
out:
	sim_queue_put(queue);
	return r;
}

/* Puts the event where the engine finds it, unless its time has come already. */
static int sim_event_add(struct sim_queue *queue, struct sim_event *event, bool *ret_due)
{
	bool wake = false;
	int r = 0;

	spin_lock(&queue->lock);
	*ret_due = event->seqno <= queue->done;
	if (!event->seqno || event->seqno > queue->submitted) {
		r = -ERANGE;
	} else if (!*ret_due && queue->n_events == SIM_MAX_EVENTS) {
		r = -EAGAIN;
	} else if (!*ret_due) {
		list_add_tail(&event->link, &queue->events);
		queue->n_events++;
		wake = sim_engine_rouse(queue);
	}
	spin_unlock(&queue->lock);
	if (wake)
		wake_up(&queue->work);
	return r;
}

int sim_queue_event(struct file *file, void *argument)
{
	struct hetsim_queue_event *ask = argument;
	struct sim_event *event;
	struct sim_queue *queue;
	bool due;
	int r;

	queue = sim_queue_get(file->private_data, ask->queue);
	if (!queue)
		return -ENOENT;
	event = kzalloc(sizeof(*event), SIM_GFP);
	if (!event) {
		r = -ENOMEM;
		goto err_queue;
	}
	event->seqno = ask->seqno;
	event->eventfd = eventfd_ctx_fdget(ask->eventfd);
	if (IS_ERR(event->eventfd)) {
		r = PTR_ERR(event->eventfd) == -EBADF ? -EINVAL : PTR_ERR(event->eventfd);
		goto err_event;
	}
	r = sim_event_add(queue, event, &due);
	if (r)
		goto err_eventfd;
	if (due) {
		sim_eventfd_signal(event->eventfd);
		eventfd_ctx_put(event->eventfd);
		kfree(event);
	}
	sim_queue_put(queue);
	return 0;

err_eventfd:
	eventfd_ctx_put(event->eventfd);
err_event:
	kfree(event);
err_queue:
	sim_queue_put(queue);
	return r;
}
