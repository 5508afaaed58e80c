// SPDX-License-Identifier: MIT
/*
 * Guards: scopes in which a fault is an error. They are safe because the handler knows the
 * thread's innermost scope, and jumps there. guard_slot.c keeps track of that scope, and
 * guard_copy.c makes copies in scopes.
 */
#include <hetmap/guard.h>

#include <errno.h>
#include <string.h>
#include <urcu/compiler.h>

#include "core/core.h"
#include "fault/fault.h"
#include "base/guard_slot.h"
#include "fault/handler.h"
#include "base/sys.h"

/* hm_guard.state: all bits count, since memory on a stack may have any value. */
#define STATE_MAGIC 0x6d670000u
#define STATE_OPEN (STATE_MAGIC | 1u << 3)
#define STATE_SIGBUS HM_HANDLER_SIGBUS /* was blocked, and must be again */
#define STATE_SIGSEGV HM_HANDLER_SIGSEGV
#define STATE_BLOCKED (STATE_SIGBUS | STATE_SIGSEGV)
#define STATE_COPY (1u << 2) /* of a copy, which a jump leaves */

/* ---- scopes that are left, and scopes that don't count ---- */

void guard_forget_handled(struct hm_guard **innermost)
{
	if (innermost)
		guard_forget(caa_container_of(innermost, struct guard_slot, innermost));
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

enum guard_place guard_place(const struct hm_guard *guard)
{
	const struct hm_guard *at = guard_own ? guard_own->innermost : NULL;

	if (at == guard)
		return at ? GUARD_INNERMOST : GUARD_NOWHERE;
	while (at && at != &guard_suspended && at != guard)
		at = at->outer;
	return at == guard ? GUARD_OUTER : GUARD_NOWHERE;
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
 * A fault whose signal is blocked ends the process [signal(7), "Signal mask"]. Returns the
 * signals that were blocked, or a negative errno: a scope needs to know them.
 */
static int unblock(void)
{
	sigset_t faults, before;
	int blocked, r;

	/* Looks only, as a rule: an unblocked signal needs no change of the mask. */
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

/* After a failure the signals stay unblocked, which makes no fault end the process. */
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

/*
 * guard_suspended counts as no scope. A handler that jumps out of a callback leaves it there, and
 * the thread with a mask of its own, which may block the signals.
 */
static inline bool is_outermost(const struct guard_slot *slot)
{
	return !slot || !slot->innermost || slot->innermost == &guard_suspended;
}

static inline void leave_slot(struct guard_slot *slot)
{
	if (unlikely(!slot->kept) && !slot->innermost)
		guard_leave_slot(slot);
}

/*
 * Handlers run on this very thread, so only the compiler has to keep the order. @slot: the
 * thread's, or NULL if it had none. @follows: for a copy, see guard_follows(). Returns the
 * thread's slot; NULL: there is no scope, and *@ret_error tells why.
 */
static inline struct guard_slot *open_scope(struct guard_slot *slot, struct hm_guard *guard,
					    uint32_t kind, bool follows, int *ret_error)
{
	int blocked = 0;

	if (unlikely(!slot)) {
		slot = guard_own ? guard_own : guard_take_slot();
		if (unlikely(!slot)) {
			*ret_error = err_set(-EAGAIN,
					     "4096 threads or more are in guarded scopes at a "
					     "time: end some first");
			return NULL;
		}
	}
	/* An outer scope has already unblocked the signals. */
	if (is_outermost(slot) && !(follows && slot->copied)) {
		blocked = unblock();
		if (unlikely(blocked < 0)) {
			leave_slot(slot);
			*ret_error = blocked;
			return NULL;
		}
		guard_looked(slot, !blocked && kind == STATE_COPY);
	}
	guard->outer = slot->innermost;
	guard->state = STATE_OPEN | kind | (uint32_t)blocked;
	atomic_signal_fence(memory_order_seq_cst);
	slot->innermost = guard;
	atomic_signal_fence(memory_order_seq_cst);
	return slot;
}

/* Cleans up after @guard, which is not the innermost scope any more. */
static inline void after_scope(struct guard_slot *slot, struct hm_guard *guard)
{
	if (unlikely(guard->state & STATE_BLOCKED)) {
		block_again(guard->state & STATE_BLOCKED);
		guard_forget(slot);
	}
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

	err_begin();
	if (!guard)
		return err_set(-EINVAL, "hm_guard_begin: the guard is NULL");
	if (guard->struct_size != sizeof(*guard))
		return err_set(-EINVAL,
			       "hm_guard_begin: struct_size %u is not that of the guard, %zu: "
			       "HM_GUARD_INIT() sets it",
			       guard->struct_size, sizeof(*guard));
	if (handler_flags() == HANDLER_NONE)
		return guard_refuse_uninstalled("hm_guard_begin");
	if (is_outermost(guard_own)) {
		above = handler_unchained();
		if (above)
			return err_set(-EBUSY,
				       "another handler of %s was installed since the "
				       "library's: install it before, or promise by "
				       "hm_handler_chained() that it forwards",
				       above & HM_HANDLER_SIGBUS ? "SIGBUS" : "SIGSEGV");
	}
	return open_scope(guard_own, guard, 0, false, &r) ? 0 : r;
}

int hm_guard_caught(struct hm_guard *guard)
{
	/* The handler has left the scope; the text and cause are found out here. */
	after_scope(guard_own, guard);
	return fault_explain(&guard->fault, guard->base, "a guarded access");
}

int hm_guard_end(struct hm_guard *guard)
{
	struct guard_slot *slot = guard_own;

	if (!guard || (guard->state & ~STATE_BLOCKED) != STATE_OPEN || !slot ||
	    guard != slot->innermost)
		return err_set(-EINVAL, "hm_guard_end: this is not the innermost scope of this "
					"thread, or it has ended already");
	close_scope(slot, guard);
	return 0;
}

/* ---- a copy in a scope of its own ---- */

/* A function of its own, so that no variable changes between setjmp() and its second return. */
int guard_copy(struct hm_guard *guard, struct guard_slot *slot, bool follows,
	       copy_function *way, void *dst, const void *src, uint64_t length)
{
	struct guard_slot *open;
	int r;

	if (setjmp(guard->env)) {
		after_scope(guard_own, guard);
		return 1;
	}
	open = open_scope(slot, guard, STATE_COPY, follows, &r);
	if (unlikely(!open))
		return r;
	if (likely(!way))
		memcpy(dst, src, length);
	else
		way(dst, src, length);
	close_scope(open, guard);
	return 0;
}
