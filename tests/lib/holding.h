/* SPDX-License-Identifier: MIT */
/* The resources of a process: the harness's leak oracle. */
#ifndef HETMAP_TESTS_HOLDING_H
#define HETMAP_TESTS_HOLDING_H

#include "lib/harness.h"

#define HOLDING_FDS 256 /* those below are named when they are new */

struct holding {
	struct test_holding now;
	char *maps; /* /proc/self/maps, to show new lines */
	bool is_open[HOLDING_FDS];
};

void holding_take(struct holding *holding);
void holding_drop(struct holding *holding);
bool holding_grown(const struct holding *old, const struct holding *now);
/* Fails the test, naming the new resources. */
void holding_report(const struct holding *old, const struct holding *now);

#endif
