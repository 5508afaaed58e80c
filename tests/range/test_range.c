// SPDX-License-Identifier: MIT
/*
 * Ranges on the engine of a simulated device: advice, prefetch, states of pages, events and
 * counters. One list for the twin and the module, which differ by capabilities.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "range/range_support.h"

#define LENGTH (64 * PAGE) /* 256 KiB */
#define CHUNK (2ull << 20)

static void query(struct any_rig *rig, const void *at, uint64_t n, struct hm_range_page *pages)
{
	uint64_t found = 0;

	CHECK_OK_FATAL(hm_range_query(at, n * PAGE, rig->engine.accel, pages, n, &found));
	CHECK_EQUAL(found, n);
}

/* Pages of the range with an entry that allows @access. */
static uint64_t n_entries(struct any_rig *rig, const void *at, uint64_t n, uint32_t access)
{
	AUTO_FREE struct hm_range_page *pages = calloc(n, sizeof(*pages));
	uint64_t i, there = 0;

	CHECK_FATAL(pages);
	query(rig, at, n, pages);
	for (i = 0; i < n; i++)
		there += (pages[i].device_access & access) == access;
	return there;
}

/* ---- prefetch ---- */

static void prefetched(void)
{
	struct hm_range_counts before, after;
	struct hm_fence *fence = NULL;
	struct hm_range_page page;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	memset(bytes, 1, LENGTH);
	CHECK_EQUAL(n_entries(&rig, bytes, 64, HM_READ), 0);
	CHECK_OK_FATAL(
		hm_range_prefetch(bytes, LENGTH, rig.engine.accel, HM_READ | HM_WRITE, &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	hm_fence_unref(fence);
	CHECK_EQUAL(n_entries(&rig, bytes, 64, HM_READ | HM_WRITE), 64);
	query(&rig, bytes, 1, &page);
	CHECK_EQUAL(page.why, HM_RANGE_BY_PREFETCH);
	CHECK_EQUAL(page.access, HM_READ | HM_WRITE);
	CHECK(page.place == HM_RANGE_HOST || page.place == HM_RANGE_DEVICE);
	/* The launch meets no device fault. */
	before = any_counts(&rig);
	CHECK_OK_FATAL(any_fill(&rig, bytes, LENGTH, 2));
	after = any_counts(&rig);
	CHECK_EQUAL(after.faults, before.faults);
	CHECK_EQUAL(after.used - before.used, 64);
	CHECK_EQUAL(after.wasted, before.wasted);
	query(&rig, bytes, 1, &page);
	CHECK_EQUAL(page.why, HM_RANGE_BY_FAULT);
	munmap(bytes, LENGTH);
}

/* Without one, the same launch has faults. */
static void not_prefetched(void)
{
	struct hm_range_counts before, after;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	CHECK_OK(hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_GRANULE, PAGE));
	before = any_counts(&rig);
	CHECK_OK_FATAL(any_fill(&rig, bytes, LENGTH, 2));
	after = any_counts(&rig);
	CHECK(after.faults > before.faults);
	CHECK(after.fault_pages - before.fault_pages >= 64);
	munmap(bytes, LENGTH);
}

static void prefetch_refused(void)
{
	struct hm_fence *fence = NULL;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	munmap(bytes + 10 * PAGE, PAGE);
	mprotect(bytes + 20 * PAGE, PAGE, PROT_READ);
	CHECK_OK_FATAL(hm_range_prefetch(bytes, LENGTH, rig.engine.accel, HM_READ, &fence));
	CHECK_ERROR(-EFAULT, hm_fence_wait(fence, UINT64_MAX));
	CHECK(any_told(bytes + 10 * PAGE, "nothing mapped"));
	hm_fence_unref(fence);
	CHECK_ERROR(-EFAULT, hm_range_prefetch(bytes + 12 * PAGE, 20 * PAGE, rig.engine.accel,
					       HM_READ | HM_WRITE, NULL));
	CHECK(any_told(bytes + 20 * PAGE, "may not write"));
	CHECK_OK(hm_range_prefetch(bytes + 12 * PAGE, 20 * PAGE, rig.engine.accel, HM_READ,
				   NULL));
	CHECK_ERROR(-EINVAL, hm_range_prefetch((void *)0xffff800000000000, PAGE,
					       rig.engine.accel, HM_READ, NULL));
	CHECK_ERROR(-EINVAL, hm_range_prefetch(bytes, 0, rig.engine.accel, HM_READ, NULL));
	CHECK_ERROR(-EINVAL,
		    hm_range_prefetch(bytes, UINT64_MAX, rig.engine.accel, HM_READ, NULL));
	CHECK_ERROR(-EINVAL, hm_range_prefetch(bytes, PAGE, rig.engine.accel, HM_WRITE, NULL));
	munmap(bytes, LENGTH);
}

/* A fence that is dropped, one that is polled, and many at a time. */
static void many_fences(void)
{
	struct hm_fence *fence[16] = { NULL };
	struct pollfd file = { .events = POLLIN };
	unsigned int i;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(16 * LENGTH, PROT_READ | PROT_WRITE);

	/* Huge pages would come in the middle of it, and take entries away again. */
	madvise(bytes, 16 * LENGTH, MADV_NOHUGEPAGE);
	for (i = 0; i < 16; i++)
		CHECK_OK_FATAL(hm_range_prefetch(bytes + i * LENGTH, LENGTH, rig.engine.accel,
						 HM_READ | HM_WRITE, &fence[i]));
	hm_fence_unref(fence[0]);
	CHECK_OK_FATAL(hm_fence_fd(fence[1], &file.fd));
	CHECK_EQUAL(poll(&file, 1, 20000), 1);
	close(file.fd);
	for (i = 1; i < 16; i++) {
		CHECK_OK(hm_fence_wait(fence[i], UINT64_MAX));
		CHECK_OK(hm_fence_wait(fence[i], 0));
		hm_fence_unref(fence[i]);
	}
	CHECK_EQUAL(n_entries(&rig, bytes + LENGTH, 15 * 64, HM_READ), 15 * 64);
	/* The one without a fence ends by itself. */
	for (i = 0; i < 5000 && n_entries(&rig, bytes, 64, HM_READ) < 64; i++)
		usleep(1000);
	CHECK(i < 5000);
	usleep(100000);
	munmap(bytes, 16 * LENGTH);
}

/* ---- advice ---- */

static void granule(void)
{
	static const struct {
		uint64_t bytes;
		uint8_t order;
	} sizes[] = { { 4096, 0 }, { 65536, 4 }, { 2097152, 9 } };
	struct hm_range_page page;
	unsigned int i;
	char *bytes, *at;
	uint32_t crc;
	AUTO(any_rig) rig = any_open();

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		bytes = any_pages(4 * CHUNK, PROT_READ | PROT_WRITE);
		at = (char *)round_up((uintptr_t)bytes, CHUNK);
		CHECK_OK(hm_range_advise(at, CHUNK, rig.engine.accel, HM_RANGE_GRANULE,
					 sizes[i].bytes));
		memset(at, 1, CHUNK);
		CHECK_OK_FATAL(any_crc(&rig, at + PAGE, PAGE, &crc));
		query(&rig, at + PAGE, 1, &page);
		CHECK_EQUAL(page.order, sizes[i].order);
		/* Entries for all pages of the chunk that are there. */
		CHECK_EQUAL(n_entries(&rig, at, 512, HM_READ), sizes[i].bytes / PAGE);
		CHECK_OK(hm_range_advise(at, CHUNK, rig.engine.accel, HM_RANGE_NORMAL, 0));
		munmap(bytes, 4 * CHUNK);
	}
	bytes = any_pages(PAGE, PROT_READ);
	CHECK_ERROR(-EINVAL,
		    hm_range_advise(bytes, PAGE, rig.engine.accel, HM_RANGE_GRANULE, 0));
	CHECK_ERROR(-EINVAL,
		    hm_range_advise(bytes, PAGE, rig.engine.accel, HM_RANGE_GRANULE, 8192));
	CHECK_ERROR(-EINVAL,
		    hm_range_advise(bytes, PAGE, rig.engine.accel, HM_RANGE_GRANULE, 4097));
	munmap(bytes, PAGE);
}

