// SPDX-License-Identifier: MIT
/* hetsim: random operations on memory that two devices mirror. */
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

static const struct test tests[] = {
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_mirror_random", sim_mirror_random_tests, tests)
