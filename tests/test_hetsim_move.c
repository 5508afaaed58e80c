// SPDX-License-Identifier: MIT
/* hetsim: pages that move, by command and to make room, under those who use them. */
#include "harness.h"
#include "hetsim.h"
#include "sim_tests.h"

int main(int argc, char **argv)
{
	return hetsim_main(argc, argv, "hetsim_move", sim_move_tests, NULL);
}
