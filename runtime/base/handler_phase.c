// SPDX-License-Identifier: MIT
/* Counts signal handlers that are running, and waits until they have ended. */
#include "base/handler_phase.h"

#include <pthread.h>
#include <sched.h>

/*
 * Handlers that are running, counted by the phase that they read. A handler may read a phase and
 * count itself only after the wait for that phase has ended, so a caller waits for two phases. A
 * handler that counts itself behind the wait for its phase began to look into the registry later
 * still, and finds nothing there that the caller is about to free.
 */
static _Atomic unsigned int n_running[2];
static _Atomic unsigned int phase;

/* Serialises waits: a phase begins only when the one before has ended. */
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

	/*
	 * Pairs with handler_enter(): either this thread sees the count, or the handler sees the
	 * registry without the entries.
	 */
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
