// SPDX-License-Identifier: MIT
/* soft:0, the twin of the module: the tests of both, for each kind of device; its own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"
#include "soft/soft.h"

static const struct {
	const char *name;
	const struct test *tests;
} tables[] = {
	{ "buffers", sim_buffers_tests },
	{ "calls", sim_calls_tests },
	{ "capacity", sim_capacity_tests },
	{ "engine", sim_engine_tests },
	{ "inject", sim_inject_tests },
	{ "limits", sim_limits_tests },
	{ "move", sim_move_tests },
	{ "neighbours", sim_neighbours_tests },
	{ "submit", sim_submit_tests },
	{ "sample", sim_sample_tests },
	{ "unplug", sim_unplug_tests },
	{ "mirror", sim_mirror_tests },
	{ "migrate", sim_migrate_tests },
	{ "mirror_calls", sim_mirror_calls_tests },
	{ "cache", sim_cache_tests },
	{ "slow", sim_slow_tests },
	{ "timeline", sim_timeline_tests },
	{ "sync", sim_sync_tests },
	{ "later", sim_later_tests },
	{ "uses", sim_uses_tests },
	{ "mirror_random", sim_mirror_random_tests },
};

/* HETMAP_SOFT for each kind, and the tests that the kind fits. */
static const struct {
	const char *name;
	const char *settings;
	unsigned int has;
	bool numbers; /* differs from the first in numbers only */
} kinds[] = {
	{ "gpu", "vram_mb=96 system_mb=256 test=1",
	  SIM_REACHED | SIM_SMALL | SIM_LEFT | SIM_MIGRATES, false },
	{ "fpga", "kind=fpga,vram_mb=96,system_mb=256,test=1",
	  SIM_REACHED | SIM_SMALL | SIM_LEFT | SIM_MIGRATES, true },
	{ "nic", "test=1  kind=nic vram_mb=96 system_mb=256, opener_mb=300 devices=2",
	  SIM_REACHED | SIM_SMALL | SIM_MIGRATES, true },
	{ "window", "vram_mb=128 system_mb=256 bar_mb=16 test=1",
	  SIM_WINDOWED | SIM_SMALL | SIM_LEFT | SIM_MIGRATES, false },
	{ "slow", "fault_us=100000", SIM_SLOW, false },
};

#define N_TABLES (sizeof(tables) / sizeof(tables[0]))
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define TESTS_MAX 640

static struct test tests[TESTS_MAX + 1];
static struct {
	const struct test *test;
	unsigned int kind;
} what[TESTS_MAX];

static void run(void)
{
	size_t at = (size_t)(test_current() - tests);

	setenv("HETMAP_SOFT", kinds[what[at].kind].settings, 1);
	what[at].test->run();
}

/* For one of them at least. */
static bool fits_any(const struct test *test)
{
	unsigned int kind;

	for (kind = 0; kind < N_KINDS; kind++)
		if (sim_test_fits(test, kinds[kind].has))
			return true;
	return false;
}

static int lay_out(void)
{
	unsigned int kind, table, n = 0;
	const struct test *test;
	char *name;

	for (kind = 0; kind < N_KINDS; kind++) {
		/* The same code, in ten times the time. */
		if (kinds[kind].numbers && (TEST_ASAN || TEST_TSAN))
			continue;
		for (table = 0; table < N_TABLES; table++) {
			for (test = tables[table].tests; test->name; test++) {
				if (!fits_any(test))
					return -1;
				if (!sim_test_fits(test, kinds[kind].has))
					continue;
				if (n == TESTS_MAX ||
				    asprintf(&name, "%s.%s.%s", kinds[kind].name,
					     tables[table].name, test->name) < 0)
					return -1;
				what[n].test = test;
				what[n].kind = kind;
				tests[n] = *test;
				tests[n].name = name;
				tests[n].run = run;
				n++;
			}
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	hetsim_use_soft();
	if (lay_out()) {
		fprintf(stderr,
			"soft: no memory, too many tests, or one that fits no device\n");
		return 1;
	}
	return harness_main(argc, argv, "soft", tests);
}
