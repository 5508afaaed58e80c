// SPDX-License-Identifier: MIT
/*
 * The mirror of the process, be it the module's or the twin's: anonymous memory of all sorts, its
 * rights, and changes by the process between two uses by the engine.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/mirror_support.h"
#include "sim/sim_tests.h"

#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define SHARED (MAP_SHARED | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)

/* The device sees the CPU's stores and the other way round, and no byte is copied elsewhere. */
static void both_ways(const struct mirror *mirror, unsigned char *bytes, size_t n)
{
	uint32_t *words = (uint32_t *)bytes;
	unsigned char *other = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	size_t i;

	for (i = 0; i < n / 4; i++)
		words[i] = (uint32_t)i * 2654435761u;
	CHECK_DONE(mirror_copy(mirror, other, bytes, n));
	CHECK(memcmp(other, bytes, n) == 0);
	CHECK_DONE(mirror_fill(mirror, bytes, n, 0x5eed5eed));
	CHECK(mirror_words_are(bytes, n, 0x5eed5eed));
	words[0] = 1;
	CHECK_DONE(mirror_copy(mirror, other, bytes, n));
	CHECK_EQUAL(*(uint32_t *)other, 1);
	CHECK_EQUAL(munmap(other, MIRROR_HUGE), 0);
}

static void test_malloc(void)
{
	unsigned char *bytes = aligned_alloc(64, MIB(1));
	struct mirror mirror;

	CHECK_FATAL(bytes != NULL);
	mirror = mirror_begin();
	both_ways(&mirror, bytes, MIB(1));
	CHECK_EQUAL(mirror_counters(&mirror).bytes_read, 0);
	CHECK_EQUAL(mirror_counters(&mirror).bytes_written, 0);
	mirror_close(&mirror);
	free(bytes);
}

static void test_stack(void)
{
	_Alignas(64) unsigned char bytes[16 * 1024];
	struct mirror mirror;

	if (!mirror_open(&mirror))
		return;
	both_ways(&mirror, bytes, sizeof(bytes));
	mirror_close(&mirror);
}

