// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: the report of SUBMIT on earlier submissions;
 * each runs and its waiter is woken up, however they come; how many queues there are; how long a
 * submission may run, and signals meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

#define NO_ADDRESS 0x123450000ull
#define LATENCY_NS 500000000 /* of a command that is to be under way */
#define NS_PER_S 1000000000ull

static const struct hetsim_command nothing;
static const struct hetsim_command bad = { .op = HETSIM_OP_FILL,
					   .destination = NO_ADDRESS,
					   .length = 64 };

/* The whole answer. */
static struct hetsim_submit submit(int fd, uint32_t queue, const struct hetsim_command *command)
{
	struct hetsim_submit submit = {
		.size = sizeof(submit),
		.queue = queue,
		.commands = (uintptr_t)command,
		.n_commands = 1,
		.command_size = sizeof(*command),
	};

	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &submit), 0);
	return submit;
}

static int wait_for(int fd, uint32_t queue, uint64_t seqno)
{
	uint64_t address;
	int status = 0;

	CHECK_EQUAL(hetsim_wait(fd, queue, seqno, 60000, &status, &address), 0);
	return status;
}

static void check_told(int fd, uint32_t queue, uint64_t done, uint64_t failures)
{
	struct hetsim_submit answer = submit(fd, queue, &nothing);

	CHECK_EQUAL(answer.done, done);
	CHECK_EQUAL(answer.failures, failures);
	wait_for(fd, queue, answer.seqno);
}

/* Right after each kind of end. */
static void test_told(void)
{
	struct hetsim_submit answer;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, SIM_TIMEOUT_MS);
	uint32_t other = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 0);

	check_told(fd, queue, 0, 0);
	check_told(fd, queue, 1, 0);
	CHECK_EQUAL(hetsim_run(fd, queue, &bad), -EFAULT);
	check_told(fd, queue, 3, 1);
	check_told(fd, queue, 4, 1);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 1), 0);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), -ETIMEDOUT);
	check_told(fd, queue, 6, 2);
	check_told(fd, other, 0, 0); /* each queue has its own */

	/* Work under way is not reported. */
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, other, LATENCY_NS), 0);
	submit(fd, other, &nothing);
	answer = submit(fd, other, &bad);
	CHECK_EQUAL(answer.seqno, 3);
	CHECK_EQUAL(answer.done, 1);
	CHECK_EQUAL(answer.failures, 0);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, other, 0), 0);
	CHECK_EQUAL(wait_for(fd, other, 2), 0);
}

/* More failures than a queue remembers are counted still. */
static void test_told_many(void)
{
	struct hetsim_submit answer = { .seqno = 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i;
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);

	for (i = 0; i < 300; i++)
		answer = submit(fd, queue, &bad);
	wait_for(fd, queue, answer.seqno);
	check_told(fd, queue, 300, 300);
}

/* A caller of the first version has a shorter structure, of which no more is written. */
static void test_first_version(void)
{
	struct hetsim_submit call = {
		.size = offsetof(struct hetsim_submit, done),
		.commands = (uintptr_t)&nothing,
		.n_commands = 1,
		.command_size = sizeof(nothing),
		.done = 0x1111,
		.failures = 0x2222,
	};
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	call.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	CHECK_EQUAL(hetsim_run(fd, call.queue, &nothing), 0);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &call), 0);
	CHECK_EQUAL(call.seqno, 2);
	CHECK_EQUAL(call.done, 0x1111);
	CHECK_EQUAL(call.failures, 0x2222);
	call.size--;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &call), -EINVAL);
}

static void pause_ns(long ns)
{
	const struct timespec time = { .tv_nsec = ns };

	nanosleep(&time, NULL);
}

/* Without a wait, or any other call about the queue. */
static bool ends_by_itself(int fd, uint64_t submissions)
{
	int i;

	for (i = 0; i < 20000; i++) {
		if (hetsim_counters(fd, HETSIM_SCOPE_OPENER).submissions == submissions)
			return true;
		pause_ns(500000);
	}
	return false;
}

/*
 * A submission finds the queue's thread at another point in each round: it runs in any case, even
 * though it is never waited for.
 */
