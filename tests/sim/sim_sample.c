// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: which pages of a buffer are used.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

#define PAGES 1024

static int sample(int fd, uint32_t handle, uint32_t action, uint64_t first, uint64_t n,
		  void *counts)
{
	return hetsim_call(fd, HETSIM_BUFFER_SAMPLE,
			   SIZED(hetsim_buffer_sample, .handle = handle, .action = action,
				 .offset = first * PAGE, .length = n * PAGE,
				 .counts = (uintptr_t)counts));
}

static void test_sample(void)
{
	static uint32_t counts[PAGES];
	struct hetsim_buffer_resize resize = { .size = sizeof(resize) };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i, round;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, PAGES * PAGE, HETSIM_PLACE_SYSTEM);

	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, PAGES, counts), -ENOENT);
	buffer.bytes[0] = 1; /* maps all around */
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 0, 0, NULL), 0);
	for (round = 1; round <= 3; round++) {
		/* Stores: a load may be counted around it, too (test_loads). */
		for (i = 0; i < PAGES; i += 3 * round)
			buffer.bytes[(uint64_t)i * PAGE] = (unsigned char)round;
		CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, PAGES, counts), 0);
		for (i = 0; i < PAGES; i++) {
			uint32_t expected = (i % 3 == 0) + (round >= 2 && i % 6 == 0) +
					    (round >= 3 && i % 9 == 0);

			if (counts[i] != expected)
				break;
		}
		CHECK_EQUAL(i, PAGES);
	}
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 18, 1, counts), 0);
	CHECK_EQUAL(counts[0], 3);

	counts[0] = 99;
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 1, PAGES, counts), -ERANGE);
	CHECK_EQUAL(counts[0], 99);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, (1ull << 52) - 1, PAGES,
			   counts),
		    -EOVERFLOW);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 1ull << 51, PAGES, counts),
		    -ERANGE);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, 0, counts), -EINVAL);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 0, 1, NULL), -EINVAL);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 1, 0, NULL), -EINVAL);
	CHECK_EQUAL(sample(fd, buffer.handle, 3, 0, 0, NULL), -EINVAL);
	CHECK_EQUAL(sample(fd, 4711, HETSIM_SAMPLE_START, 0, 0, NULL), -ENOENT);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, PAGES, (void *)16),
		    -EFAULT);

	resize.handle = buffer.handle;
	resize.length = buffer.length / 2;
	CHECK_EQUAL(hetsim_call(fd, HETSIM_BUFFER_RESIZE, &resize), 0);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, 1, counts), -ENOENT);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 0, 0, NULL), 0);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_STOP, 0, 0, NULL), 0);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, 1, counts), -ENOENT);
}

/*
 * A load is counted where it was made. Where the process may not ask the kernel not to,
 * the twin's maps have the 64 KiB around it as well.
 */
static void test_loads(void)
{
	static uint32_t counts[PAGES];
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i, far = 0;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, PAGES * PAGE, HETSIM_PLACE_SYSTEM);
	volatile unsigned char *bytes = buffer.bytes;

	memset(buffer.bytes, 1, buffer.length);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 0, 0, NULL), 0);
	for (i = 100; i < PAGES; i += 400)
		CHECK_EQUAL(bytes[(uint64_t)i * PAGE], 1);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, PAGES, counts), 0);
	for (i = 0; i < PAGES; i++) {
		int off = (i + 300) % 400 < 200 ? (i + 300) % 400 : 400 - (i + 300) % 400;

		if (off == 0)
			CHECK_EQUAL(counts[i], 1);
		else if (off >= 16)
			far += (int)counts[i];
	}
	CHECK_EQUAL(far, 0);
	/* Pages not used since are not counted again, and the bytes are unchanged. */
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 100, 1, counts), 0);
	CHECK_EQUAL(counts[0], 1);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_STOP, 0, 0, NULL), 0);
	for (i = 0; i < PAGES; i++)
		if (bytes[(uint64_t)i * PAGE + 7] != 1)
			break;
	CHECK_EQUAL(i, PAGES);
}

/* Each map for itself, also one that came after the start. */
static void test_maps(void)
{
	static uint32_t counts[PAGES];
	unsigned char *late;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, PAGES * PAGE, HETSIM_PLACE_SYSTEM);

	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 0, 0, NULL), 0);
	CHECK_FATAL(hetsim_mmap(fd, 4 * PAGE, PROT_READ | PROT_WRITE, buffer.offset + 8 * PAGE,
				&late) == 0);
	buffer.bytes[9 * PAGE] = 1;
	late[PAGE] = 2;
	late[2 * PAGE] = 2;
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 8, 4, counts), 0);
	CHECK_EQUAL(counts[0], 0);
	CHECK_EQUAL(counts[1], 2);
	CHECK_EQUAL(counts[2], 1);
	CHECK_EQUAL(buffer.bytes[9 * PAGE], 2);
	CHECK_EQUAL(hetsim_munmap(late, 4 * PAGE), 0);
	/* Another's file has no such buffer; this one's start begins anew. */
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 0, 0, NULL), 0);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 9, 1, counts), 0);
	CHECK_EQUAL(counts[0], 0);
}

