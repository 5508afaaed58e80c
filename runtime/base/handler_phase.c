// SPDX-License-Identifier: MIT
/* Who waits for handlers that are running. */
#include "base/handler_phase.h"

#include <pthread.h>
#include <sched.h>

/*
 * Handlers that are running, counted by the phase that they found. One that found a
 * phase may count itself only after it has ended: so two are waited for. A handler
 * that counts itself behind the wait for its phase began to look into the registry
 * later still, and finds nothing there that is being waited for.
 */
static _Atomic unsigned int n_running[2];
static _Atomic unsigned int phase;

/* One at a time: a phase is another one only when the one before has ended. */
static pthread_mutex_t quiesce_mutex = PTHREAD_MUTEX_INITIALIZER;

_Atomic bool handler_was_installed;

unsigned int handler_enter(void)
{
	unsigned int found = atomic_load(&phase) & 1;

	atomic_fetch_add(&n_running[found], 1);
	return found;
}

void handler_leave(unsigned int found)
{
	atomic_fetch_sub(&n_running[found], 1);
}

void handler_quiesce_each(void)
{
	unsigned int turns, ended;

	/* Against handler_enter(): either it is seen here, or it sees the registry without. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load(&n_running[0]) && !atomic_load(&n_running[1]))
		return;
	pthread_mutex_lock(&quiesce_mutex);
	for (turns = 0; turns < 2; turns++) {
		ended = atomic_fetch_add(&phase, 1) & 1;
		while (atomic_load(&n_running[ended]))
			sched_yield();
	}
	pthread_mutex_unlock(&quiesce_mutex);
}

void handler_phase_fork_child(void)
{
	atomic_store(&n_running[0], 0);
	atomic_store(&n_running[1], 0);
	quiesce_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
