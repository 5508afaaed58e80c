// SPDX-License-Identifier: MIT
/* hetsim: submissions as they come, and the report of SUBMIT on earlier ones. */
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

int main(int argc, char **argv)
{
	return hetsim_main(argc, argv, "hetsim_submit", sim_submit_tests, NULL);
}
