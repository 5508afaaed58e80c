// SPDX-License-Identifier: MIT
/*
 * Threads that run parts of jobs. The first job starts them, so that a process that only lists
 * accelerators has none. A queue's jobs run one after the other, the queues side by side.
 */
#include "accel/cpu/cpu_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "accel/accel.h"
#include "arch/cpu.h"
#include "base/rlimits.h"
#include "base/sys.h"

/* Looks at a job's end before going to sleep: some microseconds. */
#define WAIT_SPINS 200

struct notice {
	struct notice *next;
	void (*call)(void *user);
	void *user;
};

struct cpu_job {
	struct cpu_job *next;   /* in the queue, or among the spare ones */
	struct cpu_job *active; /* the next job in pool->active */
	struct cpu_queue *queue;
	struct hm_accel_work *work;
	cpu_part *run;
	uint32_t n_part;
	uint32_t next_part; /* next part to hand out */
	uint32_t n_left;    /* parts that have not ended */
	int status;
	struct notice *notices;
};

static bool is_done(const struct hm_accel_work *work)
{
	return __atomic_load_n(&work->data[1], __ATOMIC_ACQUIRE);
}

int cpu_pool_init(struct cpu_pool *pool)
{
	pool->n_thread = thread_processors();
	pool->thread = sys_calloc(pool->n_thread, sizeof(*pool->thread));
	if (!pool->thread)
		return err_set(-ENOMEM, "no memory for %u threads", pool->n_thread);
	pool->active_tail = &pool->active;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->runnable, NULL);
	thread_condition_init(&pool->finished);
	return 0;
}

/* ---- pool->lock is held below, except where a comment says otherwise ---- */

static void activate(struct cpu_pool *pool, struct cpu_job *job)
{
	job->active = NULL;
	*pool->active_tail = job;
	pool->active_tail = &job->active;
	if (!pool->n_idle)
		return;
	if (job->n_part == 1)
		pthread_cond_signal(&pool->runnable);
	else
		pthread_cond_broadcast(&pool->runnable);
}

/* Takes a job with all parts handed out off the list; it is the first, or near it. */
static void deactivate(struct cpu_pool *pool, const struct cpu_job *job)
{
	struct cpu_job **at = &pool->active;

	while (*at && *at != job)
		at = &(*at)->active;
	if (!*at)
		return;
	*at = job->active;
	if (!*at)
		pool->active_tail = at;
}

/* Drops the lock during callbacks. @job is not valid afterwards. */
static void end_job(struct cpu_pool *pool, struct cpu_job *job)
{
	struct cpu_queue *queue = job->queue;
	struct notice *notice = job->notices, *next;
	struct hm_accel_work *work = job->work;

	queue->head = job->next;
	if (queue->head)
		activate(pool, queue->head);
	else
		queue->tail = &queue->head;
	job->next = queue->spare;
	queue->spare = job;
	work->status = job->status;
	if (job->status)
		snprintf(work->text, sizeof(work->text), "kernel %s on cpu returned %s",
			 (const char *)work->data[2], err_name(job->status));
	work->data[0] = NULL;
	/* From here on the work, and with the lock dropped the queue, may be gone. */
	__atomic_store_n(&work->data[1], pool, __ATOMIC_RELEASE);
	if (pool->n_waiter)
		pthread_cond_broadcast(&pool->finished);
	if (!notice)
		return;
	pthread_mutex_unlock(&pool->lock);
	for (; notice; notice = next) {
		next = notice->next;
		notice->call(notice->user);
		free(notice);
	}
	pthread_mutex_lock(&pool->lock);
}

static void run_part(struct cpu_pool *pool, struct cpu_job *job)
{
	uint32_t part = job->next_part++;
	int r;

	if (job->next_part == job->n_part)
		deactivate(pool, job);
	pthread_mutex_unlock(&pool->lock);
	r = job->run(job->work, part, job->n_part);
	pthread_mutex_lock(&pool->lock);
	if (r && !job->status) {
		job->status = r < 0 ? r : -EIO;
		/* Parts that were not handed out yet never run. */
		if (job->next_part < job->n_part)
			deactivate(pool, job);
		job->n_left -= job->n_part - job->next_part;
		job->next_part = job->n_part;
	}
	if (!--job->n_left)
		end_job(pool, job);
}

