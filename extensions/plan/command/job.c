// SPDX-License-Identifier: MIT
/* Runs a graph by each policy, compares every output with the CPU's, and prints both costs. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "graph_job.h"

#define N_POLICY 3
#define LOOK_NS 50000000 /* how often a run is asked how far it is */

struct result {
	bool ran;
	struct hm_schedule_info info;
	double seconds, in, out; /* of the fastest round */
};

struct job {
	const struct graph_options *options;
	struct model model;
	struct work work;
	struct hm_accel *accel;
	struct hm_device *device;
	struct hm_plan *plan;
	struct result result[N_POLICY];
};

static const char *const policies[N_POLICY] = { "plan", "up-front", "per-op" };

int graph_compare(const struct model *model, const char *policy)
{
	uint32_t i;
	uint64_t at;

	for (i = 0; i < model->n_tensor; i++) {
		const struct tensor *t = &model->tensor[i];

		if (!(t->flags & HM_PLAN_OUTPUT) || !memcmp(t->home, t->expected, t->bytes))
			continue;
		for (at = 0; t->home[at] == t->expected[at]; at++)
			;
		if (model->tolerance > 0.0f)
			at = net_compare(t, model->tolerance);
		if (at == t->bytes)
			continue;
		return fail(STATUS_WRONG, EIO, NULL,
			    "wrong result: policy %s, byte %" PRIu64 " of tensor %s", policy,
			    at, t->name);
	}
	return 0;
}

/* Waits for the run, with a bar of what its nodes have read and written. */
static int follow(struct job *job, struct hm_run *run, const char *policy)
{
	int r;

	progress_begin(policy, work_bytes(&job->work));
	while ((r = hm_run_wait(run, LOOK_NS)) == -ETIME)
		progress_add(work_progress(&job->work));
	progress_end();
	return r;
}

static int run_round(struct job *job, struct hm_schedule *schedule, uint32_t policy)
{
	struct hm_run_info info = { .struct_size = sizeof(info) };
	struct result *result = &job->result[policy];
	struct hm_run *run;
	int r;

	work_fill(&job->model);
	work_begin_run(&job->work);
	r = hm_plan_run(schedule, NULL, 0, &run);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot run the graph");
	r = follow(job, run, policies[policy]);
	if (r) {
		hm_run_unref(run);
		return fail_library(STATUS_WRONG, r, NULL, "the graph");
	}
	hm_run_query(run, &info);
	hm_run_unref(run);
	if (!result->ran || (double)info.elapsed_ns * 1e-9 < result->seconds) {
		result->seconds = (double)info.elapsed_ns * 1e-9;
		result->in = (double)info.copy_ns[0] * 1e-9;
		result->out = (double)info.copy_ns[1] * 1e-9;
	}
	result->ran = true;
	return graph_compare(&job->model, policies[policy]);
}

int graph_draw(struct hm_schedule *schedule, const char *file)
{
	static const struct {
		const char *end;
		enum hm_plan_format format;
	} ends[] = {
		{ ".svg", HM_PLAN_SVG },
		{ ".html", HM_PLAN_HTML },
		{ ".json", HM_PLAN_JSON },
		{ ".txt", HM_PLAN_TEXT },
	};
	const char *dot = strrchr(file, '.');
	FILE *out;
	char *text;
	size_t i, n = sizeof(ends) / sizeof(ends[0]);
	int r;

	for (i = 0; i < n && (!dot || strcmp(dot, ends[i].end) != 0); i++)
		;
	r = hm_plan_explain(schedule, i < n ? ends[i].format : HM_PLAN_SVG, &text);

	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "no picture");
	out = fopen(file, "we");
	if (out)
		fputs(text, out);
	free(text);
	if (!out || fclose(out))
		return fail(STATUS_USAGE, errno, NULL, "cannot write %s", file);
	return 0;
}

static int run_policy(struct job *job, uint32_t policy)
{
	struct hm_plan_options options = {
		.struct_size = sizeof(options),
		.flags = HM_PLAN_COPY,
		.policy = policy,
		/* A budget is the plan's: the others show what goes without. */
		.budget = policy == HM_PLAN_AHEAD ? job->options->budget : 0,
		.device = job->device,
	};
	struct hm_schedule *schedule;
	uint64_t round;
	int status = 0, r;

	r = hm_plan_compile(job->plan, job->accel, &options, &schedule);
	if (r)
		return fail_library(r == -ENOSPC && options.budget ? STATUS_USAGE :
								     STATUS_ENVIRONMENT,
				    r, NULL, "no schedule");
	job->result[policy].info.struct_size = sizeof(job->result[policy].info);
	hm_schedule_query(schedule, &job->result[policy].info);
	for (round = 0; !status && round < job->options->rounds; round++) {
		status = run_round(job, schedule, policy);
		if (!status && signals_pending())
			status = 128 + signals_pending();
	}
	if (!status && policy == HM_PLAN_AHEAD && job->options->picture)
		status = graph_draw(schedule, job->options->picture);
	hm_schedule_unref(schedule);
	return status;
}

/* N.bin of each input and output, by its number in the JSON. */
static int save(const struct model *model, const char *folder)
{
	uint32_t i;

	for (i = 0; i < model->n_tensor; i++) {
		const struct tensor *t = &model->tensor[i];
		char *path = t->home ? text_format("%s/%u.bin", folder, i) : NULL;
		FILE *out = path ? fopen(path, "we") : NULL;
		bool done = out && fwrite(t->home, 1, t->bytes, out) == t->bytes;

		if (out && fclose(out))
			done = false;
		if (t->home && !done) {
			int r = errno;

			free(path);
			return fail(STATUS_USAGE, r, "name a folder that exists, and has space",
				    "cannot write %u.bin in %s", i, folder);
		}
		free(path);
	}
	return 0;
}

