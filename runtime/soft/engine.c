// SPDX-License-Identifier: MIT
/*
 * The twin's engine: one thread for each queue, started by the first submission, runs
 * submissions in order and signals their ends.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "soft/mirror.h"
#include "../backend/sim/port.h"
#include "base/thread.h"

/* Yields to other threads before the engine's thread goes to sleep. */
#define LINGER_YIELDS 2

struct timespec soft_timespec(uint64_t ns)
{
	return (struct timespec){
		.tv_sec = (time_t)(ns / 1000000000u),
		.tv_nsec = (long)(ns % 1000000000u),
	};
}

/* Error that must end the running submission now, even in a wait; 0: none. */
static int interrupted(struct soft_queue *queue)
{
	struct soft_device *dev = queue->file->dev;

	if (dev->gone)
		return -ENODEV;
	if (queue->stopped || dev->n_resets != queue->n_resets)
		return -ECANCELED;
	return 0;
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec now = { 0 };

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * The deadline has passed. On a busy machine the thread may have had no processor for most of the
 * time: the submission keeps what it has not used. Who waits for a fence waits by the clock.
 */
static bool engine_extend(struct soft_queue *queue, uint64_t now)
{
	uint64_t used = thread_cpu_ns() - queue->cpu_ns + queue->waited_ns;

	if (queue->type != HETSIM_QUEUE_COUNTER || used >= queue->timeout_ns)
		return false;
	queue->deadline_ns = now + queue->timeout_ns - used;
	return true;
}

int soft_engine_poll(struct soft_queue *queue)
{
	uint64_t now = time_now_ns();
	int r = interrupted(queue);

	if (r || now < queue->deadline_ns)
		return r;
	return engine_extend(queue, now) ? 0 : -ETIMEDOUT;
}

void soft_engine_brought(struct soft_queue *queue, uint64_t begin)
{
	queue->deadline_ns += time_now_ns() - begin;
}

/* Sleeps for @ns, or until the submission must end. */
static int engine_sleep(struct soft_queue *queue, uint64_t ns)
{
	uint64_t now = time_now_ns();
	struct timespec until =
		soft_timespec(ns < queue->deadline_ns - now ? now + ns : queue->deadline_ns);
	int r = 0;

	if (now >= queue->deadline_ns)
		return soft_engine_poll(queue);
	pthread_mutex_lock(&queue->lock);
	while (!r && !interrupted(queue))
		r = pthread_cond_timedwait(&queue->work, &queue->lock, &until);
	pthread_mutex_unlock(&queue->lock);
	queue->waited_ns += time_now_ns() - now;
	return soft_engine_poll(queue);
}

static int queue_ended(void *queue)
{
	return interrupted(queue);
}

/* The limit of this wait is the clock's: the thread uses no processor in it. */
static int engine_await(struct soft_queue *queue, const struct soft_sync *sync)
{
	uint64_t begin = time_now_ns();
	int r = soft_sync_await(queue->file->dev, sync, queue->deadline_ns, queue_ended, queue);

	queue->waited_ns += time_now_ns() - begin;
	return r == -ETIME ? -ETIMEDOUT : r;
}

/* Injected: the submission hangs until its time is up. */
static int engine_hang(struct soft_queue *queue)
{
	int r;

	do {
		r = engine_sleep(queue, UINT64_MAX);
	} while (!r);
	return r;
}

/* Waits until the page table has another generation than @generation. -ETIME: the time is up. */
static int engine_wait(struct soft_queue *queue, uint64_t generation)
{
	struct soft_va *va = &queue->file->va;
	struct timespec until = soft_timespec(queue->deadline_ns);
	uint64_t begin = time_now_ns();
	int r = 0, timed_out = 0;

	pthread_mutex_lock(&va->changed_lock);
	while (va->generation == generation && !r) {
		r = interrupted(queue);
		if (!r && timed_out)
			r = -ETIME;
		if (!r)
			timed_out =
				pthread_cond_timedwait(&va->changed, &va->changed_lock, &until);
	}
	pthread_mutex_unlock(&va->changed_lock);
	queue->waited_ns += time_now_ns() - begin;
	return r;
}

int soft_engine_fault(struct soft_queue *queue, uint64_t generation)
{
	/* The pages may be missing because the device is. */
	int r = interrupted(queue);

	if (r)
		return r;
	soft_count_add(queue->file->dev, queue->file->account, SIM_DEVICE_FAULTS, 1);
	/* Other types must not wait: the binding may come only after their fence. */
	r = queue->type == HETSIM_QUEUE_COUNTER ? engine_wait(queue, generation) : -EFAULT;
	return r == -ETIME ? -EFAULT : r;
}

/* Completes the submission: publishes its end, wakes all waiters, and frees @job. */
static void engine_complete(struct soft_queue *queue, struct soft_job *job, int status,
			    const struct sim_fault *fault)
{
	struct soft_event *event, *next;
	CDS_LIST_HEAD(due);
	bool wanted;

	/* First: after WAIT, its points are reached. */
	if (job->syncs)
		soft_syncs_signal(job->syncs);
	pthread_mutex_lock(&queue->lock);
	cds_list_del(&job->link);
	if (job->is_fenced)
		cds_list_del(&job->fence_link);
	if (status)
		sim_failures_add(&queue->failures, job->seqno, status, fault);
	queue->done = job->seqno;
	cds_list_for_each_entry_safe(event, next, &queue->events, link) {
		if (event->seqno > queue->done)
			continue;
		cds_list_del(&event->link);
		cds_list_add_tail(&event->link, &due);
		queue->n_events--;
	}
	wanted = queue->done >= queue->wanted;
	if (wanted)
		queue->wanted = UINT64_MAX;
	pthread_mutex_unlock(&queue->lock);

	/* Without the lock, so that no thread wakes up only to wait for it. */
	if (wanted)
		pthread_cond_broadcast(&queue->completed);
	soft_events_signal(&due);
	soft_fence_signal(job);
	soft_job_free(job);
}

static void engine_count(struct soft_queue *queue, enum sim_counter counter, uint64_t n)
{
	if (n)
		soft_count_add(queue->file->dev, queue->file->account, counter, n);
}

/*
 * A submission had no time left. For queues with fences, cancels all queued submissions: a waiter
 * must not wait for one time-out after another.
 */
static void engine_cancel(struct soft_queue *queue)
{
	if (queue->type != HETSIM_QUEUE_DMA_FENCE)
		return;
	pthread_mutex_lock(&queue->lock);
	queue->cancelled = queue->submitted;
	pthread_mutex_unlock(&queue->lock);
}

/* The engine did not answer, and was reset: the TLB is no longer trusted. */
static void engine_reset(struct soft_queue *queue)
{
	engine_count(queue, SIM_RESETS, 1);
	memset(queue->tlb.slot, 0, sizeof(queue->tlb.slot));
	engine_cancel(queue);
}

/*
 * Returns when a submission that begins now must end. A fence is signalled one time-out after it
 * was asked for, however many submissions are before it in the queue.
 */
static uint64_t engine_deadline(struct soft_queue *queue, uint64_t now)
{
	uint64_t deadline = now + queue->timeout_ns;

	pthread_mutex_lock(&queue->lock);
	if (!cds_list_empty(&queue->fenced))
		deadline = min_u64(deadline, cds_list_first_entry(&queue->fenced,
								  struct soft_job, fence_link)
						     ->fence_due_ns);
	pthread_mutex_unlock(&queue->lock);
	return deadline;
}

static int engine_await_list(struct soft_queue *queue, const struct soft_syncs *syncs)
{
	uint32_t i;
	int r = 0;

	for (i = 0; syncs && i < syncs->n_waits && !r; i++)
		r = engine_await(queue, &syncs->sync[i]);
	return r;
}

/* Waits for what the submission waits for, in any order, as it needs all of it. */
static int engine_await_all(struct soft_queue *queue, const struct soft_job *job)
{
	int r = engine_await_list(queue, job->syncs);

	if (!r)
		r = engine_await_list(queue, job->fences);
	if (r == -ETIMEDOUT)
		engine_cancel(queue);
	return r;
}

/* Returns the submission's status; with -EFAULT, the fault. */
static int engine_run(struct soft_queue *queue, struct soft_job *job,
		      struct sim_fault *ret_fault)
{
	uint64_t latency, start;
	uint32_t i, n_done = 0;
	int r = 0;

	if (job->seqno <= queue->cancelled)
		return -ECANCELED;
	queue->deadline_ns = engine_deadline(queue, time_now_ns());
	queue->cpu_ns = thread_cpu_ns();
	queue->waited_ns = 0;
	queue->n_resets = queue->file->dev->n_resets;
	if (job->syncs || job->fences)
		r = engine_await_all(queue, job);
	if (r)
		return r;
	start = time_now_ns();
	if (soft_inject_take(&queue->stuck))
		r = engine_hang(queue);
	if (!r && job->work) {
		r = soft_engine_poll(queue);
		if (!r)
			r = job->work(queue, job, ret_fault);
	}
	for (i = 0; i < job->n_commands && !r; i++) {
		latency = queue->latency;
		if (latency)
			r = engine_sleep(queue, latency);
		if (!r)
			r = soft_command_run(queue, &job->commands[i], ret_fault);
		n_done += !r;
	}
	if (!r && soft_inject_take(&queue->lost))
		r = engine_hang(queue);

	engine_count(queue, SIM_ENGINE_NS, time_now_ns() - start);
	engine_count(queue, SIM_SUBMISSIONS, 1);
	engine_count(queue, SIM_COMMANDS, n_done);
	engine_count(queue, SIM_TLB_HITS, queue->tlb.hits);
	engine_count(queue, SIM_TLB_MISSES, queue->tlb.misses);
	queue->tlb.hits = 0;
	queue->tlb.misses = 0;
	if (r == -ETIMEDOUT)
		engine_reset(queue);
	return r;
}

static struct soft_job *engine_next_locked(struct soft_queue *queue)
{
	if (cds_list_empty(&queue->jobs))
		return NULL;
	return cds_list_first_entry(&queue->jobs, struct soft_job, link);
}

/*
 * Yields before sleeping, since one submission often follows soon upon another: the submitter
 * need not wake a thread that only yielded. Where both share one processor, many submissions are
 * made before the first runs, which saves switching back and forth.
 */
static void engine_linger(struct soft_queue *queue)
{
	unsigned int i;

	for (i = 0; i < LINGER_YIELDS && queue->submitted == queue->done && !queue->stopped;
	     i++)
		sched_yield();
}

/* Waits for a submission. NULL: the queue has stopped. */
static struct soft_job *engine_next(struct soft_queue *queue)
{
	struct soft_job *job;

	engine_linger(queue);
	pthread_mutex_lock(&queue->lock);
	while (!queue->stopped && cds_list_empty(&queue->jobs)) {
		queue->idle = true;
		pthread_cond_wait(&queue->work, &queue->lock);
		queue->idle = false;
	}
	job = queue->stopped ? NULL : engine_next_locked(queue);
	pthread_mutex_unlock(&queue->lock);
	return job;
}

static void *engine_main(void *user)
{
	struct soft_queue *queue = user;
	struct soft_job *job;

	while ((job = engine_next(queue))) {
		struct sim_fault fault = { 0 };
		int status = engine_run(queue, job, &fault);

		engine_complete(queue, job, status, &fault);
	}
	return NULL;
}

int soft_engine_start(struct soft_queue *queue)
{
	int r = thread_start(&queue->thread, engine_main, queue);

	queue->started = !r;
	/* A submitter would take -EAGAIN for a full queue. */
	return r ? SIM_NO_THREAD : 0;
}

void soft_engine_wake(struct soft_queue *queue)
{
	struct soft_va *va = &queue->file->va;

	pthread_mutex_lock(&va->changed_lock);
	pthread_cond_broadcast(&va->changed);
	pthread_mutex_unlock(&va->changed_lock);
	pthread_mutex_lock(&queue->lock);
	pthread_cond_broadcast(&queue->work);
	pthread_mutex_unlock(&queue->lock);
}

void soft_engine_stop(struct soft_queue *queue)
{
	static const struct sim_fault none;
	struct soft_job *job;

	soft_engine_wake(queue);
	pthread_mutex_lock(&queue->file->dev->lock);
	soft_waits_wake_locked(queue->file->dev);
	pthread_mutex_unlock(&queue->file->dev->lock);
	if (queue->started)
		pthread_join(queue->thread, NULL);
	for (;;) {
		pthread_mutex_lock(&queue->lock);
		job = engine_next_locked(queue);
		pthread_mutex_unlock(&queue->lock);
		if (!job)
			break;
		engine_complete(queue, job, -ECANCELED, &none);
	}
}
