/* SPDX-License-Identifier: MIT */
/* Guard slot: what is kept for a thread that makes guarded copies or opens scopes. */
#ifndef HETMAP_GUARD_SLOT_H
#define HETMAP_GUARD_SLOT_H

#include <hetmap/guard.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util.h"

struct guard_slot {
	_Atomic uintptr_t thread; /* pthread_self(); 0: nobody's */
	/* That thread's alone, and its handlers'. */
	struct hm_guard *innermost;
	uint64_t copied; /* where @unblocked: when its last copy was over, or before */
	bool unblocked;  /* neither signal was blocked when it looked last, for a copy */
	bool kept;       /* until the thread ends; else until its outermost scope does */
} __attribute__((aligned(32)));

/* This thread's, or NULL: it has none yet. Not in a handler. */
extern _Thread_local struct guard_slot *guard_own;

/* For a thread that has none. NULL, without a text: none is free. */
struct guard_slot *guard_take_slot(void);
/* The thread is in no scope any more. */
void guard_leave_slot(struct guard_slot *slot);

/* ---- copies that follow each other at once ---- */

/*
 * A thread's signal mask changes by a system call, or in a handler, which takes longer. Where
 * there was no time for one between two copies of the thread's, the mask is what it was for
 * the first, and need not be looked at, which is a system call itself. The time is by the
 * CPU's counter (RDTSC), and less than any system call takes; 0 where the counter is not to be
 * relied on, and all copies look.
 */
extern _Atomic uint64_t guard_moment;

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
	return slot && slot->unblocked && guard_counter() - slot->copied < guard_moment;
}

/* Last of all. */
static inline void guard_copied(struct guard_slot *slot)
{
	if (slot && slot->unblocked)
		slot->copied = guard_counter_after();
}

#endif
