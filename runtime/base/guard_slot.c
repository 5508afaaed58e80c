// SPDX-License-Identifier: MIT
/*
 * Guard slots: where a handler finds a thread's innermost scope.
 *
 * It finds it by pthread_self(), which it may call [signal-safety(7)], and not in
 * thread-local memory: a shared library's is allocated on first touch, which may be a
 * handler's; and where it is static instead, dlopen() refuses the library when there is too
 * little of that left [ELF TLS, 4.3].
 */
#include "base/guard_slot.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/proc.h"

/*
 * A slot is kept for as long as its thread lives: to take one is an atomic operation, which
 * waits until all that the thread has stored, as by a copy, is in the cache. But not by more
 * than half of them, so that there are some for threads in scopes, however many live.
 */
#define SLOTS 8192 /* a power of 2 */
#define SLOTS_KEPT (SLOTS / 2)

static struct guard_slot slots[SLOTS];
static _Atomic uint32_t reach; /* no thread's is further on from its first one */
static _Atomic uint32_t n_kept;

/* Slots of a page: where none was ever taken, a fork child need not touch it. */
#define PART 64
static _Atomic bool used[SLOTS / PART];

_Thread_local struct guard_slot *guard_own;
_Atomic uint64_t guard_moment, guard_looks;
struct hm_guard guard_suspended;

static struct guard_slot *slot_at(uintptr_t thread, uint32_t turn)
{
	return &slots[(guard_hash(thread) + turn) % SLOTS];
}

struct hm_guard **guard_innermost(void)
{
	uintptr_t thread = (uintptr_t)pthread_self();
	uint32_t i, last = atomic_load(&reach);
	struct guard_slot *slot;

	for (i = 0; i <= last; i++) {
		slot = slot_at(thread, i);
		if (atomic_load_explicit(&slot->thread, memory_order_relaxed) == thread)
			return &slot->innermost;
	}
	return NULL;
}

/* ---- threads end ---- */

static pthread_key_t ends; /* its value is the thread's slot */
static _Atomic bool has_ends;
static _Thread_local bool keeps_none; /* it has tried, or it ends */

static void reset(struct guard_slot *slot)
{
	slot->innermost = NULL;
	slot->copied = slot->apart = 0;
	slot->counts = false;
	if (slot->kept)
		atomic_fetch_sub(&n_kept, 1);
	slot->kept = false;
}

static void release(struct guard_slot *slot)
{
	reset(slot);
	atomic_store_explicit(&slot->thread, 0, memory_order_release);
}

/* No scope of the thread's is open any more, however it has ended. */
static void thread_ends(void *user)
{
	struct guard_slot *slot = user;

	guard_own = NULL;
	keeps_none = true;
	if (slot->thread == (uintptr_t)pthread_self())
		release(slot);
}

/* Threads that go on don't come to thread_ends() any more: the code may be unloaded. */
static __attribute__((destructor)) void end(void)
{
	if (atomic_exchange(&has_ends, false))
		pthread_key_delete(ends);
}

static bool keep(struct guard_slot *slot)
{
	if (keeps_none)
		return false;
	keeps_none = true;
	if (!has_ends)
		return false;
	if (atomic_fetch_add(&n_kept, 1) < SLOTS_KEPT && !pthread_setspecific(ends, slot))
		return true;
	atomic_fetch_sub(&n_kept, 1);
	return false;
}

/* ---- taking and leaving ---- */

/* Of this thread: where it may not, it is SIGSEGV [PR_SET_TSC(2const)]. */
static bool may_read_counter(void)
{
	int tsc = 0;

	return !prctl(PR_GET_TSC, &tsc) && tsc == PR_TSC_ENABLE;
}

/*
 * Slots behind the one of @turn with this thread's name are one's that ended inside a scope,
 * and had the name before. While this thread lives there come no more of them.
 */
static void drop_stale(uintptr_t thread, uint32_t turn)
{
	static _Thread_local bool done;
	uint32_t last = atomic_load(&reach);
	struct guard_slot *slot;

	if (likely(done))
		return;
	done = true;
	while (++turn <= last) {
		slot = slot_at(thread, turn);
		if (atomic_load_explicit(&slot->thread, memory_order_relaxed) == thread)
			release(slot);
	}
}

/* Before the slot is taken: a handler of this thread's finds it from then on. */
static void reach_out(uint32_t turn)
{
	uint32_t now = atomic_load(&reach);

	while (now < turn && !atomic_compare_exchange_weak(&reach, &now, turn))
		;
}

