// SPDX-License-Identifier: MIT
/* The handler among others: earlier ones, later ones, and its end. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/core.h"
#include "lib/inject.h"
#include "lifecycle/lifecycle.h"
#include "fault/others_handler.h"
#include "lib/support.h"
#include "base/sys.h"

/* A page that may not be touched, of no map. */
static volatile char *others_page(void)
{
	void *page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_FATAL(page != MAP_FAILED);
	return page;
}

/* ---- an earlier handler ---- */

/* The earlier handler sees the same as without the library. */
static void before(void)
{
	static const struct {
		int flags;
		unsigned int mask;
	} kinds[] = {
		{ 0, 3 },
		{ SA_SIGINFO, 3 },
		{ SA_SIGINFO | SA_NODEFER, 2 },
		{ SA_SIGINFO | SA_ONSTACK | SA_RESTART, 3 },
	};
	volatile char *page = others_page();
	volatile size_t i;
	uint64_t forwarded = handler_info().forwarded;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		set_action(SIGSEGV, on_plain, kinds[i].flags);
		CHECK_OK_FATAL(hm_handler_install(0));
		seen_signal = 0;
		seen_calls = 0;
		if (!sigsetjmp(back, 1))
			(void)page[5];
		CHECK_EQUAL(seen_signal, SIGSEGV);
		CHECK_EQUAL(seen_calls, 1);
		CHECK_EQUAL(seen_mask, kinds[i].mask);
		if (kinds[i].flags & SA_SIGINFO) {
			CHECK(seen_address == page + 5);
			CHECK_EQUAL(seen_code, SEGV_ACCERR);
		}
		CHECK_EQUAL(mask_now(SIGSEGV), 0);
		/* Again: it was left by a jump. */
		if (!sigsetjmp(back, 1))
			(void)page[6];
		CHECK_EQUAL(seen_calls, 2);
		CHECK_OK(hm_handler_remove());
		if (!sigsetjmp(back, 1))
			(void)page[7];
		CHECK_EQUAL(seen_calls, 3);
	}
	CHECK_EQUAL(handler_info().forwarded, forwarded + 2 * i);
	signal(SIGSEGV, SIG_DFL);
	munmap((void *)(uintptr_t)page, PAGE);
}

/* ---- jumps out of copies ---- */

/* A map of a file, of which all but the first page is cut off. */
static char *make_cut_off(struct hm_map **ret_map)
{
	struct hm_device *device;
	struct hm_buffer *buffer;
	int fd = scratch_file(4 * PAGE);

	CHECK_OK_FATAL(hm_device_open("file", &device));
	CHECK_OK_FATAL(hm_buffer_from_file(device, NULL, fd, NULL, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, ret_map));
	CHECK(!ftruncate(fd, PAGE));
	close(fd);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	return hm_map_address(*ret_map);
}

static int read_guarded(const volatile char *byte)
{
	struct hm_guard guard;
	int r;

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (r)
		return r;
	(void)*byte;
	return hm_guard_end(&guard);
}

/* The copy's source is the program's own page, and the handler for that jumps. */
static __attribute__((noinline)) void jump_out_of_copy(char *dst, const volatile char *page)
{
	int calls = seen_calls;

	if (!sigsetjmp(back, 1)) {
		hm_copy_in(dst, (const char *)(uintptr_t)page, 16, NULL);
		CHECK(!"reached");
	}
	CHECK_EQUAL(seen_calls, calls + 1);
}

