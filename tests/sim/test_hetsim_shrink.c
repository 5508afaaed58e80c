// SPDX-License-Identifier: MIT
/* hetsim: chunks of mirrors go when the kernel wants memory back, and device faults bring them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/hetsim.h"
#include "sim/mirror_support.h"

#define OBJECTS "/sys/kernel/debug/hetsim/hetsim0/objects"
#define CHUNKS 16
#define LENGTH ((size_t)CHUNKS * MIRROR_HUGE)

/* Chunks of all mirrors of the device; -1: the list can't be read. */
static int chunks(void)
{
	FILE *file = fopen(OBJECTS, "re");
	char line[512];
	int n = 0, one;

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "mirror\t%d\t", &one) == 1)
			n += one;
	fclose(file);
	return n;
}

/* Has the kernel ask all its shrinkers for all that they have. */
static void ask(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(write(fd, "2", 1), 1);
	close(fd);
}

/* A worker frees them. */
static void wait_for_none(void)
{
	double end = test_now() + 30;

	while (chunks() > 0 && test_now() < end)
		usleep(10000);
	CHECK_EQUAL(chunks(), 0);
}

/* False: the test was skipped. */
static bool begin(struct mirror *mirror)
{
	if (!mirror_open(mirror))
		return false;
	if (chunks() < 0 || access("/proc/sys/vm/drop_caches", W_OK)) {
		test_skip("kernel",
			  "only root sees the list of objects, and has caches dropped");
		mirror_close(mirror);
		return false;
	}
	return true;
}

static void test_idle(void)
{
	unsigned char *bytes =
		mirror_map(LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct mirror mirror;
	uint64_t evictions;

	if (!begin(&mirror))
		goto out;
	CHECK_DONE(mirror_fill(&mirror, bytes, LENGTH, 1));
	CHECK(chunks() >= CHUNKS / 2); /* the kernel may want some back by itself */
	evictions = mirror_counters(&mirror).mirror_evictions;
	ask();
	wait_for_none();
	CHECK(mirror_counters(&mirror).mirror_evictions >= evictions + CHUNKS / 2);
	CHECK_EQUAL(mirror_page(&mirror, bytes).rights, 0);
	CHECK(mirror_words_are(bytes, LENGTH, 1));

	CHECK_DONE(mirror_fill(&mirror, bytes, LENGTH, 2));
	CHECK(mirror_words_are(bytes, LENGTH, 2));
	CHECK(chunks() > 0);
	mirror_close(&mirror);
	CHECK_EQUAL(chunks(), 0);
	ask();
out:
	munmap(bytes, LENGTH);
}

/* Two openers have chunks, and the engine makes more all the time. */
static void test_busy(void)
{
	unsigned char *bytes =
		mirror_map(LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct mirror mirror, other;
	uint32_t i;

	if (!begin(&mirror))
		goto out;
	CHECK_FATAL(mirror_open(&other));
	CHECK_DONE(mirror_fill(&other, bytes, LENGTH, 9));
	for (i = 0; i < 5; i++) {
		struct hetsim_command fill = { .op = HETSIM_OP_FILL,
					       .destination = (uintptr_t)bytes,
					       .length = MIRROR_HUGE / 2,
					       .value = i };
		uint64_t seqno = 0;
		int n;

		for (n = 0; n < CHUNKS; n++) {
			fill.destination = (uintptr_t)bytes + (size_t)n * MIRROR_HUGE;
			CHECK_EQUAL(hetsim_submit(mirror.fd, mirror.queue, &fill, 1, &seqno),
				    0);
		}
		ask();
		CHECK_DONE(mirror_end_of(&mirror, mirror.queue, seqno));
		for (n = 0; n < CHUNKS; n++)
			CHECK(mirror_words_are(bytes + (size_t)n * MIRROR_HUGE, MIRROR_HUGE / 2,
					       i));
	}
	mirror_close(&other);
	mirror_close(&mirror);
out:
	munmap(bytes, LENGTH);
}

static const struct test tests[] = {
	{ "shrink_idle", test_idle, 60, 0 },
	{ "shrink_busy", test_busy, 120, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_shrink", tests, NULL)
