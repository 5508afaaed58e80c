/* SPDX-License-Identifier: MIT */
/*
 * The engines of "sim:N" and "soft:N" as accelerators: one code over backend/sim/port.h, on the
 * port that the device of the same name uses.
 *
 * Locks, outermost first: engine_queue.lock (held through a submit), engine_stage.lock,
 * engine_notifier.lock; engine_binding_mutex, held while waiting for work, and under which no
 * other lock is taken.
 *
 * An engine runs programs, the third form of a kernel: steps of one operation each (enum
 * hm_engine_op) on arguments of the launch. A launch binds the maps of its arguments in the
 * device's page table (engine/view.c). A fence is {queue, number}: waiting is a call, and a
 * descriptor is made on request. A fault of the device, on an address that is not bound or is
 * read-only, is the fence's error, with the address in the text.
 */
#ifndef HETMAP_RUNTIME_ACCEL_SIM_H
#define HETMAP_RUNTIME_ACCEL_SIM_H

#include "accel/accel.h"
#include "backend/sim/port.h"

/* The thread that runs callbacks, and its notices. Started by the first notice. */
struct engine_notifier {
	pthread_mutex_t lock; /* protects the fields below */
	struct engine_notice *notices;
	pthread_t thread;
	bool started;
	bool stop;
	int fd; /* eventfd: some work may be done; valid once started */
};

struct engine {
	_Atomic uint32_t refs; /* held by its opener and its queues */
	struct sim_port *port; /* with a reference */
	char name[16];         /* "soft:0" */
	uint32_t flags;        /* of hm_accel_desc */
	uint64_t window;
	struct engine_notifier notifier;
	pthread_mutex_t range_lock;       /* protects the next one */
	struct engine_queue *range_queue; /* for prefetches; NULL: not made yet */
};

/* A buffer on the device, bound there: copied bytes go through it. */
struct engine_slot {
	struct sim_object *object; /* NULL: not made yet */
	uint64_t address;          /* on the device; constant */
	uint64_t length;
};

/* Bytes that must come back from slots after a piece of work. */
struct engine_stage {
	_Atomic uint32_t refs; /* held by the work, the queue, notices */
	pthread_mutex_t lock;  /* protects done, status and the copies */
	bool done;
	int status; /* of the copies back */
	uint32_t n;
	struct {
		char *to;
		uint64_t length;
		uint64_t from; /* byte of the device, for the port's read */
	} back[HM_KERNEL_MAX_ARGS];
};

struct engine_queue {
	_Atomic uint32_t refs;        /* held by the library, and by each unreleased work */
	struct engine *engine;        /* with a reference */
	uint32_t number;              /* among the port's queues */
	uint32_t type;                /* enum hetsim_queue_type */
	_Atomic bool ended;           /* destroyed, after all its work was done */
	pthread_mutex_t failure_lock; /* protects status and text of its work */

	/*
	 * Progress as told by SUBMIT: submissions up to done are done; those after good_after,
	 * up to done, have succeeded. Written with the lock held.
	 */
	_Atomic uint64_t done;
	_Atomic uint64_t good_after;

	pthread_mutex_t lock;        /* protects the fields below, of its lane, too */
	struct engine_queue *lane;   /* for work on any pointers; NULL: there was none */
	struct engine_queue *latest; /* itself or the lane: the one with the last work */
	uint64_t last;               /* number of the last submission; 0: none */
	uint64_t n_failures;         /* as told by SUBMIT */
	struct engine_stage *staged; /* of the last work with a stage; with a reference */
	struct engine_slot slot[HM_KERNEL_MAX_ARGS];
	uint32_t n_use;                         /* with HM_ACCEL_IMPLICIT: */
	struct hetsim_use use[HETSIM_MAX_USES]; /* buffers of the work that is submitted */
	uint32_t n_command;
	struct hetsim_command command[ENGINE_STEPS_MAX];
};

/*
 * Work on pointers that are in no map waits for pages, and behind a dma_fence nothing may. Such
 * work goes to a queue of the port of its own, the lane. Each of the two waits for the other's
 * work, so that the library's queue keeps its order.
 *
 * work->data[0] is the queue or its lane, with a reference; [1] and [2] the first and the last
 * submission; [3] its stage or NULL.
 */
enum { WORK_QUEUE, WORK_FIRST, WORK_LAST, WORK_STAGE, WORK_DECIDED };

static inline uint64_t work_number(const struct hm_accel_work *work, int which)
{
	return (uint64_t)(uintptr_t)work->data[which];
}

/* The queue of the port that has the work; @queue: the library's. */
static inline struct engine_queue *work_queue(struct engine_queue *queue,
					      const struct hm_accel_work *work)
{
	return work->data[WORK_QUEUE] ? work->data[WORK_QUEUE] : queue;
}

/* ---- engine.c ---- */

void engine_put(struct engine *engine);

/* ---- range.c ---- */

int engine_any_acquire(void *accel, struct hm_accel_range *range);
int engine_range_advise(void *accel, uint64_t address, uint64_t length, uint32_t advice,
			uint64_t value);
int engine_range_prefetch(void *accel, uint64_t address, uint64_t length, uint32_t access);
int engine_range_query(void *accel, uint64_t address, uint64_t length,
		       struct hm_range_page *pages);
