/* SPDX-License-Identifier: MIT */
/*
 * The objects of the accelerators' side: accel, kernel, queue, fence, and an accelerator's view
 * of a map.
 *
 * Locks, in addition to core.h's: queue->lock (the list of work, the pool of fences) and
 * accel_view->lock (the accelerator's data for a map) are leaves: only the driver's own locks
 * are taken under them.
 *
 * The way in is how an accelerator reaches the bytes of a map. It is decided when the
 * accelerator first sees the map, and hm_accel_way_in() tells it; the self-test runs once for
 * each device and kind of backing, and never uses the user's bytes:
 *
 *     direct        "cpu"; or an engine and a map of its own device, bound at the same address
 *     SVM           the OpenCL driver announces fine-grained system SVM
 *     import        the driver imports host memory (ARM's extension), after the self-test
 *     host pointer  CL_MEM_USE_HOST_PTR, after the self-test: a kernel writes to scratch memory
 *                   of the same backing, and the CPU must see it without a read
 *     copy          otherwise; counted, and refused under HM_ZERO_COPY_ONLY
 *
 * There is one cl_mem for each map, context and window; arguments are sub-buffers of it. An
 * argument at an offset where no sub-buffer may start goes by SVM, by a named quirk of the
 * driver, or by a counted copy.
 *
 * A launch makes each pointer argument a struct map_use, with a reference on the map, and enters
 * it into the map's list. Reads do not exclude reads; a change or a bracket waits for the uses
 * it conflicts with. Fences come from their queue's pool: a launch allocates nothing, makes no
 * descriptor (hm_fence_fd() makes one when asked) and installs no callback. A later launch puts
 * completed fences back into the pool, and asks an accelerator only if it knows of an end.
 * SUBMIT of a simulated device tells the queue's progress and the number of failed commands, so
 * that a launch on it is one system call.
 *
 * A fence of foreign work (fence_foreign.c) is held by its users only: the last reference ends
 * it. A descriptor of several fences is the kernel's where all are sync_files, and
 * fence_gather.h's otherwise. A queue waits for a fence before it submits: work given to a
 * device may hold up other waiters in the kernel, and must never wait for work that may not end.
 */
#ifndef HETMAP_RUNTIME_ACCEL_H
#define HETMAP_RUNTIME_ACCEL_H

#include <hetmap/accel_ops.h>

#include "core/core.h"
#include "base/thread.h"
#include "map/view.h"

struct hm_accel {
	struct hm_object object;
	const struct hm_accel_ops *ops;
	void *data;     /* the accelerator's own */
	uint32_t flags; /* HM_ACCEL_*, HM_ZERO_COPY_ONLY */
	uint32_t caps;  /* HM_ACCEL_ANY_POINTER and the following */
	uint64_t window;
	char name[64];
	struct cds_list_head views;    /* accel_view.accel_link; view_mutex */
	struct cds_list_head builds;   /* kernel_build.link; view_mutex */
	struct view_deferred deferred; /* when the last reference is gone, in a callback */
};

/* ---- kernel.c ---- */

/*
 * A kernel, built for one accelerator. Lives as long as the kernel; the accelerator's data for
 * it goes with the kernel or the accelerator, whichever ends first.
 */
struct kernel_build {
	struct kernel_build *next;
	struct cds_list_head link;        /* accel->builds; view_mutex */
	_Atomic(struct hm_accel *) accel; /* no ref; NULL: closed */
	void *data;                       /* the accelerator's own */
	struct hm_accel_parameters parameters;
};

struct hm_kernel {
	struct hm_object object;
	struct hm_kernel_desc desc;            /* steps and strings are in text[] */
	struct hm_accel_parameters parameters; /* of the signature */
	pthread_mutex_t lock;                  /* to add a build */
	_Atomic(struct kernel_build *) builds; /* only ever prepended to */
	_Alignas(struct hm_engine_step) char text[];
};

/* For a closing accelerator: ends its data for kernels. */
void kernel_end_builds(struct hm_accel *accel);

/* Finds or makes the build for @accel. */
int kernel_get_build(struct hm_kernel *kernel, struct hm_accel *accel,
		     struct kernel_build **ret_build);

/* ---- signature.c ---- */

int signature_parse(const char *signature, struct hm_accel_parameters *ret_parameters);
/* "float", "in" ...: the parameter in error texts. */
const char *parameter_name(const struct hm_accel_parameters *parameters, uint32_t index);
const char *arg_type_name(uint32_t type); /* "a float" ... */
/* Checks a launch's arguments against a kernel's parameters. */
int parameters_check(const struct hm_accel_parameters *parameters, const char *kernel,
		     const struct hm_arg *args, uint32_t n_arg);

/* ---- engine_program.c ---- */

/* Most steps of a program, and most commands of one submission. */
#define ENGINE_STEPS_MAX 256

