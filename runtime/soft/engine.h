/* SPDX-License-Identifier: MIT */
/*
 * Queues of the twin and the engine that runs what is in them: what queue, engine,
 * command and wait share.
 */
#ifndef HETMAP_RUNTIME_SOFT_ENGINE_H
#define HETMAP_RUNTIME_SOFT_ENGINE_H

#include "soft/twin.h"

/* A submission, from SUBMIT to its end. */
struct soft_job {
	struct cds_list_head link; /* in soft_queue.jobs */
	uint64_t seqno;
	int fence; /* eventfd, of which each FENCE_FD gives a duplicate; -1: none asked yet */
	uint32_t n_commands;
	struct hetsim_command commands[];
};

struct soft_event {
	struct cds_list_head link; /* in soft_queue.events */
	uint64_t seqno;
	int eventfd; /* its own */
};

/* Submissions in a row that ended in one way. */
struct soft_failure {
	uint64_t first;
	uint64_t last;
	uint64_t address;
	int status;
};

struct soft_queue {
	_Atomic uint32_t refs;  /* soft_file.queues, calls under way */
	struct soft_file *file; /* outlives it */
	uint32_t id;
	uint32_t type;
	uint64_t timeout_ns; /* that a submission may run */
	pthread_t thread;

	pthread_mutex_t lock;       /* protects what follows */
	bool started;               /* the thread was */
	bool idle;                  /* the thread waits for jobs: work is to be signalled */
	_Atomic bool stopped;       /* read without the lock, too */
	_Atomic uint64_t submitted; /* read without the lock, too */
	_Atomic uint64_t done;      /* the same */
	uint64_t wanted;            /* the lowest seqno that anyone waits for; or lower */
	struct cds_list_head jobs;
	struct cds_list_head events;
	uint32_t n_events;
	struct soft_failure failures[SOFT_FAILURES]; /* a ring: next at n_records */
	uint64_t n_records;
	uint64_t n_failures; /* submissions */

	pthread_cond_t work;      /* for the thread: jobs, or an end */
	pthread_cond_t completed; /* for WAIT: done has reached wanted */

	/* Injected. */
	_Atomic uint64_t latency; /* ns, of each command */
	_Atomic int64_t stuck;    /* submissions that hang before they begin */
	_Atomic int64_t lost;     /* submissions of whose end nobody is told */

	/* The thread's own. */
	uint64_t n_resets;    /* of the device, when what runs began */
	uint64_t cancelled;   /* what is queued up to this seqno */
	uint64_t deadline_ns; /* of what runs */
	struct soft_tlb tlb;
	uint32_t counts[256];
};

struct timespec soft_timespec(uint64_t ns);

/* soft_queue.c. How a submission that is done has ended. With queue->lock held. */
int soft_queue_status(struct soft_queue *queue, uint64_t seqno, uint64_t *ret_address);

/* soft_engine.c */

/* Makes sure that there is a thread. With queue->lock held. -ENOMEM. */
int soft_engine_start(struct soft_queue *queue);
/* Ends the thread, and what it has not done. With queue->stopped set. */
void soft_engine_stop(struct soft_queue *queue);
/* Whoever waits for something of the queue looks at it again. */
void soft_engine_wake(struct soft_queue *queue);
/* Between pieces of work: 0, or why the submission that runs has to end. */
int soft_engine_poll(struct soft_queue *queue);
/*
 * An address is not bound, or was not when the page table was of @generation. 0:
 * it may be now. Else why the submission has to end.
 */
int soft_engine_fault(struct soft_queue *queue, uint64_t generation);

/* soft_command.c */

/* What can be said of a command without looking at memory. */
int soft_command_check(const struct soft_kind *kind, const struct hetsim_command *command);
int soft_command_run(struct soft_queue *queue, const struct hetsim_command *command,
		     uint64_t *ret_address);

/* soft_wait.c */

/* Adds 1 to the eventfds, and ends the events. With no lock held. */
void soft_events_signal(struct cds_list_head *events);
/* The same for the job's fence, if it has one. */
void soft_fence_signal(struct soft_job *job);

#endif
