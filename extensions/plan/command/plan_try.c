// SPDX-License-Identifier: MIT
/*
 * hetmap plan: `learn` makes a graph of a trace, `try` compiles a plan of it and compares its bytes
 * with those that the program moved by hand. Nothing runs.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "graph_job.h"
#include "learn.h"

enum {
	OPTION_OUTPUT,
	OPTION_WAITS,
	OPTION_BUDGET,
	OPTION_PICTURE,
	OPTION_DEVICE,
	OPTION_ACCEL,
	OPTION_JSON,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_OUTPUT] = { 'o', "output", "FILE", "learn: writes the graph there" },
	[OPTION_WAITS] = { 0, "waits", NULL,
			   "of a trace: the CPU may have touched all ranges after\n"
			   "each wait; otherwise only by brackets, and at the end" },
	[OPTION_BUDGET] = { 0, "budget", "SIZE", "try: most memory of the device" },
	[OPTION_PICTURE] = { 0, "picture", "FILE",
			     "try: writes the plan as a picture, in SVG, or as\n"
			     ".html, .json or .txt with each reason" },
	[OPTION_DEVICE] = OPTION_ROW_DEVICE("the accelerator's own, or host"),
	[OPTION_ACCEL] = OPTION_ROW_ACCEL("cpu"),
	[OPTION_JSON] = OPTION_ROW_JSON("print the result, or the failure, as JSON"),
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

struct trial {
	bool learns;
	struct graph_options options;
	const char *output_file;
	bool waits;
	json_t *graph;
	struct by_hand by_hand;
	struct model model;
	struct work work;
	struct hm_accel *accel;
	struct hm_device *device;
	struct hm_plan *plan;
	struct hm_schedule_info info;
};

static void usage(void)
{
	puts("Usage: hetmap plan learn [--waits] [-o FILE] [--] TRACE\n"
	     "       hetmap plan try [OPTION]... [--] TRACE-OR-GRAPH\n"
	     "\n"
	     "Learns the graph of a program that launched by hand from its trace, which\n"
	     "HETMAP_TRACE=trace.json makes, and tells what a plan of it would move and save.\n"
	     "hetmap run graph runs a learned graph.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  HETMAP_TRACE=trace.json hetmap run saxpy --size 16M\n"
	     "  hetmap plan learn -o saxpy.json trace.json\n"
	     "  hetmap plan try saxpy.json\n"
	     "  hetmap run graph saxpy.json\n"
	     "\n"
	     "Exit status: 0 done; 2 usage, a missing file, or no trace; 3 something is missing\n"
	     "here. See also hetmap-plan-try(1).");
}

/* ---- the graph: of a trace, or learned before ---- */

static uint64_t number(const json_t *json, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(json, key));
}

static int take_learned(struct trial *trial, FILE *in)
{
	const json_t *hand;
	json_error_t error;

	trial->graph = json_loadf(in, JSON_REJECT_DUPLICATES, &error);
	if (!trial->graph)
		return fail(STATUS_USAGE, EINVAL, NULL, "%s: %s", trial->options.file,
			    error.text);
	hand = json_object_get(trial->graph, "by_hand");
	if (!hand)
		return fail(STATUS_USAGE, EINVAL, "hetmap run graph runs graphs of models",
			    "%s is neither a trace nor learned from one", trial->options.file);
	trial->by_hand = (struct by_hand){
		.launches = number(hand, "launches"),
		.failed = number(hand, "failed"),
		.copied = number(hand, "copied"),
		.copies = number(hand, "copies"),
		.brackets = number(hand, "brackets"),
		.bytes_in = number(hand, "bytes_in"),
		.bytes_out = number(hand, "bytes_out"),
		.waits = json_is_true(json_object_get(hand, "waits")),
	};
	return 0;
}

