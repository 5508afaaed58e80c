// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: the points that submissions wait for and
 * signal, however they end, and refused calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "sim/sim_tests.h"
#include "sim/sync_support.h"

/* ---- sync_files ---- */

static bool is_readable(int fd)
{
	struct pollfd file = { .fd = fd, .events = POLLIN };

	return poll(&file, 1, 0) == 1;
}

/* Out of one queue and into another, of either type. */
static void test_fences(void)
{
	static const uint32_t types[] = { HETSIM_QUEUE_DMA_FENCE, HETSIM_QUEUE_COUNTER };
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct sync_work first = { .command = &sync_nothing, .wait = { .fd = -1 } };
	struct sync_work second = { .command = &sync_nothing, .signal = { .fd = -1 } };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i;
	uint64_t a = 0, b = 0;

	first.queue = sync_make_late(fd, HETSIM_QUEUE_DMA_FENCE);
	for (i = 0; i < 2; i++) {
		first.signal = (struct hetsim_sync){ .kind = HETSIM_SYNC_FENCE };
		CHECK_EQUAL(sync_submit(fd, &first, &a), 0);
		CHECK_FATAL(first.signal.fd > 0 &&
			    fcntl(first.signal.fd, F_GETFD) & FD_CLOEXEC);
		second.queue = hetsim_queue_make(fd, types[i], 60000);
		second.wait = first.signal;
		CHECK_EQUAL(sync_submit(fd, &second, &b), 0);
		CHECK(!is_readable(first.signal.fd));
		CHECK(sync_is_waiting(fd, second.queue, b));
		CHECK_EQUAL(sync_status(fd, second.queue, b), 0);
		hetsim_fence_check(first.signal.fd, 1);
		/* FENCE_FD gives the same one. */
		fence.queue = first.queue;
		fence.seqno = a;
		CHECK_EQUAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence), 0);
		hetsim_fence_check(fence.fd, 1);
		close(fence.fd);
		/* One that is there already. */
		CHECK_EQUAL(sync_submit(fd, &second, &b), 0);
		CHECK_EQUAL(sync_status(fd, second.queue, b), 0);
		close(first.signal.fd);
	}
	/* Its end is told, and not passed on. */
	first.command = &sync_bad;
	first.signal.fd = 0;
	CHECK_EQUAL(sync_submit(fd, &first, &a), 0);
	second.wait = first.signal;
	CHECK_EQUAL(sync_submit(fd, &second, &b), 0);
	CHECK_EQUAL(sync_status(fd, second.queue, b), 0);
	CHECK_EQUAL(sync_status(fd, first.queue, a), -EFAULT);
	hetsim_fence_check(first.signal.fd, -EFAULT);
	close(first.signal.fd);

	first.queue = second.queue; /* which has no fences */
	first.signal.fd = 0;
	CHECK_EQUAL(sync_submit(fd, &first, &a), -EOPNOTSUPP);
	CHECK_EQUAL(first.signal.fd, 0);
}

/* A fence that comes with the submission limits the time of its queue as FENCE_FD's does. */
static void test_fence_due(void)
{
	struct sync_work work = { .command = &sync_nothing,
				  .wait = { .fd = -1 },
				  .signal = { .kind = HETSIM_SYNC_FENCE } };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i;
	uint64_t seqno = 0;

	work.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 5 * SIM_TIMEOUT_MS);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, work.queue,
				  2 * SIM_TIMEOUT_MS * (SYNC_NS_PER_S / 1000)),
		    0);
	for (i = 0; i < 20; i++) /* each takes 0.4 of the time */
		CHECK_EQUAL(hetsim_submit(fd, work.queue, &sync_nothing, 1, &seqno), 0);
	CHECK_EQUAL(sync_submit(fd, &work, &seqno), 0);
	CHECK_EQUAL(sync_status(fd, work.queue, seqno), -ECANCELED);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).resets, 1);
	hetsim_fence_check(work.signal.fd, -ECANCELED);
	close(work.signal.fd);
}

/* ---- ends ---- */