static void no_access(void)
{
	uint32_t crc;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	CHECK_OK_FATAL(any_fill(&rig, bytes, LENGTH, 1));
	CHECK_OK(hm_range_advise(bytes + 3 * PAGE, PAGE, rig.engine.accel, HM_RANGE_NO_ACCESS,
				 0));
	CHECK_ERROR(-EFAULT, any_crc(&rig, bytes, LENGTH, &crc));
	CHECK(any_told(bytes + 3 * PAGE, "HM_RANGE_NO_ACCESS"));
	CHECK_ERROR(-EFAULT, hm_range_prefetch(bytes, LENGTH, rig.engine.accel, HM_READ, NULL));
	/* The CPU may. */
	bytes[3 * PAGE] = 7;
	CHECK_OK(any_crc(&rig, bytes + 4 * PAGE, PAGE, &crc));
	CHECK_EQUAL(n_entries(&rig, bytes + 3 * PAGE, 1, HM_READ), 0);
	CHECK_OK(hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_NORMAL, 0));
	CHECK_OK(any_crc(&rig, bytes, LENGTH, &crc));
	munmap(bytes, LENGTH);
}

static void accessed_by(void)
{
	struct hm_range_counts before, after;
	struct hm_range_page page;
	uint32_t crc;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	/* The result has its entry. */
	CHECK_OK_FATAL(any_crc(&rig, bytes + LENGTH - PAGE, PAGE, &crc));
	memset(bytes, 1, LENGTH / 2);
	CHECK_OK(hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_ACCESSED_BY, 0));
	/* Those that are there; the rest comes by faults. */
	CHECK_EQUAL(n_entries(&rig, bytes, 32, HM_READ), 32);
	query(&rig, bytes, 1, &page);
	CHECK_EQUAL(page.why, HM_RANGE_BY_ADVICE);
	before = any_counts(&rig);
	CHECK_OK_FATAL(any_crc(&rig, bytes, LENGTH / 2, &crc));
	after = any_counts(&rig);
	CHECK_EQUAL(after.faults, before.faults);
	munmap(bytes, LENGTH);
}

