// SPDX-License-Identifier: MIT
/*
 * A device whose faults take 100 ms each (fault_us=100000): the time of a submission is for the
 * engine's work, and pages of the process have time of their own.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/migrate_support.h"
#include "sim/sim_tests.h"

#define PIECE (64u << 10)
#define N 8 /* faults, which take more time together than the queue has */
#define LIMIT_MS (TEST_TSAN ? 700 : 500) /* but one takes less */

/* A mirror whose queue has a short time, and which prefetches nothing. */
static bool slow_open(struct mirror *mirror)
{
	struct hetsim_learn learn = { .size = sizeof(learn) };

	if (!mirror_open(mirror))
		return false;
	CHECK_EQUAL(hetsim_call(mirror->fd, HETSIM_LEARN, &learn), 0);
	mirror->queue = hetsim_queue_make(mirror->fd, HETSIM_QUEUE_COUNTER, LIMIT_MS);
	return true;
}

/* Each command has a fault. */
static void test_faults(void)
{
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 1);
	struct hetsim_command commands[N];
	struct mirror mirror;
	uint64_t seqno = 0;
	double begin;
	int i;

	if (!slow_open(&mirror))
		goto out;
	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIRROR_HUGE, HETSIM_ADVISE_GRANULE, PAGE), 0);
	for (i = 0; i < N; i++)
		commands[i] =
			(struct hetsim_command){ .op = HETSIM_OP_FILL,
						 .destination = (uintptr_t)bytes + i * PAGE,
						 .length = PAGE,
						 .value = 7 };
	begin = test_now();
	CHECK_EQUAL(hetsim_submit(mirror.fd, mirror.queue, commands, N, &seqno), 0);
	CHECK_DONE(mirror_end_of(&mirror, mirror.queue, seqno));
	CHECK(test_now() - begin > LIMIT_MS / 1000.0);
	CHECK_EQUAL(mirror_counters(&mirror).mirror_faults, N);
	CHECK(mirror_words_are(bytes, N * PAGE, 7));
	CHECK_EQUAL(mirror_counters(&mirror).resets, 0);
	mirror_close(&mirror);
out:
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* Work that waits for something else has as much time as ever, whatever its faults took. */
static void test_limit(void)
{
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 1);
	struct hetsim_command command = { .op = HETSIM_OP_FILL,
					  .destination = (uintptr_t)bytes,
					  .length = PAGE };
	struct mirror_end end;
	struct mirror mirror;

	if (!slow_open(&mirror))
		goto out;
	CHECK_EQUAL(hetsim_inject(mirror.fd, HETSIM_INJECT_LOST_INTERRUPT, mirror.queue, 1), 0);
	end = mirror_run_on(&mirror, mirror.queue, &command);
	CHECK_EQUAL(end.status, -ETIMEDOUT);
	CHECK_EQUAL(mirror_counters(&mirror).resets, 1);
	CHECK_DONE(mirror_run_on(&mirror, mirror.queue, &command));
	mirror_close(&mirror);
out:
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* A prefetch has a fault for each chunk. */
static void test_prefetch(void)
{
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 1);
	struct mirror mirror;

	if (!slow_open(&mirror))
		goto out;
	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIRROR_HUGE, HETSIM_ADVISE_GRANULE, PIECE),
		    0);
	migrate_there(&mirror, bytes, N * PIECE);
	CHECK_DONE(mirror_fill(&mirror, bytes, N * PIECE, 7));
	migrate_back(&mirror, bytes, N * PIECE);
	CHECK(mirror_words_are(bytes, N * PIECE, 7));
	mirror_close(&mirror);
out:
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

const struct test sim_slow_tests[] = {
	{ "faults", test_faults, 0, SIM_SLOW },
	{ "limit", test_limit, 0, SIM_SLOW },
	{ "prefetch", test_prefetch, 0, SIM_SLOW },
	{ NULL, NULL, 0, 0 },
};
