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
/* The command has ended, with that cost. */
void untraced_take(struct untraced *untraced, const struct rusage *usage);
/*
 * One sentence on the missing faults, of which @counted were recorded: free() it. NULL: none.
 */
char *untraced_missing(const struct untraced *untraced, uint64_t counted);
void untraced_end(struct untraced *untraced);

/*
 * When a program is executed that has set-user-ID, or that its user may not read, the kernel
 * removes the counters of those who may not see into it, without a word: counters that remain
 * saw next to nothing of the time. They were there for @enabled_ns of @cpu_ns.
 */
bool counters_were_taken(uint64_t enabled_ns, uint64_t cpu_ns);

#endif
