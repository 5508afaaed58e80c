// SPDX-License-Identifier: MIT
/* A small graph of sums, run on the CPU and on the engine of soft:0 by each policy and budget. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "graph/sums.h"
#include "lib/harness.h"

#define WORDS 16384u
#define BYTES (WORDS * sizeof(uint32_t))

enum { X, Y, W, Z, N_HOME };

static uint32_t *home[N_HOME];

static struct hm_kernel *add;

static uint32_t add_range(struct hm_plan *plan, const char *name, uint32_t flags, void *at)
{
	return sums_range(plan, name, flags, at, BYTES);
}

static uint32_t add_sum(struct hm_plan *plan, const char *name, uint32_t a, uint32_t b,
			uint32_t sum)
{
	return sums_node(plan, add, WORDS, name, a, b, sum);
}

static void make_homes(struct hm_device *device)
{
	uint32_t i;

	for (i = 0; i < N_HOME; i++)
		if (device)
			CHECK_OK_FATAL(hm_alloc(device, BYTES, HM_READ | HM_WRITE, &home[i]));
		else
			home[i] = malloc(BYTES);
	CHECK_OK_FATAL(hm_kernel_create(&sums_add, &add));
}

static void free_homes(bool mapped)
{
	uint32_t i;

	for (i = 0; i < N_HOME; i++)
		if (mapped)
			CHECK_OK(hm_free(home[i]));
		else
			free(home[i]);
	hm_kernel_unref(add);
}

/* a = x + y; b = a + x; c = a + b; w = c + w; d = b + c; z = d + a */
static struct hm_plan *make_plan(void)
{
	struct hm_plan *plan;
	uint32_t x, y, w, z, a, b, c, d;

	CHECK_OK_FATAL(hm_plan_create(0, &plan));
	x = add_range(plan, "x", HM_PLAN_INPUT, home[X]);
	y = add_range(plan, "y", HM_PLAN_INPUT, home[Y]);
	w = add_range(plan, "w", HM_PLAN_INPUT | HM_PLAN_OUTPUT, home[W]);
	z = add_range(plan, "z", HM_PLAN_OUTPUT, home[Z]);
	a = add_range(plan, "a", 0, NULL);
	b = add_range(plan, "b", 0, NULL);
	c = add_range(plan, "c", 0, NULL);
	d = add_range(plan, "d", 0, NULL);
	add_sum(plan, "first", x, y, a);
	add_sum(plan, "second", a, x, b);
	add_sum(plan, "third", a, b, c);
	add_sum(plan, "weights", c, w, d);
	add_sum(plan, "back", d, y, w);
	add_sum(plan, "fourth", b, c, d);
	add_sum(plan, "last", d, a, z);
	return plan;
}

static void fill(uint32_t round)
{
	uint32_t i;

	for (i = 0; i < WORDS; i++) {
		home[X][i] = i * 7 + round;
		home[Y][i] = i ^ 0x55 * round;
		home[W][i] = i + 3 * round;
		home[Z][i] = 0xdead;
	}
}

static uint32_t wrong(uint32_t round)
{
	uint32_t n = 0, i;

	for (i = 0; i < WORDS; i++) {
		uint32_t x = i * 7 + round, y = i ^ 0x55 * round, w = i + 3 * round;
		uint32_t a = x + y, b = a + x, c = a + b;

		n += home[Z][i] != b + c + a || home[W][i] != c + w + y;
		n += home[X][i] != x || home[Y][i] != y;
	}
	return n;
}

static void run_rounds(struct hm_schedule *schedule)
{
	struct hm_run_info info = { .struct_size = sizeof(info) };
	struct hm_run *run;
	uint32_t round;

	for (round = 1; round <= 3; round++) {
		fill(round);
		CHECK_OK_FATAL(hm_plan_run(schedule, NULL, 0, &run));
		CHECK_OK(hm_run_wait(run, UINT64_MAX));
		CHECK_OK(hm_run_query(run, &info));
		CHECK_EQUAL(info.done, 1);
		CHECK_EQUAL(wrong(round), 0);
		hm_run_unref(run);
	}
}

