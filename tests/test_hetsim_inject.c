// SPDX-License-Identifier: MIT
/* hetsim: faults that an opener may ask for on what is its own. */
#include "harness.h"
#include "hetsim.h"
#include "sim_tests.h"

int main(int argc, char **argv)
{
	return hetsim_main(argc, argv, "hetsim_inject", sim_inject_tests, NULL);
}