/* Operands and effects of an operation. */
struct engine_op {
	const char *name;
	uint8_t n_source;
	bool writes;     /* its length, at the destination */
	bool reads_back; /* also reads the destination */
	bool words;      /* takes lengths in whole words */
	bool value;
	uint32_t result; /* bytes at the destination, instead of its length; 0: none */
};

/* By enum hm_engine_op; NULL: no such operation. */
const struct engine_op *engine_op_of(uint32_t op);
/* Checks the program's steps against the parameters of the signature. */
int engine_check(const struct hm_kernel_desc *desc,
		 const struct hm_accel_parameters *parameters);

/* ---- fence.c ---- */

enum fence_state {
	FENCE_FREE = 0,
	FENCE_PREPARING, /* not submitted yet: waiters wait for the submission first */
	FENCE_RUNNING,
	FENCE_COMPLETING, /* one thread ends its uses */
	FENCE_DONE,
};

struct hm_fence {
	struct hm_object object;
	_Atomic uint32_t state;    /* enum fence_state */
	struct hm_queue *queue;    /* the fence's pool belongs to it */
	struct cds_list_head link; /* queue->work or queue->free */
	struct hm_kernel *kernel;  /* holds a ref while in flight */
	uint32_t n_use;
	uint32_t brackets; /* bits of ranges of buffers with HM_CAP_BRACKET; merged: of all parts */
	uint32_t writes; /* the build's hm_accel_parameters.writes */
	uint32_t any;    /* bits of ranges that were passed as HM_ANY */
	uint32_t loose;  /* bits of these ranges that are in no map */
	/*
	 * The device, with a reference, that the work's end found gone; the thread that takes it
	 * must report it. NULL: none.
	 */
	struct hm_device *_Atomic gone;
	/* Ordered by frequency of access: many fences may be in flight. */
	struct hm_accel_work work;
	struct map_use use[HM_KERNEL_MAX_ARGS];
};

/* Name of the fence's work: its kernel's, "copy" or "fill". */
static inline const char *fence_work_name(const struct hm_fence *fence)
{
	if (fence->work.kind == HM_WORK_LAUNCH)
		return fence->kernel->desc.name;
	return fence->work.kind == HM_WORK_COPY ? "copy" : "fill";
}

/* Makes a fence in PREPARING with one reference, which the work owns. -ENOMEM. */
int fence_create(struct hm_queue *queue, struct hm_fence **ret_fence);
/* The work runs; from here on it owns the reference of fence_create. */
void fence_submitted(struct hm_fence *fence);
/* The work will never run: ends the uses that have begun and drops the fence. */
void fence_abandon(struct hm_fence *fence);
/* Waits until the fence is DONE. 0, -ETIME, or the driver's failure to wait. */
int fence_wait_done(struct hm_fence *fence, uint64_t timeout_ns);
/* Waits for the work and completes it. Returns the result of hm_fence_wait(). */
int fence_wait(struct hm_fence *fence, uint64_t timeout_ns);
/* hm_fence_wait() without its door. */
int fence_wait_and_tell(struct hm_fence *fence, uint64_t timeout_ns);
/* Is the work over, and in flight on no map any more? */
bool fence_is_done(struct hm_fence *fence);
/* The way in which maps wait for work in flight on them. */
extern const struct map_work_ops fence_work;
/* Completes the fence if its work is done: 0, -ETIME, or the driver's failure to look. */
int fence_poll(struct hm_fence *fence);
/* Completes work that is done at the head of the queue. */
void fence_reap(struct hm_queue *queue);
/*
 * Must surround each call of the queue's driver by a thread that may hold a fence of the queue,
 * but not the queue.
 */
void fence_ask_begin(struct hm_queue *queue);
void fence_ask_end(struct hm_queue *queue);
/* For the queue's end: waits for all its work, its callbacks, and threads in its driver. */
void fence_drain(struct hm_queue *queue);
void fence_free_pool(struct hm_queue *queue);

/* ---- fence_fd.c ---- */

/* hm_fence_fd() without its door. */
int fence_fd(struct hm_fence *fence, int *ret_fd);
/* Makes a descriptor that is readable from the start. */
int fence_fd_done(int *ret_fd);

/* ---- fence_foreign.c ---- */

/* A fence of work that @ops wait for. It takes over @data, work->data[0], on success. -ENOMEM. */
int fence_make_foreign(const struct hm_accel_ops *ops, void *data, struct hm_fence **ret_fence);
/* hm_fence_import_fd() of work that is done when @fd polls @events: POLLIN, or POLLOUT. */
int fence_import(int fd, short events, struct hm_fence **ret_fence);
/* Part @i of a merged fence, which is never merged itself, without a reference; else NULL. */
struct hm_fence *fence_part(const struct hm_fence *fence, uint32_t i);
/* hm_fence_merge() without its door. */
int fence_merge(struct hm_fence *const *fences, uint32_t n, struct hm_fence **ret_fence);

