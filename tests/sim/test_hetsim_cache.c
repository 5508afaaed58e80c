// SPDX-License-Identifier: MIT
/* hetsim: pages of the host in the device's memory while they are hot, by HETSIM_ADVISE_CACHE. */
#include "lib/hetsim.h"
#include "sim/module_support.h"
#include "sim/sim_tests.h"

static const struct test none[] = { { NULL, NULL, 0, 0 } };

TEST_MAIN(hetsim_main, "hetsim_cache", sim_cache_tests, none)
