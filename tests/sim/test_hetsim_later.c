// SPDX-License-Identifier: MIT
/* hetsim: moves, binds and unbinds that are submissions. */
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

TEST_MAIN(hetsim_main, "hetsim_later", sim_later_tests, NULL)