static void run_on(const char *name, uint64_t window)
{
	struct hm_plan_options options = { .struct_size = sizeof(options),
					   .flags = HM_PLAN_COPY };
	struct hm_schedule_info info = { .struct_size = sizeof(info) };
	struct hm_schedule *schedule;
	struct hm_accel *accel;
	struct hm_plan *plan;
	uint64_t smallest;

	make_homes(NULL);
	CHECK_OK_FATAL(hm_accel_open(name, DESC(hm_accel_desc, .window = window), &accel));
	plan = make_plan();
	CHECK_OK(hm_plan_smallest(plan, accel, &options, &smallest));
	CHECK_EQUAL(smallest, 3 * BYTES);
	for (options.policy = 0; options.policy <= HM_PLAN_PER_NODE; options.policy++) {
		options.budget = 0;
		CHECK_OK_FATAL(hm_plan_compile(plan, accel, &options, &schedule));
		run_rounds(schedule);
		hm_schedule_unref(schedule);
		options.budget = smallest;
		if (options.policy == HM_PLAN_UP_FRONT) {
			CHECK_ERROR(-ENOSPC, hm_plan_compile(plan, accel, &options, &schedule));
			continue;
		}
		CHECK_OK_FATAL(hm_plan_compile(plan, accel, &options, &schedule));
		CHECK_OK(hm_schedule_query(schedule, &info));
		CHECK_EQUAL(info.peak, smallest);
		run_rounds(schedule);
		hm_schedule_unref(schedule);
	}
	hm_plan_unref(plan);
	hm_accel_unref(accel);
	free_homes(false);
}

static void test_cpu(void)
{
	run_on("cpu", 0);
}

static void test_soft(void)
{
	run_on("soft:0", 0);
}

/* Places lie on borders of windows. */
static void test_windows(void)
{
	run_on("soft:0", BYTES / 2 * 3);
	run_on("cpu", BYTES / 2 * 3);
}

/* Homes that the accelerator reaches stay where they are, and new ones must be such, too. */
static void test_in_place(void)
{
	struct hm_schedule_info info = { .struct_size = sizeof(info) };
	struct hm_plan_home other = { .range = 1 };
	struct hm_schedule *schedule;
	struct hm_plan *plan;
	struct hm_run *run;
	uint32_t *x, *malloced = malloc(BYTES);
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_accel) *accel = rig_accel("cpu", NULL);

	make_homes(device);
	plan = make_plan();
	CHECK_OK_FATAL(hm_plan_compile(plan, accel, NULL, &schedule));
	CHECK_OK(hm_schedule_query(schedule, &info));
	CHECK_EQUAL(info.n_in_place, 4);
	CHECK_EQUAL(info.bytes_in + info.bytes_out, 0);
	run_rounds(schedule);
	other.pointer = malloced;
	CHECK_ERROR(-EXDEV, hm_plan_run(schedule, &other, 1, &run));
	CHECK_OK_FATAL(hm_alloc(device, BYTES, HM_READ | HM_WRITE, &x));
	fill(9);
	memcpy(x, home[X], BYTES);
	memset(home[X], 0, BYTES);
	other.pointer = x;
	CHECK_OK_FATAL(hm_plan_run(schedule, &other, 1, &run));
	CHECK_OK(hm_run_wait(run, UINT64_MAX));
	memcpy(home[X], x, BYTES);
	CHECK_EQUAL(wrong(9), 0);
	hm_run_unref(run);
	hm_schedule_unref(schedule);
	hm_plan_unref(plan);
	CHECK_OK(hm_free(x));
	free(malloced);
	free_homes(true);
}

