// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The engine: one thread for each queue runs its submissions, in order, and tells waiters
 * when each is done.
 */
#include <linux/dma-fence.h>
#include <linux/kthread.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "sim_queue.h"
#include "sim_trace.h"

/*
 * The thread dozes for so long before it sleeps, and until there are so many
 * submissions, or one of so many bytes: work of a size is to overlap with the CPU's.
 */
#define SIM_DOZE_NS NSEC_PER_MSEC
#define SIM_DOZE_JOBS 64
#define SIM_DOZE_BYTES SZ_16K

/* Why the running submission has to end now, whatever it waits for; 0 if it does not. */
static int sim_engine_interrupted(struct sim_queue *queue)
{
	struct sim_device *dev = queue->opener->dev;

	if (READ_ONCE(dev->gone))
		return -ENODEV;
	if (kthread_should_stop() || atomic64_read(&dev->n_resets) != queue->n_resets)
		return -ECANCELED;
	return 0;
}

/*
 * To be asked between pieces of work: 0, or why the submission that runs has to
 * end. Gives other tasks the processor.
 */
int sim_engine_poll(struct sim_queue *queue)
{
	int r = sim_engine_interrupted(queue);

	cond_resched();
	if (!r && time_after(jiffies, queue->deadline))
		r = -ETIMEDOUT;
	return r;
}

/*
 * Pages of the process are about to come or to go, which is not the engine's work: the time of the
 * submission stands still. All pages that one access waits for have the same time again.
 */
void sim_engine_bring(struct sim_queue *queue)
{
	if (queue->brings)
		return;
	queue->brings = true;
	queue->left = queue->deadline - jiffies;
	queue->deadline = jiffies + queue->timeout;
}

/* The access has its pages: the engine goes on. */
void sim_engine_brought(struct sim_queue *queue)
{
	if (!queue->brings)
		return;
	queue->brings = false;
	queue->deadline = jiffies + queue->left;
}

/* Does nothing for so long, or until the submission has to end. */
static int sim_engine_sleep(struct sim_queue *queue, u64 ns)
{
	long left = queue->deadline - jiffies;

	/* A tick more than is left: then its time is up for certain. */
	ns = min(ns, jiffies_to_nsecs(max(left, 0l) + 1));
	__wait_event_hrtimeout(queue->work, sim_engine_interrupted(queue), ns_to_ktime(ns),
			       TASK_IDLE);
	return sim_engine_poll(queue);
}

/*
 * Waits for one of the things that the submission waits for, in the time of the submission. On the
 * way to signalling a dma_fence: that is legal for what earlier work signals, and lockdep sees here
 * that nothing else is waited for meanwhile.
 */
static int sim_engine_await(struct sim_queue *queue, const struct sim_sync *sync)
{
	struct sim_sync_waiter waiter;
	long left;
	int r = 0;

	if (sim_sync_is_there(sync))
		return 0;
	sim_sync_wait_begin(sync, &waiter);
	while (!sim_sync_is_there(sync) && !r) {
		left = queue->deadline - jiffies;
		if (left > 0)
			wait_event_idle_timeout(queue->work, sim_sync_is_there(sync) ||
						sim_engine_interrupted(queue), left);
		r = sim_engine_poll(queue);
		if (left <= 0)
			r = r ?: -ETIMEDOUT;
	}
	sim_sync_wait_end(sync, &waiter);
	return r;
}

/* Injected: something that was to happen does not, until the time is up. */
static int sim_engine_hang(struct sim_queue *queue)
{
	int r;

	do {
		r = sim_engine_sleep(queue, U64_MAX);
	} while (!r);
	return r;
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
		int r = sim_engine_interrupted(queue);

		if (r)
			return r;
		if (left <= 0)
			return -ETIME;
		wait_event_idle_timeout(va->changed,
					READ_ONCE(va->generation) != generation ||
					sim_engine_interrupted(queue), left);
	}
	return 0;
}

/*
 * An address is not bound, or was not when the page table was of @generation. A
 * COUNTER queue waits until it may be, and returns 0. A queue with fences must not wait: the
 * bind may itself wait for its fence.
 */
int sim_engine_fault(struct sim_queue *queue, u64 generation)
{
	/* Imported pages may be missing because the device is. */
	int r = sim_engine_interrupted(queue);

	if (r)
		return r;
	sim_count(queue->opener->dev, queue->opener->account, SIM_DEVICE_FAULTS, 1);
	r = queue->type == HETSIM_QUEUE_COUNTER ? sim_engine_wait(queue, generation) : -EFAULT;
	return r == -ETIME ? -EFAULT : r;
}

/*
 * A page is on its way to another place. All queues wait for that: the move has all the
 * memory that it takes, and waits for no fence.
 */
int sim_engine_moving(struct sim_queue *queue, u64 generation)
{
	int r = sim_engine_wait(queue, generation);

	return r == -ETIME ? -ETIMEDOUT : r;
}

