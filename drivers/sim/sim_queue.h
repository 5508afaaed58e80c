/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Queues, and submissions on their way through one: declarations that their steps share. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include <linux/dma-fence.h>

#include "sim.h"

/* A point of a timeline, or a fence, that a job waits for; or a point that it signals. */
struct sim_sync {
	struct sim_timeline *timeline; /* with a reference; NULL: the fence */
	struct dma_fence *fence; /* likewise */
	u64 point;
};

struct sim_syncs {
	unsigned int n_waits;
	unsigned int n; /* the waits, and behind them what is signalled */
	struct sim_sync sync[];
};

/* A buffer that a job names, until it has its number. */
struct sim_used {
	struct sim_buffer *buffer; /* with a reference */
	struct dma_resv *resv;
	bool write; /* it waits for readers, too */
	bool leave; /* its fence stays there, */
	bool leave_write; /* as that of a writer */
};

struct sim_uses {
	unsigned int n;
	struct sim_used use[HETSIM_MAX_USES]; /* each dma_resv once */
};

/* A task that is to be woken up. */
struct sim_timeline_waiter {
	struct wait_queue_entry entry; /* in sim_timeline.reached */
	u64 point;
};

struct sim_sync_waiter {
	struct sim_timeline_waiter point;
	struct dma_fence_cb callback;
	struct task_struct *task; /* of the callback */
};

/* A submission, from SUBMIT to its end. */
struct sim_job {
	struct list_head link; /* in sim_queue.jobs */
	u64 seqno;
	struct dma_fence *fence; /* NULL until a call asks; under sim_queue.lock, as the next two */
	u64 n_fence_calls; /* that have the fence, or are about to */
	struct list_head fence_link; /* in sim_queue.fenced, with a fence */
	unsigned long fence_due; /* jiffies: when the fence has to be signalled */
	struct sim_syncs *syncs; /* NULL: it waits for nothing, and signals nothing */
	struct sim_syncs *fences; /* waits, too: those of its buffers; NULL: none */
	bool mirrors; /* it may use the mirror */
	/* Instead of commands; NULL: those. How it ends; with -EFAULT, by which fault. */
	int (*work)(struct sim_queue *queue, struct sim_job *job, struct sim_fault *ret_fault);
	void (*drop)(struct sim_job *job); /* frees what the work has; NULL: nothing */
	struct mem_cgroup *memcg; /* with a reference; pays for the work */
	union {
		struct {
			bool write;
			u32 location;
			struct sim_span span;
		} prefetch;
		struct {
			struct sim_buffer *buffer; /* with a reference */
			u64 first;
			u64 end;
			u32 place;
		} move;
		struct sim_binding *binding; /* to be made; NULL: it is */
		struct sim_span unbind;
	};
	unsigned int n_commands;
	struct hetsim_command commands[];
};

struct sim_event {
	struct list_head link; /* in sim_queue.events */
	u64 seqno;
	struct eventfd_ctx *eventfd;
};

/* States of a queue's thread that has nothing to run: see sim_engine_rest(). */
enum sim_rest {
	SIM_AWAKE,
	SIM_DOZES,
	SIM_SLEEPS,
};

struct sim_queue {
	struct kref ref;	   /* sim_opener.queues, calls under way */
	struct sim_opener *opener; /* outlives it: calls hold the open file */
	u32 id;
	u32 type;
	unsigned long timeout; /* jiffies that a submission may run */
	struct task_struct *thread;
	u64 fence_context;

	spinlock_t lock; /* protects the members up to failures */
	bool stopped;
	u64 submitted;
	u64 done; /* read without the lock, too */
	enum sim_rest rest; /* read without the lock, too */
	struct list_head jobs;
	struct list_head fenced; /* jobs with a fence: the first is due first */
	struct list_head events;
	unsigned int n_events;
	struct sim_failures failures;

	wait_queue_head_t work;	     /* for the thread: it is awake, or the end */
	wait_queue_head_t completed; /* holds struct sim_waiter: done has risen */

	/* Injected. */
	atomic64_t latency; /* ns, of each command */
	atomic64_t stuck;   /* submissions that hang before they begin */
	atomic64_t lost;    /* submissions that end without telling their waiters */

