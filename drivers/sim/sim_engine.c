// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The engine: one thread for each queue runs what is submitted to it, in order,
 * and says when each submission is done.
 */
#include <linux/dma-fence.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "sim.h"

/*
 * To be asked between pieces of work: 0, or why the submission that runs has to
 * end. Gives other tasks the processor.
 */
int sim_engine_poll(struct sim_queue *queue)
{
	cond_resched();
	if (kthread_should_stop())
		return -ECANCELED;
	if (time_after(jiffies, queue->deadline))
		return -ETIMEDOUT;
	return 0;
}

/*
 * Waits until the page table is no more of @generation. -ETIME when the time of
 * the submission is up.
 */
static int sim_engine_wait(struct sim_queue *queue, u64 generation)
{
	struct sim_va *va = &queue->opener->va;

	while (READ_ONCE(va->generation) == generation) {
		long left = queue->deadline - jiffies;

		if (kthread_should_stop())
			return -ECANCELED;
		if (left <= 0)
			return -ETIME;
		wait_event_idle_timeout(va->changed,
					READ_ONCE(va->generation) != generation ||
					kthread_should_stop(), left);
	}
	return 0;
}

/*
 * An address is not bound, or was not when the page table was of @generation. A
 * COUNTER queue waits until it may be, which 0 says. Others must not: someone
 * may be waiting for their fence to go on with what would bind it.
 */
int sim_engine_fault(struct sim_queue *queue, u64 generation)
{
	int r = -EFAULT;

	sim_count(queue->opener->dev, queue->opener->account, SIM_DEVICE_FAULTS, 1);
	if (queue->type == HETSIM_QUEUE_COUNTER)
		r = sim_engine_wait(queue, generation);
	return r == -ETIME ? -EFAULT : r;
}

/*
 * A page is on its way to another place. All queues wait for that: who moves it
 * has all the memory that it takes, and waits for no fence.
 */
int sim_engine_moving(struct sim_queue *queue, u64 generation)
{
	int r = sim_engine_wait(queue, generation);

	return r == -ETIME ? -ETIMEDOUT : r;
}

/*
 * The submission is done, as far as anyone can see. With it, or before, everyone
 * who waits is told. @job is gone afterwards.
 */
static void sim_engine_complete(struct sim_queue *queue, struct sim_job *job, int status,
				u64 address)
{
	struct sim_event *event, *next;
	LIST_HEAD(due);

	spin_lock(&queue->lock);
	list_del(&job->link);
	if (status) {
		struct sim_failure *failure =
			&queue->failures[queue->n_failures++ % SIM_FAILURES];

		failure->seqno = job->seqno;
		failure->status = status;
		failure->address = address;
	}
	WRITE_ONCE(queue->done, job->seqno);
	list_for_each_entry_safe(event, next, &queue->events, link) {
		if (event->seqno > queue->done)
			continue;
		list_move_tail(&event->link, &due);
		queue->n_events--;
	}
	spin_unlock(&queue->lock);

	/* Nobody else finds the job now, and so none asks for a fence of it. */
	if (job->fence)
		sim_fence_signal(job->fence, status);
	wake_up_all(&queue->completed);
	list_for_each_entry_safe(event, next, &due, link) {
		sim_eventfd_signal(event->eventfd);
		eventfd_ctx_put(event->eventfd);
		kfree(event);
	}
	kfree(job);
}

/* How the submission ends; with -EFAULT, where. */
static int sim_engine_run(struct sim_queue *queue, struct sim_job *job, u64 *ret_address)
{
	struct sim_device *dev = queue->opener->dev;
	struct sim_account *account = queue->opener->account;
	unsigned int i;
	int r = 0;

	queue->deadline = jiffies + queue->timeout;
	for (i = 0; i < job->n_commands && !r; i++)
		r = sim_command_run(queue, &job->commands[i], ret_address);

	sim_count(dev, account, SIM_SUBMISSIONS, 1);
	sim_count(dev, account, SIM_COMMANDS, i - !!r);
	sim_count(dev, account, SIM_TLB_HITS, queue->tlb.hits);
	sim_count(dev, account, SIM_TLB_MISSES, queue->tlb.misses);
	queue->tlb.hits = 0;
	queue->tlb.misses = 0;

	/* A reset: nothing that was at hand is trusted afterwards. */
	if (r == -ETIMEDOUT) {
		sim_count(dev, account, SIM_RESETS, 1);
		memset(queue->tlb.slot, 0, sizeof(queue->tlb.slot));
	}
	return r;
}

static struct sim_job *sim_engine_next(struct sim_queue *queue)
{
	struct sim_job *job;

	spin_lock(&queue->lock);
	job = list_first_entry_or_null(&queue->jobs, struct sim_job, link);
	spin_unlock(&queue->lock);
	return job;
}

int sim_engine_thread(void *argument)
{
	struct sim_queue *queue = argument;
	struct sim_job *job;

	while (!kthread_should_stop()) {
		u64 address = 0;
		bool cookie;
		int status;

		job = sim_engine_next(queue);
		if (!job) {
			wait_event_idle(queue->work, kthread_should_stop() ||
					!list_empty_careful(&queue->jobs));
			continue;
		}
		if (queue->type == HETSIM_QUEUE_COUNTER) {
			status = sim_engine_run(queue, job, &address);
			sim_engine_complete(queue, job, status, address);
			continue;
		}
		/* From here to the signal, nothing may wait for another fence. */
		cookie = dma_fence_begin_signalling();
		status = sim_engine_run(queue, job, &address);
		sim_engine_complete(queue, job, status, address);
		dma_fence_end_signalling(cookie);
	}
	return 0;
}

/* Ends the thread, and what it has not done. With queue->stopped set. */
void sim_engine_stop(struct sim_queue *queue)
{
	struct sim_job *job;

	kthread_stop(queue->thread);
	while ((job = sim_engine_next(queue))) {
		sim_engine_complete(queue, job, -ECANCELED, 0);
		cond_resched();
	}
}
