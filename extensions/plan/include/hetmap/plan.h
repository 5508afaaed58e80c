/* SPDX-License-Identifier: MIT */
/*
 * Plan: when each range of a graph of operations comes to the device, moves, shares memory with
 * other ranges, and leaves. A plan is made of ranges and nodes. hm_plan_compile() decides once, the
 * result is a schedule, and a schedule runs again and again. Link with -lhetmap-plan.
 */
#ifndef HETMAP_PLAN_H
#define HETMAP_PLAN_H

#include <hetmap/hetmap.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_plan;
struct hm_schedule;
struct hm_run;

#define HM_PLAN_NONE 0 /* in place of the number of a range or of a node, which begin at 1 */

/**
 * hm_plan_create - make an empty plan
 * @flags:    [in] 0
 * @ret_plan: [out] a reference, which the caller drops with hm_plan_unref()
 *
 * Thread safety: any thread; calls on one plan must not overlap.
 */
HM_API int hm_plan_create(uint32_t flags, struct hm_plan **ret_plan);

/** hm_plan_ref - take a reference, and return @plan. NULL gives NULL. */
HM_API struct hm_plan *hm_plan_ref(struct hm_plan *plan);

/** hm_plan_unref - drop a reference; NULL is allowed. Schedules keep no plan. */
HM_API void hm_plan_unref(struct hm_plan *plan);

/* ---- ranges ---- */

/* hm_plan_range_desc.flags */
#define HM_PLAN_INPUT (1u << 0)  /* nodes see the bytes that the home has when a run begins */
#define HM_PLAN_OUTPUT (1u << 1) /* the home has the last bytes when a run is done */

struct hm_plan_range_desc {
	uint32_t struct_size;
	uint32_t flags;   /* HM_PLAN_INPUT | HM_PLAN_OUTPUT; 0: temporary */
	const char *name; /* copied */
	void *home;       /* memory that outlives all runs; NULL: temporary, or a view */
	uint64_t length;  /* bytes, from 1 */
	uint32_t parent;  /* range that this one is a view of, or HM_PLAN_NONE */
	uint32_t reserved;
	uint64_t offset; /* a view's first byte in @parent */
};

/**
 * hm_plan_range - add a range of bytes that nodes read and write
 * @plan:      [in]
 * @desc:      [in] description, which the call copies
 * @ret_range: [out] number of the range
 *
 * A range with a home is an input, an output or both. A temporary has no home: its bytes are
 * undefined when a run begins, and gone when the run ends. A view names bytes of another range. A
 * range comes and goes as a whole, with all its views. A home inside a map that the accelerator
 * reaches in place stays where it is; other homes may be any memory of the process.
 *
 * Thread safety: as for hm_plan_create().
 *
 * Errors:
 *   -EINVAL: the length is 0, a view has flags or a home, an input or an output has no home, or
 *            a home is given to a temporary.
 *   -ENOENT: @parent is no range of the plan.
 *   -ERANGE: a view ends after its parent.
 *   -EEXIST: the home overlaps that of another range; the text has both names. Declare one range
 *            over all the bytes, and views of it.
 *   -ENOMEM: not enough memory is available.
 */
HM_API int hm_plan_range(struct hm_plan *plan, const struct hm_plan_range_desc *desc,
			 uint32_t *ret_range);

/* ---- nodes ---- */

struct hm_plan_arg {
	uint32_t range;      /* number of a range; HM_PLAN_NONE: @value is the argument */
	uint32_t access;     /* HM_READ | HM_WRITE, of a range */
	struct hm_arg value; /* a scalar, or work-group memory */
};

static inline struct hm_plan_arg hm_plan_arg_range(uint32_t range, uint32_t access)
{
	struct hm_plan_arg arg = { range, access, { HM_ARG_END, 0, 0, 0, { NULL }, 0 } };

	return arg;
}

static inline struct hm_plan_arg hm_plan_arg_value(struct hm_arg value)
{
	struct hm_plan_arg arg = { HM_PLAN_NONE, 0, value };

	return arg;
}

#define HM_PLAN_IN(range) hm_plan_arg_range((range), HM_READ)
#define HM_PLAN_OUT(range) hm_plan_arg_range((range), HM_WRITE)
#define HM_PLAN_INOUT(range) hm_plan_arg_range((range), HM_READ | HM_WRITE)
#define HM_PLAN_VALUE(arg) hm_plan_arg_value(arg)

