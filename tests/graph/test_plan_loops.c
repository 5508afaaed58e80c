// SPDX-License-Identifier: MIT
/* Graphs of loops and of views that overlap, and schedules that run at once, each by its queue. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "graph/sums.h"
#include "lib/harness.h"

#define WORDS 4096u
#define BYTES (WORDS * sizeof(uint32_t))
#define TURNS 25u

static struct hm_kernel *add;
static uint32_t x[WORDS], y[WORDS], pair[2 * WORDS], z[WORDS];

static uint32_t view_of(struct hm_plan *plan, uint32_t parent, uint64_t offset)
{
	uint32_t range = 0;

	CHECK_OK_FATAL(hm_plan_range(plan,
				     DESC(hm_plan_range_desc, .name = "view", .length = BYTES,
					  .parent = parent, .offset = offset),
				     &range));
	return range;
}

static void sum_of(struct hm_plan *plan, uint32_t a, uint32_t b, uint32_t sum)
{
	sums_node(plan, add, WORDS, "sum", a, b, sum);
}

static void fill(void)
{
	uint32_t i;

	for (i = 0; i < WORDS; i++) {
		x[i] = i * 7 + 1;
		y[i] = i ^ 0x5555;
		z[i] = i * 3;
	}
	for (i = 0; i < 2 * WORDS; i++)
		pair[i] = i * 11;
}

static void run_once(struct hm_schedule *schedule)
{
	AUTO(hm_run) *run = NULL;

	fill();
	CHECK_OK_FATAL(hm_plan_run(schedule, NULL, 0, &run));
	CHECK_OK(hm_run_wait(run, UINT64_MAX));
}

static struct hm_schedule *compile(struct hm_plan *plan, struct hm_accel *accel,
				   uint64_t budget, struct hm_schedule_info *ret_info)
{
	struct hm_schedule *schedule;

	CHECK_OK_FATAL(hm_plan_compile(
		plan, accel, DESC(hm_plan_options, .flags = HM_PLAN_COPY, .budget = budget),
		&schedule));
	*ret_info = (struct hm_schedule_info){ .struct_size = sizeof(*ret_info) };
	CHECK_OK(hm_schedule_query(schedule, ret_info));
	return schedule;
}

/* ---- loops ---- */

/* The state z goes round: t = z + x, u = t + y, z = u + x. */
static struct hm_plan *loop(void)
{
	struct hm_plan *plan;
	uint32_t in, more, state, t, u, i;

	CHECK_OK_FATAL(hm_plan_create(0, &plan));
	in = sums_range(plan, "x", HM_PLAN_INPUT, x, BYTES);
	more = sums_range(plan, "y", HM_PLAN_INPUT, y, BYTES);
	state = sums_range(plan, "z", HM_PLAN_INPUT | HM_PLAN_OUTPUT, z, BYTES);
	t = sums_range(plan, "t", 0, NULL, BYTES);
	u = sums_range(plan, "u", 0, NULL, BYTES);
	for (i = 0; i < TURNS; i++) {
		sum_of(plan, state, in, t);
		sum_of(plan, t, more, u);
		sum_of(plan, u, in, state);
	}
	return plan;
}

static uint32_t wrong_state(void)
{
	uint32_t n = 0, i;

	for (i = 0; i < WORDS; i++)
		n += z[i] != i * 3 + TURNS * (2 * x[i] + y[i]);
	return n;
}

static void loop_on(const char *name)
{
	struct hm_schedule_info info;
	struct hm_schedule *schedule;
	AUTO(hm_accel) *accel = NULL;
	AUTO(hm_plan) *plan = NULL;

	CHECK_OK_FATAL(hm_kernel_create(&sums_add, &add));
	CHECK_OK_FATAL(hm_accel_open(name, NULL, &accel));
	plan = loop();
	/* However often the state goes round, it comes once and leaves once. */
	schedule = compile(plan, accel, 0, &info);
	CHECK_EQUAL(info.bytes_in, 3 * BYTES);
	CHECK_EQUAL(info.bytes_out, BYTES);
	run_once(schedule);
	CHECK_EQUAL(wrong_state(), 0);
	hm_schedule_unref(schedule);
	/* With room for three, something leaves in each turn. */
	schedule = compile(plan, accel, 3 * BYTES, &info);
	CHECK(info.evictions >= TURNS);
	CHECK(info.peak <= 3 * BYTES);
	run_once(schedule);
	CHECK_EQUAL(wrong_state(), 0);
	hm_schedule_unref(schedule);
	hm_kernel_unref(add);
}

static void test_loop(void)
{
	loop_on("cpu");
	loop_on("soft:0");
}

/* ---- views ---- */