/* A trace is an array, a graph an object. */
static int take_file(struct trial *trial)
{
	struct events events = { 0 };
	const char *file = trial->options.file, *slash = strrchr(file, '/');
	FILE *in = fopen(file, "re");
	int c, status;

	if (!in)
		return fail(STATUS_USAGE, errno, NULL, "cannot open %s", file);
	do
		c = getc(in);
	while (c != EOF && isspace(c));
	rewind(in);
	if (c == '{' && !trial->learns) {
		status = take_learned(trial, in);
	} else if (c != '[') {
		status = fail(STATUS_USAGE, EINVAL, "make it by HETMAP_TRACE=trace.json",
			      "%s is no trace", file);
	} else {
		status = events_read(in, file, &events);
		if (!status)
			status = learn(&events, slash ? slash + 1 : file, trial->waits,
				       &trial->graph, &trial->by_hand);
		events_free(&events);
	}
	fclose(in);
	return status;
}

static int write_graph(const struct trial *trial)
{
	FILE *out = trial->output_file ? fopen(trial->output_file, "we") : stdout;
	int r;

	if (!out)
		return fail(STATUS_USAGE, errno, NULL, "cannot write %s", trial->output_file);
	r = json_dumpf(trial->graph, out, JSON_INDENT(1) | JSON_COMPACT);
	if (out == stdout) {
		putchar('\n');
		return 0;
	}
	if (fclose(out) || r)
		return fail(STATUS_USAGE, errno, NULL, "cannot write %s", trial->output_file);
	remark("%s: %" PRIu64 " launches on %zu ranges", trial->output_file,
	       trial->by_hand.launches,
	       json_array_size(json_object_get(trial->graph, "tensors")));
	return 0;
}

/* ---- the plan ---- */

static int compile(struct trial *trial)
{
	struct hm_plan_options options = {
		.struct_size = sizeof(options),
		.flags = HM_PLAN_COPY,
		.budget = trial->options.budget,
	};
	struct hm_schedule *schedule;
	int r, status = 0;

	r = hm_accel_open(trial->options.accel, NULL, &trial->accel);
	if (!r && trial->options.device)
		r = hm_device_open(trial->options.device, &trial->device);
	if (r)
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot open the accelerator");
	options.device = trial->device;
	r = work_init(&trial->work, &trial->model, trial->accel);
	if (!r)
		r = work_plan(&trial->work, &trial->plan);
	if (!r)
		r = hm_plan_compile(trial->plan, trial->accel, &options, &schedule);
	if (r)
		return fail_library(r == -ENOSPC && options.budget ? STATUS_USAGE :
								     STATUS_ENVIRONMENT,
				    r, NULL, "no schedule");
	trial->info.struct_size = sizeof(trial->info);
	hm_schedule_query(schedule, &trial->info);
	if (trial->options.picture)
		status = graph_draw(schedule, trial->options.picture);
	hm_schedule_unref(schedule);
	return status;
}

static void print_json(const struct trial *trial)
{
	const struct by_hand *hand = &trial->by_hand;

	output_object(json_pack(
		"{s:s, s:I, s:I, s:{s:I, s:I}, s:{s:I, s:I, s:I, s:I}}", "name",
		trial->model.name, "launches", (json_int_t)hand->launches, "ranges",
		(json_int_t)trial->model.n_tensor, "by_hand", "bytes_in",
		(json_int_t)hand->bytes_in, "bytes_out", (json_int_t)hand->bytes_out, "plan",
		"bytes_in", (json_int_t)trial->info.bytes_in, "bytes_out",
		(json_int_t)trial->info.bytes_out, "peak", (json_int_t)trial->info.peak,
		"smallest", (json_int_t)trial->info.smallest));
}

static void line(const char *title, uint64_t by_hand, uint64_t plan)
{
	char a[TEXT_MAX], b[TEXT_MAX];

	printf("%-12s %14s %14s\n", title, text_bytes(by_hand, a), text_bytes(plan, b));
}

