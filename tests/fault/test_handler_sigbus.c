// SPDX-License-Identifier: MIT
/* SIGBUS among handlers: the application's own, before the library's and after it. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/guard_support.h"
#include "fault/others_handler.h"
#include "lib/units.h"

#define SIZE (4 * PAGE)

/* ---- a handler of the application's ---- */

static volatile int seen_above;

/* The program's own mapping of two pages, of which the file has the first. */
static volatile char *others_file(void)
{
	int fd = scratch_file(2 * PAGE);
	void *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK_FATAL(pages != MAP_FAILED);
	CHECK(!ftruncate(fd, PAGE));
	close(fd);
	return pages;
}

static void drop_others(volatile char *pages)
{
	munmap((void *)(uintptr_t)pages, 2 * PAGE);
}

static void touch(const volatile char *byte)
{
	seen_signal = seen_code = 0;
	seen_address = NULL;
	if (!sigsetjmp(back, 1))
		(void)*byte;
}

/* ---- an earlier handler ---- */

/* The earlier handler sees the same as without the library. */
static void before_sigbus(void)
{
	static const struct {
		int flags;
		unsigned int mask;
	} kinds[] = {
		{ 0, 3 },
		{ SA_SIGINFO, 3 },
		{ SA_NODEFER, 2 },
		{ SA_SIGINFO | SA_NODEFER, 2 },
		{ SA_SIGINFO | SA_ONSTACK | SA_RESTART, 3 },
	};
	struct hm_handler_info was = handler_info();
	volatile char *pages = others_file();
	volatile size_t i;
	volatile int round;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		set_action(SIGBUS, on_plain, kinds[i].flags);
		CHECK_OK_FATAL(hm_handler_install(0));
		seen_calls = 0;
		/* Again, as it was left by a jump; and once ours is gone. */
		for (round = 1; round <= 3; round++) {
			if (round == 3)
				CHECK_OK(hm_handler_remove());
			touch(pages + PAGE + 5 + round);
			CHECK_EQUAL(seen_signal, SIGBUS);
			CHECK_EQUAL(seen_calls, round);
			/* Called by TSan's handler, not by ours, he finds all blocked. */
			if (!TEST_TSAN || round < 3)
				CHECK_EQUAL(seen_mask, kinds[i].mask);
			CHECK_EQUAL(mask_now(SIGBUS), 0);
			if (kinds[i].flags & SA_SIGINFO) {
				CHECK(seen_address == pages + PAGE + 5 + round);
				CHECK_EQUAL(seen_code, BUS_ADRERR);
			}
		}
	}
	CHECK_EQUAL(handler_info().forwarded, was.forwarded + 2 * i);
	CHECK_EQUAL(handler_info().repaired, was.repaired);
	signal(SIGBUS, SIG_DFL);
	drop_others(pages);
}

/* In children, which have the default actions: SA_RESETHAND works once. */
static void dies_of_reset(void *user)
{
	volatile char *pages = others_file();

	set_action(SIGBUS, on_plain, (int)SA_RESETHAND | (int)(uintptr_t)user);
	CHECK_OK_FATAL(hm_handler_install(0));
	seen_calls = 0;
	touch(pages + PAGE);
	if (seen_calls != 1 || seen_mask != 3)
		_exit(1);
	touch(pages + PAGE);
	_exit(2);
}

static void dies_of_default(void *user)
{
	volatile char *pages = others_file();

	signal(SIGBUS, user);
	CHECK_OK_FATAL(hm_handler_install(0));
	touch(pages + PAGE);
	_exit(2);
}

static void before_defaults(void)
{
	CHECK_EQUAL(test_fork(dies_of_reset, (void *)0), SIGBUS);
	CHECK_EQUAL(test_fork(dies_of_reset, (void *)SA_SIGINFO), SIGBUS);
	CHECK_EQUAL(test_fork(dies_of_default, (void *)SIG_DFL), SIGBUS);
	CHECK_EQUAL(test_fork(dies_of_default, (void *)SIG_IGN), SIGBUS);
}

/* ---- a later handler ---- */

static struct sigaction below;

static void on_forwarding(int signal, siginfo_t *info, void *context)
{
	seen_above = seen_above + 1;
	below.sa_sigaction(signal, info, context);
}

static void on_selfish(int signal, siginfo_t *info, void *context)
{
	on_info(signal, info, context);
}

static void install_after(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = handler,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };

	CHECK_FATAL(!sigaction(SIGBUS, &action, &below));
	seen_calls = seen_above = 0;
}

static int guarded(const char *byte, struct hm_fault *ret_fault)
{
	*ret_fault = no_fault();
	return read_guarded((const volatile unsigned char *)byte, ret_fault);
}

