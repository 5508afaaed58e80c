// SPDX-License-Identifier: MIT
/*
 * Runs a schedule: a thread for each lane that has steps. The lane of nodes submits ahead; a copy
 * that must come after a node waits for the fences of all work up to it, so that a failure is known
 * before bytes go home. Copies are made by the CPU, and are done when they return.
 *
 * A direct schedule has kernels only, and no copies: hm_plan_run() submits them all, as a program
 * would by hand. The run has no thread then: the next call that waits for it finds its end.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "plan.h"

#define LOOK_EVERY 512 /* steps: a wait for each one would cost a switch of threads */
#define DROP_EVERY 32  /* steps: fences are large, and those that are done are used again */

struct lane {
	struct hm_run *run;
	uint32_t number;
	atomic_uint done; /* steps: copied, or for nodes submitted */
	uint32_t settled; /* steps of nodes whose fences this lane has waited for */
	pthread_t thread;
	bool started;
};

struct hm_run {
	atomic_uint references;
	struct hm_schedule *schedule;
	struct lane lane[HM_PLAN_LANES];
	struct hm_fence **fence; /* of each step of the lane of nodes; the schedule's array */
	struct hm_fence *last;   /* direct: of the last work; NULL: all work is done */
	char **home;             /* of each range, in this run */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	atomic_uint waiting; /* threads that wait for @changed */
	atomic_int error;
	bool done;
	char message[512];
	uint32_t failed_node, n_written;
	uint64_t began, elapsed, copy_ns[2];
	int event; /* eventfd: readable when done; -1: none was asked for */
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The first failure is the run's. @name: of a node or a range. */
static void fail(struct hm_run *run, int r, uint32_t node, const char *what, const char *name)
{
	pthread_mutex_lock(&run->mutex);
	if (!atomic_load(&run->error)) {
		snprintf(run->message, sizeof(run->message), "%s %s: %s", what, name,
			 *hm_errmsg() ? hm_errmsg() : strerror(-r));
		run->failed_node = node;
		atomic_store(&run->error, r);
	}
	pthread_cond_broadcast(&run->changed);
	pthread_mutex_unlock(&run->mutex);
}

/* ---- waiting ---- */

static void publish(struct lane *lane, uint32_t done)
{
	struct hm_run *run = lane->run;

	atomic_store(&lane->done, done);
	if (atomic_load(&run->waiting)) {
		pthread_mutex_lock(&run->mutex);
		pthread_cond_broadcast(&run->changed);
		pthread_mutex_unlock(&run->mutex);
	}
}

/* Waits until another lane has got so far; false: the run has failed. */
static bool await(struct hm_run *run, const struct lane *other, uint32_t count)
{
	if (atomic_load(&other->done) < count) {
		pthread_mutex_lock(&run->mutex);
		atomic_fetch_add(&run->waiting, 1);
		while (atomic_load(&other->done) < count && !atomic_load(&run->error))
			pthread_cond_wait(&run->changed, &run->mutex);
		atomic_fetch_sub(&run->waiting, 1);
		pthread_mutex_unlock(&run->mutex);
	}
	return !atomic_load(&run->error);
}

static const struct step *step_at(const struct hm_schedule *schedule, uint32_t lane, uint32_t i)
{
	return &schedule->steps.step[schedule->lane_step[lane][i]];
}

static const char *node_name(const struct hm_schedule *schedule, const struct step *step)
{
	return schedule->plan.node[schedule->order[step->at]].name;
}

/*
 * Waits for the work of the first @count steps of the lane of nodes, which are submitted. With a
 * timeout of 0 it only looks how far they are.
 */
static bool settle(struct lane *lane, uint32_t count, uint64_t timeout_ns)
{
	struct hm_run *run = lane->run;
	const struct hm_schedule *schedule = run->schedule;
	int r;

	for (; lane->settled < count; lane->settled++) {
		struct hm_fence **fence = &run->fence[lane->settled];
		const struct step *step;

		if (!*fence)
			continue;
		r = hm_fence_wait(*fence, timeout_ns);
		if (r == -ETIME && !timeout_ns)
			return true;
		if (r) {
			step = step_at(schedule, HM_PLAN_LANE_COMPUTE, lane->settled);
			fail(run, r, schedule->order[step->at] + 1, "node",
			     node_name(schedule, step));
			return false;
		}
		if (!schedule->copying) {
			hm_fence_unref(*fence);
			*fence = NULL;
		}
	}
	return true;
}

static bool wait_before(struct lane *lane, const struct step *step)
{
	struct hm_run *run = lane->run;
	uint32_t i;

	for (i = 0; i < HM_PLAN_LANES; i++)
		if (i != lane->number && step->after[i] &&
		    !await(run, &run->lane[i], step->after[i]))
			return false;
	if (lane->number == HM_PLAN_LANE_COMPUTE)
		return !atomic_load(&run->error);
	return settle(lane, step->after[HM_PLAN_LANE_COMPUTE], UINT64_MAX);
}

/* ---- steps ---- */

static int copy(struct lane *lane, const struct step *step)
{
	struct hm_schedule *schedule = lane->run->schedule;
	const struct range *range = &schedule->plan.range[step->range];
	char *host = step->home ? lane->run->home[step->range] :
				  schedule->spill_memory + schedule->spill[step->range];
	char *place = schedule->arena + step->offset;
	struct hm_device_info info = { .struct_size = sizeof(info) };
	uint64_t began = now_ns();
	int r;

	if (step->kind == HM_PLAN_STEP_IN)
		r = hm_copy(place, host, range->length, 0);
	else
		r = hm_copy(host, place, range->length, 0);
	lane->run->copy_ns[step->kind != HM_PLAN_STEP_IN] += now_ns() - began;
	/* Memory of a device that went away reads as zeros. */
	return r ?: hm_device_query(schedule->device, &info);
}

/* By pieces that do not overlap, where the range moves by less than its length. */
static int move(struct hm_schedule *schedule, const struct step *step,
		struct hm_fence **ret_fence)
{
	uint64_t length = schedule->plan.range[step->range].length;
	uint64_t most = step->from - step->offset, at, piece;
	int r = 0;

