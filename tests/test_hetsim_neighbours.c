// SPDX-License-Identifier: MIT
/* hetsim: what one opener leaves to others. */
#include "harness.h"
#include "hetsim.h"
#include "sim_tests.h"

int main(int argc, char **argv)
{
	return hetsim_main(argc, argv, "hetsim_neighbours", sim_neighbours_tests, NULL);
}
