// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: what one opener can have of the
 * machine, and what is not limited.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness.h"
#include "hetsim.h"
#include "sim_tests.h"

#define GIB (1024ull * 1024 * 1024)
#define PAGE HETSIM_PAGE
#define TABLES 65536 /* of an opener, but for the root: 256 MiB of them */
#define FENCES 1500  /* more than a queue may have events, fewer than submissions */

/*
 * Bindings that take as many tables as two pages can, until the opener may have no more.
 * Each is below the others: the twin looks for its neighbour from the lowest one on.
 */
static void test_tables(void)
{
	struct hetsim_bind bind = { .size = sizeof(bind), .length = 2 * PAGE };
	struct hetsim_unbind unbind = { .size = sizeof(unbind), .address = PAGE };
	struct hetsim_buffer buffer = { 0 };
	int fd = hetsim_open(O_RDWR), r = 0, round;
	uint64_t n;

	if (fd < 0)
		return;
	CHECK_EQUAL(hetsim_buffer_create(fd, 2 * PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer), 0);
	bind.handle = buffer.handle;
	unbind.length = (1ull << 48) - PAGE;
	for (round = 0; round < 2; round++) {
		bind.address = (1ull << 48) - GIB - PAGE;
		for (n = 0, r = 0; !r && n < TABLES; n += !r, bind.address -= 2 * GIB)
			r = hetsim_call(fd, HETSIM_BIND, &bind);
		CHECK_EQUAL(r, -ENOSPC);
		/* Four for each, and one more for each 256 of them. */
		CHECK_EQUAL(n, (TABLES - 64) / 4);
		/* None is kept that is not needed. */
		CHECK_EQUAL(hetsim_call(fd, HETSIM_UNBIND, &unbind), 0);
	}
	hetsim_close(fd);
}

/* Room for two descriptors for each fence. */
static bool raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return false;
	if (limit.rlim_max < 2 * FENCES + 100) {
		test_skip("resources", "RLIMIT_NOFILE lets this have no more than %ju files",
			  (uintmax_t)limit.rlim_max);
		return false;
	}
	limit.rlim_cur = limit.rlim_max;
	return !setrlimit(RLIMIT_NOFILE, &limit);
}

static unsigned int count_readable(const struct pollfd *files)
{
	unsigned int i, n = 0;

	for (i = 0; i < FENCES; i++)
		n += poll((struct pollfd *)&files[i], 1, 0) == 1;
	return n;
}

/* What is pending may all be waited for by descriptors: one of each, many of one. */
static void test_fences(void)
{
	static struct pollfd files[FENCES];
	const struct hetsim_command nothing = { 0 };
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	uint64_t seqno = 0, address;
	int fd, status, i, round;

	if (!raise_descriptors())
		return;
	fd = hetsim_open(O_RDWR);
	if (fd < 0)
		return;
	for (round = 0; round < 2; round++) {
		fence.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 60000);
		CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, fence.queue, 1), 0);
		for (i = 0; i < FENCES; i++)
			CHECK_EQUAL(hetsim_submit(fd, fence.queue, &nothing, 1, &seqno), 0);
		for (i = 0; i < FENCES; i++) {
			fence.seqno = round ? seqno : (uint64_t)i + 1;
			CHECK_FATAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence) == 0);
			files[i] = (struct pollfd){ .fd = fence.fd, .events = POLLIN };
		}
		CHECK_EQUAL(count_readable(files), 0);
		CHECK_EQUAL(hetsim_wait(fd, fence.queue, 1, 0, &status, &address), -ETIME);
		CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_DESTROY,
					&(struct hetsim_queue_destroy){
						.size = sizeof(struct hetsim_queue_destroy),
						.queue = fence.queue }),
			    0);
		CHECK_EQUAL(count_readable(files), FENCES);
		for (i = 0; i < FENCES; i++) {
			hetsim_fence_check(files[i].fd, -ECANCELED);
			close(files[i].fd);
		}
	}
	hetsim_close(fd);
}

const struct test sim_limits_tests[] = {
	{ "tables", test_tables, 60, 0 },
	{ "fences", test_fences, 60, 0 },
	{ NULL, NULL, 0, 0 },
};
