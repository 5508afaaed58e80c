/* SPDX-License-Identifier: MIT */
/* The threads of one "cpu" accelerator, and its queues of jobs. */
#ifndef HETMAP_RUNTIME_CPU_POOL_H
#define HETMAP_RUNTIME_CPU_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <hetmap/accel_ops.h>

struct cpu_job;

struct cpu_pool {
	pthread_mutex_t lock; /* protects the fields below, and the queues */
	pthread_cond_t runnable;
	pthread_cond_t finished;               /* CLOCK_MONOTONIC */
	struct cpu_job *active, **active_tail; /* jobs with parts to hand out */
	uint32_t n_idle;
	uint32_t n_waiter;
	uint32_t n_thread; /* as many as the affinity mask allows */
	uint32_t n_started;
	bool stop;
	pthread_t *thread;
};

/* Runs jobs in order: only the head is active. */
struct cpu_queue {
	struct cpu_pool *pool;
	struct cpu_job *head, **tail;
	struct cpu_job *spare;
};

/* Does part @part of @n_part of @work; returns 0 or a negative errno. */
typedef int cpu_part(const struct hm_accel_work *work, uint32_t part, uint32_t n_part);

int cpu_pool_init(struct cpu_pool *pool);
/* Ends the threads. The pool's queues must be gone. */
void cpu_pool_end(struct cpu_pool *pool);

/*
 * work->data[0] is the job while there is one, data[1] not NULL once done, and data[2] the name
 * of the running function, for texts.
 */
int cpu_pool_submit(struct cpu_queue *queue, struct hm_accel_work *work, cpu_part *run,
		    uint32_t n_part);
int cpu_pool_wait(struct cpu_pool *pool, struct hm_accel_work *work, uint64_t timeout_ns);
int cpu_pool_notify(struct cpu_pool *pool, struct hm_accel_work *work, void (*call)(void *user),
		    void *user);
void cpu_queue_end(struct cpu_queue *queue);

#endif
