// SPDX-License-Identifier: MIT
/*
 * Guards: scopes in which a fault is an error. What makes them safe is that the handler knows
 * the thread's innermost one, and jumps there. guard_copy.c has the copies in them.
 */
#include <hetmap/guard.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core.h"
#include "fault.h"
#include "handler.h"
#include "sys.h"

/* hm_guard.state: all of it, as what is on a stack may be anything. */
#define STATE_MAGIC 0x6d670000u
#define STATE_OPEN (STATE_MAGIC | 1u << 3)
#define STATE_SIGBUS HM_HANDLER_SIGBUS /* was blocked, and is to be again */
#define STATE_SIGSEGV HM_HANDLER_SIGSEGV
#define STATE_BLOCKED (STATE_SIGBUS | STATE_SIGSEGV)
#define STATE_COPY (1u << 2) /* of a copy, which a jump leaves */

/* ---- whose scope ---- */

/*
 * A thread's innermost scope is found by pthread_self(), which a handler may call
 * [signal-safety(7)], and not in thread-local memory: a shared library's is allocated on
 * first touch, which may be a handler's; and where it is static instead, dlopen() refuses
 * the library when there is too little of that left [ELF TLS, 4.3].
 */
#define SLOTS 4096 /* threads with a scope at a time; a power of 2 */

struct guard_slot {
	_Atomic uintptr_t thread;   /* 0: nobody's */
	struct hm_guard *innermost; /* that thread's alone */
};

static struct guard_slot slots[SLOTS];

struct hm_guard guard_suspended;

/* This thread's, while it has a scope; not for handlers. */
static _Thread_local struct guard_slot *own;

static struct guard_slot *slot_at(uintptr_t thread, uint32_t turn)
{
	return &slots[(handler_hash(thread) + turn) % SLOTS];
}

struct hm_guard **guard_innermost(void)
{
	uintptr_t thread = (uintptr_t)pthread_self();
	struct guard_slot *slot;
	uint32_t i;

	for (i = 0; i < SLOTS; i++) {
		slot = slot_at(thread, i);
		if (atomic_load_explicit(&slot->thread, memory_order_relaxed) == thread)
			return &slot->innermost;
	}
	return NULL;
}

/*
 * Slots behind the one of @turn with this thread's name are one's that ended inside a scope,
 * and had the name before. While this thread lives there come no more of them.
 */
static void drop_stale(uintptr_t thread, uint32_t turn)
{
	static _Thread_local bool done;
	struct guard_slot *slot;

	if (likely(done))
		return;
	done = true;
	while (++turn < SLOTS) {
		slot = slot_at(thread, turn);
		if (atomic_load_explicit(&slot->thread, memory_order_relaxed) == thread)
			atomic_store_explicit(&slot->thread, 0, memory_order_release);
	}
}

/* A thread that ended inside a scope has left one: whoever has its name now, takes it. */
static struct guard_slot *take_slot(void)
{
	uintptr_t thread = (uintptr_t)pthread_self(), nobody;
	struct guard_slot *slot;
	uint32_t i;

	for (i = 0; i < SLOTS; i++) {
		slot = slot_at(thread, i);
		nobody = 0;
		if (!atomic_compare_exchange_strong(&slot->thread, &nobody, thread) &&
		    nobody != thread)
			continue;
		slot->innermost = NULL;
		drop_stale(thread, i);
		return slot;
	}
	return NULL;
}

static inline void leave_slot(struct guard_slot *slot)
{
	if (slot->innermost)
		return;
	own = NULL;
	atomic_store_explicit(&slot->thread, 0, memory_order_release);
}

struct hm_guard *guard_leave_copies(struct hm_guard **innermost)
{
	struct hm_guard *inner = innermost ? *innermost : NULL, *guard;

	for (guard = inner; guard && guard->state & STATE_COPY; guard = guard->outer)
		;
	if (guard != inner)
		*innermost = guard ? guard : &guard_suspended;
	return inner;
}

struct hm_guard *guard_suspend(void)
{
	struct hm_guard *guard = own ? own->innermost : NULL;

	if (likely(!guard))
		return NULL;
	own->innermost = &guard_suspended;
	atomic_signal_fence(memory_order_seq_cst);
	return guard;
}

void guard_resume(struct hm_guard *guard)
{
	atomic_signal_fence(memory_order_seq_cst);
	if (unlikely(guard))
		own->innermost = guard;
}

enum guard_place guard_place(const struct hm_guard *guard)
{
	const struct hm_guard *at = own ? own->innermost : NULL;

	if (at == guard)
		return at ? GUARD_INNERMOST : GUARD_NOWHERE;
	while (at && at != &guard_suspended && at != guard)
		at = at->outer;
	return at == guard ? GUARD_OUTER : GUARD_NOWHERE;
}

void guard_fork_child(void)
{
	uintptr_t thread = (uintptr_t)pthread_self();
	uint32_t i;

	for (i = 0; i < SLOTS; i++)
		if (slots[i].thread != thread)
			slots[i].thread = 0;
}

/* ---- the mask ---- */

static __attribute__((noinline, cold)) int refuse_mask(int r)
{
	return err_set(-EPERM,
		       "this thread's signal mask can't be looked at or changed (%s), and with "
		       "SIGBUS or SIGSEGV blocked a fault would end the process: let the "
		       "seccomp filter, if it is that, permit rt_sigprocmask",
		       err_name(r));
}

/*
 * A fault whose signal is blocked ends the process [signal(7), "Signal mask"]. Returns
 * which were blocked, or a negative errno: where that is not known a scope would be none.
 */
