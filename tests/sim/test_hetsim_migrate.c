// SPDX-License-Identifier: MIT
/*
 * hetsim: pages of the process in the device's memory, and tests of this on the module only: the
 * CPU's use of them, other processes, locks and holds, huge pages, and unplugging.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "lib/rig.h"
#include "sim/migrate_support.h"
#include "sim/module_support.h"
#include "sim/sim_tests.h"

#define HUGE_PAGES (MIRROR_HUGE / PAGE)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)

/* Waits for a child, which must have ended well. */
static void child_check(pid_t child)
{
	int status = -1;

	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
}

/* Without a memory to move to, all wishes are kept, and none moves a page. */
static void test_stays(void)
{
	struct hetsim_mirror says;
	unsigned char *bytes;
	AUTO(mirror) mirror = migrate_begin(&says);

	CHECK_EQUAL(says.migration, HETSIM_MIGRATION_NONE);
	CHECK_EQUAL(says.migration_bytes, 0);
	bytes = migrate_map(MIRROR_HUGE, 7);
	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIRROR_HUGE, HETSIM_ADVISE_LOCATION,
				  HETSIM_LOCATION_DEVICE),
		    0);
	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIRROR_HUGE, HETSIM_ADVISE_COUNTER, 1), 0);
	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_DONE(mirror_fill(&mirror, bytes, PAGE, 9));
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, MIRROR_HUGE), 0);
	migrate_back(&mirror, bytes, MIRROR_HUGE);
	CHECK_EQUAL(mirror_counters(&mirror).pages_migrated, 0);
	CHECK_EQUAL(mirror_counters(&mirror).access_notices, 0);
	CHECK(mirror_words_are(bytes, PAGE, 9));
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* A CPU uses pages in place where it reaches them; else they come back, with their neighbours. */
static void test_cpu(void)
{
	struct hetsim_counters counters;
	struct hetsim_mirror says;
	unsigned int back;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_DONE(mirror_fill(&mirror, bytes, MIB(1), 0x01010101));
	back = says.migration == HETSIM_MIGRATION_PRIVATE ? 16 : 0;
	CHECK_EQUAL(bytes[5 * PAGE], 1);
	CHECK_EQUAL(mirror_counters(&mirror).pages_returned, back);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, MIRROR_HUGE), HUGE_PAGES - back);
	bytes[5 * PAGE] = 9;
	CHECK_DONE(mirror_copy(&mirror, mirror.result, bytes + 5 * PAGE, PAGE));
	CHECK_EQUAL(mirror.result[0], 9);
	CHECK_EQUAL(mirror.result[1], 1);
	CHECK(migrate_is(bytes + MIB(1), MIB(1), 5));
	counters = mirror_counters(&mirror);
	CHECK_EQUAL(counters.pages_returned, back ? 16 + MIB(1) / PAGE : 0);
	CHECK_EQUAL(counters.pages_evicted, 0);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* The kernel itself uses the pages: for a pipe, a file, and another process' look. */
