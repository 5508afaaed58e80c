// SPDX-License-Identifier: MIT
/* libexec/hetmap/tier: what `hetmap bench` runs for memory that lasts. */
#include <stdio.h>
#include <string.h>

#include "bench_tier.h"
#include "common/command.h"
#include "perf/bench/bench_list.h"

static const struct bench cases[] = {
	{ "persist", "stores to a DAX device, made to last", bench_persist,
	  peer_persist_source },
	{ "log_append", "a record of 256 bytes that outlives a power failure", bench_log_append,
	  peer_persist_source },
};

int main(int argc, char **argv)
{
	if (argc && !strcmp(argv[0], "bench"))
		return bench_main_of(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
	fputs("this is a part of hetmap: hetmap bench persist runs it\n", stderr);
	return STATUS_USAGE;
}