/* ---- calls in place of kernels ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static int fail_on_purpose(struct hm_queue *queue, const struct hm_arg *args, uint32_t n_arg,
			   void *user, struct hm_fence **ret_fence)
{
	(void)queue, (void)args, (void)n_arg, (void)user, (void)ret_fence;
	return -EDOM;
}

static int fail_later(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return -EDOM;
}

static int wait_at_gate(struct hm_queue *queue, const struct hm_arg *args, uint32_t n_arg,
			void *user, struct hm_fence **ret_fence)
{
	(void)queue, (void)args, (void)n_arg, (void)user, (void)ret_fence;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return 0;
}

static struct hm_plan *plan_with(hm_plan_function *call, struct hm_kernel *kernel)
{
	struct hm_plan_arg args[] = { HM_PLAN_INOUT(0) };
	struct hm_plan *plan;
	uint32_t x, y, w, z;

	CHECK_OK_FATAL(hm_plan_create(0, &plan));
	x = add_range(plan, "x", HM_PLAN_INPUT, home[X]);
	y = add_range(plan, "y", HM_PLAN_INPUT, home[Y]);
	w = add_range(plan, "w", HM_PLAN_OUTPUT, home[W]);
	z = add_range(plan, "z", HM_PLAN_OUTPUT, home[Z]);
	add_sum(plan, "before", x, y, w);
	args[0].range = w;
	CHECK_OK_FATAL(hm_plan_node(plan,
				    DESC(hm_plan_node_desc, .name = "middle", .call = call,
					 .kernel = kernel, .grid = { 1, 1, 1 }, .args = args,
					 .n_arg = 1),
				    NULL));
	add_sum(plan, "after", w, y, z);
	return plan;
}

static void check_failure(struct hm_accel *accel, struct hm_plan *plan)
{
	struct hm_run_info info = { .struct_size = sizeof(info) };
	AUTO(hm_schedule) *schedule = NULL;
	struct hm_run *run;
	uint32_t i, changed = 0, round;

	CHECK_OK_FATAL(hm_plan_compile(
		plan, accel, DESC(hm_plan_options, .flags = HM_PLAN_COPY), &schedule));
	for (round = 0; round < 2; round++) {
		fill(1);
		CHECK_OK_FATAL(hm_plan_run(schedule, NULL, 0, &run));
		CHECK_ERROR(-EDOM, hm_run_wait(run, UINT64_MAX));
		CHECK(strstr(hm_errmsg(), "middle") != NULL);
		CHECK_OK(hm_run_query(run, &info));
		CHECK_EQUAL(info.failed_node, 2);
		CHECK_EQUAL(info.n_written, 0);
		for (i = 0; i < WORDS; i++)
			changed += home[Z][i] != 0xdead || home[W][i] != i + 3;
		CHECK_EQUAL(changed, 0);
		hm_run_unref(run);
	}
	hm_plan_unref(plan);
}

static void test_failing_node(void)
{
	struct hm_kernel *kernel;
	struct hm_accel *accel;

	make_homes(NULL);
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
	kernel = rig_kernel(
		DESC(hm_kernel_desc, .name = "later", .cpu = fail_later, .signature = "inout"));
	check_failure(accel, plan_with(fail_on_purpose, NULL));
	check_failure(accel, plan_with(NULL, kernel));
	hm_kernel_unref(kernel);
	hm_accel_unref(accel);
	free_homes(false);
}

/* A run goes on by itself, one at a time, and its fence and its wait tell of its end. */
static void test_asynchronous(void)
{
	struct hm_schedule *schedule;
	struct hm_fence *fence;
	struct hm_accel *accel;
	struct hm_plan *plan;
	struct hm_run *run, *second;

	make_homes(NULL);
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
	plan = plan_with(wait_at_gate, NULL);
	CHECK_OK_FATAL(hm_plan_compile(plan, accel, NULL, &schedule));
	fill(1);
	pthread_mutex_lock(&gate);
	CHECK_OK_FATAL(hm_plan_run(schedule, NULL, 0, &run));
	CHECK_OK_FATAL(hm_run_fence(run, &fence));
	CHECK_ERROR(-ETIME, hm_run_wait(run, 1000000));
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 0));
	CHECK_ERROR(-EBUSY, hm_plan_run(schedule, NULL, 0, &second));
	pthread_mutex_unlock(&gate);
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	CHECK_OK(hm_run_wait(run, 0));
	CHECK_EQUAL(home[Z][5], home[X][5] + home[Y][5] + home[Y][5]);
	hm_fence_unref(fence);
	hm_run_unref(run);
	/* A run that is not waited for; each reference is one. */
	CHECK_OK_FATAL(hm_plan_run(schedule, NULL, 0, &run));
	hm_schedule_unref(hm_schedule_ref(schedule));
	hm_schedule_unref(schedule);
	hm_run_unref(hm_run_ref(run));
	hm_run_unref(run);
	hm_plan_unref(hm_plan_ref(plan));
	hm_plan_unref(plan);
	hm_accel_unref(accel);
	free_homes(false);
}

/* ---- refusals and texts ---- */

