// SPDX-License-Identifier: MIT
/* From a plan to a schedule, and what a schedule tells of itself. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "plan.h"

/* Places are multiples of a cache line, and of what the accelerator asks for. */
#define LEAST_ALIGNMENT 64

/* Ways to choose that are compared: all nodes of all tries together, and tries of a small plan. */
#define MOST_WORK 20000
#define MOST_TRIES 96

static uint64_t align(uint64_t length, uint64_t alignment)
{
	return (length + alignment - 1) / alignment * alignment;
}

/* The bytes that each root takes in the arena; 0: it is a view, or is used at its home. */
static int find_sizes(const struct hm_plan *plan, struct hm_accel *accel, uint32_t flags,
		      const uint32_t *first_use, uint64_t *size, uint32_t *ret_n_in_place)
{
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	uint64_t alignment = LEAST_ALIGNMENT;
	uint32_t way, n_in_place = 0, i;
	int r = hm_accel_query(accel, &info);

	if (r)
		return r;
	while (alignment < info.alignment)
		alignment *= 2;
	for (i = 0; i < plan->n_range; i++) {
		const struct range *range = &plan->range[i];

		size[i] = 0;
		/* A range that no node uses has nothing to come for. */
		if (range->root != i || first_use[i] == first_use[i + 1])
			continue;
		if (range->length > UINT64_MAX / 4 / (plan->n_range + 1))
			return hm_error_set(-EINVAL, "range %s has %" PRIu64 " bytes",
					    range->name, range->length);
		if (range->home && !(flags & HM_PLAN_COPY)) {
			r = hm_accel_way_in(accel, range->home, range->length, &way);
			if (r && r != -ENOENT)
				return r;
			if (!r && way != HM_WAY_COPY) {
				n_in_place++;
				continue;
			}
		}
		size[i] = align(range->length, alignment);
	}
	*ret_n_in_place = n_in_place;
	return 0;
}

static uint64_t crossing(const struct steps *steps)
{
	return steps->bytes_in + steps->bytes_out;
}

static bool better(const struct steps *a, const struct steps *b)
{
	if (crossing(a) != crossing(b))
		return crossing(a) < crossing(b);
	return a->bytes_moved < b->bytes_moved;
}

/* Makes the steps by several rules, if ranges have to leave, and keeps the best. */
static int choose_steps(struct hm_schedule *schedule, bool *needs_spill)
{
	const struct hm_plan *plan = &schedule->plan;
	uint32_t most = MOST_WORK / plan->n_node + 1, rank, best = 0;
	struct steps steps;
	int r;

	r = walk_make(plan, schedule->order, &schedule->uses, schedule->size, schedule->policy,
		      schedule->budget, 0, &schedule->steps, needs_spill);
	schedule->tries = 1;
	if (r || !schedule->steps.evictions)
		return r;
	if (most > MOST_TRIES)
		most = MOST_TRIES;
	for (rank = 1; rank < most; rank++) {
		r = walk_make(plan, schedule->order, &schedule->uses, schedule->size,
			      schedule->policy, schedule->budget, rank, &steps, needs_spill);
		if (r)
			return r;
		schedule->tries++;
		if (better(&steps, &schedule->steps)) {
			steps_free(&schedule->steps);
			schedule->steps = steps;
			best = rank;
		} else {
			steps_free(&steps);
		}
	}
	/* Once more, for needs_spill. */
	steps_free(&schedule->steps);
	return walk_make(plan, schedule->order, &schedule->uses, schedule->size,
			 schedule->policy, schedule->budget, best, &schedule->steps,
			 needs_spill);
}

static int find_spill(struct hm_schedule *schedule, const bool *needs_spill)
{
	uint32_t i;

	for (i = 0; i < schedule->plan.n_range; i++) {
		schedule->spill[i] = NOWHERE;
		if (!needs_spill[i])
			continue;
		schedule->spill[i] = schedule->bytes_spill;
		schedule->bytes_spill += align(schedule->plan.range[i].length, 4096);
	}
	if (!schedule->bytes_spill)
		return 0;
	schedule->spill_memory = aligned_alloc(4096, schedule->bytes_spill);
	if (!schedule->spill_memory)
		return hm_error_set(-ENOMEM,
				    "no %" PRIu64 " bytes of memory for ranges that leave the "
				    "device",
				    schedule->bytes_spill);
	return 0;
}