/* A lost block is replaced, whichever handler came first, and with any promise. */
static void check_replaced(const struct file_map *file)
{
	struct hm_handler_info was = handler_info();
	struct hm_fault fault = no_fault();
	char byte;

	seen_above = 0;
	CHECK_EQUAL(*(volatile char *)(file->base + 2 * PAGE + 9), 0);
	CHECK_EQUAL(seen_above, 1);
	CHECK_EQUAL(handler_info().repaired, was.repaired + 1);
	CHECK_EQUAL(handler_info().guarded, was.guarded);
	/* The rest of the block without a fault; and it is told. */
	CHECK(is_zero(file->base, 0, SIZE));
	CHECK_EQUAL(seen_above, 1);
	CHECK_ERROR(-EIO, hm_map_begin_cpu(file->map, PAGE, PAGE, HM_READ));
	CHECK_ERROR(-EIO, hm_copy_out(&byte, file->base + PAGE, 1, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_REPAIRED);
	CHECK_EQUAL(handler_info().forwarded, was.forwarded);
}

static struct file_map open_cut_off(void)
{
	struct file_map file = open_file_map(SIZE);

	CHECK(!ftruncate(file.fd, PAGE));
	return file;
}

static void after_sigbus(void)
{
	struct file_map first, second;
	struct hm_handler_info was;
	struct hm_fault fault;
	char byte;

	CHECK_OK_FATAL(hm_handler_install(0));
	was = handler_info();
	first = open_cut_off();
	second = open_cut_off();
	install_after(on_forwarding);
	CHECK_EQUAL(handler_info().above, HM_HANDLER_SIGBUS);
	CHECK_EQUAL(handler_info().chained, 0);
	CHECK_ERROR(-EBUSY, hm_handler_remove());
	/* The later handler has no promise: no scope, and so no touch. Copies do not ask. */
	CHECK_ERROR(-EBUSY, guarded(first.base + PAGE, &fault));
	CHECK_EQUAL(seen_above, 0);
	CHECK_ERROR(-ERANGE, hm_copy_out(&byte, first.base + PAGE, 1, NULL));
	CHECK_EQUAL(seen_above, 1);
	check_replaced(&first);

	CHECK_OK(hm_handler_chained());
	CHECK_EQUAL(handler_info().chained, HM_HANDLER_SIGBUS);
	seen_above = 0;
	CHECK_ERROR(-ERANGE, guarded(second.base + PAGE + 7, &fault));
	CHECK_EQUAL(seen_above, 1);
	CHECK_EQUAL(fault.cause, HM_FAULT_END);
	CHECK_EQUAL(fault.signal, SIGBUS);
	CHECK_EQUAL(fault.code, BUS_ADRERR);
	CHECK_EQUAL(fault.offset, PAGE + 7);
	CHECK_EQUAL(handler_info().guarded, was.guarded + 2);
	CHECK_EQUAL(mask_now(SIGBUS), 0);
	check_replaced(&second);
	CHECK_EQUAL(handler_info().forwarded, was.forwarded);

	CHECK(!sigaction(SIGBUS, &below, NULL));
	CHECK_EQUAL(handler_info().above, 0);
	close_file_map(&first);
	close_file_map(&second);
	CHECK_OK(hm_handler_remove());
}

/* A fault of nobody's map goes through the three of them, once each. */
static void before_and_after(void)
{
	volatile char *pages = others_file();
	uint64_t forwarded;

	set_action(SIGBUS, on_plain, SA_SIGINFO);
	CHECK_OK_FATAL(hm_handler_install(0));
	forwarded = handler_info().forwarded;
	install_after(on_forwarding);
	touch(pages + PAGE + 3);
	CHECK_EQUAL(seen_above, 1);
	CHECK_EQUAL(seen_calls, 1);
	CHECK(seen_address == pages + PAGE + 3);
	CHECK_EQUAL(seen_code, BUS_ADRERR);
	CHECK_EQUAL(seen_mask, 3);
	CHECK_EQUAL(handler_info().forwarded, forwarded + 1);
	CHECK(!sigaction(SIGBUS, &below, NULL));
	CHECK_OK(hm_handler_remove());
	signal(SIGBUS, SIG_DFL);
	drop_others(pages);
}

/* One that keeps faults to itself gets those on maps, too, and nothing is replaced. */
static void keeps_to_itself(void *user)
{
	struct hm_handler_info was;
	struct hm_fault fault;
	struct file_map file;

	(void)user;
	CHECK_OK_FATAL(hm_handler_install(0));
	was = handler_info();
	file = open_cut_off();
	install_after(on_selfish);
	CHECK_ERROR(-EBUSY, guarded(file.base + PAGE, &fault));
	CHECK_EQUAL(seen_calls, 0);
	touch(file.base + PAGE + 9);
	CHECK_EQUAL(seen_calls, 1);
	CHECK(seen_address == file.base + PAGE + 9);
	CHECK_EQUAL(seen_code, BUS_ADRERR);
	CHECK_EQUAL(handler_info().repaired, was.repaired);
	CHECK_EQUAL(handler_info().forwarded, was.forwarded);
	CHECK_OK(hm_map_begin_cpu(file.map, PAGE, PAGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(file.map, PAGE, PAGE, HM_READ));
	/* Once he is gone it is the library's. */
	CHECK(!sigaction(SIGBUS, &below, NULL));
	CHECK_ERROR(-ERANGE, guarded(file.base + PAGE, &fault));
	CHECK_EQUAL(*(volatile char *)(file.base + PAGE + 9), 0);
	CHECK_EQUAL(handler_info().repaired, was.repaired + 1);
	CHECK_EQUAL(seen_calls, 1);
}

static void after_selfish(void)
{
	CHECK_EQUAL(test_fork(keeps_to_itself, NULL), 0);
}

static const struct test tests[] = {
	{ "before_sigbus", before_sigbus, 0, 0 },
	{ "before_defaults", before_defaults, 0, 0 },
	{ "after_sigbus", after_sigbus, 0, 0 },
	{ "before_and_after", before_and_after, 0, 0 },
	{ "after_selfish", after_selfish, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "handler_sigbus", tests)
