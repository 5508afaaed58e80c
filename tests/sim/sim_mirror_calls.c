// SPDX-License-Identifier: MIT
/*
 * The mirror of the process, be it the module's or the twin's: files, accesses that the engine is
 * refused, and the calls that advise, prefetch, query and tell.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#define RW (PROT_READ | PROT_WRITE)

/* ---- files ---- */

/* An unlinked file of that many pages, each with its number in all words. */
static int file_make(size_t n)
{
	char name[] = "/tmp/hetmap-mirror-XXXXXX";
	uint32_t words[PAGE / 4];
	int file = mkostemp(name, O_CLOEXEC);
	size_t i, j;

	CHECK_FATAL(file >= 0);
	unlink(name);
	for (i = 0; i < n; i++) {
		for (j = 0; j < PAGE / 4; j++)
			words[j] = (uint32_t)i;
		CHECK_FATAL(write(file, words, PAGE) == PAGE);
	}
	return file;
}

static uint32_t file_word(int file, size_t page)
{
	uint32_t word = 0;

	CHECK_EQUAL(pread(file, &word, sizeof(word), (off_t)(page * PAGE)), sizeof(word));
	return word;
}

static void test_file(void)
{
	int file = file_make(512);
	unsigned char *shared = mirror_map(MIRROR_HUGE, RW, MAP_SHARED, file);
	unsigned char *own = mirror_map(MIRROR_HUGE, RW, MAP_PRIVATE, file);
	unsigned char *read_only = mirror_map(MIRROR_HUGE, PROT_READ, MAP_SHARED, file);
	unsigned char *to = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct mirror mirror = mirror_begin();

	CHECK_DONE(mirror_copy(&mirror, to, read_only, MIRROR_HUGE));
	CHECK_EQUAL(((uint32_t *)to)[511 * PAGE / 4], 511);
	CHECK(memcmp(to, shared, MIRROR_HUGE) == 0);
	CHECK_FAULT(mirror_fill(&mirror, read_only, PAGE, 1), HETSIM_REASON_WRITE, read_only,
		    1);

	/* Into the file by the shared map, and into nothing but memory by the private one. */
	CHECK_DONE(mirror_fill(&mirror, shared, 2 * PAGE, 1000));
	CHECK_EQUAL(file_word(file, 0), 1000);
	CHECK(mirror_words_are(read_only, 2 * PAGE, 1000));
	CHECK_DONE(mirror_fill(&mirror, own + PAGE, 2 * PAGE, 2000));
	CHECK_EQUAL(file_word(file, 1), 1000);
	CHECK_EQUAL(file_word(file, 2), 2);
	CHECK(mirror_words_are(own + PAGE, 2 * PAGE, 2000));
	CHECK(mirror_words_are(own, PAGE, 1000));

	/* Writing back makes pages clean: the engine's later stores must not be forgotten. */
	CHECK_EQUAL(msync(shared, MIRROR_HUGE, MS_SYNC), 0);
	CHECK_DONE(mirror_fill(&mirror, shared, PAGE, 3000));
	CHECK_EQUAL(msync(shared, MIRROR_HUGE, MS_SYNC), 0);
	CHECK_EQUAL(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
	CHECK_EQUAL(file_word(file, 0), 3000);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(shared, MIRROR_HUGE), 0);
	CHECK_EQUAL(munmap(own, MIRROR_HUGE), 0);
	CHECK_EQUAL(munmap(read_only, MIRROR_HUGE), 0);
	CHECK_EQUAL(munmap(to, MIRROR_HUGE), 0);
	close(file);
}

