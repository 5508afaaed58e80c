// SPDX-License-Identifier: MIT
/* hetmap top: options, and looks one after the other. */
#include "perf/top/top.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/command.h"
#include "subcommands.h"

#define DELAY_SECONDS 2.0
/* Between the two looks of --once. */
#define ONCE_SECONDS 0.5

enum {
	OPTION_PID,
	OPTION_SORT,
	OPTION_REVERSE,
	OPTION_FILTER,
	OPTION_DELAY,
	OPTION_ITERATIONS,
	OPTION_ONCE,
	OPTION_JSON,
	OPTION_QUIET,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_PID] = { 'p', "pid", "PID", "show that process alone (default: all)" },
	[OPTION_SORT] = { 's', "sort", "KEY",
			  "mapped, resident, locked, huge, faults, evictions,\n"
			  "brackets, fences or name (default: mapped)" },
	[OPTION_REVERSE] = { 'r', "reverse", NULL, "the least first" },
	[OPTION_FILTER] = { 'f', "filter", "TEXT",
			    "show buffers with TEXT in their name or device, and\n"
			    "processes with TEXT in their name or as number" },
	[OPTION_DELAY] = { 'd', "delay", "SECONDS",
			   "time between two looks, 0.1 to 3600 (default: 2; 0.5\n"
			   "with --once)" },
	[OPTION_ITERATIONS] = { 'n', "iterations", "N",
				"number of looks (default: until q; without a screen,\n"
				"until Ctrl-C)" },
	[OPTION_ONCE] = { '1', "once", NULL, "look once, and print a plain table" },
	[OPTION_JSON] = OPTION_ROW_JSON("print JSON objects, one a line; with --once, one"),
	[OPTION_QUIET] = { 'q', "quiet", NULL, "no remarks" },
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

struct options {
	bool once;
	uint64_t iterations; /* 0: no end */
};

static void usage(void)
{
	puts("Usage: hetmap top [OPTION]...\n"
	     "\n"
	     "Shows the processes that use the library, and for each of their buffers: bytes\n"
	     "mapped, resident, locked and in huge pages, page faults and evictions a second,\n"
	     "open brackets and pending fences. A dash is an unknown figure.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Keys on the screen: q quit, s the next sort key, r the other way round, / filter,\n"
	     "arrows and page keys scroll, space looks at once.\n"
	     "\n"
	     "Examples:\n"
	     "  hetmap top -s faults\n"
	     "  hetmap top --once --json -p 1234\n"
	     "  hetmap top --json -d 10 >>log\n"
	     "\n"
	     "Exit status: 0; 2 usage; 3 no such process, no permission, or no table of it;\n"
	     "128 + n on signal n. See also hetmap-top(1).");
}

/* ---- not on a terminal ---- */

/* False: a signal came; if just before a sleep, it is seen after it: so that is short. */
static bool wait_for(double seconds)
{
	struct timespec time = { 0 };
	double piece;

	for (; seconds > 0 && !signals_pending(); seconds -= piece) {
		piece = seconds < 0.2 ? seconds : 0.2;
		time.tv_nsec = (long)(piece * 1e9);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
	}
	return !signals_pending();
}

static void print_table(const struct top *top)
{
	char *notes[TOP_NOTES_MOST + 1];
	struct top_row *shown;
	size_t n, i;

	top_print_head(top, stdout);
	puts("");
	shown = top_rows(top, &n);
	if (n) {
		top_print_columns(top, stdout);
		puts("");
	}
	for (i = 0; i < n; i++) {
		top_print_row(top, &shown[i], 0, stdout);
		puts("");
	}
	free(shown);
	top_notes(top, notes);
	for (i = 0; notes[i]; i++) {
		remark("%s", notes[i]);
		free(notes[i]);
	}
}

static void print(const struct top *top, const struct options *options)
{
	json_t *object;

	if (!output.json) {
		print_table(top);
		return;
	}
	object = top_json(top);
	if (options->once)
		output_object(object);
	else
		output_line(object);
}

static int run_plain(struct top *top, const struct options *options)
{
	uint64_t i;
	int r;

	r = top_look(top);
	if (r)
		return top_refuse(top, r);
	for (i = 0; !options->iterations || i < options->iterations; i++) {
		/* Rates are of the time between two looks. */
		if (!wait_for(top->delay))
			return 128 + signals_pending();
		r = top_look(top);
		if (r && i && (r == -ESRCH || r == -ENOENT))
			return STATUS_DONE; /* it was there, and has ended */
		if (r)
			return top_refuse(top, r);
		if (i && !output.json)
			puts("");
		print(top, options);
		if (!output_flush())
			return STATUS_DONE; /* output_finish() says it */
	}
	return STATUS_DONE;
}

/* ---- options ---- */

static int parse_key(const struct option_state *state, int option, struct top *top)
{
	int key;

	for (key = 0; key < N_TOP_KEY; key++)
		if (!strcmp(state->value, top_key_names[key])) {
			top->key = (enum top_key)key;
			return 0;
		}
	return option_refuse(state, option,
			     "mapped, resident, locked, huge, faults, evictions, brackets, "
			     "fences or name");
}

static int parse_delay(const struct option_state *state, int option, struct top *top)
{
	char *end;
	double seconds = strtod(state->value, &end);

	if (end == state->value || *end || !(seconds >= 0.1 && seconds <= 3600))
		return option_refuse(state, option, "a number of seconds from 0.1 to 3600");
	top->delay = seconds;
	return 0;
}

/* What the options say. */
struct wish {
	struct top *top;
	struct options *options;
};

static int take_option(const struct option_state *state, int option, void *user)
{
	const struct wish *wish = user;
	struct top *top = wish->top;
	uint64_t number;
	int status;

	switch (option) {
	case OPTION_PID:
		status = option_take_number(state, option, 1, INT32_MAX, "a process's number",
					    &number);
		if (!status)
			top->pid = (pid_t)number;
		return status;
	case OPTION_SORT:
		return parse_key(state, option, top);
	case OPTION_REVERSE:
		top->reverse = true;
		break;
	case OPTION_FILTER:
		top->filter = state->value;
		break;
	case OPTION_DELAY:
		return parse_delay(state, option, top);
	case OPTION_ITERATIONS:
		return option_take_number(state, option, 1, UINT32_MAX, "a number from 1 on",
					  &wish->options->iterations);
	default:
		wish->options->once = true;
		break;
	}
	return 0;
}

int top_main(int argc, char **argv)
{
	const char *term = getenv("TERM");
	static const struct option_table table = {
		.command = "top",
		.rows = rows,
		.usage = usage,
		.option = take_option,
		.remedy = "hetmap top -p PID, or -f TEXT",
	};
	struct options options = { .iterations = 0 };
	struct top top = { .key = TOP_BY_MAPPED };
	struct wish wish = { .top = &top, .options = &options };
	int status;

	if (!option_walk(&table, argc, argv, &wish, &status))
		return status;
	status = fail_without_proc(STATUS_ENVIRONMENT);
	if (status)
		return status;
	if (options.once)
		options.iterations = 1;
	if (top.delay == 0)
		top.delay = options.once ? ONCE_SECONDS : DELAY_SECONDS;
	if (!options.once && !output.json && isatty(STDOUT_FILENO) && term && *term &&
	    strcmp(term, "dumb") != 0)
		status = top_screen(&top, options.iterations);
	else
		status = run_plain(&top, &options);
	top_end(&top);
	return status;
}
