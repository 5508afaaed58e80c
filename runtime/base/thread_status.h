/* SPDX-License-Identifier: MIT */
/*
 * A thread's signal mask, as the kernel shows it [proc_pid_status(5)]. The library chooses other
 * memory for some drivers by it, and the command shows it.
 */
#ifndef HETMAP_THREAD_STATUS_H
#define HETMAP_THREAD_STATUS_H

#include <stdbool.h>

/* Room for the file. */
#define THREAD_STATUS_MAX 4096

/* Is @signal blocked in the thread with the status file @text? */
bool thread_status_blocks(const char *text, int signal);

/*
 * Has the thread ever waited? One that has not may be at its very beginning, where glibc has all
 * signals blocked until it sets the mask that the creator wanted.
 */
bool thread_status_has_waited(const char *text);

#endif