/* Cut where the engine has entries already, then made long again. */
static void test_cut(void)
{
	int file = file_make(512);
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, MAP_SHARED, file);
	struct mirror mirror = mirror_begin();

	CHECK_DONE(mirror_read(&mirror, bytes, MIRROR_HUGE));
	CHECK_EQUAL(ftruncate(file, 10 * PAGE + 100), 0);
	CHECK_DONE(mirror_read(&mirror, bytes, 11 * PAGE));
	CHECK_FAULT(mirror_read(&mirror, bytes, MIRROR_HUGE), HETSIM_REASON_NO_PAGE,
		    bytes + 11 * PAGE, 0);
	CHECK_FAULT(mirror_fill(&mirror, bytes + 20 * PAGE, PAGE, 1), HETSIM_REASON_NO_PAGE,
		    bytes + 20 * PAGE, 1);
	CHECK_EQUAL(ftruncate(file, MIRROR_HUGE), 0);
	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 5));
	CHECK_EQUAL(file_word(file, 511), 5);
	CHECK_EQUAL(
		fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, MIB(1), MIB(1)) ?
			errno == EOPNOTSUPP :
			mirror_copy(&mirror, mirror.result, bytes + MIB(1), PAGE).status == 0 &&
				mirror_words_are(mirror.result, PAGE, 0),
		true);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
	close(file);
}

/* ---- refusals ---- */

static void test_bad(void)
{
	static const uint64_t places[] = {
		0,
		PAGE,
		0x7ffffffff000ull, /* the last page that a process can have */
		0x800000000000ull, /* the first address that is none */
		0xfffffffff000ull, /* the last one that the device can name */
		1ull << 63,
		0xffff888000000000ull, /* the kernel's */
		0xffffffffff600000ull, /* vsyscall */
		UINT64_MAX - 2 * PAGE + 1,
	};
	struct hetsim_command command = { .op = HETSIM_OP_FILL, .length = PAGE, .value = 1 };
	struct mirror_end end;
	uint64_t seqno;
	size_t i;
	AUTO(mirror) mirror = mirror_begin();

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		command = (struct hetsim_command){ .op = HETSIM_OP_FILL,
						   .destination = places[i],
						   .length = PAGE };
		end = mirror_run_on(&mirror, mirror.queue, &command);
		CHECK_FAULT(end, HETSIM_REASON_UNMAPPED, places[i], 1);
		command = (struct hetsim_command){ .op = HETSIM_OP_COPY,
						   .destination = (uintptr_t)mirror.result,
						   .source = places[i],
						   .length = PAGE };
		end = mirror_run_on(&mirror, mirror.queue, &command);
		CHECK_FAULT(end, HETSIM_REASON_UNMAPPED, places[i], 0);
	}
	/* The end address of the last page of all wraps to 0. */
	command = (struct hetsim_command){ .op = HETSIM_OP_FILL,
					   .destination = UINT64_MAX - PAGE + 1,
					   .length = 640 };
	end = mirror_run_on(&mirror, mirror.queue, &command);
	CHECK_FAULT(end, HETSIM_REASON_UNMAPPED, command.destination, 1);
	/* The call itself takes no range that wraps. */
	command = (struct hetsim_command){ .op = HETSIM_OP_COPY,
					   .destination = (uintptr_t)mirror.result,
					   .length = PAGE };
	command.source = UINT64_MAX - 63;
	command.length = 128;
	CHECK_EQUAL(hetsim_submit(mirror.fd, mirror.queue, &command, 1, &seqno), -EOVERFLOW);
}

