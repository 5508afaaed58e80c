// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Waiting for submissions: WAIT, and eventfds.
 */
#include <linux/hrtimer.h>
#include <linux/slab.h>

#include "sim.h"

/* 0 once the submission is done. */
static int sim_wait_done(struct sim_queue *queue, u64 seqno, u64 deadline)
{
	ktime_t left;
	int r;

	if (READ_ONCE(queue->done) >= seqno)
		return 0;
	if (deadline >= KTIME_MAX)
		return wait_event_interruptible(queue->completed,
						READ_ONCE(queue->done) >= seqno);
	left = ktime_sub(deadline, ktime_get());
	if (!deadline || left <= 0)
		return -ETIME;
	r = wait_event_interruptible_hrtimeout(queue->completed,
					       READ_ONCE(queue->done) >= seqno, left);
	return r;
}

static bool sim_wait_submitted(struct sim_queue *queue, u64 seqno)
{
	bool submitted;

	spin_lock(&queue->lock);
	submitted = seqno && seqno <= queue->submitted;
	spin_unlock(&queue->lock);
	return submitted;
}

int sim_wait(struct file *file, void *argument)
{
	struct hetsim_wait *wait = argument;
	struct sim_queue *queue;
	u64 address = 0;
	int r;

	if (wait->__reserved)
		return -EINVAL;
	queue = sim_queue_get(file->private_data, wait->queue);
	if (!queue)
		return -ENOENT;
	if (!sim_wait_submitted(queue, wait->seqno)) {
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
	wait->status = sim_queue_status(queue, wait->seqno, &address);
	spin_unlock(&queue->lock);
	wait->fault_address = address;
out:
	sim_queue_put(queue);
	return r;
}

/* Puts the event where the engine finds it, unless its time has come already. */
static int sim_event_add(struct sim_queue *queue, struct sim_event *event, bool *ret_due)
{
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
	}
	spin_unlock(&queue->lock);
	return r;
}

int sim_queue_event(struct file *file, void *argument)
{
	struct hetsim_queue_event *ask = argument;
	struct sim_event *event;
	struct sim_queue *queue;
	bool due;
	int r;

	if (ask->flags)
		return -EINVAL;
	queue = sim_queue_get(file->private_data, ask->queue);
	if (!queue)
		return -ENOENT;
	event = kzalloc(sizeof(*event), GFP_KERNEL_ACCOUNT);
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