static void wishes(void)
{
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	CHECK_OK(hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_PREFER_DEVICE, 0));
	/* Told where it can't be. */
	CHECK(!!*hm_warning() == !(rig.info.caps & HM_ACCEL_MIGRATE) ||
	      rig.info.caps & HM_ACCEL_TOLD);
	CHECK_OK(hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_READ_MOSTLY, 0));
	CHECK_OK_FATAL(any_fill(&rig, bytes, LENGTH, 0x01010101));
	CHECK(bytes[LENGTH - 1] == 1);
	CHECK_OK(hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_PREFER_HOST, 0));
	CHECK_OK(hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_NORMAL, 0));
	CHECK_ERROR(-EINVAL, hm_range_advise(bytes, LENGTH, rig.engine.accel, 99, 0));
	CHECK_ERROR(-EINVAL,
		    hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_NO_ACCESS, 1));
	CHECK_ERROR(-EINVAL, hm_range_advise(bytes, 0, rig.engine.accel, HM_RANGE_NORMAL, 0));
	CHECK_ERROR(-EINVAL,
		    hm_range_advise(bytes, UINT64_MAX, rig.engine.accel, HM_RANGE_NORMAL, 0));
	CHECK_ERROR(-EINVAL, hm_range_advise((void *)0xffff800000000000, PAGE, rig.engine.accel,
					     HM_RANGE_NORMAL, 0));
	munmap(bytes, LENGTH);
}

/* Pages move to the device's memory and back, where they can: each way is told, and counted. */
static void moved(void)
{
	struct hm_range_counts before, after;
	struct hm_range_page page;
	AUTO(any_rig) rig = any_open();
	bool moves = rig.info.caps & HM_ACCEL_MIGRATE;
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	before = any_counts(&rig);
	CHECK_OK_FATAL(
		hm_range_prefetch(bytes, LENGTH, rig.engine.accel, HM_READ | HM_WRITE, NULL));
	query(&rig, bytes, 1, &page);
	CHECK_EQUAL(page.place, moves ? HM_RANGE_DEVICE : HM_RANGE_HOST);
	CHECK_EQUAL(page.moves, moves ? 1 : 0);
	CHECK_OK_FATAL(any_fill(&rig, bytes, LENGTH, 3));
	CHECK_ERROR(-EINVAL, hm_range_prefetch(bytes, LENGTH, NULL, HM_RANGE_BACK, NULL));
	CHECK_ERROR(-EINVAL, hm_range_prefetch(bytes, LENGTH, rig.engine.accel,
					       HM_RANGE_BACK | HM_READ, NULL));
	CHECK_OK(hm_range_prefetch(bytes, LENGTH, rig.engine.accel, HM_RANGE_BACK, NULL));
	query(&rig, bytes, 1, &page);
	CHECK_EQUAL(page.place, HM_RANGE_HOST);
	after = any_counts(&rig);
	CHECK_EQUAL(after.moved_in - before.moved_in, moves ? LENGTH : 0);
	CHECK_EQUAL(after.moved_out - before.moved_out, moves ? LENGTH : 0);
	CHECK(bytes[0] == 3 && bytes[LENGTH - 4] == 3);
	munmap(bytes, LENGTH);
}