/* Parts of pages, and a range that begins and ends within them. */
static void test_odd(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct mirror mirror = mirror_begin();

	both_ways(&mirror, bytes + PAGE - 64, 64);
	both_ways(&mirror, bytes + 3 * PAGE - 128, 2 * PAGE + 192);
	CHECK_EQUAL(bytes[3 * PAGE - 129], 0);
	CHECK_EQUAL(bytes[5 * PAGE + 64], 0);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* Memory that no CPU has touched: the engine reads zeros, and then gets pages of its own. */
static void test_untouched(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct mirror mirror = mirror_begin();

	memset(mirror.result, 7, PAGE);
	CHECK_DONE(mirror_copy(&mirror, mirror.result, bytes, PAGE));
	CHECK(mirror_words_are(mirror.result, PAGE, 0));
	CHECK_EQUAL(mirror_page(&mirror, bytes).rights, HETSIM_PAGE_READ);
	CHECK_DONE(mirror_fill(&mirror, bytes + 8 * PAGE, 4 * PAGE, 9));
	CHECK(mirror_words_are(bytes, 8 * PAGE, 0));
	CHECK(mirror_words_are(bytes + 8 * PAGE, 4 * PAGE, 9));
	CHECK(mirror_words_are(bytes + 12 * PAGE, 500 * PAGE, 0));
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* The engine brings no page that its work does not use. */
static void test_frugal(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1), in[512];
	struct mirror mirror;
	size_t i, n = 0;

	CHECK_EQUAL(madvise(bytes, MIRROR_HUGE, MADV_NOHUGEPAGE), 0);
	mirror = mirror_begin();
	CHECK_DONE(mirror_fill(&mirror, bytes + 100 * PAGE, 7 * PAGE, 3));
	CHECK_EQUAL(mincore(bytes, MIRROR_HUGE, in), 0);
	for (i = 0; i < 512; i++)
		n += in[i] & 1;
	CHECK_EQUAL(n, 7);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* A page that is there is no cause for a second fault; a right that is not there is. */
static void test_rights(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct hetsim_counters before, after;
	struct mirror mirror;

	memset(bytes, 1, MIRROR_HUGE);
	mirror = mirror_begin();
	CHECK_DONE(mirror_read(&mirror, bytes, MIRROR_HUGE));
	CHECK_EQUAL(mirror_page(&mirror, bytes).rights, HETSIM_PAGE_READ);
	CHECK_EQUAL(mirror_page(&mirror, bytes).location, HETSIM_LOCATION_HOST);
	before = mirror_counters(&mirror);
	CHECK_DONE(mirror_read(&mirror, bytes, MIRROR_HUGE));
	after = mirror_counters(&mirror);
	CHECK_EQUAL(after.mirror_faults, before.mirror_faults);
	CHECK_DONE(mirror_fill(&mirror, bytes + PAGE, PAGE, 2));
	CHECK_EQUAL(mirror_page(&mirror, bytes + PAGE).rights,
		    HETSIM_PAGE_READ | HETSIM_PAGE_WRITE);
	CHECK_EQUAL(mirror_counters(&mirror).mirror_faults, before.mirror_faults + 1);
	CHECK_DONE(mirror_read(&mirror, bytes + PAGE, PAGE));
	CHECK_EQUAL(mirror_counters(&mirror).mirror_faults, before.mirror_faults + 1);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

static void test_protect(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct mirror mirror = mirror_begin();

	memset(bytes, 1, MIRROR_HUGE);
	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 5));
	CHECK_EQUAL(mprotect(bytes, MIRROR_HUGE, PROT_READ), 0);
	CHECK_DONE(mirror_read(&mirror, bytes, MIRROR_HUGE));
	CHECK_FAULT(mirror_fill(&mirror, bytes + 64, 64, 6), HETSIM_REASON_WRITE, bytes + 64,
		    1);
	CHECK_EQUAL(mprotect(bytes, MIRROR_HUGE, PROT_NONE), 0);
	CHECK_FAULT(mirror_read(&mirror, bytes, 64), HETSIM_REASON_READ, bytes, 0);
	CHECK_FAULT(mirror_fill(&mirror, bytes, 64, 7), HETSIM_REASON_READ, bytes, 1);
	CHECK_EQUAL(mprotect(bytes, MIRROR_HUGE, RW), 0);
	CHECK(mirror_words_are(bytes, MIRROR_HUGE, 5));
	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 8));
	CHECK(mirror_words_are(bytes, MIRROR_HUGE, 8));

	/* A part only: the rest goes on, and a range over both ends where the rights do. */
	CHECK_EQUAL(mprotect(bytes + MIB(1), PAGE, PROT_NONE), 0);
	CHECK_FAULT(mirror_fill(&mirror, bytes, MIRROR_HUGE, 9), HETSIM_REASON_READ,
		    bytes + MIB(1), 1);
	CHECK(mirror_words_are(bytes, MIB(1), 9));
	CHECK(mirror_words_are(bytes + MIB(1) + PAGE, MIB(1) - PAGE, 8));
	CHECK_DONE(mirror_fill(&mirror, bytes + MIB(1) + PAGE, MIB(1) - PAGE, 10));
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* A child's copy is its own, whichever of CPU and engine writes first after fork(). */
static void test_forked(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	int go[2], status;
	pid_t child;
	char byte = 0;
	struct mirror mirror = mirror_begin();

	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 1));
	CHECK_FATAL(pipe2(go, O_CLOEXEC) == 0);
	child = fork();
	if (!child) {
		/* Later stores of the parent's engine must not be seen here. */
		if (read(go[0], &byte, 1) != 1 || !mirror_words_are(bytes, MIRROR_HUGE, 1))
			_exit(1);
		memset(bytes, 0xee, MIRROR_HUGE);
		_exit(mirror_words_are(bytes, MIRROR_HUGE, 0xeeeeeeee) ? 0 : 2);
	}
	CHECK_DONE(mirror_fill(&mirror, bytes, MIB(1), 2));
	CHECK_EQUAL(write(go[1], &byte, 1), 1);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK(mirror_words_are(bytes, MIB(1), 2));
	CHECK(mirror_words_are(bytes + MIB(1), MIB(1), 1));
	CHECK_DONE(mirror_fill(&mirror, bytes + MIB(1), MIB(1), 3));
	CHECK(mirror_words_are(bytes + MIB(1), MIB(1), 3));
	close(go[0]);
	close(go[1]);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* Shared memory is one, in the child, too. */