static void print_text(const struct trial *trial)
{
	const struct by_hand *hand = &trial->by_hand;
	uint64_t by_hand = hand->bytes_in + hand->bytes_out;
	uint64_t plan = trial->info.bytes_in + trial->info.bytes_out;
	char text[TEXT_MAX], *name = text_escape(trial->model.name);

	printf("%s: %" PRIu64 " launches, %" PRIu64 " of them with copies, on %u ranges\n\n",
	       name, hand->launches, hand->copied, trial->model.n_tensor);
	free(name);
	printf("%-12s %14s %14s\n", "", "by hand", "plan");
	line("to device", hand->bytes_in, trial->info.bytes_in);
	line("back", hand->bytes_out, trial->info.bytes_out);
	printf("peak memory  %14s %14s\n", "", text_bytes(trial->info.peak, text));
	if (!by_hand)
		puts("saved        nothing: each launch used its ranges in place");
	else if (plan < by_hand)
		printf("saved        %.1f%% of the bytes, %s\n",
		       100.0 * (double)(by_hand - plan) / (double)by_hand,
		       text_bytes(by_hand - plan, text));
	else
		puts("saved        nothing: the program moves no more than a plan");
	printf("the CPU      %s\n",
	       hand->waits ? "is taken to touch all ranges after each wait" :
			     "is taken to touch ranges in brackets and at the end only "
			     "(--waits: after each wait)");
	if (hand->failed)
		printf("left out     %" PRIu64 " launches that failed\n", hand->failed);
}

static int try_plan(struct trial *trial)
{
	int status = model_take(trial->options.file, trial->graph, &trial->model);

	if (!status)
		status = compile(trial);
	if (status)
		return status;
	if (output.json)
		print_json(trial);
	else
		print_text(trial);
	return 0;
}

/* ---- options ---- */

static int take_option(const struct option_state *state, int option, void *user)
{
	struct trial *trial = user;
	struct graph_options *options = &trial->options;

	switch (option) {
	case OPTION_OUTPUT:
		trial->output_file = state->value;
		break;
	case OPTION_WAITS:
		trial->waits = true;
		break;
	case OPTION_BUDGET:
		if (option_bytes(state->value, &options->budget) || !options->budget)
			return option_refuse(state, option, "bytes, as in 256M");
		break;
	case OPTION_PICTURE:
		options->picture = state->value;
		break;
	case OPTION_DEVICE:
		options->device = state->value;
		break;
	default:
		options->accel = state->value;
	}
	return 0;
}

static int take_argument(const struct option_state *state, void *user)
{
	struct trial *trial = user;

	if (trial->options.file)
		return fail(STATUS_USAGE, EINVAL, NULL, "plan: one file at a time");
	trial->options.file = state->value;
	return 0;
}

static int refuse_words(void)
{
	return fail(STATUS_USAGE, EINVAL, "hetmap plan learn TRACE, hetmap plan try TRACE",
		    "plan: say learn or try");
}

int plan_part_main(int argc, char **argv)
{
	static const struct option_table table = {
		.command = "plan",
		.rows = rows,
		.usage = usage,
		.option = take_option,
		.argument = take_argument,
	};
	struct trial trial = { .options.accel = "cpu" };
	int status;

	if (argc < 2)
		return refuse_words();
	trial.learns = !strcmp(argv[1], "learn");
	if (!trial.learns && strcmp(argv[1], "try") != 0) {
		if (strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0)
			return refuse_words();
		usage();
		return STATUS_DONE;
	}
	if (!option_walk(&table, argc - 1, argv + 1, &trial, &status))
		return status;
	if (!trial.options.file)
		return fail(STATUS_USAGE, EINVAL, "hetmap plan try trace.json",
			    "plan: %s needs a file", argv[1]);
	status = take_file(&trial);
	if (!status)
		status = trial.learns ? write_graph(&trial) : try_plan(&trial);
	work_free(&trial.work);
	hm_plan_unref(trial.plan);
	hm_device_unref(trial.device);
	hm_accel_unref(trial.accel);
	model_free(&trial.model);
	json_decref(trial.graph);
	return status;
}
