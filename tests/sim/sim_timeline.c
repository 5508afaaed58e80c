// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: timelines, and the order that they
 * give to submissions of several queues and processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/support.h"
#include "sim/sim_tests.h"
#include "sim/sync_support.h"

/* ---- the value ---- */

static void test_value(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint64_t value = 0, begin;
	int timeline = timeline_make(fd, 3);

	CHECK_EQUAL(timeline_wait(fd, timeline, 3, 0, &value), 0);
	CHECK_EQUAL(value, 3);
	CHECK_EQUAL(timeline_wait(fd, timeline, 4, 0, &value), -ETIME);
	begin = sync_now_ns();
	CHECK_EQUAL(timeline_wait(fd, timeline, 4, SYNC_A_WHILE_MS, &value), -ETIME);
	CHECK(sync_now_ns() - begin >= SYNC_A_WHILE_MS * 1000000ull);
	CHECK_EQUAL(timeline_signal(fd, timeline, 10), 0);
	CHECK_EQUAL(timeline_wait(fd, timeline, 4, SYNC_FOR_EVER, &value), 0);
	CHECK_EQUAL(value, 10);
	CHECK_EQUAL(timeline_signal(fd, timeline, 5), 0); /* a value only rises */
	CHECK_EQUAL(timeline_value(fd, timeline), 10);
	CHECK_EQUAL(timeline_signal(fd, timeline, UINT64_MAX), 0);
	CHECK_EQUAL(timeline_value(fd, timeline), UINT64_MAX);
	close(timeline);
	timeline_none_left(fd);
}

/* Each waiter goes at its own point. */
static void test_waiters(void)
{
	struct timeline_waiter waiters[3];
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint64_t i, value;
	int timeline = timeline_make(fd, 0);

	for (i = 0; i < 3; i++)
		timeline_waiter_start(&waiters[i], fd, timeline, i + 1);
	usleep(20000);
	for (i = 0; i < 3; i++) {
		CHECK_EQUAL(timeline_wait(fd, timeline, i + 1, 0, &value), -ETIME);
		CHECK_EQUAL(timeline_signal(fd, timeline, i + 1), 0);
		pthread_join(waiters[i].thread, NULL);
		CHECK_EQUAL(waiters[i].r, 0);
		CHECK(waiters[i].value >= i + 1);
	}
	close(timeline);
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* A signal ends the wait, unless its handler has calls restarted; the twin's goes on. */
static void test_signals(void)
{
	struct itimerval often = { .it_interval = { .tv_usec = 20000 },
				   .it_value = { .tv_usec = 20000 } };
	struct itimerval never = { 0 };
	struct sigaction action = { .sa_handler = on_alarm }, old;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int timeline, i;
	uint64_t value;

	timeline = timeline_make(fd, 0);
	for (i = 0; i < 2; i++) {
		action.sa_flags = i ? SA_RESTART : 0;
		CHECK_FATAL(!sigaction(SIGALRM, &action, &old));
		setitimer(ITIMER_REAL, &often, NULL);
		CHECK_EQUAL(timeline_wait(fd, timeline, 1, 200, &value),
			    i || hetsim_soft_has(fd) ? -ETIME : -EINTR);
		setitimer(ITIMER_REAL, &never, NULL);
		CHECK_FATAL(!sigaction(SIGALRM, &old, NULL));
	}
	close(timeline);
}

/* ---- order ---- */

/* The later submission runs first: the other one waits for it, and so does the one behind. */
static void order(int fd, struct hetsim_buffer *buffer, uint32_t late, uint32_t waiting)
{
	struct hetsim_command first = { .op = HETSIM_OP_FILL, .length = 64, .value = 1 };
	struct hetsim_command second = first;
	uint64_t a = 0, b = 0, behind = 0;
	int timeline = timeline_make(fd, 0);

	buffer->bytes[0] = 0;
	first.destination = second.destination = (uintptr_t)buffer->bytes;
	second.value = 2;
	CHECK_EQUAL(sync_submit_points(fd, waiting, &second, timeline, 7, 8, &b), 0);
	CHECK_EQUAL(hetsim_submit(fd, waiting, &sync_nothing, 1, &behind), 0);
	CHECK(sync_is_waiting(fd, waiting, b));
	CHECK(sync_is_waiting(fd, waiting, behind));
	CHECK_EQUAL(buffer->bytes[0], 0);
	CHECK_EQUAL(sync_submit_points(fd, late, &first, timeline, 0, 7, &a), 0);
	CHECK_EQUAL(timeline_value(fd, timeline), 0);
	CHECK_EQUAL(sync_status(fd, waiting, b), 0);
	CHECK_EQUAL(sync_status(fd, waiting, behind), 0);
	CHECK_EQUAL(sync_status(fd, late, a), 0);
	CHECK_EQUAL(buffer->bytes[0], 2);
	CHECK_EQUAL(timeline_value(fd, timeline), 8);
	close(timeline);
}

static void test_order(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int timeline;
	uint64_t a = 0, b = 0;
	uint32_t fenced[2], late;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, PAGE, HETSIM_PLACE_VRAM);

	CHECK_EQUAL(hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE), 0);
	late = sync_make_late(fd, HETSIM_QUEUE_COUNTER);
	order(fd, &buffer, late, hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 60000));
	fenced[0] = sync_make_late(fd, HETSIM_QUEUE_DMA_FENCE);
	order(fd, &buffer, fenced[0], hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 60000));

	/* Queues with fences: the second waits for a point that the first has promised. */
	fenced[1] = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 60000);
	timeline = timeline_make(fd, 0);
	CHECK_EQUAL(sync_submit_points(fd, fenced[0], &sync_nothing, timeline, 0, 5, &a), 0);
	CHECK_EQUAL(sync_submit_points(fd, fenced[1], &sync_nothing, timeline, 4, 6, &b), 0);
	CHECK(sync_is_waiting(fd, fenced[1], b));
	CHECK_EQUAL(sync_status(fd, fenced[1], b), 0);
	CHECK_EQUAL(timeline_value(fd, timeline), 6);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).resets, 0);
	close(timeline);
}