/* Ranges that no call takes, and ranges that are legal and reach over nothing. */
static void test_bad_ranges(void)
{
	static const struct {
		uint64_t address, length;
		int error;
	} ranges[] = {
		{ 0, 0, -EINVAL },
		{ 1, PAGE, -EINVAL },
		{ PAGE, PAGE + 1, -EINVAL },
		{ 0, 1ull << 63, -ERANGE },
		{ 1ull << 63, 1ull << 63, -EOVERFLOW },
		{ UINT64_MAX - PAGE + 1, PAGE, -EOVERFLOW },
		{ UINT64_MAX - PAGE + 1, 2 * PAGE, -EOVERFLOW },
		{ 1ull << 48, PAGE, -ERANGE },
		{ 0xffff888000000000ull, PAGE, -ERANGE },
	};
	struct hetsim_page page;
	size_t i;
	AUTO(mirror) mirror = mirror_begin();

	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		CHECK_EQUAL(hetsim_call(mirror.fd, HETSIM_ADVISE,
					SIZED(hetsim_advise, .advice = HETSIM_ADVISE_NO_ACCESS,
					      .address = ranges[i].address,
					      .length = ranges[i].length, .value = 1)),
			    ranges[i].error);
		CHECK_EQUAL(hetsim_call(mirror.fd, HETSIM_PREFETCH,
					SIZED(hetsim_prefetch, .queue = mirror.queue,
					      .location = HETSIM_LOCATION_DEVICE,
					      .address = ranges[i].address,
					      .length = ranges[i].length)),
			    ranges[i].error);
		CHECK_EQUAL(hetsim_call(mirror.fd, HETSIM_RANGE_QUERY,
					SIZED(hetsim_range_query, .address = ranges[i].address,
					      .length = ranges[i].length,
					      .pages = (uintptr_t)&page)),
			    ranges[i].error);
	}
	/* All that there can be, mapped or not. */
	CHECK_EQUAL(mirror_advise(&mirror, NULL, 1ull << 47, HETSIM_ADVISE_READ_MOSTLY, 1), 0);
	CHECK_DONE(mirror_read(&mirror, mirror.result, PAGE));
	CHECK_EQUAL(mirror_advise(&mirror, mirror.result, PAGE, HETSIM_ADVISE_GRANULE, 8192),
		    -EINVAL);
	CHECK_EQUAL(mirror_advise(&mirror, mirror.result, PAGE, HETSIM_ADVISE_NO_ACCESS, 2),
		    -EINVAL);
}

/* The process may not store through the pointer that the answer goes to. */
static void test_bad_answers(void)
{
	static const uint64_t places[] = { 0, 8, 1ull << 47, 1ull << 63, UINT64_MAX - 7 };
	struct hetsim_range_query query = { .size = sizeof(query), .length = PAGE };
	size_t i;
	AUTO(mirror) mirror = mirror_begin();

	query.address = (uintptr_t)mirror.result;
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		query.pages = places[i];
		CHECK_EQUAL(hetsim_call(mirror.fd, HETSIM_RANGE_QUERY, &query), -EFAULT);
	}
	/* A query of the whole address space fails before it looks at each page. */
	query.address = 0;
	query.length = 1ull << 47;
	CHECK_EQUAL(hetsim_call(mirror.fd, HETSIM_RANGE_QUERY, &query), -EFAULT);
}

/* The mirror is not for queues whose work may stand behind a dma_fence. */
static void test_fenced_queue(void)
{
	struct hetsim_command command = { .op = HETSIM_OP_FILL, .length = 64, .value = 1 };
	struct hetsim_fence_fd fence = { .size = sizeof(fence), .seqno = 1 };
	struct hetsim_prefetch prefetch = { .size = sizeof(prefetch),
					    .location = HETSIM_LOCATION_DEVICE,
					    .length = PAGE };
	AUTO(mirror) mirror = mirror_begin();

	/* An entry that is there already changes nothing. */
	CHECK_DONE(mirror_fill(&mirror, mirror.result, PAGE, 7));
	prefetch.queue = hetsim_queue_make(mirror.fd, HETSIM_QUEUE_DMA_FENCE, 0);
	command.destination = prefetch.address = (uintptr_t)mirror.result;
	CHECK_FAULT(mirror_run_on(&mirror, prefetch.queue, &command), HETSIM_REASON_UNBOUND,
		    mirror.result, 1);
	CHECK(mirror_words_are(mirror.result, PAGE, 7));
	CHECK_EQUAL(hetsim_call(mirror.fd, HETSIM_PREFETCH, &prefetch), -EOPNOTSUPP);
	fence.queue = mirror.queue;
	CHECK_EQUAL(hetsim_call(mirror.fd, HETSIM_FENCE_FD, &fence), -EOPNOTSUPP);
}

