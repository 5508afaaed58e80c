// SPDX-License-Identifier: MIT
/* hetsim: the device is taken away under everything, and comes back; the module is held. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"
#include "hetsim.h"
#include "sim_tests.h"

#define MIB (1024ull * 1024)

/* True when the module can't be unloaded, because something holds it. */
static bool module_held(void)
{
	return syscall(SYS_delete_module, "hetsim", O_NONBLOCK) == -1 && errno == EWOULDBLOCK;
}

/* Each of what may be left over alone keeps the module. */
static void test_module_held(void)
{
	struct hetsim_export export = { .size = sizeof(export), .flags = HETSIM_EXPORT_WRITE };
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct hetsim_command nothing = { 0 };
	struct hetsim_buffer buffer;
	uint64_t seqno = 0;
	int fd = hetsim_open(O_RDWR);

	if (fd < 0)
		return;
	if (geteuid() != 0) {
		test_skip("kernel", "only root unloads modules");
		close(fd);
		return;
	}
	CHECK_FATAL(module_held());
	fence.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	CHECK_EQUAL(hetsim_submit(fd, fence.queue, &nothing, 1, &seqno), 0);
	fence.seqno = seqno;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence), 0);
	buffer = hetsim_buffer_make(fd, MIB, HETSIM_PLACE_SYSTEM);
	export.handle = buffer.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_EXPORT, &export), 0);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
	close(fd);
	CHECK_FATAL(module_held()); /* fence, map, dma-buf */
	munmap(buffer.bytes, buffer.length);
	CHECK_FATAL(module_held()); /* fence, dma-buf */
	close(export.fd);
	usleep(100000);
	CHECK_FATAL(module_held()); /* fence */
	fd = hetsim_open(O_RDWR);   /* so that it stays */
	close(fence.fd);
	close(fd);
}

static void read_own_zero(void *user)
{
	volatile unsigned char *bytes = user;

	_exit(bytes[0] != 0 || bytes[4096] != 0);
}

static void read_bytes(void *user)
{
	volatile unsigned char *bytes = user;

	_exit(bytes[0] != 5);
}

/*
 * A process that has its child keep a map's entries, by MADV_KEEPONFORK: those of a
 * lost map lead to pages that end with the parent's map.
 */
static void test_kept_on_fork(void)
{
	struct hetsim_handshake shake = {
		.size = sizeof(shake),
		.flags = HETSIM_HANDSHAKE_ZERO_WHEN_LOST,
		.version_major = HETSIM_VERSION_MAJOR,
		.version_minor = HETSIM_VERSION_MINOR,
	};
	struct hetsim_buffer buffer;
	int fd = hetsim_open(O_RDWR);

	if (fd < 0)
		return;
	if (hetsim_inject(fd, HETSIM_INJECT_RESET, 0, 0) != 0) {
		test_skip("kernel",
			  "the module was not loaded with test=1, or this is not root");
		close(fd);
		return;
	}
	CHECK_EQUAL(hetsim_call(fd, HETSIM_HANDSHAKE, &shake), 0);
	buffer = hetsim_buffer_make(fd, MIB, HETSIM_PLACE_SYSTEM);
	CHECK_EQUAL(madvise(buffer.bytes, MIB, MADV_KEEPONFORK), 0);
	buffer.bytes[0] = 5;
	CHECK_EQUAL(test_fork(read_bytes, buffer.bytes), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	buffer.bytes[0] = 5;
	buffer.bytes[4096] = 5;
	CHECK_EQUAL(test_fork(read_own_zero, buffer.bytes), 0);
	CHECK(buffer.bytes[0] == 5 && buffer.bytes[4096] == 5);
	hetsim_plug();
	hetsim_munmap(buffer.bytes, buffer.length);
	close(fd);
}

static const struct test tests[] = {
	{ "kept_on_fork", test_kept_on_fork, 0, 0 },
	{ "module_held", test_module_held, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return hetsim_main(argc, argv, "hetsim_unplug", sim_unplug_tests, tests);
}
