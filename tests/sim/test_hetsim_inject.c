// SPDX-License-Identifier: MIT
/* hetsim: faults that an opener may ask for on its own objects. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

static void tell_code(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	_exit(info->si_code);
}

static void touch(void *user)
{
	struct sigaction action = { .sa_sigaction = tell_code, .sa_flags = SA_SIGINFO };
	volatile unsigned char *bytes = user;

	sigaction(SIGBUS, &action, NULL);
	(void)bytes[0];
}

/* The signal's code says broken memory, or no memory. */
static void test_codes(void)
{
	unsigned char *beside;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, 2 * PAGE, HETSIM_PLACE_SYSTEM);

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_POISON, buffer.handle, 0), 0);
	/* Faults beside it do not use up its answers, which are limited in number. */
	for (i = 0; i < 400; i++) {
		CHECK_FATAL(hetsim_mmap(fd, buffer.length, PROT_READ, buffer.offset, &beside) ==
			    0);
		CHECK_EQUAL(((volatile unsigned char *)beside)[PAGE], 0);
		CHECK_EQUAL(hetsim_munmap(beside, buffer.length), 0);
	}
	CHECK_EQUAL(test_fork(touch, buffer.bytes), -BUS_MCEERR_AR);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_POISON, buffer.handle, UINT64_MAX), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_SIGBUS, buffer.handle, PAGE), 0);
	CHECK_EQUAL(test_fork(touch, buffer.bytes + PAGE), -BUS_ADRERR);
	CHECK_EQUAL(test_fork(touch, buffer.bytes), 0);
}

/* Devices are hurt only where the module was told that they may be: not even root may. */
static void test_permission(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	char allowed = 0;
	int parameter = open("/sys/module/hetsim/parameters/test", O_RDONLY | O_CLOEXEC);

	CHECK_EQUAL(read(parameter, &allowed, 1), 1);
	close(parameter);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_RESET, 0, 0),
		    allowed == 'Y' && geteuid() == 0 ? 0 : -EPERM);
	if (allowed != 'Y')
		CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), -EPERM);
}

/* The kernel logs poison as broken memory, which not every user may cause. */
static void test_poison_permission(void)
{
	struct hetsim_buffer buffer = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	if (geteuid()) {
		test_skip("kernel", "only root can be two users");
		return;
	}
	CHECK_FATAL(!hetsim_buffer_create(fd, PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer));
	CHECK_FATAL(!seteuid(65534));
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_POISON, buffer.handle, 0), -EPERM);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_SIGBUS, buffer.handle, 0), 0);
	CHECK_FATAL(!seteuid(0));
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_POISON, buffer.handle, 0), 0);
}

static const struct test tests[] = {
	{ "codes", test_codes, 0, 0 },
	{ "permission", test_permission, 0, 0 },
	{ "poison_permission", test_poison_permission, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_inject", sim_inject_tests, tests)