static void test_kernel_uses(void)
{
	struct hetsim_mirror says;
	struct iovec from, to;
	char got[PAGE];
	int pipe_of[2];
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_FATAL(pipe2(pipe_of, O_CLOEXEC) == 0);
	CHECK_EQUAL(write(pipe_of[1], bytes, PAGE), PAGE);
	CHECK_EQUAL(read(pipe_of[0], bytes + MIB(1), PAGE), PAGE);
	CHECK(migrate_is(bytes + MIB(1), PAGE, 5));
	memset(got, 0, sizeof(got));
	from = (struct iovec){ .iov_base = bytes + 300 * PAGE, .iov_len = PAGE };
	to = (struct iovec){ .iov_base = got, .iov_len = PAGE };
	CHECK_EQUAL(process_vm_readv(getpid(), &to, 1, &from, 1, 0), PAGE);
	CHECK(migrate_is((unsigned char *)got, PAGE, 5));
	close(pipe_of[0]);
	close(pipe_of[1]);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* Parent and child share pages in the device's memory until one of them writes. */
static void test_forked(void)
{
	struct hetsim_mirror says;
	int go[2];
	pid_t child;
	char byte = 0;
	bool ok;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_FATAL(pipe2(go, O_CLOEXEC) == 0);
	child = fork();
	if (!child) {
		ok = read(go[0], &byte, 1) == 1 && migrate_is(bytes, MIRROR_HUGE, 5);
		memset(bytes, 8, MIB(1));
		_exit(ok && migrate_is(bytes, MIB(1), 8) ? 0 : 1);
	}
	CHECK_DONE(mirror_fill(&mirror, bytes, MIB(1), 6));
	CHECK_EQUAL(write(go[1], &byte, 1), 1);
	child_check(child);
	CHECK(mirror_words_are(bytes, MIB(1), 6));
	CHECK(migrate_is(bytes + MIB(1), MIB(1), 5));
	close(go[0]);
	close(go[1]);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* A child has pages of the device's memory when the file that moved them is closed. */
static void test_fork_close(void)
{
	struct hetsim_mirror says;
	char byte = 0;
	int go[2];
	pid_t child;
	struct mirror mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_FATAL(pipe2(go, O_CLOEXEC) == 0);
	child = fork();
	if (!child) {
		hetsim_close(mirror.fd);
		_exit(read(go[0], &byte, 1) == 1 && migrate_is(bytes, MIRROR_HUGE, 5) ? 0 : 1);
	}
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
	mirror_close(&mirror);
	CHECK_EQUAL(write(go[1], &byte, 1), 1);
	child_check(child);
	close(go[0]);
	close(go[1]);
}

static void test_remap(void)
{
	struct hetsim_mirror says;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);
	unsigned char *to = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);

	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK(mremap(bytes, MIRROR_HUGE, MIRROR_HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	CHECK_FAULT(mirror_read(&mirror, bytes, PAGE), HETSIM_REASON_UNMAPPED, bytes, 0);
	CHECK_DONE(mirror_fill(&mirror, to, PAGE, 6));
	CHECK_EQUAL(migrate_on_device(&mirror, to, PAGE), 1);
	CHECK(mirror_words_are(to, PAGE, 6));
	CHECK(migrate_is(to + PAGE, MIRROR_HUGE - PAGE, 5));
	CHECK_EQUAL(munmap(to, MIRROR_HUGE), 0);
}

/* A huge page moves in small ones. */
static void test_thp(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct hetsim_mirror says;
	struct mirror mirror;

	CHECK_EQUAL(madvise(bytes, MIRROR_HUGE, MADV_HUGEPAGE), 0);
	memset(bytes, 5, MIRROR_HUGE);
	mirror = migrate_begin(&says);
	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, MIRROR_HUGE), HUGE_PAGES);
	CHECK_DONE(mirror_fill(&mirror, bytes, MIB(1), 6));
	CHECK(mirror_words_are(bytes, MIB(1), 6));
	CHECK(migrate_is(bytes + MIB(1), MIB(1), 5));
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* Memory that is locked stays, and so do pages that something else has a reference on. */
static void test_held(void)
{
	struct hetsim_mirror says;
	struct iovec part;
	char got[PAGE];
	int pipe_of[2];
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	CHECK_EQUAL(mlock(bytes, 16 * PAGE), 0);
	CHECK_FATAL(pipe2(pipe_of, O_CLOEXEC) == 0);
	part = (struct iovec){ .iov_base = bytes + MIB(1), .iov_len = PAGE };
	CHECK_EQUAL(vmsplice(pipe_of[1], &part, 1, 0), PAGE);
	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, 16 * PAGE), 0);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes + MIB(1), PAGE), 0);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, MIRROR_HUGE), HUGE_PAGES - 17);
	CHECK(migrate_is(bytes, MIRROR_HUGE, 5));
	CHECK_EQUAL(read(pipe_of[0], got, PAGE), PAGE);
	close(pipe_of[0]);
	close(pipe_of[1]);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* A pipe has a page of the device's memory when its opener ends: it stays until that is read. */
static void test_held_there(void)
{
	struct hetsim_mirror says;
	struct mirror mirror;
	unsigned char *bytes;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int pipe_of[2], tries = 100;
	struct iovec part;
	char got[PAGE];
	struct hetsim_query before = hetsim_query(fd);

	CHECK_FATAL(pipe2(pipe_of, O_CLOEXEC) == 0);
	mirror = migrate_begin(&says);
	bytes = migrate_map(MIRROR_HUGE, 5);
	migrate_there(&mirror, bytes, MIRROR_HUGE);
	part = (struct iovec){ .iov_base = bytes, .iov_len = PAGE };
	CHECK_EQUAL(vmsplice(pipe_of[1], &part, 1, 0), PAGE);
	mirror_close(&mirror);
	CHECK(hetsim_query(fd).vram_used - before.vram_used <= PAGE);
	CHECK(migrate_is(bytes, MIRROR_HUGE, 5));
	CHECK_EQUAL(read(pipe_of[0], got, PAGE), PAGE);
	CHECK(migrate_is((unsigned char *)got, PAGE, 5));
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
	/* A worker counts it. */
	while (hetsim_query(fd).vram_used != before.vram_used && --tries)
		usleep(20000);
	CHECK_EQUAL(hetsim_query(fd).vram_used, before.vram_used);
	close(pipe_of[0]);
	close(pipe_of[1]);
}