static int unblock(void)
{
	sigset_t faults, before;
	int blocked, r;

	/* The look alone, as a rule: what is not blocked is not touched. */
	r = sys_sigmask(SIG_BLOCK, NULL, &before);
	if (unlikely(r))
		return refuse_mask(r);
	blocked = (sigismember(&before, SIGBUS) ? (int)STATE_SIGBUS : 0) |
		  (sigismember(&before, SIGSEGV) ? (int)STATE_SIGSEGV : 0);
	if (likely(!blocked))
		return 0;
	sigemptyset(&faults);
	sigaddset(&faults, SIGBUS);
	sigaddset(&faults, SIGSEGV);
	r = sys_sigmask(SIG_UNBLOCK, &faults, NULL);
	return unlikely(r) ? refuse_mask(r) : blocked;
}

/* Where it fails, what was unblocked stays so: no fault ends the process by that. */
static __attribute__((noinline)) void block_again(uint32_t blocked)
{
	sigset_t faults;

	sigemptyset(&faults);
	if (blocked & STATE_SIGBUS)
		sigaddset(&faults, SIGBUS);
	if (blocked & STATE_SIGSEGV)
		sigaddset(&faults, SIGSEGV);
	sys_sigmask(SIG_BLOCK, &faults, NULL);
}

/* ---- scopes ---- */

int guard_refuse_uninstalled(const char *what)
{
	return err_set(-EOPNOTSUPP,
		       "%s: faults become errors by the library's handler, which is not "
		       "installed: call hm_handler_install() first",
		       what);
}

/* Of what a handler has jumped out of, the slot has stayed, and the mask is the thread's. */
static inline bool is_outermost(const struct guard_slot *slot)
{
	return !slot || !slot->innermost || slot->innermost == &guard_suspended;
}

/*
 * Handlers run on this very thread: only the compiler has to keep the order. The thread's
 * slot, which close_scope() is given: to find it, in a shared library, is a call. NULL: there
 * is no scope, as *@ret_error says.
 */
static inline struct guard_slot *open_scope(struct hm_guard *guard, uint32_t kind,
					    int *ret_error)
{
	struct guard_slot *slot = own;
	int blocked = 0;

	if (!slot) {
		slot = own = take_slot();
		if (unlikely(!slot)) {
			*ret_error = err_set(-EAGAIN,
					     "%d threads are in guarded scopes at a time: end "
					     "some first",
					     SLOTS);
			return NULL;
		}
	}
	/* A scope around it has seen to the mask. */
	if (is_outermost(slot)) {
		blocked = unblock();
		if (unlikely(blocked < 0)) {
			leave_slot(slot);
			*ret_error = blocked;
			return NULL;
		}
	}
	guard->outer = slot->innermost;
	guard->state = STATE_OPEN | kind | (uint32_t)blocked;
	atomic_signal_fence(memory_order_seq_cst);
	slot->innermost = guard;
	atomic_signal_fence(memory_order_seq_cst);
	return slot;
}

/* It is the innermost one no more. */
static inline void after_scope(struct guard_slot *slot, struct hm_guard *guard)
{
	if (unlikely(guard->state & STATE_BLOCKED))
		block_again(guard->state & STATE_BLOCKED);
	guard->state = 0;
	leave_slot(slot);
}

static inline void close_scope(struct guard_slot *slot, struct hm_guard *guard)
{
	atomic_signal_fence(memory_order_seq_cst);
	slot->innermost = guard->outer;
	after_scope(slot, guard);
}

int hm_guard_enter(struct hm_guard *guard)
{
	uint32_t above;
	int r;

	if (!guard)
		return err_set(-EINVAL, "hm_guard_begin: the guard is NULL");
	if (guard->struct_size != sizeof(*guard))
		return err_set(-EINVAL,
			       "hm_guard_begin: struct_size %u is not that of the guard, %zu: "
			       "HM_GUARD_INIT() sets it",
			       guard->struct_size, sizeof(*guard));
	if (handler_flags() == HANDLER_NONE)
		return guard_refuse_uninstalled("hm_guard_begin");
	if (is_outermost(own)) {
		above = handler_unchained();
		if (above)
			return err_set(-EBUSY,
				       "another handler of %s was installed since the "
				       "library's: install it before, or promise by "
				       "hm_handler_chained() that it forwards",
				       above & HM_HANDLER_SIGBUS ? "SIGBUS" : "SIGSEGV");
	}
	return open_scope(guard, 0, &r) ? 0 : r;
}

int hm_guard_caught(struct hm_guard *guard)
{
	/* The handler has left the scope; the text and cause are found out here. */
	after_scope(own, guard);
	return fault_explain(&guard->fault, guard->base, "a guarded access");
}

int hm_guard_end(struct hm_guard *guard)
{
	if (!guard || (guard->state & ~STATE_BLOCKED) != STATE_OPEN || !own ||
	    guard != own->innermost)
		return err_set(-EINVAL, "hm_guard_end: not the innermost scope of this thread, "
					"or over already");
	close_scope(own, guard);
	return 0;
}

/* ---- a copy in one of its own ---- */

/* Apart, so that no variable is changed between setjmp() and its second return. */
int guard_copy(struct hm_guard *guard, void *dst, const void *src, uint64_t length)
{
	struct guard_slot *slot;
	int r;

	if (setjmp(guard->env)) {
		after_scope(own, guard);
		return 1;
	}
	slot = open_scope(guard, STATE_COPY, &r);
	if (unlikely(!slot))
		return r;
	memcpy(dst, src, length);
	close_scope(slot, guard);
	return 0;
}
