// SPDX-License-Identifier: MIT
/* hetsim: timelines. */
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

int main(int argc, char **argv)
{
	return hetsim_main(argc, argv, "hetsim_timeline", sim_timeline_tests, NULL);
}