/* Where user space brings pages, the device makes none. */
static void test_userfault(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int file = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);
	struct hetsim_mirror says;
	struct mirror mirror;

	range.range.start = (uintptr_t)bytes;
	range.range.len = MIRROR_HUGE;
	if (file < 0 || ioctl(file, UFFDIO_API, &api)) {
		test_skip("kernel", "no userfaultfd() here");
	} else if (migrate_open(&mirror, &says)) {
		CHECK_EQUAL(madvise(bytes + PAGE, PAGE, MADV_DONTNEED), 0);
		CHECK_EQUAL(ioctl(file, UFFDIO_REGISTER, &range), 0);
		CHECK_FAULT(mirror_prefetch(&mirror, bytes + PAGE, PAGE, HETSIM_LOCATION_DEVICE,
					    0),
			    HETSIM_REASON_NO_PAGE, bytes + PAGE, 0);
		CHECK_EQUAL(migrate_on_device(&mirror, bytes, MIRROR_HUGE), 0);
		mirror_close(&mirror);
	}
	if (file >= 0)
		close(file);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* The device has no memory for one of the pages, each in turn: it is used where it is. */
static void test_no_memory(void)
{
	struct hetsim_mirror says;
	unsigned int nth;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	for (nth = 1; nth <= 16; nth++) {
		CHECK_EQUAL(hetsim_inject(mirror.fd, HETSIM_INJECT_ENOMEM, 0, nth), 0);
		migrate_there(&mirror, bytes, 16 * PAGE);
		CHECK_EQUAL(migrate_on_device(&mirror, bytes, 16 * PAGE), 15);
		CHECK_EQUAL(mirror_page(&mirror, bytes + (nth - 1) * PAGE).location,
			    HETSIM_LOCATION_HOST);
		migrate_back(&mirror, bytes, 16 * PAGE);
		CHECK_EQUAL(migrate_on_device(&mirror, bytes, 16 * PAGE), 0);
		CHECK(migrate_is(bytes, MIRROR_HUGE, 5));
	}
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* The process ends, or becomes another program, with pages in the device's memory. */
static void test_exit(void)
{
	int before = hetsim_objects(), i, status, tries = 100;
	struct hetsim_mirror says;
	struct mirror mirror;
	unsigned char *bytes;
	pid_t child;

	for (i = 0; i < 3; i++) {
		child = fork();
		if (!child) {
			if (!migrate_open(&mirror, &says))
				_exit(0);
			bytes = migrate_map(2 * MIRROR_HUGE, 5);
			migrate_there(&mirror, bytes, MIRROR_HUGE);
			if (i == 1) {
				fcntl(mirror.fd, F_SETFD, 0);
				execl("/bin/true", "true", (char *)NULL);
			}
			if (i == 2)
				raise(SIGKILL);
			_exit(i);
		}
		CHECK_EQUAL(waitpid(child, &status, 0), child);
		CHECK(i == 2 ? WIFSIGNALED(status) : status == 0);
	}
	while (before >= 0 && hetsim_objects() != before && --tries)
		usleep(50000);
	CHECK_EQUAL(hetsim_objects(), before);
}

struct adder {
	uint64_t *counts; /* one for each page */
	unsigned int n;
	_Atomic bool stop;
	uint64_t rounds;
};

static void *add(void *user)
{
	struct adder *adder = user;
	unsigned int i;

	while (!adder->stop) {
		for (i = 0; i < adder->n; i++)
			adder->counts[(size_t)i * PAGE / 8]++;
		adder->rounds++;
	}
	return NULL;
}

/* A CPU writes while pages go there and back: no store is lost. */
static void test_race(void)
{
	double until = test_now() + 60;
	struct hetsim_mirror says;
	struct adder adder = { .n = 64 };
	unsigned long moves = 0;
	pthread_t thread;
	unsigned int i;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 0);

	adder.counts = (uint64_t *)(void *)bytes;
	CHECK_FATAL(pthread_create(&thread, NULL, add, &adder) == 0);
	while (moves < 4 && test_now() < until) {
		migrate_there(&mirror, bytes, MIRROR_HUGE);
		migrate_back(&mirror, bytes, MIRROR_HUGE);
		moves++;
	}
	adder.stop = true;
	pthread_join(thread, NULL);
	for (i = 0; i < adder.n; i++)
		CHECK_EQUAL(adder.counts[(size_t)i * PAGE / 8], adder.rounds);
	CHECK(moves > 0);
	CHECK(mirror_counters(&mirror).pages_migrated >= HUGE_PAGES - adder.n);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* The kernel looks for pages that it can write out, among those in the device's memory too. */
static void test_reclaim(void)
{
	struct hetsim_mirror says;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	migrate_there(&mirror, bytes, MIRROR_HUGE);
	madvise(bytes, MIRROR_HUGE, MADV_COLD);
	madvise(bytes, MIRROR_HUGE, MADV_PAGEOUT);
	CHECK_DONE(mirror_fill(&mirror, bytes, MIB(1), 6));
	CHECK(mirror_words_are(bytes, MIB(1), 6));
	CHECK(migrate_is(bytes + MIB(1), MIB(1), 5));
	/* Pages that may be forgotten, unless they are written to: the engine does. */
	migrate_back(&mirror, bytes, MIRROR_HUGE);
	CHECK_EQUAL(madvise(bytes, MIRROR_HUGE, MADV_FREE), 0);
	migrate_there(&mirror, bytes, MIB(1));
	CHECK_DONE(mirror_fill(&mirror, bytes, MIB(1), 7));
	migrate_back(&mirror, bytes, MIB(1));
	madvise(bytes, MIRROR_HUGE, MADV_PAGEOUT);
	CHECK(mirror_words_are(bytes, MIB(1), 7));
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* The device is taken away: no byte is. */
static void test_unplug(void)
{
	struct hetsim_mirror says;
	struct mirror mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	if (hetsim_may_unplug(mirror.fd)) {
		migrate_there(&mirror, bytes, MIRROR_HUGE);
		CHECK_DONE(mirror_fill(&mirror, bytes, MIB(1), 6));
		CHECK_EQUAL(hetsim_inject(mirror.fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
		CHECK(mirror_words_are(bytes, MIB(1), 6));
		CHECK(migrate_is(bytes + MIB(1), MIB(1), 5));
		hetsim_plug();
	}
	mirror_close(&mirror);
	/* The fresh device has all of the memory. */
	mirror = migrate_begin(&says);
	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, MIRROR_HUGE), HUGE_PAGES);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* Values of bar= that are no BAR: the module is not loaded, and says why. */
static void test_bad_bar(void)
{
	static const char *const bad[] = { "bar=4", "bar=0000:00:1f.7x", "bar=0000:00:ff.0",
					   "bar=0000:00:00.0" };
	char parameters[1024];
	int file = module_open();
	size_t i;

	if (file < 0)
		return;
	module_parameters(parameters, sizeof(parameters));
	CHECK_EQUAL(module_unload(), 0);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int r = module_load(file, bad[i]);

		if (r == 0)
			module_unload();
		CHECK(r == -EINVAL || r == -ENODEV || r == -EBUSY || r == -EOPNOTSUPP);
		module_is_gone(bad[i]);
	}
	CHECK_EQUAL(module_load(file, parameters), 0);
	close(file);
}

static const struct test tests[] = {
	{ "stays", test_stays, 0, SIM_STAYS },
	{ "cpu", test_cpu, 0, SIM_MIGRATES },
	{ "kernel_uses", test_kernel_uses, 0, SIM_MIGRATES },
	{ "fork", test_forked, 0, SIM_MIGRATES },
	{ "fork_close", test_fork_close, 0, SIM_MIGRATES },
	{ "remap", test_remap, 0, SIM_MIGRATES },
	{ "thp", test_thp, 0, SIM_MIGRATES },
	{ "held", test_held, 0, SIM_MIGRATES },
	{ "held_there", test_held_there, 0, SIM_MIGRATES },
	{ "userfault", test_userfault, 0, SIM_MIGRATES },
	{ "no_memory", test_no_memory, 0, SIM_MIGRATES },
	{ "exit", test_exit, 0, SIM_MIGRATES },
	{ "race", test_race, 120, SIM_MIGRATES },
	{ "reclaim", test_reclaim, 0, SIM_MIGRATES },
	{ "unplug", test_unplug, 0, SIM_MIGRATES },
	{ "bad_bar", test_bad_bar, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_migrate", sim_migrate_tests, tests)
