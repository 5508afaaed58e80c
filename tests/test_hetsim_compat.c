// SPDX-License-Identifier: MIT
/* hetsim: the same calls from a 32-bit process. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "hetsim.h"

static void test_32_bits(void)
{
	char program[] = "/tmp/hetsim32.XXXXXX", command[512];
	int fd = hetsim_open(O_RDWR), status;

	if (fd < 0)
		return;
	close(fd);
	fd = mkstemp(program);
	CHECK_FATAL(fd >= 0 && fchmod(fd, 0700) == 0);
	close(fd);
	snprintf(command, sizeof(command),
		 "cc=${CC:-cc}; $cc -m32 -O1 -fno-pic -no-pie -fomit-frame-pointer -nostdlib "
		 "-static -ffreestanding -fno-stack-protector -Iinclude "
		 "-I/usr/include/$($cc -dumpmachine) -o %s tests/uapi32/process.c 2>/dev/null",
		 program);
	status = system(command); /* NOLINT: the compiler is the shell's to find */
	if (status) {
		unlink(program);
		test_skip("kernel", "no compiler for 32 bits");
		return;
	}
	status = system(program); /* NOLINT */
	if (WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127))
		test_skip("kernel", "the kernel runs no 32-bit programs");
	else
		CHECK_EQUAL(status, 0);
	CHECK_EQUAL(unlink(program), 0);
}

static const struct test tests[] = {
	{ "32_bits", test_32_bits, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "hetsim_compat", tests);
}
