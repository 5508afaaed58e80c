// SPDX-License-Identifier: MIT
/* hetsim: maps that reach beyond their buffer, into which it grows. */
#include "harness.h"
#include "hetsim.h"
#include "sim_tests.h"

int main(int argc, char **argv)
{
	return hetsim_main(argc, argv, "hetsim_capacity", sim_capacity_tests, NULL);
}