struct toucher {
	unsigned char *bytes;
	_Atomic bool stop;
	uint64_t rounds;
};

static void *touch_thread(void *user)
{
	struct toucher *toucher = user;
	uint64_t i;

	while (!toucher->stop) {
		for (i = 0; i < PAGES; i += 5)
			toucher->bytes[i * PAGE]++;
		toucher->rounds++;
	}
	return NULL;
}

/* No use is lost between two reads, and none is invented. */
static void test_race(void)
{
	static uint32_t counts[PAGES];
	struct toucher toucher = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i, reads = 0;
	pthread_t thread;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, PAGES * PAGE, HETSIM_PLACE_SYSTEM);

	toucher.bytes = buffer.bytes;
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 0, 0, NULL), 0);
	CHECK_FATAL(pthread_create(&thread, NULL, touch_thread, &toucher) == 0);
	memset(counts, 0, sizeof(counts));
	for (; reads < 50 || counts[1020] < 5; reads++)
		CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, PAGES, counts), 0);
	toucher.stop = true;
	pthread_join(thread, NULL);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, PAGES, counts), 0);
	for (i = 0; i < PAGES; i++) {
		if (i % 5 ? counts[i] != 0 : !counts[i] || counts[i] > (uint32_t)reads + 2)
			break;
		if ((unsigned char)toucher.rounds != buffer.bytes[(uint64_t)i * PAGE] &&
		    i % 5 == 0)
			break;
	}
	CHECK_EQUAL(i, PAGES);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_STOP, 0, 0, NULL), 0);
}

/* The kernel gives memory other pages where it may: root can ask for that. */
static void *compact_thread(void *user)
{
	const _Atomic bool *stop = user;
	int fd = open("/proc/sys/vm/compact_memory", O_WRONLY | O_CLOEXEC);

	while (fd >= 0 && !*stop && write(fd, "1", 1) == 1)
		;
	if (fd >= 0)
		close(fd);
	return NULL;
}

/*
 * Pages that were found in use when they were to be reclaimed [shrink_folio_list()]: it has
 * taken their entries out of page tables by then, and soft's counts come of these.
 */
static uint64_t reclaim_gave_up(void)
{
	FILE *file = fopen("/proc/vmstat", "re");
	unsigned long long n = 0;
	char line[80];

	while (file && fgets(line, sizeof(line), file) &&
	       sscanf(line, "pgactivate %llu", &n) != 1) /* NOLINT: a number of the kernel's */
		;
	if (file)
		fclose(file);
	return n;
}

/* A page that is on its way to elsewhere has been used as any other. */
static void test_moved(void)
{
	static uint32_t counts[PAGES];
	double until = test_now() + 1.5;
	_Atomic bool stop = false;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i = PAGES;
	uint32_t round = 0, rounds = 0, excused = 0;
	uint64_t gave_up;
	pthread_t thread;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, PAGES * PAGE, HETSIM_PLACE_SYSTEM);

	memset(buffer.bytes, 1, buffer.length);
	CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 0, 0, NULL), 0);
	CHECK_FATAL(pthread_create(&thread, NULL, compact_thread, &stop) == 0);
	while (i == PAGES && test_now() < until) {
		gave_up = reclaim_gave_up();
		for (i = 0; i < PAGES; i++)
			buffer.bytes[(uint64_t)i * PAGE]++;
		CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_READ, 0, PAGES, counts), 0);
		round++;
		rounds++;
		for (i = 0; i < PAGES && counts[i] == round; i++)
			;
		if (i < PAGES && hetsim_soft_has(fd) && excused++ < 30 &&
		    gave_up != reclaim_gave_up()) {
			CHECK_EQUAL(sample(fd, buffer.handle, HETSIM_SAMPLE_START, 0, 0, NULL),
				    0);
			round = 0;
			i = PAGES;
		}
	}
	CHECK_EQUAL(i, PAGES);
	/* Few: pages that compaction moves are moved all the time. */
	CHECK(excused * 10 <= rounds);
	stop = true;
	pthread_join(thread, NULL);
}

const struct test sim_sample_tests[] = {
	{ "sample", test_sample, 0, 0 }, { "loads", test_loads, 0, 0 },
	{ "maps", test_maps, 0, 0 },     { "race", test_race, 60, 0 },
	{ "moved", test_moved, 30, 0 },  { NULL, NULL, 0, 0 },
};
