// SPDX-License-Identifier: MIT
/* Threads of the library's own. */
#include "base/thread.h"

#include <sched.h>
#include <signal.h>

#include "base/util.h"

int thread_start(pthread_t *ret_thread, void *(*run)(void *user), void *user)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret_thread, NULL, run, user);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

uint32_t thread_processors(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

	return n > 0 ? (uint32_t)n : 1;
}

void thread_condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attr);
	pthread_condattr_destroy(&attr);
}

void deadline_after(uint64_t timeout_ns, struct timespec *ret_deadline)
{
	uint64_t at = time_now_ns();

	at = timeout_ns > UINT64_MAX / 2 - at ? UINT64_MAX / 2 : at + timeout_ns;
	ret_deadline->tv_sec = (time_t)(at / 1000000000);
	ret_deadline->tv_nsec = (long)(at % 1000000000);
}
