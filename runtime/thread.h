/* SPDX-License-Identifier: MIT */
/* Threads of the library's own. */
#ifndef HETMAP_THREAD_H
#define HETMAP_THREAD_H

#include <pthread.h>

/*
 * Signals are the application's threads', but for those of the thread's own faults.
 * 0, or a negative errno of pthread_create's.
 */
int thread_start(pthread_t *ret_thread, void *(*run)(void *user), void *user);

#endif
