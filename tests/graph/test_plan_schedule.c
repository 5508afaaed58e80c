// SPDX-License-Identifier: MIT
/* Schedules of random graphs: right in each order that they allow, and near the fewest bytes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/random_graph.h"
#include "graph/sums.h"
#include "lib/harness.h"
#include "lib/rig.h"

static struct hm_accel *accel;

static int nothing(struct hm_queue *queue, const struct hm_arg *args, uint32_t n_arg,
		   void *user, struct hm_fence **ret_fence)
{
	(void)queue, (void)args, (void)n_arg, (void)user, (void)ret_fence;
	return 0;
}

static struct hm_schedule *compile(struct hm_plan *plan, uint32_t policy, uint64_t budget)
{
	struct hm_schedule *schedule = NULL;

	CHECK_OK_FATAL(hm_plan_compile(plan, accel,
				       DESC(hm_plan_options, .flags = HM_PLAN_COPY,
					    .policy = policy, .budget = budget),
				       &schedule));
	return schedule;
}

/* Returns whether the bytes that cross are within 10 % of the fewest. */
static bool try_graph(uint64_t *random, uint32_t number)
{
	struct hm_schedule_info info = { .struct_size = sizeof(info) };
	struct hm_plan_options refused = {
		.struct_size = sizeof(refused),
		.flags = HM_PLAN_COPY,
	};
	static struct graph graph;
	struct hm_schedule *schedule;
	struct hm_plan *plan;
	uint32_t smallest, all, budget, best, i;
	uint64_t crossed, told;

	graph_random(&graph, random);
	plan = graph_plan(&graph, nothing);
	smallest = graph_smallest(&graph);
	all = graph_all(&graph);
	budget = smallest + (uint32_t)(test_random(random) % (all - smallest + 1));
	CHECK_OK(hm_plan_smallest(plan, accel, &refused, &told));
	CHECK_EQUAL(told, smallest * GRAPH_UNIT);
	schedule = compile(plan, HM_PLAN_AHEAD, budget * GRAPH_UNIT);
	CHECK_OK(hm_schedule_query(schedule, &info));
	CHECK(info.peak <= budget * GRAPH_UNIT);
	for (i = 0; i < 4; i++)
		if (!graph_simulate(&graph, schedule, random))
			test_fail(__FILE__, __LINE__, "graph %u, budget %u", number, budget);
	hm_schedule_unref(schedule);
	refused.budget = smallest * GRAPH_UNIT - 1;
	CHECK_ERROR(-ENOSPC, hm_plan_compile(plan, accel, &refused, &schedule));
	hm_plan_unref(plan);
	best = graph_optimum(&graph, budget);
	crossed = (info.bytes_in + info.bytes_out) / GRAPH_UNIT;
	if (crossed < best)
		test_fail(__FILE__, __LINE__, "graph %u: %u units, fewer than the fewest, %u",
			  number, (unsigned int)crossed, best);
	return crossed * 10 <= best * 11;
}

static void test_near_the_optimum(void)
{
	uint64_t seed = test_seed(), random = seed;
	uint32_t n = test_is_slow() ? 100 : 1000, near = 0, i;

	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
	for (i = 0; i < n; i++)
		near += try_graph(&random, i);
	printf("# seed %llu: %u of %u graphs within 10 %% of the fewest bytes\n",
	       (unsigned long long)seed, near, n);
	CHECK(near * 100 >= n * 95);
	hm_accel_unref(accel);
}

static void test_policies(void)
{
	uint64_t random = test_seed();
	static struct graph graph;
	uint32_t policy, i, k;

	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &accel));
	for (i = 0; i < 100; i++) {
		struct hm_plan *plan;

		graph_random(&graph, &random);
		plan = graph_plan(&graph, nothing);
		for (policy = HM_PLAN_AHEAD; policy <= HM_PLAN_PER_NODE; policy++) {
			struct hm_schedule *schedule = compile(plan, policy, 0);

			for (k = 0; k < 4; k++)
				graph_simulate(&graph, schedule, &random);
			hm_schedule_unref(schedule);
		}
		hm_plan_unref(plan);
	}
	hm_accel_unref(accel);
}

static int no_work(struct hm_queue *queue, const struct hm_arg *args, uint32_t n_arg,
		   void *user, struct hm_fence **ret_fence)
{
	(void)queue, (void)args, (void)n_arg, (void)user, (void)ret_fence;
	return 0;
}

/* A copy in runs beside the node before: its place is not one that this node has just read. */
static void test_beside(void)
{
	static uint32_t home[8][1024];
	struct hm_plan_step step = { .struct_size = sizeof(step) };
	struct hm_plan_range_desc range = { .struct_size = sizeof(range),
					    .flags = HM_PLAN_INPUT,
					    .name = "input",
					    .length = sizeof(home[0]) };
	struct hm_plan_arg arg;
	const struct hm_plan_node_desc node = { .struct_size = sizeof(node),
						.name = "node",
						.call = no_work,
						.args = &arg,
						.n_arg = 1 };
	struct hm_schedule_info info = { .struct_size = sizeof(info) };
	AUTO(hm_schedule) *schedule = NULL;
	AUTO(hm_plan) *plan = NULL;
	uint32_t i, n_in = 0;
	AUTO(hm_accel) *accel = rig_accel("cpu", NULL);

	CHECK_OK_FATAL(hm_plan_create(0, &plan));
	for (i = 0; i < 8; i++) {
		range.home = home[i];
		CHECK_OK_FATAL(hm_plan_range(plan, &range, &arg.range));
		arg = HM_PLAN_IN(arg.range);
		CHECK_OK_FATAL(hm_plan_node(plan, &node, NULL));
	}
	CHECK_OK_FATAL(hm_plan_compile(plan, accel, NULL, &schedule));
	CHECK_OK(hm_schedule_query(schedule, &info));
	CHECK_EQUAL(info.peak, 2 * sizeof(home[0]));
	for (i = 0; i < info.n_steps; i++) {
		CHECK_OK(hm_schedule_step(schedule, i, &step));
		if (step.kind != HM_PLAN_STEP_IN)
			continue;
		CHECK_EQUAL(step.after[HM_PLAN_LANE_COMPUTE], n_in > 1 ? n_in - 1 : 0);
		n_in++;
	}
	CHECK_EQUAL(n_in, 8);
}

static const struct test tests[] = {
	{ .name = "beside", .run = test_beside },
	{ .name = "near_the_optimum",
	  .run = test_near_the_optimum,
	  .seconds = 300,
	  .flags = TEST_ONCE },
	{ .name = "policies", .run = test_policies, .seconds = 120, .flags = TEST_ONCE },
	{ 0 },
};

TEST_MAIN(harness_main, "plan_schedule", tests)
