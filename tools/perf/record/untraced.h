/* SPDX-License-Identifier: MIT */
/*
 * Was a command shown to the one who traces it? Of some the kernel takes the events away as
 * they execute, without a word: see counters_were_taken().
 */
#ifndef HETMAP_UNTRACED_H
#define HETMAP_UNTRACED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "child.h"

struct untraced {
	int fd; /* a counter that does nothing but be there; negative: it can't be told */
	struct child_cost before;
	bool taken;
	uint64_t faults; /* that the command had */
};

/* Between child_start() and child_go(). */
void untraced_begin(struct untraced *untraced, const struct child *child);
/* The command has ended, and that is what it cost. */
void untraced_take(struct untraced *untraced, const struct rusage *usage);
/* One sentence of what is missing, @counted faults having been: free() it. NULL: nothing. */
char *untraced_missing(const struct untraced *untraced, uint64_t counted);
void untraced_end(struct untraced *untraced);

#endif
