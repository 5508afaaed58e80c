// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: it is taken away under
 * everything, and comes back.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

static void read_zero(void *user)
{
	volatile unsigned char *bytes = user;

	if (bytes[0] != 0 || bytes[4096] != 0)
		_exit(1);
	bytes[0] = 77;
}

static void test_unplug(void)
{
	struct hetsim_export export = { .size = sizeof(export), .flags = HETSIM_EXPORT_WRITE };
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct hetsim_query query = { .size = sizeof(query) };
	struct hetsim_import import = { .size = sizeof(import) };
	struct hetsim_command nothing = { 0 };
	struct hetsim_buffer a, b;
	struct hetsim_waiter waiter = { 0 };
	struct pollfd poll_it = { .events = POLLIN };
	unsigned char *again, *direct, *late, *nothing_there, byte;
	int fd = hetsim_open_zero(), other, fresh;
	uint64_t i;

	if (fd < 0)
		return;
	other = hetsim_open(O_RDWR);
	a = hetsim_buffer_make(fd, MIB(4), HETSIM_PLACE_VRAM);
	b = hetsim_buffer_make(other, MIB(4), HETSIM_PLACE_SYSTEM);
	memset(a.bytes, 1, a.length);
	memset(b.bytes, 2, b.length);
	CHECK_FATAL(hetsim_mmap(fd, a.length, PROT_READ | PROT_WRITE, a.offset, &again) == 0);
	export.handle = b.handle;
	CHECK_EQUAL(hetsim_call(other, HETSIM_EXPORT, &export), 0);
	direct = mmap(NULL, b.length, PROT_READ | PROT_WRITE, MAP_SHARED, export.fd, 0);
	CHECK_FATAL(direct != MAP_FAILED);
	direct[0] = 3;

	/* Work that would take a minute, and a waiter for it. */
	waiter.fd = other;
	waiter.queue = hetsim_queue_make(other, HETSIM_QUEUE_DMA_FENCE, 60000);
	CHECK_EQUAL(hetsim_inject(other, HETSIM_INJECT_STUCK, waiter.queue, 1), 0);
	for (i = 0; i < 10; i++)
		CHECK_EQUAL(hetsim_submit(other, waiter.queue, &nothing, 1, &waiter.seqno), 0);
	fence.queue = waiter.queue;
	fence.seqno = waiter.seqno;
	CHECK_EQUAL(hetsim_call(other, HETSIM_FENCE_FD, &fence), 0);
	hetsim_waiter_start(&waiter); /* a call that comes later has ENODEV itself */

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	hetsim_waiter_end(&waiter);
	CHECK_EQUAL(waiter.r, 0);
	CHECK_EQUAL(waiter.status, -ENODEV);
	poll_it.fd = fence.fd;
	CHECK_EQUAL(poll(&poll_it, 1, 10000), 1);
	hetsim_fence_check(fence.fd, -ENODEV);
	close(fence.fd);

	/* Zeros where they were asked for, each map's own; signals elsewhere. */
	CHECK(a.bytes[0] == 0 && a.bytes[a.length - 1] == 0);
	a.bytes[0] = 42;
	CHECK_EQUAL(again[0], 0);
	again[0] = 43;
	CHECK_EQUAL(a.bytes[0], 42);
	again[0] = 0;
	CHECK_EQUAL(test_fork(read_zero, again), 0);
	CHECK_EQUAL(again[0], 0);
	CHECK_EQUAL(test_read_signal(b.bytes), SIGBUS);
	CHECK_EQUAL(test_read_signal(direct), SIGBUS);

	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, &query), -ENODEV);
	CHECK_EQUAL(hetsim_close_handle(fd, a.handle), -ENODEV);
	CHECK_EQUAL(hetsim_pread(fd, &byte, 1, a.offset), -ENODEV);
	CHECK_EQUAL(hetsim_mmap(fd, 4096, PROT_READ, a.offset, &nothing_there), -ENODEV);
	late = mmap(NULL, 4096, PROT_READ, MAP_SHARED, export.fd, 0);
	if (late != MAP_FAILED) {
		CHECK_EQUAL(test_read_signal(late), SIGBUS);
		munmap(late, 4096);
	}
	CHECK(hetsim_open_try(O_RDWR) < 0);

	/* A fresh one, which has nothing of the old. */
	hetsim_plug();
	CHECK_EQUAL(hetsim_objects(), 0);
	fresh = hetsim_open(O_RDWR);
	CHECK_FATAL(fresh >= 0);
	CHECK_EQUAL(hetsim_query(fresh).vram_used, 0);
	import.fd = export.fd;
	CHECK_EQUAL(hetsim_call(fresh, HETSIM_IMPORT, &import), -EOPNOTSUPP);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), -ENODEV);
	CHECK_EQUAL(hetsim_run(fresh, hetsim_queue_make(fresh, 0, 0), &nothing), 0);
	CHECK_EQUAL(a.bytes[0], 42);

	hetsim_munmap(a.bytes, a.length);
	hetsim_munmap(again, a.length);
	hetsim_munmap(b.bytes, b.length);
	munmap(direct, b.length);
	close(export.fd);
	hetsim_close(fresh);
	hetsim_close(other);
	hetsim_close(fd);
}