static void test_refused(void)
{
	struct hm_plan_arg args[] = { HM_PLAN_IN(7) };
	struct hm_plan_node_desc node = {
		.struct_size = sizeof(node),
		.name = "alone",
		.call = wait_at_gate,
		.args = args,
		.n_arg = 1,
	};
	struct hm_plan_range_desc range = {
		.struct_size = sizeof(range),
		.flags = HM_PLAN_INPUT,
		.name = "twice",
		.length = BYTES,
	};
	struct hm_schedule *schedule;
	struct hm_accel *accel;
	struct hm_plan *plan;
	uint32_t last = 2, number, x, t;

	make_homes(NULL);
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
	CHECK_OK_FATAL(hm_plan_create(0, &plan));
	CHECK_ERROR(-EINVAL, hm_plan_compile(plan, accel, NULL, &schedule));
	x = add_range(plan, "x", HM_PLAN_INPUT, home[X]);
	CHECK_ERROR(-ENOENT, hm_plan_node(plan, &node, NULL));
	CHECK(strstr(hm_errmsg(), "alone") != NULL);
	CHECK_ERROR(-EINVAL, hm_plan_range(plan, &range, &number));
	range.home = home[X] + 10;
	CHECK_ERROR(-EEXIST, hm_plan_range(plan, &range, &number));
	CHECK(strstr(hm_errmsg(), "twice") != NULL);
	range = (struct hm_plan_range_desc){ .struct_size = sizeof(range),
					     .name = "view",
					     .length = 64,
					     .parent = x,
					     .offset = BYTES - 63 };
	CHECK_ERROR(-ERANGE, hm_plan_range(plan, &range, &number));
	t = add_range(plan, "temporary", 0, NULL);
	args[0].range = t;
	CHECK_OK(hm_plan_node(plan, &node, NULL));
	CHECK_ERROR(-ENODATA, hm_plan_compile(plan, accel, NULL, &schedule));
	CHECK(strstr(hm_errmsg(), "temporary") != NULL);
	hm_plan_unref(plan);

	CHECK_OK_FATAL(hm_plan_create(0, &plan));
	x = add_range(plan, "x", HM_PLAN_INPUT, home[X]);
	args[0] = HM_PLAN_INOUT(x);
	node.name = "egg";
	node.after = &last;
	node.n_after = 1;
	CHECK_OK(hm_plan_node(plan, &node, NULL));
	CHECK_ERROR(-ENOENT, hm_plan_compile(plan, accel, NULL, &schedule));
	CHECK(strstr(hm_errmsg(), "egg is after node 2") != NULL);
	node.name = "hen";
	node.n_after = 0;
	CHECK_OK(hm_plan_node(plan, &node, NULL));
	CHECK_ERROR(-ELOOP, hm_plan_compile(plan, accel, NULL, &schedule));
	CHECK(strstr(hm_errmsg(), "hen waits for egg") != NULL);
	hm_plan_unref(plan);
	hm_accel_unref(accel);
	free_homes(false);
}

/* Nodes that name no common range go in the order that is asked for. */
static void test_order(void)
{
	struct hm_plan_node_desc node = { .struct_size = sizeof(node),
					  .name = "late",
					  .call = wait_at_gate };
	struct hm_plan_step step = { .struct_size = sizeof(step) };
	uint32_t first = 2;
	AUTO(hm_schedule) *schedule = NULL;
	AUTO(hm_plan) *plan = NULL;
	AUTO(hm_accel) *accel = rig_accel("cpu", NULL);

	CHECK_OK_FATAL(hm_plan_create(0, &plan));
	node.after = &first;
	node.n_after = 1;
	CHECK_OK(hm_plan_node(plan, &node, NULL));
	node.n_after = 0;
	CHECK_OK(hm_plan_node(plan, &node, NULL));
	CHECK_OK_FATAL(hm_plan_compile(plan, accel, NULL, &schedule));
	CHECK_OK(hm_schedule_step(schedule, 0, &step));
	CHECK_EQUAL(step.node, 2);
	CHECK_OK(hm_schedule_step(schedule, 1, &step));
	CHECK_EQUAL(step.node, 1);
	CHECK_ERROR(-ERANGE, hm_schedule_step(schedule, 2, &step));
}

static void test_explained(void)
{
	static const char *const expected[] = {
		"the smallest budget is 196608",
		"a: 65536 bytes, temporary, from first to last",
		"x: 65536 bytes, copied, from first to second",
		"run   fourth",
		"no node after back writes it",
		"it leaves for",
	};
	struct hm_schedule *schedule;
	struct hm_accel *accel;
	struct hm_plan *plan;
	char *text;
	size_t i;

	make_homes(NULL);
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
	plan = make_plan();
	CHECK_OK_FATAL(hm_plan_compile(
		plan, accel, DESC(hm_plan_options, .flags = HM_PLAN_COPY, .budget = 3 * BYTES),
		&schedule));
	CHECK_OK_FATAL(hm_plan_explain(schedule, HM_PLAN_TEXT, &text));
	for (i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		CHECK_HAS(text, expected[i]);
	free(text);
	CHECK_ERROR(-EINVAL, hm_plan_explain(schedule, 99, &text));
	hm_schedule_unref(schedule);
	hm_plan_unref(plan);
	hm_accel_unref(accel);
	free_homes(false);
}

static const struct test tests[] = {
	{ .name = "cpu", .run = test_cpu, .seconds = 60 },
	{ .name = "soft", .run = test_soft, .seconds = 60 },
	{ .name = "windows", .run = test_windows, .seconds = 60 },
	{ .name = "in_place", .run = test_in_place },
	{ .name = "failing_node", .run = test_failing_node },
	{ .name = "asynchronous", .run = test_asynchronous },
	{ .name = "refused", .run = test_refused },
	{ .name = "order", .run = test_order },
	{ .name = "explained", .run = test_explained },
	{ 0 },
};

TEST_MAIN(harness_main, "plan_run", tests)