/* Pages that the engine uses often move by themselves. */
static void moved_after(void)
{
	struct hm_range_page page;
	int i;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	CHECK_ERROR(-EINVAL,
		    hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_MOVE_AFTER, 0));
	CHECK_ERROR(-EINVAL, hm_range_advise(bytes, LENGTH, rig.engine.accel,
					     HM_RANGE_MOVE_AFTER, 65536));
	CHECK_OK(hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_MOVE_AFTER, 48));
	for (i = 0; i < 8; i++)
		CHECK_OK_FATAL(any_fill(&rig, bytes, LENGTH, i));
	/* Pieces at the ends of the range may have fewer pages of it. */
	query(&rig, bytes + 32 * PAGE, 1, &page);
	CHECK_EQUAL(page.place,
		    rig.info.caps & HM_ACCEL_MIGRATE ? HM_RANGE_DEVICE : HM_RANGE_HOST);
	CHECK(bytes[0] == 7);
	munmap(bytes, LENGTH);
}

/* Many ranges of advice: refused at some number, and the ones before it stay. */
static void much_advice(void)
{
	const uint64_t n = 20000;
	uint64_t i;
	uint32_t crc;
	int r = 0;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(n * PAGE, PROT_READ | PROT_WRITE);

	for (i = 0; !r && i < n; i += 2)
		r = hm_range_advise(bytes + i * PAGE, PAGE, rig.engine.accel,
				    HM_RANGE_NO_ACCESS, 0);
	CHECK_EQUAL(r, -ENOSPC);
	CHECK(i > 4000);
	CHECK(text_has("HM_RANGE_NORMAL"));
	CHECK_ERROR(-EFAULT, any_crc(&rig, bytes, PAGE, &crc));
	CHECK_OK(any_crc(&rig, bytes + PAGE, PAGE, &crc));
	CHECK_OK(hm_range_advise(bytes, n * PAGE, rig.engine.accel, HM_RANGE_NORMAL, 0));
	CHECK_OK(any_crc(&rig, bytes, PAGE, &crc));
	munmap(bytes, n * PAGE);
}

/* ---- query ---- */

static void queried(void)
{
	struct hm_range_page pages[8];
	int fd = scratch_file(LENGTH);
	char *bytes, *file;
	uint64_t n = 0;
	uint32_t crc;
	AUTO(any_rig) rig = any_open();

	bytes = any_pages(8 * PAGE, PROT_READ | PROT_WRITE);
	CHECK_OK(hm_range_advise(bytes, 8 * PAGE, rig.engine.accel, HM_RANGE_GRANULE, PAGE));
	bytes[0] = 1;
	mprotect(bytes + 2 * PAGE, PAGE, PROT_READ);
	mprotect(bytes + 3 * PAGE, PAGE, PROT_NONE);
	munmap(bytes + 4 * PAGE, PAGE);
	CHECK_OK_FATAL(any_crc(&rig, bytes, PAGE, &crc));
	CHECK_OK_FATAL(any_fill(&rig, bytes + PAGE, PAGE, 1));
	query(&rig, bytes, 8, pages);
	CHECK(pages[0].place == HM_RANGE_HOST && pages[0].device_access & HM_READ);
	CHECK(pages[1].place == HM_RANGE_HOST &&
	      pages[1].device_access == (HM_READ | HM_WRITE));
	CHECK(pages[2].place == HM_RANGE_ABSENT && pages[2].access == HM_READ);
	CHECK(pages[3].access == 0 && !pages[3].device_access);
	CHECK(pages[4].place == HM_RANGE_UNMAPPED && !pages[4].device_access);
	CHECK(pages[5].place == HM_RANGE_ABSENT && pages[5].access == (HM_READ | HM_WRITE));
	CHECK(pages[0].why == HM_RANGE_BY_FAULT && pages[5].why == HM_RANGE_BY_NOTHING);
	/* Part of a page counts as the page; capacity may be less, or 0. */
	CHECK_OK(hm_range_query(bytes + PAGE - 1, 2, rig.engine.accel, NULL, 0, &n));
	CHECK_EQUAL(n, 2);
	CHECK_OK(hm_range_query(bytes, 8 * PAGE, rig.engine.accel, pages, 2, &n));
	CHECK_EQUAL(n, 8);

	file = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, fd, 0);
	CHECK_FATAL(file != MAP_FAILED);
	query(&rig, file, 1, pages);
	CHECK(pages[0].place == HM_RANGE_CACHED || pages[0].place == HM_RANGE_ON_DISK);
	CHECK_OK_FATAL(any_crc(&rig, file, PAGE, &crc));
	CHECK_EQUAL(n_entries(&rig, file, 1, HM_READ), 1);

	/* Pages that go away are seen to be gone. */
	munmap(bytes, 8 * PAGE);
	CHECK_EQUAL(n_entries(&rig, bytes, 8, HM_READ), 0);
	CHECK(any_counts(&rig).invalidated >= 1);
	CHECK_ERROR(-EINVAL, hm_range_query(file, 0, rig.engine.accel, pages, 1, &n));
	CHECK_ERROR(-EINVAL, hm_range_query(file, UINT64_MAX, rig.engine.accel, pages, 1, &n));
	munmap(file, LENGTH);
	close(fd);
}