	/* The thread's own. */
	s64 n_resets; /* the device's, when the running submission began */
	u64 cancelled; /* submissions up to this seqno are cancelled */
	unsigned long deadline; /* jiffies: the end of the running submission's time */
	bool brings; /* the deadline is that of pages which the running submission waits for */
	long left; /* with brings: jiffies that the submission has when they are there */
	struct sim_tlb tlb;
	struct page *pages[SIM_OPERANDS][SIM_BURST / PAGE_SIZE + 1]; /* for a burst */
	u32 counts[256];
};

/* sim_command.c */
int sim_command_run(struct sim_queue *queue, const struct hetsim_command *command,
		    struct sim_fault *ret_fault);

/* sim_engine.c */
int sim_engine_thread(void *queue);
void sim_engine_stop(struct sim_queue *queue);
bool sim_engine_rouse(struct sim_queue *queue);
bool sim_engine_offer(struct sim_queue *queue, const struct sim_job *job);
int sim_engine_poll(struct sim_queue *queue);
void sim_engine_bring(struct sim_queue *queue);
void sim_engine_brought(struct sim_queue *queue);
int sim_engine_fault(struct sim_queue *queue, u64 generation);
int sim_engine_moving(struct sim_queue *queue, u64 generation);

/* sim_queue.c */
struct sim_job *sim_job_new(unsigned int n_commands);
void sim_job_free(struct sim_job *job);
int sim_job_add(struct sim_queue *queue, struct sim_job *job, u64 *ret_seqno, u64 *ret_done,
		u64 *ret_failures);
int sim_job_later(struct sim_opener *opener, void *argument, const struct sim_later *later,
		  struct sim_job *job, u64 *ret_seqno);
struct sim_queue *sim_queue_get(struct sim_opener *opener, u32 id);
void sim_queue_put(struct sim_queue *queue);

/* sim_dump.c */
void sim_dump_take(struct sim_queue *queue, const struct sim_job *job, unsigned int at);

/* sim_wait.c */
void sim_waiters_wake(struct sim_queue *queue, u64 done);

/* sim_timeline.c */
struct sim_timeline *sim_timeline_get(int fd);
void sim_timeline_put(struct sim_timeline *timeline);
u64 sim_timeline_value(struct sim_timeline *timeline);
bool sim_timeline_is_promised(struct sim_timeline *timeline, u64 point);
void sim_timeline_expect(struct sim_timeline *timeline, u64 point, bool promise);
void sim_timeline_reach(struct sim_timeline *timeline, u64 point);
void sim_timeline_wait_begin(struct sim_timeline *timeline, struct sim_timeline_waiter *waiter,
			     u64 point);
void sim_timeline_wait_end(struct sim_timeline *timeline, struct sim_timeline_waiter *waiter);

/* sim_sync.c */
int sim_syncs_read(struct sim_queue *queue, void *argument, const struct sim_later *later,
		   struct sim_job *job, s32 *ret_fds);
int sim_syncs_answer(const struct sim_later *later, const s32 *fds);
int sim_syncs_check(struct sim_queue *queue, const struct sim_syncs *syncs);
void sim_syncs_promise(struct sim_queue *queue, const struct sim_syncs *syncs);
void sim_syncs_signal(const struct sim_syncs *syncs);
void sim_syncs_free(struct sim_syncs *syncs);
bool sim_sync_is_there(const struct sim_sync *sync);
void sim_sync_wait_begin(const struct sim_sync *sync, struct sim_sync_waiter *waiter);
void sim_sync_wait_end(const struct sim_sync *sync, struct sim_sync_waiter *waiter);

/* sim_uses.c */
int sim_uses_read(struct sim_queue *queue, const struct hetsim_submit *submit, bool may_write,
		  struct sim_job *job, struct sim_uses *uses);
int sim_uses_submit(struct sim_queue *queue, struct sim_job *job, struct sim_uses *uses,
		    struct hetsim_submit *submit);
void sim_uses_end(struct sim_uses *uses);

/* sim_fence.c */
struct dma_fence *sim_fence_new(struct sim_queue *queue, u64 seqno);
int sim_fence_reply(struct dma_fence *fence, void *argument);
void sim_fence_detach(struct sim_queue *queue, u64 seqno, u64 n_calls);
void sim_fence_signal(struct dma_fence *fence, int status);

#endif
