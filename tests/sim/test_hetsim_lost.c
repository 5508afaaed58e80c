// SPDX-License-Identifier: MIT
/*
 * hetsim: the memory of a device that was taken away. Pages of its buffers stay charged to their
 * makers until they go; pages of zeros are charged to the processes that touch them.
 */
#include <fcntl.h>
#include <unistd.h>

#include "lib/control_group.h"
#include "lib/hetsim.h"

#define LIMIT MIB(64)
#define SIZE MIB(16)
#define TOUCHED MIB(8)

static void check_about(uint64_t bytes, uint64_t expected)
{
	if (bytes + CONTROL_GROUP_AHEAD < expected || bytes > expected + CONTROL_GROUP_AHEAD)
		CHECK_EQUAL(bytes, expected);
}

/* ---- buffers ---- */

/*
 * The list of the fresh device does not show them: that of the lost one does
 * (hetsimN.lostK), and their pages are there, until the last of them is let go.
 */
static void make_and_lose(void *user)
{
	struct hetsim_buffer mapped, exported, held;
	int fd, dmabuf;
	uint64_t begin;

	(void)user;
	control_group_enter();
	fd = hetsim_open_zero();
	CHECK_FATAL(fd >= 0);
	begin = control_group_bytes();
	mapped = hetsim_buffer_make(fd, SIZE, HETSIM_PLACE_SYSTEM);
	exported = hetsim_buffer_make(fd, SIZE / 2, HETSIM_PLACE_SYSTEM);
	CHECK_EQUAL(hetsim_buffer_create(fd, SIZE / 4, HETSIM_PLACE_SYSTEM, 0, &held), 0);
	dmabuf = hetsim_export(fd, exported.handle, HETSIM_EXPORT_WRITE);
	CHECK_FATAL(dmabuf >= 0);
	hetsim_buffer_drop(fd, &exported);
	check_about(control_group_bytes() - begin, SIZE + SIZE / 2 + SIZE / 4);

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	hetsim_plug();
	CHECK_EQUAL(hetsim_objects(), 0);
	check_about(control_group_bytes() - begin, SIZE + SIZE / 2 + SIZE / 4);
	close(dmabuf);
	check_about(control_group_bytes() - begin, SIZE + SIZE / 4);
	close(fd); /* the map has it */
	check_about(control_group_bytes() - begin, SIZE + SIZE / 4);
	CHECK_EQUAL(hetsim_munmap(mapped.bytes, SIZE), 0);
	CHECK(control_group_bytes() < begin + CONTROL_GROUP_AHEAD);
}

static void test_buffers(void)
{
	int fd = hetsim_open_zero();

	if (fd < 0)
		return;
	close(fd);
	if (!control_group_make(LIMIT))
		return;
	CHECK_EQUAL(test_fork(make_and_lose, NULL), 0);
	control_group_remove();
}

/* ---- zeros ---- */

/* Touches a map of its parent, which is not in the group. */
static void touch_zeros(void *user)
{
	volatile unsigned char *bytes = user;
	uint64_t begin, i;
	int round;

	control_group_enter();
	begin = control_group_bytes();
	/* Reading and writing; and there is one page for each, however often. */
	for (round = 0; round < 2; round++) {
		for (i = 0; i < TOUCHED; i += PAGE) {
			if (i & PAGE)
				bytes[i] = 1;
			else
				CHECK_EQUAL(bytes[i], 0);
		}
		check_about(control_group_bytes() - begin, TOUCHED);
	}
}

static void test_zeros(void)
{
	struct hetsim_buffer buffer;
	uint64_t begin, i;
	int fd = hetsim_open_zero();

	if (fd < 0)
		return;
	if (!control_group_make(LIMIT)) {
		close(fd);
		return;
	}
	buffer = hetsim_buffer_make(fd, SIZE, HETSIM_PLACE_SYSTEM);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	CHECK_EQUAL(test_fork(touch_zeros, buffer.bytes), 0);
	/* The child's pages went with its map, and ours are no expense of its group. */
	begin = control_group_bytes();
	CHECK(begin < TOUCHED / 2);
	for (i = 0; i < TOUCHED; i += PAGE)
		CHECK_EQUAL(((volatile unsigned char *)buffer.bytes)[i], 0);
	CHECK(control_group_bytes() < begin + CONTROL_GROUP_AHEAD);
	hetsim_plug();
	CHECK_EQUAL(hetsim_munmap(buffer.bytes, SIZE), 0);
	close(fd);
	control_group_remove();
}

static const struct test tests[] = {
	{ "buffers", test_buffers, 0, 0 },
	{ "zeros", test_zeros, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_lost", tests)