/* A right that was taken away is no right of the device, either. */
static void less_rights(void)
{
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	CHECK_OK_FATAL(any_fill(&rig, bytes, LENGTH, 1));
	CHECK_EQUAL(n_entries(&rig, bytes, 64, HM_WRITE), 64);
	mprotect(bytes, LENGTH, PROT_READ);
	CHECK_EQUAL(n_entries(&rig, bytes, 64, HM_WRITE), 0);
	mprotect(bytes, LENGTH, PROT_NONE);
	CHECK_EQUAL(n_entries(&rig, bytes, 64, HM_READ), 0);
	munmap(bytes, LENGTH);
}

/* ---- events ---- */

/* Reads until an event of @kind about @address comes; false: none does. */
static bool event_comes(struct hm_range_events *events, uint32_t kind, const void *address,
			struct hm_range_event *ret_event)
{
	struct hm_range_event event;
	uint64_t lost;
	uint32_t n;

	while (!hm_range_events_read(events, &event, 1, 3000000000ull, &n, &lost)) {
		CHECK_EQUAL(n, 1);
		CHECK_EQUAL(lost, 0);
		if (event.kind != kind || (uintptr_t)address < event.address ||
		    (uintptr_t)address >= event.address + event.length)
			continue;
		*ret_event = event;
		return true;
	}
	return false;
}

static void events(void)
{
	struct hm_range_events *events, *second;
	struct hm_range_event event;
	uint32_t crc, n;
	uint64_t before;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	/* Events before the stream are not in it. */
	CHECK_OK_FATAL(any_fill(&rig, bytes, PAGE, 1));
	CHECK_OK_FATAL(hm_range_events_open(rig.engine.accel, &events));
	CHECK_OK_FATAL(hm_range_events_open(rig.engine.accel, &second));
	CHECK_ERROR(-ETIME, hm_range_events_read(events, &event, 1, 0, &n, NULL));
	before = time_now_ns();
	CHECK_OK_FATAL(any_fill(&rig, bytes + 20 * PAGE, PAGE, 1));
	CHECK(event_comes(events, HM_RANGE_FAULT, bytes + 20 * PAGE, &event));
	CHECK(event.time >= before && event.time <= time_now_ns());
	CHECK(!event.status && event.access & HM_WRITE);
	/* A fault that ends the work. */
	munmap(bytes + 40 * PAGE, PAGE);
	CHECK_ERROR(-EFAULT, any_crc(&rig, bytes + 40 * PAGE, PAGE, &crc));
	CHECK(event_comes(events, HM_RANGE_FAULT, bytes + 40 * PAGE, &event));
	CHECK_EQUAL(event.status, -EFAULT);
	/* Entries that are taken away: by the kernel, or found out at the next query. */
	munmap(bytes + 20 * PAGE, PAGE);
	n_entries(&rig, bytes, 64, HM_READ);
	CHECK(event_comes(events, HM_RANGE_INVALIDATE, bytes + 20 * PAGE, &event));
	/* A prefetch, and its use. */
	CHECK_OK(hm_range_prefetch(bytes + 50 * PAGE, 4 * PAGE, rig.engine.accel,
				   HM_READ | HM_WRITE, NULL));
	CHECK(event_comes(events, HM_RANGE_PREFETCHED, bytes + 50 * PAGE, &event));
	CHECK_OK_FATAL(any_fill(&rig, bytes + 50 * PAGE, 4 * PAGE, 1));
	CHECK(event_comes(events, HM_RANGE_PREFETCH_USED, bytes + 50 * PAGE, &event));
	CHECK_OK(hm_range_prefetch(bytes + 60 * PAGE, PAGE, rig.engine.accel, HM_READ, NULL));
	munmap(bytes + 60 * PAGE, PAGE);
	n_entries(&rig, bytes, 64, HM_READ);
	CHECK(event_comes(events, HM_RANGE_PREFETCH_WASTED, bytes + 60 * PAGE, &event));
	/* The other stream has them all, from its beginning on. */
	CHECK(event_comes(second, HM_RANGE_FAULT, bytes + 20 * PAGE, &event));
	CHECK(event_comes(second, HM_RANGE_PREFETCH_WASTED, bytes + 60 * PAGE, &event));
	hm_range_events_close(second);
	hm_range_events_close(events);
	hm_range_events_close(NULL);
	munmap(bytes, LENGTH);
}

