// SPDX-License-Identifier: MIT
/* The device of a plan is taken away: in the middle of a run, and between two. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "graph/sums.h"
#include "lib/harness.h"

#define WORDS 16384u
#define BYTES (WORDS * sizeof(uint32_t))

static uint32_t *x, *state, *sum;
static struct hm_device *device;
static bool lose_now;

static struct hm_kernel *add;

static void unplug(void)
{
	struct hetsim_inject inject = { .size = sizeof(inject), .kind = HETSIM_INJECT_UNPLUG };

	CHECK_OK_FATAL(hm_sim_call(device, HETSIM_INJECT, &inject));
}

/* The work before is on its way, or done; that after it comes too late. */
static int lose(struct hm_queue *queue, const struct hm_arg *args, uint32_t n_arg, void *user,
		struct hm_fence **ret_fence)
{
	(void)queue, (void)args, (void)n_arg, (void)user, (void)ret_fence;
	if (lose_now)
		unplug();
	return 0;
}

static void node(struct hm_plan *plan, const char *name, const struct hm_plan_arg *args,
		 uint32_t n_arg, hm_plan_function *call)
{
	CHECK_OK_FATAL(hm_plan_node(plan,
				    DESC(hm_plan_node_desc, .name = name,
					 .kernel = call ? NULL : add, .call = call,
					 .grid = { WORDS, 1, 1 }, .args = args, .n_arg = n_arg),
				    NULL));
}

/* between = x + state; state = between + x; (the device goes) sum = state + between */
static struct hm_plan *make_plan(void)
{
	struct hm_plan *plan;
	uint32_t a, b, c, t;

	CHECK_OK_FATAL(hm_plan_create(0, &plan));
	a = sums_range(plan, "x", HM_PLAN_INPUT, x, BYTES);
	b = sums_range(plan, "state", HM_PLAN_INPUT | HM_PLAN_OUTPUT, state, BYTES);
	c = sums_range(plan, "sum", HM_PLAN_OUTPUT, sum, BYTES);
	t = sums_range(plan, "between", 0, NULL, BYTES);
	node(plan, "first",
	     (struct hm_plan_arg[]){ HM_PLAN_IN(a), HM_PLAN_IN(b), HM_PLAN_OUT(t) }, 3, NULL);
	node(plan, "middle", (struct hm_plan_arg[]){ HM_PLAN_INOUT(t) }, 1, lose);
	node(plan, "second",
	     (struct hm_plan_arg[]){ HM_PLAN_IN(t), HM_PLAN_IN(a), HM_PLAN_OUT(b) }, 3, NULL);
	node(plan, "last",
	     (struct hm_plan_arg[]){ HM_PLAN_IN(b), HM_PLAN_IN(t), HM_PLAN_OUT(c) }, 3, NULL);
	return plan;
}

static void fill(void)
{
	uint32_t i;

	for (i = 0; i < WORDS; i++) {
		x[i] = i * 5;
		state[i] = i + 1;
		sum[i] = 0xdead;
	}
}

/* Bytes at home that are neither old nor those of a whole run. */
static void check_homes(bool ran)
{
	uint32_t wrong = 0, i;

	for (i = 0; i < WORDS; i++) {
		uint32_t between = i * 5 + i + 1, then = between + i * 5;

		wrong += x[i] != i * 5;
		wrong += state[i] != (ran ? then : i + 1);
		wrong += sum[i] != (ran ? then + between : 0xdead);
	}
	CHECK_EQUAL(wrong, 0);
}

static struct hm_schedule *compile(struct hm_accel *accel)
{
	struct hm_schedule *schedule;
	AUTO(hm_plan) *plan = make_plan();

	CHECK_OK_FATAL(hm_plan_compile(plan, accel, NULL, &schedule));
	return schedule;
}

static int run(struct hm_schedule *schedule, struct hm_run_info *ret_info)
{
	AUTO(hm_run) *one = NULL;
	int r = hm_plan_run(schedule, NULL, 0, &one);

	if (r)
		return r;
	hm_run_wait(one, UINT64_MAX);
	ret_info->struct_size = sizeof(*ret_info);
	CHECK_OK(hm_run_query(one, ret_info));
	/* The text is that of the last call. */
	r = hm_run_wait(one, 0);
	return r;
}

/* A new device in place of the lost one: compiled again, the plan has the result. */
static void run_again(void)
{
	struct hm_run_info info;
	AUTO(hm_schedule) *schedule = NULL;
	AUTO(hm_accel) *accel = NULL;

	CHECK_OK_FATAL(hm_sim_plug("soft:0"));
	CHECK_OK_FATAL(hm_accel_open("soft:0", NULL, &accel));
	schedule = compile(accel);
	CHECK_OK(run(schedule, &info));
	CHECK_EQUAL(info.n_written, 2);
	check_homes(true);
}

static void begin(struct hm_accel **ret_accel)
{
	x = malloc(BYTES);
	state = malloc(BYTES);
	sum = malloc(BYTES);
	CHECK_OK_FATAL(hm_device_open("soft:0", &device));
	CHECK_OK_FATAL(hm_accel_open("soft:0", NULL, ret_accel));
	CHECK_OK_FATAL(hm_kernel_create(&sums_add, &add));
	fill();
}

static void end(struct hm_schedule *schedule, struct hm_accel *accel)
{
	lose_now = false;
	/* In any order, while the device is gone. */
	hm_schedule_unref(schedule);
	hm_accel_unref(accel);
	hm_device_unref(device);
	run_again();
	hm_kernel_unref(add);
	free(x);
	free(state);
	free(sum);
}

static void test_in_the_middle(void)
{
	struct hm_run_info info;
	struct hm_schedule *schedule;
	struct hm_accel *accel;

	begin(&accel);
	schedule = compile(accel);
	lose_now = true;
	CHECK_ERROR(-ENODEV, run(schedule, &info));
	CHECK_EQUAL(info.n_written, 0);
	CHECK_EQUAL(info.done, 1);
	check_homes(false);
	CHECK_ERROR(-ENODEV, run(schedule, &info));
	CHECK(strstr(hm_errmsg(), "compile") != NULL);
	check_homes(false);
	end(schedule, accel);
}

static void test_between_runs(void)
{
	struct hm_run_info info;
	struct hm_schedule *schedule;
	struct hm_accel *accel;

	begin(&accel);
	schedule = compile(accel);
	CHECK_OK(run(schedule, &info));
	check_homes(true);
	fill();
	unplug();
	CHECK_ERROR(-ENODEV, run(schedule, &info));
	check_homes(false);
	end(schedule, accel);
}

static const struct test cases[] = {
	{ .name = "in_the_middle", .run = test_in_the_middle },
	{ .name = "between_runs", .run = test_between_runs },
	{ 0 },
};

int main(int argc, char **argv)
{
	setenv("HETMAP_SOFT", "test=1 vram_mb=64", 1);
	return harness_main(argc, argv, "plan_loss", cases);
}
