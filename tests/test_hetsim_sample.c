// SPDX-License-Identifier: MIT
/* hetsim: which pages of a buffer are used. */
#include "harness.h"
#include "hetsim.h"
#include "sim_tests.h"

int main(int argc, char **argv)
{
	return hetsim_main(argc, argv, "hetsim_sample", sim_sample_tests, NULL);
}
