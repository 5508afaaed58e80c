// SPDX-License-Identifier: MIT
/*
 * libexec/hetmap/graph: `hetmap run graph`, and `hetmap plan` and the cases of `hetmap
 * bench` by the name in argv[0].
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench_graph.h"
#include "graph_job.h"

enum {
	OPTION_POLICY,
	OPTION_BUDGET,
	OPTION_TRAIN,
	OPTION_DIM,
	OPTION_PICTURE,
	OPTION_SAVE,
	OPTION_ROUNDS,
	OPTION_DEVICE,
	OPTION_ACCEL,
	OPTION_JSON,
	OPTION_QUIET,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_POLICY] = { 0, "policy", "NAME",
			    "plan, up-front or per-op (default: one after the other)" },
	[OPTION_BUDGET] = { 0, "budget", "SIZE", "most memory of the device for the plan" },
	[OPTION_TRAIN] = { 0, "train", NULL,
			   "ONNX: a step of training, graph backward included" },
	[OPTION_DIM] = { 0, "dim", "N=8",
			 "ONNX: size of the dimension N; N is also the first\n"
			 "dimension of inputs" },
	[OPTION_PICTURE] = { 0, "picture", "FILE",
			     "writes the plan as a picture, in SVG, or as .html,\n"
			     ".json or .txt with each reason" },
	[OPTION_SAVE] = { 0, "save", "FOLDER",
			  "writes inputs and outputs there, as N.bin by their number\n"
			  "in the JSON" },
	[OPTION_ROUNDS] = { 'r', "rounds", "N",
			    "runs of each policy, 1 to 1000; the fastest counts\n"
			    "(default: 1)" },
	[OPTION_DEVICE] = OPTION_ROW_DEVICE("the accelerator's own, or host"),
	[OPTION_ACCEL] = OPTION_ROW_ACCEL("soft:0"),
	[OPTION_JSON] = OPTION_ROW_JSON("print the result, or the failure, as JSON"),
	[OPTION_QUIET] = OPTION_ROW_QUIET,
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

static void usage(void)
{
	puts("Usage: hetmap run graph [OPTION]... [--] MODEL\n"
	     "\n"
	     "Runs the graph of MODEL with the true sizes of its tensors, by a plan that decides\n"
	     "all transfers ahead, by bringing everything in up front, and by copies around each\n"
	     "operation. MODEL is a model of ONNX, or the JSON that tools/graph makes of one.\n"
	     "Small nets of convolutions are computed for real. Operations of other models are\n"
	     "light: they read and write each byte of their tensors. The CPU checks the outputs.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap run graph resnet50\n"
	     "  hetmap run graph --train --dim N=8 --budget 1.2G resnet50\n"
	     "  hetmap run graph --accel cpu --picture plan.svg model.json\n"
	     "\n"
	     "Exit status: 0 done and verified; 1 wrong result, or the device was lost; 2 usage, a\n"
	     "missing file, a budget that is too small; 3 something is missing here; 128 + n on\n"
	     "signal n. See also hetmap-plan(1).");
}

static int take_policy(const struct option_state *state, struct graph_options *options)
{
	static const char *const names[] = { "plan", "up-front", "per-op" };
	uint32_t i;

	for (i = 0; i < 3; i++)
		if (!strcmp(state->value, names[i])) {
			options->policies = 1u << i;
			return 0;
		}
	return option_refuse(state, OPTION_POLICY, "plan, up-front or per-op");
}

static int take_option(const struct option_state *state, int option, void *user)
{
	struct graph_options *options = user;

	switch (option) {
	case OPTION_POLICY:
		return take_policy(state, options);
	case OPTION_BUDGET:
		if (option_bytes(state->value, &options->budget) || !options->budget)
			return option_refuse(state, option, "bytes, as in 256M");
		break;
	case OPTION_TRAIN:
		options->train = true;
		break;
	case OPTION_DIM:
		if (options->n_dim == sizeof(options->dims) / sizeof(options->dims[0]))
			return option_refuse(state, option, "at most eight dimensions");
		options->dims[options->n_dim++] = state->value;
		break;
	case OPTION_PICTURE:
		options->picture = state->value;
		break;
	case OPTION_SAVE:
		options->save = state->value;
		break;
	case OPTION_ROUNDS:
		if (option_number(state->value, 1, 1000, &options->rounds))
			return option_refuse(state, option, "a number from 1 to 1000");
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
	struct graph_options *options = user;

	if (options->file)
		return fail(STATUS_USAGE, EINVAL, NULL, "run: graph takes one model");
	options->file = state->value;
	return 0;
}

static int run_chosen(int argc, char **argv)
{
	static const struct option_table table = {
		.command = "run",
		.rows = rows,
		.usage = usage,
		.option = take_option,
		.argument = take_argument,
	};
	struct graph_options options = { .accel = "soft:0", .rounds = 1, .policies = 7 };
	int status;

	if (!option_walk(&table, argc, argv, &options, &status))
		return status;
	if (!options.file)
		return fail(STATUS_USAGE, EINVAL, "hetmap run graph model.onnx",
			    "run: graph needs a model");
	return graph_run(&options);
}

int main(int argc, char **argv)
{
	output_init();
	output_scan_json(argc, argv);
	signals_init();
	if (argc && !strcmp(argv[0], "plan"))
		return output_finish(plan_part_main(argc, argv));
	if (argc && !strcmp(argv[0], "bench"))
		return output_finish(bench_graph_main(argc, argv));
	return output_finish(run_chosen(argc, argv));
}
