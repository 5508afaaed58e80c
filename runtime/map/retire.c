// SPDX-License-Identifier: MIT
/*
 * Retirement: a bounded queue, and the thread that releases its entries.
 *
 * call_rcu() does not fit: its backlog has no bound at which a caller could be refused, its
 * thread looks every 10 ms, and its rcu_barrier() waits for callbacks of other libraries as
 * well. The queue is liburcu's, wait-free for threads that enter an object, and one grace
 * period serves all entries that the thread finds in it.
 *
 * Room is taken before an object enters, and given back when it is released: the counters never
 * exceed the bounds, except by objects dropped inside a read-side critical section, where
 * waiting for a grace period would never end.
 *
 * Three pairs of a store and a load decide which thread is late, each sequentially consistent.
 * One thread takes room and then loads `asleep`; the retirement thread stores `asleep` and then
 * loads the room. One takes room and then loads the bounds again; hm_retire_set() stores the
 * bounds and then loads the room. One gives room and then loads `waiters`; a waiter counts
 * itself and then loads the room.
 */
#include "map/retire.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <urcu/urcu-bp.h>

#include <hetmap/retire.h>

#include "base/env.h"
#include "base/err.h"
#include "base/handler_phase.h"
#include "base/object.h"
#include "base/thread.h"
#include "base/util.h"

#define OBJECTS_DEFAULT 256
#define OBJECTS_MAX (1u << 20)
#define BYTES_DEFAULT MIB(64)
#define MIB_MAX (1ull << 40)

/*
 * Naps of the thread after work, before it sleeps. Waking a thread costs the waker more than an
 * enqueue, and a program that unmaps once mostly does so again. Only a backlog that is half
 * full wakes the thread early.
 */
#define NAP_NS 1000000
#define NAPS 32

/* Longest wait in exit(). */
#define EXIT_NS 10000000000ull

/* Objects that wait, or are being released. */
static struct {
	_Atomic uint64_t objects, bytes;
	_Atomic uint64_t max_objects, max_bytes; /* 0: objects are released in place */
	_Atomic uint64_t retired, released;      /* since the start */
	_Atomic uint64_t in_place;
	struct __cds_wfcq_head head;
	struct cds_wfcq_tail tail;
} backlog;

static pthread_mutex_t setting = PTHREAD_MUTEX_INITIALIZER; /* hm_retire_set(); before lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    /* protects the next ones; a leaf */

enum thread_state { THREAD_NONE, THREAD_RUNS, THREAD_STOPS, THREAD_ENDED };

static struct {
	_Atomic uint32_t state; /* enum thread_state; read without lock too */
	_Atomic bool asleep;    /* must be woken; read without lock too */
	pthread_t thread;
	pthread_cond_t wake;    /* for the thread */
	pthread_cond_t changed; /* for waiters: for room, or for the thread's end */
} helper;

static _Atomic uint32_t waiters; /* of helper.changed */
static _Atomic bool was_used;    /* grace periods may have been waited for */
static bool was_set;             /* by the application; under setting */
static bool exiting;
static bool lost_sections; /* the parent's readers are unknown: see retire_fork_prepare() */
static __thread bool is_helper;

/*
 * TSan does not see that an object that was put into the queue comes out of it afterwards,
 * since liburcu is not instrumented.
 */
#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif
#ifdef HAS_TSAN
#include <sanitizer/tsan_interface.h>
#define NOTE_ENTERS(retired) __tsan_release(retired)
#define NOTE_LEAVES(retired) __tsan_acquire(retired)
#else
#define NOTE_ENTERS(retired) ((void)(retired))
#define NOTE_LEAVES(retired) ((void)(retired))
#endif

/* ---- room ---- */

static void wake_waiters(void)
{
	if (likely(!atomic_load(&waiters)))
		return;
	pthread_mutex_lock(&lock);
	pthread_cond_broadcast(&helper.changed);
	pthread_mutex_unlock(&lock);
}