	for (at = 0; !r && at < length; at += piece) {
		piece = length - at < most ? length - at : most;
		r = hm_queue_copy(schedule->queue, schedule->arena + step->offset + at,
				  schedule->arena + step->from + at, piece,
				  at + piece == length ? ret_fence : NULL);
	}
	return r;
}

static int launch(struct hm_run *run, const struct step *step, struct hm_fence **ret_fence)
{
	struct hm_schedule *schedule = run->schedule;
	const struct node *node = &schedule->plan.node[schedule->order[step->at]];
	const struct hm_arg *args = &schedule->args[schedule->first_arg[step->at]];

	if (!node->call)
		return hm_queue_launch(schedule->queue, node->kernel, node->grid, args,
				       node->n_arg, ret_fence);
	hm_error_begin();
	return node->call(schedule->queue, args, node->n_arg, node->user, ret_fence);
}

static bool take_step(struct lane *lane, const struct step *step, uint32_t i)
{
	struct hm_run *run = lane->run;
	struct hm_schedule *schedule = run->schedule;
	int r;

	if (!wait_before(lane, step))
		return false;
	if (step->kind == HM_PLAN_STEP_NODE || step->kind == HM_PLAN_STEP_MOVE) {
		if (i >= MOST_AHEAD && i % LOOK_EVERY == 0 &&
		    !settle(lane, i - MOST_AHEAD + LOOK_EVERY, UINT64_MAX))
			return false;
		if (i % DROP_EVERY == 0 && !schedule->copying && !settle(lane, i, 0))
			return false;
		r = step->kind == HM_PLAN_STEP_NODE ? launch(run, step, &run->fence[i]) :
						      move(schedule, step, &run->fence[i]);
		if (r)
			fail(run, r, schedule->order[step->at] + 1, "node",
			     node_name(schedule, step));
		return !r;
	}
	hm_error_begin();
	r = copy(lane, step);
	if (r)
		fail(run, r, HM_PLAN_NONE,
		     step->kind == HM_PLAN_STEP_IN ? "bringing range" : "storing range",
		     schedule->plan.range[step->range].name);
	else if (step->kind == HM_PLAN_STEP_OUT && step->home)
		run->n_written++;
	return !r;
}

static void *run_lane(void *data)
{
	struct lane *lane = data;
	const struct hm_schedule *schedule = lane->run->schedule;
	uint32_t n = schedule->steps.n_lane[lane->number], i;

	for (i = 0; i < n && take_step(lane, step_at(schedule, lane->number, i), i); i++)
		publish(lane, i + 1);
	return NULL;
}

/* ---- a run as a whole ---- */

/* All is submitted. */
static void end(struct hm_run *run)
{
	struct lane *nodes = &run->lane[HM_PLAN_LANE_COMPUTE];
	uint64_t one = 1;
	uint32_t i;

	settle(nodes, atomic_load(&nodes->done), UINT64_MAX);
	/* After a failure work in flight still uses the arena, and homes. */
	for (i = nodes->settled; i < atomic_load(&nodes->done); i++)
		if (run->fence[i])
			hm_fence_wait(run->fence[i], UINT64_MAX);
	for (i = HM_PLAN_LANE_IN; i < HM_PLAN_LANES; i++)
		if (run->lane[i].started)
			pthread_join(run->lane[i].thread, NULL);
	for (i = 0; i < atomic_load(&nodes->done); i++) {
		hm_fence_unref(run->fence[i]);
		run->fence[i] = NULL;
	}
	pthread_mutex_lock(&run->mutex);
	run->elapsed = now_ns() - run->began;
	run->done = true;
	if (run->event >= 0 && write(run->event, &one, sizeof(one)) < 0)
		run->message[sizeof(run->message) - 1] = '\0'; /* never: it counts to 1 */
	atomic_store(&run->schedule->running, false);
	pthread_cond_broadcast(&run->changed);
	pthread_mutex_unlock(&run->mutex);
}

/* The lane of nodes, and then the end of all lanes. */
static void *run_all(void *data)
{
	struct hm_run *run = data;

	run_lane(&run->lane[HM_PLAN_LANE_COMPUTE]);
	end(run);
	return NULL;
}

/* ---- direct runs: a thread that ends one holds schedule->ending ---- */

static void end_direct_locked(struct hm_run *run)
{
	if (!run->done)
		end(run);
}

static bool last_is_done(const struct hm_run *run, uint64_t timeout_ns)
{
	return !run->last || hm_fence_wait(run->last, timeout_ns) != -ETIME;
}

static int await_direct(struct hm_run *run, uint64_t timeout_ns)
{
	struct hm_schedule *schedule = run->schedule;

	if (!last_is_done(run, timeout_ns))
		return -ETIME;
	pthread_mutex_lock(&schedule->ending);
	end_direct_locked(run);
	pthread_mutex_unlock(&schedule->ending);
	return 0;
}

/* For the event of a run, which no call of the program may find done. */
static void *watch_direct(void *data)
{
	await_direct(data, UINT64_MAX);
	return NULL;
}

static void start_direct(struct hm_run *run)
{
	struct hm_schedule *schedule = run->schedule;
	struct lane *nodes = &run->lane[HM_PLAN_LANE_COMPUTE];
	uint32_t n;

	run_lane(nodes);
	n = atomic_load(&nodes->done);
	run->last = hm_fence_ref(n ? run->fence[n - 1] : NULL);
	pthread_mutex_lock(&schedule->ending);
	schedule->direct_run = run;
	pthread_mutex_unlock(&schedule->ending);
}

static void forget_direct(const struct hm_run *run)
{
	struct hm_schedule *schedule = run->schedule;

	pthread_mutex_lock(&schedule->ending);
	if (schedule->direct_run == run)
		schedule->direct_run = NULL;
	pthread_mutex_unlock(&schedule->ending);
}

/* Takes the schedule, unless a run goes on. A direct run that is over is ended first. */
static bool take_schedule(struct hm_schedule *schedule)
{
	if (!atomic_exchange(&schedule->running, true))
		return true;
	pthread_mutex_lock(&schedule->ending);
	if (schedule->direct_run && last_is_done(schedule->direct_run, 0))
		end_direct_locked(schedule->direct_run);
	pthread_mutex_unlock(&schedule->ending);
	return !atomic_exchange(&schedule->running, true);
}

/* ---- a run's beginning ---- */

static int check_homes(struct hm_schedule *schedule, const struct hm_plan_home *homes,
		       uint32_t n_home)
{
	uint32_t i, way;
	int r;

	for (i = 0; i < n_home; i++) {
		const struct hm_plan_home *home = &homes[i];
		const struct range *range = &schedule->plan.range[home->range - 1];
		bool in_place = false;

		if (!home->range || home->range > schedule->plan.n_range || !range->home ||
		    !home->pointer)
			return hm_error_set(
				-ENOENT, "home %u of the run is for range %u, which has none",
				i, home->range);
		if (!schedule->copies) {
			r = hm_accel_way_in(schedule->accel, home->pointer, range->length,
					    &way);
			if (r && r != -ENOENT)
				return r;
			in_place = !r && way != HM_WAY_COPY;
		}
		/* A copied range may be copied from a home that would do in place, too. */
		if (!in_place && !schedule->size[home->range - 1] &&
		    schedule->uses.first[home->range - 1] != schedule->uses.first[home->range])
			return hm_error_set(-EXDEV,
					    "range %s was in place, and cannot be at its new "
					    "home: compile again",
					    range->name);
	}
	return 0;
}

/* A schedule stays with its arena, which is lost with the device. */
static int check_device(const struct hm_schedule *schedule)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };
	int r = schedule->device ? hm_device_query(schedule->device, &info) : 0;

	if (r == -ENODEV)
		return hm_error_set(r, "the device of the plan was taken away: open the "
				       "accelerator again, and compile the plan for it");
	return r;
}

