// SPDX-License-Identifier: MIT
/* plan_compile, plan_launch: the cost of a plan itself. The peer launches the nodes one by one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/plan.h>

#include "bench_graph.h"
#include "perf/bench/bench.h"
#include "perf/bench/bench_options.h"

#define NODES 10000u
#define LAUNCHES 1000u
#define BYTES 64u
#define WEB_BYTES (64u << 10)

struct chain {
	uint32_t n;
	struct hm_device *device;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	struct hm_plan *plan;
	struct hm_schedule *schedule;
	uint32_t *words;
};

static int touch(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range;
	++*(uint32_t *)(uintptr_t)args[0].pointer;
	return 0;
}

/* Nodes that each add one to the same word, in place. */
static int add_nodes(struct chain *chain)
{
	struct hm_plan_range_desc range = {
		.struct_size = sizeof(range),
		.flags = HM_PLAN_INPUT | HM_PLAN_OUTPUT,
		.name = "words",
		.home = chain->words,
		.length = BYTES,
	};
	struct hm_plan_arg arg;
	struct hm_plan_node_desc node = {
		.struct_size = sizeof(node),
		.name = "one more",
		.kernel = chain->kernel,
		.grid = { 1, 1, 1 },
		.args = &arg,
		.n_arg = 1,
	};
	uint32_t number, i;
	int r = hm_plan_range(chain->plan, &range, &number);

	arg = HM_PLAN_INOUT(number);
	for (i = 0; !r && i < chain->n; i++)
		r = hm_plan_node(chain->plan, &node, NULL);
	return r;
}

static int begin(struct chain *chain, uint32_t n)
{
	static const struct hm_kernel_desc desc = {
		.struct_size = sizeof(desc),
		.name = "touch",
		.cpu = touch,
		.signature = "inout",
	};
	int r = hm_device_open("host", &chain->device);

	chain->n = n;
	if (!r)
		r = hm_accel_open("cpu", NULL, &chain->accel);
	if (!r)
		r = hm_queue_create(chain->accel, 0, &chain->queue);
	if (!r)
		r = hm_kernel_create(&desc, &chain->kernel);
	if (!r)
		r = hm_alloc(chain->device, BYTES, HM_READ | HM_WRITE, &chain->words);
	if (!r)
		r = hm_plan_create(0, &chain->plan);
	return r ?: add_nodes(chain);
}

static void end(struct chain *chain)
{
	hm_schedule_unref(chain->schedule);
	hm_plan_unref(chain->plan);
	if (chain->words)
		hm_free(chain->words);
	hm_kernel_unref(chain->kernel);
	hm_queue_unref(chain->queue);
	hm_accel_unref(chain->accel);
	hm_device_unref(chain->device);
}

/* ---- plan_compile plan_launch ---- */

static int launch_all(struct chain *chain, double *ret_ns)
{
	const uint64_t grid[3] = { 1, 1, 1 };
	const struct hm_arg arg = hm_arg_range(chain->words, BYTES, HM_READ | HM_WRITE);
	struct hm_fence *last = NULL;
	double from = bench_now();
	uint32_t i;
	int r = 0;

	for (i = 0; !r && i < chain->n; i++)
		r = hm_queue_launch(chain->queue, chain->kernel, grid, &arg, 1,
				    i + 1 == chain->n ? &last : NULL);
	if (!r)
		r = hm_fence_wait(last, UINT64_MAX);
	*ret_ns = (bench_now() - from) / chain->n;
	hm_fence_unref(last);
	return r;
}

static int launch_peer(void *user, double *ret_ns)
{
	return launch_all(user, ret_ns);
}

static int nothing(struct hm_queue *queue, const struct hm_arg *args, uint32_t n_arg,
		   void *user, struct hm_fence **ret_fence)
{
	(void)queue, (void)args, (void)n_arg, (void)user, (void)ret_fence;
	return 0;
}