/* Work signals its points however it ends. */
static void test_ends(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint64_t seqno = 0, behind = 0, value;
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, SIM_TIMEOUT_MS);
	int timeline = timeline_make(fd, 0);

	CHECK_EQUAL(sync_submit_points(fd, queue, &sync_bad, timeline, 0, 1, &seqno), 0);
	CHECK_EQUAL(timeline_wait(fd, timeline, 1, 60000, &value), 0);
	CHECK_EQUAL(sync_status(fd, queue, seqno), -EFAULT);

	/* A reset, and the work that it cancels. */
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 1), 0);
	CHECK_EQUAL(sync_submit_points(fd, queue, &sync_nothing, timeline, 0, 2, &seqno), 0);
	CHECK_EQUAL(sync_submit_points(fd, queue, &sync_nothing, timeline, 0, 3, &behind), 0);
	CHECK_EQUAL(timeline_wait(fd, timeline, 3, 60000, &value), 0);
	CHECK_EQUAL(sync_status(fd, queue, seqno), -ETIMEDOUT);
	CHECK_EQUAL(sync_status(fd, queue, behind), -ECANCELED);

	/* The queue goes, with one that runs and one that does not. */
	queue = sync_make_late(fd, HETSIM_QUEUE_COUNTER);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 1), 0);
	CHECK_EQUAL(sync_submit_points(fd, queue, &sync_nothing, timeline, 0, 4, &seqno), 0);
	CHECK_EQUAL(sync_submit_points(fd, queue, &sync_nothing, timeline, 0, 5, &seqno), 0);
	CHECK_EQUAL(timeline_wait(fd, timeline, 4, 0, &value), -ETIME);
	sync_destroy_queue(fd, queue);
	CHECK_EQUAL(timeline_value(fd, timeline), 5);
	close(timeline);
	timeline_none_left(fd);
}

/* The descriptor, and the file of the device, are closed under work that waits and signals. */
static void test_closed(void)
{
	int fd = hetsim_begin(O_RDWR);
	AUTO_HETSIM other = hetsim_begin(O_RDWR);
	int timeline, never;
	uint64_t seqno = 0, value;
	struct sync_work work = { .command = &sync_nothing };

	work.queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 60000);
	never = timeline_make(fd, 0);
	timeline = timeline_make(other, 0);
	work.wait = (struct hetsim_sync){ .fd = never, .point = SYNC_NEVER };
	work.signal = (struct hetsim_sync){ .fd = timeline, .point = 1 };
	CHECK_EQUAL(sync_submit(fd, &work, &seqno), 0);
	close(never);
	CHECK(sync_is_waiting(fd, work.queue, seqno));
	CHECK_EQUAL(timeline_wait(other, timeline, 1, 0, &value), -ETIME);
	hetsim_close(fd);
	CHECK_EQUAL(timeline_wait(other, timeline, 1, 0, &value), 0);
	close(timeline);
	timeline_none_left(other);
}

/* The time of a submission is up while it waits: the engine has done nothing, and is not reset. */
static void test_timeout(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int timeline, other;
	uint64_t seqno = 0, behind = 0, late_seqno = 0, begin;
	struct sync_work work = { .command = &sync_nothing, .signal = { .fd = -1 } };
	uint32_t late;

	timeline = timeline_make(fd, 0);
	work.queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, SIM_TIMEOUT_MS);
	work.wait = (struct hetsim_sync){ .fd = timeline, .point = SYNC_NEVER };
	work.signal = (struct hetsim_sync){ .fd = timeline, .point = 1 };
	begin = sync_now_ns();
	CHECK_EQUAL(sync_submit(fd, &work, &seqno), 0);
	CHECK_EQUAL(hetsim_submit(fd, work.queue, &sync_nothing, 1, &behind), 0);
	CHECK_EQUAL(sync_status(fd, work.queue, seqno), -ETIMEDOUT);
	/* The kernel counts jiffies. */
	CHECK(sync_now_ns() - begin >= (SIM_TIMEOUT_MS - 10) * 1000000ull);
	CHECK_EQUAL(timeline_value(fd, timeline), 1);
	CHECK_EQUAL(sync_status(fd, work.queue, behind), 0);

	/* On a queue with fences, those behind it are cancelled: a waiter waits once. */
	late = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 60000);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, late, 1), 0);
	other = timeline_make(fd, 0);
	CHECK_EQUAL(sync_submit_points(fd, late, &sync_nothing, other, 0, 1, &late_seqno), 0);
	work.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, SIM_TIMEOUT_MS);
	work.wait = (struct hetsim_sync){ .fd = other, .point = 1 };
	work.signal.point = 2;
	CHECK_EQUAL(sync_submit(fd, &work, &seqno), 0);
	CHECK_EQUAL(hetsim_submit(fd, work.queue, &sync_nothing, 1, &behind), 0);
	CHECK_EQUAL(sync_status(fd, work.queue, seqno), -ETIMEDOUT);
	CHECK_EQUAL(sync_status(fd, work.queue, behind), -ECANCELED);
	CHECK_EQUAL(timeline_value(fd, timeline), 2);
	CHECK_EQUAL(hetsim_run(fd, work.queue, &sync_nothing), 0);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).resets, 0);
	sync_destroy_queue(fd, late);
	close(other);
	close(timeline);
}