/**
 * hm_plan_function - submit the work of a node; a function of the application
 * @queue:     [in] queue that the work goes to
 * @args:      [in] arguments of the node; ranges are pointers with their lengths
 * @n_arg:     [in]
 * @user:      [in] as the node's description has it
 * @ret_fence: [out] a reference to the fence of the last work. Left alone, the work of the node
 *             is done when the function returns
 *
 * The function may launch, copy and fill on @queue, and touch the bytes of the arguments by the
 * CPU once it has waited for the work before. It must not call functions of the running schedule.
 *
 * Thread safety: the library calls the function on a thread of the run.
 * Returns: 0, or a negative errno, which ends the run.
 */
typedef int hm_plan_function(struct hm_queue *queue, const struct hm_arg *args, uint32_t n_arg,
			     void *user, struct hm_fence **ret_fence);

struct hm_plan_node_desc {
	uint32_t struct_size;
	uint32_t flags;           /* 0 */
	const char *name;         /* copied */
	struct hm_kernel *kernel; /* the node takes a reference; or NULL */
	hm_plan_function *call;   /* in place of a kernel */
	void *user;               /* for @call */
	uint64_t grid[3];         /* of the kernel */
	const struct hm_plan_arg *args;
	const uint32_t *after; /* nodes that must come first, whatever their ranges */
	uint32_t n_arg;        /* at most HM_KERNEL_MAX_ARGS */
	uint32_t n_after;
};

/**
 * hm_plan_node - add an operation
 * @plan:     [in]
 * @desc:     [in] description, which the call copies
 * @ret_node: [out, optional] number of the node
 *
 * A node comes after each earlier node that writes bytes that it reads or writes, or reads bytes
 * that it writes. @after may also name nodes that are added later.
 *
 * An argument with HM_WRITE alone must be written as a whole.
 *
 * Thread safety: as for hm_plan_create().
 *
 * Errors:
 *   -EINVAL: the node has both a kernel and a function or neither, an argument has no access, or
 *            the node has too many arguments.
 *   -ENOENT: an argument names no range of the plan; the text has the number.
 *   -ENOMEM: not enough memory is available.
 */
HM_API int hm_plan_node(struct hm_plan *plan, const struct hm_plan_node_desc *desc,
			uint32_t *ret_node);

/* ---- schedules ---- */

enum hm_plan_policy {
	HM_PLAN_AHEAD = 0,    /* by the graph: the policy to use */
	HM_PLAN_UP_FRONT = 1, /* each range comes at the start and leaves at the end */
	HM_PLAN_PER_NODE = 2, /* each node's arguments come before it and leave after it */
};

/* hm_plan_options.flags */
#define HM_PLAN_COPY (1u << 0) /* homes are copied, also where the accelerator reaches them */

struct hm_plan_options {
	uint32_t struct_size;
	uint32_t flags;
	uint32_t policy; /* enum hm_plan_policy; the last two are for comparison */
	uint32_t reserved;
	uint64_t budget;          /* most bytes of device memory; 0: no limit */
	struct hm_device *device; /* that has the memory; NULL: the accelerator's own, or host */
};

/**
 * hm_plan_compile - decide when each range comes, moves and leaves
 * @plan:    [in]
 * @accel:   [in] accelerator of the nodes; the schedule takes a reference
 * @options: [in, optional] NULL: all zero
 * @ret_schedule: [out] a reference, which the caller drops with hm_schedule_unref()
 *
 * Ranges whose home the accelerator reaches in place are used there. All others get places in one
 * buffer of the device, its arena. A range comes just before its first use, beside the node before
 * where there is room for both, and its place is free after its last one. If the ranges do not fit
 * the budget, those leave whose next use is furthest or cheapest. If the free bytes are in several
 * pieces, ranges move inside the arena. The plan may be changed or dropped afterwards.
 *
 * Thread safety: as for hm_plan_create().
 *
 * Errors:
 *   -EINVAL:   the plan has no node, or a flag or the policy is unknown.
 *   -ENODATA:  a node reads a range that nothing has written, or no node writes an output.
 *   -ELOOP:    nodes wait for each other; the text has the names of a circle.
 *   -ENOENT:   a node is after a node that does not exist.
 *   -EXDEV:    the accelerator does not reach the device's memory in place.
 *   -ENOSPC:   the budget is too small; the text has the smallest one, which
 *              hm_plan_smallest() returns, too.
 *   -ENOMEM:   not enough memory is available.
 *
 * In addition the errors of hm_accel_way_in(), hm_device_open(), hm_buffer_create(),
 * hm_queue_create() and hm_kernel_build().
 */