static void destroy(struct hm_run *run)
{
	pthread_cond_destroy(&run->changed);
	pthread_mutex_destroy(&run->mutex);
	if (run->event >= 0)
		close(run->event);
	hm_fence_unref(run->last);
	hm_schedule_unref(run->schedule);
	free(run->home);
	free(run);
}

static struct hm_run *make(struct hm_schedule *schedule)
{
	struct hm_run *run = calloc(1, sizeof(*run));
	pthread_condattr_t monotonic;
	uint32_t i;

	if (!run)
		return NULL;
	run->home = calloc(schedule->plan.n_range + 1, sizeof(*run->home));
	if (!run->home) {
		free(run);
		return NULL;
	}
	run->fence = schedule->fence;
	for (i = 0; i < schedule->plan.n_range; i++)
		run->home[i] = schedule->plan.range[i].home;
	pthread_mutex_init(&run->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&run->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	atomic_init(&run->references, 1);
	run->schedule = hm_schedule_ref(schedule);
	run->event = -1;
	for (i = 0; i < HM_PLAN_LANES; i++) {
		run->lane[i].run = run;
		run->lane[i].number = i;
	}
	return run;
}

/* Threads of the copies, then that of the nodes. After a failure none is left. */
static int start(struct hm_run *run)
{
	uint32_t i;
	int r = 0;

	run->began = now_ns();
	if (run->schedule->direct) {
		start_direct(run);
		return 0;
	}
	for (i = HM_PLAN_LANE_IN; !r && i < HM_PLAN_LANES; i++) {
		if (!run->schedule->steps.n_lane[i])
			continue;
		r = pthread_create(&run->lane[i].thread, NULL, run_lane, &run->lane[i]);
		run->lane[i].started = !r;
	}
	if (!r)
		r = pthread_create(&run->lane[HM_PLAN_LANE_COMPUTE].thread, NULL, run_all, run);
	run->lane[HM_PLAN_LANE_COMPUTE].started = !r;
	if (!r)
		return 0;
	hm_error_begin();
	fail(run, -r, HM_PLAN_NONE, "a thread", "of the run");
	for (i = HM_PLAN_LANE_IN; i < HM_PLAN_LANES; i++)
		if (run->lane[i].started)
			pthread_join(run->lane[i].thread, NULL);
	return hm_error_set(-EAGAIN, "no thread for a run: %s", strerror(r));
}

int hm_plan_run(struct hm_schedule *schedule, const struct hm_plan_home *homes, uint32_t n_home,
		struct hm_run **ret_run)
{
	struct hm_run *run;
	uint32_t i;
	int r;

