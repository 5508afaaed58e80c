/* SPDX-License-Identifier: MIT */
/* Guard slot: what is kept for a thread that makes guarded copies or opens scopes. */
#ifndef HETMAP_GUARD_SLOT_H
#define HETMAP_GUARD_SLOT_H

#include <hetmap/guard.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"

/* Its own cache line, as each copy writes to it. */
struct guard_slot {
	_Atomic uintptr_t thread; /* pthread_self(); 0: nobody's */
	/* That thread's alone, and its handlers'. */
	struct hm_guard *innermost;
	uint64_t copied; /* see below */
	uint64_t looked; /* likewise */
	uint32_t apart;  /* copies in a row that did not follow */
	bool kept;       /* until the thread ends; else until its outermost scope does */
	bool counts;     /* it may read the counter */
} __attribute__((aligned(64)));

/* This thread's, or NULL: it has none yet. Not in a handler. */
extern _Thread_local struct guard_slot *guard_own;

/* Spreads the names of threads over a table. */
static inline uint32_t guard_hash(uintptr_t thread)
{
	return (uint32_t)((uint64_t)thread * 0x9e3779b97f4a7c15u >> 32);
}

/* For a thread that has none. NULL, without a text: none is free. */
struct guard_slot *guard_take_slot(void);
/* The thread is in no scope any more. */
void guard_leave_slot(struct guard_slot *slot);

/* Where the thread's innermost scope is written down; NULL: it has none. In a handler. */
struct hm_guard **guard_innermost(void);

/* Before the first scope. Installs of the handler are one after the other. */
void guard_prepare(void);

/* fork(2): of the other threads' scopes there are none. */
void guard_fork_child(void);

/* ---- copies that follow each other at once ---- */

/*
 * A thread's signal mask changes by a system call, or in a handler. Where there was no time
 * for one since the thread's last copy, the mask is what it was then, and need not be looked
 * at, which is a system call itself. The time is by the CPU's counter, and what is less than
 * a system call is measured by readings as they are made here. (On Intel's no instruction
 * behind a SYSCALL or SYSRET is executed, not even speculatively, before those in front of it
 * are complete [SDM, "SYSCALL", "SYSRET"]: each reading stays on its side of them.)
 *
 * guard_slot.copied is 0, or where a copy has found that neither signal is blocked: the time
 * when the last one was over, GUARD_NOW until then. What is called of the application's and of
 * backends from within a copy, and may change the mask there, sets it to 0.
 * guard_slot.looked is when the last one was over that has looked: what a handler of another
 * signal has changed in the mask that it returns to, into a copy, is seen 1 ms after that.
 *
 * To read the counter is a tenth of a look. Of copies with other work in between few do.
 */
#define GUARD_NOW 1
#define GUARD_TRIES 2  /* of these */
#define GUARD_APART 32 /* in a row */

/* 0: the counter is not to be relied on, and all copies look. */
extern _Atomic uint64_t guard_moment;
/* So much later the next look is due. */
extern _Atomic uint64_t guard_looks;

static inline uint64_t guard_counter(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

/* Not before what comes before is done [Intel SDM, "RDTSC"]. */
static inline uint64_t guard_counter_after(void)
{
#ifdef __x86_64__
	__builtin_ia32_lfence();
#endif
	return guard_counter();
}

/* First of all of a copy; @slot may be NULL. */
static inline bool guard_follows(const struct guard_slot *slot)
{
	uint64_t now;

	if (!slot || !slot->copied)
		return false;
	now = guard_counter();
	return now - slot->copied < guard_moment && now - slot->looked < guard_looks;
}

/* @unblocked: for a copy, and nothing is blocked. */
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

/* Last of all of a copy that was outside of scopes. */
static inline void guard_copied(struct guard_slot *slot)
{
	uint64_t now;

	if (!slot || !slot->copied)
		return;
	now = guard_counter_after();
	if (slot->copied == GUARD_NOW)
		slot->looked = now;
	else
		slot->apart = 0;
	slot->copied = now;
}

/* ---- scopes that don't count for a while ---- */

/*
 * In the place of a thread's innermost scope while those that are open don't count: what
 * has put it there puts back what was, unless it is jumped out of.
 */
extern struct hm_guard guard_suspended;

/*
 * Around a function of the application's that the library calls in the middle of its own
 * doing: a fault in there must not jump to a scope around both. One that it opens itself
 * is as any. Suspend returns what resume is given. Not in a handler.
 */
struct hm_guard *guard_suspend(void);
void guard_resume(struct hm_guard *guard);

#endif
