// SPDX-License-Identifier: MIT
/* hetmap fragment: a command, or whoever comes, on a machine whose memory is in pieces. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"
#include "perf/record/child.h"
#include "perf/stat/fragments.h"
#include "subcommands.h"

enum {
	OPTION_FORCE,
	OPTION_JSON,
	OPTION_QUIET,
	OPTION_HELP,
};

static const struct option_row rows[] = {
	[OPTION_FORCE] = { 0, "force", NULL, "also on a machine that is no small virtual one" },
	[OPTION_JSON] = OPTION_ROW_JSON("print the result as JSON, then run COMMAND"),
	[OPTION_QUIET] = OPTION_ROW_QUIET,
	[OPTION_HELP] = OPTION_ROW_HELP,
	{ 0 },
};

static void usage(void)
{
	puts("Usage: hetmap fragment [OPTION]... PERCENT [-- COMMAND [ARG]...]\n"
	     "\n"
	     "Takes the machine's free memory and gives it back in pieces, so that PERCENT of\n"
	     "free memory lies in pieces below 2 MiB, which hold no huge page. This lasts\n"
	     "while COMMAND runs, or until Ctrl-C; then all is given back. It needs root, and\n"
	     "a virtual machine of 4 GiB at most, as make vm has one.\n"
	     "\n"
	     "Options:");
	option_help(rows);
	puts("\n"
	     "Examples:\n"
	     "  make vm CMD='build/hetmap fragment 90 -- build/hetmap bench first_touch'\n"
	     "  hetmap fragment 50 -- ./program\n"
	     "\n"
	     "Exit status: the command's; 125 where this failed, 126 and 127 where the command\n"
	     "can't be executed or is not there. See also hetmap-fragment(1).");
}

static void tell(uint64_t percent, const struct free_memory *memory)
{
	char small[TEXT_MAX], all[TEXT_MAX];

	if (output.json) {
		output_object(json_pack(
			"{s:I, s:f, s:I, s:I}", "asked_percent", (json_int_t)percent, "percent",
			100 * free_memory_share(memory), "free_bytes",
			(json_int_t)memory->bytes, "small_bytes", (json_int_t)memory->small));
		output_flush();
		return;
	}
	remark("%.1f%% of free memory is in pieces below 2 MiB: %s of %s",
	       100 * free_memory_share(memory), text_bytes(memory->small, small),
	       text_bytes(memory->bytes, all));
}

static int run(char **argv)
{
	struct child child;
	int r, ended;

	if (!argv) {
		remark("Ctrl-C gives it back");
		while (!signals_pending())
			usleep(50000);
		return STATUS_DONE;
	}
	r = child_start(argv, &child);
	if (r)
		return child_start_failed("fragment", r);
	r = child_go(&child);
	if (r)
		return child_exec_failed(argv[0], r);
	while ((r = child_wait(&child, -1, &ended, NULL)) == -ETIME)
		;
	return r ? fail(STATUS_OWN, r, NULL, "fragment: waiting: %s", strerror(-r)) :
		   child_exit_status(ended);
}

static int fragment(uint64_t percent, bool force, char **argv)
{
	char *refusal = force ? NULL : fragment_refusal();
	struct fragments *fragments;
	struct free_memory memory = { 0 };
	int r, status;

	if (refusal) {
		status = fail(STATUS_OWN, EPERM,
			      geteuid() ? NULL : "hetmap fragment --force does it all the same",
			      "fragment: %s", refusal);
		free(refusal);
		return status;
	}
	r = fragment_begin((double)percent / 100, &fragments, &memory);
	if (r == -ERANGE)
		return fail(STATUS_OWN, r,
			    "try again: other programs may have taken memory meanwhile",
			    "fragment: it reached %.1f%% instead of %u%%",
			    100 * free_memory_share(&memory), (unsigned int)percent);
	if (r == -EINTR)
		return 128 + signals_pending();
	if (r)
		return fail(STATUS_OWN, r, r == -EPERM ? "run it as root" : NULL,
			    "fragment: %s", strerror(-r));
	tell(percent, &memory);
	status = run(argv);
	fragment_end(fragments);
	return status;
}

/* What the options say. */
struct wish {
	uint64_t percent;
	bool any; /* it was given */
	bool force;
	char **command; /* NULL: none */
};

static int take_option(const struct option_state *state, int option, void *user)
{
	struct wish *wish = user;

	(void)state;
	(void)option;
	wish->force = true;
	return 0;
}

static int take_argument(const struct option_state *state, void *user)
{
	struct wish *wish = user;

	if (wish->any) {
		wish->command = state->rest;
		return OPTION_END;
	}
	if (option_number(state->value, 0, 100, &wish->percent))
		return fail(STATUS_OWN, EINVAL, NULL,
			    "fragment: PERCENT is a number from 0 to 100");
	wish->any = true;
	return 0;
}

int fragment_main(int argc, char **argv)
{
	static const struct option_table table = {
		.command = "fragment",
		.rows = rows,
		.usage = usage,
		.option = take_option,
		.argument = take_argument,
		.refused = STATUS_OWN,
	};
	struct wish wish = { .any = false };
	int status;

	if (!option_walk(&table, argc, argv, &wish, &status))
		return status;
	if (!wish.any)
		return fail(STATUS_OWN, EINVAL, "hetmap fragment 50 -- COMMAND",
			    "fragment: PERCENT is missing");
	return fragment(wish.percent, wish.force, wish.command);
}
