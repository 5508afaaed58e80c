// SPDX-License-Identifier: MIT
/*
 * Guards: scopes in which a fault is an error, and copies that have one of their own.
 * The bytes go by the C library's memcpy(); what makes it safe is that the handler
 * knows the thread's innermost scope, and jumps there.
 */
#include <hetmap/guard.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "control.h"
#include "core.h"
#include "fault.h"
#include "handler.h"
#include "loss.h"
#include "lost.h"
#include "remap.h"
#include "repair.h"
#include "share.h"
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

static void leave_slot(void)
{
	struct guard_slot *slot = own;

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

void guard_fork_child(void)
{
	uintptr_t thread = (uintptr_t)pthread_self();
	uint32_t i;

	for (i = 0; i < SLOTS; i++)
		if (slots[i].thread != thread)
			slots[i].thread = 0;
}

/* ---- the mask ---- */

/*
 * A fault whose signal is blocked ends the process [signal(7), "Signal mask"]. Returns
 * which were blocked.
 */
static uint32_t unblock(void)
{
	sigset_t faults, before;
	uint32_t blocked;

	/* The look alone, as a rule: what is not blocked is not touched. */
	if (sys_sigmask(SIG_BLOCK, NULL, &before))
		return 0;
	blocked = (sigismember(&before, SIGBUS) ? STATE_SIGBUS : 0) |
		  (sigismember(&before, SIGSEGV) ? STATE_SIGSEGV : 0);
	if (likely(!blocked))
		return 0;
	sigemptyset(&faults);
	sigaddset(&faults, SIGBUS);
	sigaddset(&faults, SIGSEGV);
	return sys_sigmask(SIG_UNBLOCK, &faults, NULL) ? 0 : blocked;
}

static void block_again(uint32_t blocked)
{
	sigset_t faults;

	if (likely(!blocked))
		return;
	sigemptyset(&faults);
	if (blocked & STATE_SIGBUS)
		sigaddset(&faults, SIGBUS);
	if (blocked & STATE_SIGSEGV)
		sigaddset(&faults, SIGSEGV);
	sys_sigmask(SIG_BLOCK, &faults, NULL);
}

/* ---- scopes ---- */

static int refuse_uninstalled(const char *what)
{
	return err_set(-EOPNOTSUPP,
		       "%s: faults become errors by the library's handler, which is not "
		       "installed: call hm_handler_install() first",
		       what);
}

/* Of what a handler has jumped out of, the slot has stayed, and the mask is the thread's. */
static inline bool is_outermost(void)
{
	return !own || !own->innermost || own->innermost == &guard_suspended;
}

/* Handlers run on this very thread: only the compiler has to keep the order. */
static inline int open_scope(struct hm_guard *guard, uint32_t kind)
{
	uint32_t blocked = 0;

	if (!own) {
		own = take_slot();
		if (unlikely(!own))
			return err_set(-EAGAIN,
				       "%d threads are in guarded scopes at a time: end some "
				       "first",
				       SLOTS);
	}
	/* A scope around it has seen to the mask. */
	if (is_outermost())
		blocked = unblock();
	guard->outer = own->innermost;
	guard->state = STATE_OPEN | kind | blocked;
	atomic_signal_fence(memory_order_seq_cst);
	own->innermost = guard;
	atomic_signal_fence(memory_order_seq_cst);
	return 0;
}

/* It is the innermost one no more. */
static void after_scope(struct hm_guard *guard)
{
	block_again(guard->state & STATE_BLOCKED);
	guard->state = 0;
	leave_slot();
}

static inline void close_scope(struct hm_guard *guard)
{
	atomic_signal_fence(memory_order_seq_cst);
	own->innermost = guard->outer;
	after_scope(guard);
}

int hm_guard_enter(struct hm_guard *guard)
{
	uint32_t above;

	if (!guard)
		return err_set(-EINVAL, "hm_guard_begin: the guard is NULL");
	if (guard->struct_size != sizeof(*guard))
		return err_set(-EINVAL,
			       "hm_guard_begin: struct_size %u is not that of the guard, %zu: "
			       "HM_GUARD_INIT() sets it",
			       guard->struct_size, sizeof(*guard));
	if (handler_flags() == HANDLER_NONE)
		return refuse_uninstalled("hm_guard_begin");
	if (is_outermost()) {
		above = handler_unchained();
		if (above)
			return err_set(-EBUSY,
				       "another handler of %s was installed since the "
				       "library's: install it before, or promise by "
				       "hm_handler_chained() that it forwards",
				       above & HM_HANDLER_SIGBUS ? "SIGBUS" : "SIGSEGV");
	}
	return open_scope(guard, 0);
}

int hm_guard_caught(struct hm_guard *guard)
{
	/* The handler has left the scope; the text and cause are found out here. */
	after_scope(guard);
	return fault_explain(&guard->fault, guard->base, "a guarded access");
}

int hm_guard_end(struct hm_guard *guard)
{
	if (!guard || (guard->state & ~STATE_BLOCKED) != STATE_OPEN || !own ||
	    guard != own->innermost)
		return err_set(-EINVAL, "hm_guard_end: not the innermost scope of this thread, "
					"or over already");
	close_scope(guard);
	return 0;
}

/* ---- copies ---- */

struct copy {
	const char *what;
	char *in_map; /* where of @dst and @src is in the map that was named */
	void *dst;
	const void *src;
	uint64_t length;
	struct hm_map *map;
	uint64_t offset;
	uint32_t recoveries; /* of the device, before the first byte */
};

/* What can be told without touching the bytes; again afterwards. */
static int check_range(const struct copy *copy)
{
	int r;

	/* Also brings what another process owns to the size that it has now. */
	r = map_check(copy->map);
	if (r)
		return r;
	if (unlikely(copy->map->lost))
		return remap_refuse_lost(copy->map);
	return map_check_range(copy->map, copy->offset, copy->length, copy->what);
}

static void tell_fault(const struct copy *copy, uint64_t offset, uint32_t cause,
		       struct hm_fault *ret_fault)
{
	*ret_fault = (struct hm_fault){
		.struct_size = sizeof(*ret_fault),
		.cause = cause,
		.address = copy->in_map + (offset - copy->offset),
		.offset = offset,
		.serial = copy->map->buffer->serial,
		.generation = copy->map->generation,
	};
}

/* A range that ends behind the map, or a map that is lost: told before and after. */
static void tell_refused(const struct copy *copy, int r, struct hm_fault *ret_fault)
{
	if (r == -ERANGE)
		tell_fault(copy, max_u64(copy->offset, hm_map_length(copy->map)), HM_FAULT_END,
			   ret_fault);
	else
		tell_fault(copy, copy->offset, HM_FAULT_LOST, ret_fault);
}

/* *@ret_fault: of a map that was found. */
static int find_map(struct copy *copy, struct hm_fault *ret_fault)
{
	struct hm_pointer_info info;
	int r;

	ret_fault->cause = HM_FAULT_NONE;
	r = registry_find(copy->in_map, &info);
	if (r == -EAGAIN)
		return err_set(r, "%s: the map at %p was being changed all the time",
			       copy->what, (void *)copy->in_map);
	if (r)
		return err_set(r, "%s: %p is in no map", copy->what, (void *)copy->in_map);
	copy->map = info.map;
	copy->offset = info.map_offset;
	copy->recoveries = atomic_load(&info.map->buffer->device->generation);
	r = check_range(copy);
	if (unlikely(r == -ERANGE || r == -ENODEV))
		tell_refused(copy, r, ret_fault);
	return r;
}

/* Apart, so that no variable is changed between setjmp() and its second return. */
static __attribute__((noinline)) int copy_guarded(const struct copy *copy,
						  struct hm_guard *guard)
{
	int r;

	if (setjmp(guard->env))
		return 1;
	r = open_scope(guard, STATE_COPY);
	if (unlikely(r))
		return r;
	memcpy(copy->dst, copy->src, copy->length);
	close_scope(guard);
	return 0;
}

/* A map that is lost, and has its bytes again, looks as if nothing had happened. */
static int check_recovered(const struct copy *copy)
{
	const struct hm_device *device = copy->map->buffer->device;

	if (likely(atomic_load(&device->generation) == copy->recoveries))
		return 0;
	return err_set(
		-ENODEV,
		"%s: %s was taken away and recovered (hm_device_recover) meanwhile: what "
		"was copied before is not of the bytes that are there now",
		copy->what, device->name);
}

/*
 * Bytes that were copied without a fault may be what took the place of lost ones: who
 * replaces them says so first.
 */
static inline int check_copied(const struct copy *copy, struct hm_fault *fault)
{
	uint64_t offset = copy->offset;
	int r;

	atomic_thread_fence(memory_order_acquire);
	r = repair_check(copy->map, copy->offset, copy->length, &offset);
	if (unlikely(r)) {
		tell_fault(copy, offset, HM_FAULT_REPAIRED, fault);
		return r;
	}
	r = check_range(copy);
	if (likely(!r))
		r = check_recovered(copy);
	if (likely(!r) && unlikely(copy->map->buffer->loss))
		r = loss_ask(copy->map->buffer);
	if (unlikely(r))
		tell_refused(copy, r, fault);
	return r;
}

/*
 * The other end of the copy may be in a map, too: what was lost there before raises no
 * fault any more. The pages around a map keep a copy without one within it.
 */
struct other_end {
	struct copy copy; /* map NULL: in none */
	uint64_t cuts;
};

static __attribute__((noinline)) int begin_other(const struct copy *copy, char *in_map,
						 const struct hm_pointer_info *info,
						 struct other_end *other)
{
	/* What a fork child has of the parent's maps is memory as any. */
	if (info->map->object.fork_gen != fork_generation)
		return 0;
	other->copy = *copy;
	other->copy.map = info->map;
	other->copy.in_map = in_map;
	other->copy.offset = info->map_offset;
	other->copy.recoveries = atomic_load(&info->map->buffer->device->generation);
	return share_is_resizing(info->map->buffer, &other->cuts) ? -EAGAIN : 0;
}

/* As find_map(), of bytes that need not be in one. -EAGAIN: just being changed. */
static inline int find_other(const struct copy *copy, struct other_end *other)
{
	char *in_map = copy->in_map == copy->dst ? (char *)(uintptr_t)copy->src : copy->dst;
	struct hm_pointer_info info;
	int r;

	other->copy.map = NULL;
	r = registry_find(in_map, &info);
	if (likely(r == -ENOENT))
		return 0;
	return r ? r : begin_other(copy, in_map, &info, other);
}

static inline int check_other(const struct other_end *other, struct hm_fault *fault)
{
	int r;

	if (likely(!other->copy.map))
		return 0;
	r = check_copied(&other->copy, fault);
	if (likely(r || share_cuts(other->copy.map->buffer) == other->cuts))
		return r;
	return -EAGAIN;
}

static int check_arguments(const struct copy *copy, const struct hm_fault *fault)
{
	if (!copy->dst || !copy->src || !copy->length)
		return err_set(-EINVAL, "%s: %s", copy->what,
			       copy->length ? "a pointer is NULL" : "the length is 0");
	if (fault)
		return struct_check_out(fault->struct_size, sizeof(*fault), sizeof(*fault),
					"hm_fault");
	return 0;
}

/* While a buffer is being resized. A GiB that is cut off takes some 100 ms. */
#define COPY_PATIENCE_NS 1000000000
static const struct timespec copy_pause = { 0, 1000000 };

static int refuse_resizing(const struct copy *copy)
{
	return err_set(-EAGAIN, "%s: %s was being resized all the time", copy->what,
		       copy->map->buffer->name);
}

/* One look at all of the bytes: 0, a negative errno, with the fault in @guard, or -EAGAIN. */
static int copy_once(const struct copy *copy, struct hm_guard *guard)
{
	struct other_end other;
	uint64_t cuts;
	int r;

	if (unlikely(share_is_resizing(copy->map->buffer, &cuts) || find_other(copy, &other))) {
		guard->fault.cause = HM_FAULT_NONE;
		nanosleep(&copy_pause, NULL);
		return refuse_resizing(copy);
	}
	r = copy_guarded(copy, guard);
	if (unlikely(r < 0))
		return r;
	if (unlikely(r)) {
		after_scope(guard);
		r = fault_explain(&guard->fault, guard->base, copy->what);
	} else {
		r = check_copied(copy, &guard->fault);
		if (likely(!r))
			r = check_other(&other, &guard->fault);
	}
	/*
	 * What was cut off and came back is zeros, without a fault and of the size of before;
	 * and what faulted may be there again.
	 */
	if (likely(share_cuts(copy->map->buffer) == cuts && r != -EAGAIN))
		return r;
	guard->fault.cause = HM_FAULT_NONE;
	return refuse_resizing(copy);
}

static int copy_bytes(struct copy *copy, struct hm_fault *ret_fault)
{
	uint64_t deadline = 0;
	struct hm_guard guard;
	int r;

	r = check_arguments(copy, ret_fault);
	if (r)
		return r;
	if (unlikely(handler_flags() == HANDLER_NONE))
		return refuse_uninstalled(copy->what);
	r = find_map(copy, &guard.fault);
	if (unlikely(r)) {
		if (ret_fault && guard.fault.cause)
			struct_write(ret_fault, &guard.fault, ret_fault->struct_size);
		return r;
	}
	for (;;) {
		r = copy_once(copy, &guard);
		if (likely(r != -EAGAIN))
			break;
		if (!deadline)
			deadline = time_now_ns() + COPY_PATIENCE_NS;
		else if (time_now_ns() > deadline)
			break;
	}
	if (unlikely(r) && ret_fault && guard.fault.cause)
		struct_write(ret_fault, &guard.fault, ret_fault->struct_size);
	return lost_notice(copy->map->buffer->device, r);
}

int hm_copy_in(void *dst_in_map, const void *src, uint64_t length, struct hm_fault *fault)
{
	struct copy copy = {
		.what = "hm_copy_in",
		.in_map = dst_in_map,
		.dst = dst_in_map,
		.src = src,
		.length = length,
	};

	return copy_bytes(&copy, fault);
}

int hm_copy_out(void *dst, const void *src_in_map, uint64_t length, struct hm_fault *fault)
{
	struct copy copy = {
		.what = "hm_copy_out",
		.in_map = (char *)(uintptr_t)src_in_map,
		.dst = dst,
		.src = src_in_map,
		.length = length,
	};

	return copy_bytes(&copy, fault);
}
