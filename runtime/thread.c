// SPDX-License-Identifier: MIT
/* Threads of the library's own. */
#include "thread.h"

#include <signal.h>

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
