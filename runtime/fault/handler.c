// SPDX-License-Identifier: MIT
/*
 * The handler: decides about a fault. It runs on any thread, on any stack, and interrupts any
 * code except holders of the library's own locks, which touch no map meanwhile: it takes no
 * lock, allocates nothing and writes no text.
 */
/*
 * Keeps longjmp() from becoming glibc's ____longjmp_chk(), which ends the process where a jump
 * leads down from a signal stack that the kernel does not report as in use, as with
 * SS_AUTODISARM [sigaltstack(2)].
 */
#undef _FORTIFY_SOURCE

#include "fault/handler.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/compat.h"
#include "core/core.h"
#include "fault/repair.h"

/*
 * Most tries of a thread for faults in a row on one address, where the fault may be out of
 * date: changes meanwhile are not known here, and a fault that is not mended by then never will
 * be. The number is large, because an access that succeeded in between is not seen here.
 */
#define TRIES 100000
#define TRIES_A_TURN 64

struct handler_counters handler_counters;

/*
 * Counted by thread, as far as there is room: two threads that share an entry reset each
 * other's count, until one of them has all its tries between two of the other's.
 */
static struct {
	_Atomic(void *) address;
	_Atomic uint32_t n;
} tries[256];

enum verdict {
	VERDICT_TRY, /* the access, again */
	VERDICT_JUMP,
	VERDICT_FORWARD,
};

static enum verdict try_again(void *address)
{
	uint32_t i = guard_hash((uintptr_t)pthread_self()) % ARRAY_SIZE(tries);

	if (atomic_exchange_explicit(&tries[i].address, address, memory_order_relaxed) !=
	    address)
		tries[i].n = 0;
	if (tries[i].n++ >= TRIES) {
		tries[i].n = 0;
		return VERDICT_FORWARD;
	}
	/*
	 * The thread that repairs or changes the map may need this very processor. Yielding
	 * each time takes minutes under load.
	 */
	if (tries[i].n % TRIES_A_TURN == 0)
		sched_yield();
	return VERDICT_TRY;
}

/*
 * True: an access was not possible here and now; false: this or another program sent the
 * signal.
 */
static bool is_fault(int signal, const siginfo_t *info)
{
	if (signal == SIGSEGV)
		return info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR;
	return info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR ||
	       info->si_code == BUS_MCEERR_AR;
}

static void note(struct hm_guard *guard, const struct hm_pointer_info *found, int signal,
		 const siginfo_t *info)
{
	guard->base = found->base;
	guard->fault = (struct hm_fault){
		.struct_size = sizeof(guard->fault),
		.address = info->si_addr,
		.offset = found->map_offset,
		.serial = found->buffer->serial,
		.generation = found->generation,
		.signal = signal,
		.code = info->si_code,
	};
}

static bool may_be_passing(const struct hm_pointer_info *found, int signal)
{
	/* The map gives the right that was asked for: a change had not got that far. */
	return signal == SIGSEGV && found->map_offset < found->length &&
	       found->access == (HM_READ | HM_WRITE);
}

static struct hm_guard *open_guard(void)
{
	struct hm_guard **innermost = guard_innermost();

	return innermost && *innermost != &guard_suspended ? *innermost : NULL;
}

static enum verdict judge_found(const struct hm_pointer_info *found, int signal,
				const siginfo_t *info)
{
	struct hm_guard *guard = open_guard();
	bool replace = !guard && signal == SIGBUS && !(handler_flags() & HM_HANDLER_NO_REPAIR);
	enum verdict verdict = VERDICT_FORWARD;

	if (found->map_offset < found->length)
		switch (repair_fault(found, replace)) {
		case REPAIR_DONE:
			atomic_fetch_add_explicit(&handler_counters.repaired, 1,
						  memory_order_relaxed);
			return VERDICT_TRY;
		case REPAIR_WAIT:
			/* A thread of the parent never ends its work in this fork child. */
			if (found->map->object.fork_gen != fork_generation) {
				verdict = try_again(info->si_addr);
				break;
			}
			sched_yield();
			return VERDICT_TRY;
		case REPAIR_TRY:
			if (signal == SIGBUS || may_be_passing(found, signal))
				verdict = try_again(info->si_addr);
			break;
		case REPAIR_REFUSED:
			if (may_be_passing(found, signal))
				verdict = try_again(info->si_addr);
			break;
		}
	if (verdict == VERDICT_TRY || !guard)
		return verdict;
	note(guard, found, signal, info);
	return VERDICT_JUMP;
}

static enum verdict judge(int signal, const siginfo_t *info)
{
	struct hm_pointer_info found;
	enum verdict verdict;
	unsigned int phase;
	int r;

	/*
	 * Memory that was not touched yet: a touch gives another signal. -EAGAIN: it is in a
	 * map.
	 */
	if (signal == SIGBUS && info->si_code == BUS_MCEERR_AO) {
		r = registry_find_reserved(info->si_addr, &found);
		return r && r != -EAGAIN ? VERDICT_FORWARD : VERDICT_TRY;
	}
	if (!is_fault(signal, info))
		return VERDICT_FORWARD;
	phase = handler_enter();
	r = registry_find_reserved(info->si_addr, &found);
	if (!r)
		verdict = judge_found(&found, signal, info);
	else
		verdict = r == -EAGAIN ? VERDICT_TRY : VERDICT_FORWARD;
	handler_leave(phase);
	return verdict;
}

/*
 * Goes back to where the scope was opened, as if the handler had returned: with the mask and
 * the signal stack from before the fault.
 */
static void __attribute__((noreturn)) jump(struct hm_guard *guard, const ucontext_t *context)
{
	if (context->uc_stack.ss_flags & (int)SS_AUTODISARM)
		syscall(SYS_sigaltstack, &context->uc_stack, NULL);
	/*
	 * A system call by number, since the kernel fills in only that much of the mask in a
	 * context.
	 */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &context->uc_sigmask, NULL, _NSIG / 8);
	longjmp(guard->env, 1);
}

static void forward(int signal, siginfo_t *info, void *context)
{
	struct hm_guard **innermost = guard_innermost();
	struct hm_guard *guard = guard_leave_copies(innermost);

	handler_forward(signal, info, context);
	guard_forget_handled(innermost);
	if (guard)
		*innermost = guard;
}

void handler_run(int signal, siginfo_t *info, void *context)
{
	struct hm_guard **innermost, *guard;
	int error = errno;

	switch (judge(signal, info)) {
	case VERDICT_JUMP:
		innermost = guard_innermost();
		guard = *innermost;
		atomic_fetch_add_explicit(&handler_counters.guarded, 1, memory_order_relaxed);
		*innermost = guard->outer;
		errno = error;
		jump(guard, context);
	case VERDICT_FORWARD:
		atomic_fetch_add_explicit(&handler_counters.forwarded, 1, memory_order_relaxed);
		errno = error;
		forward(signal, info, context);
		break;
	case VERDICT_TRY:
		errno = error;
		break;
	}
}
