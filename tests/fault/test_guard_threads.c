// SPDX-License-Identifier: MIT
/* Data kept for each thread: where its scopes are found, and its old signal mask. */
#include <errno.h>
#include <hetmap/guard.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compat.h"
#include "base/guard_slot.h"
#include "fault/guard_support.h"
#include "fault/handler.h"
#include "lib/inject.h"
#include "lib/minimal_backend.h"

#define SIZE (8 * PAGE)
#define SLOTS 8192            /* guard_slot.c; half of them are kept */
#define STACK (2ull << 20)    /* sanitizers take their part */
#define STACKS (512ull << 20) /* where they are looked for: nothing of it is touched */

/* ---- threads end ---- */

static void take_all_keys(void)
{
	pthread_key_t key;
	int i;

	for (i = 0; i < PTHREAD_KEYS_MAX && !pthread_key_create(&key, NULL); i++)
		;
	CHECK_EQUAL(pthread_key_create(&key, NULL), EAGAIN);
}

static pthread_t run_on(char *stack, void *(*run)(void *), void *user)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	CHECK_FATAL(!pthread_attr_setstack(&attr, stack, STACK));
	CHECK_FATAL(!pthread_create(&thread, &attr, run, user));
	pthread_attr_destroy(&attr);
	return thread;
}

static char *map_stacks(uint64_t size)
{
	char *stacks = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK_FATAL(stacks != MAP_FAILED);
	return stacks;
}

static struct {
	_Atomic bool begun, end;
	uintptr_t name;
} held;

static void *tell_name(void *user)
{
	(void)user;
	held.name = (uintptr_t)pthread_self();
	return NULL;
}

/* The first in its slot: the next thread with this slot gets the one behind. */
static void *hold_scope(void *user)
{
	struct hm_guard guard;

	(void)user;
	HM_GUARD_INIT(&guard);
	CHECK_OK(hm_guard_begin(&guard));
	held.begun = true;
	while (!held.end)
		usleep(1000);
	CHECK_OK(hm_guard_end(&guard));
	return NULL;
}

static void *end_inside(void *user)
{
	struct hm_guard guard;

	(void)user;
	HM_GUARD_INIT(&guard);
	CHECK_OK(hm_guard_begin(&guard));
	return NULL;
}

static void *begin_and_end(void *user)
{
	struct hm_guard **innermost;
	struct hm_guard guard;
	bool kept = user;

	HM_GUARD_INIT(&guard);
	CHECK_OK(hm_guard_begin(&guard));
	CHECK(*guard_innermost() == &guard);
	CHECK_OK(hm_guard_end(&guard));
	/* A fault would be the dead thread's scope's. */
	innermost = guard_innermost();
	CHECK(kept ? innermost && !*innermost : !innermost);
	return NULL;
}

/* Another stack, on which a thread's slot would be the one that @name has. */
static char *find_stack(char *stacks, uintptr_t name)
{
	uint64_t at;

	for (at = 2 * STACK; at < STACKS - STACK; at += PAGE)
		if (guard_hash(name + at) % SLOTS == guard_hash(name) % SLOTS)
			return stacks + at;
	return NULL;
}

/* A name that two threads have, one after the other: the first one's scope is not the other's. */
static void same_name_where(bool kept)
{
	char *stacks, *other;
	pthread_t first;
	AUTO(rig_handler) handler = rig_handler(0);

	stacks = map_stacks(STACKS);
	/* A thread's name is an address at the end of its stack. */
	pthread_join(run_on(stacks, tell_name, NULL), NULL);
	other = find_stack(stacks, held.name);
	CHECK_FATAL(other != NULL);
	held.begun = held.end = false;
	first = run_on(stacks, hold_scope, NULL);
	while (!held.begun)
		usleep(1000);
	pthread_join(run_on(other, end_inside, NULL), NULL);
	pthread_join(run_on(other, begin_and_end, kept ? &held : NULL), NULL);
	pthread_join(run_on(other, end_inside, NULL), NULL);
	held.end = true;
	pthread_join(first, NULL);
	pthread_join(run_on(other, begin_and_end, kept ? &held : NULL), NULL);
	munmap(stacks, STACKS);
}

static void same_name(void)
{
	same_name_where(true);
}