/* A fault afterwards is in no scope, and scopes work as before. */
static void out_of_copy(void)
{
	volatile char *page = others_page();
	struct hm_map *map;
	uint64_t repaired;
	sigset_t set;
	char *base;

	set_action(SIGSEGV, on_plain, 0);
	CHECK_OK_FATAL(hm_handler_install(0));
	base = make_cut_off(&map);
	jump_out_of_copy(base, page);
	CHECK_ERROR(-ERANGE, read_guarded(base + PAGE));
	jump_out_of_copy(base, page);
	repaired = handler_info().repaired;
	CHECK_EQUAL(*(volatile char *)(base + PAGE), 0);
	CHECK_EQUAL(handler_info().repaired, repaired + 1);
	hm_map_unref(map);
	/* The next scope is the outermost one: it sees to the mask. */
	base = make_cut_off(&map);
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigaddset(&set, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	CHECK_ERROR(-ERANGE, read_guarded(base + PAGE));
	CHECK_EQUAL(mask_now(SIGSEGV), 1 | 8);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	hm_map_unref(map);
	CHECK_OK(hm_handler_remove());
	signal(SIGSEGV, SIG_DFL);
	munmap((void *)(uintptr_t)page, PAGE);
}

/* The copy is over; the scope that the jump stays in is not. */
static void out_of_copy_in_scope(void)
{
	volatile char *page = others_page();
	struct hm_guard guard;
	struct hm_map *map;
	char *base;
	int r;

	set_action(SIGSEGV, on_plain, 0);
	CHECK_OK_FATAL(hm_handler_install(0));
	base = make_cut_off(&map);
	HM_GUARD_INIT(&guard);
	CHECK_OK(hm_guard_begin(&guard));
	jump_out_of_copy(base, page);
	CHECK_OK(hm_guard_end(&guard));
	r = hm_guard_begin(&guard);
	if (!r) {
		jump_out_of_copy(base, page);
		(void)*(volatile char *)(base + 2 * PAGE);
		CHECK(!"reached");
	}
	CHECK_EQUAL(r, -ERANGE);
	CHECK_EQUAL(guard.fault.offset, 2 * PAGE);
	CHECK_ERROR(-EINVAL, hm_guard_end(&guard));
	hm_map_unref(map);
	CHECK_OK(hm_handler_remove());
	signal(SIGSEGV, SIG_DFL);
	munmap((void *)(uintptr_t)page, PAGE);
}

/* A handler that makes the page accessible, and looks at a cut-off map of its own. */
static volatile char *opened_page, *lost_byte;

static void on_opening(int signal)
{
	(void)signal;
	seen_calls = seen_calls + 1;
	CHECK_ERROR(-ERANGE, read_guarded(lost_byte));
	CHECK(!mprotect((void *)(uintptr_t)opened_page, PAGE, PROT_READ | PROT_WRITE));
}

/* One that returns: the copy goes on, in its scope. */
static void into_copy(void)
{
	struct hm_map *map, *other;
	char *base;

	opened_page = others_page();
	set_action(SIGSEGV, on_opening, 0);
	CHECK_OK_FATAL(hm_handler_install(0));
	base = make_cut_off(&map);
	lost_byte = make_cut_off(&other) + PAGE;
	seen_calls = 0;
	CHECK_OK(hm_copy_in(base, (const char *)(uintptr_t)opened_page, PAGE, NULL));
	CHECK_EQUAL(seen_calls, 1);
	CHECK(!mprotect((void *)(uintptr_t)opened_page, PAGE, PROT_NONE));
	/* Read before anything can be written. */
	CHECK_ERROR(-ERANGE,
		    hm_copy_in(base + PAGE, (const char *)(uintptr_t)opened_page, 1, NULL));
	CHECK_EQUAL(seen_calls, 2);
	hm_map_unref(map);
	hm_map_unref(other);
	CHECK_OK(hm_handler_remove());
	signal(SIGSEGV, SIG_DFL);
	munmap((void *)(uintptr_t)opened_page, PAGE);
}

/* In children of the harness, which have the default actions. */
static void dies_of_fault(void *user)
{
	volatile char *page = others_page();

	signal(SIGSEGV, user);
	CHECK_OK_FATAL(hm_handler_install(0));
	(void)*page;
}

static void dies_of_reset(void *user)
{
	volatile char *page = others_page();

	(void)user;
	set_action(SIGSEGV, on_plain, (int)SA_RESETHAND);
	CHECK_OK_FATAL(hm_handler_install(0));
	seen_calls = 0;
	if (!sigsetjmp(back, 1))
		(void)*page;
	if (seen_calls != 1)
		_exit(1);
	(void)*page;
}

static void dies_of_sent(void *user)
{
	(void)user;
	CHECK_OK_FATAL(hm_handler_install(0));
	raise(SIGBUS);
	_exit(1);
}

static void ignores_sent(void *user)
{
	(void)user;
	signal(SIGBUS, SIG_IGN);
	CHECK_OK_FATAL(hm_handler_install(0));
	raise(SIGBUS);
	kill(getpid(), SIGBUS);
}

static void defaults(void)
{
	CHECK_EQUAL(test_fork(dies_of_fault, (void *)SIG_DFL), SIGSEGV);
	CHECK_EQUAL(test_fork(dies_of_fault, (void *)SIG_IGN), SIGSEGV);
	CHECK_EQUAL(test_fork(dies_of_reset, NULL), SIGSEGV);
	CHECK_EQUAL(test_fork(dies_of_sent, NULL), SIGBUS);
	CHECK_EQUAL(test_fork(ignores_sent, NULL), 0);
}

/* A library that saves the handler it finds, and puts it back once ours is not installed. */
static void put_back(void *user)
{
	const struct sigaction none = { .sa_handler = SIG_DFL };
	volatile char *page = others_page();
	struct sigaction saved, now;

	(void)user;
	set_action(SIGSEGV, on_plain, 0);
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK(!sigaction(SIGSEGV, &none, &saved));
	CHECK_OK(hm_handler_remove());
	CHECK(!sigaction(SIGSEGV, &saved, NULL));
	CHECK_OK_FATAL(hm_handler_install(0));
	seen_calls = 0;
	if (!sigsetjmp(back, 1))
		(void)*page;
	CHECK_EQUAL(seen_calls, 1);
	CHECK_OK(hm_handler_remove());
	CHECK(!sigaction(SIGSEGV, NULL, &now) && now.sa_handler == on_plain);
}

static struct sys_table real;

/* Just before the library installs its own. */
static int late_sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	const struct sigaction late = { .sa_handler = on_plain };

	if (action && signal == SIGSEGV)
		CHECK(!real.sigaction(signal, &late, NULL));
	return real.sigaction(signal, action, old);
}

