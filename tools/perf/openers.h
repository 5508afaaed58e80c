/* SPDX-License-Identifier: MIT */
/*
 * Openers of simulated devices, each counted once: all descriptors of one open file, dup()s
 * and inherited ones too, are one opener, in whatever order a folder has them.
 */
#ifndef HETMAP_PERF_OPENERS_H
#define HETMAP_PERF_OPENERS_H

#include <stddef.h>
#include <stdint.h>

struct opener {
	uint64_t device, id;
};

struct openers {
	struct opener *of;
	size_t n, room;
	uint64_t evictions; /* of all of them; TOP_UNKNOWN: nobody counts it */
};

void openers_begin(struct openers *openers);
/* @text: of /proc/PID/fdinfo/FD. 0, also of what is no such device's; -ENOMEM. */
int openers_add(struct openers *openers, const char *text);
void openers_end(struct openers *openers);

#endif