/* Steps by lane, and the arguments of all nodes. */
static int find_lanes(struct hm_schedule *schedule)
{
	const struct hm_plan *plan = &schedule->plan;
	uint32_t n[HM_PLAN_LANES] = { 0 }, total = 0, i, lane;

	for (lane = 0; lane < HM_PLAN_LANES; lane++) {
		schedule->lane_step[lane] =
			calloc(schedule->steps.n_lane[lane] + 1, sizeof(uint32_t));
		if (!schedule->lane_step[lane])
			return hm_error_set(-ENOMEM, "no memory for steps");
	}
	for (i = 0; i < schedule->steps.n_step; i++) {
		lane = schedule->steps.step[i].lane;
		schedule->lane_step[lane][n[lane]++] = i;
	}
	schedule->copying = n[HM_PLAN_LANE_IN] || n[HM_PLAN_LANE_OUT];
	schedule->direct = !schedule->copying && n[HM_PLAN_LANE_COMPUTE] <= MOST_AHEAD;
	for (i = 0; i < plan->n_node; i++) {
		total += plan->node[i].n_arg;
		schedule->direct &= !plan->node[i].call;
	}
	schedule->args = calloc(total + 1, sizeof(*schedule->args));
	schedule->first_arg = calloc(plan->n_node + 1, sizeof(uint32_t));
	schedule->fence = calloc(n[HM_PLAN_LANE_COMPUTE] + 1, sizeof(struct hm_fence *));
	if (!schedule->args || !schedule->first_arg || !schedule->fence)
		return hm_error_set(-ENOMEM, "no memory for %u arguments", total);
	for (total = 0, i = 0; i < plan->n_node; i++) {
		schedule->first_arg[i] = total;
		total += plan->node[schedule->order[i]].n_arg;
	}
	return 0;
}

/*
 * An argument must lie in one window of the accelerator, and windows follow each other from the
 * start of a map on. In an arena with more than one, places on a border are reached by a second
 * map, whose windows begin half a window later.
 */
static int map_between(struct hm_schedule *schedule, uint64_t window)
{
	struct hm_map_desc desc = {
		.struct_size = sizeof(desc),
		.access = HM_READ | HM_WRITE,
	};
	struct hm_device_info device = { .struct_size = sizeof(device) };
	struct hm_pointer_info info;
	int r = hm_device_query(schedule->device, &device);

	if (r)
		return r;
	desc.offset = window / 2 / device.page_size * device.page_size;
	r = hm_pointer_find(schedule->arena, &info);
	if (r)
		return hm_error_set(r, "the arena of %" PRIu64 " bytes is in no map",
				    schedule->steps.peak);
	r = hm_map_create(info.buffer, &desc, &schedule->between);
	if (r)
		return r;
	schedule->window = window;
	schedule->between_offset = desc.offset;
	return 0;
}

static int open_devices(struct hm_schedule *schedule, struct hm_device *device)
{
	struct hm_accel_info info = { .struct_size = sizeof(info) };
	uint32_t way;
	int r = hm_accel_query(schedule->accel, &info);

	if (r)
		return r;
	if (device)
		schedule->device = hm_device_ref(device);
	else
		r = hm_device_open(info.kind == HM_ACCEL_ENGINE ? info.name : "host",
				   &schedule->device);
	if (!r)
		r = hm_queue_create(schedule->accel, 0, &schedule->queue);
	if (r || !schedule->steps.peak)
		return r;
	r = hm_alloc(schedule->device, schedule->steps.peak, HM_READ | HM_WRITE,
		     &schedule->arena);
	if (r)
		return r;
	r = hm_accel_way_in(schedule->accel, schedule->arena, 1, &way);
	if (!r && way == HM_WAY_COPY)
		return hm_error_set(-EXDEV,
				    "accelerator %s does not reach memory of the plan's device "
				    "in place: name another device",
				    info.name);
	if (!r && info.window && schedule->steps.peak > info.window)
		r = map_between(schedule, info.window);
	return r;
}

static int build_kernels(struct hm_schedule *schedule)
{
	struct hm_kernel *last = NULL;
	uint32_t i;
	int r;

	for (i = 0; i < schedule->plan.n_node; i++) {
		struct hm_kernel *kernel = schedule->plan.node[i].kernel;

		if (!kernel || kernel == last)
			continue;
		r = hm_kernel_build(kernel, schedule->accel);
		if (r)
			return r;
		last = kernel;
	}
	return 0;
}

static void destroy(struct hm_schedule *schedule)
{
	uint32_t lane;

	hm_queue_unref(schedule->queue);
	hm_map_unref(schedule->between);
	hm_free(schedule->arena);
	hm_device_unref(schedule->device);
	hm_accel_unref(schedule->accel);
	free(schedule->spill_memory);
	for (lane = 0; lane < HM_PLAN_LANES; lane++)
		free(schedule->lane_step[lane]);
	free(schedule->args);
	free(schedule->first_arg);
	free(schedule->fence);
	pthread_mutex_destroy(&schedule->ending);
	steps_free(&schedule->steps);
	uses_free(&schedule->uses);
	free(schedule->order);
	free(schedule->size);
	free(schedule->spill);
	plan_clear(&schedule->plan);
	free(schedule);
}

static int check_options(const struct hm_plan *plan, const struct hm_plan_options *options)
{
	if (options->struct_size != sizeof(*options))
		return hm_error_set(-E2BIG, "options of a plan have %u bytes",
				    options->struct_size);
	if (options->flags & ~HM_PLAN_COPY || options->policy > HM_PLAN_PER_NODE)
		return hm_error_set(-EINVAL, "options of a plan: flags 0x%x, policy %u",
				    options->flags, options->policy);
	if (!plan->n_node)
		return hm_error_set(-EINVAL, "the plan has no node: hm_plan_node() adds one");
	return 0;
}

