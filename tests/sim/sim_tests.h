/* SPDX-License-Identifier: MIT */
/*
 * Tests of the simulated device that the module and its twin both pass: the programs
 * test_hetsim_* run them with the one, test_soft with the other. Each table ends with
 * an entry without a name.
 */
#ifndef HETMAP_TESTS_SIM_TESTS_H
#define HETMAP_TESTS_SIM_TESTS_H

#include "lib/harness.h"

/* Time of queues that are to time out: an empty job is done before, on a busy machine, too. */
#define SIM_TIMEOUT_MS (TEST_TSAN ? 1000 : 200)

/*
 * Properties of a test's device, in the test's flags: on other devices it is not among the tests.
 * test_soft has devices for each of them, tests/vm/variants the module's.
 */
#define SIM_REACHED (1u << 8)   /* all of its VRAM can be reached by CPUs */
#define SIM_WINDOWED (1u << 9)  /* only a window of it, of up to 64 MiB */
#define SIM_SMALL (1u << 10)    /* a VRAM that the machine has: of up to 256 MiB */
#define SIM_LEFT (1u << 11)     /* and a system memory likewise; not all is one opener's */
#define SIM_MIGRATES (1u << 12) /* pages of the process move to its memory */
#define SIM_STAYS (1u << 13)    /* pages are used where they are */
#define SIM_SLOW (1u << 14)     /* its device faults take 100 ms, and it has no other tests */
#define SIM_ALL                                                                         \
	(SIM_REACHED | SIM_WINDOWED | SIM_SMALL | SIM_LEFT | SIM_MIGRATES | SIM_STAYS | \
	 SIM_SLOW)

static inline bool sim_test_fits(const struct test *test, unsigned int has)
{
	return !(test->flags & SIM_ALL & ~has) && (test->flags & SIM_SLOW || !(has & SIM_SLOW));
}

extern const struct test sim_buffers_tests[];
extern const struct test sim_cache_tests[];
extern const struct test sim_calls_tests[];
extern const struct test sim_capacity_tests[];
extern const struct test sim_engine_tests[];
extern const struct test sim_inject_tests[];
extern const struct test sim_later_tests[];
extern const struct test sim_limits_tests[];
extern const struct test sim_migrate_tests[];
extern const struct test sim_mirror_calls_tests[];
extern const struct test sim_mirror_random_tests[];
extern const struct test sim_mirror_tests[];
extern const struct test sim_move_tests[];
extern const struct test sim_neighbours_tests[];
extern const struct test sim_slow_tests[];
extern const struct test sim_submit_tests[];
extern const struct test sim_sample_tests[];
extern const struct test sim_sync_tests[];
extern const struct test sim_timeline_tests[];
extern const struct test sim_unplug_tests[];
extern const struct test sim_uses_tests[];

#endif
