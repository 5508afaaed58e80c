/* SPDX-License-Identifier: MIT */
/*
 * Signal handlers that are running, and how to wait until they have ended: two counters in turns.
 */
#ifndef HETMAP_HANDLER_PHASE_H
#define HETMAP_HANDLER_PHASE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/util.h"

/* Set for good by the first installation: a handler may be on its way since. */
extern _Atomic bool handler_was_installed;

void handler_quiesce_each(void);

/*
 * Returns when no handler is running that may still use a map or a buffer that it
 * found in the registry, which they have left before. To be called before what they
 * consist of is freed, and before their addresses are given back. Not in a handler.
 * Whoever waits here may hold locks: a handler takes none.
 */
static inline void handler_quiesce(void)
{
	/* Who left the registry held its mutex for that: no stale value is read. */
	if (unlikely(atomic_load_explicit(&handler_was_installed, memory_order_relaxed)))
		handler_quiesce_each();
}

/*
 * Around what a handler does with maps and buffers: short, without waiting for a lock,
 * and left before any other handler is called or jumped out of. Returns what leave is
 * given.
 */
unsigned int handler_enter(void);
void handler_leave(unsigned int phase);

/* fork(2): the other threads' handlers don't run in the child. */
void handler_phase_fork_child(void);

#endif
