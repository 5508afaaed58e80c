/* SPDX-License-Identifier: MIT */
/* Threads of the library's own. */
#ifndef HETMAP_THREAD_H
#define HETMAP_THREAD_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/*
 * Starts a thread that blocks all signals except those of its own faults: the others are for the
 * application's threads. Returns 0, or a negative errno of pthread_create().
 */
int thread_start(pthread_t *ret_thread, void *(*run)(void *user), void *user);

/* Processors that the calling thread may run on, at least 1. */
uint32_t thread_processors(void);

/* Makes a condition that is waited for with times of CLOCK_MONOTONIC. */
void thread_condition_init(pthread_cond_t *condition);
/* The time @timeout_ns from now, for such a wait; saturating. */
void deadline_after(uint64_t timeout_ns, struct timespec *ret_deadline);

#endif