static void test_fork_shared(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, SHARED, -1);
	int status;
	pid_t child;
	struct mirror mirror = mirror_begin();

	CHECK_DONE(mirror_fill(&mirror, bytes, MIB(1), 4));
	child = fork();
	if (!child) {
		if (!mirror_words_are(bytes, MIB(1), 4))
			_exit(1);
		memset(bytes, 0x11, MIB(1));
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK_DONE(mirror_copy(&mirror, bytes + MIB(1), bytes, MIB(1)));
	CHECK(mirror_words_are(bytes + MIB(1), MIB(1), 0x11111111));
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* The engine must not be at pages that the process has given up. */
static void test_unmap(void)
{
	unsigned char *bytes = mirror_map(2 * MIRROR_HUGE, RW, PRIVATE, -1);
	struct mirror mirror = mirror_begin();

	CHECK_DONE(mirror_fill(&mirror, bytes, 2 * MIRROR_HUGE, 1));
	CHECK_EQUAL(munmap(bytes + MIB(1), MIRROR_HUGE), 0);
	CHECK_FAULT(mirror_fill(&mirror, bytes, 2 * MIRROR_HUGE, 2), HETSIM_REASON_UNMAPPED,
		    bytes + MIB(1), 1);
	CHECK(mirror_words_are(bytes, MIB(1), 2));
	CHECK(mirror_words_are(bytes + MIB(3), MIB(1), 1));
	CHECK_EQUAL(mirror_page(&mirror, bytes + MIB(1)).rights, 0);

	/* Something else at the same place. */
	CHECK_FATAL(mmap(bytes + MIB(1), MIRROR_HUGE, RW, PRIVATE | MAP_FIXED, -1, 0) ==
		    bytes + MIB(1));
	CHECK_DONE(mirror_copy(&mirror, mirror.result, bytes + MIB(1), PAGE));
	CHECK(mirror_words_are(mirror.result, PAGE, 0));
	CHECK_DONE(mirror_fill(&mirror, bytes, 2 * MIRROR_HUGE, 3));
	CHECK(mirror_words_are(bytes, 2 * MIRROR_HUGE, 3));
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, 2 * MIRROR_HUGE), 0);
}

static void test_dontneed(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct mirror mirror = mirror_begin();

	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 1));
	CHECK_EQUAL(madvise(bytes + MIB(1), MIB(1), MADV_DONTNEED), 0);
	CHECK_DONE(mirror_copy(&mirror, mirror.result, bytes + MIB(1), PAGE));
	CHECK(mirror_words_are(mirror.result, PAGE, 0));
	CHECK_DONE(mirror_fill(&mirror, bytes + MIB(1), PAGE, 2));
	CHECK(mirror_words_are(bytes, MIB(1), 1));
	CHECK(mirror_words_are(bytes + MIB(1), PAGE, 2));
	CHECK(mirror_words_are(bytes + MIB(1) + PAGE, MIB(1) - PAGE, 0));
	/* Memory that may go, until it is written to: by the engine, too. */
	CHECK_DONE(mirror_fill(&mirror, bytes, MIB(1), 3));
	CHECK_EQUAL(madvise(bytes, MIB(1), MADV_FREE), 0);
	CHECK_DONE(mirror_fill(&mirror, bytes, MIB(1), 4));
	CHECK_EQUAL(madvise(bytes, MIB(1), MADV_PAGEOUT), 0);
	CHECK(mirror_words_are(bytes, MIB(1), 4));
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

