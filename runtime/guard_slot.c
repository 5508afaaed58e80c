// SPDX-License-Identifier: MIT
/* Guard slots: they come and go with threads. */
#include "guard_slot.h"

#include <errno.h>
#include <limits.h>

#include "core.h"
#include "sys.h"

struct guard_slot guard_slots[GUARD_SLOTS];
_Atomic uint32_t guard_reach;

static pthread_key_t ends; /* its value is the thread's slot */
static _Atomic bool has_ends;

struct hm_guard **guard_innermost(void)
{
	struct guard_slot *slot = guard_own_slot();

	return slot ? &slot->innermost : NULL;
}

/*
 * No scope of the thread's is open any more, however it has ended. One that has a scope once
 * more, in the last of its destructors, leaves its slot to the next thread of its name.
 */
static void thread_ends(void *user)
{
	struct guard_slot *slot = user;

	atomic_store_explicit(&slot->thread, 0, memory_order_release);
}

int guard_prepare(void)
{
	int r;

	if (has_ends)
		return 0;
	r = sys_key_create(&ends, thread_ends);
	if (r)
		return err_set(r,
			       "all keys of this process for what belongs to a thread are "
			       "taken (%s; %d, PTHREAD_KEYS_MAX): the library needs one",
			       err_name(r), PTHREAD_KEYS_MAX);
	has_ends = true;
	return 0;
}

/* Threads that go on don't come to thread_ends() any more: the code may be unloaded. */
static __attribute__((destructor)) void end(void)
{
	if (atomic_exchange(&has_ends, false))
		pthread_key_delete(ends);
}

static struct guard_slot *find_free(uintptr_t thread)
{
	struct guard_slot *slot;
	uintptr_t nobody;
	uint32_t i, far;

	for (i = 0; i < GUARD_SLOTS; i++) {
		slot = guard_slot_at(thread, i);
		nobody = 0;
		if (!atomic_compare_exchange_strong(&slot->thread, &nobody, thread))
			continue;
		far = atomic_load(&guard_reach);
		while (far < i && !atomic_compare_exchange_weak(&guard_reach, &far, i))
			;
		return slot;
	}
	return NULL;
}

/*
 * For as long as the thread lives: an atomic operation waits until all that the thread has
 * stored, as by a copy, is in the cache.
 */
__attribute__((cold)) struct guard_slot *guard_take_slot(int *ret_error)
{
	struct guard_slot *slot = find_free((uintptr_t)pthread_self());
	int r;

	if (!slot) {
		*ret_error = err_set(-EAGAIN,
				     "%d threads have made guarded copies or opened scopes and "
				     "live still, which is as many as can: end some first",
				     GUARD_SLOTS);
		return NULL;
	}
	slot->innermost = NULL;
	slot->look.caller = NULL;
	r = has_ends ? sys_key_set(ends, slot) : 0;
	if (r) {
		atomic_store_explicit(&slot->thread, 0, memory_order_release);
		*ret_error =
			err_set(r,
				"no memory to be told of the end of a thread with a guarded "
				"scope (%s)",
				err_name(r));
		return NULL;
	}
	return slot;
}

void guard_fork_child(void)
{
	uintptr_t thread = (uintptr_t)pthread_self();
	uint32_t i;

	for (i = 0; i < GUARD_SLOTS; i++)
		if (guard_slots[i].thread && guard_slots[i].thread != thread)
			guard_slots[i].thread = 0;
}
