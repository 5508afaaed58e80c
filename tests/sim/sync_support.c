// SPDX-License-Identifier: MIT
/* Timelines, and submissions that wait and signal, for the tests of both. */
#include "sim/sync_support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

const struct hetsim_command sync_nothing;
const struct hetsim_command sync_bad = { .op = HETSIM_OP_FILL,
					 .destination = 0x123450000ull,
					 .length = 64 };

int timeline_make(int fd, uint64_t value)
{
	struct hetsim_timeline_create create = { .size = sizeof(create), .value = value };

	CHECK_FATAL(hetsim_call(fd, HETSIM_TIMELINE_CREATE, &create) == 0);
	CHECK(create.fd >= 0 && fcntl(create.fd, F_GETFD) & FD_CLOEXEC);
	return create.fd;
}

int timeline_signal(int fd, int timeline, uint64_t point)
{
	return hetsim_call(fd, HETSIM_TIMELINE_SIGNAL,
			   SIZED(hetsim_timeline_signal, .fd = timeline, .point = point));
}

uint64_t sync_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

int timeline_wait(int fd, int timeline, uint64_t point, uint64_t ms, uint64_t *ret_value)
{
	struct hetsim_timeline_wait wait = {
		.size = sizeof(wait), .fd = timeline, .point = point, .value = 77
	};
	int r;

	if (ms)
		wait.deadline_ns = ms == SYNC_FOR_EVER ? SYNC_FOR_EVER :
							 sync_now_ns() + ms * 1000000;
	r = hetsim_call(fd, HETSIM_TIMELINE_WAIT, &wait);
	if (r)
		CHECK_EQUAL(wait.value, 77);
	*ret_value = wait.value;
	return r;
}

uint64_t timeline_value(int fd, int timeline)
{
	uint64_t value = 0;

	CHECK_EQUAL(timeline_wait(fd, timeline, 0, 0, &value), 0);
	return value;
}

int sync_submit(int fd, struct sync_work *work, uint64_t *ret_seqno)
{
	struct hetsim_submit submit = {
		.size = sizeof(submit),
		.queue = work->queue,
		.commands = (uintptr_t)work->command,
		.n_commands = 1,
		.command_size = sizeof(*work->command),
		.waits = (uintptr_t)&work->wait,
		.signals = (uintptr_t)&work->signal,
		.n_waits = work->wait.fd >= 0,
		.n_signals = work->signal.fd >= 0,
	};
	int r = hetsim_call(fd, HETSIM_SUBMIT, &submit);

	if (!r)
		*ret_seqno = submit.seqno;
	return r;
}

int sync_submit_points(int fd, uint32_t queue, const struct hetsim_command *command,
		       int timeline, uint64_t wait, uint64_t signal, uint64_t *ret_seqno)
{
	struct sync_work work = {
		.queue = queue,
		.command = command,
		.wait = { .fd = wait ? timeline : -1, .point = wait },
		.signal = { .fd = signal ? timeline : -1, .point = signal },
	};

	return sync_submit(fd, &work, ret_seqno);
}

int sync_submit_uses(int fd, uint32_t queue, const struct hetsim_command *command,
		     const struct hetsim_use *uses, uint32_t n_uses, uint64_t *ret_seqno)
{
	struct hetsim_submit submit = {
		.size = sizeof(submit),
		.queue = queue,
		.commands = (uintptr_t)command,
		.n_commands = 1,
		.command_size = sizeof(*command),
		.uses = (uintptr_t)uses,
		.n_uses = n_uses,
	};
	int r = hetsim_call(fd, HETSIM_SUBMIT, &submit);

	if (!r)
		*ret_seqno = submit.seqno;
	return r;
}

uint64_t sync_use(int fd, uint32_t queue, uint32_t handle, uint32_t flags)
{
	const struct hetsim_use use = { handle, flags };
	uint64_t seqno = 0;

	CHECK_EQUAL(sync_submit_uses(fd, queue, &sync_nothing, &use, 1, &seqno), 0);
	return seqno;
}

uint32_t sync_make_stuck(int fd, uint32_t type)
{
	uint32_t queue = hetsim_queue_make(fd, type, 60000);

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_STUCK, queue, 1), 0);
	return queue;
}

int sync_status(int fd, uint32_t queue, uint64_t seqno)
{
	uint64_t address;
	int status = 77;

	CHECK_EQUAL(hetsim_wait(fd, queue, seqno, 60000, &status, &address), 0);
	return status;
}

bool sync_is_waiting(int fd, uint32_t queue, uint64_t seqno)
{
	uint64_t address;
	int status;

	return hetsim_wait(fd, queue, seqno, SYNC_A_WHILE_MS, &status, &address) == -ETIME;
}

uint32_t sync_make_late(int fd, uint32_t type)
{
	uint32_t queue = hetsim_queue_make(fd, type, 60000);

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, queue, SYNC_LATE_NS), 0);
	return queue;
}

void sync_destroy_queue(int fd, uint32_t queue)
{
	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUEUE_DESTROY,
				SIZED(hetsim_queue_destroy, .queue = queue)),
		    0);
}

/* Those of the twin are files, which the harness counts. */
static int timelines_left(void)
{
	FILE *file = fopen("/sys/kernel/debug/hetsim/timelines", "re");
	char line[256];
	int n = -1;

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		n++; /* the heading is none */
	fclose(file);
	return n;
}

void timeline_none_left(int fd)
{
	int tries = hetsim_soft_has(fd) ? 0 : 2000;

	for (; tries && timelines_left(); tries--)
		usleep(5000);
	if (!hetsim_soft_has(fd))
		CHECK_EQUAL(timelines_left(), 0);
}

static void *wait_thread(void *user)
{
	struct timeline_waiter *waiter = user;

	waiter->r = timeline_wait(waiter->fd, waiter->timeline, waiter->point, SYNC_FOR_EVER,
				  &waiter->value);
	return NULL;
}

void timeline_waiter_start(struct timeline_waiter *waiter, int fd, int timeline, uint64_t point)
{
	*waiter = (struct timeline_waiter){ .fd = fd, .timeline = timeline, .point = point };
	CHECK_FATAL(!pthread_create(&waiter->thread, NULL, wait_thread, waiter));
}
