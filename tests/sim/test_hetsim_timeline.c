// SPDX-License-Identifier: MIT
/* hetsim: timelines. */
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

TEST_MAIN(hetsim_main, "hetsim_timeline", sim_timeline_tests, NULL)
