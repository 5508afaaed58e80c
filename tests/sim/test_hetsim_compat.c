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

/*
 * 64-bit processes leave a quarter of the buffers, or half of the reach of mmap2(), to 32-bit ones,
 * and take the first ones of the rest: those are in reach of 32-bit processes.
 */
static void test_low_offsets(void)
{
	struct hetsim_buffer buffer = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint64_t window = window_of(fd);
	uint64_t reach = MMAP2 / window - 1;
	uint64_t left = reach / 2 < SLOTS / 4 ? reach / 2 : SLOTS / 4;

	CHECK_EQUAL(hetsim_buffer_create(fd, PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer), 0);
	CHECK(buffer.offset / window > left);
	CHECK(buffer.offset / window <= reach);
}

/* Dma-bufs that a 32-bit process takes in, and must not take in; -1 if such a device has none. */
struct dmabufs {
	int low;
	int high;
};

static int export_page(int fd, uint64_t *ret_offset)
{
	struct hetsim_buffer buffer = { 0 };
	int dmabuf;

	if (hetsim_buffer_create(fd, PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer))
		return -1;
	dmabuf = hetsim_export(fd, buffer.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0 && !fcntl(dmabuf, F_SETFD, 0));
	*ret_offset = buffer.offset;
	return dmabuf;
}

/* The first buffer is in reach of mmap2(). The one behind all in its reach, if there can be one. */
static struct dmabufs export_both(int fd)
{
	uint64_t offset = 0;
	struct dmabufs dmabufs = { .low = export_page(fd, &offset), .high = -1 };

	CHECK_FATAL(dmabufs.low >= 0);
	do {
		if (dmabufs.high >= 0)
			close(dmabufs.high);
		dmabufs.high = export_page(fd, &offset);
	} while (dmabufs.high >= 0 && offset < MMAP2);
	return dmabufs;
}

static void test_32_bits(void)
{
	char command[sizeof(program) + 32];
	int fd = hetsim_begin(O_RDWR);
	int status;
	struct dmabufs dmabufs;

	if (access(program, X_OK)) {
		test_skip("kernel", "no compiler for 32 bits made %s", program);
		close(fd);
		return;
	}
	dmabufs = export_both(fd);
	if (dmabufs.high >= 0)
		snprintf(command, sizeof(command), "%s %d %d", program, dmabufs.low,
			 dmabufs.high);
	else
		snprintf(command, sizeof(command), "%s %d", program, dmabufs.low);
	status = system(command); /* NOLINT */
	if (dmabufs.high >= 0)
		close(dmabufs.high);
	close(dmabufs.low);
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
