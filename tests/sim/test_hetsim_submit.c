// SPDX-License-Identifier: MIT
/* hetsim: submissions as they come, and the report of SUBMIT on earlier ones. */
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

TEST_MAIN(hetsim_main, "hetsim_submit", sim_submit_tests, NULL)