/* Where the library is not told of the ends of threads. */
static void same_name_untold(void)
{
	take_all_keys();
	same_name_where(false);
}

static void *begin_afresh(void *user)
{
	CHECK(!guard_innermost());
	return begin_and_end(user);
}

static void *have_none(void *user)
{
	(void)user;
	CHECK(!guard_innermost());
	return NULL;
}

static void in_child(void *user)
{
	pthread_join(run_on(user, have_none, NULL), NULL);
}

/* A slot of a thread that ended, or of another process, is free again. */
static void ended(void)
{
	pthread_t first;
	AUTO(rig_handler) handler = rig_handler(0);
	char *stacks = map_stacks(2 * STACK);

	pthread_join(run_on(stacks, end_inside, NULL), NULL);
	pthread_join(run_on(stacks, begin_afresh, &held), NULL);
	held.begun = held.end = false;
	first = run_on(stacks, hold_scope, NULL);
	while (!held.begun)
		usleep(1000);
	/* TSan's children have no further threads. */
	if (!TEST_TSAN)
		CHECK_EQUAL(test_fork(in_child, stacks), 0);
	held.end = true;
	pthread_join(first, NULL);
	munmap(stacks, 2 * STACK);
}

static struct {
	pthread_key_t key;
	const char *base;
	int times;
} late;

/* Each time anew, until the C library has had enough of it [PTHREAD_DESTRUCTOR_ITERATIONS]. */
static void copy_late(void *user)
{
	char byte;

	CHECK_OK(hm_copy_out(&byte, late.base, 1, NULL));
	CHECK(!late.times || !guard_innermost());
	late.times++;
	/* TSan's own of the thread goes in the last of them. */
	if (!TEST_TSAN || late.times < 2)
		pthread_setspecific(late.key, user);
}

static void *end_with_copies(void *user)
{
	char byte;

	CHECK_OK(hm_copy_out(&byte, late.base, 1, NULL));
	pthread_setspecific(late.key, user);
	return NULL;
}

/* Copies while the thread ends, also behind the notice of its end. */
static void late_copies(void)
{
	char *stack;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	late.base = file.base;
	late.times = 0;
	CHECK_FATAL(!pthread_key_create(&late.key, copy_late));
	stack = map_stacks(STACK);
	pthread_join(run_on(stack, end_with_copies, file.base), NULL);
	CHECK(late.times > 1);
	pthread_join(run_on(stack, begin_afresh, &held), NULL);
	munmap(stack, STACK);
	pthread_key_delete(late.key);
}

/* ---- as many as there may be ---- */

static struct {
	const char *base;
	bool in_scope;
	_Atomic unsigned int there, refused;
	pthread_mutex_t gate; /* held while they are to stay */
} crowd = { .gate = PTHREAD_MUTEX_INITIALIZER };

static void *stay(void *user)
{
	struct hm_guard guard;
	char byte;
	int r;

	(void)user;
	HM_GUARD_INIT(&guard);
	r = crowd.in_scope ? hm_guard_begin(&guard) : hm_copy_out(&byte, crowd.base, 1, NULL);
	if (r)
		atomic_fetch_add(&crowd.refused, 1);
	atomic_fetch_add(&crowd.there, 1);
	pthread_mutex_lock(&crowd.gate);
	pthread_mutex_unlock(&crowd.gate);
	if (!r && crowd.in_scope)
		CHECK_OK(hm_guard_end(&guard));
	return NULL;
}

/* @n of them are there while @meanwhile runs. False: there is no room for so many. */
static bool crowd_of(unsigned int n, bool in_scope, void (*meanwhile)(void))
{
	static pthread_t threads[SLOTS];
	pthread_attr_t small;
	unsigned int i, now;

	crowd.in_scope = in_scope;
	crowd.there = crowd.refused = 0;
	pthread_mutex_lock(&crowd.gate);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (now = 0; now < n; now++)
		if (pthread_create(&threads[now], &small, stay, NULL))
			break;
	pthread_attr_destroy(&small);
	while (atomic_load(&crowd.there) < now)
		usleep(1000);
	CHECK_EQUAL(crowd.refused, 0);
	if (now == n)
		meanwhile();
	pthread_mutex_unlock(&crowd.gate);
	for (i = 0; i < now; i++)
		CHECK(!pthread_join(threads[i], NULL));
	return now == n;
}

