// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: maps that reach beyond their buffer, into
 * which it grows, and bindings of pages that it lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

#define NO_ADDRESS 0x123450000ull

static int map(int fd, uint64_t offset, uint64_t length, unsigned char **ret_bytes)
{
	return hetsim_mmap(fd, length, PROT_READ | PROT_WRITE, offset, ret_bytes);
}

static void test_refusals(void)
{
	struct hetsim_buffer buffer = { 0 };
	unsigned char *bytes;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint64_t max = hetsim_query(fd).max_buffer;

	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(2), HETSIM_PLACE_SYSTEM, MIB(1), &buffer),
		    -EINVAL);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, MIB(1) + 1, &buffer),
		    -EINVAL);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, UINT64_MAX, &buffer),
		    -EINVAL);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, max + PAGE, &buffer),
		    -ENOSPC);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM,
					 UINT64_MAX & ~(PAGE - 1), &buffer),
		    -ENOSPC);
	CHECK_EQUAL(hetsim_query(fd).opener_used, 0);

	/* Only the length is charged, whatever the capacity. */
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, max, &buffer), 0);
	CHECK_EQUAL(hetsim_query(fd).opener_used, MIB(1));
	CHECK(map(fd, buffer.offset, max + PAGE, &bytes) < 0);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
}

static void test_grow_under_map(void)
{
	struct hetsim_buffer buffer = { 0 };
	unsigned char *bytes, *longer, *bad, byte = 0;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	CHECK_FATAL(hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, MIB(8), &buffer) ==
		    0);
	CHECK_FATAL(map(fd, buffer.offset, MIB(8), &bytes) == 0);
	CHECK_EQUAL(map(fd, buffer.offset, MIB(8) + PAGE, &bad), -ERANGE);
	CHECK_EQUAL(map(fd, buffer.offset + MIB(8), PAGE, &bad), -ERANGE);
	memset(bytes, 0x21, MIB(1));
	CHECK_EQUAL(test_read_signal(bytes + MIB(1)), SIGBUS);
	CHECK_EQUAL(test_write_signal(bytes + MIB(8) - 1), SIGBUS);
	CHECK_EQUAL(hetsim_pread(fd, &byte, 1, buffer.offset + MIB(1)), 0);

	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(3)), 0);
	CHECK_EQUAL(bytes[MIB(1) - 1], 0x21);
	CHECK_EQUAL(bytes[MIB(1)], 0);
	memset(bytes + MIB(1), 0x22, MIB(2));
	CHECK_EQUAL(test_read_signal(bytes + MIB(3)), SIGBUS);

	/* Back, and again: the bytes from in between are gone. */
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(1)), 0);
	CHECK_EQUAL(test_read_signal(bytes + MIB(1)), SIGBUS);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(8)), 0);
	CHECK_EQUAL(bytes[0], 0x21);
	CHECK_EQUAL(bytes[MIB(1)], 0);
	CHECK_EQUAL(bytes[MIB(8) - 1], 0);

	/* Past the capacity, which is the new length then, and stays. */
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(9)), 0);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(1)), 0);
	CHECK_FATAL(map(fd, buffer.offset, MIB(9), &longer) == 0);
	CHECK_EQUAL(map(fd, buffer.offset, MIB(9) + PAGE, &bad), -ERANGE);
	CHECK_EQUAL(longer[0], 0x21);
	CHECK_EQUAL(test_read_signal(longer + MIB(1)), SIGBUS);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(9)), 0);
	CHECK_EQUAL(longer[MIB(9) - 1], 0);
	CHECK_EQUAL(hetsim_munmap(longer, MIB(9)), 0);
	CHECK_EQUAL(hetsim_munmap(bytes, MIB(8)), 0);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
}

/* Without one, the first length is the capacity. */
static void test_default(void)
{
	struct hetsim_buffer buffer = { 0 };
	unsigned char *bytes, *bad;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	CHECK_FATAL(hetsim_buffer_create(fd, MIB(2), HETSIM_PLACE_SYSTEM, 0, &buffer) == 0);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(1)), 0);
	CHECK_FATAL(map(fd, buffer.offset, MIB(2), &bytes) == 0);
	CHECK_EQUAL(test_read_signal(bytes + MIB(1)), SIGBUS);
	CHECK_EQUAL(map(fd, buffer.offset, MIB(2) + PAGE, &bad), -ERANGE);
	CHECK_EQUAL(hetsim_munmap(bytes, MIB(2)), 0);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
}

/*
 * Pages that a shrunk buffer lost stay bound: their part of the page table is not taken for an
 * empty one when a neighbour goes.
 */
static void test_bound_nothing(void)
{
	struct hetsim_buffer_resize resize = { .size = sizeof(resize), .length = PAGE };
	struct hetsim_buffer_create create = { .size = sizeof(create),
					       .length = 2 * PAGE,
					       .place = HETSIM_PLACE_SYSTEM };
	struct hetsim_bind bind = { .size = sizeof(bind),
				    .flags = HETSIM_BIND_WRITE,
				    .address = NO_ADDRESS & ~(MIB(2) - 1),
				    .offset = PAGE,
				    .length = PAGE };
	struct hetsim_unbind unbind = { .size = sizeof(unbind), .length = PAGE };
	struct hetsim_command fill = { .op = HETSIM_OP_FILL,
				       .destination = bind.address,
				       .length = 64,
				       .value = 0x01020304 };
	unsigned char byte = 0;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);

	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &create), 0);
	bind.handle = create.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), 0);
	resize.handle = create.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_RESIZE, &resize), 0);
	CHECK_EQUAL(hetsim_run(fd, queue, &fill), -EFAULT);

	bind.address += PAGE;
	bind.offset = 0;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BIND, &bind), 0);
	unbind.address = bind.address;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), 0);

	resize.length = 2 * PAGE;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_RESIZE, &resize), 0);
	CHECK_EQUAL(hetsim_run(fd, queue, &fill), 0);
	CHECK_EQUAL(hetsim_pread(fd, &byte, 1, create.offset + PAGE), 1);
	CHECK_EQUAL(byte, 4);
	unbind.address -= PAGE;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), 0);
}

const struct test sim_capacity_tests[] = {
	{ "refusals", test_refusals, 0, 0 },
	{ "grow_under_map", test_grow_under_map, 0, 0 },
	{ "default", test_default, 0, 0 },
	{ "bound_nothing", test_bound_nothing, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
