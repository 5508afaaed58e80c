/* SPDX-License-Identifier: MIT */
/*
 * Queues of the twin and their engine: declarations that queue.c, engine.c, command.c, sync.c,
 * timeline.c, uses.c and wait.c share.
 */
#ifndef HETMAP_RUNTIME_SOFT_ENGINE_H
#define HETMAP_RUNTIME_SOFT_ENGINE_H

#include "soft/twin.h"

struct soft_job;
struct soft_queue;
struct soft_timeline;

/*
 * A point of a timeline, a submission, or a fence that a job waits for; or a point that it
 * signals.
 */
struct soft_sync {
	struct soft_timeline *timeline; /* with a reference; NULL: one of the next two */
	struct soft_queue *queue;       /* with a reference: its submission @point; NULL: fd */
	uint64_t point;
	int fd;   /* the fence: readable once it is signalled; -1 */
	int kick; /* with it: an eventfd that makes its waiter look again; -1 */
};

struct soft_syncs {
	uint32_t n_waits;
	uint32_t n; /* the waits, and behind them what is signalled */
	struct soft_sync sync[];
};

/* A submission, from SUBMIT to its end. */
struct soft_job {
	struct cds_list_head link; /* in soft_queue.jobs */
	uint64_t seqno;
	int fence; /* eventfd, of which each FENCE_FD gives a duplicate; -1: not asked for yet */
	struct cds_list_head fence_link; /* in soft_queue.fenced, with a fence of either kind */
	bool is_fenced;                  /* it is in that list */
	uint64_t fence_due_ns;           /* when the fence has to be signalled */
	struct soft_syncs *syncs;        /* NULL: it waits for nothing, and signals nothing */
	struct soft_syncs *fences;       /* waits, too: those of its buffers; NULL: none */
	bool leaves;                     /* buffers have its fence */
	/* Instead of commands; NULL: those. Returns the status; with -EFAULT, the fault. */
	int (*work)(struct soft_queue *queue, struct soft_job *job,
		    struct sim_fault *ret_fault);
	void (*drop)(struct soft_job *job); /* frees what the work has; NULL: nothing */
	union {
		struct hetsim_prefetch prefetch;
		struct {
			struct soft_buffer *buffer; /* with a reference */
			struct hetsim_buffer_move move;
		} move;
		struct soft_binding *binding; /* to be made; NULL: it is */
		struct sim_span unbind;
	};
	uint32_t n_commands;
	struct hetsim_command commands[];
};

/* Room for the bytes of a command's operands that are in the process's memory. */
struct soft_bounce {
	char operand[SIM_OPERANDS][SIM_BURST];
};

struct soft_event {
	struct cds_list_head link; /* in soft_queue.events */
	uint64_t seqno;
	int eventfd; /* its own */
};

struct soft_queue {
	_Atomic uint32_t refs;  /* soft_file.queues, calls under way */
	struct soft_file *file; /* outlives it */
	uint32_t id;
	uint32_t type;
	uint64_t timeout_ns; /* limit of a submission's running time */
	pthread_t thread;

	pthread_mutex_t lock;       /* protects the fields below */
	bool started;               /* the thread has been started */
	bool idle;                  /* the thread waits for jobs: signal work */
	_Atomic bool stopped;       /* read without the lock, too */
	_Atomic uint64_t submitted; /* read without the lock, too */
	_Atomic uint64_t done;      /* the same */
	uint64_t wanted;            /* the lowest seqno that a thread waits for; or lower */
	struct cds_list_head jobs;
	struct cds_list_head fenced; /* jobs with a fence: the first is due first */
	struct cds_list_head events;
	uint32_t n_events;
	struct sim_failures failures;

	pthread_cond_t work;      /* for the thread: new jobs, or the end */
	pthread_cond_t completed; /* for WAIT: done has reached wanted */

	/* Injected. */
	_Atomic uint64_t latency; /* ns, of each command */
	_Atomic int64_t stuck;    /* submissions that hang before they begin */
	_Atomic int64_t lost;     /* submissions with a lost completion */

	/* Only the thread uses these. */
	uint64_t n_resets;    /* device resets when the running submission began */
	uint64_t cancelled;   /* queued submissions up to this seqno end cancelled */
	uint64_t deadline_ns; /* of the running submission */
	uint64_t cpu_ns;      /* processor time of the thread when that began */
	uint64_t waited_ns;   /* since then, by the clock: counts as used, too */
	struct soft_tlb tlb;
	struct soft_bounce *bounce; /* NULL: not needed yet */
	uint32_t counts[256];
};

struct timespec soft_timespec(uint64_t ns);

/* engine.c */

/* Makes sure that there is a thread. The caller holds queue->lock. -ENOMEM. */
int soft_engine_start(struct soft_queue *queue);
/* Ends the thread and the remaining submissions. queue->stopped must be set. */
void soft_engine_stop(struct soft_queue *queue);
/* Makes all waiters of the queue look again. */
void soft_engine_wake(struct soft_queue *queue);
/* Between pieces of work: 0, or the error that must end the running submission. */
int soft_engine_poll(struct soft_queue *queue);
/* Since @begin the engine waited for pages of the process: the submission keeps that time. */
void soft_engine_brought(struct soft_queue *queue, uint64_t begin);
/*
 * Handles an address that was not bound when the page table was of @generation. 0: it may be
 * bound now; otherwise the error that must end the submission.
 */
int soft_engine_fault(struct soft_queue *queue, uint64_t generation);

/* command.c */

int soft_command_run(struct soft_queue *queue, const struct hetsim_command *command,
		     struct sim_fault *ret_fault);

