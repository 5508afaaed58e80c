/* SPDX-License-Identifier: MIT */
/*
 * Tests of the simulated device that the module and its twin both pass: the programs
 * test_hetsim_* run them with the one, test_soft with the other. Each table ends with
 * an entry without a name.
 */
#ifndef HETMAP_TESTS_SIM_TESTS_H
#define HETMAP_TESTS_SIM_TESTS_H

#include "harness.h"

/* Of queues that are to time out: a job of nothing is done before, on a busy machine, too. */
#define SIM_TIMEOUT_MS (TEST_TSAN ? 1000 : 200)

extern const struct test sim_buffers_tests[];
extern const struct test sim_capacity_tests[];
extern const struct test sim_engine_tests[];
extern const struct test sim_inject_tests[];
extern const struct test sim_move_tests[];
extern const struct test sim_neighbours_tests[];
extern const struct test sim_submit_tests[];
extern const struct test sim_sample_tests[];
extern const struct test sim_unplug_tests[];

#endif