static void refused_meanwhile(void)
{
	struct hm_guard guard;
	char byte;

	HM_GUARD_INIT(&guard);
	CHECK_ERROR(-EAGAIN, hm_guard_begin(&guard));
	CHECK(strstr(hm_errmsg(), "4096 threads or more") != NULL);
	CHECK_ERROR(-EAGAIN, hm_copy_out(&byte, crowd.base, 1, NULL));
}

static void served_meanwhile(void)
{
	char byte;

	CHECK_OK(hm_copy_out(&byte, crowd.base, 1, NULL));
	/* As many are kept as may be. */
	CHECK(!guard_innermost());
}

/*
 * One thread more than may be in scopes is told, and has its own when they have ended; and any
 * number may live that have made copies.
 */
static void crowded(void)
{
	struct file_map file;
	bool room;
	char byte;

	if (TEST_TSAN || TEST_ASAN) {
		test_skip("sanitizer", "sanitizers have not room for so many threads");
		return;
	}
	CHECK_OK_FATAL(hm_handler_install(0));
	file = open_file_map(SIZE);
	crowd.base = file.base;
	room = crowd_of(SLOTS, true, refused_meanwhile) &&
	       crowd_of(SLOTS / 2, false, served_meanwhile);
	CHECK_OK(hm_copy_out(&byte, file.base, 1, NULL));
	close_file_map(&file);
	CHECK_OK(hm_handler_remove());
	if (!room)
		test_skip("resources", "no room for 8192 threads");
}

/* ---- looks at the mask ---- */

static void set_mask(const sigset_t *set)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, set, NULL, _NSIG / 8);
}

/* Looks of @n copies in a row. */
static unsigned int looks_of(const char *from, unsigned int n)
{
	unsigned int i, looks;
	char byte;

	if (guard_own)
		guard_own->apart = 0;
	inject_arm(UINT_MAX, INJECT_ONE);
	for (i = 0; i < n; i++)
		hm_copy_out(&byte, from, 1, NULL);
	looks = inject_calls();
	inject_disarm();
	return looks;
}

static int copy_often(const char *from, unsigned int n)
{
	char byte;
	int r = 0;

	while (n-- && !r)
		r = hm_copy_out(&byte, from, 1, NULL);
	return r;
}

/* Any copy of a thread's counts as one that follows the last at once. */
static void have_all_follow(void)
{
	guard_moment = guard_looks = UINT64_MAX / 2;
}

/* A copy that follows the last one at once does not look, for a while. */
static void at_once(void)
{
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);

	have_all_follow();
	CHECK(looks_of(file.base, 1000) <= 1);
	CHECK_EQUAL(looks_of(file.base, 1000), 0);
	guard_looks = 0;
	CHECK_EQUAL(looks_of(file.base, 100), 100);
	have_all_follow();
	guard_moment = 0;
	CHECK_EQUAL(looks_of(file.base, 100), 100);
	/* Where none has followed for a while, they try now and then. */
	guard_moment = 1;
	CHECK_EQUAL(looks_of(file.base, 1000), 1000);
	CHECK(!guard_own->copied);
	have_all_follow();
	CHECK_OK(copy_often(file.base, GUARD_APART));
	CHECK(guard_own->copied > GUARD_NOW);
}

/* Less than the fastest system call that changes the mask. */
static void moment(void)
{
	uint64_t least = UINT64_MAX, begin, took;
	sigset_t none;
	int i;
	AUTO(rig_handler) handler = rig_handler(0);

	sigemptyset(&none);
	for (i = 0; i < 10000; i++) {
		begin = cpu_counter_after();
		set_mask(&none);
		took = cpu_counter() - begin;
		least = took < least ? took : least;
	}
	CHECK(!guard_moment || guard_moment < least);
	CHECK(!guard_moment || guard_looks > 1000 * guard_moment);
	if (!guard_moment)
		test_skip("counter", "the kernel does not rely on it, or it takes long");
}

/* Where the kernel does not rely on the counter, each copy looks at the mask. */
static void never_at_once(void)
{
	inject_always("open", EACCES);
	AUTO(rig_handler) handler = rig_handler(0);
	CHECK(inject_disarm());
	CHECK_EQUAL(guard_moment, 0);
	AUTO(file_map) file = open_file_map(SIZE);
	CHECK_EQUAL(looks_of(file.base, 100), 100);
}