/* As many of each as there may be, of several timelines. */
static void test_many(void)
{
	struct hetsim_sync waits[HETSIM_MAX_SYNCS], signals[HETSIM_MAX_SYNCS];
	struct hetsim_submit submit = {
		.size = sizeof(submit),
		.commands = (uintptr_t)&sync_nothing,
		.n_commands = 1,
		.command_size = sizeof(sync_nothing),
		.waits = (uintptr_t)waits,
		.signals = (uintptr_t)signals,
		.n_waits = HETSIM_MAX_SYNCS,
		.n_signals = HETSIM_MAX_SYNCS,
	};
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int in[HETSIM_MAX_SYNCS], out;
	unsigned int i;

	submit.queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 60000);
	out = timeline_make(fd, 0);
	for (i = 0; i < HETSIM_MAX_SYNCS; i++) {
		in[i] = timeline_make(fd, 0);
		waits[i] = (struct hetsim_sync){ .fd = in[i], .point = i + 1 };
		signals[i] = (struct hetsim_sync){ .fd = out, .point = i + 1 };
	}
	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &submit), 0);
	/* The last one first: all are waited for. */
	for (i = HETSIM_MAX_SYNCS; i--;) {
		CHECK_EQUAL(timeline_value(fd, out), 0);
		CHECK_EQUAL(timeline_signal(fd, in[i], i + 1), 0);
		close(in[i]); /* the submission has its own */
	}
	CHECK_EQUAL(sync_status(fd, submit.queue, submit.seqno), 0);
	CHECK_EQUAL(timeline_value(fd, out), HETSIM_MAX_SYNCS);
	submit.n_waits = 0;
	submit.n_signals = HETSIM_MAX_SYNCS + 1;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &submit), -EINVAL);
	close(out);
	timeline_none_left(fd);
}

/* ---- two processes ---- */

/* The other one's work waits for the first one's, on a device that it has opened itself. */
static int other_process(int socket)
{
	int fd = hetsim_open(O_RDWR), timeline = receive_fd(socket);
	uint32_t queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, 60000);
	uint64_t seqno = 0;
	char ready = 1;

	if (sync_submit_points(fd, queue, &sync_nothing, timeline, 1, 2, &seqno) ||
	    !sync_is_waiting(fd, queue, seqno) || write(socket, &ready, 1) != 1)
		return 1;
	if (sync_status(fd, queue, seqno) || timeline_value(fd, timeline) < 2)
		return 2;
	close(timeline);
	hetsim_close(fd);
	return 0;
}

