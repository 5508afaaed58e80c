// SPDX-License-Identifier: MIT
/* hetmap bench: the benchmarks are a program of their own, tools/perf/bench. */
#include "common/extension.h"
#include "subcommands.h"

int bench_main(int argc, char **argv)
{
	(void)argc;
	return libexec_run(
		"hetmap-bench", "bench",
		"install the package hetmap, or run \"make\" in the checkout of hetmap", argv);
}
