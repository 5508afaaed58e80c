// SPDX-License-Identifier: MIT
/* The command `hetmap`: finds the subcommand and hands over. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "common/command.h"
#include "common/text.h"
#include "subcommands.h"

static int help_main(int argc, char **argv);
static int version_main(int argc, char **argv);

static const struct command {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{ "run", run_main, "run a job on data in place, and check the result" },
	{ "tour", tour_main, "take one buffer of a device through its life, step by step" },
	{ "devices", devices_main, "list devices and accelerators with their capabilities" },
	{ "doctor", doctor_main,
	  "explain this machine: the limits of hetmap here, and remedies" },
	{ "inspect", inspect_main, "describe a data file: contents, alignment, bytes in RAM" },
	{ "trace", trace_main, "record every page fault of a command, or of a process" },
	{ "report", report_main,
	  "show the buffers and costs of a trace's faults, with advice" },
	{ "top", top_main, "watch processes that use the library, buffer by buffer" },
	{ "explain", explain_main, "say why an address or a buffer of a process is slow" },
	{ "bench", bench_main, "measure this library against plain system calls and OpenCL" },
	{ "stat", stat_main, "run a command, and report the cost of its memory" },
	{ "fragment", fragment_main, "run a command while the machine's memory is in pieces" },
	{ "plan", plan_main, "learn a plan of transfers from a trace, and tell what it saves" },
	{ "help", help_main, "this text, or that of a command" },
	{ "version", version_main, "the version" },
};

#define N_COMMAND (sizeof(commands) / sizeof(commands[0]))

static const struct command *find(const char *name)
{
	size_t i;

	for (i = 0; i < N_COMMAND; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static void usage(void)
{
	size_t i;

	puts("Usage: hetmap COMMAND [OPTION]...\n"
	     "\n"
	     "One pointer to the same bytes for CPU code and accelerators.\n"
	     "\n"
	     "Commands:");
	for (i = 0; i < N_COMMAND; i++)
		printf("  %-10s%s\n", commands[i].name, commands[i].summary);
	puts("\n"
	     "Examples:\n"
	     "  hetmap run histogram                count the bytes of a file of this system\n"
	     "  hetmap run histogram -- FILE        count the bytes of FILE\n"
	     "  hetmap tour                         use a device's memory, step by step\n"
	     "  hetmap doctor                       find the obstacles of this machine\n"
	     "  hetmap help run                     all about one command\n"
	     "\n"
	     "Exit status: 0 done and verified; 1 wrong result, or data lost under way;\n"
	     "2 usage, or no such file; 3 something is missing here; 128 + n on signal n.\n"
	     "\n"
	     "See also hetmap(1), hetmap(7).");
}

static int unknown(const char *name)
{
	const char *names[N_COMMAND + 1] = { NULL };
	char *shown = text_escape(name);
	const char *nearest;
	char *remedy = NULL;
	size_t i;

	for (i = 0; i < N_COMMAND; i++)
		names[i] = commands[i].name;
	nearest = option_nearest(name, names);
	if (nearest)
		remedy = text_format("did you mean hetmap %s?", nearest);
	fail(STATUS_USAGE, EINVAL, remedy ? remedy : "hetmap help lists the commands",
	     *name == '-' ? "unknown option %s" : "unknown command '%s'", shown);
	free(remedy);
	free(shown);
	return STATUS_USAGE;
}

static int help_main(int argc, char **argv)
{
	char help[] = "--help";
	const struct command *command;

	if (argc < 2 || *argv[1] == '-') {
		usage();
		return STATUS_DONE;
	}
	command = find(argv[1]);
	if (!command)
		return unknown(argv[1]);
	if (argc > 2)
		return fail(STATUS_USAGE, EINVAL, "hetmap help COMMAND",
			    "help takes one command");
	if (command->main == help_main || command->main == version_main) {
		usage();
		return STATUS_DONE;
	}
	return command->main(2, (char *[]){ argv[1], help, NULL });
}

static int version_main(int argc, char **argv)
{
	uint32_t loaded = hm_version();

	if (argc > 1 && strcmp(argv[1], "--help") != 0)
		return fail(STATUS_USAGE, EINVAL, "hetmap version",
			    "version takes no argument");
	printf("hetmap %u.%u.%u\n", loaded >> 16, loaded >> 8 & 0xff, loaded & 0xff);
	return STATUS_DONE;
}

int main(int argc, char **argv)
{
	const struct command *command;
	const char *name = argc > 1 ? argv[1] : "";

	output_init();
	output_scan_json(argc, argv);
	signals_init();
	if (argc < 2) {
		usage();
		return output_finish(STATUS_USAGE);
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h"))
		name = "help";
	else if (!strcmp(name, "--version") || !strcmp(name, "-V"))
		name = "version";
	command = find(name);
	if (!command)
		return output_finish(unknown(name));
	return output_finish(command->main(argc - 1, argv + 1));
}
