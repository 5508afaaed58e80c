// SPDX-License-Identifier: MIT
/* hetsim: the same calls from a 32-bit process. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"

/* Beside this program. */
static char program[4096];

static void test_32_bits(void)
{
	int fd = hetsim_open(O_RDWR), status;

	if (fd < 0)
		return;
	close(fd);
	if (access(program, X_OK)) {
		test_skip("kernel", "no compiler for 32 bits made %s", program);
		return;
	}
	status = system(program); /* NOLINT */
	if (WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127))
		test_skip("kernel", "the kernel runs no 32-bit programs");
	else
		CHECK_EQUAL(status, 0);
}

static const struct test tests[] = {
	{ "32_bits", test_32_bits, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');

	snprintf(program, sizeof(program), "%.*sprocess_32",
		 slash ? (int)(slash + 1 - argv[0]) : 0, argv[0]);
	return harness_main(argc, argv, "hetsim_compat", tests);
}