static void test_nobody_waits(void)
{
	struct hetsim_command fill = { .op = HETSIM_OP_FILL, .value = 7 };
	uint64_t seed = test_seed(), submissions = 0;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint32_t round, n;
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, 64 * PAGE, HETSIM_PLACE_VRAM);

	CHECK_EQUAL(hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE), 0);
	fill.destination = (uintptr_t)buffer.bytes;
	for (round = 0; round < 200; round++) {
		for (n = test_random(&seed) % 80; n; n--, submissions++) {
			fill.length = test_random(&seed) % 8 ? 64 : buffer.length;
			submit(fd, queue, &fill);
			if (test_random(&seed) % 16 == 0)
				pause_ns((long)(test_random(&seed) % 400000));
		}
		CHECK_FATAL(ends_by_itself(fd, submissions));
	}
}

/* ---- waiters, each for a submission of its own ---- */

#define WAITERS 8

struct waiter {
	pthread_t thread;
	int fd, r, status;
	uint32_t queue;
	uint64_t seqno, ms;
};

static void *wait_thread(void *user)
{
	struct waiter *waiter = user;
	uint64_t address;

	waiter->r = hetsim_wait(waiter->fd, waiter->queue, waiter->seqno, waiter->ms,
				&waiter->status, &address);
	return NULL;
}

/* All of them are woken up, and a wait that gives up does so though other work is done. */
static void test_many_waiters(void)
{
	struct waiter waiters[WAITERS + 1];
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i;
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, queue, LATENCY_NS / 5), 0);
	for (i = 0; i < WAITERS; i++)
		submit(fd, queue, i % 3 ? &nothing : &bad);
	for (i = WAITERS; i >= 0; i--) {
		waiters[i] = (struct waiter){ .fd = fd, .queue = queue, .ms = 60000 };
		waiters[i].seqno = (uint64_t)i + 1;
		if (i == WAITERS) {
			waiters[i].seqno = WAITERS;
			waiters[i].ms = 250;
		}
		CHECK_FATAL(pthread_create(&waiters[i].thread, NULL, wait_thread,
					   &waiters[i]) == 0);
	}
	for (i = 0; i <= WAITERS; i++) {
		pthread_join(waiters[i].thread, NULL);
		CHECK_EQUAL(waiters[i].r, i < WAITERS ? 0 : -ETIME);
		CHECK_EQUAL(waiters[i].status, i < WAITERS && i % 3 == 0 ? -EFAULT : 0);
	}
}

struct flicker {
	volatile unsigned char *byte;
	_Atomic bool stop;
};

/* Races with the engine, as is meant here: nothing for a sanitizer to find. */
__attribute__((no_sanitize("thread"))) static void *flicker_thread(void *user)
{
	struct flicker *flicker = user;

	while (!flicker->stop)
		*flicker->byte ^= 1;
	return NULL;
}

/*
 * Bytes that COMPARE found to differ are equal again before it has found the place: it looks no
 * further than its range. (It takes two processors to see it fail.)
 */
static void test_compare_flicker(void)
{
	const uint64_t page = PAGE, first = 32 * page, second = 64 * page;
	struct flicker flicker = { 0 };
	struct hetsim_command command = { .op = HETSIM_OP_COMPARE, .length = page };
	pthread_t thread;
	uint64_t found;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i;
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, 128 * page, HETSIM_PLACE_SYSTEM);

	CHECK_EQUAL(hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE), 0);
	command.destination = (uintptr_t)buffer.bytes;
	command.source = (uintptr_t)buffer.bytes + first;
	command.source2 = (uintptr_t)buffer.bytes + second;
	buffer.bytes[first + 2 * page] = 1; /* where it ends that goes too far */
	flicker.byte = &buffer.bytes[first + page - 1];
	CHECK_FATAL(pthread_create(&thread, NULL, flicker_thread, &flicker) == 0);
	for (i = 0; i < 3000; i++) {
		if (hetsim_run(fd, queue, &command) != 0)
			break;
		memcpy(&found, buffer.bytes, sizeof(found));
		if (found != UINT64_MAX && found != page - 1)
			break;
	}
	CHECK_EQUAL(i, 3000);
	flicker.stop = true;
	pthread_join(thread, NULL);
}

