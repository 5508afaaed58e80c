// SPDX-License-Identifier: MIT
/*
 * hetsim: the mirror of the process, and tests of it on the module only: huge pages, other devices'
 * memory, other processes, exec and exit under a running engine, and shoot-downs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/mirror_support.h"
#include "sim/sim_tests.h"

#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)

/* The map is of one huge page: true if the kernel has made it so. */
static bool is_huge(const void *bytes)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long from, to, kib = 0;
	bool inside = false;
	char line[512];

	CHECK_FATAL(file != NULL);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = (uintptr_t)bytes >= from && (uintptr_t)bytes < to;
		else if (inside && sscanf(line, "AnonHugePages: %lu kB", &kib) == 1)
			break;
	}
	fclose(file);
	return inside && kib >= 2048;
}

static void test_thp(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct hetsim_counters before, after;
	struct mirror mirror;

	CHECK_EQUAL(madvise(bytes, MIRROR_HUGE, MADV_HUGEPAGE), 0);
	bytes[0] = 1;
	if (!is_huge(bytes)) {
		test_skip("kernel", "the kernel has made no huge page");
		goto out;
	}
	mirror = mirror_begin();
	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 3));
	CHECK_EQUAL(mirror_page(&mirror, bytes).order, 9);
	CHECK_EQUAL(mirror_page(&mirror, bytes + 300 * PAGE).order, 9);
	/* One translation for all of it. */
	before = mirror_counters(&mirror);
	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 4));
	after = mirror_counters(&mirror);
	CHECK_EQUAL(after.tlb_misses, before.tlb_misses);
	CHECK_EQUAL(after.tlb_hits - before.tlb_hits >= 512, true);
	CHECK(mirror_words_are(bytes, MIRROR_HUGE, 4));

	/* Split by a right for a part. */
	CHECK_EQUAL(mprotect(bytes + MIB(1), PAGE, PROT_READ), 0);
	CHECK_FAULT(mirror_fill(&mirror, bytes, MIRROR_HUGE, 5), HETSIM_REASON_WRITE,
		    bytes + MIB(1), 1);
	CHECK(mirror_words_are(bytes, MIB(1), 5));
	CHECK(mirror_words_are(bytes + MIB(1), MIB(1), 4));
	CHECK_EQUAL(mirror_page(&mirror, bytes).order, 0);
	mirror_close(&mirror);
out:
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* All of it at once: a write fault breaks the sharing of a huge page with a child, too. */
static void test_thp_fork(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct mirror mirror;
	int status, go[2];
	char byte = 0;
	pid_t child;

	CHECK_EQUAL(madvise(bytes, MIRROR_HUGE, MADV_HUGEPAGE), 0);
	mirror = mirror_begin();
	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 3));
	CHECK_FATAL(pipe2(go, O_CLOEXEC) == 0);
	child = fork();
	if (!child)
		_exit(read(go[0], &byte, 1) == 1 && mirror_words_are(bytes, MIRROR_HUGE, 3) ?
			      0 :
			      1);
	CHECK_DONE(mirror_fill(&mirror, bytes + MIB(1), PAGE, 4));
	CHECK_EQUAL(write(go[1], &byte, 1), 1);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK(mirror_words_are(bytes + MIB(1), PAGE, 4));
	CHECK(mirror_words_are(bytes, MIB(1), 3));
	close(go[0]);
	close(go[1]);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

static void write_text(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);

	if (file < 0)
		return;
	CHECK_EQUAL(write(file, text, strlen(text)) >= 0, true);
	close(file);
}

/* Leaves @text as it is where the file can't be read. */
static void read_text(const char *path, char *text, size_t size)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (file < 0)
		return;
	n = read(file, text, size - 1);
	if (n > 0)
		text[n] = '\0';
	close(file);
}

