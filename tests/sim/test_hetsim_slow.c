// SPDX-License-Identifier: MIT
/*
 * hetsim loaded with fault_us=100000, for the time that device faults have. And other threads that
 * take pages away without end, beside those that the engine uses: it gets its own.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "lib/rig.h"
#include "sim/migrate_support.h"
#include "sim/module_support.h"
#include "sim/sim_tests.h"

#define PARAMETERS 1024

static void test_slow(void)
{
	char had[PARAMETERS], slow[PARAMETERS + sizeof("fault_us=100000")];
	const struct test *test;
	int file = module_open();

	if (file < 0)
		return;
	module_parameters(had, sizeof(had));
	snprintf(slow, sizeof(slow), "%sfault_us=100000", had);
	CHECK_EQUAL(module_unload(), 0);
	CHECK_EQUAL(module_load(file, slow), 0);
	for (test = sim_slow_tests; test->name; test++)
		test->run();
	CHECK_EQUAL(module_unload(), 0);
	CHECK_EQUAL(module_load(file, had), 0);
	close(file);
}

#define DISPUTERS 2

struct disputer {
	unsigned char *page;
	_Atomic bool stop;
	_Atomic unsigned long rounds;
	pthread_t thread;
};

static void *dispute(void *user)
{
	struct disputer *disputer = user;

	while (!disputer->stop) {
		madvise(disputer->page, PAGE, MADV_DONTNEED);
		*(volatile unsigned char *)disputer->page = 1;
		disputer->rounds++;
	}
	return NULL;
}

/* The pages are in one chunk of 2 MiB, of which the kernel takes some away all the time. */
static void dispute_once(const struct mirror *mirror)
{
	struct disputer disputers[DISPUTERS] = { 0 };
	const size_t n = MIRROR_HUGE - DISPUTERS * PAGE;
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 1);
	unsigned int i;

	for (i = 0; i < DISPUTERS; i++) {
		disputers[i].page = bytes + n + i * PAGE;
		CHECK_FATAL(
			!pthread_create(&disputers[i].thread, NULL, dispute, &disputers[i]));
	}
	for (i = 0; i < DISPUTERS; i++)
		while (!disputers[i].rounds)
			sched_yield();
	CHECK_DONE(mirror_fill(mirror, bytes, n, 7));
	for (i = 0; i < DISPUTERS; i++) {
		disputers[i].stop = true;
		pthread_join(disputers[i].thread, NULL);
	}
	CHECK(mirror_words_are(bytes, n, 7));
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

static void test_disputed(void)
{
	unsigned int i;
	AUTO(mirror) mirror = mirror_begin();

	mirror.queue = hetsim_queue_make(mirror.fd, HETSIM_QUEUE_COUNTER, 2000);
	for (i = 0; i < 10; i++)
		dispute_once(&mirror);
}

static const struct test tests[] = {
	{ "slow", test_slow, 60, 0 },
	{ "disputed", test_disputed, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_slow", tests)