/* The queue is destroyed under work that waits, for a point or a fence. */
static void test_destroy(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	struct sync_work stuck = { .command = &sync_nothing,
				   .wait = { .fd = -1 },
				   .signal = { .kind = HETSIM_SYNC_FENCE } };
	struct sync_work work = { .command = &sync_nothing };
	uint64_t seqno = 0, begin, value;
	int i;
	int timeline = timeline_make(fd, 0);

	stuck.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 60000);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, stuck.queue, 1), 0);
	CHECK_EQUAL(sync_submit(fd, &stuck, &seqno), 0);
	for (i = 0; i < 2; i++) {
		work.queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 60000);
		work.wait = (struct hetsim_sync){ .fd = timeline, .point = SYNC_NEVER };
		if (i)
			work.wait = stuck.signal;
		work.signal = (struct hetsim_sync){ .fd = timeline, .point = i + 1ull };
		CHECK_EQUAL(sync_submit(fd, &work, &seqno), 0);
		CHECK(sync_is_waiting(fd, work.queue, seqno));
		CHECK_EQUAL(timeline_wait(fd, timeline, i + 1ull, 0, &value), -ETIME);
		begin = sync_now_ns();
		sync_destroy_queue(fd, work.queue);
		CHECK(sync_now_ns() - begin < 30 * SYNC_NS_PER_S);
		CHECK_EQUAL(timeline_value(fd, timeline), i + 1ull);
	}
	close(stuck.signal.fd);
	close(timeline);
}

/* The device is taken away: points that can still come do, and other waits get an error. */
static void test_lost(void)
{
	int fd = hetsim_begin(O_RDWR);
	int timeline;
	uint64_t seqno = 0, address;
	struct timeline_waiter never, comes;
	uint32_t queue;
	int status;

	TEST_NEEDS(hetsim_may_unplug(fd));
	timeline = timeline_make(fd, 0);
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 60000);
	CHECK_EQUAL(sync_submit_points(fd, queue, &sync_nothing, timeline, SYNC_NEVER, 5,
				       &seqno),
		    0);
	timeline_waiter_start(&never, fd, timeline, 6);
	timeline_waiter_start(&comes, fd, timeline, 5);
	CHECK_EQUAL(hetsim_wait(fd, queue, seqno, SYNC_A_WHILE_MS, &status, &address), -ETIME);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	pthread_join(comes.thread, NULL);
	pthread_join(never.thread, NULL);
	CHECK_EQUAL(comes.r, 0);
	CHECK_EQUAL(comes.value, 5);
	CHECK_EQUAL(never.r, -ENODEV);
	CHECK_EQUAL(timeline_signal(fd, timeline, 6), -ENODEV);
	hetsim_close(fd);
	hetsim_plug();

	/* The timeline belongs to no device. */
	fd = hetsim_open(O_RDWR);
	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(timeline_value(fd, timeline), 5);
	CHECK_EQUAL(timeline_signal(fd, timeline, 6), 0);
	CHECK_EQUAL(timeline_value(fd, timeline), 6);
	close(timeline);
	timeline_none_left(fd);
	hetsim_close(fd);
}

/*
 * A reset of the device ends waiting work, and not the queue. Work that the engine has not begun
 * goes on, so a late engine is told again.
 */