/* The view in the middle overlaps the halves before and behind: a write of it is in both. */
static void views_on(const char *name)
{
	struct hm_schedule_info info;
	AUTO(hm_schedule) *schedule = NULL;
	AUTO(hm_accel) *accel = NULL;
	AUTO(hm_plan) *plan = NULL;
	uint32_t whole, low, middle, high, in, out, t, n = 0, i;

	CHECK_OK_FATAL(hm_kernel_create(&sums_add, &add));
	CHECK_OK_FATAL(hm_accel_open(name, NULL, &accel));
	CHECK_OK_FATAL(hm_plan_create(0, &plan));
	whole = sums_range(plan, "pair", HM_PLAN_INPUT | HM_PLAN_OUTPUT, pair, 2 * BYTES);
	low = view_of(plan, whole, 0);
	middle = view_of(plan, whole, BYTES / 2);
	high = view_of(plan, whole, BYTES);
	in = sums_range(plan, "x", HM_PLAN_INPUT, x, BYTES);
	out = sums_range(plan, "z", HM_PLAN_OUTPUT, z, BYTES);
	t = sums_range(plan, "t", 0, NULL, BYTES);
	sum_of(plan, low, high, t);
	sum_of(plan, t, in, middle);
	sum_of(plan, low, high, out);
	schedule = compile(plan, accel, 0, &info);
	CHECK_EQUAL(info.bytes_in, 3 * BYTES);
	CHECK_EQUAL(info.bytes_out, 3 * BYTES);
	run_once(schedule);
	for (i = 0; i < 2 * WORDS; i++) {
		uint32_t at = i - WORDS / 2; /* in the middle */

		n += pair[i] != (at < WORDS ? at * 11 + (at + WORDS) * 11 + x[at] : i * 11);
	}
	for (i = 0; i < WORDS; i++)
		n += z[i] != pair[i] + pair[i + WORDS];
	CHECK_EQUAL(n, 0);
	hm_kernel_unref(add);
}

static void test_views(void)
{
	views_on("cpu");
	views_on("soft:0");
}

/* ---- two queues ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static int wait_at_gate(struct hm_queue *queue, const struct hm_arg *args, uint32_t n_arg,
			void *user, struct hm_fence **ret_fence)
{
	(void)queue, (void)args, (void)n_arg, (void)user, (void)ret_fence;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return 0;
}

/* z = x + y, after the gate. */
static struct hm_plan *gated(void)
{
	struct hm_plan *plan;
	uint32_t in, more, out;

	CHECK_OK_FATAL(hm_plan_create(0, &plan));
	in = sums_range(plan, "x", HM_PLAN_INPUT, x, BYTES);
	more = sums_range(plan, "y", HM_PLAN_INPUT, y, BYTES);
	out = sums_range(plan, "z", HM_PLAN_OUTPUT, z, BYTES);
	CHECK_OK_FATAL(hm_plan_node(
		plan, DESC(hm_plan_node_desc, .name = "gate", .call = wait_at_gate), NULL));
	sum_of(plan, in, more, out);
	return plan;
}

/*
 * One plan, two schedules: each has a queue and memory of its own, and a third queue of the program
 * works beside both. The second run has homes of its own.
 */
static void queues_on(const char *name)
{
	uint32_t *other[3], *own[3], i, n = 0;
	struct hm_plan_home homes[3];
	struct hm_schedule *schedule[2];
	struct hm_schedule_info info;
	struct hm_run *run[2];
	AUTO(hm_device) *device = NULL;
	AUTO(hm_accel) *accel = NULL;
	AUTO(hm_queue) *queue = NULL;
	AUTO(hm_fence) *fence = NULL;
	AUTO(hm_plan) *plan = NULL;

	CHECK_OK_FATAL(hm_kernel_create(&sums_add, &add));
	CHECK_OK_FATAL(hm_accel_open(name, NULL, &accel));
	CHECK_OK_FATAL(hm_device_open(strcmp(name, "cpu") ? name : "host", &device));
	CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
	plan = gated();
	fill();
	for (i = 0; i < 2; i++)
		schedule[i] = compile(plan, accel, 0, &info);
	for (i = 0; i < 3; i++) {
		CHECK_OK_FATAL(hm_alloc(device, BYTES, HM_READ | HM_WRITE, &own[i]));
		other[i] = calloc(1, BYTES);
		homes[i] = (struct hm_plan_home){ .range = i + 1, .pointer = other[i] };
	}
	for (i = 0; i < WORDS; i++) {
		other[0][i] = own[0][i] = i * 2;
		other[1][i] = own[1][i] = i * 5;
	}
	pthread_mutex_lock(&gate);
	CHECK_OK_FATAL(hm_plan_run(schedule[0], NULL, 0, &run[0]));
	CHECK_OK_FATAL(hm_plan_run(schedule[1], homes, 3, &run[1]));
	CHECK_OK_FATAL(hm_launch(queue, add, WORDS, &fence, HM_IN(own[0]), HM_IN(own[1]),
				 HM_OUT(own[2])));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	/* Both runs go on: that queue waited for neither. */
	CHECK_ERROR(-ETIME, hm_run_wait(run[0], 0));
	CHECK_ERROR(-ETIME, hm_run_wait(run[1], 0));
	pthread_mutex_unlock(&gate);
	for (i = 0; i < 2; i++) {
		CHECK_OK(hm_run_wait(run[i], UINT64_MAX));
		hm_run_unref(run[i]);
		hm_schedule_unref(schedule[i]);
	}
	for (i = 0; i < WORDS; i++)
		n += z[i] != x[i] + y[i] || other[2][i] != i * 7 || own[2][i] != i * 7;
	CHECK_EQUAL(n, 0);
	for (i = 0; i < 3; i++) {
		CHECK_OK(hm_free(own[i]));
		free(other[i]);
	}
	hm_kernel_unref(add);
}

static void test_two_queues(void)
{
	queues_on("cpu");
	queues_on("soft:0");
}

static const struct test tests[] = {
	{ .name = "loop", .run = test_loop, .seconds = 60 },
	{ .name = "views", .run = test_views, .seconds = 60 },
	{ .name = "two_queues", .run = test_two_queues, .seconds = 60 },
	{ 0 },
};

TEST_MAIN(harness_main, "plan_loops", tests)
