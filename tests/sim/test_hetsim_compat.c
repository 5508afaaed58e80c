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

#define SLOTS 65536ull     /* buffers of a device, and windows in the space of offsets */
#define MMAP2 (1ull << 44) /* bytes that offsets of a 32-bit process reach */

/* Bytes of a slot's window. */
static uint64_t window_of(int fd)
{
	uint64_t most = hetsim_query(fd).max_buffer, window = 1;

	while (window < most)
		window *= 2;
	return window;
}

/* 64-bit processes leave a quarter of the buffers, or what mmap2() reaches, to 32-bit ones. */
static void test_low_offsets(void)
{
	struct hetsim_buffer buffer = { 0 };
	int fd = hetsim_open(O_RDWR);
	uint64_t window, left;

	if (fd < 0)
		return;
	window = window_of(fd);
	left = MMAP2 / window - 1 < SLOTS / 4 ? MMAP2 / window - 1 : SLOTS / 4;
	CHECK_EQUAL(hetsim_buffer_create(fd, HETSIM_PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer), 0);
	CHECK(buffer.offset / window > left);
	hetsim_close(fd);
}

/* A dma-buf whose buffer is beyond what mmap2() reaches; -1 if such a device has none. */
static int export_high(int fd)
{
	struct hetsim_buffer buffer = { 0 };

	CHECK_FATAL(!hetsim_buffer_create(fd, HETSIM_PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer));
	if (buffer.offset < MMAP2)
		return -1;
	return hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
}

static void test_32_bits(void)
{
	char command[sizeof(program) + 16];
	int fd = hetsim_open(O_RDWR), status, dmabuf;

	if (fd < 0)
		return;
	if (access(program, X_OK)) {
		test_skip("kernel", "no compiler for 32 bits made %s", program);
		close(fd);
		return;
	}
	dmabuf = export_high(fd);
	snprintf(command, sizeof(command), "%s", program);
	if (dmabuf >= 0) {
		CHECK_EQUAL(fcntl(dmabuf, F_SETFD, 0), 0);
		snprintf(command, sizeof(command), "%s %d", program, dmabuf);
	}
	status = system(command); /* NOLINT */
	if (dmabuf >= 0)
		close(dmabuf);
	close(fd);
	if (WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127))
		test_skip("kernel", "the kernel runs no 32-bit programs");
	else
		CHECK_EQUAL(status, 0);
}

static const struct test tests[] = {
	{ "32_bits", test_32_bits, 60, 0 },
	{ "low_offsets", test_low_offsets, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');

	snprintf(program, sizeof(program), "%.*sprocess_32",
		 slash ? (int)(slash + 1 - argv[0]) : 0, argv[0]);
	return harness_main(argc, argv, "hetsim_compat", tests);
}
