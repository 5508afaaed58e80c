// SPDX-License-Identifier: MIT
/* Runs of kernels only, without copies: only the calls that look at them end them. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <hetmap/plan.h>

#include "lib/harness.h"
#include "lib/rig.h"

#define BYTES 64u

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static int add_one(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range;
	++*(uint32_t *)(uintptr_t)args[0].pointer;
	return 0;
}

static int double_at_gate(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	*(uint32_t *)(uintptr_t)args[0].pointer *= 2;
	return 0;
}

static int fail(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return -EDOM;
}

struct scene {
	struct hm_device *device;
	struct hm_accel *accel;
	struct hm_schedule *schedule;
	uint32_t *word;
};

static void add_node(struct hm_plan *plan, const char *name, hm_cpu_function *function,
		     uint32_t range)
{
	const struct hm_kernel_desc kernel = {
		.struct_size = sizeof(kernel),
		.name = name,
		.cpu = function,
		.signature = "inout",
	};
	const struct hm_plan_arg arg = HM_PLAN_INOUT(range);
	struct hm_plan_node_desc node = {
		.struct_size = sizeof(node),
		.name = name,
		.grid = { 1, 1, 1 },
		.args = &arg,
		.n_arg = 1,
	};

	CHECK_OK_FATAL(hm_kernel_create(&kernel, &node.kernel));
	CHECK_OK_FATAL(hm_plan_node(plan, &node, NULL));
	hm_kernel_unref(node.kernel);
}

/* @n nodes that add 1; in their middle one of @function. */
static struct scene begin(uint32_t n, hm_cpu_function *function)
{
	struct scene scene = { 0 };
	struct hm_plan_range_desc range = {
		.struct_size = sizeof(range),
		.flags = HM_PLAN_INPUT | HM_PLAN_OUTPUT,
		.name = "word",
		.length = BYTES,
	};
	struct hm_schedule_info info = { .struct_size = sizeof(info) };
	struct hm_plan *plan;
	uint32_t number, i;

	CHECK_OK_FATAL(hm_device_open("host", &scene.device));
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &scene.accel));
	CHECK_OK_FATAL(hm_alloc(scene.device, BYTES, HM_READ | HM_WRITE, &scene.word));
	range.home = scene.word;
	CHECK_OK_FATAL(hm_plan_create(0, &plan));
	CHECK_OK_FATAL(hm_plan_range(plan, &range, &number));
	for (i = 0; i < n; i++) {
		if (i == n / 2)
			add_node(plan, "middle", function, number);
		add_node(plan, "one", add_one, number);
	}
	CHECK_OK_FATAL(hm_plan_compile(plan, scene.accel, NULL, &scene.schedule));
	CHECK_OK(hm_schedule_query(scene.schedule, &info));
	CHECK_EQUAL(info.bytes_in + info.bytes_out, 0);
	CHECK_EQUAL(info.n_steps, n + 1);
	hm_plan_unref(plan);
	*scene.word = 0;
	return scene;
}

static void end(struct scene *scene)
{
	hm_schedule_unref(scene->schedule);
	CHECK_OK(hm_free(scene->word));
	hm_accel_unref(scene->accel);
	hm_device_unref(scene->device);
}

AUTO_END(scene, end)

static void test_waited_for(void)
{
	struct hm_run_info info = { .struct_size = sizeof(info) };
	struct hm_run *run, *second;
	AUTO(hm_fence) *fence = NULL;
	AUTO(scene) scene = begin(2, double_at_gate);

	pthread_mutex_lock(&gate);
	CHECK_OK_FATAL(hm_plan_run(scene.schedule, NULL, 0, &run));
	CHECK_ERROR(-EBUSY, hm_plan_run(scene.schedule, NULL, 0, &second));
	CHECK_ERROR(-ETIME, hm_run_wait(run, 0));
	CHECK_ERROR(-ETIME, hm_run_wait(run, 1000000));
	CHECK_OK(hm_run_query(run, &info));
	CHECK_EQUAL(info.done, 0);
	CHECK_OK_FATAL(hm_run_fence(run, &fence));
	CHECK_ERROR(-ETIME, hm_fence_wait(fence, 1000000));
	pthread_mutex_unlock(&gate);
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	/* The run is over then. ThreadSanitizer does not know that poll() orders accesses. */
	CHECK_OK(hm_run_wait(run, 0));
	CHECK_EQUAL(*scene.word, 3);
	hm_run_unref(run);
}

/* A later run, a query, a fence and the last reference find the end of a run. */
static void test_not_waited_for(void)
{
	struct hm_run_info info = { .struct_size = sizeof(info) };
	struct hm_run *run, *second;
	struct hm_fence *fence;
	int r;
	AUTO(scene) scene = begin(1000, double_at_gate);

	CHECK_OK_FATAL(hm_plan_run(scene.schedule, NULL, 0, &run));
	do
		r = hm_plan_run(scene.schedule, NULL, 0, &second);
	while (r == -EBUSY);
	CHECK_OK_FATAL(r);
	CHECK_OK(hm_run_query(run, &info));
	CHECK_EQUAL(info.done, 1);
	hm_run_unref(run);
	do
		CHECK_OK(hm_run_query(second, &info));
	while (!info.done);
	CHECK_EQUAL(*scene.word, 1500 * 2 + 500 * 2 + 500);
	CHECK_OK_FATAL(hm_run_fence(second, &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	hm_run_unref(second);
	*scene.word = 0;
	CHECK_OK_FATAL(hm_plan_run(scene.schedule, NULL, 0, &run));
	hm_run_unref(run);
	CHECK_EQUAL(*scene.word, 1500);
}

static void *wait_for_run(void *data)
{
	CHECK_OK(hm_run_wait(data, UINT64_MAX));
	return NULL;
}

static void test_waiters(void)
{
	struct hm_fence *fence;
	pthread_t thread[4];
	struct hm_run *run;
	uint32_t round, i;
	AUTO(scene) scene = begin(10, double_at_gate);

	for (round = 0; round < 20; round++) {
		*scene.word = 0;
		CHECK_OK_FATAL(hm_plan_run(scene.schedule, NULL, 0, &run));
		for (i = 0; i < 4; i++)
			pthread_create(&thread[i], NULL, wait_for_run, run);
		CHECK_OK_FATAL(hm_run_fence(run, &fence));
		for (i = 0; i < 4; i++)
			pthread_join(thread[i], NULL);
		CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
		CHECK_EQUAL(*scene.word, 15);
		hm_fence_unref(fence);
		hm_run_unref(run);
	}
}

static void test_failure(void)
{
	struct hm_run_info info = { .struct_size = sizeof(info) };
	struct hm_run *run;
	uint32_t round;
	AUTO(scene) scene = begin(200, fail);

	for (round = 0; round < 2; round++) {
		CHECK_OK_FATAL(hm_plan_run(scene.schedule, NULL, 0, &run));
		CHECK_ERROR(-EDOM, hm_run_wait(run, UINT64_MAX));
		CHECK(strstr(hm_errmsg(), "node middle") != NULL);
		CHECK_OK(hm_run_query(run, &info));
		CHECK_EQUAL(info.failed_node, 101);
		hm_run_unref(run);
	}
}

static const struct test tests[] = {
	{ .name = "waited_for", .run = test_waited_for },
	{ .name = "not_waited_for", .run = test_not_waited_for },
	{ .name = "waiters", .run = test_waiters },
	{ .name = "failure", .run = test_failure },
	{ 0 },
};

TEST_MAIN(harness_main, "plan_direct", tests)