static void test_queue_limit(void)
{
	struct hetsim_queue_create create = { .size = sizeof(create) };
	unsigned int n = 0;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	struct hetsim_query query = hetsim_query(fd);

	while (n < 1000 && hetsim_call(fd, HETSIM_QUEUE_CREATE, &create) == 0)
		n++;
	CHECK_EQUAL(n, query.max_queues);
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_CREATE, &create), -ENOSPC);
	create.type = 2;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_CREATE, &create), -EINVAL);
	create.type = 0;
	create.timeout_ms = HETSIM_MAX_TIMEOUT_MS + 1;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_CREATE, &create), -EINVAL);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The default limit on the time that work may block the engine is two seconds. */
static void test_default_timeout(void)
{
	static const uint32_t types[] = { HETSIM_QUEUE_DMA_FENCE, HETSIM_QUEUE_COUNTER };
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct pollfd poll_it = { .events = POLLIN };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i;
	uint64_t seqnos[2], begin, took;
	uint32_t queues[2];

	CHECK_EQUAL(hetsim_query(fd).timeout_ms, 2000);
	begin = now_ns();
	for (i = 0; i < 2; i++) {
		queues[i] = hetsim_queue_make(fd, types[i], 0);
		CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queues[i], 1), 0);
		seqnos[i] = submit(fd, queues[i], &nothing).seqno;
	}
	fence.queue = queues[0];
	fence.seqno = seqnos[0];
	CHECK_FATAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence) == 0);
	poll_it.fd = fence.fd;
	CHECK_EQUAL(poll(&poll_it, 1, 60000), 1);
	took = now_ns() - begin;
	CHECK(took >= NS_PER_S * 19 / 10);
	CHECK(took < NS_PER_S * (test_is_slow() ? 20 : 10));
	hetsim_fence_check(fence.fd, -ETIMEDOUT);
	CHECK_EQUAL(close(fence.fd), 0);
	CHECK_EQUAL(wait_for(fd, queues[1], seqnos[1]), -ETIMEDOUT);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).resets, 2);
	for (i = 0; i < 2; i++)
		CHECK_EQUAL(hetsim_run(fd, queues[i], &nothing), 0);
}

/* Makes a queue, and submits @n times to it; each takes 0.4 of its time-out. Returns the last. */
static uint64_t slow_submissions(int fd, int n, uint32_t *ret_queue)
{
	uint64_t seqno = 0;

	*ret_queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 5 * SIM_TIMEOUT_MS);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, *ret_queue,
				  2 * SIM_TIMEOUT_MS * (NS_PER_S / 1000)),
		    0);
	while (n--)
		seqno = submit(fd, *ret_queue, &nothing).seqno;
	return seqno;
}

/*
 * A waiter for a fence waits for one time-out, even if each submission before it ends in time.
 * Without this limit these 40 submissions would end well, after 16 s or more.
 */
static void test_fence_sum(void)
{
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct pollfd poll_it = { .events = POLLIN };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint32_t queue;

	fence.seqno = slow_submissions(fd, 40, &queue);
	fence.queue = queue;
	CHECK_FATAL(hetsim_call(fd, HETSIM_FENCE_FD, &fence) == 0);
	poll_it.fd = fence.fd;
	CHECK_EQUAL(poll(&poll_it, 1, -1), 1);
	hetsim_fence_check(fence.fd, -ECANCELED);
	CHECK_EQUAL(wait_for(fd, queue, fence.seqno), -ECANCELED);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).resets, 1);
	CHECK_EQUAL(close(fence.fd), 0);

	/* A fence that is asked for in time ends well. */
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, queue, 0), 0);
	CHECK_EQUAL(hetsim_run(fd, queue, &nothing), 0);
}

/*
 * A call that fails for want of a descriptor limits no time: these four take 1.6 time-outs of the
 * queue together. The twin needs one descriptor for itself.
 */
static void test_fence_refused(void)
{
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct rlimit before, none;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int next, r;
	uint32_t queue;

	fence.seqno = slow_submissions(fd, 4, &queue);
	fence.queue = queue;
	next = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK_FATAL(next >= 0 && !close(next) && !getrlimit(RLIMIT_NOFILE, &before));
	none = before;
	none.rlim_cur = (rlim_t)next + hetsim_soft_has(fd);
	CHECK_FATAL(!setrlimit(RLIMIT_NOFILE, &none));
	r = hetsim_call(fd, HETSIM_FENCE_FD, &fence);
	CHECK_FATAL(!setrlimit(RLIMIT_NOFILE, &before));
	CHECK_EQUAL(r, -EMFILE);
	CHECK_EQUAL(wait_for(fd, queue, fence.seqno), 0);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).resets, 0);
}