static void late_one(void *user)
{
	volatile char *page = others_page();
	struct sigaction now;

	(void)user;
	real = sys_table;
	sys_table.sigaction = late_sigaction;
	CHECK_OK_FATAL(hm_handler_install(0));
	sys_table = real;
	seen_calls = 0;
	if (!sigsetjmp(back, 1))
		(void)*page;
	CHECK_EQUAL(seen_calls, 1);
	CHECK_OK(hm_handler_remove());
	CHECK(!sigaction(SIGSEGV, NULL, &now) && now.sa_handler == on_plain);
}

static void others_meanwhile(void)
{
	CHECK_EQUAL(test_fork(put_back, NULL), 0);
	CHECK_EQUAL(test_fork(late_one, NULL), 0);
}

/* ---- a later handler ---- */

static struct sigaction below[2];

static void on_forwarding(int signal, siginfo_t *info, void *context)
{
	const struct sigaction *to = &below[signal == SIGSEGV];

	seen_calls = seen_calls + 1;
	to->sa_sigaction(signal, info, context);
}

static void on_selfish(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info, (void)context;
	seen_calls = seen_calls + 1;
	siglongjmp(back, 1);
}

static void install_after(int signal, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = handler,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };

	CHECK_FATAL(!sigaction(signal, &action, &below[signal == SIGSEGV]));
}

static void give_back_after(int signal)
{
	CHECK(!sigaction(signal, &below[signal == SIGSEGV], NULL));
}

/* A map of a page without access. */
static char *make_map(struct hm_map **ret_map)
{
	struct hm_device *device;
	struct hm_buffer *buffer;

	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_buffer_create(device, DESC(hm_buffer_desc, .size = PAGE), &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, ret_map));
	CHECK_OK(hm_map_protect(*ret_map, 0, PAGE, HM_NONE));
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	return hm_map_address(*ret_map);
}

/* One that keeps faults to itself: the copy does not return, and its scope stays open. */
static void keeps_to_itself(void *user)
{
	struct hm_map *map;
	char *base, byte;

	(void)user;
	CHECK_OK_FATAL(hm_handler_install(0));
	base = make_map(&map);
	install_after(SIGSEGV, on_selfish);
	CHECK_ERROR(-EBUSY, read_guarded(base));
	seen_calls = 0;
	if (!sigsetjmp(back, 1)) {
		hm_copy_out(&byte, base, 1, NULL);
		CHECK(!"reached");
	}
	CHECK_EQUAL(seen_calls, 1);
}

