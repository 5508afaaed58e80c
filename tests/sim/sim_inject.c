// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: faults that an opener may ask for on its own
 * objects.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

#define BEHIND 300             /* more than a queue has records of failures */
#define BEHIND_TIMEOUT_MS 2000 /* in which all of them are submitted */

static void test_engine(void)
{
	struct hetsim_command nothing = { 0 };
	struct hetsim_fence_fd fence = { .size = sizeof(fence), .seqno = 1 };
	struct pollfd poll_it = { .events = POLLIN };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	struct hetsim_counters old = { .size = offsetof(struct hetsim_counters, engine_ns),
				       .engine_ns = 77 };
	uint64_t seqno = 0, before;
	double begin, ran;
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, SIM_TIMEOUT_MS);

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 1), 0);
	CHECK_EQUAL(hetsim_submit(fd, queue, &nothing, 1, &seqno), 0);
	fence.queue = queue;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence), 0);
	poll_it.fd = fence.fd;
	CHECK_EQUAL(poll(&poll_it, 1, 0), 0);
	CHECK_EQUAL(poll(&poll_it, 1, 60000), 1);
	hetsim_fence_check(fence.fd, -ETIMEDOUT);
	close(fence.fd);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), 0);

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LOST_INTERRUPT, queue, 2), 0);
	begin = test_now();
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), -ETIMEDOUT);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), -ETIMEDOUT);
	CHECK(test_now() - begin >= 1.95 * SIM_TIMEOUT_MS / 1e3);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), 0);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).resets, 3);

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, queue, 50000000), 0);
	before = hetsim_counters(fd, HETSIM_SCOPE_OPENER).engine_ns;
	begin = test_now();
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), 0);
	ran = (double)(hetsim_counters(fd, HETSIM_SCOPE_OPENER).engine_ns - before) / 1e9;
	CHECK(ran >= 0.049);
	CHECK(ran <= test_now() - begin);
	/* A caller of version 1.4 has no room for it. */
	CHECK_EQUAL(hetsim_call(fd, HETSIM_COUNTERS, &old), 0);
	CHECK_EQUAL(old.engine_ns, 77);
	CHECK(old.submissions > 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, queue,
				  (SIM_TIMEOUT_MS + 100) * UINT64_C(1000000)),
		    0);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), -ETIMEDOUT);

	/* Asked for when it is over: the second one that lost its interrupt, and this one. */
	for (seqno = 4; seqno <= 7; seqno += 3) {
		fence.seqno = seqno;
		CHECK_EQUAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence), 0);
		hetsim_fence_check(fence.fd, -ETIMEDOUT);
		close(fence.fd);
	}

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, queue, UINT64_MAX), -EINVAL);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, 99, 1), -ENOENT);
	CHECK_EQUAL(hetsim_inject(fd, 99, queue, 1), -EINVAL);

	/* A queue that hangs is destroyed all the same. */
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 1), 0);
	CHECK_EQUAL(hetsim_submit(fd, queue, &nothing, 1, &seqno), 0);
}

/*
 * Many are queued behind one that hangs. On a dma_fence queue they end with it; on a queue whose
 * fences can't be waited for they run.
 */
static void test_behind(void)
{
	struct hetsim_command nothing = { 0 };
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct pollfd poll_it = { .events = POLLIN };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int status, i;
	uint64_t seqno = 0, address;
	double begin;
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, BEHIND_TIMEOUT_MS);

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, BEHIND), 0);
	begin = test_now();
	for (i = 0; i < BEHIND; i++)
		CHECK_EQUAL(hetsim_submit(fd, queue, &nothing, 1, &seqno), 0);
	fence.queue = queue;
	fence.seqno = seqno;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence), 0);
	poll_it.fd = fence.fd;
	CHECK_EQUAL(poll(&poll_it, 1, 60000), 1);
	CHECK(test_now() - begin < BEHIND * BEHIND_TIMEOUT_MS / 1e3 / 4);
	hetsim_fence_check(fence.fd, -ECANCELED);
	CHECK_EQUAL(hetsim_wait(fd, queue, 1, 0, &status, &address), 0);
	CHECK_EQUAL(status, -ETIMEDOUT);
	for (i = 2; i <= BEHIND; i++) {
		CHECK_EQUAL(hetsim_wait(fd, queue, i, 0, &status, &address), 0);
		CHECK_EQUAL(status, -ECANCELED);
	}
	close(fence.fd);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).resets, 1);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 0), 0);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), 0);

	queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, SIM_TIMEOUT_MS);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 1), 0);
	CHECK_EQUAL(hetsim_submit(fd, queue, &nothing, 1, &seqno), 0);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), 0);
	CHECK_EQUAL(hetsim_wait(fd, queue, seqno, 0, &status, &address), 0);
	CHECK_EQUAL(status, -ETIMEDOUT);
}

static void test_pages(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int other;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	unsigned char *bytes = buffer.bytes;

	memset(bytes, 7, MIB(1));
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_SIGBUS, buffer.handle, 40960), 0);
	CHECK_EQUAL(test_read_signal(bytes + 40960), SIGBUS);
	CHECK_EQUAL(test_read_signal(bytes + 40959), 0);
	CHECK_EQUAL(test_read_signal(bytes + 45056), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_POISON, buffer.handle, 4096), 0);
	CHECK_EQUAL(test_read_signal(bytes + 4097), SIGBUS);
	CHECK_EQUAL(test_read_signal(bytes + 45056), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_SIGBUS, buffer.handle, UINT64_MAX), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_POISON, buffer.handle, UINT64_MAX), 0);
	CHECK(bytes[40960] == 7 && bytes[4097] == 7);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_SIGBUS, buffer.handle, MIB(1)), -ERANGE);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_SIGBUS, 4711, 0), -ENOENT);

	other = hetsim_open(O_RDWR);
	CHECK_EQUAL(hetsim_inject(other, HETSIM_INJECT_SIGBUS, buffer.handle, 0), -ENOENT);
	hetsim_close(other);
}

