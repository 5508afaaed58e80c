// SPDX-License-Identifier: MIT
/* hetsim: moves, binds and unbinds that are submissions. */
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

int main(int argc, char **argv)
{
	return hetsim_main(argc, argv, "hetsim_later", sim_later_tests, NULL);
}