/* A thread that ended inside a scope may have left one: whoever has its name now, takes it. */
static bool claim(struct guard_slot *slot, uintptr_t thread, uint32_t turn)
{
	uintptr_t now = atomic_load_explicit(&slot->thread, memory_order_relaxed);

	if (now == thread)
		return true;
	if (now)
		return false;
	reach_out(turn);
	atomic_store_explicit(&used[(slot - slots) / PART], true, memory_order_relaxed);
	return atomic_compare_exchange_strong(&slot->thread, &now, thread);
}

struct guard_slot *guard_take_slot(void)
{
	uintptr_t thread = (uintptr_t)pthread_self();
	struct guard_slot *slot;
	uint32_t i;

	for (i = 0; i < SLOTS; i++) {
		slot = slot_at(thread, i);
		if (!claim(slot, thread, i))
			continue;
		reset(slot);
		drop_stale(thread, i);
		slot->kept = keep(slot);
		slot->counts = slot->kept && may_read_counter();
		guard_own = slot;
		return slot;
	}
	return NULL;
}

void guard_leave_slot(struct guard_slot *slot)
{
	guard_own = NULL;
	release(slot);
}

void guard_fork_child(void)
{
	uint32_t i;

	for (i = 0; i < SLOTS; i++) {
		if (i % PART == 0 && !used[i / PART])
			i += PART - 1;
		else if (slots[i].thread && &slots[i] != guard_own)
			release(&slots[i]);
	}
	/* And not of threads that were just at it. */
	atomic_store(&n_kept, guard_own && guard_own->kept);
}

/* ---- scopes that don't count for a while ---- */

struct hm_guard *guard_suspend(void)
{
	struct hm_guard *guard = guard_own ? guard_own->innermost : NULL;

	guard_forget(guard_own);
	if (likely(!guard))
		return NULL;
	guard_own->innermost = &guard_suspended;
	atomic_signal_fence(memory_order_seq_cst);
	return guard;
}

void guard_resume(struct hm_guard *guard)
{
	atomic_signal_fence(memory_order_seq_cst);
	guard_forget(guard_own);
	if (unlikely(guard))
		guard_own->innermost = guard;
}

/* ---- before the first scope ---- */

/*
 * What is measured now may be more than a system call takes later, as CPUs go at other rates
 * and the counter does not. One that changes the mask is more than 120 cycles, whatever the
 * CPU; and none has more than 6 in a nanosecond.
 */
#define CYCLES_A_NS_MAX 6
#define MOMENT_MAX_NS 20
#define LOOKS_NS 1000000

/* Counts alike on all CPUs: what the kernel itself relies on. */
static bool counter_is_reliable(void)
{
	static const char path[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	char name[32];

	return proc_read(path, name, sizeof(name)) && !strcmp(name, "tsc\n");
}

/*
 * Half of what the fastest system call that changes the mask takes now, at most; but 0 where
 * to read the counter twice takes that, as where it is emulated: no copy is fast enough.
 */
static void measure(void)
{
	uint64_t least_call = UINT64_MAX, least_read = UINT64_MAX, ns, all, begin, moment;
	sigset_t now;
	int i;

	guard_moment = 0;
	if (!may_read_counter() || !counter_is_reliable() ||
	    pthread_sigmask(SIG_BLOCK, NULL, &now))
		return;
	ns = time_now_ns();
	all = guard_counter_after();
	for (i = 0; i < 100; i++) {
		begin = guard_counter_after();
		least_read = min_u64(least_read, guard_counter() - begin);
		begin = guard_counter_after();
		pthread_sigmask(SIG_SETMASK, &now, NULL);
		least_call = min_u64(least_call, guard_counter() - begin);
	}
	all = guard_counter_after() - all;
	ns = max_u64(time_now_ns() - ns, 1);
	/* A machine that was stopped meanwhile. */
	if (all / ns > CYCLES_A_NS_MAX)
		return;
	moment = min_u64(least_call / 2, all * MOMENT_MAX_NS / ns);
	guard_looks = all * LOOKS_NS / ns;
	guard_moment = least_read < moment ? moment : 0;
}

void guard_prepare(void)
{
	measure();
	if (!has_ends && !pthread_key_create(&ends, thread_ends))
		has_ends = true;
}