/* More than any buffer has, and no reader comes: some are lost, and that is told. */
static void lost_events(void)
{
	const uint64_t n = 20000;
	struct hm_range_events *events;
	struct hm_range_event event;
	uint64_t lost, total = 0, all_lost = 0;
	uint32_t got;
	char *bytes;

	if (test_is_slow())
		return;
	AUTO(any_rig) rig = any_open();
	bytes = any_pages(n * PAGE, PROT_READ | PROT_WRITE);
	CHECK_OK(hm_range_advise(bytes, n * PAGE, rig.engine.accel, HM_RANGE_GRANULE, PAGE));
	/* Faults that the device learns nothing from. */
	CHECK_OK(hm_range_learn(rig.engine.accel, 0, 0));
	CHECK_OK_FATAL(hm_range_events_open(rig.engine.accel, &events));
	CHECK_OK_FATAL(any_fill(&rig, bytes, n * PAGE, 1));
	while (!hm_range_events_read(events, &event, 1, 0, &got, &lost)) {
		total++;
		all_lost += lost;
	}
	/* The next one comes behind the number of those that are gone. */
	munmap(bytes, PAGE);
	n_entries(&rig, bytes, 1, HM_READ);
	while (!hm_range_events_read(events, &event, 1, 0, &got, &lost)) {
		total++;
		all_lost += lost;
	}
	CHECK(total >= 1000 && all_lost >= 1);
	CHECK(total + all_lost >= any_counts(&rig).faults);
	hm_range_events_close(events);
	munmap(bytes, n * PAGE);
}

/* ---- the prefetch that learns ---- */

/* Device faults of @n launches on a piece each, @step apart. */
static uint64_t faults_of(struct any_rig *rig, char *bytes, uint64_t n, uint64_t step)
{
	struct hm_range_counts before = any_counts(rig), after;
	uint32_t crc;
	uint64_t i;

	for (i = 0; i < n; i++)
		CHECK_OK_FATAL(any_crc(rig, bytes + i * step, 16 * PAGE, &crc));
	after = any_counts(rig);
	return after.faults - before.faults;
}

static void learns(void)
{
	const uint64_t size = 64ull << 20, unit = 64ull << 10;
	uint64_t with, without, strided;
	struct hm_range_counts counts;
	char *bytes, *at;
	bool beside;
	AUTO(any_rig) rig = any_open();

	/* The module learns beside the work, which may be faster. */
	beside = rig.info.caps & HM_ACCEL_TOLD;
	bytes = any_pages(size + CHUNK, PROT_READ | PROT_WRITE);
	at = (char *)round_up((uintptr_t)bytes, CHUNK);
	CHECK_OK(hm_range_advise(at, size, rig.engine.accel, HM_RANGE_GRANULE, unit));
	CHECK_OK(hm_range_learn(rig.engine.accel, 0, 0));
	/* The first one is of the result's page. */
	faults_of(&rig, at + (60ull << 20), 1, unit);
	without = faults_of(&rig, at, 100, unit);
	CHECK_EQUAL(without, 100);
	CHECK_OK(hm_range_learn(rig.engine.accel, unit, 16 * unit));
	with = faults_of(&rig, at + (16ull << 20), 100, unit);
	CHECK(with <= (beside ? 80 : 10));
	strided = faults_of(&rig, at + (32ull << 20), 100, 3 * unit);
	CHECK(strided <= (beside ? 80 : 15));
	counts = any_counts(&rig);
	CHECK(counts.sequential >= (beside ? 20 : 90) && counts.strided >= (beside ? 20 : 80));
	CHECK(counts.doubled >= 1 && counts.planned >= (beside ? 40 : 100) * 16);
	CHECK(counts.used >= (beside ? 40 : 180) * 16);
	CHECK_ERROR(-EINVAL, hm_range_learn(rig.engine.accel, 4096, 65536));
	CHECK_ERROR(-EINVAL, hm_range_learn(rig.engine.accel, 0, 65536));
	CHECK_ERROR(-EINVAL, hm_range_learn(rig.engine.accel, 2 * unit, unit));
	munmap(bytes, size + CHUNK);
}