static void after(void)
{
	struct hm_guard outer;
	struct hm_map *map;
	char *base, byte;

	CHECK_OK_FATAL(hm_handler_install(0));
	base = make_map(&map);
	CHECK_EQUAL(handler_info().above, 0);
	CHECK_ERROR(-EACCES, read_guarded(base));
	HM_GUARD_INIT(&outer);
	CHECK_OK(hm_guard_begin(&outer));
	install_after(SIGSEGV, on_forwarding);
	/* An inner scope does not look. */
	CHECK_ERROR(-EACCES, read_guarded(base));
	CHECK_OK(hm_guard_end(&outer));
	CHECK_EQUAL(handler_info().above, HM_HANDLER_SIGSEGV);
	CHECK_EQUAL(handler_info().chained, 0);
	CHECK_ERROR(-EBUSY, read_guarded(base));
	CHECK_ERROR(-EBUSY, hm_handler_remove());
	/* Copies do not check. */
	CHECK_ERROR(-EACCES, hm_copy_out(&byte, base, 1, NULL));
	CHECK_OK(hm_handler_chained());
	CHECK_EQUAL(handler_info().chained, HM_HANDLER_SIGSEGV);
	seen_calls = 0;
	CHECK_ERROR(-EACCES, read_guarded(base));
	CHECK_EQUAL(seen_calls, 1);
	/* The promise was for the first handler only. */
	install_after(SIGBUS, on_forwarding);
	CHECK_ERROR(-EBUSY, read_guarded(base));
	CHECK_OK(hm_handler_chained());
	CHECK_ERROR(-EACCES, read_guarded(base));
	give_back_after(SIGBUS);
	CHECK_ERROR(-EACCES, read_guarded(base));
	give_back_after(SIGSEGV);
	CHECK_EQUAL(handler_info().above, 0);
	hm_map_unref(map);
	CHECK_OK(hm_handler_remove());
}

static void after_selfish(void)
{
	CHECK_EQUAL(test_fork(keeps_to_itself, NULL), 0);
}

/* ---- memory that is known to be broken, before any touch ---- */

static void on_counted(int signal)
{
	(void)signal;
	seen_calls = seen_calls + 1;
}

/* Sends the kernel's early notice to this thread. Returns the calls of the other handler. */
static int tell_early(void *address)
{
	siginfo_t info = { .si_signo = SIGBUS, .si_code = BUS_MCEERR_AO, .si_addr = address };

	seen_calls = 0;
	CHECK_FATAL(
		!syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGBUS, &info));
	return seen_calls;
}

/* A page of a map is the library's, also where the map is just being changed. */
static void early(void)
{
	/* A descriptor that is never full: see test_registry.c. */
	static _Alignas(64) _Atomic uint64_t changing[8] = { 1 };
	volatile char *page = others_page();
	_Atomic uint64_t *seq;
	struct hm_map *map;
	uint64_t kept;
	char *base;

	signal(SIGBUS, on_counted);
	CHECK_OK_FATAL(hm_handler_install(0));
	base = make_map(&map);
	CHECK_EQUAL(tell_early((void *)(uintptr_t)page), 1);
	CHECK_EQUAL(tell_early(base), 0);
	seq = (_Atomic uint64_t *)map->slot;
	kept = atomic_exchange(seq, (uintptr_t)changing | 1ull << 63);
	CHECK_EQUAL(tell_early(base), 0);
	atomic_store(seq, kept);
	hm_map_unref(map);
	CHECK_OK(hm_handler_remove());
	signal(SIGBUS, SIG_DFL);
	munmap((void *)(uintptr_t)page, PAGE);
}

/* ---- coming and going ---- */

static void counted(void)
{
	struct hm_handler_info small = { .struct_size = 4 };
	struct sigaction action;

	CHECK_ERROR(-EINVAL, hm_handler_remove());
	CHECK_ERROR(-EINVAL, hm_handler_chained());
	CHECK_ERROR(-EINVAL, hm_handler_install(1u << 5));
	CHECK_ERROR(-EINVAL, hm_handler_query(NULL));
	CHECK_ERROR(-EINVAL, hm_handler_query(&small));
	set_action(SIGBUS, on_plain, 0);
	CHECK_OK_FATAL(hm_handler_install(HM_HANDLER_NO_REPAIR));
	CHECK_OK(hm_handler_install(HM_HANDLER_NO_REPAIR));
	CHECK_ERROR(-EBUSY, hm_handler_install(0));
	CHECK_EQUAL(handler_info().installed, 2);
	CHECK_EQUAL(handler_info().flags, HM_HANDLER_NO_REPAIR);
	CHECK_OK(hm_handler_remove());
	CHECK_EQUAL(handler_info().installed, 1);
	CHECK(!sigaction(SIGBUS, NULL, &action) && action.sa_handler != on_plain);
	CHECK_OK(hm_handler_remove());
	CHECK(!sigaction(SIGBUS, NULL, &action) && action.sa_handler == on_plain);
	CHECK_EQUAL(handler_info().installed, 0);
	/* Another handler took its place: that one stays. */
	CHECK_OK_FATAL(hm_handler_install(0));
	signal(SIGBUS, SIG_IGN);
	CHECK_ERROR(-EINVAL, hm_handler_chained());
	CHECK_OK(hm_handler_remove());
	CHECK(!sigaction(SIGBUS, NULL, &action) && action.sa_handler == SIG_IGN);
	signal(SIGBUS, SIG_DFL);
}

