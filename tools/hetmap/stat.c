// SPDX-License-Identifier: MIT
/* hetmap stat: options, repetitions, exit status. */
#include "perf/stat/stat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/machine.h"
#include "common/text.h"
#include "subcommands.h"

enum { OPTION_REPEAT, OPTION_OUTPUT, OPTION_JSON, OPTION_VERBOSE, OPTION_HELP };

static const struct option_row rows[] = {
	[OPTION_REPEAT] = { 'r', "repeat", "N", "run the command N times (default: 1)" },
	[OPTION_OUTPUT] = { 'o', "output", "FILE",
			    "write the report there (default: standard error)" },
	[OPTION_JSON] = OPTION_ROW_JSON("the report as one JSON object"),
	[OPTION_VERBOSE] = { 'v', "verbose", NULL,
			     "also the machine's counters that did not change" },
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

static void usage(void)
{
	puts("Usage: hetmap stat [OPTION]... [--] COMMAND [ARG]...\n"
	     "\n"
	     "Runs a command and reports the cost of its memory: times, page faults, TLB\n"
	     "misses, page tables, events of the machine's memory management meanwhile, and\n"
	     "the fragments of free memory before and after. Exits with the command's status.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  hetmap stat -- hetmap run histogram\n"
	     "  hetmap stat -r 10 -o report.txt -- make\n"
	     "\n"
	     "Exit status: the command's, the last that was not 0 of the repetitions; 128 + n on\n"
	     "signal n; 125 hetmap's own failure; 126 not executable; 127 not found.\n"
	     "\n"
	     "See also hetmap-stat(1).");
}

static int cannot_write(const char *path, int error)
{
	char *shown = text_escape(path);

	fail(STATUS_OWN, error, NULL, "stat: cannot write the report to %s: %s", shown,
	     strerror(error));
	free(shown);
	return STATUS_OWN;
}

/* In one piece, so that nothing of others comes between. 0 or a negative errno. */
static int report(const struct stat_result *result, FILE *out)
{
	char *text = NULL;
	size_t size = 0;
	FILE *memory = open_memstream(&text, &size);
	int r = 0;

	if (!memory)
		return -errno;
	if (result->json)
		stat_print_json(result, memory);
	else
		stat_print(result, memory);
	if (fclose(memory) || fwrite(text, 1, size, out) != size || fflush(out))
		r = -errno;
	free(text);
	return r;
}

/* Closes @out, but for standard error. */
static int measure(struct stat_result *result, FILE *out, const char *path)
{
	int i, r = 0;

	for (i = 0; i < N_STAT; i++)
		result->metrics[i].share = 1;
	free_read(result, &result->before);
	while (result->runs < result->asked && !result->signal)
		if (stat_run(result))
			break;
	free_read(result, &result->after);
	/* A command that never began has nothing to report. */
	if (result->runs)
		r = report(result, out);
	/* It was flushed: only file systems that write at the end can fail now. */
	if (out != stderr && fclose(out) && !r)
		r = -errno;
	if (r)
		result->status = cannot_write(path, -r);
	free(result->before.zones);
	free(result->after.zones);
	free(result->vmstat.rows);
	return result->status;
}

/* What the options say. */
struct wish {
	struct stat_result result;
	const char *path; /* NULL: standard error */
};

static int take_option(const struct option_state *state, int option, void *user)
{
	struct wish *wish = user;
	uint64_t repeat;
	int status;

	switch (option) {
	case OPTION_REPEAT:
		status = option_take_number(state, option, 1, 1000000,
					    "a number from 1 to 1000000", &repeat);
		if (!status)
			wish->result.asked = (unsigned int)repeat;
		return status;
	case OPTION_OUTPUT:
		wish->path = state->value;
		break;
	default:
		wish->result.verbose = true;
		break;
	}
	return 0;
}

/* All that follows is the command's, "--json", too. */
static int take_argument(const struct option_state *state, void *user)
{
	struct wish *wish = user;

	wish->result.command = state->rest;
	output.json = state->json;
	return OPTION_END;
}

int stat_main(int argc, char **argv)
{
	static const struct option_table table = {
		.command = "stat",
		.rows = rows,
		.usage = usage,
		.option = take_option,
		.argument = take_argument,
		.refused = STATUS_OWN,
	};
	struct wish wish = { .result = { .asked = 1, .root = machine_root() } };
	FILE *out = stderr;
	int status;

	if (!option_walk(&table, argc, argv, &wish, &status))
		return status;
	wish.result.json = output.json;
	if (!wish.result.command)
		return fail(STATUS_OWN, EINVAL, "hetmap stat -- COMMAND [ARG]...",
			    "stat: there is no command to run");
	if (wish.path)
		out = fopen(wish.path, "we");
	if (!out)
		return cannot_write(wish.path, errno);
	return measure(&wish.result, out, wish.path ? wish.path : "standard error");
}