/* @ret_before: the amount taken before. */
static bool take(_Atomic uint64_t *taken, const _Atomic uint64_t *max, uint64_t n,
		 uint64_t *ret_before)
{
	uint64_t before = atomic_load(taken);

	do {
		if (before + n > atomic_load(max))
			return false;
	} while (!atomic_compare_exchange_weak(taken, &before, before + n));
	*ret_before = before;
	/* The bounds may have been lowered by a thread that did not see this. */
	if (likely(before + n <= atomic_load(max)))
		return true;
	atomic_fetch_sub(taken, n);
	return false;
}

static bool crosses_half(uint64_t before, uint64_t n, const _Atomic uint64_t *max)
{
	uint64_t half = atomic_load_explicit(max, memory_order_relaxed) / 2;

	return before < half && before + n >= half;
}

/* *@ret_half: the backlog is half full, so the thread must look now. */
static bool take_room(uint64_t bytes, bool *ret_half)
{
	uint64_t objects_before, bytes_before;

	if (!take(&backlog.objects, &backlog.max_objects, 1, &objects_before))
		goto refuse;
	if (!take(&backlog.bytes, &backlog.max_bytes, bytes, &bytes_before))
		goto give_object;
	*ret_half = crosses_half(objects_before, 1, &backlog.max_objects) ||
		    crosses_half(bytes_before, bytes, &backlog.max_bytes);
	return true;

give_object:
	atomic_fetch_sub(&backlog.objects, 1);
refuse:
	wake_waiters();
	return false;
}

static void give_room(uint64_t bytes)
{
	atomic_fetch_sub(&backlog.bytes, bytes);
	atomic_fetch_sub(&backlog.objects, 1);
	wake_waiters();
}

bool retire_is_on(void)
{
	return atomic_load_explicit(&backlog.max_objects, memory_order_relaxed);
}

/* ---- the thread ---- */

static void wake_helper(void)
{
	pthread_mutex_lock(&lock);
	pthread_cond_signal(&helper.wake);
	pthread_mutex_unlock(&lock);
}

/* Waits until there may be objects again. False: none is left, and the thread must end. */
static bool rest(unsigned int *naps)
{
	struct timespec due;
	bool goes_on;

	pthread_mutex_lock(&lock);
	goes_on = helper.state == THREAD_RUNS || atomic_load(&backlog.objects);
	if (goes_on && *naps) {
		(*naps)--;
		deadline_after(NAP_NS, &due);
		pthread_cond_timedwait(&helper.wake, &lock, &due);
	} else if (goes_on) {
		atomic_store(&helper.asleep, true);
		while (helper.state == THREAD_RUNS && !atomic_load(&backlog.objects))
			pthread_cond_wait(&helper.wake, &lock);
		atomic_store(&helper.asleep, false);
		/* A thread that took room may still be on its way to the queue. */
		*naps = NAPS;
	}
	pthread_mutex_unlock(&lock);
	return goes_on;
}

static void release(struct cds_wfcq_node *node)
{
	struct retired *retired = caa_container_of(node, struct retired, node);
	uint64_t bytes;

	NOTE_LEAVES(retired);
	bytes = retired->bytes;
	retired->release(retired);
	atomic_fetch_add(&backlog.released, 1);
	give_room(bytes);
}