/* Without MIRROR there is none, and then only for a file that is open for writing. */
static void test_off(void)
{
	struct hetsim_command command = { .op = HETSIM_OP_FILL, .length = 64, .value = 1 };
	struct hetsim_mirror on = { .size = sizeof(on) };
	struct hetsim_mirror_events events = { .size = sizeof(events) };
	AUTO(mirror) mirror = mirror_begin();
	struct mirror off = mirror;

	off.fd = hetsim_open(O_RDONLY);
	CHECK_FATAL(off.fd >= 0);
	CHECK_EQUAL(hetsim_call(off.fd, HETSIM_MIRROR, &on), -EACCES);
	CHECK_EQUAL(mirror_advise(&off, mirror.result, PAGE, HETSIM_ADVISE_NO_ACCESS, 1),
		    -ENOENT);
	CHECK_EQUAL(hetsim_call(off.fd, HETSIM_MIRROR_EVENTS, &events), -ENOENT);
	hetsim_close(off.fd);
	off.fd = hetsim_open(O_RDWR);
	CHECK_FATAL(off.fd >= 0);
	off.queue = hetsim_queue_make(off.fd, HETSIM_QUEUE_COUNTER, 100);
	command.destination = (uintptr_t)mirror.result;
	CHECK_FAULT(mirror_run_on(&off, off.queue, &command), HETSIM_REASON_UNBOUND,
		    mirror.result, 1);
	CHECK_EQUAL(hetsim_call(off.fd, HETSIM_MIRROR, &on), 0);
	CHECK_EQUAL(hetsim_call(off.fd, HETSIM_MIRROR, &on), 0);
	CHECK_DONE(mirror_run_on(&off, off.queue, &command));
	hetsim_close(off.fd);
}

/* ---- advice ---- */

static void test_no_access(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct mirror mirror = mirror_begin();

	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 1));
	CHECK_EQUAL(mirror_advise(&mirror, bytes + 7 * PAGE, 2 * PAGE, HETSIM_ADVISE_NO_ACCESS,
				  1),
		    0);
	CHECK_EQUAL(mirror_page(&mirror, bytes + 7 * PAGE).rights, 0);
	CHECK_FAULT(mirror_fill(&mirror, bytes, MIRROR_HUGE, 2), HETSIM_REASON_NO_ACCESS,
		    bytes + 7 * PAGE, 1);
	CHECK(mirror_words_are(bytes, 7 * PAGE, 2));
	CHECK(mirror_words_are(bytes + 7 * PAGE, MIRROR_HUGE - 7 * PAGE, 1));
	CHECK_DONE(mirror_fill(&mirror, bytes + 9 * PAGE, MIRROR_HUGE - 9 * PAGE, 3));
	CHECK_EQUAL(mirror_page(&mirror, bytes + 8 * PAGE).rights, 0);
	/* Its end, and that of a part. */
	CHECK_EQUAL(mirror_advise(&mirror, bytes + 8 * PAGE, PAGE, HETSIM_ADVISE_NO_ACCESS, 0),
		    0);
	CHECK_DONE(mirror_fill(&mirror, bytes + 8 * PAGE, PAGE, 4));
	CHECK_FAULT(mirror_read(&mirror, bytes + 7 * PAGE, PAGE), HETSIM_REASON_NO_ACCESS,
		    bytes + 7 * PAGE, 0);
	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIRROR_HUGE, HETSIM_ADVISE_NO_ACCESS, 0), 0);
	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 5));
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

static void test_granule(void)
{
	static const unsigned int orders[] = { 0, 4, 9 };
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct mirror mirror;
	size_t i;

	memset(bytes, 1, MIRROR_HUGE);
	mirror = mirror_begin();
	for (i = 0; i < 3; i++) {
		CHECK_EQUAL(mirror_advise(&mirror, bytes, MIRROR_HUGE, HETSIM_ADVISE_GRANULE,
					  (uint64_t)PAGE << orders[i]),
			    0);
		CHECK_DONE(mirror_read(&mirror, bytes + 3 * PAGE, PAGE));
		CHECK_EQUAL(mirror_page(&mirror, bytes + 3 * PAGE).chunk_order, orders[i]);
		CHECK_EQUAL(mirror_page(&mirror, bytes + 4 * PAGE).rights,
			    orders[i] ? HETSIM_PAGE_READ : 0);
		CHECK_EQUAL(mirror_page(&mirror, bytes + 17 * PAGE).rights,
			    orders[i] == 9 ? HETSIM_PAGE_READ : 0);
	}
	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIRROR_HUGE, HETSIM_ADVISE_GRANULE, 0), 0);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* Less faults, the same bytes. */