int engine_range_events(void *accel, uint64_t *cursor, struct hm_range_event *events,
			uint32_t capacity, uint32_t *ret_n, uint64_t *ret_lost);
int engine_range_counts(void *accel, struct hm_range_counts *counts);
int engine_range_learn(void *accel, uint64_t least, uint64_t most);

/* ---- view.c ---- */

/* Held across a fork. */
extern const struct hm_accel_ops sim_accel;
extern const struct hm_accel_ops soft_accel;

/* fork(2): the mutex over the bindings is held across it. */
void engine_fork_prepare(void);
void engine_fork_after(void);

int engine_view_create(void *accel, const struct hm_accel_map *map, void **ret_view);
void engine_view_destroy(void *view);
int engine_view_acquire(void *view, struct hm_accel_range *range);
void engine_view_release(void *view, struct hm_accel_range *range);
/* Names the view's buffers in the next submissions of the queue. -EOPNOTSUPP: too many. */
int engine_view_name(const void *view, uint32_t access, struct engine_queue *queue);
/* Submission @last of the port's queue @number uses the view. */
void engine_view_used(void *view, uint32_t number, uint64_t last);

/* ---- queue.c ---- */

int engine_queue_create(void *accel, void **ret_queue);
void engine_queue_destroy(void *queue);
int engine_submit(void *queue, struct hm_accel_work *work);
int engine_wait(void *queue, struct hm_accel_work *work, uint64_t timeout_ns);
bool engine_may_be_done(void *queue, const struct hm_accel_work *work);
int engine_fence_fd(void *queue, struct hm_accel_work *work, int *ret_fd);
void engine_work_release(struct hm_accel_work *work);
void engine_queue_put(struct engine_queue *queue);

/* The end of submission @number of a port's queue. */
struct engine_end {
	int status;
	uint64_t address; /* with -EFAULT, as are the next two */
	uint32_t reason;  /* enum hetsim_fault_reason */
	uint32_t write;
};

/* A queue of the port of @type (enum hetsim_queue_type), with a reference. */
int engine_queue_make(struct engine *engine, uint32_t type, struct engine_queue **ret_queue);
/* Its end: no work of it is under way. */
void engine_queue_end(struct engine_queue *queue);
/* A sentence on @end; writes into @text of 96 bytes at least, or returns a constant. */
const char *engine_explain_end(const struct engine *engine, const struct engine_end *end,
			       char *text, size_t size);

#define ENGINE_FOREVER UINT64_MAX

/* Waits until @deadline of CLOCK_MONOTONIC; 0 only looks. 0, -ETIME, or a failure to wait. */
int engine_wait_number(struct sim_port *port, uint32_t queue, uint64_t number,
		       uint64_t deadline, struct engine_end *ret_end);
/* Adds a command, which engine_flush submits. The caller holds queue->lock. */
int engine_add(struct engine_queue *queue, const struct hetsim_command *command);
int engine_flush(struct engine_queue *queue);
/*
 * Waits for all earlier work of the queue, which may be storing bytes that the CPU is about to
 * read for this one. The caller holds queue->lock.
 */
int engine_catch_up(struct engine_queue *queue);
/* Sets a work's failure; the first one stays. */
void engine_fail(struct engine_queue *queue, struct hm_accel_work *work,
		 const struct engine_end *end);

/* ---- program.c ---- */

int engine_kernel_build(void *accel, const struct hm_kernel_desc *desc,
			struct hm_accel_parameters *parameters, void **ret_kernel);
void engine_kernel_free(void *accel, void *kernel);
/*
 * Writes the commands of a launch into queue->command; its ranges are at @address on the device.
 * The caller holds queue->lock. -EINVAL, -ERANGE.
 */
int engine_program(struct engine_queue *queue, const struct hm_accel_work *work,
		   const uint64_t *address);

/* ---- stage.c ---- */

struct engine_stage *engine_stage_new(void);
void engine_stage_put(struct engine_stage *stage);
/* The work has failed, and its maps may go: nothing is copied back from here on. */
void engine_stage_drop(struct engine_stage *stage);
/* The work is done: copies its bytes back, once. */
int engine_stage_back(struct sim_port *port, struct engine_stage *stage);
/* The caller holds queue->lock; no work of the queue uses the slot. */
int engine_slot_get(struct engine_queue *queue, uint32_t index, uint64_t length);
void engine_slots_end(struct engine_queue *queue);
int engine_write(struct sim_port *port, const struct engine_slot *slot, const char *from,
		 uint64_t length);
int engine_read(struct sim_port *port, const struct engine_slot *slot, char *to,
		uint64_t length);

/* ---- transfer.c ---- */

/* Submits a copy or fill. The caller holds queue->lock, and nothing is staged. */
int engine_transfer(struct engine_queue *queue, struct hm_accel_work *work);

/* ---- notify.c ---- */

void engine_notifier_init(struct engine_notifier *notifier);
void engine_notifier_end(struct engine_notifier *notifier);
int engine_notify(void *queue, struct hm_accel_work *work, void (*call)(void *user),
		  void *user);

#endif