static void test_processes(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int timeline, sockets[2], status = -1;
	uint64_t seqno = 0, value;
	uint32_t queue;
	pid_t child;
	char ready;

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets));
	child = fork();
	CHECK_FATAL(child >= 0);
	if (!child)
		_exit(other_process(sockets[1]));
	timeline = timeline_make(fd, 0);
	send_fd(sockets[0], timeline);
	CHECK_EQUAL(read(sockets[0], &ready, 1), 1);
	CHECK_EQUAL(timeline_wait(fd, timeline, 1, 0, &value), -ETIME);
	queue = sync_make_late(fd, HETSIM_QUEUE_DMA_FENCE);
	CHECK_EQUAL(sync_submit_points(fd, queue, &sync_nothing, timeline, 0, 1, &seqno), 0);
	CHECK_EQUAL(timeline_wait(fd, timeline, 2, 60000, &value), 0);
	CHECK_EQUAL(value, 2);
	CHECK_EQUAL(sync_status(fd, queue, seqno), 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	close(sockets[0]);
	close(sockets[1]);
	close(timeline);
	timeline_none_left(fd);
}

/* ---- promises ---- */

static void test_promises(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	uint64_t seqno = 0;
	uint32_t late = sync_make_late(fd, HETSIM_QUEUE_DMA_FENCE);
	uint32_t fenced = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 60000);
	uint32_t counter = sync_make_late(fd, HETSIM_QUEUE_COUNTER);
	int timeline = timeline_make(fd, 2);

	/* A point that is reached, one without a promise, and one that only this job promises. */
	CHECK_EQUAL(sync_submit_points(fd, fenced, &sync_nothing, timeline, 2, 0, &seqno), 0);
	CHECK_EQUAL(sync_submit_points(fd, fenced, &sync_nothing, timeline, 3, 0, &seqno),
		    -ERANGE);
	CHECK_EQUAL(sync_submit_points(fd, fenced, &sync_nothing, timeline, 9, 9, &seqno),
		    -ERANGE);
	/* A call that failed has promised nothing. */
	CHECK_EQUAL(sync_submit_points(fd, fenced, &sync_nothing, timeline, 9, 0, &seqno),
		    -ERANGE);
	/* The point of a job without a fence is no promise, as such a job may wait for anything. */
	CHECK_EQUAL(sync_submit_points(fd, counter, &sync_nothing, timeline, 0, 3, &seqno), 0);
	CHECK_EQUAL(sync_submit_points(fd, fenced, &sync_nothing, timeline, 3, 0, &seqno),
		    -ERANGE);
	CHECK_EQUAL(sync_status(fd, counter, seqno), 0);
	CHECK_EQUAL(sync_submit_points(fd, fenced, &sync_nothing, timeline, 3, 0, &seqno), 0);
	/* The point of a job of a queue with fences is one. */
	CHECK_EQUAL(sync_submit_points(fd, late, &sync_nothing, timeline, 0, 9, &seqno), 0);
	CHECK_EQUAL(sync_submit_points(fd, fenced, &sync_nothing, timeline, 10, 0, &seqno),
		    -ERANGE);
	CHECK_EQUAL(sync_submit_points(fd, fenced, &sync_nothing, timeline, 9, 0, &seqno), 0);
	CHECK_EQUAL(seqno, 3); /* those that were refused have no numbers */
	CHECK(sync_is_waiting(fd, fenced, seqno));
	CHECK_EQUAL(sync_status(fd, fenced, seqno), 0);
	CHECK_EQUAL(timeline_signal(fd, timeline, 20), 0);
	CHECK_EQUAL(sync_submit_points(fd, fenced, &sync_nothing, timeline, 20, 0, &seqno), 0);
	CHECK_EQUAL(sync_status(fd, fenced, seqno), 0);
	close(timeline);
}

const struct test sim_timeline_tests[] = {
	{ "value", test_value, 0, 0 },       { "waiters", test_waiters, 0, 0 },
	{ "signals", test_signals, 0, 0 },   { "order", test_order, 0, 0 },
	{ "many", test_many, 0, 0 },         { "processes", test_processes, 0, 0 },
	{ "promises", test_promises, 0, 0 }, { NULL, NULL, 0, 0 },
};