static void test_advice(void)
{
	unsigned char *bytes = mirror_map(2 * MIRROR_HUGE, RW, PRIVATE, -1);
	uint64_t faults;
	struct mirror mirror;

	memset(bytes, 3, 2 * MIRROR_HUGE);
	mirror = mirror_begin();
	CHECK_EQUAL(mirror_advise(&mirror, bytes, 2 * MIRROR_HUGE, HETSIM_ADVISE_ACCESSED_BY,
				  1),
		    0);
	CHECK(mirror_page(&mirror, bytes + MIRROR_HUGE + PAGE).rights & HETSIM_PAGE_READ);
	CHECK_EQUAL(mirror_page(&mirror, bytes + MIRROR_HUGE + PAGE).why, HETSIM_WHY_ADVICE);
	faults = mirror_counters(&mirror).mirror_faults;
	CHECK_DONE(mirror_copy(&mirror, bytes, bytes + MIRROR_HUGE, MIRROR_HUGE));
	CHECK_EQUAL(mirror_counters(&mirror).mirror_faults, faults);

	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIRROR_HUGE, HETSIM_ADVISE_ACCESSED_BY, 0),
		    0);
	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIRROR_HUGE, HETSIM_ADVISE_READ_MOSTLY, 1),
		    0);
	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIRROR_HUGE, HETSIM_ADVISE_LOCATION,
				  HETSIM_LOCATION_HOST),
		    0);
	CHECK_EQUAL(madvise(bytes, MIRROR_HUGE, MADV_DONTNEED), 0);
	CHECK_DONE(mirror_read(&mirror, bytes, PAGE));
	CHECK_EQUAL(mirror_page(&mirror, bytes + 511 * PAGE).rights, HETSIM_PAGE_READ);
	faults = mirror_counters(&mirror).mirror_faults;
	CHECK_DONE(mirror_read(&mirror, bytes, MIRROR_HUGE));
	/* The one that is left writes the result. */
	CHECK_EQUAL(mirror_counters(&mirror).mirror_faults, faults);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, 2 * MIRROR_HUGE), 0);
}

/* Advice about each other page falls into as many ranges, up to a limit; then nothing changes. */
static void test_advice_limit(void)
{
	unsigned char *at = (unsigned char *)(uintptr_t)(1ull << 40);
	unsigned int n = 0;
	int r;
	AUTO(mirror) mirror = mirror_begin();

	do {
		r = mirror_advise(&mirror, at + 2ull * n * PAGE, PAGE, HETSIM_ADVISE_NO_ACCESS,
				  1);
		n += !r;
	} while (!r && n < 100000);
	CHECK_EQUAL(r, -ENOSPC);
	CHECK_EQUAL(n, 4096);
	CHECK_EQUAL(mirror_advise(&mirror, at, 3 * PAGE, HETSIM_ADVISE_GRANULE, PAGE), -ENOSPC);
	CHECK_EQUAL(mirror_advise(&mirror, at, 2ull * n * PAGE, HETSIM_ADVISE_NO_ACCESS, 1), 0);
	CHECK_EQUAL(mirror_advise(&mirror, at, 2ull * n * PAGE, HETSIM_ADVISE_NO_ACCESS, 0), 0);
}

/* ---- prefetch ---- */

