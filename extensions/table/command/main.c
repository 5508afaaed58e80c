// SPDX-License-Identifier: MIT
/*
 * libexec/hetmap/table: what `hetmap run table` runs, and what `hetmap inspect` and `hetmap bench`
 * run for tables, by the name in argv[0].
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_tables.h"
#include "common/command.h"
#include "common/text.h"
#include "inspect_table.h"
#include "table_job.h"

enum {
	OPTION_COLUMNS,
	OPTION_GROUP_BY,
	OPTION_FILTER,
	OPTION_DEVICE,
	OPTION_ACCEL,
	OPTION_WINDOW,
	OPTION_THREADS,
	OPTION_ROUNDS,
	OPTION_ROWS,
	OPTION_NO_HEADER,
	OPTION_SEPARATOR,
	OPTION_WHOLE,
	OPTION_JSON,
	OPTION_QUIET,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_COLUMNS] = { 0, "columns", "A,B",
			     "columns to add up (default: the first four of numbers)" },
	[OPTION_GROUP_BY] = { 0, "group-by", "K",
			      "column of the keys: each of its values has sums of its\n"
			      "own; '' for none (default: the first column of text,\n"
			      "or of bools)" },
	[OPTION_FILTER] = { 0, "filter", "TEST",
			    "rows to add up, as \"volume>=1000\"; <, <=, ==, !=, >=\n"
			    "and > compare numbers, dates, times, bools and texts" },
	[OPTION_DEVICE] = OPTION_ROW_DEVICE("HETMAP_DEVICE, or host"),
	[OPTION_ACCEL] = OPTION_ROW_ACCEL("opencl:0, or cpu where there is none"),
	[OPTION_WINDOW] = { 0, "window", "SIZE",
			    "memory for the rows, batch by batch, from 64K\n"
			    "(default: all of the columns, if memory allows)" },
	[OPTION_THREADS] = { 0, "threads", "N",
			     "threads that decode, 1 to 64 (default: one for each\n"
			     "CPU, at most 8)" },
	[OPTION_ROUNDS] = { 'r', "rounds", "N",
			    "measured rounds, 1 to 1000\n"
			    "(default: 1 to 101, by the time they take)" },
	[OPTION_ROWS] = { 'n', "rows", "ROWS", "printed groups; 0: all (default: 10)" },
	[OPTION_NO_HEADER] = { 0, "no-header", NULL,
			       "CSV: the first line has values, and columns are f0, f1" },
	[OPTION_SEPARATOR] = { 0, "separator", "C",
			       "CSV: the character between two values (default: ,)" },
	[OPTION_WHOLE] = { 0, "whole", NULL,
			   "CSV: the types of columns are those of all rows, not\n"
			   "of the first 1 MiB" },
	[OPTION_JSON] = OPTION_ROW_JSON("print the result, or the failure, as JSON"),
	[OPTION_QUIET] = OPTION_ROW_QUIET,
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

static void usage(void)
{
	puts("Usage: hetmap run table [OPTION]... [--] FILE...\n"
	     "\n"
	     "Adds up columns of a table by groups, on an accelerator. FILE is a file of Arrow\n"
	     "(also Feather, or a stream), Parquet or CSV, or a folder of such files; several\n"
	     "files are one table. Columns of Arrow that are stored plainly are used where\n"
	     "they lie; others are decoded once, into memory that the accelerator reads. The\n"
	     "CPU checks each count and each sum.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap run table trades.parquet\n"
	     "  hetmap run table --columns volume,money --group-by symbol days/\n"
	     "  hetmap run table --filter \"frame>=2024-01-02\" --json bars.arrow\n"
	     "  hetmap run table --window 256M --accel cpu large.parquet\n"
	     "  hetmap run table --separator ';' measured.csv\n"
	     "\n"
	     "Exit status: 0 done and verified; 1 wrong result, or a damaged file; 2 usage, or\n"
	     "a missing file; 3 something is missing here; 128 + n on signal n.\n"
	     "See also hetmap-table(1).");
}

static int take_number(const struct option_state *state, int option,
		       struct table_options *options)
{
	static const struct {
		uint64_t least, most;
		const char *expected;
	} ranges[] = {
		[OPTION_THREADS] = { 1, 64, "a number from 1 to 64" },
		[OPTION_ROUNDS] = { 1, 1000, "a number from 1 to 1000" },
		[OPTION_ROWS] = { 0, UINT32_MAX, "a number from 0 on" },
	};
	uint64_t *to = option == OPTION_THREADS ? &options->threads :
		       option == OPTION_ROUNDS  ? &options->rounds :
						  &options->rows;

	return option_number(state->value, ranges[option].least, ranges[option].most, to) ?
		       option_refuse(state, option, ranges[option].expected) :
		       0;
}

static int take_value(const struct option_state *state, int option, void *user)
{
	struct table_options *options = user;

	switch (option) {
	case OPTION_COLUMNS:
		options->columns = state->value;
		break;
	case OPTION_GROUP_BY:
		options->group_by = state->value;
		break;
	case OPTION_FILTER:
		options->filter = state->value;
		break;
	case OPTION_DEVICE:
		options->device = state->value;
		break;
	case OPTION_ACCEL:
		options->accel = state->value;
		break;
	case OPTION_WINDOW:
		if (option_bytes(state->value, &options->window) || options->window < 64 << 10)
			return option_refuse(state, option, "bytes, from 64K on, as in 256M");
		break;
	case OPTION_NO_HEADER:
		options->no_header = true;
		break;
	case OPTION_SEPARATOR:
		options->separator = !strcmp(state->value, "\\t") ? "\t" : state->value;
		if (strlen(options->separator) != 1)
			return option_refuse(state, option, "one character; \\t for a tab");
		break;
	case OPTION_WHOLE:
		options->whole = true;
		break;
	default:
		return take_number(state, option, options);
	}
	return 0;
}

static int take_file(const struct option_state *state, void *user)
{
	struct table_options *options = user;

	options->files[options->n_files++] = state->value;
	return 0;
}

static int run_chosen(int argc, char **argv, const char **files)
{
	static const struct option_table table = {
		.command = "run",
		.rows = rows,
		.usage = usage,
		.option = take_value,
		.argument = take_file,
	};
	struct table_options options = { .files = files, .rows = 10 };
	int status;

	if (!option_walk(&table, argc, argv, &options, &status))
		return status;
	if (!options.n_files)
		return fail(STATUS_USAGE, EINVAL, "hetmap run table trades.parquet",
			    "run: table needs a file");
	return table_run(&options);
}

static int run_main_of_table(int argc, char **argv)
{
	const char **files = calloc((size_t)argc + 1, sizeof(*files));
	int status;

	if (!files)
		return fail(STATUS_ENVIRONMENT, ENOMEM, NULL, "no memory");
	status = run_chosen(argc, argv, files);
	free(files);
	return status;
}

/* Commands that this program does a part of; run is all others. */
static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} parts[] = {
	{ "inspect", inspect_table_main },
	{ "bench", bench_tables_main },
};

int main(int argc, char **argv)
{
	int (*part)(int argc, char **argv) = run_main_of_table;
	size_t i;

	output_init();
	output_scan_json(argc, argv);
	signals_init();
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (argc && !strcmp(argv[0], parts[i].name))
			part = parts[i].main;
	return output_finish(part(argc, argv));
}
