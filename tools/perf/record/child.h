/* SPDX-License-Identifier: MIT */
/* A command that is measured: held before it executes, let go, waited for. */
#ifndef HETMAP_PERF_CHILD_H
#define HETMAP_PERF_CHILD_H

#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct child {
	pid_t pid;
	/*
	 * Readable when child_wait() has something to do: for callers that wait for other
	 * descriptors, too.
	 */
	int fd;
	int signal; /* the last that was meant to end the command, or 0 */

	/* private */
	int line;                 /* to the child, until it executes; or -1 */
	sigset_t mask;            /* as it was before child_start() */
	struct sigaction on_chld; /* likewise */
};

/*
 * Forks a child that waits before it executes @argv (as execvp(3) looks for it), so that
 * counters can be attached that begin with the execution (enable_on_exec). It gets the
 * descriptors 0 to 2, the signal mask and the dispositions that hetmap was started with.
 * Until child_wait() returned 0, or child_abandon(), SIGCHLD, SIGINT, SIGTERM, SIGQUIT and
 * SIGHUP are blocked in the calling thread: start threads after it, and one child at a time.
 * 0 or a negative errno.
 */
int child_start(char *const argv[], struct child *ret_child);

/* Prints why child_start() failed, for hetmap's command @who; returns STATUS_OWN. */
int child_start_failed(const char *who, int r);

/*
 * Lets it execute. 0; or the negative errno that execvp() failed with, and the child is
 * no more: child_exec_failed() tells the user.
 */
int child_go(struct child *child);

/*
 * Waits until it ended, at most @timeout_ms; -1: for ever, 0: only looks. Signals that
 * were sent to hetmap are passed on to it; those of the terminal (Ctrl-C) it has got itself.
 * 0: it is no more, @ret_status is of wait4(2). -ETIME: not yet, also after a signal.
 * @ret_usage [optional]: of it and of those descendants that were waited for.
 */
int child_wait(struct child *child, int timeout_ms, int *ret_status, struct rusage *ret_usage);

/* Cost of the child before it executes: between child_start() and child_go(). 0: unknown. */
struct child_cost {
	uint64_t cpu_ns, minor, major;
};
void child_cost(const struct child *child, struct child_cost *ret_cost);
/* The CPU's time of all that @usage is of. */
uint64_t child_cpu_ns(const struct rusage *usage);

/* Instead of child_go(): ends it, unexecuted. */
void child_abandon(struct child *child);

/* The exit status that hetmap takes over: its own, or 128 + the signal's number. */
int child_exit_status(int wait_status);

/* Says why @name could not be executed; STATUS_NOT_FOUND or STATUS_NOT_EXECUTABLE. */
int child_exec_failed(const char *name, int r);

#endif
