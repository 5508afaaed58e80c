// SPDX-License-Identifier: MIT
/* hetsim: files and refusals of the mirror, and its calls. */
#include <stddef.h>

#include "lib/hetsim.h"
#include "sim/sim_tests.h"

TEST_MAIN(hetsim_main, "hetsim_mirror_calls", sim_mirror_calls_tests, NULL)
