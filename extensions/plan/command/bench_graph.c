// SPDX-License-Identifier: MIT
/* hetmap bench: the cases of plans; graph_transfer, by what a plan moves of a step of training. */
#include "bench_graph.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "graph_job.h"
#include "perf/bench/bench.h"
#include "perf/bench/bench_list.h"
#include "perf/bench/bench_options.h"
#include "perf/bench/peer.h"

#define SMALL_LAYERS 4
#define SMALL_BYTES (64u << 10)
#define BUDGET_SHARE 0.6

PEER_SOURCE_OF(peer_graph_source, "extensions/plan/command/bench_plan.c");
extern const char peer_graph_source[];
PEER_SOURCE_OF(peer_overlap_source, "extensions/plan/command/bench_overlap.c");
extern const char peer_overlap_source[];

static const struct bench cases[] = {
	{ "graph_transfer", "transfers of a step of training, by its plan",
	  bench_graph_transfer, peer_graph_source },
	{ "graph_overlap", "transfers beside the compute of a plan", bench_graph_overlap,
	  peer_overlap_source },
	{ "plan_compile", "a plan of 10,000 nodes", bench_plan_compile, peer_graph_source },
	{ "plan_launch", "a run of a plan, a node", bench_plan_launch, peer_graph_source },
};