/* ---- the cache ---- */

/* A page that is used often is in the accelerator's memory, where it can be, and counted. */
static void caches(void)
{
	struct hm_range_counts counts;
	uint32_t crc;
	int i;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	memset(bytes, 1, LENGTH);
	CHECK_ERROR(-EINVAL, hm_range_advise(bytes, LENGTH, rig.engine.accel,
					     HM_RANGE_READ_MOSTLY, PAGE + 1));
	CHECK_OK(hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_READ_MOSTLY,
				 2 * PAGE));
	CHECK_EQUAL(*hm_warning() != 0, !(rig.info.caps & HM_ACCEL_MIGRATE));
	for (i = 0; i < 8; i++)
		CHECK_OK_FATAL(any_crc(&rig, bytes, PAGE, &crc));
	counts = any_counts(&rig);
	CHECK_EQUAL(counts.cache_hits, rig.info.caps & HM_ACCEL_MIGRATE ? 6 : 0);
	CHECK_EQUAL(counts.cache_misses, rig.info.caps & HM_ACCEL_MIGRATE ? 2 : 0);
	CHECK_EQUAL(counts.moved_in, rig.info.caps & HM_ACCEL_MIGRATE ? PAGE : 0);
	/* Without advice nothing is counted any more. */
	CHECK_OK(hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_NORMAL, 0));
	CHECK_OK_FATAL(any_crc(&rig, bytes, PAGE, &crc));
	CHECK_EQUAL(any_counts(&rig).cache_hits, counts.cache_hits);
	munmap(bytes, LENGTH);
}

/* ---- accelerators of one device ---- */

/* Two of them share the entries, and both may end in any order. */
static void shared(void)
{
	struct hm_range_counts counts = { .struct_size = sizeof(counts) };
	struct hm_accel *other;
	uint32_t crc;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	CHECK_OK_FATAL(hm_accel_open(engine_subject->name, NULL, &other));
	CHECK_OK(hm_range_prefetch(bytes, LENGTH, other, HM_READ | HM_WRITE, NULL));
	CHECK_EQUAL(n_entries(&rig, bytes, 64, HM_WRITE), 64);
	CHECK_OK_FATAL(any_crc(&rig, bytes, LENGTH, &crc));
	CHECK_OK(hm_range_counts_get(other, &counts));
	CHECK_EQUAL(counts.used, 64);
	hm_accel_unref(other);
	CHECK_OK_FATAL(any_crc(&rig, bytes, LENGTH, &crc));
	munmap(bytes, LENGTH);
}

static const struct test cases[] = {
	{ "prefetched", prefetched, 0, 0 },
	{ "not_prefetched", not_prefetched, 0, 0 },
	{ "prefetch_refused", prefetch_refused, 0, 0 },
	{ "many_fences", many_fences, 0, 0 },
	{ "granule", granule, 0, 0 },
	{ "no_access", no_access, 0, 0 },
	{ "accessed_by", accessed_by, 0, 0 },
	{ "wishes", wishes, 0, 0 },
	{ "moved", moved, 0, 0 },
	{ "moved_after", moved_after, 0, 0 },
	{ "much_advice", much_advice, 60, 0 },
	{ "queried", queried, 0, 0 },
	{ "less_rights", less_rights, 0, 0 },
	{ "events", events, 60, 0 },
	{ "lost_events", lost_events, 60, 0 },
	{ "learns", learns, 60, 0 },
	{ "caches", caches, 0, 0 },
	{ "shared", shared, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(engine_main, "range", cases)