static void *work(void *user)
{
	struct cds_wfcq_node *node, *next;
	struct __cds_wfcq_head head;
	struct cds_wfcq_tail tail;
	unsigned int naps = NAPS;

	(void)user;
	is_helper = true;
	pthread_setname_np(pthread_self(), "hetmap-retire");
	__cds_wfcq_init(&head, &tail);
	do {
		if (__cds_wfcq_splice_blocking(&head, &tail, &backlog.head, &backlog.tail) ==
		    CDS_WFCQ_RET_SRC_EMPTY)
			continue;
		urcu_bp_synchronize_rcu();
		handler_quiesce();
		__cds_wfcq_for_each_blocking_safe(&head, &tail, node, next) release(node);
		__cds_wfcq_init(&head, &tail);
		naps = NAPS;
	} while (rest(&naps));
	pthread_mutex_lock(&lock);
	helper.state = THREAD_ENDED;
	pthread_cond_broadcast(&helper.changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Resets to the state of a process that has never used retirement. */
static void init(void)
{
	thread_condition_init(&helper.wake);
	thread_condition_init(&helper.changed);
	__cds_wfcq_init(&backlog.head, &backlog.tail);
}

static pthread_once_t init_once = PTHREAD_ONCE_INIT;

/* Caller holds setting. 0: the thread runs. Sets a text with an error. */
static int start_helper(void)
{
	int r = 0;

	pthread_mutex_lock(&lock);
	if (exiting) {
		r = -EAGAIN;
	} else if (helper.state == THREAD_NONE) {
		r = thread_start(&helper.thread, work, NULL);
		if (!r)
			helper.state = THREAD_RUNS;
	}
	pthread_mutex_unlock(&lock);
	if (!r)
		return 0;
	return err_set(r, "the thread that releases retired objects could not be started: see "
			  "RLIMIT_NPROC, pids.max of the control group, and RLIMIT_AS for its "
			  "stack; or the process is ending");
}

/* ---- in ---- */

static void release_in_place(struct retired *retired)
{
	if (retire_is_on()) {
		atomic_fetch_add_explicit(&backlog.in_place, 1, memory_order_relaxed);
		/*
		 * Inside a section the thread releases the object, unless deferral was ended
		 * just now.
		 */
		if (!urcu_bp_read_ongoing())
			urcu_bp_synchronize_rcu();
	}
	handler_quiesce();
	retired->release(retired);
}

/* Inside a section no thread can wait for the section's end: the bounds do not hold there. */
static bool exceed_room(uint64_t bytes)
{
	if (!urcu_bp_read_ongoing())
		return false;
	atomic_fetch_add(&backlog.objects, 1);
	atomic_fetch_add(&backlog.bytes, bytes);
	if (atomic_load(&backlog.max_objects))
		return true;
	give_room(bytes);
	return false;
}

/*
 * Bounds imply a running thread, which the thread that set them has started. While room is
 * taken it can't end: its end waits for all room to be given back.
 */
static bool enter(struct retired *retired, bool now)
{
	uint64_t bytes = retired->bytes;
	bool half = false;

	if ((now || !take_room(bytes, &half)) && !exceed_room(bytes))
		return false;
	cds_wfcq_node_init(&retired->node);
	atomic_fetch_add(&backlog.retired, 1);
	NOTE_ENTERS(retired);
	cds_wfcq_enqueue(&backlog.head, &backlog.tail, &retired->node);
	if (unlikely(atomic_load(&helper.asleep) || half))
		wake_helper();
	return true;
}

void retire(struct retired *retired, uint64_t bytes, bool now, retire_release *release)
{
	retired->bytes = bytes;
	retired->release = release;
	if (likely(!retire_is_on()) || !enter(retired, now))
		release_in_place(retired);
}

/* ---- waiting ---- */

static bool is_within(uint64_t released)
{
	return atomic_load(&backlog.released) >= released &&
	       atomic_load(&backlog.objects) <= atomic_load(&backlog.max_objects) &&
	       atomic_load(&backlog.bytes) <= atomic_load(&backlog.max_bytes);
}

static bool is_released(uint64_t released)
{
	return atomic_load(&backlog.released) >= released;
}

static bool has_ended(uint64_t ignored)
{
	(void)ignored;
	return helper.state == THREAD_ENDED;
}

/* False: the condition did not come true in time. */
static bool wait_until(bool (*is_so)(uint64_t released), uint64_t released, uint64_t ns)
{
	struct timespec due;
	bool so;
	int r = 0;

	deadline_after(ns, &due);
	pthread_mutex_lock(&lock);
	atomic_fetch_add(&waiters, 1);
	pthread_cond_signal(&helper.wake);
	while (!(so = is_so(released)) && !r)
		r = pthread_cond_timedwait(&helper.changed, &lock, &due);
	atomic_fetch_sub(&waiters, 1);
	pthread_mutex_unlock(&lock);
	return so;
}

/* False: the thread would wait for itself. */
static bool may_wait(void)
{
	return !is_helper && !urcu_bp_read_ongoing();
}

/* Entries got their number before they entered, and leave in the order of their numbers. */
static bool flush(void)
{
	uint64_t retired = atomic_load(&backlog.retired);

	if (is_released(retired))
		return true;
	return may_wait() && wait_until(is_released, retired, UINT64_MAX);
}

bool retire_relieve(int r, bool *relieved)
{
	static const int lacks[] = { -ENOMEM, -ENOSPC, -EMFILE, -ENFILE };
	size_t i;

	if (likely(!r))
		return false;
	for (i = 0; i < ARRAY_SIZE(lacks); i++)
		if (r == lacks[i])
			return retire_unmap(relieved);
	return false;
}

/* The obstacle may have been released already, so an empty backlog proves nothing. */
bool retire_unmap(bool *relieved)
{
	if (*relieved || !atomic_load(&was_used) || !flush())
		return false;
	*relieved = true;
	/* Forgets the text of the first try, which does not count. */
	err_clear();
	return true;
}

static int refuse_waiting(const char *what)
{
	return err_set(-EDEADLK, "%s: %s would wait for itself: call it %s", what,
		       is_helper ? "the thread that releases" :
				   "a read-side critical section of liburcu",
		       is_helper ? "in another thread" : "behind urcu_bp_read_unlock()");
}

int hm_retire_flush(void)
{
	err_begin();
	return flush() ? 0 : refuse_waiting("hm_retire_flush");
}

/* ---- bounds ---- */

/* Stops the thread once nothing is left. False: not in time, and the thread goes on. */
static bool stop_helper(uint64_t ns)
{
	bool ended;

	pthread_mutex_lock(&lock);
	if (helper.state == THREAD_RUNS)
		helper.state = THREAD_STOPS;
	ended = helper.state == THREAD_NONE;
	pthread_mutex_unlock(&lock);
	if (ended)
		return true;
	if (!wait_until(has_ended, 0, ns))
		return false;
	pthread_join(helper.thread, NULL);
	pthread_mutex_lock(&lock);
	helper.state = THREAD_NONE;
	pthread_mutex_unlock(&lock);
	return true;
}

/*
 * @objects 0: release in place. The caller may wait. @first: bounds of the environment, which
 * are ignored if the application has set its own, or if there must be none.
 * -EAGAIN: no thread, without which no deferral is promised.
 */
static int set_bounds(uint64_t objects, uint64_t bytes, bool first)
{
	int r = 0;

	pthread_once(&init_once, init);
	fork_init();
	pthread_mutex_lock(&setting);
	if (first && (was_set || lost_sections))
		goto unlock;
	if (objects) {
		r = start_helper();
		if (r)
			goto unlock;
		atomic_store(&was_used, true);
	}
	if (!first)
		was_set = true;
	atomic_store(&backlog.max_bytes, bytes);
	atomic_store(&backlog.max_objects, objects);
	if (atomic_load(&was_used) && !is_within(0))
		wait_until(is_within, 0, UINT64_MAX);
	if (!objects)
		stop_helper(UINT64_MAX);
unlock:
	pthread_mutex_unlock(&setting);
	return r;
}

static int read_desc(const struct hm_retire_desc *from, struct hm_retire_desc *desc)
{
	int r;

	*desc = (struct hm_retire_desc){ 0 };
	if (!from)
		return 0;
	r = struct_read(desc, sizeof(*desc), from, from->struct_size, sizeof(*desc),
			"hm_retire_desc");
	if (r)
		return r;
	if (desc->flags & ~HM_RETIRE_DEFER)
		return err_set(-EINVAL, "hm_retire_desc.flags 0x%x has unknown bits 0x%x",
			       desc->flags, desc->flags & ~HM_RETIRE_DEFER);
	if (desc->max_objects > OBJECTS_MAX || desc->max_bytes > MIB(MIB_MAX))
		return err_set(-EINVAL,
			       "hm_retire_desc: max_objects %" PRIu64 " must be at most %u, "
			       "and max_bytes %" PRIu64 " at most %" PRIu64,
			       desc->max_objects, OBJECTS_MAX, desc->max_bytes,
			       (uint64_t)MIB(MIB_MAX));
	if (!(desc->flags & HM_RETIRE_DEFER)) {
		desc->max_objects = desc->max_bytes = 0;
		return 0;
	}
	if (!desc->max_objects)
		desc->max_objects = OBJECTS_DEFAULT;
	if (!desc->max_bytes)
		desc->max_bytes = BYTES_DEFAULT;
	return 0;
}

static pthread_once_t environment_once = PTHREAD_ONCE_INIT;
static bool environment_is_bad;
static uint64_t environment_objects, environment_bytes;
static _Atomic bool environment_is_due; /* deferral was asked for, and is not on yet */

static bool read_number(const char **text, uint64_t max, uint64_t *ret_number)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*ret_number = strtoull(*text, &end, 10);
	*text = end;
	return !errno && *ret_number <= max;
}

static void read_environment(void)
{
	const char *text = env_get("HETMAP_RETIRE");
	uint64_t objects = 0, mib = BYTES_DEFAULT / MIB(1);

	if (!text || !*text)
		return;
	environment_is_bad = !read_number(&text, OBJECTS_MAX, &objects) ||
			     (*text == ',' && (text++, !read_number(&text, MIB_MAX, &mib))) ||
			     *text || !mib;
	environment_objects = objects;
	environment_bytes = MIB(mib);
	environment_is_due = !environment_is_bad && objects;
}

int retire_read_environment(void)
{
	int r = 0;

	pthread_once(&environment_once, read_environment);
	if (unlikely(atomic_load(&environment_is_due))) {
		r = set_bounds(environment_objects, environment_bytes, true);
		if (!r)
			atomic_store(&environment_is_due, false);
	}
	if (likely(!environment_is_bad))
		return r;
	return err_set(
		-EINVAL,
		"HETMAP_RETIRE is \"%s\": it is OBJECTS[,MIB], how many maps and buffers, "
		"and MiB of them, may wait to be released: set OBJECTS to 0 (none) to %u, and "
		"MIB to 1 at least",
		env_get("HETMAP_RETIRE"), OBJECTS_MAX);
}

int hm_retire_set(const struct hm_retire_desc *from)
{
	struct hm_retire_desc desc;
	int r;

	err_begin();
	r = read_desc(from, &desc);
	if (r)
		return r;
	if (desc.max_objects && lost_sections)
		return err_set(-EOPNOTSUPP,
			       "hm_retire_set: this process was forked inside a read-side "
			       "critical section of liburcu, which never ends here");
	if (!may_wait())
		return refuse_waiting("hm_retire_set");
	return set_bounds(desc.max_objects, desc.max_bytes, false);
}

struct retire_counts retire_counts(void)
{
	return (struct retire_counts){
		.retired = atomic_load_explicit(&backlog.retired, memory_order_relaxed),
		.in_place = atomic_load_explicit(&backlog.in_place, memory_order_relaxed),
		.objects = atomic_load_explicit(&backlog.objects, memory_order_relaxed),
		.bytes = atomic_load_explicit(&backlog.bytes, memory_order_relaxed),
	};
}

/* ---- ends ---- */

/*
 * Runs after the application's own atexit() functions, so that objects dropped there are
 * released, too. Objects dropped later are released in place.
 */
static __attribute__((destructor)) void end(void)
{
	pthread_mutex_lock(&lock);
	exiting = true;
	pthread_mutex_unlock(&lock);
	/* A thread that is setting bounds waits; this one must not. */
	if (!atomic_load(&was_used) || !may_wait() || pthread_mutex_trylock(&setting))
		return;
	atomic_store(&backlog.max_objects, 0);
	stop_helper(EXIT_NS);
	pthread_mutex_unlock(&setting);
}

/*
 * urcu_bp_before_fork() is needed if the child may wait for a grace period. It waits for the
 * grace period that is under way, which inside a section would never end.
 */
static __thread bool sections_kept;

void retire_fork_prepare(void)
{
	sections_kept = atomic_load(&was_used) && !urcu_bp_read_ongoing();
	if (sections_kept)
		urcu_bp_before_fork();
}

void retire_fork_parent(void)
{
	if (sections_kept)
		urcu_bp_after_fork_parent();
}

void retire_fork_child(void)
{
	if (sections_kept)
		urcu_bp_after_fork_child();
	else if (atomic_load(&was_used))
		lost_sections = true;
	backlog.max_objects = backlog.max_bytes = 0;
	backlog.objects = backlog.bytes = 0;
	backlog.released = backlog.retired;
	/* A thread of the parent may have held them, or waited. */
	setting = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	waiters = 0;
	helper.state = THREAD_NONE;
	helper.asleep = false;
	is_helper = false;
	was_used = false;
	environment_is_due = false;
	init();
}