int bench_graph_main(int argc, char **argv)
{
	return bench_main_of(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

/* ---- graph_transfer ---- */

struct scene {
	struct model model;
	struct work work;
	struct hm_accel *accel;
	struct hm_plan *plan;
	struct hm_schedule *plan_schedule, *other;
	const char *checked; /* policy whose outputs were compared with the CPU's */
};

static json_t *layer(const char *name, uint32_t a, uint32_t b, uint32_t to)
{
	return json_pack("{s:s, s:[i,i], s:[i]}", "name", name, "reads", (int)a, (int)b,
			 "writes", (int)to);
}

/* A few layers: x, w of each and its output; the last is kept. */
static json_t *small_graph(void)
{
	json_t *tensors = json_array(), *nodes = json_array();
	uint32_t i;

	json_array_append_new(tensors, json_pack("{s:s, s:s, s:i}", "name", "x", "kind",
						 "input", "bytes", (int)SMALL_BYTES));
	for (i = 0; i < SMALL_LAYERS; i++) {
		json_array_append_new(tensors, json_pack("{s:s, s:s, s:i}", "name", "w", "kind",
							 "weight", "bytes", (int)SMALL_BYTES));
		json_array_append_new(tensors,
				      json_pack("{s:s, s:s, s:i}", "name", "y", "kind",
						i + 1 < SMALL_LAYERS ? "temporary" : "output",
						"bytes", (int)SMALL_BYTES));
		json_array_append_new(nodes,
				      layer("layer", i ? 2 * i : 0, 2 * i + 1, 2 * i + 2));
	}
	return json_pack("{s:s, s:i, s:s, s:o, s:o}", "format", "hetmap-graph", "version", 1,
			 "name", "small", "tensors", tensors, "nodes", nodes);
}

/* 1: there is no model here, and that was told. */
static int take_model(const char *name, struct model *model)
{
	const struct graph_options options = {
		.file = "resnet50", .dims = { "N=8" }, .n_dim = 1, .train = true
	};
	json_t *json;
	int status;

	if (bench_options.small) {
		json = small_graph();
		status = model_take("small", json, model);
		json_decref(json);
		return status ? -ENOMEM : 0;
	}
	/* The variable is the user's own. NOLINTNEXTLINE(cert-env33-c) */
	if (system("\"${HETMAP_PYTHON:-python3}\" -c 'import onnx' 2>/dev/null")) {
		bench_skip(name,
			   "no package onnx in %s: name a Python that has it by "
			   "HETMAP_PYTHON",
			   getenv("HETMAP_PYTHON") ? getenv("HETMAP_PYTHON") : "python3");
		return 1;
	}
	return model_read(&options, model) ? -EIO : 0;
}

static int compile(struct scene *scene, uint32_t policy, uint64_t budget,
		   struct hm_schedule **ret_schedule, struct hm_schedule_info *ret_info)
{
	const struct hm_plan_options options = {
		.struct_size = sizeof(options),
		.flags = HM_PLAN_COPY,
		.policy = policy,
		.budget = budget,
	};
	int r = hm_plan_compile(scene->plan, scene->accel, &options, ret_schedule);

	ret_info->struct_size = sizeof(*ret_info);
	return r ?: hm_schedule_query(*ret_schedule, ret_info);
}

/* The time of its transfers. The outputs of the first run are compared. */
static int transfer(struct scene *scene, struct hm_schedule *schedule, const char *policy,
		    double *ret_ns)
{
	struct hm_run_info info = { .struct_size = sizeof(info) };
	struct hm_run *run;
	int r;

	work_fill(&scene->model);
	work_begin_run(&scene->work);
	r = hm_plan_run(schedule, NULL, 0, &run);
	if (r)
		return r;
	r = hm_run_wait(run, UINT64_MAX);
	if (!r)
		r = hm_run_query(run, &info);
	hm_run_unref(run);
	*ret_ns = (double)(info.copy_ns[0] + info.copy_ns[1]);
	if (!r && scene->checked != policy && graph_compare(&scene->model, policy))
		r = -EIO;
	scene->checked = policy;
	return r;
}

static int transfer_ours(void *user, double *ret_ns)
{
	struct scene *scene = user;

	return transfer(scene, scene->plan_schedule, "plan", ret_ns);
}

static int transfer_other(void *user, double *ret_ns)
{
	struct scene *scene = user;

	return transfer(scene, scene->other, "other", ret_ns);
}

static int compare_with(struct scene *scene, const char *name, const char *peer,
			uint32_t policy, double target)
{
	const struct bench_pair pair = {
		.name = name,
		.peer = peer,
		.ours = transfer_ours,
		.peer_side = transfer_other,
		.rounds = 5,
		.warm_up = 1,
	};
	struct hm_schedule_info info;
	int r = compile(scene, policy, 0, &scene->other, &info);

	r = r ? bench_fail(name, r, true) :
		bench_compare(&pair, scene, "ms", 1e6, TARGET_RATIO, target);
	hm_schedule_unref(scene->other);
	scene->other = NULL;
	return r;
}

/* The memory of the plan with a budget. */
static int report_peak(struct scene *scene)
{
	struct hm_schedule *schedule = NULL;
	struct hm_schedule_info up_front, within;
	struct bench_result result = {
		.name = "peak memory, with a budget",
		.unit = "MiB",
		.peer = "up front",
		.kind = TARGET_RATIO,
		.target = BUDGET_SHARE,
	};
	int r = compile(scene, HM_PLAN_UP_FRONT, 0, &schedule, &up_front);

	hm_schedule_unref(schedule);
	schedule = NULL;
	if (!r)
		r = compile(scene, HM_PLAN_AHEAD,
			    (uint64_t)(BUDGET_SHARE * (double)up_front.peak), &schedule,
			    &within);
	hm_schedule_unref(schedule);
	if (r)
		return bench_fail(result.name, r, true);
	result.value = (double)within.peak / (double)MIB(1);
	result.peer_value = (double)up_front.peak / (double)MIB(1);
	bench_report(&result);
	return 0;
}

static int prepare(struct scene *scene)
{
	struct hm_schedule_info info;
	int r = hm_accel_open("soft:0", NULL, &scene->accel);

	if (!r)
		r = work_init(&scene->work, &scene->model, scene->accel);
	if (!r)
		r = work_plan(&scene->work, &scene->plan);
	if (!r)
		r = compile(scene, HM_PLAN_AHEAD, 0, &scene->plan_schedule, &info);
	if (r)
		return r;
	work_fill(&scene->model);
	return work_expect(&scene->work) ? -EIO : 0;
}

int bench_graph_transfer(void)
{
	static const char name[] = "against copies of each operation";
	struct scene scene = { 0 };
	int r = take_model(name, &scene.model);

	if (r)
		return r < 0 ? r : 0;
	r = prepare(&scene);
	if (r)
		r = bench_fail(name, r, true);
	if (!r)
		r = compare_with(&scene, name, "each argument in and out", HM_PLAN_PER_NODE,
				 0.5);
	if (!r)
		r = compare_with(&scene, "against all up front", "each tensor in and out",
				 HM_PLAN_UP_FRONT, 0.77);
	if (!r)
		r = report_peak(&scene);
	hm_schedule_unref(scene.plan_schedule);
	work_free(&scene.work);
	hm_plan_unref(scene.plan);
	hm_accel_unref(scene.accel);
	model_free(&scene.model);
	return r;
}
