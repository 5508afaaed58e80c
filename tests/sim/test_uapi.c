// SPDX-License-Identifier: MIT
/* The layout of the driver's structures: here, and for 32-bit processes. */
#include <stdlib.h>
#include <sys/wait.h>

#include "lib/harness.h"
#include "sim/uapi_layout.h"

static void test_numbers(void)
{
	/* The size is no part of a call's number: structures may grow. */
	CHECK_EQUAL(HETSIM_HANDSHAKE, _IO(0xD5, 0));
	CHECK_EQUAL(HETSIM_BUFFER_CREATE, _IO(0xD5, 0x10));
	CHECK_EQUAL(HETSIM_BIND, _IO(0xD5, 0x20));
	CHECK_EQUAL(HETSIM_SUBMIT, _IO(0xD5, 0x32));
}

/* Only types: a compiler for 64 bits knows those of 32, too. */
static void test_32_bits(void)
{
	static const char can[] =
		"echo 'int x;' | ${CC:-cc} -m32 -fsyntax-only -x c - 2>/dev/null";
	static const char check[] =
		"${CC:-cc} -m32 -ffreestanding -fsyntax-only -x c -Iinclude "
		"-Idrivers/sim -I/usr/include/$(${CC:-cc} -dumpmachine) tests/sim/uapi_layout.h";
	int status = system(can); /* NOLINT: the compiler is the shell's to find */

	if (status) {
		test_skip("kernel", "no compiler for 32 bits");
		return;
	}
	status = system(check); /* NOLINT */
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static const struct test tests[] = {
	{ "numbers", test_numbers, 0, 0 },
	{ "32_bits", test_32_bits, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "uapi", tests)