HM_API int hm_plan_compile(struct hm_plan *plan, struct hm_accel *accel,
			   const struct hm_plan_options *options,
			   struct hm_schedule **ret_schedule);

/**
 * hm_plan_smallest - tell the smallest budget that would do
 * @plan, @accel, @options: [in] as for hm_plan_compile(); the budget is not looked at
 * @ret_bytes: [out] bytes
 *
 * Thread safety and errors: those of hm_plan_compile(), but -ENOSPC.
 */
HM_API int hm_plan_smallest(struct hm_plan *plan, struct hm_accel *accel,
			    const struct hm_plan_options *options, uint64_t *ret_bytes);

/** hm_schedule_ref - take a reference, and return @schedule. NULL gives NULL. */
HM_API struct hm_schedule *hm_schedule_ref(struct hm_schedule *schedule);

/** hm_schedule_unref - drop a reference; NULL is allowed. Each run holds one. */
HM_API void hm_schedule_unref(struct hm_schedule *schedule);

struct hm_schedule_info {
	uint32_t struct_size;
	uint32_t policy;
	uint64_t budget;      /* bytes; 0: no limit */
	uint64_t smallest;    /* bytes of the smallest budget */
	uint64_t peak;        /* bytes of the arena */
	uint64_t bytes_in;    /* of one run: to the device */
	uint64_t bytes_out;   /* back */
	uint64_t bytes_moved; /* inside the device */
	uint64_t bytes_spill; /* host memory for ranges without a home, or with changed bytes */
	uint64_t evictions;   /* ranges that left, and are needed again */
	uint64_t bytes_together; /* of all ranges that have a place in the arena */
	uint32_t n_steps;
	uint32_t n_nodes;
	uint32_t n_in_place; /* ranges that are used at their home */
	uint32_t reserved;
};

/**
 * hm_schedule_query - describe a schedule
 * @schedule: [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_schedule_query(struct hm_schedule *schedule, struct hm_schedule_info *ret_info);

enum hm_plan_step_kind {
	HM_PLAN_STEP_IN = 0,   /* a range's bytes come to its place */
	HM_PLAN_STEP_OUT = 1,  /* bytes go to the home, or to host memory of the schedule */
	HM_PLAN_STEP_MOVE = 2, /* bytes move inside the arena */
	HM_PLAN_STEP_NODE = 3, /* a node runs */
};

/* Steps of a lane run in their order. */
enum hm_plan_lane {
	HM_PLAN_LANE_COMPUTE = 0,
	HM_PLAN_LANE_IN = 1,
	HM_PLAN_LANE_OUT = 2,
};
#define HM_PLAN_LANES 3

struct hm_plan_step {
	uint32_t struct_size;
	uint32_t kind;   /* enum hm_plan_step_kind */
	uint32_t lane;   /* enum hm_plan_lane */
	uint32_t node;   /* NODE: its number; else that of the node that the step is for */
	uint32_t range;  /* IN, OUT, MOVE; never a view */
	uint32_t home;   /* IN, OUT: 1 for the range's home, 0 for memory of the schedule */
	uint64_t offset; /* place in the arena, in bytes */
	uint64_t from;   /* MOVE: the place before */
	uint64_t length; /* bytes */
	/* For each lane: so many of its steps, from its first one on, must be done before. */
	uint32_t after[HM_PLAN_LANES];
	uint32_t reserved;
};

/**
 * hm_schedule_step - describe a step
 * @schedule: [in]
 * @index:    [in] from 0, in an order in which the steps may run one by one
 * @ret_step: [in,out] struct_size set by the caller
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: the schedule has fewer steps.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_schedule_step(struct hm_schedule *schedule, uint32_t index,
			    struct hm_plan_step *ret_step);

/**
 * hm_schedule_place - tell where a range is while a step runs
 * @schedule:   [in]
 * @index:      [in] a step of kind HM_PLAN_STEP_NODE
 * @argument:   [in] argument of the node, from 0
 * @ret_offset: [out] place in the arena, in bytes; UINT64_MAX: at its home
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: there is no such step, or it runs no node.
 *   -ENOENT: the argument is no range.
 */