/*
 * Marks the submission as done, and then tells everyone that waits.
 * @job is gone afterwards.
 */
static void sim_engine_complete(struct sim_queue *queue, struct sim_job *job, int status,
				const struct sim_fault *fault)
{
	struct sim_event *event, *next;
	u64 seqno = job->seqno;
	LIST_HEAD(due);

	/* First: after WAIT, its points are reached. */
	if (job->syncs)
		sim_syncs_signal(job->syncs);
	spin_lock(&queue->lock);
	list_del(&job->link);
	if (job->fence)
		list_del(&job->fence_link);
	if (status)
		sim_failures_add(&queue->failures, seqno, status, fault);
	WRITE_ONCE(queue->done, seqno);
	list_for_each_entry_safe(event, next, &queue->events, link) {
		if (event->seqno > seqno)
			continue;
		list_move_tail(&event->link, &due);
		queue->n_events--;
	}
	spin_unlock(&queue->lock);

	trace_complete(queue, seqno, status);
	/* No look-up finds the job now, and so no call asks for a fence of it. */
	if (job->fence)
		sim_fence_signal(job->fence, status);
	sim_waiters_wake(queue, seqno);
	list_for_each_entry_safe(event, next, &due, link) {
		sim_eventfd_signal(event->eventfd);
		eventfd_ctx_put(event->eventfd);
		kfree(event);
	}
	sim_job_free(job);
}

static void sim_engine_count(struct sim_queue *queue, enum sim_counter counter, s64 n)
{
	if (n)
		sim_count(queue->opener->dev, queue->opener->account, counter, n);
}

/*
 * A submission had no time left. A waiter of a dma_fence must not wait for one time-out after
 * another: the queued submissions are cancelled, too.
 */
static void sim_engine_cancel(struct sim_queue *queue)
{
	if (queue->type != HETSIM_QUEUE_DMA_FENCE)
		return;
	spin_lock(&queue->lock);
	queue->cancelled = queue->submitted;
	spin_unlock(&queue->lock);
}

/*
 * The engine did not answer, and was reset: cached translations are not trusted
 * afterwards. @at: the job's command that ran.
 */
static void sim_engine_reset(struct sim_queue *queue, const struct sim_job *job, unsigned int at)
{
	sim_engine_count(queue, SIM_RESETS, 1);
	sim_dump_take(queue, job, at);
	down_read(&queue->opener->va.lock);
	sim_tlb_clear(&queue->tlb);
	up_read(&queue->opener->va.lock);
	sim_engine_cancel(queue);
}

/*
 * The time by which the next submission must end. A waiter of a dma_fence waits for one time-out
 * after it asked, whatever the queue has before. A fence that is asked for later is due later
 * than the running submission.
 */
static unsigned long sim_engine_deadline(struct sim_queue *queue)
{
	unsigned long deadline = jiffies + queue->timeout;
	struct sim_job *fenced;

	spin_lock(&queue->lock);
	fenced = list_first_entry_or_null(&queue->fenced, struct sim_job, fence_link);
	if (fenced && time_before(fenced->fence_due, deadline))
		deadline = fenced->fence_due;
	spin_unlock(&queue->lock);
	return deadline;
}

/* The job's own work instead of commands. */
static int sim_engine_work(struct sim_queue *queue, struct sim_job *job,
			   struct sim_fault *ret_fault)
{
	struct mem_cgroup *old = set_active_memcg(job->memcg);
	int r = sim_engine_poll(queue);

	r = r ?: job->work(queue, job, ret_fault);
	set_active_memcg(old);
	return r;
}

/* Waits for all points or fences of a list, one after another. */
static int sim_engine_await_list(struct sim_queue *queue, const struct sim_syncs *syncs)
{
	unsigned int i;
	int r = 0;

	for (i = 0; syncs && i < syncs->n_waits && !r; i++)
		r = sim_engine_await(queue, &syncs->sync[i]);
	return r;
}

/* The submission needs all of them. */
static int sim_engine_await_all(struct sim_queue *queue, const struct sim_job *job)
{
	int r = sim_engine_await_list(queue, job->syncs);

	r = r ?: sim_engine_await_list(queue, job->fences);
	if (r == -ETIMEDOUT)
		sim_engine_cancel(queue);
	return r;
}

/* How the submission ends; with -EFAULT, by which fault. */
static int sim_engine_run(struct sim_queue *queue, struct sim_job *job,
			  struct sim_fault *ret_fault)
{
	struct sim_device *dev = queue->opener->dev;
	unsigned int i;
	s64 latency;
	u64 start;
	int r = 0;