static void test_prefetch(void)
{
	unsigned char *bytes = mirror_map(2 * MIRROR_HUGE, RW, PRIVATE, -1);
	struct hetsim_counters before, after;
	struct mirror mirror = mirror_begin();

	CHECK_EQUAL(madvise(bytes, 2 * MIRROR_HUGE, MADV_NOHUGEPAGE), 0);
	CHECK_DONE(mirror_prefetch(&mirror, bytes, 2 * MIRROR_HUGE, HETSIM_LOCATION_DEVICE,
				   HETSIM_PREFETCH_WRITE));
	before = mirror_counters(&mirror);
	CHECK_EQUAL(before.prefetches, 1);
	CHECK_EQUAL(mirror_page(&mirror, bytes + 5 * PAGE).why, HETSIM_WHY_PREFETCH);
	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 9));
	after = mirror_counters(&mirror);
	CHECK_EQUAL(after.mirror_faults, before.mirror_faults);
	CHECK_EQUAL(after.prefetch_used - before.prefetch_used, 512);
	CHECK_EQUAL(mirror_page(&mirror, bytes + 5 * PAGE).why, HETSIM_WHY_FAULT);
	CHECK_EQUAL(munmap(bytes + MIRROR_HUGE, MIRROR_HUGE), 0);
	CHECK_EQUAL(mirror_page(&mirror, bytes + MIRROR_HUGE).rights, 0);
	CHECK_EQUAL(mirror_counters(&mirror).prefetch_wasted, 512);

	/* As work, it does the pages before the hole, and ends there. */
	CHECK_FAULT(mirror_prefetch(&mirror, bytes, 2 * MIRROR_HUGE, HETSIM_LOCATION_DEVICE, 0),
		    HETSIM_REASON_UNMAPPED, bytes + MIRROR_HUGE, 0);
	CHECK_DONE(mirror_prefetch(&mirror, bytes, MIRROR_HUGE, HETSIM_LOCATION_HOST, 0));
	CHECK(mirror_words_are(bytes, MIRROR_HUGE, 9));
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, 2 * MIRROR_HUGE), 0);
}

/* ---- events ---- */

static int events_open(const struct mirror *mirror)
{
	struct hetsim_mirror_events ask = { .size = sizeof(ask) };
	int r = hetsim_call(mirror->fd, HETSIM_MIRROR_EVENTS, &ask);

	if (!r)
		CHECK_EQUAL(fcntl(ask.fd, F_SETFL, O_NONBLOCK), 0);
	return r ? r : ask.fd;
}

/* The next event of that kind. */
static struct hetsim_event event_next(int stream, uint32_t kind)
{
	struct hetsim_event event = { 0 };
	struct pollfd ready = { .fd = stream, .events = POLLIN };

	do {
		CHECK_FATAL(poll(&ready, 1, 10000) == 1);
		CHECK_FATAL(read(stream, &event, sizeof(event)) == sizeof(event));
	} while (event.kind != kind);
	return event;
}

static void test_events(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct hetsim_event event, some[8];
	uint64_t at = (uintptr_t)bytes;
	struct mirror mirror = mirror_begin();
	int stream = events_open(&mirror);

	CHECK_FATAL(stream >= 0);
	CHECK_EQUAL(events_open(&mirror), -EBUSY);
	CHECK_EQUAL(read(stream, &event, sizeof(event)), -1);
	CHECK_EQUAL(errno, EAGAIN);
	/* The twin's is a pipe, which knows no units. */
	if (!hetsim_soft_has(mirror.fd)) {
		CHECK_EQUAL(read(stream, &event, sizeof(event) - 1), -1);
		CHECK_EQUAL(errno, EINVAL);
	}

	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 1));
	event = event_next(stream, HETSIM_EVENT_FAULT);
	CHECK(event.address == at && event.write == 1 && event.queue == mirror.queue);
	CHECK(event.length && event.ns && event.duration_ns);
	CHECK_EQUAL(munmap(bytes + MIB(1), MIB(1)), 0);
	CHECK_EQUAL(mirror_page(&mirror, bytes + MIB(1)).rights, 0);
	event = event_next(stream, HETSIM_EVENT_INVALIDATE);
	CHECK(event.address <= at + MIB(1) && event.address + event.length >= at + MIRROR_HUGE);
	CHECK_FAULT(mirror_fill(&mirror, bytes + MIB(1), PAGE, 1), HETSIM_REASON_UNMAPPED,
		    bytes + MIB(1), 1);
	event = event_next(stream, HETSIM_EVENT_FAULT_REFUSED);
	CHECK(event.address == at + MIB(1) && event.value == HETSIM_REASON_UNMAPPED);
	CHECK_DONE(mirror_prefetch(&mirror, bytes, MIB(1), HETSIM_LOCATION_DEVICE, 0));
	event = event_next(stream, HETSIM_EVENT_PREFETCH);
	CHECK(event.address == at && event.length == MIB(1) && event.value == 0);

	hetsim_close(mirror.fd);
	while (read(stream, some, sizeof(some)) > 0)
		;
	CHECK_EQUAL(read(stream, some, sizeof(some)), 0);
	close(stream);
	CHECK_EQUAL(munmap(mirror.result, PAGE), 0);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* Reads the events that there are. */