	hm_error_begin();
	if (!schedule || !ret_run || (n_home && !homes))
		return hm_error_set(-EINVAL, "hm_plan_run: an argument is NULL");
	if (!take_schedule(schedule))
		return hm_error_set(-EBUSY, "a run of this schedule goes on: wait for it");
	r = check_device(schedule);
	if (!r)
		r = check_homes(schedule, homes, n_home);
	if (r)
		goto err_idle;
	run = make(schedule);
	if (!run) {
		r = hm_error_set(-ENOMEM, "no memory for a run");
		goto err_idle;
	}
	for (i = 0; i < n_home; i++)
		run->home[homes[i].range - 1] = homes[i].pointer;
	if (n_home)
		args_make(schedule, run->home);
	r = start(run);
	if (r)
		goto err_destroy;
	hm_error_begin(); /* the failure of a launch is the run's */
	/* Threads of the run look at its own homes. */
	for (i = 0; i < n_home; i++)
		schedule->plan.range[homes[i].range - 1].home = homes[i].pointer;
	*ret_run = run;
	return 0;

err_destroy:
	if (n_home)
		args_make(schedule, NULL);
	destroy(run);
err_idle:
	atomic_store(&schedule->running, false);
	return r;
}

/* The mutex is held. */
static int await_end(struct hm_run *run, uint64_t timeout_ns)
{
	uint64_t now = now_ns(), due = timeout_ns > UINT64_MAX / 2 ? 0 : now + timeout_ns;
	struct timespec t = { (time_t)(due / 1000000000u), (long)(due % 1000000000u) };
	int r = 0;

	while (!run->done && r != ETIMEDOUT)
		r = due ? pthread_cond_timedwait(&run->changed, &run->mutex, &t) :
			  pthread_cond_wait(&run->changed, &run->mutex);
	return run->done ? 0 : -ETIME;
}

int hm_run_wait(struct hm_run *run, uint64_t timeout_ns)
{
	int r;

	hm_error_begin();
	if (!run)
		return hm_error_set(-EINVAL, "hm_run_wait: NULL");
	if (run->schedule->direct) {
		r = await_direct(run, timeout_ns);
	} else {
		pthread_mutex_lock(&run->mutex);
		r = await_end(run, timeout_ns);
		pthread_mutex_unlock(&run->mutex);
	}
	if (r)
		return hm_error_set(r, "the run goes on after %" PRIu64 " ns", timeout_ns);
	r = atomic_load(&run->error);
	return r ? hm_error_set(r, "%s", run->message) : 0;
}

/* The mutex is held. A direct run has no thread that would write to the event. */
static int make_event(struct hm_run *run)
{
	struct lane *nodes = &run->lane[HM_PLAN_LANE_COMPUTE];
	int event = eventfd(run->done, EFD_CLOEXEC), r = 0;

	if (event < 0)
		return hm_error_set(-errno, "no event for a run: %s", strerror(errno));
	if (!run->done && !nodes->started)
		r = pthread_create(&nodes->thread, NULL, watch_direct, run);
	if (r) {
		close(event);
		return hm_error_set(-EAGAIN, "no thread for the fence of a run: %s",
				    strerror(r));
	}
	nodes->started |= !run->done;
	run->event = event;
	return 0;
}

int hm_run_fence(struct hm_run *run, struct hm_fence **ret_fence)
{
	int r = 0;

	hm_error_begin();
	if (!run || !ret_fence)
		return hm_error_set(-EINVAL, "hm_run_fence: an argument is NULL");
	pthread_mutex_lock(&run->mutex);
	if (run->event < 0)
		r = make_event(run);
	pthread_mutex_unlock(&run->mutex);
	return r ?: hm_fence_import_fd(run->event, ret_fence);
}

int hm_run_query(struct hm_run *run, struct hm_run_info *ret_info)
{
	hm_error_begin();
	if (!run || !ret_info)
		return hm_error_set(-EINVAL, "hm_run_query: an argument is NULL");
	if (ret_info->struct_size != sizeof(*ret_info))
		return hm_error_set(-E2BIG, "hm_run_query: a struct of %u bytes",
				    ret_info->struct_size);
	if (run->schedule->direct)
		await_direct(run, 0);
	hm_error_begin();
	pthread_mutex_lock(&run->mutex);
	*ret_info = (struct hm_run_info){ .struct_size = sizeof(*ret_info), .done = run->done };
	if (run->done) {
		ret_info->failed_node = run->failed_node;
		ret_info->n_written = run->n_written;
		ret_info->elapsed_ns = run->elapsed;
		ret_info->copy_ns[0] = run->copy_ns[0];
		ret_info->copy_ns[1] = run->copy_ns[1];
	}
	pthread_mutex_unlock(&run->mutex);
	return 0;
}

struct hm_run *hm_run_ref(struct hm_run *run)
{
	if (run)
		atomic_fetch_add(&run->references, 1);
	return run;
}

void hm_run_unref(struct hm_run *run)
{
	if (!run || atomic_fetch_sub(&run->references, 1) != 1)
		return;
	if (run->schedule->direct) {
		await_direct(run, UINT64_MAX);
		forget_direct(run);
	}
	if (run->lane[HM_PLAN_LANE_COMPUTE].started)
		pthread_join(run->lane[HM_PLAN_LANE_COMPUTE].thread, NULL);
	destroy(run);
}