	if (job->seqno <= queue->cancelled)
		return -ECANCELED;
	queue->deadline = sim_engine_deadline(queue);
	queue->brings = false;
	queue->n_resets = atomic64_read(&dev->n_resets);
	if (job->syncs || job->fences)
		r = sim_engine_await_all(queue, job);
	if (r)
		return r;
	start = ktime_get_ns();
	if (sim_inject_take(&queue->stuck))
		r = sim_engine_hang(queue);
	queue->tlb.mirrors = job->mirrors;
	if (job->work && !r)
		r = sim_engine_work(queue, job, ret_fault);
	for (i = 0; i < job->n_commands && !r; i++) {
		latency = atomic64_read(&queue->latency);
		if (latency)
			r = sim_engine_sleep(queue, latency);
		r = r ?: sim_command_run(queue, &job->commands[i], ret_fault);
	}
	sim_engine_count(queue, SIM_COMMANDS, i - (i && r));
	if (!r && sim_inject_take(&queue->lost))
		r = sim_engine_hang(queue);

	sim_engine_count(queue, SIM_ENGINE_NS, ktime_get_ns() - start);
	sim_engine_count(queue, SIM_SUBMISSIONS, 1);
	sim_engine_count(queue, SIM_TLB_HITS, queue->tlb.hits);
	sim_engine_count(queue, SIM_TLB_MISSES, queue->tlb.misses);
	queue->tlb.hits = 0;
	queue->tlb.misses = 0;
	if (r == -ETIMEDOUT)
		sim_engine_reset(queue, job, i ? i - 1 : 0);
	return r;
}

/*
 * Someone waits for a submission that is in the queue. True: the caller is to wake up
 * the thread, once it has let go of queue->lock, which it holds.
 */
bool sim_engine_rouse(struct sim_queue *queue)
{
	lockdep_assert_held(&queue->lock);
	if (queue->rest == SIM_AWAKE)
		return false;
	WRITE_ONCE(queue->rest, SIM_AWAKE);
	return true;
}

static bool sim_job_is_small(const struct sim_job *job)
{
	unsigned int i;
	u64 bytes = 0;

	for (i = 0; i < job->n_commands && bytes < SIM_DOZE_BYTES; i++)
		bytes += job->commands[i].length;
	return bytes < SIM_DOZE_BYTES;
}

/* The same for @job, which is new in the queue, and has waiters by its signals or fence only. */
bool sim_engine_offer(struct sim_queue *queue, const struct sim_job *job)
{
	if (!job->syncs && !job->fence && queue->rest == SIM_DOZES &&
	    queue->submitted - queue->done < SIM_DOZE_JOBS && sim_job_is_small(job))
		return false;
	return sim_engine_rouse(queue);
}

/* The oldest submission. NULL: there is none, and the thread is to rest. */
static struct sim_job *sim_engine_next(struct sim_queue *queue)
{
	struct sim_job *job;

	spin_lock(&queue->lock);
	job = list_first_entry_or_null(&queue->jobs, struct sim_job, link);
	if (job)
		WRITE_ONCE(queue->rest, SIM_AWAKE);
	else
		WRITE_ONCE(queue->rest, queue->rest == SIM_AWAKE ? SIM_DOZES : SIM_SLEEPS);
	spin_unlock(&queue->lock);
	return job;
}

/*
 * One submission often follows soon upon another. The first one wakes up the thread
 * from its sleep; those that come while it dozes need not, and where all share one
 * processor, that saves going back and forth for each. A wait for one of them ends the doze.
 */
static void sim_engine_rest(struct sim_queue *queue)
{
	if (READ_ONCE(queue->rest) == SIM_SLEEPS)
		wait_event_idle(queue->work, kthread_should_stop() ||
				READ_ONCE(queue->rest) == SIM_AWAKE);
	else
		__wait_event_hrtimeout(queue->work, kthread_should_stop() ||
				       READ_ONCE(queue->rest) == SIM_AWAKE,
				       ns_to_ktime(SIM_DOZE_NS), TASK_IDLE);
}

int sim_engine_thread(void *argument)
{
	struct sim_queue *queue = argument;
	struct sim_job *job;

	while (!kthread_should_stop()) {
		struct sim_fault fault = {};
		bool cookie;
		int status;

		job = sim_engine_next(queue);
		if (!job) {
			sim_engine_rest(queue);
			continue;
		}
		if (queue->type == HETSIM_QUEUE_COUNTER) {
			status = sim_engine_run(queue, job, &fault);
			sim_engine_complete(queue, job, status, &fault);
			continue;
		}
		/* From here to the signal, nothing may wait for another fence. */
		cookie = dma_fence_begin_signalling();
		status = sim_engine_run(queue, job, &fault);
		sim_engine_complete(queue, job, status, &fault);
		dma_fence_end_signalling(cookie);
	}
	return 0;
}

/* Ends the thread, and cancels the submissions that it has not done. With queue->stopped set. */
void sim_engine_stop(struct sim_queue *queue)
{
	static const struct sim_fault none;
	struct sim_job *job;

	kthread_stop(queue->thread);
	while ((job = sim_engine_next(queue))) {
		sim_engine_complete(queue, job, -ECANCELED, &none);
		cond_resched();
	}
}
