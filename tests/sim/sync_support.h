/* SPDX-License-Identifier: MIT */
/* Timelines, and submissions that wait and signal, for the tests of both. */
#ifndef HETMAP_TESTS_SYNC_SUPPORT_H
#define HETMAP_TESTS_SYNC_SUPPORT_H

#include <pthread.h>

#include "lib/harness.h"
#include "lib/hetsim.h"

#define SYNC_NS_PER_S 1000000000ull
#define SYNC_LATE_NS 200000000   /* for a command that is to be under way */
#define SYNC_A_WHILE_MS 50       /* in which work would run that waits for nothing */
#define SYNC_NEVER 1000000ull    /* a point that is never signalled */
#define SYNC_FOR_EVER UINT64_MAX /* a time to wait */

extern const struct hetsim_command sync_nothing;
extern const struct hetsim_command sync_bad; /* it ends with -EFAULT */

uint64_t sync_now_ns(void);

/* The descriptor; a failure ends the test. */
int timeline_make(int fd, uint64_t value);
int timeline_signal(int fd, int timeline, uint64_t point);
/* 0 or a negative errno. @ms: how long, SYNC_FOR_EVER, or 0, which only looks. */
int timeline_wait(int fd, int timeline, uint64_t point, uint64_t ms, uint64_t *ret_value);
uint64_t timeline_value(int fd, int timeline);
/* Fails unless the module frees the last one soon: a job lets go of its own after its end. */
void timeline_none_left(int fd);

/* A thread in TIMELINE_WAIT, from when start returns or soon after. */
struct timeline_waiter {
	pthread_t thread;
	int fd, timeline, r; /* the result, once it is joined */
	uint64_t point, value;
};

void timeline_waiter_start(struct timeline_waiter *waiter, int fd, int timeline,
			   uint64_t point);

/* One command, with a wait and a signal; each may be left out by a descriptor of -1. */
struct sync_work {
	uint32_t queue;
	const struct hetsim_command *command;
	struct hetsim_sync wait, signal;
};

int sync_submit(int fd, struct sync_work *work, uint64_t *ret_seqno);
/* The same by points of one timeline; 0 leaves either out. */
int sync_submit_points(int fd, uint32_t queue, const struct hetsim_command *command,
		       int timeline, uint64_t wait, uint64_t signal, uint64_t *ret_seqno);
/* One command, for buffers that it names. 0 or a negative errno. */
int sync_submit_uses(int fd, uint32_t queue, const struct hetsim_command *command,
		     const struct hetsim_use *uses, uint32_t n_uses, uint64_t *ret_seqno);
/* Of nothing, for one buffer. What fails fails the test. */
uint64_t sync_use(int fd, uint32_t queue, uint32_t handle, uint32_t flags);
/* A queue whose next submission hangs until the queue is destroyed. */
uint32_t sync_make_stuck(int fd, uint32_t type);
/* How the submission ends. */
int sync_status(int fd, uint32_t queue, uint64_t seqno);
/* Is it still under way after a while? */
bool sync_is_waiting(int fd, uint32_t queue, uint64_t seqno);
/* A queue whose commands take SYNC_LATE_NS each. */
uint32_t sync_make_late(int fd, uint32_t type);
void sync_destroy_queue(int fd, uint32_t queue);

#endif
