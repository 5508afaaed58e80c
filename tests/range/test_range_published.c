// SPDX-License-Identifier: MIT
/*
 * Ranges of the published table: sums of the events of an engine's entries, by address. Memory at
 * the address of earlier memory adds to its sums: each test is alone in its process.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hetmap/published.h>

#include "range/range_support.h"

#define LENGTH (64 * PAGE)
#define LINK "/memfd:hetmap:maps (deleted)"

static int open_table(void)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	char link[64];
	int fd = -1;

	CHECK_FATAL(folder != NULL);
	while (fd < 0 && (entry = readdir(folder))) {
		ssize_t n = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link));

		if (n == (ssize_t)strlen(LINK) && !memcmp(link, LINK, (size_t)n))
			fd = openat(dirfd(folder), entry->d_name, O_RDONLY | O_CLOEXEC);
	}
	closedir(folder);
	CHECK_FATAL(fd >= 0);
	return fd;
}

/* The sums of all ranges of @map, or with 0 of those that have a page of [@bytes, + LENGTH). */
static struct hm_published_range sums(const void *bytes, const void *map)
{
	const uint64_t start = (uintptr_t)bytes, of = (uintptr_t)map;
	struct hm_published_range range, sum = { .start = UINT64_MAX };
	struct hm_published_head head;
	int fd = open_table();
	uint64_t i;

	CHECK_EQUAL(pread(fd, &head, sizeof(head), 0), sizeof(head));
	CHECK_EQUAL(head.range_size, sizeof(range));
	CHECK(head.ranges_used <= head.n_range);
	CHECK_EQUAL(head.ranges_left_out, 0);
	for (i = 0; i < head.ranges_used; i++) {
		CHECK_EQUAL(pread(fd, &range, sizeof(range),
				  (off_t)(head.range_first + i * sizeof(range))),
			    sizeof(range));
		CHECK(range.sequence && range.sequence % 2 == 0);
		CHECK(range.start < range.end && range.end - range.start <= 2u << 20);
		CHECK(range.first_ns <= range.last_ns);
		if (range.map != of || range.end <= start || range.start >= start + LENGTH)
			continue;
		sum.start = range.start < sum.start ? range.start : sum.start;
		sum.end = range.end > sum.end ? range.end : sum.end;
		sum.faults += range.faults;
		sum.fault_pages += range.fault_pages;
		sum.fault_ns += range.fault_ns;
		sum.refused += range.refused;
		sum.invalidated += range.invalidated;
		sum.prefetched += range.prefetched;
		sum.prefetch_ns += range.prefetch_ns;
		sum.used += range.used;
		memcpy(sum.accel, range.accel, sizeof(sum.accel));
	}
	close(fd);
	return sum;
}

static void events(void)
{
	struct hm_published_range sum;
	struct hm_range_page pages[64];
	uint64_t n;
	uint32_t crc;
	AUTO(any_rig) rig = any_open();
	char *bytes = any_pages(LENGTH, PROT_READ | PROT_WRITE);

	CHECK_OK_FATAL(hm_range_learn(rig.engine.accel, 16 * PAGE, 0));
	CHECK_OK_FATAL(
		hm_range_advise(bytes, LENGTH, rig.engine.accel, HM_RANGE_GRANULE, PAGE));
	CHECK_OK_FATAL(any_fill(&rig, bytes, 4 * PAGE, 1));
	sum = sums(bytes, NULL);
	CHECK_EQUAL(sum.start, (uintptr_t)bytes);
	CHECK_EQUAL(sum.end, (uintptr_t)bytes + 4 * PAGE);
	CHECK_EQUAL(sum.faults, 4);
	CHECK_EQUAL(sum.fault_pages, 4);
	CHECK(sum.fault_ns > 0);
	CHECK(!strcmp(sum.accel, rig.info.name));

	CHECK_OK(hm_range_prefetch(bytes + 10 * PAGE, 8 * PAGE, rig.engine.accel,
				   HM_READ | HM_WRITE, NULL));
	CHECK_OK_FATAL(any_fill(&rig, bytes + 10 * PAGE, 8 * PAGE, 1));
	sum = sums(bytes, NULL);
	CHECK_EQUAL(sum.faults, 4);
	CHECK_EQUAL(sum.prefetched, 8);
	CHECK(sum.prefetch_ns > 0);
	CHECK_EQUAL(sum.used, 8);

	munmap(bytes + 2 * PAGE, PAGE);
	CHECK_OK(hm_range_query(bytes, LENGTH, rig.engine.accel, pages, 64, &n));
	CHECK_ERROR(-EFAULT, any_crc(&rig, bytes + 2 * PAGE, PAGE, &crc));
	sum = sums(bytes, NULL);
	CHECK(sum.invalidated > 0);
	CHECK_EQUAL(sum.refused, 1);
	CHECK_EQUAL(sum.faults, 5);
	munmap(bytes, LENGTH);
}

/* A prefetch across memory and two maps, which may lie in the same 2 MiB: each has its own. */
static void maps(void)
{
	char *map;
	AUTO(any_rig) rig = any_open();
	AUTO(hm_device) *host = rig_device("host");

	CHECK_OK_FATAL(hm_alloc(host, LENGTH, HM_READ | HM_WRITE, &map));
	CHECK_OK(hm_range_prefetch(map, LENGTH, rig.engine.accel, HM_READ, NULL));
	CHECK_EQUAL(sums(map, map).prefetched, 64);
	CHECK_EQUAL(sums(map, NULL).prefetched, 0);
	hm_free(map);
}

static const struct test cases[] = {
	{ "events", events, 0, TEST_ONCE },
	{ "maps", maps, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(engine_main, "range_published", cases)