/* ---- a waiter that signals interrupt time and again ---- */

static _Atomic unsigned int n_ticks;

static void tick(int signal)
{
	(void)signal;
	n_ticks++;
}

/*
 * WAIT until it says something else than EINTR; how often it said that. A call that fails
 * writes nothing.
 */
static unsigned int wait_on(int fd, struct hetsim_wait *wait, int *ret_result)
{
	unsigned int n = 0;

	do {
		wait->status = 77;
		*ret_result = hetsim_call(fd, HETSIM_WAIT, wait);
		if (*ret_result)
			CHECK_EQUAL(wait->status, 77);
		n += *ret_result == -EINTR;
	} while (*ret_result == -EINTR);
	return n;
}

/* The submission's end is reported, and a repeated wait keeps its time to give up. */
static void wait_under_ticks(int fd, bool told)
{
	const uint64_t slack = NS_PER_S * (test_is_slow() ? 20 : 10);
	struct hetsim_wait wait = { .size = sizeof(wait), .deadline_ns = UINT64_MAX };
	unsigned int n;
	uint64_t end;
	int r = 0;

	n_ticks = 0;
	wait.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, SIM_TIMEOUT_MS);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, wait.queue, 1), 0);
	wait.seqno = submit(fd, wait.queue, &nothing).seqno;
	n = wait_on(fd, &wait, &r);
	CHECK_EQUAL(r, 0);
	CHECK_EQUAL(wait.status, -ETIMEDOUT);
	CHECK_EQUAL(n > 0, told);
	CHECK(n_ticks > 0);
	wait.seqno = submit(fd, wait.queue, &nothing).seqno;
	wait_on(fd, &wait, &r);
	CHECK_EQUAL(r, 0);
	CHECK_EQUAL(wait.status, 0);

	n_ticks = 0;
	wait.queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 60000);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, wait.queue, 1), 0);
	wait.seqno = submit(fd, wait.queue, &nothing).seqno;
	wait.deadline_ns = now_ns() + NS_PER_S * 3 / 10;
	n = wait_on(fd, &wait, &r);
	end = now_ns();
	CHECK_EQUAL(r, -ETIME);
	CHECK_EQUAL(n > 0, told);
	CHECK(n_ticks > 0);
	CHECK(end >= wait.deadline_ns);
	CHECK(end < wait.deadline_ns + slack);
}

/*
 * With SA_RESTART a waiter notices nothing; without, it gets EINTR and asks again. The twin's
 * waiters are in no call of the kernel's that a handler would end: they go on.
 */
static void test_signals(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct itimerspec often = { .it_interval = { .tv_nsec = 5000000 },
				    .it_value = { .tv_nsec = 5000000 } };
	struct sigaction action = { .sa_handler = tick }, old;
	int flags[] = { 0, SA_RESTART };
	timer_t timer;
	int fd, i;

	for (i = 0; i < 2; i++) {
		fd = hetsim_open(O_RDWR);
		if (fd < 0)
			return;
		action.sa_flags = flags[i];
		CHECK_FATAL(sigaction(SIGUSR1, &action, &old) == 0);
		CHECK_FATAL(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
		CHECK_EQUAL(timer_settime(timer, 0, &often, NULL), 0);
		wait_under_ticks(fd, !flags[i] && !hetsim_soft_has(fd));
		CHECK_EQUAL(timer_delete(timer), 0);
		CHECK_EQUAL(sigaction(SIGUSR1, &old, NULL), 0);
		hetsim_close(fd);
	}
}

const struct test sim_submit_tests[] = {
	{ "told", test_told, 0, 0 },
	{ "told_many", test_told_many, 0, 0 },
	{ "first_version", test_first_version, 0, 0 },
	{ "nobody_waits", test_nobody_waits, 0, 0 },
	{ "many_waiters", test_many_waiters, 0, 0 },
	{ "compare_flicker", test_compare_flicker, 0, 0 },
	{ "queue_limit", test_queue_limit, 0, 0 },
	{ "default_timeout", test_default_timeout, 0, TEST_ONCE },
	{ "fence_sum", test_fence_sum, 120, 0 },
	{ "fence_refused", test_fence_refused, 60, 0 },
	{ "signals", test_signals, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