static void test_hugetlb(void)
{
	unsigned char *bytes;
	struct mirror mirror;
	int status;
	char had[16] = "0";
	pid_t child;

	/* Other tests use the machine's pool of huge pages: it stays as it was. */
	read_text("/proc/sys/vm/nr_hugepages", had, sizeof(had));
	if (atoi(had) < 4)
		write_text("/proc/sys/vm/nr_hugepages", "4");
	bytes = mmap(NULL, 2 * MIRROR_HUGE, RW, PRIVATE | MAP_HUGETLB, -1, 0);
	if (bytes == MAP_FAILED) {
		test_skip("kernel", "no huge pages are to be had");
		goto out;
	}
	mirror = mirror_begin();
	CHECK_DONE(mirror_fill(&mirror, bytes + 3 * PAGE, MIRROR_HUGE, 6));
	CHECK(mirror_words_are(bytes + 3 * PAGE, MIRROR_HUGE, 6));
	CHECK(mirror_words_are(bytes, 3 * PAGE, 0));
	child = fork();
	if (!child)
		_exit(mirror_words_are(bytes + 3 * PAGE, MIRROR_HUGE, 6) ? 0 : 1);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK_DONE(mirror_fill(&mirror, bytes, 2 * MIRROR_HUGE, 7));
	CHECK(mirror_words_are(bytes, 2 * MIRROR_HUGE, 7));
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, 2 * MIRROR_HUGE), 0);
out:
	write_text("/proc/sys/vm/nr_hugepages", had);
}

/* Memory that has no pages of the kernel's, or none that the kernel may look into. */
static void test_device(void)
{
	unsigned char *secret;
	int file;
	struct mirror mirror = mirror_begin();
	struct hetsim_buffer buffer = hetsim_buffer_make(mirror.fd, PAGE, HETSIM_PLACE_SYSTEM);

	buffer.bytes[0] = 1;
	CHECK_FAULT(mirror_read(&mirror, buffer.bytes, PAGE), HETSIM_REASON_DEVICE,
		    buffer.bytes, 0);
	CHECK_EQUAL(hetsim_bind(mirror.fd, &buffer, HETSIM_BIND_WRITE), 0);
	CHECK_DONE(mirror_fill(&mirror, buffer.bytes, PAGE, 5));
	CHECK(mirror_words_are(buffer.bytes, PAGE, 5));
	CHECK_EQUAL(hetsim_unbind(mirror.fd, &buffer), 0);
	hetsim_buffer_drop(mirror.fd, &buffer);

	file = (int)syscall(SYS_memfd_secret, 0);
	if (file >= 0) {
		CHECK_EQUAL(ftruncate(file, MIRROR_HUGE), 0);
		secret = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, file, 0);
		CHECK_FATAL(secret != MAP_FAILED);
		secret[0] = 1;
		CHECK_FAULT(mirror_read(&mirror, secret, PAGE), HETSIM_REASON_DEVICE, secret,
			    0);
		CHECK_FAULT(mirror_fill(&mirror, secret + PAGE, PAGE, 0), HETSIM_REASON_DEVICE,
			    secret + PAGE, 1);
		CHECK_EQUAL(munmap(secret, 2 * PAGE), 0);
		close(file);
	}
	mirror_close(&mirror);
}