/* ---- queue.c ---- */

struct fence_chunk;

struct hm_queue {
	struct hm_object object;
	const struct hm_accel_ops *ops;
	struct hm_accel *accel; /* holds a ref until the last user reference goes */
	void *data;             /* the accelerator's own */

	pthread_mutex_t lock;      /* protects the fields below */
	pthread_cond_t changed;    /* a fence's state, n_notify, asking; CLOCK_MONOTONIC */
	struct cds_list_head work; /* hm_fence.link: in flight, oldest first */
	struct cds_list_head free;
	struct fence_chunk *chunks;
	uint32_t n_fence;  /* handed out; they keep the pool alive after the queue */
	uint32_t n_notify; /* callbacks that have not returned yet */
	uint32_t n_waiter; /* threads in pthread_cond_wait(changed) */
	bool closed;       /* no user references */

#define QUEUE_ENDING 0x80000000u
	_Atomic uint32_t asking; /* fence_ask_begin(), less ends; QUEUE_ENDING: drained */

	/*
	 * Constant: a queue of fence_foreign.c, for one fence. Only the fence's users hold it,
	 * since there is no work of ours that goes on without them. ops has the operations that
	 * fences need.
	 */
	bool foreign;

	pthread_mutex_t wait_lock; /* protects the fields below, and is held while waiting */
	_Atomic uint32_t n_wait;   /* read without lock too */
	struct hm_fence **wait;    /* a reference each: hm_queue_wait() */
};

/* Makes a queue that ends with its fence. */
int queue_create_foreign(const struct hm_accel_ops *ops, struct hm_queue **ret_queue);
void queue_free(struct hm_queue *queue);

/* ---- launch.c ---- */

/*
 * Resolves work->arg[] of a launch into ranges and uses, and submits. After a failure the caller
 * must call fence_abandon.
 */
int launch_submit(struct hm_queue *queue, struct hm_fence *fence);
/* The same for copy and fill; their ranges have pointer, length and access. */
int transfer_submit(struct hm_queue *queue, uint32_t n_range, struct hm_fence *fence);
/*
 * For an accelerator's submit: do the first @length bytes of both ranges have bytes in common,
 * through any maps?
 */
bool launch_ranges_overlap(const struct hm_accel_work *work, uint32_t i, uint32_t k,
			   uint64_t length);
/* Counts the bytes copied in, or back; the uses must still be there. */
void launch_count_copied(struct hm_fence *fence, bool back);

/* ---- resolve.c ---- */

/*
 * Fills range @index of @fence's work from its pointer, length and access, and adds to its uses.
 * On success the use holds a reference to the map.
 */
int resolve_range(struct hm_fence *fence, uint32_t index, uint64_t length);
/* Enters all uses: from here on the maps do not change. Undone by fence_abandon. */
int resolve_begin(struct hm_fence *fence);
const char *range_label(const struct hm_fence *fence, uint32_t index);

/* ---- any.c ---- */

/*
 * resolve_range() of an HM_ANY. In a map it is an ordinary range, which may also be used where no
 * view reaches it; outside it sets the range's bit in fence->loose, and there is no use.
 */
int any_resolve(struct hm_accel *accel, struct hm_fence *fence, uint32_t index,
		uint64_t length);
/* Takes hold of an HM_ANY without a view. */
int any_acquire(struct hm_accel *accel, struct hm_fence *fence, uint32_t index);
/* Do the first @length bytes of both ranges have bytes in common? One of them is in no map. */
bool any_overlap(const struct hm_accel_range *a, const struct hm_accel_range *b,
		 uint64_t length);

/* ---- learn.c ---- */

/* Bytes of the least and the largest window ahead of launches on files; most 0: none. */
void learn_set(uint64_t least, uint64_t most);
struct ahead_counts;
/* In pages. */
void learn_counts(struct ahead_counts *ret_counts);
extern _Atomic bool learn_on;
void learn_fork_prepare(void);
void learn_fork_after(void);
/* The work is submitted: begins to read the ranges that the next one is going to name. */
void learn_from(struct hm_fence *fence, uint32_t n);

/* ---- accel_view.c ---- */

struct accel_view;

/*
 * The view of @accel on @map, attached at its first use. The caller holds a reference to the
 * map.
 */
int accel_view_get(struct hm_accel *accel, struct hm_map *map, struct accel_view **ret_view);
/* Keeps the accelerator's data, *ret_data, from pin to unpin. */
int accel_view_pin(struct accel_view *view, void **ret_data);
void accel_view_unpin(struct accel_view *view);
/* For a closing accelerator: ends all of its views. */
void accel_view_detach_all(struct hm_accel *accel);

/*
 * Sets the accelerators that every process has: those before the registered ones, and those
 * after. Must be called before the library is used.
 */
void accel_set_builtin(const struct hm_accel_ops *first, const struct hm_accel_ops *const *last,
		       size_t n_last);

#endif
