/* SPDX-License-Identifier: MIT */
/*
 * The process's handler of SIGBUS and SIGSEGV, opt in: what comes of a fault, and
 * who has to wait for those that are being dealt with.
 */
#ifndef HETMAP_HANDLER_H
#define HETMAP_HANDLER_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <hetmap/guard.h>

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
void handler_fork_child(void);
void handler_install_fork_child(void);

/* ---- handler_install.c ---- */

/* HM_HANDLER_*, while it is installed; or HANDLER_NONE. */
#define HANDLER_NONE UINT32_MAX
uint32_t handler_flags(void);

/* Signals above which another handler is, that nobody has promised for: HM_HANDLER_*. */
uint32_t handler_unchained(void);

/*
 * Calls who had @signal before, as the kernel would have: the last thing a handler
 * does, but for the scope that it puts back. May not return.
 */
void handler_forward(int signal, siginfo_t *info, void *context);

/* ---- handler.c ---- */

/* Spreads what tells threads apart. */
static inline uint32_t handler_hash(uintptr_t thread)
{
	return (uint32_t)((uint64_t)thread * 0x9e3779b97f4a7c15u >> 32);
}

/* What is installed. */
void handler_run(int signal, siginfo_t *info, void *context);

extern struct handler_counters {
	_Atomic uint64_t guarded, repaired, forwarded;
} handler_counters;

/* ---- guard_slot.c ---- */

/* Where the thread's innermost scope is written down; NULL: it has none. In a handler. */
struct hm_guard **guard_innermost(void);

/* Before the first scope. Installs of the handler are one after the other. */
void guard_prepare(void);

/* fork(2): of the other threads' scopes there are none. */
void guard_fork_child(void);

/* ---- guard.c ---- */

/*
 * In the place of a thread's innermost scope while those that are open don't count: what
 * has put it there puts back what was, unless it is jumped out of.
 */
extern struct hm_guard guard_suspended;

/*
 * Before a handler is called that may jump: that leaves a copy, whose scope must not be
 * found in a frame that is gone. A scope of the application's stays: by its rules it jumps
 * within. Returns what to put back into *@innermost when it returns. In a handler.
 */
struct hm_guard *guard_leave_copies(struct hm_guard **innermost);
/*
 * When it has returned, into a copy perhaps: the mask that is returned to may be another.
 * @innermost: of guard_innermost().
 */
void guard_forget_handled(struct hm_guard **innermost);

/*
 * Around a function of the application's that the library calls in the middle of its own
 * doing: a fault in there must not jump to a scope around both. One that it opens itself
 * is as any. Suspend returns what resume is given. Not in a handler.
 */
struct hm_guard *guard_suspend(void);
void guard_resume(struct hm_guard *guard);

/* Is it a scope of this thread's? Those around a callback of the library's are none in it. */
enum guard_place { GUARD_NOWHERE, GUARD_INNERMOST, GUARD_OUTER };
enum guard_place guard_place(const struct hm_guard *guard);

/*
 * memcpy() in a guarded scope of its own. 0, 1: a fault, which @guard tells of, or a negative
 * errno: there can be no scope. No scope is open afterwards. @slot: this thread's, or NULL, and
 * @follows: guard_follows() of it when the call began; or false.
 */
struct guard_slot;
int guard_copy(struct hm_guard *guard, struct guard_slot *slot, bool follows, void *dst,
	       const void *src, uint64_t length);
int guard_refuse_uninstalled(const char *what);

#endif
