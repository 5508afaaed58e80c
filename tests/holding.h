/* SPDX-License-Identifier: MIT */
/* What a process holds: the harness's leak oracle. */
#ifndef HETMAP_TESTS_HOLDING_H
#define HETMAP_TESTS_HOLDING_H

#include "harness.h"

struct holding {
	struct test_holding now;
	uint64_t slabs;
	char *lines;       /* of fds and mappings, to show what is new; free() */
	size_t used, room; /* of @lines, without and with its NUL */
};

void holding_take(struct holding *holding);
bool holding_grown(const struct holding *old, const struct holding *now);
/* Fails the test, naming what is new. Cuts now->lines up. */
void holding_report(const struct holding *old, const struct holding *now);

#endif
