/* SPDX-License-Identifier: MIT */
/*
 * The process's handler of SIGBUS and SIGSEGV, opt in: decides about faults, and lets other
 * threads wait for faults that are being handled.
 *
 * The handler looks the address up without a lock, and has one of three answers: it tries the
 * access again, jumps to the thread's innermost scope, or calls the previous handler. fault.c
 * finds the cause after the jump. The way back into a scope restores the mask and the alternate
 * stack as the kernel would have. A thread's scope is suspended around hooks and callbacks: a
 * jump over the library's own frames would leave its locks held.
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
#include "copy/copy.h"

/* fork(2): the installation may have been under way in another thread. */
void handler_install_fork_child(void);

/* ---- handler_install.c ---- */

/* HM_HANDLER_*, while it is installed; or HANDLER_NONE. */
#define HANDLER_NONE UINT32_MAX
uint32_t handler_flags(void);

/* Signals with a later handler for which hm_handler_chained() was not called: HM_HANDLER_*. */
uint32_t handler_unchained(void);

/*
 * Calls the earlier handler of @signal, as the kernel would have: a handler's last act, except
 * for the scope that it puts back. May not return.
 */
void handler_forward(int signal, siginfo_t *info, void *context);

/* ---- handler.c ---- */

/* The function that is installed. */
void handler_run(int signal, siginfo_t *info, void *context);

extern struct handler_counters {
	_Atomic uint64_t guarded, repaired, forwarded;
} handler_counters;

/* ---- guard.c ---- */

/*
 * Called before a handler that may jump: leaves copies, the scopes of which must not be found
 * in a frame that is gone. A scope of the application stays, as its rules keep jumps within it.
 * Returns the value for *@innermost after the handler's return. For the signal handler.
 */
struct hm_guard *guard_leave_copies(struct hm_guard **innermost);
/*
 * Called after the handler's return, perhaps into a copy, where the mask may be another one.
 * @innermost: from guard_innermost().
 */
void guard_forget_handled(struct hm_guard **innermost);

/*
 * The place of a scope in this thread. In a callback of the library, scopes around it are
 * nowhere.
 */
enum guard_place { GUARD_NOWHERE, GUARD_INNERMOST, GUARD_OUTER };
enum guard_place guard_place(const struct hm_guard *guard);

/*
 * @way, NULL: memcpy(), in a guarded scope of its own, which is closed afterwards. Returns 0; 1:
 * a fault, as @guard tells; or a negative errno: there can be no scope. @slot: this thread's, or
 * NULL. @follows: guard_follows() of it when the call began; or false.
 */
int guard_copy(struct hm_guard *guard, struct guard_slot *slot, bool follows,
	       copy_function *way, void *dst, const void *src, uint64_t length);
int guard_refuse_uninstalled(const char *what);

#endif
