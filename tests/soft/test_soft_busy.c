// SPDX-License-Identifier: MIT
/*
 * soft:N on a busy machine: a submission's time is the processor time of its thread, without
 * the time that other threads took.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/mirror_support.h"

#define LIMIT_MS 300
#define BYTES (4u << 20)
#define COMMANDS 64u
#define OTHERS 9u /* threads beside the engine's, on one processor */

static _Atomic bool stop;

static void *spin(void *user)
{
	volatile unsigned int *turns = user;

	while (!stop)
		++*turns;
	return NULL;
}

/* Seconds that @n commands took. */
static double run(const struct mirror *mirror, uint32_t queue, void *bytes, uint32_t n,
		  int *ret_status)
{
	struct hetsim_command commands[COMMANDS];
	double begin = test_now();
	uint64_t seqno = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		commands[i] = (struct hetsim_command){ .op = HETSIM_OP_FILL,
						       .destination = (uintptr_t)bytes,
						       .length = BYTES,
						       .value = i };
	CHECK_EQUAL(hetsim_submit(mirror->fd, queue, commands, n, &seqno), 0);
	*ret_status = mirror_end_of(mirror, queue, seqno).status;
	return test_now() - begin;
}

/* Commands that take a third of the time by themselves. */
static uint32_t count(const struct mirror *mirror, void *bytes)
{
	double best = 1, seconds;
	int i, status;

	for (i = 0; i < 9; i++) {
		seconds = run(mirror, mirror->queue, bytes, 1, &status);
		best = seconds < best ? seconds : best;
		CHECK_EQUAL(status, 0);
	}
	seconds = LIMIT_MS / 1000.0 / 3 / best;
	return seconds < 1 ? 1 : seconds > COMMANDS ? COMMANDS : (uint32_t)seconds;
}

static void test_busy(void)
{
	unsigned char *bytes =
		mirror_map(BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	unsigned int turns[OTHERS] = { 0 }, i;
	pthread_t threads[OTHERS];
	struct mirror mirror;
	uint32_t n, queue;
	cpu_set_t one;
	int status;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	CHECK_EQUAL(sched_setaffinity(0, sizeof(one), &one), 0);
	CHECK_FATAL(mirror_open(&mirror));
	queue = hetsim_queue_make(mirror.fd, HETSIM_QUEUE_COUNTER, LIMIT_MS);
	n = count(&mirror, bytes);
	stop = false;
	for (i = 0; i < OTHERS; i++)
		CHECK_FATAL(!pthread_create(&threads[i], NULL, spin, &turns[i]));
	run(&mirror, queue, bytes, n, &status);
	CHECK_EQUAL(status, 0);
	stop = true;
	for (i = 0; i < OTHERS; i++)
		pthread_join(threads[i], NULL);
	/* A submission that itself runs too long is ended all the same. */
	queue = hetsim_queue_make(mirror.fd, HETSIM_QUEUE_COUNTER, 1);
	run(&mirror, queue, bytes, COMMANDS, &status);
	CHECK_EQUAL(status, -ETIMEDOUT);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, BYTES), 0);
}

static const struct test tests[] = {
	{ "busy", test_busy, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	hetsim_use_soft();
	return harness_main(argc, argv, "soft_busy", tests);
}