/* Takes the lock. */
static void *thread_main(void *user)
{
	struct cpu_pool *pool = user;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		if (pool->active) {
			run_part(pool, pool->active);
			continue;
		}
		if (pool->stop)
			break;
		pool->n_idle++;
		pthread_cond_wait(&pool->runnable, &pool->lock);
		pool->n_idle--;
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* One thread is enough to go on with. */
static int start(struct cpu_pool *pool)
{
	int r = 0;

	if (likely(pool->n_started))
		return 0;
	while (!r && pool->n_started < pool->n_thread) {
		r = thread_start(&pool->thread[pool->n_started], thread_main, pool);
		if (!r)
			pool->n_started++;
	}
	if (!pool->n_started)
		return rlimits_explain_thread(r, "computing on the CPU");
	return 0;
}

static struct cpu_job *take_job(struct cpu_queue *queue)
{
	struct cpu_job *job = queue->spare;

	if (likely(job))
		queue->spare = job->next;
	else
		job = sys_calloc(1, sizeof(*job));
	return job;
}

/* ---- the functions below take the lock ---- */

int cpu_pool_submit(struct cpu_queue *queue, struct hm_accel_work *work, cpu_part *run,
		    uint32_t n_part)
{
	struct cpu_pool *pool = queue->pool;
	struct cpu_job *job;
	int r;

	pthread_mutex_lock(&pool->lock);
	r = start(pool);
	if (r)
		goto out;
	job = take_job(queue);
	if (!job) {
		r = err_set(-ENOMEM, "no memory for a job");
		goto out;
	}
	*job = (struct cpu_job){
		.queue = queue,
		.work = work,
		.run = run,
		.n_part = n_part,
		.n_left = n_part,
	};
	work->data[0] = job;
	*queue->tail = job;
	queue->tail = &job->next;
	if (queue->head == job)
		activate(pool, job);
out:
	pthread_mutex_unlock(&pool->lock);
	return r;
}

int cpu_pool_wait(struct cpu_pool *pool, struct hm_accel_work *work, uint64_t timeout_ns)
{
	struct timespec deadline;
	unsigned int i;
	int r = 0;

	for (i = 0; timeout_ns && i < WAIT_SPINS && !is_done(work); i++)
		cpu_relax();
	if (is_done(work))
		return 0;
	if (!timeout_ns)
		return -ETIME;
	deadline_after(timeout_ns, &deadline);
	pthread_mutex_lock(&pool->lock);
	pool->n_waiter++;
	while (!is_done(work) && !r) {
		if (timeout_ns == UINT64_MAX)
			r = pthread_cond_wait(&pool->finished, &pool->lock);
		else
			r = pthread_cond_timedwait(&pool->finished, &pool->lock, &deadline);
	}
	pool->n_waiter--;
	pthread_mutex_unlock(&pool->lock);
	return is_done(work) ? 0 : -ETIME;
}

int cpu_pool_notify(struct cpu_pool *pool, struct hm_accel_work *work, void (*call)(void *user),
		    void *user)
{
	struct notice *notice = sys_calloc(1, sizeof(*notice));
	struct cpu_job *job;

	if (!notice)
		return err_set(-ENOMEM, "no memory for a callback");
	notice->call = call;
	notice->user = user;
	pthread_mutex_lock(&pool->lock);
	job = work->data[0];
	if (job) {
		notice->next = job->notices;
		job->notices = notice;
	}
	pthread_mutex_unlock(&pool->lock);
	if (!job) {
		free(notice);
		call(user);
	}
	return 0;
}

void cpu_queue_end(struct cpu_queue *queue)
{
	struct cpu_job *job, *next;

	/* The thread that ended the last job may be about to drop the lock. */
	pthread_mutex_lock(&queue->pool->lock);
	job = queue->spare;
	queue->spare = NULL;
	pthread_mutex_unlock(&queue->pool->lock);
	for (; job; job = next) {
		next = job->next;
		free(job);
	}
}

void cpu_pool_end(struct cpu_pool *pool)
{
	uint32_t i;

	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->runnable);
	pthread_mutex_unlock(&pool->lock);
	for (i = 0; i < pool->n_started; i++)
		pthread_join(pool->thread[i], NULL);
	pthread_cond_destroy(&pool->finished);
	pthread_cond_destroy(&pool->runnable);
	pthread_mutex_destroy(&pool->lock);
	free(pool->thread);
}