/* queue.c */

/* -EFAULT where nothing is mapped. */
int soft_memory_check(uint64_t address, uint64_t length);
/* A job without commands; NULL: no memory. */
struct soft_job *soft_job_new(uint32_t n_commands);
/* Frees a job that is in no queue, or not any more. */
void soft_job_free(struct soft_job *job);
/*
 * Makes the call @later a submission: @job is one that has work. Takes it over, also on failure.
 * -ENOENT, -EOPNOTSUPP, -EAGAIN, -ENOMEM, and the errors of soft_syncs_read().
 */
int soft_job_later(struct soft_file *file, const struct sim_later *later, struct soft_job *job,
		   __u64 *ret_seqno);

/* Gives the job its number and its place in the queue; takes it over. -ENOENT, -EAGAIN, -ENOMEM. */
int soft_job_add(struct soft_queue *queue, struct soft_job *job, struct hetsim_submit *submit);

/* timeline.c */

/* Returns a reference. -EINVAL: the descriptor is something else, or none; -ENOMEM. */
int soft_timeline_get(int fd, struct soft_timeline **ret_timeline);
void soft_timeline_put(struct soft_timeline *timeline);
uint64_t soft_timeline_value(struct soft_timeline *timeline);
/* Is the point reached, or does an earlier job of HETSIM_QUEUE_DMA_FENCE signal it? */
bool soft_timeline_is_promised(struct soft_timeline *timeline, uint64_t point);
/* The same of a job of either type. */
bool soft_timeline_is_expected(struct soft_timeline *timeline, uint64_t point);
/* A job that signals the point gets its number. */
void soft_timeline_expect(struct soft_timeline *timeline, uint64_t point, bool promise);
void soft_timeline_reach(struct soft_timeline *timeline, uint64_t point);
/* Makes all who sleep look again. */
void soft_timeline_kick(struct soft_timeline *timeline);
/* Sleeps until there are more changes than @changes, or for @ns, or for no reason. */
uint32_t soft_timeline_changes(struct soft_timeline *timeline);
void soft_timeline_sleep(struct soft_timeline *timeline, uint32_t changes, uint64_t ns);

/* sync.c */

/*
 * Reads the waits and signals of a submission into its job, which has what was made of them, also
 * on failure. @ret_fds: descriptors by signal, for soft_syncs_answer(); on failure they are closed.
 */
int soft_syncs_read(struct soft_queue *queue, const struct sim_later *later,
		    struct soft_job *job, int *ret_fds);
void soft_syncs_answer(const struct sim_later *later, const int *fds);
void soft_fds_close(int *fds, uint32_t n);
/* Where the job gets its number, with queue->lock held. -ERANGE: it must not wait for all of it. */
int soft_syncs_check(struct soft_queue *queue, const struct soft_syncs *syncs);
void soft_syncs_promise(struct soft_queue *queue, const struct soft_syncs *syncs);
/* The job has ended, in whatever way. */
void soft_syncs_signal(const struct soft_syncs *syncs);
void soft_syncs_free(struct soft_syncs *syncs);
/*
 * Waits until it is there. @ended is asked before each sleep, and soft_engines_wake() has it asked
 * again: the error that must end the wait, or 0. The caller holds no lock. -ETIME.
 */
int soft_sync_await(struct soft_device *dev, const struct soft_sync *sync, uint64_t deadline_ns,
		    int (*ended)(void *user), void *user);
/* The caller holds dev->lock. */
void soft_waits_wake_locked(struct soft_device *dev);

/* uses.c */

struct soft_fence;

/* A buffer that a job names, until the job has its number. */
struct soft_use {
	struct soft_buffer *buffer; /* with a reference */
	struct soft_fence *fence;   /* to be left there; NULL: none */
	bool write;                 /* the job waits for readers, too */
};

struct soft_uses {
	uint32_t n;
	struct soft_use use[HETSIM_MAX_USES]; /* each buffer once */
};

/*
 * Reads the buffers of a submission. @own: the caller is the library. The caller must call
 * soft_uses_end(), also on failure. -EFAULT, -EINVAL, -EACCES, -EOPNOTSUPP, -ENOENT, -ENOMEM.
 */
int soft_uses_read(struct soft_file *file, struct soft_queue *queue,
		   const struct hetsim_submit *submit, bool own, struct soft_job *job,
		   struct soft_uses *uses);
/* soft_job_add(), and the job's place among the users of its buffers. */
int soft_uses_submit(struct soft_queue *queue, struct soft_job *job, struct soft_uses *uses,
		     struct hetsim_submit *submit);
void soft_uses_end(struct soft_uses *uses);

/* wait.c */

/* Sleeps until the submission is done, @ended is not 0, or for no reason, up to @deadline_ns. */
void soft_queue_sleep(struct soft_queue *queue, uint64_t seqno, uint64_t deadline_ns,
		      int (*ended)(void *user), void *user);
/* Makes all threads that sleep look again. */
void soft_queue_kick(struct soft_queue *queue);
/* The job has a fence from here on: all before it have one time-out to end. queue->lock is held. */
void soft_fence_due(struct soft_queue *queue, struct soft_job *job);

/* Only eventfds have no file type and take eight bytes of zeros, which add nothing to them. */
bool soft_is_eventfd(int fd);

/* Adds 1 to the eventfds, and frees the events. The caller holds no lock. */
void soft_events_signal(struct cds_list_head *events);
/* The same for the job's fence, if it has one. */
void soft_fence_signal(struct soft_job *job);

#endif
