// SPDX-License-Identifier: MIT
/* hetsim: waits and signals of submissions; and, of the module only, unwritable answers. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/hetsim.h"
#include "sim/sim_tests.h"

/*
 * The descriptor of a sync_file can't be written: the submission runs, the process has no
 * descriptor, and a fence without a holder limits no time.
 */
static void test_unwritable(void)
{
	const struct hetsim_command nothing = { 0 };
	struct hetsim_submit submit = { .size = sizeof(submit),
					.commands = (uintptr_t)&nothing,
					.n_commands = 1,
					.command_size = sizeof(nothing),
					.n_signals = 2 };
	struct hetsim_sync *signals;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i, next;
	uint64_t address;
	int status = 77;

	submit.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 5 * SIM_TIMEOUT_MS);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_LATENCY, submit.queue,
				  2 * SIM_TIMEOUT_MS * 1000000ull),
		    0);
	signals = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(signals != MAP_FAILED);
	for (i = 0; i < 2; i++)
		signals[i] = (struct hetsim_sync){ .kind = HETSIM_SYNC_FENCE, .fd = -5 };
	CHECK_EQUAL(mprotect(signals, PAGE, PROT_READ), 0);
	submit.signals = (uintptr_t)signals;
	/* Four of them take 1.6 time-outs of the queue. */
	for (i = 0; i < 4; i++)
		CHECK_EQUAL(hetsim_call(fd, HETSIM_SUBMIT, &submit), -EFAULT);
	next = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK_EQUAL(next, fd + 1);
	close(next);
	CHECK_EQUAL(hetsim_wait(fd, submit.queue, 4, 60000, &status, &address), 0);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(hetsim_counters(fd, HETSIM_SCOPE_OPENER).resets, 0);
	CHECK_EQUAL(signals[0].fd, -5);
	munmap(signals, PAGE);
}

static const struct test own[] = {
	{ "unwritable", test_unwritable, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_sync", sim_sync_tests, own)
