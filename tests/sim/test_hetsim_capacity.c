// SPDX-License-Identifier: MIT
/* hetsim: maps that reach beyond their buffer, into which it grows. */
#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

int main(int argc, char **argv)
{
	return hetsim_main(argc, argv, "hetsim_capacity", sim_capacity_tests, NULL);
}
