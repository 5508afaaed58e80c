// SPDX-License-Identifier: MIT
/* hetsim: random operations on memory that two devices mirror. */
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

static const struct test tests[] = {
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return hetsim_main(argc, argv, "hetsim_mirror_random", sim_mirror_random_tests, tests);
}