/* Each node makes a temporary of the two before it; the last one is kept. */
static int make_web(struct hm_plan *plan, uint32_t n, void *home)
{
	struct hm_plan_range_desc range = {
		.struct_size = sizeof(range),
		.flags = HM_PLAN_INPUT,
		.name = "range",
		.home = home,
		.length = WEB_BYTES,
	};
	struct hm_plan_arg args[3];
	struct hm_plan_node_desc node = {
		.struct_size = sizeof(node),
		.name = "node",
		.call = nothing,
		.args = args,
		.n_arg = 3,
	};
	uint32_t before, last, next, i;
	int r = hm_plan_range(plan, &range, &before);

	last = before;
	for (i = 0; !r && i < n; i++) {
		range.flags = i + 1 < n ? 0 : HM_PLAN_OUTPUT;
		range.home = i + 1 < n ? NULL : (char *)home + WEB_BYTES;
		r = hm_plan_range(plan, &range, &next);
		args[0] = HM_PLAN_IN(before);
		args[1] = HM_PLAN_IN(last);
		args[2] = HM_PLAN_OUT(next);
		r = r ?: hm_plan_node(plan, &node, NULL);
		before = last;
		last = next;
	}
	return r;
}

static int compile_once(const struct chain *chain, struct hm_plan *web, double *ret_ns)
{
	double from = bench_now();
	struct hm_schedule *schedule;
	int r = hm_plan_compile(web, chain->accel, NULL, &schedule);

	*ret_ns = bench_now() - from;
	if (!r)
		hm_schedule_unref(schedule);
	return r;
}

/* The best of a few: other programs only add to it. */
int bench_plan_compile(void)
{
	struct bench_result result = {
		.name = bench_options.small ? "100 nodes" : "10,000 nodes",
		.unit = "ms",
		.kind = TARGET_VALUE,
		.target = 100,
		.peer = "a bare launch of each",
	};
	unsigned int rounds = bench_options.rounds ? bench_options.rounds : 5, i;
	struct chain chain = { 0 };
	double best = 0, peer = 0, ns;
	struct hm_plan *web = NULL;
	void *home = malloc(2 * WEB_BYTES);
	int r = home ? begin(&chain, bench_options.small ? 100 : NODES) : -ENOMEM;

	if (!r)
		r = hm_plan_create(0, &web);
	if (!r)
		r = make_web(web, chain.n, home);
	for (i = 0; !r && i < rounds; i++) {
		r = compile_once(&chain, web, &ns);
		if (!i || ns < best)
			best = ns;
		if (!r)
			r = launch_all(&chain, &ns);
		if (!i || ns < peer)
			peer = ns;
	}
	if (r)
		r = bench_fail(result.name, r, true);
	else {
		result.value = best / 1e6;
		result.peer_value = peer * chain.n / 1e6;
		bench_report(&result);
	}
	hm_plan_unref(web);
	free(home);
	end(&chain);
	return r;
}

static int launch_ours(void *user, double *ret_ns)
{
	struct chain *chain = user;
	double from = bench_now();
	struct hm_run *run;
	int r = hm_plan_run(chain->schedule, NULL, 0, &run);

	if (r)
		return r;
	r = hm_run_wait(run, UINT64_MAX);
	*ret_ns = (bench_now() - from) / chain->n;
	hm_run_unref(run);
	return r;
}

int bench_plan_launch(void)
{
	const struct bench_pair pair = {
		.name = "1,000 nodes, a node",
		.peer = "bare launches",
		.ours = launch_ours,
		.peer_side = launch_peer,
		.rounds = 101,
		.warm_up = 3,
	};
	struct chain chain = { 0 };
	int r = begin(&chain, LAUNCHES);

	if (!r)
		r = hm_plan_compile(chain.plan, chain.accel, NULL, &chain.schedule);
	r = r ? bench_fail(pair.name, r, true) :
		bench_compare(&pair, &chain, "ns", 1, TARGET_RATIO, 1.05);
	end(&chain);
	return r;
}