/* Running work of all openers ends; the work behind it runs. */
static void test_reset(void)
{
	struct hetsim_fence_fd fence = { .size = sizeof(fence) };
	struct hetsim_command nothing = { 0 };
	int fd[2] = { hetsim_open(O_RDWR), -1 }, status = 0, i, tries, r = 0;
	uint64_t stuck[2] = { 0 }, behind = 0, address = 0;
	uint32_t queue[2];

	if (fd[0] < 0)
		return;
	TEST_NEEDS(hetsim_may_unplug(fd[0]));
	fd[1] = hetsim_open(O_RDWR);
	for (i = 0; i < 2; i++) {
		queue[i] = hetsim_queue_make(fd[i], HETSIM_QUEUE_DMA_FENCE, 60000);
		CHECK_EQUAL(hetsim_inject(fd[i], HETSIM_INJECT_STUCK, queue[i], 1), 0);
		CHECK_EQUAL(hetsim_submit(fd[i], queue[i], &nothing, 1, &stuck[i]), 0);
		CHECK_EQUAL(hetsim_wait(fd[i], queue[i], stuck[i], 300, &status, &address),
			    -ETIME);
	}
	fence.queue = queue[0];
	fence.seqno = stuck[0];
	CHECK_EQUAL(hetsim_call(fd[0], HETSIM_FENCE_FD, &fence), 0);
	CHECK_EQUAL(hetsim_submit(fd[0], queue[0], &nothing, 1, &behind), 0);

	CHECK_EQUAL(hetsim_inject(fd[0], HETSIM_INJECT_RESET, 0, 0), 0);
	for (i = 0; i < 2; i++) {
		/* On a busy machine the queue's thread may not have come to it: once more. */
		for (tries = 0; tries < 30; tries++) {
			r = hetsim_wait(fd[i], queue[i], stuck[i], 1000, &status, &address);
			if (r != -ETIME)
				break;
			CHECK_EQUAL(hetsim_inject(fd[0], HETSIM_INJECT_RESET, 0, 0), 0);
		}
		CHECK_EQUAL(r, 0);
		CHECK_EQUAL(status, -ECANCELED);
	}
	hetsim_fence_check(fence.fd, -ECANCELED);
	close(fence.fd);
	CHECK_EQUAL(hetsim_wait(fd[0], queue[0], behind, 30000, &status, &address), 0);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(hetsim_run(fd[1], queue[1], &nothing), 0);
	hetsim_close(fd[1]);
	hetsim_close(fd[0]);
}

struct load {
	_Atomic bool stop;
	unsigned long rounds;
};

/* Opens, creates, maps, binds, submits and touches until it is told to stop. */
static void *load_thread(void *user)
{
	struct load *load = user;
	uint64_t seqno, address;
	int status;

	while (!load->stop) {
		struct hetsim_buffer_create create = { .size = sizeof(create),
						       .length = MIB(1),
						       .place = HETSIM_PLACE_SYSTEM };
		struct hetsim_queue_create queue = { .size = sizeof(queue) };
		struct hetsim_command command = { .op = HETSIM_OP_FILL,
						  .length = MIB(1),
						  .value = 1 };
		struct hetsim_buffer buffer = { .length = MIB(1) };
		int fd = hetsim_open_try(O_RDWR);

		load->rounds++;
		if (fd < 0)
			continue;
		hetsim_call(fd, HETSIM_HANDSHAKE,
			    SIZED(hetsim_handshake, .flags = HETSIM_HANDSHAKE_ZERO_WHEN_LOST,
				  .version_major = HETSIM_VERSION_MAJOR));
		if (hetsim_call(fd, HETSIM_BUFFER_CREATE, &create) == 0) {
			buffer.handle = create.handle;
			if (hetsim_mmap(fd, MIB(1), PROT_READ | PROT_WRITE, create.offset,
					&buffer.bytes) == 0) {
				hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE);
				command.destination = (uintptr_t)buffer.bytes;
				if (hetsim_call(fd, HETSIM_QUEUE_CREATE, &queue) == 0 &&
				    hetsim_submit(fd, queue.queue, &command, 1, &seqno) == 0)
					hetsim_wait(fd, queue.queue, seqno, 1000, &status,
						    &address);
				memset(buffer.bytes, 1, MIB(1));
				hetsim_munmap(buffer.bytes, MIB(1));
			}
		}
		hetsim_close(fd);
	}
	return NULL;
}

static void test_unplug_under_load(void)
{
	struct load loads[3] = { 0 };
	pthread_t threads[3];
	int fd = hetsim_open(O_RDWR), i, round;
	bool may = fd >= 0 && hetsim_may_unplug(fd);

	if (fd >= 0)
		hetsim_close(fd);
	if (!may)
		return;
	for (i = 0; i < 3; i++)
		CHECK_FATAL(pthread_create(&threads[i], NULL, load_thread, &loads[i]) == 0);
	for (round = 0; round < 10; round++) {
		usleep(50000);
		fd = hetsim_open(O_RDWR);
		CHECK_FATAL(fd >= 0);
		CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
		hetsim_close(fd);
		hetsim_plug();
	}
	for (i = 0; i < 3; i++) {
		loads[i].stop = true;
		pthread_join(threads[i], NULL);
		CHECK(loads[i].rounds > 0);
	}
	CHECK_EQUAL(hetsim_objects(), 0);
}

const struct test sim_unplug_tests[] = {
	{ "unplug", test_unplug, 60, 0 },
	{ "reset", test_reset, 60, 0 },
	{ "unplug_under_load", test_unplug_under_load, 60, 0 },
	{ NULL, NULL, 0, 0 },
};
