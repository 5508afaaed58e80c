/* SPDX-License-Identifier: MIT */
/*
 * The process's handler of SIGBUS and SIGSEGV, opt in: what comes of a fault, and
 * who has to wait for those that are being dealt with.
 *
 * The handler looks the address up without a lock, and has one of three answers: the access is
 * tried again, the thread's innermost scope is jumped to, or the previous handler is called.
 * fault.c finds the cause after the jump. The way back into a scope restores the mask and the
 * alternate stack as the kernel would have. A thread's scope is suspended around hooks and
 * callbacks: a jump over the library's own frames would leave its locks held.
 */
#ifndef HETMAP_HANDLER_H
#define HETMAP_HANDLER_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <hetmap/guard.h>

#include "base/guard_slot.h"
#include "base/handler_phase.h"
#include "base/util.h"

/* fork(2): the installation may have been under way in another thread. */
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

/* What is installed. */
void handler_run(int signal, siginfo_t *info, void *context);

extern struct handler_counters {
	_Atomic uint64_t guarded, repaired, forwarded;
} handler_counters;

/* ---- guard.c ---- */

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

/* Is it a scope of this thread's? Those around a callback of the library's are none in it. */
enum guard_place { GUARD_NOWHERE, GUARD_INNERMOST, GUARD_OUTER };
enum guard_place guard_place(const struct hm_guard *guard);

/*
 * memcpy() in a guarded scope of its own. 0, 1: a fault, which @guard tells of, or a negative
 * errno: there can be no scope. No scope is open afterwards. @slot: this thread's, or NULL, and
 * @follows: guard_follows() of it when the call began; or false.
 */
int guard_copy(struct hm_guard *guard, struct guard_slot *slot, bool follows, void *dst,
	       const void *src, uint64_t length);
int guard_refuse_uninstalled(const char *what);

#endif
