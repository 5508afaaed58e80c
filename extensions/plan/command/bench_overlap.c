// SPDX-License-Identifier: MIT
/*
 * graph_overlap: copies and nodes of one plan, alone and together. What the run takes longer than
 * the longer of both is not hidden. The engine and the thread that copies need a processor each.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/error.h>
#include <hetmap/plan.h>

#include "bench_graph.h"
#include "perf/bench/bench.h"
#include "perf/bench/bench_options.h"

#define INPUTS 24u
#define ROUNDS 15u
#define HIDDEN 0.8

/* A plan: copies and nodes together, or one of the two alone. */
enum part { WHOLE, COPIES, NODES, N_PART };

struct overlap {
	size_t bytes; /* of an input */
	struct hm_device *device;
	struct hm_accel *accel;
	struct hm_kernel *add;
	uint32_t *home[2][INPUTS +
			  1]; /* process memory; memory of the device. The last is the sum */
	struct hm_schedule *schedule[N_PART];
	double ns[N_PART][BENCH_DOTS];
};

static const struct hm_engine_step step = { HM_ENGINE_ADD,  1, 1, 0, HM_ENGINE_NONE,
					    HM_ENGINE_NONE, 0 };
static const struct hm_kernel_desc add_desc = {
	.struct_size = sizeof(add_desc),
	.name = "add",
	.signature = "in inout",
	.engine = &step,
	.n_engine = 1,
};

static int nothing(struct hm_queue *queue, const struct hm_arg *args, uint32_t n_arg,
		   void *user, struct hm_fence **ret_fence)
{
	(void)queue, (void)args, (void)n_arg, (void)user, (void)ret_fence;
	return 0;
}

static int add_input(const struct overlap *overlap, struct hm_plan *plan, enum part part,
		     uint32_t i, uint32_t sum)
{
	const struct hm_plan_range_desc range = {
		.struct_size = sizeof(range),
		.flags = HM_PLAN_INPUT,
		.name = "input",
		.home = overlap->home[part == NODES][i],
		.length = overlap->bytes,
	};
	struct hm_plan_arg args[2] = { HM_PLAN_IN(0), HM_PLAN_INOUT(sum) };
	const struct hm_plan_node_desc node = {
		.struct_size = sizeof(node),
		.name = "add",
		.kernel = part == COPIES ? NULL : overlap->add,
		.call = part == COPIES ? nothing : NULL,
		.grid = { overlap->bytes / sizeof(uint32_t), 1, 1 },
		.args = args,
		.n_arg = 2,
	};
	int r = hm_plan_range(plan, &range, &args[0].range);

	return r ?: hm_plan_node(plan, &node, NULL);
}

static int compile(struct overlap *overlap, enum part part)
{
	const struct hm_plan_range_desc range = {
		.struct_size = sizeof(range),
		.flags = HM_PLAN_INPUT | HM_PLAN_OUTPUT,
		.name = "sum",
		.home = overlap->home[part == NODES][INPUTS],
		.length = overlap->bytes,
	};
	struct hm_plan *plan;
	uint32_t sum, i;
	int r = hm_plan_create(0, &plan);

	if (r)
		return r;
	r = hm_plan_range(plan, &range, &sum);
	for (i = 0; !r && i < INPUTS; i++)
		r = add_input(overlap, plan, part, i, sum);
	if (!r)
		r = hm_plan_compile(plan, overlap->accel, NULL, &overlap->schedule[part]);
	hm_plan_unref(plan);
	return r;
}

static int begin(struct overlap *overlap)
{
	uint32_t i, part;
	int r = hm_device_open("soft:0", &overlap->device);

	overlap->bytes = bench_options.small ? KIB(64) : MIB(4);
	if (!r)
		r = hm_accel_open("soft:0", NULL, &overlap->accel);
	if (!r)
		r = hm_kernel_create(&add_desc, &overlap->add);
	for (i = 0; !r && i <= INPUTS; i++) {
		overlap->home[0][i] = aligned_alloc(4096, overlap->bytes);
		r = overlap->home[0][i] ? hm_alloc(overlap->device, overlap->bytes,
						   HM_READ | HM_WRITE, &overlap->home[1][i]) :
					  -ENOMEM;
		if (r)
			break;
		memset(overlap->home[0][i], (int)i, overlap->bytes);
		memset(overlap->home[1][i], (int)i, overlap->bytes);
	}
	for (part = 0; !r && part < N_PART; part++)
		r = compile(overlap, part);
	return r;
}

static void end(struct overlap *overlap)
{
	uint32_t i;

	for (i = 0; i < N_PART; i++)
		hm_schedule_unref(overlap->schedule[i]);
	for (i = 0; i <= INPUTS; i++) {
		free(overlap->home[0][i]);
		if (overlap->home[1][i])
			hm_free(overlap->home[1][i]);
	}
	hm_kernel_unref(overlap->add);
	hm_accel_unref(overlap->accel);
	hm_device_unref(overlap->device);
}

static int run_part(const struct overlap *overlap, enum part part, double *ret_ns)
{
	double from = bench_now();
	struct hm_run *run;
	int r = hm_plan_run(overlap->schedule[part], NULL, 0, &run);

	if (r)
		return r;
	r = hm_run_wait(run, UINT64_MAX);
	*ret_ns = bench_now() - from;
	hm_run_unref(run);
	return r;
}

/* The sum after one run: each byte is that of its number, and the bytes carry. */
static int check_sum(struct overlap *overlap)
{
	uint32_t *sum = overlap->home[0][INPUTS], expected = 0, i;
	double ns;
	int r;

	memset(sum, 0, overlap->bytes);
	r = run_part(overlap, WHOLE, &ns);
	for (i = 0; i < INPUTS; i++)
		expected += i * 0x01010101u;
	for (i = 0; !r && i < overlap->bytes / sizeof(*sum); i++)
		if (sum[i] != expected)
			return hm_error_set(-EIO, "word %u of the sum is %u, and not %u", i,
					    sum[i], expected);
	return r;
}

static int measure(struct overlap *overlap, unsigned int rounds,
		   struct bench_spread spread[N_PART])
{
	unsigned int round, part;
	int r = check_sum(overlap);

	for (round = 0; !r && round < rounds; round++)
		for (part = 0; !r && part < N_PART; part++)
			r = run_part(overlap, part, &overlap->ns[part][round]);
	for (part = 0; !r && part < N_PART; part++)
		bench_spread_of(overlap->ns[part], rounds, &spread[part]);
	return r;
}

int bench_graph_overlap(void)
{
	static const char name[] = "time that is not hidden";
	unsigned int rounds = bench_options.rounds ? bench_options.rounds : ROUNDS;
	struct bench_spread spread[N_PART];
	struct overlap overlap = { 0 };
	int r;

	if (rounds > BENCH_DOTS)
		rounds = BENCH_DOTS;
	r = begin(&overlap);
	if (!r)
		r = measure(&overlap, rounds, spread);
	if (r) {
		r = bench_fail(name, r, true);
	} else {
		double copies = spread[COPIES].median, nodes = spread[NODES].median;
		double longer = copies > nodes ? copies : nodes;
		double rest = spread[WHOLE].median - longer;
		struct bench_result result = {
			.name = name,
			.unit = "ms",
			.value = rest > 0 ? rest / 1e6 : 0,
			.peer = copies > nodes ? "the nodes alone" : "the copies alone",
			.peer_value = (copies + nodes - longer) / 1e6,
			.kind = TARGET_RATIO,
			.target = 1 - HIDDEN,
		};

		bench_report(&result);
	}
	end(&overlap);
	return r;
}
