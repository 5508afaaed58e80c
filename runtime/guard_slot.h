/* SPDX-License-Identifier: MIT */
/*
 * Guard slot: what is kept for a thread that makes guarded copies or opens scopes, from its
 * first one until it ends.
 *
 * It is found by pthread_self(), which a handler may call [signal-safety(7)], and not in
 * thread-local memory: a shared library's is allocated on first touch, which may be a
 * handler's; and where it is static instead, dlopen() refuses the library when there is too
 * little of that left [ELF TLS, 4.3].
 */
#ifndef HETMAP_GUARD_SLOT_H
#define HETMAP_GUARD_SLOT_H

#include <hetmap/guard.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "handler.h"
#include "util.h"

#define GUARD_SLOTS 8192 /* a power of 2 */

struct guard_slot {
	_Atomic uintptr_t thread; /* 0: nobody's */
	/* That thread's alone, and its handlers'. */
	struct hm_guard *innermost;
	struct guard_look {         /* at its signal mask: nothing was blocked */
		const void *caller; /* NULL: no look holds */
		const struct hm_guard *frame;
		struct timespec at;
	} look;
} __attribute__((aligned(64)));

extern struct guard_slot guard_slots[GUARD_SLOTS];
extern _Atomic uint32_t guard_reach; /* no thread's is further on from its first one */

static inline struct guard_slot *guard_slot_at(uintptr_t thread, uint32_t turn)
{
	return &guard_slots[(handler_hash(thread) + turn) % GUARD_SLOTS];
}

/* This thread's, or NULL: it has none yet. Also in a handler. */
static inline struct guard_slot *guard_own_slot(void)
{
	uintptr_t thread = (uintptr_t)pthread_self();
	struct guard_slot *slot;
	uint32_t i = 0;

	do {
		slot = guard_slot_at(thread, i);
		if (likely(atomic_load_explicit(&slot->thread, memory_order_relaxed) == thread))
			return slot;
	} while (++i <= atomic_load_explicit(&guard_reach, memory_order_relaxed));
	return NULL;
}

/* For a thread that has none. NULL: *@ret_error is -EAGAIN or -ENOMEM. Not in a handler. */
struct guard_slot *guard_take_slot(int *ret_error);

#endif