/* Without the counter copies are slower; without spare mappings a fault uses those left. */
static bool may_fail(const char *call)
{
	static const char *const calls[] = { "open", "read", "close", "mmap", "mprotect" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(calls) && strcmp(call, calls[i]); i++)
		;
	return i < ARRAY_SIZE(calls);
}

/* Each call that installing and removing make fails once: then nothing is different. */
static void undone(void)
{
	struct sigaction was[2], is[2];
	AUTO(hm_map) *map = NULL;
	unsigned int n;
	bool failed;
	int r;

	make_map(&map);
	/* The kernel never refuses these calls of sigaction(2). */
	lifecycle_is_lenient = true;
	sigaction(SIGBUS, NULL, &was[0]);
	sigaction(SIGSEGV, NULL, &was[1]);
	for (n = 1, failed = true; failed; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_handler_install(0);
		failed = inject_disarm();
		CHECK_EQUAL(!r, !failed || may_fail(inject_failed()));
		if (!r)
			CHECK_OK(hm_handler_remove());
		CHECK_EQUAL(handler_info().installed, 0);
		sigaction(SIGBUS, NULL, &is[0]);
		sigaction(SIGSEGV, NULL, &is[1]);
		CHECK(is[0].sa_handler == was[0].sa_handler);
		CHECK(is[1].sa_handler == was[1].sa_handler);
	}
	CHECK(n > 5);
	CHECK_OK_FATAL(hm_handler_install(0));
	for (n = 1, failed = true; failed; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_handler_remove();
		failed = inject_disarm();
		/* A handler that can't be looked up is not taken for another one. */
		if (r) {
			CHECK(failed);
			CHECK_EQUAL(handler_info().installed, 1);
			CHECK_EQUAL(handler_info().above, 0);
		} else {
			CHECK_OK_FATAL(hm_handler_install(0));
		}
	}
	CHECK(n > 5);
	lifecycle_is_lenient = false;
	CHECK_OK(hm_handler_remove());
}

static int (*kernels_madvise)(void *address, size_t length, int advice);
static _Atomic int populating; /* 1: it populates, and its map is held; 2: it may go on */

static int held_madvise(void *address, size_t length, int advice)
{
	if (advice == MADV_POPULATE_READ && !populating) {
		populating = 1;
		while (populating == 1)
			usleep(1000);
	}
	return kernels_madvise(address, length, advice);
}

static void *prefetch(void *map)
{
	CHECK_OK(hm_map_prefetch(map, 0, PAGE, HM_READ));
	return NULL;
}

static void *install(void *unused)
{
	CHECK_OK(hm_handler_install(0));
	return unused;
}

static void copies_nothing(void *base)
{
	char byte;

	_exit(hm_copy_out(&byte, base, 1, NULL) != -EOPNOTSUPP);
}

/* While it waits for changes of maps, faults are not yet errors, nor in a fork child. */
static void on_its_way(void)
{
	pthread_t threads[2];
	AUTO(hm_map) *map = NULL;
	char *base, byte;
	int i;

	base = make_map(&map);
	CHECK_OK(hm_map_protect(map, 0, PAGE, HM_READ));
	populating = 0;
	kernels_madvise = sys_table.madvise;
	sys_table.madvise = held_madvise;
	CHECK_FATAL(!pthread_create(&threads[0], NULL, prefetch, map));
	while (!populating)
		usleep(1000);
	CHECK_FATAL(!pthread_create(&threads[1], NULL, install, NULL));
	for (i = 0; i < 50; i++) {
		CHECK_ERROR(-EOPNOTSUPP, hm_copy_out(&byte, base, 1, NULL));
		usleep(1000);
	}
	CHECK_EQUAL(test_fork(copies_nothing, base), 0);
	populating = 2;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	sys_table.madvise = kernels_madvise;
	CHECK_OK(hm_handler_remove());
}

static const struct test tests[] = {
	{ "before", before, 0, 0 },
	{ "out_of_copy", out_of_copy, 0, 0 },
	{ "out_of_copy_in_scope", out_of_copy_in_scope, 0, 0 },
	{ "into_copy", into_copy, 0, 0 },
	{ "defaults", defaults, 0, 0 },
	{ "others_meanwhile", others_meanwhile, 0, 0 },
	{ "after", after, 0, 0 },
	{ "after_selfish", after_selfish, 0, 0 },
	{ "early", early, 0, 0 },
	{ "counted", counted, 0, 0 },
	{ "undone", undone, 0, 0 },
	{ "on_its_way", on_its_way, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "handler", tests)