static void events_count(int stream, uint64_t *n, uint64_t *lost)
{
	struct hetsim_event event;

	while (read(stream, &event, sizeof(event)) == sizeof(event)) {
		if (event.kind == HETSIM_EVENT_LOST)
			*lost += event.value;
		else
			*n += 1;
	}
}

/* The twin keeps the first events, and reports the lost ones before the next one. */
static void lost_by_twin(const struct mirror *mirror, int stream)
{
	const uint64_t told = 8000;
	uint64_t n = 0, lost = 0, i;

	for (i = 0; i < told; i++)
		CHECK_FAULT(mirror_fill(mirror, (void *)64, 64, 1), HETSIM_REASON_UNMAPPED, 64,
			    1);
	events_count(stream, &n, &lost);
	CHECK(n >= 1000 && n < told);
	CHECK_EQUAL(lost, 0);
	CHECK_FAULT(mirror_fill(mirror, (void *)64, 64, 1), HETSIM_REASON_UNMAPPED, 64, 1);
	events_count(stream, &n, &lost);
	CHECK_EQUAL(n + lost, told + 1);
}

/* A reader that is too slow is told how much it missed: no event is lost silently. */
static void test_events_lost(void)
{
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);
	struct hetsim_event event;
	uint64_t n = 0, lost = 0, used = 0;
	struct mirror mirror;
	int stream, i;

	CHECK_EQUAL(madvise(bytes, MIRROR_HUGE, MADV_NOHUGEPAGE), 0);
	mirror = mirror_begin();
	stream = events_open(&mirror);
	CHECK_FATAL(stream >= 0);
	if (hetsim_soft_has(mirror.fd)) {
		lost_by_twin(&mirror, stream);
		goto again;
	}
	for (i = 0; i < 10; i++) {
		CHECK_DONE(mirror_prefetch(&mirror, bytes, MIRROR_HUGE, HETSIM_LOCATION_DEVICE,
					   HETSIM_PREFETCH_WRITE));
		/* An event for each page. */
		CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 1));
		CHECK_EQUAL(madvise(bytes, MIRROR_HUGE, MADV_DONTNEED), 0);
		CHECK_EQUAL(mirror_page(&mirror, bytes).rights, 0);
	}
	while (read(stream, &event, sizeof(event)) == sizeof(event)) {
		lost += event.kind == HETSIM_EVENT_LOST ? event.value : 0;
		n += event.kind != HETSIM_EVENT_LOST;
		used += event.kind == HETSIM_EVENT_PREFETCH_USED ? event.length / PAGE : 0;
	}
	CHECK_EQUAL(n, 4096);
	CHECK(n + lost >= 10 * (512 + 2));
	CHECK_EQUAL(mirror_counters(&mirror).prefetch_used, 5120);
	CHECK(used > 3000 && used < 5120);
again:
	close(stream);
	stream = events_open(&mirror);
	CHECK_FATAL(stream >= 0);
	close(stream);
	mirror_close(&mirror);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

const struct test sim_mirror_calls_tests[] = {
	{ "of_file", test_file, 0, 0 },
	{ "cut", test_cut, 0, 0 },
	{ "bad", test_bad, 0, 0 },
	{ "bad_ranges", test_bad_ranges, 0, 0 },
	{ "bad_answers", test_bad_answers, 0, 0 },
	{ "fenced_queue", test_fenced_queue, 0, 0 },
	{ "off", test_off, 0, 0 },
	{ "no_access", test_no_access, 0, 0 },
	{ "granule", test_granule, 0, 0 },
	{ "advice", test_advice, 0, 0 },
	{ "advice_limit", test_advice_limit, 0, 0 },
	{ "prefetch", test_prefetch, 0, 0 },
	{ "events", test_events, 0, 0 },
	{ "events_lost", test_events_lost, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
