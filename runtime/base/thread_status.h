/* SPDX-License-Identifier: MIT */
/*
 * What the kernel tells of a thread's signal mask [proc_pid_status(5)]: for the library,
 * which gives some drivers other memory because of it, and the command, which tells of it.
 */
#ifndef HETMAP_THREAD_STATUS_H
#define HETMAP_THREAD_STATUS_H

#include <stdbool.h>

/* Room for the file. */
#define THREAD_STATUS_MAX 4096

/* Does the thread, whose status file is @text, block @signal? */
bool thread_status_blocks(const char *text, int signal);

/*
 * Has it ever waited? One that has not may be at its very beginning, where glibc has all
 * signals blocked until the mask that its creator wanted is set.
 */
bool thread_status_has_waited(const char *text);

#endif
