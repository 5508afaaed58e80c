/* SPDX-License-Identifier: MIT */
/* Guard slot: the record of a thread that makes guarded copies or opens scopes. */
#ifndef HETMAP_GUARD_SLOT_H
#define HETMAP_GUARD_SLOT_H

#include <hetmap/guard.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/cpu.h"
#include "base/util.h"

/* Has a cache line to itself, since each copy writes to it. */
struct guard_slot {
	_Atomic uintptr_t thread; /* pthread_self() of its thread; 0: free */
	/* Only that thread and its handlers touch the rest. */
	struct hm_guard *innermost;
	uint64_t copied; /* see below */
	uint64_t looked; /* likewise */
	uint32_t apart;  /* copies in a row that did not follow */
	bool kept;       /* until the thread ends; if not, until its outermost scope does */
	bool counts;     /* the thread may read the counter */
} __attribute__((aligned(64)));

/* The calling thread's slot; NULL: none yet. Not for handlers. */
extern _Thread_local struct guard_slot *guard_own;

/* Spreads the names of threads over a table. */
static inline uint32_t guard_hash(uintptr_t thread)
{
	return (uint32_t)((uint64_t)thread * 0x9e3779b97f4a7c15u >> 32);
}

/* Takes a slot for a thread without one. Returns NULL, without a text, when none is free. */
struct guard_slot *guard_take_slot(void);
/* Gives back the slot of a thread that is in no scope any more. */
void guard_leave_slot(struct guard_slot *slot);

/*
 * Returns where the thread's innermost scope is noted; NULL: the thread has no slot. For
 * handlers.
 */
struct hm_guard **guard_innermost(void);

/* Measures, before the first scope. The caller serialises installations of the handler. */
void guard_prepare(void);

/* fork(2): drops the scopes of the threads that the child does not have. */
void guard_fork_child(void);

/* ---- copies that follow each other at once ---- */

/*
 * A thread's signal mask changes by a system call, or in a handler. If too little time for a
 * system call has passed since the thread's last copy, the mask is still the same and need not
 * be looked at, which is a system call itself. The CPU's counter measures that time;
 * guard_prepare() has found by such readings how much is less than a system call. (On Intel's
 * CPUs no instruction behind a SYSCALL or SYSRET is executed, not even speculatively, before
 * those in front of it are complete [SDM, "SYSCALL", "SYSRET"]: each reading stays on its side
 * of them.)
 *
 * guard_slot.copied is 0, or, where a copy has found that neither signal is blocked, the time
 * when the last copy ended, GUARD_NOW until then. Functions of the application or of a backend
 * that run within a copy may change the mask: each call of one sets it to 0. guard_slot.looked
 * is the time when the last copy that looked at the mask ended: a handler of another signal may
 * change the mask that it returns to, in the middle of a copy; that is noticed at most 1 ms
 * later.
 *
 * Reading the counter costs a tenth of a look. Threads with other work between copies read it
 * rarely.
 */
#define GUARD_NOW 1
#define GUARD_TRIES 2  /* of GUARD_APART */
#define GUARD_APART 32 /* copies in a row that did not follow */

/*
 * Copies this close together follow each other; 0: the counter is unreliable, and all copies
 * look.
 */
extern _Atomic uint64_t guard_moment;
/* Time from one look to the next. */
extern _Atomic uint64_t guard_looks;

/* Must be the first step of a copy; @slot may be NULL. */
static inline bool guard_follows(const struct guard_slot *slot)
{
	uint64_t now;

	if (!slot || !slot->copied)
		return false;
	now = cpu_counter();
	return now - slot->copied < guard_moment && now - slot->looked < guard_looks;
}

/* @unblocked: a copy looked, and neither signal is blocked. */
static inline void guard_looked(struct guard_slot *slot, bool unblocked)
{
	bool tries = unblocked && guard_moment && slot->counts &&
		     slot->apart++ % GUARD_APART < GUARD_TRIES;

	slot->copied = tries ? GUARD_NOW : 0;
}

static inline void guard_forget(struct guard_slot *slot)
{
	if (slot)
		slot->copied = 0;
}

/* Must be the last step of a copy outside of scopes. */
static inline void guard_copied(struct guard_slot *slot)
{
	uint64_t now;

	if (!slot || !slot->copied)
		return;
	now = cpu_counter_after();
	if (slot->copied == GUARD_NOW)
		slot->looked = now;
	else
		slot->apart = 0;
	slot->copied = now;
}

/* ---- scopes that don't count for a while ---- */

/*
 * Stands in for a thread's innermost scope while its open scopes don't count. guard_resume()
 * puts the scope back, unless a jump leaves the stretch.
 */
extern struct hm_guard guard_suspended;

/*
 * For callback.h: a fault in an application's function must not jump to a scope around both. A
 * scope that the function opens itself works as any other. Pass the result of suspend to resume.
 * Not for handlers.
 */
struct hm_guard *guard_suspend(void);
void guard_resume(struct hm_guard *guard);

#endif
