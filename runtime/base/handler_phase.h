/* SPDX-License-Identifier: MIT */
/* Tells how many signal handlers are running, and waits until they have ended. */
#ifndef HETMAP_HANDLER_PHASE_H
#define HETMAP_HANDLER_PHASE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/util.h"

/* Set for good by the first installation: from then on a handler may run at any time. */
extern _Atomic bool handler_was_installed;

void handler_quiesce_each(void);

/*
 * Returns when no handler is running that may still use a map or a buffer found in the registry
 * before it was removed. Must be called after the removal and before its memory is freed or its
 * addresses are given back. Not for handlers. The caller may hold locks: a handler takes none.
 */
static inline void handler_quiesce(void)
{
	/* The removal from the registry took its mutex, so this load is not stale. */
	if (unlikely(atomic_load_explicit(&handler_was_installed, memory_order_relaxed)))
		handler_quiesce_each();
}

/*
 * Must surround each use of maps and buffers by a handler, which must be short, take no lock,
 * and end before any other handler is called or jumped out of. Pass the result of enter to
 * leave.
 */
unsigned int handler_enter(void);
void handler_leave(unsigned int phase);

/* fork(2): the other threads' handlers don't run in the child. */
void handler_phase_fork_child(void);

#endif