static void test_eviction(void)
{
	struct hetsim_buffer_info info = { .size = sizeof(info) };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(8), HETSIM_PLACE_VRAM);

	memset(buffer.bytes, 3, buffer.length);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_EVICTION, buffer.handle, MIB(2)), 0);
	info.handle = buffer.handle;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_INFO, &info), 0);
	CHECK_EQUAL(info.system_bytes, MIB(2));
	CHECK_EQUAL(info.vram_bytes, MIB(6));
	CHECK_EQUAL(info.evictions, 1);
	CHECK(buffer.bytes[0] == 3 && buffer.bytes[MIB(8) - 1] == 3);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).evictions, 1);
}

/* Takes the rest of system memory, by as many openers as that needs. */
static void fill_system(int *fds, int n)
{
	static const uint64_t lengths[] = { MIB(16), MIB(1), PAGE };
	struct hetsim_buffer buffer;
	size_t i;

	while (n--) {
		fds[n] = hetsim_open(O_RDWR);
		CHECK_FATAL(fds[n] >= 0);
		for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			while (!hetsim_buffer_create(fds[n], lengths[i], HETSIM_PLACE_SYSTEM, 0,
						     &buffer))
				;
	}
}

/* An eviction that can't be done fails: at once, then after a part. One not needed does not. */
static void test_eviction_refused(void)
{
	struct hetsim_buffer buffer = { 0 }, room = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int others[4], i;
	struct hetsim_query query;

	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(8), HETSIM_PLACE_VRAM, 0, &buffer), 0);
	CHECK_EQUAL(hetsim_buffer_create(fd, MIB(2), HETSIM_PLACE_SYSTEM, 0, &room), 0);
	fill_system(others, 4);
	query = hetsim_query(fd);
	CHECK_EQUAL(query.system_used, query.system_bytes);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_EVICTION, buffer.handle, MIB(1)), -ENOSPC);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).system_bytes, 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_EVICTION, buffer.handle, 0), 0);

	CHECK_EQUAL(hetsim_close_handle(fd, room.handle), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_EVICTION, buffer.handle, MIB(8)), -ENOSPC);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).system_bytes, MIB(2));

	for (i = 0; i < 4; i++)
		hetsim_close(others[i]);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_EVICTION, buffer.handle, MIB(8)), 0);
	CHECK_EQUAL(hetsim_buffer_info(fd, buffer.handle).system_bytes, MIB(8));
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_EVICTION, buffer.handle, MIB(1)), 0);
}

/* Each call that allocates, with its n-th allocation failing. */
static void test_allocations(void)
{
	struct hetsim_buffer_create create = { .size = sizeof(create),
					       .length = MIB(1),
					       .place = HETSIM_PLACE_SYSTEM };
	struct hetsim_buffer_resize resize = { .size = sizeof(resize), .length = MIB(2) };
	struct hetsim_buffer_move move = { .size = sizeof(move),
					   .place = HETSIM_PLACE_VRAM,
					   .length = MIB(1) };
	struct hetsim_command nothing = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int status, kind;
	uint64_t seqno = 0, address;
	uint32_t queue;

	for (kind = HETSIM_INJECT_ENOMEM; kind <= HETSIM_INJECT_EINTR; kind++) {
		int expected = kind == HETSIM_INJECT_ENOMEM ? -ENOMEM : -EINTR;

		CHECK_EQUAL(hetsim_inject(fd, kind, 0, 1), 0);
		CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &create), expected);
		CHECK_EQUAL(hetsim_query(fd).opener_used, 0);
		CHECK_EQUAL(hetsim_inject(fd, kind, 0, 2), 0);
		CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &create), 0);
		resize.handle = move.handle = create.handle;
		CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_RESIZE, &resize), expected);
		CHECK_EQUAL(hetsim_query(fd).opener_used, MIB(1));
		CHECK_EQUAL(hetsim_inject(fd, kind, 0, 1), 0);
		CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_MOVE, &move), expected);
		CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_MOVE, &move), 0);
		CHECK_EQUAL(hetsim_close_handle(fd, create.handle), 0);
		CHECK_EQUAL(hetsim_query(fd).opener_used, 0);
	}
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	CHECK_EQUAL(hetsim_submit(fd, queue, &nothing, 1, &seqno), 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_EINTR, 0, 1), 0);
	CHECK_EQUAL(hetsim_wait(fd, queue, seqno, 1000, &status, &address), -EINTR);
	CHECK_EQUAL(hetsim_wait(fd, queue, seqno, 10000, &status, &address), 0);
}

const struct test sim_inject_tests[] = {
	{ "engine", test_engine, 0, 0 },
	{ "behind", test_behind, 0, 0 },
	{ "pages", test_pages, 0, 0 },
	{ "eviction", test_eviction, 0, SIM_REACHED },
	{ "eviction_refused", test_eviction_refused, 60, SIM_SMALL | SIM_LEFT },
	{ "allocations", test_allocations, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