static void test_reset(void)
{
	int fd = hetsim_begin(O_RDWR);
	int timeline;
	uint64_t seqno = 0, address;
	int status = 77, r;
	uint32_t queue;

	TEST_NEEDS(hetsim_may_unplug(fd));
	timeline = timeline_make(fd, 0);
	queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 60000);
	CHECK_EQUAL(sync_submit_points(fd, queue, &sync_nothing, timeline, SYNC_NEVER, 1,
				       &seqno),
		    0);
	CHECK(sync_is_waiting(fd, queue, seqno));
	do {
		CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_RESET, 0, 0), 0);
		r = hetsim_wait(fd, queue, seqno, 1000, &status, &address);
	} while (r == -ETIME);
	CHECK_EQUAL(r, 0);
	CHECK_EQUAL(status, -ECANCELED);
	CHECK_EQUAL(timeline_value(fd, timeline), 1);
	CHECK_EQUAL(hetsim_run(fd, queue, &sync_nothing), 0);
	close(timeline);
	hetsim_close(fd);
}

/* ---- refused calls ---- */

static void refuse(int fd, struct sync_work work, int expected)
{
	const struct sync_work before = work;
	uint64_t seqno = 0;

	CHECK_EQUAL(sync_submit(fd, &work, &seqno), expected);
	CHECK(!memcmp(&before.signal, &work.signal, sizeof(work.signal)));
}

/* Descriptors of other things, and numbers that mean nothing; nothing of it is queued. */
static void test_bad_input(void)
{
	struct sync_work good = { .command = &sync_nothing,
				  .wait = { .fd = -1 },
				  .signal = { .fd = -1 } };
	struct sync_work work;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int timeline, null, r;
	struct hetsim_submit call = { .size = sizeof(call),
				      .commands = (uintptr_t)&sync_nothing,
				      .n_commands = 1,
				      .command_size = sizeof(sync_nothing) };
	uint64_t value, seqno = 0;

	timeline = timeline_make(fd, 0);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK_FATAL(null >= 0);
	good.queue = call.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);

	CHECK_EQUAL(timeline_signal(fd, null, 1), -EINVAL);
	CHECK_EQUAL(timeline_signal(fd, -1, 1), -EINVAL);
	CHECK_EQUAL(timeline_signal(fd, 999999, 1), -EINVAL);
	CHECK_EQUAL(timeline_wait(fd, null, 1, 0, &value), -EINVAL);
	CHECK_EQUAL(timeline_wait(fd, -1, 1, 0, &value), -EINVAL);

	work = good, work.wait.fd = null;
	refuse(fd, work, -EINVAL);
	work.wait.kind = HETSIM_SYNC_FENCE;
	refuse(fd, work, -EINVAL);
	work.wait.fd = timeline;
	refuse(fd, work, -EINVAL);
	work = good, work.wait = (struct hetsim_sync){ .kind = HETSIM_SYNC_FENCE + 1 };
	refuse(fd, work, -EINVAL);
	work = good, work.signal.fd = null;
	refuse(fd, work, -EINVAL);
	work.signal.kind = HETSIM_SYNC_FENCE + 1;
	refuse(fd, work, -EINVAL);
	work.signal = (struct hetsim_sync){ .kind = HETSIM_SYNC_FENCE, .point = 1 };
	refuse(fd, work, -EINVAL);

	call.n_waits = HETSIM_MAX_SYNCS + 1;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &call), -EINVAL);
	call.n_waits = UINT32_MAX;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &call), -EINVAL);
	call.n_waits = 1;
	call.waits = 64;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &call), -EFAULT);
	call.waits = UINT64_MAX - 7;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &call), -EFAULT);
	call.n_waits = 0;
	call.n_signals = 1;
	call.signals = 64;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &call), -EFAULT);

	/* An older caller has no such members. */
	call.size = offsetof(struct hetsim_submit, waits);
	r = hetsim_call(fd, HETSIM_SUBMIT, &call);
	CHECK_EQUAL(r, 0);
	CHECK_EQUAL(call.seqno, 1);
	CHECK_EQUAL(sync_submit(fd, &good, &seqno), 0);
	CHECK_EQUAL(seqno, 2);
	CHECK_EQUAL(sync_status(fd, good.queue, seqno), 0);
	close(null);
	close(timeline);
	timeline_none_left(fd);
}

const struct test sim_sync_tests[] = {
	{ "fences", test_fences, 0, 0 },       { "fence_due", test_fence_due, 60, 0 },
	{ "ends", test_ends, 0, 0 },           { "closed", test_closed, 0, 0 },
	{ "timeout", test_timeout, 0, 0 },     { "destroy", test_destroy, 0, 0 },
	{ "lost", test_lost, 0, 0 },           { "reset", test_reset, 0, 0 },
	{ "bad_input", test_bad_input, 0, 0 }, { NULL, NULL, 0, 0 },
};