static void test_mremap(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	unsigned char *place = mirror_map(MIRROR_HUGE, PROT_NONE, PRIVATE, -1);
	struct mirror mirror = mirror_begin();

	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 6));
	CHECK_FATAL(mremap(bytes, MIRROR_HUGE, MIRROR_HUGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			   place) == place);
	CHECK_FAULT(mirror_read(&mirror, bytes, PAGE), HETSIM_REASON_UNMAPPED, bytes, 0);
	CHECK_DONE(mirror_copy(&mirror, mirror.result, place, PAGE));
	CHECK(mirror_words_are(mirror.result, PAGE, 6));
	CHECK_DONE(mirror_fill(&mirror, place, MIRROR_HUGE, 7));
	CHECK(mirror_words_are(place, MIRROR_HUGE, 7));
	mirror_close(&mirror);
	munmap(bytes, MIRROR_HUGE);
	CHECK_EQUAL(munmap(place, MIRROR_HUGE), 0);
}

/* Two places of the same memory. */
static void test_twice(void)
{
	int file = memfd_create("twice", MFD_CLOEXEC);
	unsigned char *one, *two;
	struct mirror mirror;

	CHECK_FATAL(file >= 0 && ftruncate(file, MIRROR_HUGE) == 0);
	one = mirror_map(MIRROR_HUGE, RW, MAP_SHARED, file);
	two = mirror_map(MIRROR_HUGE, RW, MAP_SHARED, file);
	mirror = mirror_begin();
	CHECK_DONE(mirror_fill(&mirror, one, MIB(1), 21));
	CHECK_DONE(mirror_copy(&mirror, two + MIB(1), two, MIB(1)));
	CHECK(mirror_words_are(one, MIRROR_HUGE, 21));
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(one, MIRROR_HUGE), 0);
	CHECK_EQUAL(munmap(two, MIRROR_HUGE), 0);
	close(file);
}

/* A binding is before the process's memory, and gives way to it when it goes. */
static void test_bound(void)
{
	struct hetsim_buffer buffer;
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct hetsim_bind bind = { .size = sizeof(bind), .flags = HETSIM_BIND_WRITE };
	struct hetsim_unbind unbind = { .size = sizeof(unbind), .length = PAGE };
	struct mirror mirror = mirror_begin();

	CHECK_DONE(mirror_fill(&mirror, bytes, 2 * PAGE, 1));
	buffer = hetsim_buffer_make(mirror.fd, PAGE, HETSIM_PLACE_SYSTEM);
	bind.handle = buffer.handle;
	bind.address = unbind.address = (uintptr_t)bytes;
	bind.length = PAGE;
	CHECK_EQUAL(hetsim_call(mirror.fd, HETSIM_BIND, &bind), 0);
	CHECK_DONE(mirror_fill(&mirror, bytes, 2 * PAGE, 2));
	CHECK(mirror_words_are(bytes, PAGE, 1));
	CHECK(mirror_words_are(bytes + PAGE, PAGE, 2));
	CHECK(mirror_words_are(buffer.bytes, PAGE, 2));
	CHECK_EQUAL(hetsim_call(mirror.fd, HETSIM_UNBIND, &unbind), 0);
	CHECK_DONE(mirror_fill(&mirror, bytes, PAGE, 3));
	CHECK(mirror_words_are(bytes, PAGE, 3));
	CHECK(mirror_words_are(buffer.bytes, PAGE, 2));
	hetsim_buffer_drop(mirror.fd, &buffer);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

const struct test sim_mirror_tests[] = {
	{ "malloc", test_malloc, 0, 0 },
	{ "stack", test_stack, 0, 0 },
	{ "odd", test_odd, 0, 0 },
	{ "untouched", test_untouched, 0, 0 },
	{ "frugal", test_frugal, 0, 0 },
	{ "rights", test_rights, 0, 0 },
	{ "protect", test_protect, 0, 0 },
	{ "fork", test_forked, 0, 0 },
	{ "fork_shared", test_fork_shared, 0, 0 },
	{ "unmap", test_unmap, 0, 0 },
	{ "dontneed", test_dontneed, 0, 0 },
	{ "mremap", test_mremap, 0, 0 },
	{ "twice", test_twice, 0, 0 },
	{ "bound", test_bound, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
