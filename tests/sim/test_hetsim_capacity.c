// SPDX-License-Identifier: MIT
/* hetsim: maps that reach beyond their buffer, into which it grows. */
#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

TEST_MAIN(hetsim_main, "hetsim_capacity", sim_capacity_tests, NULL)
