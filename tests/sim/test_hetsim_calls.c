// SPDX-License-Identifier: MIT
/* hetsim: every call, bad values, and a device that is taken away. */
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

TEST_MAIN(hetsim_main, "hetsim_calls", sim_calls_tests, NULL)
