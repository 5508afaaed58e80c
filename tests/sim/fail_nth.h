/* SPDX-License-Identifier: MIT */
/*
 * A kernel that makes the n-th allocation or copy from and to user space of a thread fail
 * (Documentation/fault-injection, /proc/self/fail-nth): for tests that walk all of them.
 */
#ifndef HETMAP_TESTS_FAIL_NTH_H
#define HETMAP_TESTS_FAIL_NTH_H

#include <stdbool.h>

#define FAIL_NTH_MOST 3000 /* of one call: a bound for the walk */

/* The file of this thread; -1: the test was skipped, as this is no debug kernel. */
int fail_nth_open(void);
/*
 * @run with its @nth failure: fails the test unless it succeeds or says so by an errno.
 * False when it has no so many.
 */
bool fail_nth_run(int nth_file, const char *name, unsigned int nth, int (*run)(void *user),
		  void *user);
/*
 * Ends a walk, whose loop has counted to @nth: fails the test unless there were @least failures to
 * inject, or if there is no end of them.
 */
void fail_nth_enough(const char *name, unsigned int nth, unsigned int least);

#endif
