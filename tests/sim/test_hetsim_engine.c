// SPDX-License-Identifier: MIT
/*
 * hetsim: the device's address space, queues and commands, fences, time limits; and tests of these
 * on the module only.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

/* Work for a while, in a process that waits for it until it is killed. */
static void work_and_wait(uint32_t type)
{
	struct hetsim_command commands[64];
	struct hetsim_buffer buffer;
	int fd = hetsim_open(O_RDWR), status;
	uint64_t seqno = 0, address, length = MIB(16);
	uint32_t queue, i;

	if (fd < 0)
		return;
	if (hetsim_query(fd).max_segment < length)
		length = hetsim_query(fd).max_segment;
	buffer = hetsim_buffer_make(fd, MIB(16), HETSIM_PLACE_SYSTEM);
	CHECK_EQUAL(hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE), 0);
	queue = hetsim_queue_make(fd, type, 0);
	for (i = 0; i < 64; i++)
		commands[i] = (struct hetsim_command){
			.op = HETSIM_OP_CRC32,
			.destination = (uintptr_t)buffer.bytes,
			.source = (uintptr_t)buffer.bytes,
			.length = length,
		};
	CHECK_EQUAL(hetsim_submit(fd, queue, commands, 64, &seqno), 0);
	hetsim_wait(fd, queue, seqno, 60000, &status, &address);
	pause();
}

/* Killed while it waits and while the engine works for it. */
static void test_kill(void)
{
	pid_t child;
	int status, i, before = hetsim_objects();

	for (i = 0; i < 3; i++) {
		child = fork();
		if (child == 0) {
			work_and_wait(i & 1);
			_exit(0);
		}
		usleep(200000 + i * 150000);
		kill(child, SIGKILL);
		CHECK_EQUAL(waitpid(child, &status, 0), child);
	}
	usleep(100000);
	CHECK_EQUAL(hetsim_objects(), before);
}

static const struct test tests[] = {
	{ "kill", test_kill, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_engine", sim_engine_tests, tests)