static void *copy_without_counter(void *user)
{
	char byte;

	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV))
		return NULL;
	CHECK_OK(hm_copy_out(&byte, user, 1, NULL));
	CHECK_OK(hm_copy_out(&byte, user, 1, NULL));
	prctl(PR_SET_TSC, PR_TSC_ENABLE);
	CHECK(!guard_own->counts);
	return user;
}

/* Nor where it can't be read: that is SIGSEGV [PR_SET_TSC(2const)]. */
static void no_counter(void)
{
	pthread_t thread;
	void *done;
	char byte;
	AUTO(file_map) file = open_file_map(SIZE);

	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "it asks what time it is, by the counter");
	} else if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) {
		test_skip("kernel", "no PR_SET_TSC");
	} else {
		CHECK_OK(hm_handler_install(0));
		CHECK_OK(hm_copy_out(&byte, file.base, 1, NULL));
		CHECK_OK(hm_copy_out(&byte, file.base, 1, NULL));
		prctl(PR_SET_TSC, PR_TSC_ENABLE);
		CHECK_EQUAL(guard_moment, 0);
		CHECK_OK(hm_handler_remove());
		/* For a thread alone. */
		CHECK_OK(hm_handler_install(0));
		have_all_follow();
		CHECK_FATAL(!pthread_create(&thread, NULL, copy_without_counter, file.base));
		CHECK(!pthread_join(thread, &done) && done);
		CHECK_OK(hm_handler_remove());
	}
}

/* One call for all of the copies, as of an interpreter's. */
static __attribute__((noinline)) int copy_one(const char *from)
{
	char byte;

	return hm_copy_out(&byte, from, 1, NULL);
}

/* However fast a thread blocks the two behind a copy: the next one sees it. */
static void blocked_at_once(void)
{
	sigset_t all, none;
	int i, wrong = 0;

	sigfillset(&all);
	sigemptyset(&none);
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);
	CHECK(!ftruncate(file.fd, PAGE));
	CHECK_OK(hm_map_protect(file.map, 2 * PAGE, PAGE, HM_NONE));
	for (i = 0; i < 20000; i++) {
		wrong += copy_one(file.base) != 0;
		wrong += copy_one(file.base) != 0;
		set_mask(&all);
		wrong += copy_one(file.base + (i & 1 ? PAGE : 2 * PAGE)) !=
			 (i & 1 ? -ERANGE : -EACCES);
		set_mask(&none);
	}
	CHECK_EQUAL(wrong, 0);
}

/* A copy that found something blocked is followed by none, nor is a scope. */
static void after_blocked(void)
{
	sigset_t all, none;
	struct hm_guard guard;

	sigfillset(&all);
	sigemptyset(&none);
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);
	CHECK(!ftruncate(file.fd, PAGE));
	have_all_follow();
	HM_GUARD_INIT(&guard);
	CHECK(looks_of(file.base, 2) <= 1);
	CHECK_OK(hm_guard_begin(&guard));
	CHECK_EQUAL(looks_of(file.base, 2), 0);
	CHECK_OK(hm_guard_end(&guard));
	CHECK_EQUAL(looks_of(file.base, 2), 1);
	CHECK_OK(hm_guard_begin(&guard));
	CHECK_OK(hm_guard_end(&guard));
	set_mask(&all);
	CHECK_EQUAL(copy_one(file.base + PAGE), -ERANGE);
	/* Each copy blocks the signals again, which is two more calls. */
	CHECK_EQUAL(looks_of(file.base, 10), 30);
	set_mask(&none);
	CHECK_EQUAL(looks_of(file.base, 10), 1);
}

static struct {
	char *page;
	const char *good;
	volatile int calls, r;
} mended;

static void mend(int signal)
{
	char byte;

	(void)signal;
	mended.calls = mended.calls + 1;
	mprotect(mended.page, PAGE, PROT_READ | PROT_WRITE);
	mended.r = hm_copy_out(&byte, mended.good, 1, NULL);
}

/*
 * Code called in the midst of a copy, such as the application's handler of a touch elsewhere, may
 * make copies, and change the mask: the next copy looks at the mask again.
 */