/* ---- what is printed ---- */

static void row(const struct job *job, const char *title,
		const char *(*value)(const struct result *result, char text[TEXT_MAX]))
{
	char text[TEXT_MAX];
	uint32_t i;

	printf("%-12s", title);
	for (i = 0; i < N_POLICY; i++)
		if (job->result[i].ran)
			printf(" %14s", value(&job->result[i], text));
	putchar('\n');
}

static const char *bytes_in(const struct result *result, char text[TEXT_MAX])
{
	return text_bytes(result->info.bytes_in, text);
}

static const char *bytes_out(const struct result *result, char text[TEXT_MAX])
{
	return text_bytes(result->info.bytes_out, text);
}

static const char *moved(const struct result *result, char text[TEXT_MAX])
{
	return text_bytes(result->info.bytes_moved, text);
}

static const char *peak(const struct result *result, char text[TEXT_MAX])
{
	return text_bytes(result->info.peak, text);
}

static const char *transfers(const struct result *result, char text[TEXT_MAX])
{
	return text_seconds(result->in + result->out, text);
}

static const char *whole(const struct result *result, char text[TEXT_MAX])
{
	return text_seconds(result->seconds, text);
}

static void print_text(const struct job *job)
{
	const struct model *model = &job->model;
	char text[TEXT_MAX], *name = text_escape(model->name);
	uint32_t i;

	printf("%s%s: %u nodes, %u tensors, %s\n", name,
	       model->train ? ", a step of training" : "", model->n_node, model->n_tensor,
	       text_bytes(model->bytes, text));
	free(name);
	printf("accelerator  %s\n", job->work.accel.name);
	if (job->options->budget)
		printf("budget       %s for the plan\n",
		       text_bytes(job->options->budget, text));
	printf("\n%-12s", "");
	for (i = 0; i < N_POLICY; i++)
		if (job->result[i].ran)
			printf(" %14s", policies[i]);
	putchar('\n');
	row(job, "to device", bytes_in);
	row(job, "back", bytes_out);
	row(job, "inside", moved);
	row(job, "peak memory", peak);
	row(job, "transfers", transfers);
	row(job, "whole run", whole);
	if (model->tolerance > 0.0f)
		printf("verified     each number of each output is the CPU's own, to %g\n",
		       (double)model->tolerance);
	else
		puts("verified     each byte of each output is the CPU's own");
	if (model->real)
		puts("compute      for real, in float32; weights and inputs are made by a seed");
	else
		puts("compute      light: each tensor is read and written whole, nothing is trained");
}

static void print_json(const struct job *job)
{
	json_t *object = json_object(), *list = json_object();
	uint32_t i;

	json_object_set_new(object, "model", json_string(job->model.name));
	json_object_set_new(object, "train", json_boolean(job->model.train));
	json_object_set_new(object, "nodes", json_integer(job->model.n_node));
	json_object_set_new(object, "tensors", json_integer(job->model.n_tensor));
	json_object_set_new(object, "bytes", json_integer((json_int_t)job->model.bytes));
	json_object_set_new(object, "accel", json_string(job->work.accel.name));
	json_object_set_new(object, "budget", json_integer((json_int_t)job->options->budget));
	for (i = 0; i < N_POLICY; i++) {
		const struct result *result = &job->result[i];

		if (!result->ran)
			continue;
		json_object_set_new(list, policies[i],
				    json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}",
					      "bytes_in", (json_int_t)result->info.bytes_in,
					      "bytes_out", (json_int_t)result->info.bytes_out,
					      "bytes_moved",
					      (json_int_t)result->info.bytes_moved, "peak",
					      (json_int_t)result->info.peak, "smallest",
					      (json_int_t)result->info.smallest, "evictions",
					      (json_int_t)result->info.evictions, "seconds",
					      result->seconds, "seconds_in", result->in,
					      "seconds_out", result->out));
	}
	json_object_set_new(object, "policies", list);
	json_object_set_new(object, "verified", json_true());
	json_object_set_new(object, "compute", json_string(job->model.real ? "real" : "light"));
	output_object(object);
}

static int run_all(struct job *job)
{
	uint64_t smallest;
	uint32_t policy;
	int r, status;

	r = work_init(&job->work, &job->model, job->accel);
	if (!r)
		r = work_plan(&job->work, &job->plan);
	/* The graph is checked before the CPU computes it. */
	if (!r)
		r = hm_plan_smallest(job->plan, job->accel, NULL, &smallest);
	if (r)
		return fail_library(STATUS_USAGE, r, NULL, "no plan of the graph");
	work_fill(&job->model);
	status = work_expect(&job->work);
	for (policy = 0; !status && policy < N_POLICY; policy++)
		if (job->options->policies >> policy & 1)
			status = run_policy(job, policy);
	if (!status && job->options->save)
		status = save(&job->model, job->options->save);
	if (status)
		return status;
	if (output.json)
		print_json(job);
	else
		print_text(job);
	return 0;
}

int graph_run(const struct graph_options *options)
{
	struct job job = { .options = options };
	int status, r;

	status = model_read(options, &job.model);
	if (status)
		return status;
	r = hm_accel_open(options->accel, NULL, &job.accel);
	if (!r && options->device)
		r = hm_device_open(options->device, &job.device);
	if (r)
		status = fail_library(STATUS_ENVIRONMENT, r, NULL,
				      "cannot open the accelerator");
	else
		status = run_all(&job);
	work_free(&job.work);
	hm_plan_unref(job.plan);
	hm_device_unref(job.device);
	hm_accel_unref(job.accel);
	model_free(&job.model);
	return status;
}
