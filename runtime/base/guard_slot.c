// SPDX-License-Identifier: MIT
/*
 * Guard slots: where a handler finds a thread's innermost scope.
 *
 * The handler looks a slot up by pthread_self(), which is async-signal-safe [signal-safety(7)].
 * Thread-local memory of a shared library does not serve: it is allocated on first touch, which
 * may be in a handler; and where it is static, dlopen() refuses the library once too little
 * static TLS is left [ELF TLS, 4.3].
 */
#include "base/guard_slot.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/proc.h"

/*
 * A slot is kept for as long as its thread lives: taking one is an atomic operation, which waits
 * until all stores of the thread, as by a copy, are in the cache. At most half of the slots are
 * kept, so that threads in scopes find one however many threads live.
 */
#define SLOTS 8192 /* a power of 2 */
#define SLOTS_KEPT (SLOTS / 2)

static struct guard_slot slots[SLOTS];
static _Atomic uint32_t reach; /* the most steps from any thread's first slot to its own */
static _Atomic uint32_t n_kept;

/* Slots of a page: a fork child skips pages of which no slot was ever taken. */
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
static _Thread_local bool keeps_none; /* this thread has tried to keep one, or it ends */

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

/* Releases the slot: no scope of the thread is open any more, however the thread ended. */
static void thread_ends(void *user)
{
	struct guard_slot *slot = user;

	guard_own = NULL;
	keeps_none = true;
	if (slot->thread == (uintptr_t)pthread_self())
		release(slot);
}

/*
 * Deletes the key: the code may be unloaded, and threads that live on must not call
 * thread_ends().
 */
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

/*
 * Is the calling thread allowed to? If not, the instruction raises SIGSEGV [PR_SET_TSC(2const)].
 */
static bool may_read_counter(void)
{
	int tsc = 0;

	return !prctl(PR_GET_TSC, &tsc) && tsc == PR_TSC_ENABLE;
}

/*
 * Releases slots further on than @turn with this thread's name. A thread that ended inside a
 * scope left them, and had the name before. No more of them appear while this thread lives.
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

/*
 * Called before the slot is taken, since a handler of this thread must find the slot from then
 * on.
 */
static void reach_out(uint32_t turn)
{
	uint32_t now = atomic_load(&reach);

	while (now < turn && !atomic_compare_exchange_weak(&reach, &now, turn))
		;
}

/*
 * Takes a slot that is free, or that a thread of the same name left when it ended inside a
 * scope.
 */
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
	/* Threads that were in the middle of taking a slot don't count either. */
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
 * A system call may take less time later than measured now, since CPUs change their rate and the
 * counter does not. A call that changes the mask takes more than 120 cycles on any CPU, and no
 * CPU has more than 6 cycles a nanosecond.
 */
#define CYCLES_A_NS_MAX 6
#define MOMENT_MAX_NS 20
#define LOOKS_NS 1000000

/* Do all CPUs count alike? The kernel's own choice of a clock source tells. */
static bool counter_is_reliable(void)
{
	static const char path[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	char name[32];

	return proc_read(path, name, sizeof(name)) && !strcmp(name, "tsc\n");
}

/*
 * Sets guard_moment to at most half the time of the fastest system call that changes the mask;
 * to 0 where two reads of the counter take that long, as where it is emulated: no copy is fast
 * enough then.
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
	all = cpu_counter_after();
	for (i = 0; i < 100; i++) {
		begin = cpu_counter_after();
		least_read = min_u64(least_read, cpu_counter() - begin);
		begin = cpu_counter_after();
		pthread_sigmask(SIG_SETMASK, &now, NULL);
		least_call = min_u64(least_call, cpu_counter() - begin);
	}
	all = cpu_counter_after() - all;
	ns = max_u64(time_now_ns() - ns, 1);
	/* The machine was stopped in between. */
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
