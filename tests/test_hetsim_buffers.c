// SPDX-License-Identifier: MIT
/* hetsim: handshake, buffers, limits, and what is only the module's of them. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "hetsim.h"
#include "sim_tests.h"

#define MIB (1024ull * 1024)

/* The twin is handed memory; the module, whatever a process passes. */
static void test_bad_pointer(void)
{
	int fd = hetsim_open(O_RDWR);

	if (fd < 0)
		return;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, (void *)-4096L), -EFAULT);
	close(fd);
}

static void test_objects(void)
{
	struct hetsim_buffer buffer;
	int fd = hetsim_open(O_RDWR), n;

	if (fd < 0)
		return;
	n = hetsim_objects();
	if (n < 0) {
		close(fd);
		test_skip("kernel", "debugfs can't be read");
		return;
	}
	buffer = hetsim_buffer_make(fd, MIB, 0);
	CHECK_EQUAL(hetsim_objects(), n + 1);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
	CHECK_EQUAL(hetsim_objects(), n + 1);
	close(fd); /* the map keeps it, and the buffer */
	CHECK_EQUAL(hetsim_objects(), n + 1);
	buffer.bytes[5] = 5;
	CHECK_EQUAL(munmap(buffer.bytes, buffer.length), 0);
	CHECK_EQUAL(hetsim_objects(), n - 1);
}

static const struct test tests[] = {
	{ "bad_pointer", test_bad_pointer, 0, 0 },
	{ "objects", test_objects, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return hetsim_main(argc, argv, "hetsim_buffers", sim_buffers_tests, tests);
}