static void after_others(void)
{
	struct sigaction action = { .sa_handler = mend, .sa_flags = SA_NODEFER };
	struct hm_guard *guard;
	sigset_t all, none;

	sigfillset(&all);
	sigemptyset(&none);
	CHECK_FATAL(!sigaction(SIGSEGV, &action, NULL));
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(file_map) file = open_file_map(SIZE);
	CHECK(!ftruncate(file.fd, PAGE));
	have_all_follow();
	mended.page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(mended.page != MAP_FAILED);
	mended.good = file.base;
	mended.calls = 0;
	/* Blocked, but for as long as a copy takes. */
	set_mask(&all);
	CHECK_OK(hm_copy_out(mended.page, file.base, 1, NULL));
	CHECK_EQUAL(mended.calls, 1);
	CHECK_EQUAL(mended.r, 0);
	CHECK_EQUAL(copy_one(file.base + PAGE), -ERANGE);
	set_mask(&none);
	/* Not blocked, then in between. */
	mprotect(mended.page, PAGE, PROT_NONE);
	CHECK_OK(hm_copy_out(mended.page, file.base, 1, NULL));
	CHECK_EQUAL(mended.calls, 2);
	CHECK_EQUAL(looks_of(file.base, 2), 1);
	/* Around callbacks of the application's, which may make copies, too. */
	guard = guard_suspend();
	CHECK_EQUAL(guard_own->copied, 0);
	CHECK(looks_of(file.base, 2) == 1 && guard_own->copied);
	guard_resume(guard);
	CHECK_EQUAL(guard_own->copied, 0);
	munmap(mended.page, PAGE);
}

static unsigned int looks_on(const char *name)
{
	unsigned int looks;
	char *bytes;
	AUTO(hm_device) *device = rig_device(name);

	CHECK_OK_FATAL(hm_alloc(device, SIZE, HM_READ | HM_WRITE, &bytes));
	looks_of(bytes, 1);
	looks = looks_of(bytes, 10);
	CHECK_OK(hm_free(bytes));
	return looks;
}

/*
 * An owner's resize is followed, and a backend asked about a loss, from within a copy: one
 * that follows looks after that, and none follows it. Not where to know of a loss takes no call.
 */
static void after_asking(void)
{
	int ends[2];
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_buffer) *buffer = NULL;

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	AUTO(rig) r = rig_make("host", DESC(hm_buffer_desc, .size = SIZE));
	CHECK_OK_FATAL(hm_buffer_send(r.buffer, ends[0], 0));
	CHECK_OK_FATAL(hm_buffer_receive(r.device, ends[1], NULL, &buffer));
	AUTO(hm_map) *received = rig_map(buffer, NULL);
	have_all_follow();
	CHECK(looks_of(hm_map_address(r.map), 2) <= 1 && guard_own->copied > GUARD_NOW);
	CHECK_EQUAL(looks_of(hm_map_address(received), 10), 10);
	CHECK_EQUAL(guard_own->copied, 0);
	CHECK_EQUAL(looks_of(hm_map_address(r.map), 10), 1);
	CHECK_OK_FATAL(hm_backend_register(&unheard_backend));
	CHECK_EQUAL(looks_on("soft:0"), 0);
	CHECK_EQUAL(looks_on("unheard"), 10);
	close(ends[0]);
	close(ends[1]);
}

static const struct test tests[] = {
	{ "same_name", same_name, 60, 0 },
	{ "same_name_untold", same_name_untold, 60, TEST_ONCE },
	{ "ended", ended, 0, 0 },
	{ "late_copies", late_copies, 0, 0 },
	{ "crowded", crowded, 60, TEST_ONCE },
	{ "at_once", at_once, 0, TEST_ONCE },
	{ "moment", moment, 0, 0 },
	{ "never_at_once", never_at_once, 0, TEST_ONCE },
	{ "no_counter", no_counter, 0, TEST_ONCE },
	{ "blocked_at_once", blocked_at_once, 60, 0 },
	{ "after_blocked", after_blocked, 0, TEST_ONCE },
	{ "after_others", after_others, 0, TEST_ONCE },
	{ "after_asking", after_asking, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	inject_install();
	return harness_main(argc, argv, "guard_threads", tests);
}