/* Everything that needs no memory of the device. */
static int prepare(const struct hm_plan *plan, struct hm_accel *accel,
		   const struct hm_plan_options *options, struct hm_schedule **ret_schedule,
		   uint32_t *ret_at)
{
	struct hm_schedule *schedule;
	int r = check_options(plan, options);

	if (r)
		return r;
	schedule = calloc(1, sizeof(*schedule));
	if (!schedule)
		return hm_error_set(-ENOMEM, "no memory for a schedule");
	atomic_init(&schedule->references, 1);
	pthread_mutex_init(&schedule->ending, NULL);
	schedule->policy = options->policy;
	schedule->budget = options->budget;
	schedule->copies = options->flags & HM_PLAN_COPY;
	schedule->accel = hm_accel_ref(accel);
	schedule->order = calloc(plan->n_node, sizeof(*schedule->order));
	schedule->size = calloc(plan->n_range + 1, sizeof(*schedule->size));
	schedule->spill = calloc(plan->n_range + 1, sizeof(*schedule->spill));
	r = schedule->order && schedule->size && schedule->spill ?
		    plan_copy(plan, &schedule->plan) :
		    hm_error_set(-ENOMEM, "no memory for a schedule");
	if (!r)
		r = order_make(&schedule->plan, schedule->order);
	if (!r)
		r = uses_make(&schedule->plan, schedule->order, &schedule->uses);
	if (!r)
		r = find_sizes(&schedule->plan, accel, options->flags, schedule->uses.first,
			       schedule->size, &schedule->n_in_place);
	if (r) {
		destroy(schedule);
		return r;
	}
	schedule->smallest = walk_smallest(&schedule->plan, &schedule->uses, schedule->size,
					   schedule->policy, ret_at);
	*ret_schedule = schedule;
	return 0;
}

static int refuse(const struct hm_schedule *schedule, uint32_t at)
{
	if (schedule->policy == HM_PLAN_UP_FRONT)
		return hm_error_set(-ENOSPC,
				    "a budget of %" PRIu64 " bytes, and all ranges together "
				    "need %" PRIu64,
				    schedule->budget, schedule->smallest);
	return hm_error_set(-ENOSPC,
			    "a budget of %" PRIu64 " bytes, and node %s alone needs %" PRIu64
			    ": that is the smallest budget",
			    schedule->budget, schedule->plan.node[schedule->order[at]].name,
			    schedule->smallest);
}

static const struct hm_plan_options no_options = { .struct_size = sizeof(no_options) };

int hm_plan_compile(struct hm_plan *plan, struct hm_accel *accel,
		    const struct hm_plan_options *options, struct hm_schedule **ret_schedule)
{
	struct hm_schedule *schedule;
	bool *needs_spill = NULL;
	uint32_t at;
	int r;

	hm_error_begin();
	if (!plan || !accel || !ret_schedule)
		return hm_error_set(-EINVAL, "hm_plan_compile: an argument is NULL");
	if (!options)
		options = &no_options;
	r = prepare(plan, accel, options, &schedule, &at);
	if (r)
		return r;
	if (schedule->budget && schedule->budget < schedule->smallest) {
		r = refuse(schedule, at);
		goto err_destroy;
	}
	needs_spill = calloc(plan->n_range + 1, sizeof(*needs_spill));
	r = needs_spill ? choose_steps(schedule, needs_spill) :
			  hm_error_set(-ENOMEM, "no memory for %u ranges", plan->n_range);
	if (!r)
		r = find_spill(schedule, needs_spill);
	if (!r)
		r = find_lanes(schedule);
	if (!r)
		r = open_devices(schedule, options->device);
	if (!r)
		r = build_kernels(schedule);
	if (r)
		goto err_destroy;
	args_make(schedule, NULL);
	free(needs_spill);
	*ret_schedule = schedule;
	return 0;

err_destroy:
	free(needs_spill);
	destroy(schedule);
	return r;
}

int hm_plan_smallest(struct hm_plan *plan, struct hm_accel *accel,
		     const struct hm_plan_options *options, uint64_t *ret_bytes)
{
	struct hm_schedule *schedule;
	uint32_t at;
	int r;

	hm_error_begin();
	if (!plan || !accel || !ret_bytes)
		return hm_error_set(-EINVAL, "hm_plan_smallest: an argument is NULL");
	r = prepare(plan, accel, options ? options : &no_options, &schedule, &at);
	if (r)
		return r;
	*ret_bytes = schedule->smallest;
	destroy(schedule);
	return 0;
}

struct hm_schedule *hm_schedule_ref(struct hm_schedule *schedule)
{
	if (schedule)
		atomic_fetch_add(&schedule->references, 1);
	return schedule;
}

void hm_schedule_unref(struct hm_schedule *schedule)
{
	if (schedule && atomic_fetch_sub(&schedule->references, 1) == 1)
		destroy(schedule);
}