HM_API int hm_schedule_place(struct hm_schedule *schedule, uint32_t index, uint32_t argument,
			     uint64_t *ret_offset);

enum hm_plan_format {
	HM_PLAN_TEXT = 0,
	HM_PLAN_SVG = 1,  /* a picture: lanes for compute and transfers, and the arena */
	HM_PLAN_JSON = 2, /* an object: sums, "ranges", "steps" */
	HM_PLAN_HTML = 3, /* a page: the picture, and each step with its reason */
};

/**
 * hm_plan_explain - tell all decisions of a schedule, and the reason of each
 * @schedule: [in]
 * @format:   [in] enum hm_plan_format
 * @ret_text: [out] a string; free() it
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL: the format is unknown.
 *   -ENOMEM: not enough memory is available.
 */
HM_API int hm_plan_explain(struct hm_schedule *schedule, uint32_t format, char **ret_text);

/* ---- runs ---- */

struct hm_plan_home {
	uint32_t range; /* with a home, not a view */
	uint32_t reserved;
	void *pointer; /* for this run and all later ones; of the range's length */
};

/**
 * hm_plan_run - begin to run a schedule
 * @schedule: [in] one run of a schedule goes on at a time
 * @homes:    [in, optional] new homes of ranges; may be NULL if @n_home is 0
 * @n_home:   [in]
 * @ret_run:  [out] a reference, which the caller drops with hm_run_unref()
 *
 * Returns at once; threads of the run do the work. A schedule of up to 1536 steps, all of them
 * nodes with kernels, needs no thread: the call itself submits them, and the next call that asks
 * for the run, or for a new one, finds its end. Until the run is done the homes belong to the run.
 *
 * A failure of a node, a copy or the device ends the run: no output that depends on the failed
 * node is copied home, and each of these has its old bytes or all of its new ones, except that a
 * device that goes away during a copy may leave one in part; the text of hm_run_wait() names it.
 * Outputs that are used in place have what the nodes wrote by then.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EBUSY:  another run of the schedule goes on.
 *   -ENOENT: @homes names no range with a home.
 *   -EXDEV:  a range was used in place and cannot be at the new home, or the other way round;
 *            compile again.
 *   -EAGAIN: no thread could be started.
 *   -ENODEV: the device was taken away; compile again after hm_device_recover().
 *   -ENOMEM: not enough memory is available.
 */
HM_API int hm_plan_run(struct hm_schedule *schedule, const struct hm_plan_home *homes,
		       uint32_t n_home, struct hm_run **ret_run);

/**
 * hm_run_wait - wait until a run is done
 * @run:        [in]
 * @timeout_ns: [in] nanoseconds; 0 polls, UINT64_MAX waits for ever
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ETIME: the run is not done yet.
 *
 * Any other error is that of the run; the text has the name of the node or range.
 */
HM_API int hm_run_wait(struct hm_run *run, uint64_t timeout_ns);

/**
 * hm_run_fence - make a fence that is done when the run is
 * @run:       [in]
 * @ret_fence: [out] a reference, which the caller drops with hm_fence_unref()
 *
 * The fence has no result: hm_run_wait() has it.
 *
 * Thread safety: any thread.
 *
 * Errors: those of hm_fence_import_fd().
 */
HM_API int hm_run_fence(struct hm_run *run, struct hm_fence **ret_fence);

struct hm_run_info {
	uint32_t struct_size;
	uint32_t done;        /* 1: the run is over */
	uint32_t failed_node; /* number of the node whose work failed, or HM_PLAN_NONE */
	uint32_t n_written;   /* outputs with their new bytes at home */
	uint64_t elapsed_ns;  /* until its end was found */
	uint64_t copy_ns[2];  /* time of copies: in, out */
};

/**
 * hm_run_query - describe a run
 * @run:      [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_run_query(struct hm_run *run, struct hm_run_info *ret_info);

/** hm_run_ref - take a reference, and return @run. NULL gives NULL. */
HM_API struct hm_run *hm_run_ref(struct hm_run *run);

/** hm_run_unref - drop a reference; NULL is allowed. The last one waits for the run. */
HM_API void hm_run_unref(struct hm_run *run);

#ifdef __cplusplus
}
#endif

#endif