/* Where user space is to answer page faults, the engine's are not for it. */
static void test_userfault(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	int file = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct mirror mirror;

	range.range.start = (uintptr_t)bytes;
	range.range.len = MIRROR_HUGE;
	if (file < 0 || ioctl(file, UFFDIO_API, &api)) {
		test_skip("kernel", "no userfaultfd() here");
	} else if (mirror_open(&mirror)) {
		CHECK_EQUAL(ioctl(file, UFFDIO_REGISTER, &range), 0);
		CHECK_FAULT(mirror_read(&mirror, bytes + PAGE, PAGE), HETSIM_REASON_NO_PAGE,
			    bytes + PAGE, 0);
		mirror_close(&mirror);
	}
	if (file >= 0)
		close(file);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* A child has the open file, but its parent's memory is not its to use. */
static void test_child(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct hetsim_mirror on = { .size = sizeof(on) };
	struct hetsim_prefetch prefetch = { .size = sizeof(prefetch),
					    .location = HETSIM_LOCATION_DEVICE,
					    .length = PAGE };
	struct mirror_end end;
	int status, bad;
	pid_t child;
	struct mirror mirror = mirror_begin();

	CHECK_DONE(mirror_fill(&mirror, bytes, PAGE, 1));
	prefetch.queue = mirror.queue;
	prefetch.address = (uintptr_t)bytes;
	child = fork();
	if (!child) {
		/* Its work waits for a binding, which never comes. */
		mirror.queue = hetsim_queue_make(mirror.fd, HETSIM_QUEUE_COUNTER, 100);
		end = mirror_fill(&mirror, bytes, PAGE, 2);
		bad = end.status != -EFAULT || end.reason != HETSIM_REASON_UNBOUND;
		bad |= (hetsim_call(mirror.fd, HETSIM_MIRROR, &on) != -EPERM) << 1;
		bad |= (hetsim_call(mirror.fd, HETSIM_PREFETCH, &prefetch) != -EPERM) << 2;
		bad |= (mirror_advise(&mirror, bytes, PAGE, HETSIM_ADVISE_NO_ACCESS, 1) !=
			-EPERM)
		       << 3;
		_exit(bad);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK(mirror_words_are(bytes, PAGE, 1));
	CHECK_DONE(mirror_fill(&mirror, bytes, PAGE, 3));
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

#define LONG_WORK 64

/* Starts work that takes a while, over fresh memory of this process. */
static void start_long(struct mirror *mirror, void *bytes, size_t n, uint64_t *ret_seqno)
{
	struct hetsim_command commands[LONG_WORK];
	unsigned int i;

	if (n > mirror->segment)
		n = mirror->segment;
	for (i = 0; i < LONG_WORK; i++)
		commands[i] = (struct hetsim_command){ .op = HETSIM_OP_FILL,
						       .destination = (uintptr_t)bytes,
						       .length = n,
						       .value = i };
	CHECK_EQUAL(hetsim_submit(mirror->fd, mirror->queue, commands, LONG_WORK, ret_seqno),
		    0);
}

/* The process ends, or becomes another program, while the engine is at its memory. */
static void test_exit(void)
{
	int i, status, before = hetsim_objects(), tries = 100;
	uint64_t seqno = 0;
	struct mirror mirror;
	unsigned char *bytes;
	pid_t child;

	for (i = 0; i < 6; i++) {
		child = fork();
		if (!child) {
			if (!mirror_open(&mirror))
				_exit(0);
			bytes = mirror_map(16 * MIRROR_HUGE, RW, PRIVATE, -1);
			start_long(&mirror, bytes, 16 * MIRROR_HUGE, &seqno);
			usleep((unsigned int)i * 3000);
			if (i % 3 == 0)
				_exit(0);
			if (i % 3 == 1) {
				fcntl(mirror.fd, F_SETFD, 0);
				execl("/bin/true", "true", (char *)NULL);
				_exit(1);
			}
			raise(SIGKILL);
		}
		CHECK_EQUAL(waitpid(child, &status, 0), child);
		CHECK_EQUAL(i % 3 == 2 ? WTERMSIG(status) : status,
			    i % 3 == 2 && WIFSIGNALED(status) ? SIGKILL : 0);
	}
	/* The file's end may come a moment later than the process's. */
	while (before >= 0 && hetsim_objects() != before && --tries)
		usleep(50000);
	CHECK_EQUAL(hetsim_objects(), before);
}

/* Another process has the file when the one that it mirrored ends. */
static void test_exited(void)
{
	uint64_t seqno = 0;
	struct mirror_end end;
	int files[2], status;
	unsigned char *bytes;
	pid_t child;
	struct mirror mirror = mirror_begin();

	mirror_close(&mirror);
	mirror.fd = hetsim_open(O_RDWR);
	CHECK_FATAL(mirror.fd >= 0 && pipe2(files, O_CLOEXEC) == 0);
	mirror.queue =
		hetsim_queue_make(mirror.fd, HETSIM_QUEUE_COUNTER, HETSIM_MAX_TIMEOUT_MS);
	mirror.segment = MIB(1);
	child = fork();
	if (!child) {
		struct hetsim_mirror on = { .size = sizeof(on) };

		if (hetsim_call(mirror.fd, HETSIM_MIRROR, &on))
			_exit(1);
		/* Work that begins when its process is gone. */
		hetsim_inject(mirror.fd, HETSIM_INJECT_LATENCY, mirror.queue, 500000000);
		bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
		start_long(&mirror, bytes, MIB(1), &seqno);
		_exit(write(files[1], &seqno, sizeof(seqno)) == sizeof(seqno) ? 0 : 2);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(read(files[0], &seqno, sizeof(seqno)), sizeof(seqno));
	end = mirror_end_of(&mirror, mirror.queue, seqno);
	CHECK_EQUAL(end.status, -EFAULT);
	CHECK_EQUAL(end.reason, HETSIM_REASON_EXITED);
	close(files[0]);
	close(files[1]);
	hetsim_close(mirror.fd);
}

/* Notices take translations out of the TLBs of all queues, and of no other range. */
static void test_shootdown(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct hetsim_command command = { .op = HETSIM_OP_FILL,
					  .length = 8 * PAGE,
					  .value = 1 };
	struct hetsim_counters before, after;
	struct mirror mirror;
	uint32_t other;

	CHECK_EQUAL(madvise(bytes, MIRROR_HUGE, MADV_NOHUGEPAGE), 0);
	mirror = mirror_begin();
	other = hetsim_queue_make(mirror.fd, HETSIM_QUEUE_COUNTER, 10000);
	command.destination = (uintptr_t)bytes;
	CHECK_DONE(mirror_run_on(&mirror, mirror.queue, &command));
	CHECK_DONE(mirror_run_on(&mirror, other, &command));
	before = mirror_counters(&mirror);
	/* To split the map in two would take away all of its 2 MiB, whatever the page size. */
	CHECK_EQUAL(madvise(bytes + 2 * PAGE, 2 * PAGE, MADV_DONTNEED), 0);
	after = mirror_counters(&mirror);
	CHECK_EQUAL(after.tlb_shootdowns - before.tlb_shootdowns, 4);
	CHECK_EQUAL(after.mirror_invalidations - before.mirror_invalidations, 1);
	CHECK_EQUAL(after.mirror_pages_invalidated - before.mirror_pages_invalidated, 2);
	/* The neighbours' are still there. */
	command.length = 2 * PAGE;
	CHECK_DONE(mirror_run_on(&mirror, other, &command));
	CHECK_EQUAL(mirror_counters(&mirror).tlb_misses, after.tlb_misses);
	/* A range that the device has no entry for. */
	CHECK_EQUAL(madvise(bytes + MIB(1), PAGE, MADV_DONTNEED), 0);
	CHECK_EQUAL(mirror_counters(&mirror).tlb_shootdowns, after.tlb_shootdowns);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* A device forgets the oldest chunk when it has as many as it may. */
static void test_chunks(void)
{
	const size_t n = 32768 + 64,
		     length = (n * PAGE + MIRROR_HUGE - 1) & ~(MIRROR_HUGE - 1ul);
	unsigned char *bytes = mirror_map(length, PROT_READ, PRIVATE, -1);
	uint64_t evicted;
	struct mirror mirror = mirror_begin();

	CHECK_EQUAL(mirror_advise(&mirror, bytes, length, HETSIM_ADVISE_GRANULE, PAGE), 0);
	CHECK_DONE(mirror_prefetch(&mirror, bytes, n * PAGE, HETSIM_LOCATION_DEVICE, 0));
	evicted = mirror_counters(&mirror).mirror_evictions;
	CHECK(evicted >= 64); /* more, where the kernel is short of memory */
	CHECK_EQUAL(mirror_page(&mirror, bytes).rights, 0);
	CHECK_EQUAL(mirror_page(&mirror, bytes + (n - 1) * PAGE).rights, HETSIM_PAGE_READ);
	CHECK_DONE(mirror_read(&mirror, bytes, PAGE));
	CHECK(mirror_counters(&mirror).mirror_evictions >= evicted + 2);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, length), 0);
}

/* ---- under a running engine ---- */

struct shaker {
	unsigned char *bytes;
	size_t n;
	int file;
	_Atomic bool stop;
	unsigned long rounds;
};

/* All that takes pages away, and gives them back, without an end. */
static void *shake(void *user)
{
	struct shaker *shaker = user;
	size_t part = shaker->n / 4;

	while (!shaker->stop) {
		mprotect(shaker->bytes, part, PROT_READ);
		madvise(shaker->bytes + part, part, MADV_DONTNEED);
		mprotect(shaker->bytes, part, RW);
		madvise(shaker->bytes + 2 * part, part, MADV_PAGEOUT);
		if (shaker->file >= 0) {
			if (ftruncate(shaker->file, (off_t)(3 * part)) ||
			    ftruncate(shaker->file, (off_t)shaker->n))
				break;
		}
		shaker->rounds++;
	}
	return NULL;
}

/* Each use is served or refused, none hangs, and none is of a page that is not there any more. */
static void run_shaken(int file)
{
	struct shaker shaker = { .n = 2 * MIRROR_HUGE, .file = file };
	unsigned long served = 0, refused = 0;
	double until = test_now() + 3;
	AUTO(mirror) mirror = { .fd = -1 };
	pthread_t thread;

	if (!mirror_open(&mirror))
		return;
	shaker.bytes = file < 0 ? mirror_map(shaker.n, RW, PRIVATE, -1) :
				  mirror_map(shaker.n, RW, MAP_SHARED, file);
	CHECK_FATAL(pthread_create(&thread, NULL, shake, &shaker) == 0);
	while (test_now() < until) {
		struct mirror_end end = mirror_fill(&mirror, shaker.bytes, shaker.n, 77);

		if (end.status == 0)
			served++;
		else if (end.status == -EFAULT &&
			 (end.reason == HETSIM_REASON_WRITE ||
			  (file >= 0 && end.reason == HETSIM_REASON_NO_PAGE)))
			refused++;
		else
			test_fail(__FILE__, __LINE__, "status %d, reason %u", end.status,
				  end.reason);
	}
	shaker.stop = true;
	pthread_join(thread, NULL);
	CHECK(served + refused > 2);
	CHECK(shaker.rounds > 2);
	CHECK_DONE(mirror_fill(&mirror, shaker.bytes, shaker.n, 78));
	CHECK(mirror_words_are(shaker.bytes, shaker.n, 78));
	CHECK_EQUAL(munmap(shaker.bytes, shaker.n), 0);
}

static void test_shaken(void)
{
	run_shaken(-1);
}

static void test_shaken_file(void)
{
	int file = memfd_create("shaken", MFD_CLOEXEC);

	CHECK_FATAL(file >= 0 && ftruncate(file, 2 * MIRROR_HUGE) == 0);
	run_shaken(file);
	close(file);
}

static const struct test tests[] = {
	{ "thp", test_thp, 0, 0 },
	{ "thp_fork", test_thp_fork, 0, 0 },
	{ "hugetlb", test_hugetlb, 0, 0 },
	{ "device", test_device, 0, 0 },
	{ "userfault", test_userfault, 0, 0 },
	{ "child", test_child, 0, 0 },
	{ "exit", test_exit, 0, 0 },
	{ "exited", test_exited, 0, 0 },
	{ "shootdown", test_shootdown, 0, 0 },
	{ "chunks", test_chunks, 60, TEST_ONCE },
	{ "shaken", test_shaken, 0, 0 },
	{ "shaken_file", test_shaken_file, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_mirror", sim_mirror_tests, tests)
