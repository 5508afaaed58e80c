// SPDX-License-Identifier: MIT
/*
 * HETSIM_ADVISE_CACHE, be it the module's or the twin's: which pages come, how many, that both
 * sides see each other's bytes after all changes of the pages, and the bytes moved for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "lib/rig.h"
#include "sim/migrate_support.h"
#include "sim/sim_tests.h"

#define PAGES (MIRROR_HUGE / PAGE)
#define LIMIT 16u /* pages */
#define RW (PROT_READ | PROT_WRITE)

struct cached {
	struct mirror mirror;
	unsigned char *bytes; /* a large chunk under the advice; page i is i + 1 */
	unsigned char *own;   /* a page that is not */
};

static struct cached cached_make(void)
{
	struct hetsim_mirror says;
	struct cached rig = { .mirror = migrate_begin(&says) };
	size_t i;

	rig.bytes = migrate_map(MIRROR_HUGE, 0);
	for (i = 0; i < PAGES; i++)
		memset(rig.bytes + i * PAGE, (int)(i + 1), PAGE);
	rig.own = mmap(NULL, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(rig.own != MAP_FAILED);
	CHECK_EQUAL(mirror_advise(&rig.mirror, rig.bytes, MIRROR_HUGE, HETSIM_ADVISE_CACHE,
				  LIMIT * PAGE),
		    0);
	return rig;
}

static void cached_end(struct cached *rig)
{
	CHECK_EQUAL(munmap(rig->own, PAGE), 0);
	CHECK_EQUAL(munmap(rig->bytes, MIRROR_HUGE), 0);
	mirror_close(&rig->mirror);
}

AUTO_END(cached, cached_end)

static unsigned char *at(const struct cached *rig, unsigned int page)
{
	return rig->bytes + (size_t)page * PAGE;
}

/* The engine reads the page @n times, and sees these bytes. */
static void read_page(const struct cached *rig, unsigned int page, unsigned int n, int value)
{
	while (n--) {
		memset(rig->own, 0xa5, PAGE);
		CHECK_DONE(mirror_copy(&rig->mirror, rig->own, at(rig, page), PAGE));
		CHECK(migrate_is(rig->own, PAGE, value));
	}
}

static unsigned int there(const struct cached *rig)
{
	return migrate_on_device(&rig->mirror, rig->bytes, MIRROR_HUGE);
}

static void test_hot(void)
{
	struct hetsim_counters counters;
	AUTO(cached) rig = cached_make();

	read_page(&rig, 7, 1, 8);
	CHECK_EQUAL(there(&rig), 0);
	read_page(&rig, 7, 9, 8);
	CHECK_EQUAL(there(&rig), 1);
	CHECK_EQUAL(migrate_on_device(&rig.mirror, at(&rig, 7), PAGE), 1);
	counters = mirror_counters(&rig.mirror);
	CHECK_EQUAL(counters.cache_misses, 2);
	CHECK_EQUAL(counters.cache_hits, 8);
	CHECK_EQUAL(counters.pages_migrated, 1);
	CHECK_EQUAL(counters.access_notices, 0);
}

/* No more pages than the limit, and a page that is used more often is among them. */
static void test_limit(void)
{
	unsigned int i;
	AUTO(cached) rig = cached_make();

	for (i = 0; i < 4 * LIMIT; i++)
		read_page(&rig, i, 3, (int)(i + 1));
	CHECK_EQUAL(there(&rig), LIMIT);
	read_page(&rig, 300, 40, 301 & 0xff);
	CHECK_EQUAL(migrate_on_device(&rig.mirror, at(&rig, 300), PAGE), 1);
	CHECK_EQUAL(there(&rig), LIMIT);
	CHECK_EQUAL(migrate_pages(&rig.mirror), LIMIT);
	/* With a lower limit all of them go back, and no byte with them. */
	CHECK_EQUAL(mirror_advise(&rig.mirror, rig.bytes, PAGE, HETSIM_ADVISE_CACHE, PAGE), 0);
	CHECK_EQUAL(migrate_pages(&rig.mirror), 0);
	for (i = 0; i < PAGES; i++)
		CHECK(migrate_is(at(&rig, i), PAGE, (int)(i + 1)));
}

/* A store of either side is seen by the other one, each time. */
static void test_stores(void)
{
	unsigned int i;
	AUTO(cached) rig = cached_make();

	for (i = 1; i <= 20; i++) {
		read_page(&rig, 3, 4, (i == 1 ? 4 : 0x11 * (i & 7)));
		memset(at(&rig, 3), (int)i, PAGE);
		read_page(&rig, 3, 1, (int)i);
		CHECK_DONE(mirror_fill(&rig.mirror, at(&rig, 3), PAGE,
				       0x11111111 * ((i + 1) & 7)));
		CHECK(migrate_is(at(&rig, 3), PAGE, (int)(0x11 * ((i + 1) & 7))));
	}
	CHECK(mirror_counters(&rig.mirror).cache_hits > 0);
}

static void test_changes(void)
{
	AUTO(cached) rig = cached_make();

	read_page(&rig, 5, 8, 6);
	CHECK_EQUAL(there(&rig), 1);
	CHECK_EQUAL(mprotect(at(&rig, 5), PAGE, PROT_NONE), 0);
	CHECK_FAULT(mirror_read(&rig.mirror, at(&rig, 5), PAGE), HETSIM_REASON_READ,
		    at(&rig, 5), 0);
	CHECK_EQUAL(mprotect(at(&rig, 5), PAGE, PROT_READ), 0);
	read_page(&rig, 5, 4, 6);
	CHECK_FAULT(mirror_fill(&rig.mirror, at(&rig, 5), PAGE, 1), HETSIM_REASON_WRITE,
		    at(&rig, 5), 1);
	CHECK_EQUAL(munmap(at(&rig, 5), PAGE), 0);
	CHECK_FAULT(mirror_read(&rig.mirror, at(&rig, 5), PAGE), HETSIM_REASON_UNMAPPED,
		    at(&rig, 5), 0);
	CHECK(mmap(at(&rig, 5), PAGE, RW, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	      at(&rig, 5));
	read_page(&rig, 5, 8, 0);
	read_page(&rig, 6, 8, 7);
	CHECK_EQUAL(madvise(at(&rig, 6), PAGE, MADV_DONTNEED), 0);
	read_page(&rig, 6, 8, 0);
	CHECK(there(&rig) <= 2);
}

static void test_off(void)
{
	const struct mirror *mirror;
	AUTO(cached) rig = cached_make();

	mirror = &rig.mirror;
	CHECK_EQUAL(mirror_advise(mirror, rig.bytes, PAGE, HETSIM_ADVISE_CACHE, 1), -EINVAL);
	/* Advice on locations and counters goes before. */
	CHECK_EQUAL(mirror_advise(mirror, at(&rig, 1), PAGE, HETSIM_ADVISE_LOCATION,
				  HETSIM_LOCATION_HOST),
		    0);
	CHECK_EQUAL(mirror_advise(mirror, at(&rig, 2), PAGE, HETSIM_ADVISE_COUNTER, 60000), 0);
	CHECK_EQUAL(mirror_advise(mirror, at(&rig, 3), PAGE, HETSIM_ADVISE_CACHE, 0), 0);
	read_page(&rig, 1, 8, 2);
	read_page(&rig, 2, 8, 3);
	read_page(&rig, 3, 8, 4);
	CHECK_EQUAL(there(&rig), 0);
	CHECK_EQUAL(mirror_counters(mirror).cache_misses, 0);
	read_page(&rig, 4, 8, 5);
	CHECK_EQUAL(there(&rig), 1);
}

/* ---- bytes that are moved ---- */

#define SKEWED_PAGES 1024u
#define SKEWED_READS 4096u

/* The rank of a page by Zipf's law with exponent 1. */
static unsigned int skewed(uint64_t *random, const double *sums)
{
	double x = (double)(test_random(random) >> 11) / (double)(1ull << 53) *
		   sums[SKEWED_PAGES - 1];
	unsigned int low = 0, high = SKEWED_PAGES - 1, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (sums[middle] < x)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Pages read by Zipf's law, an eighth of them in the cache: less than half is moved. */
static void test_skewed(void)
{
	const size_t size = (size_t)SKEWED_PAGES * PAGE;
	struct hetsim_counters counters;
	struct hetsim_mirror says;
	double sums[SKEWED_PAGES];
	uint64_t random = test_seed(), moved;
	unsigned int i, page;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(size, 1);

	for (i = 0; i < SKEWED_PAGES; i++)
		sums[i] = (i ? sums[i - 1] : 0) + 1.0 / (i + 1);
	CHECK_EQUAL(mirror_advise(&mirror, bytes, size, HETSIM_ADVISE_CACHE, size / 8), 0);
	for (i = 0; i < SKEWED_READS; i++) {
		/* Neighbours by rank are far from each other by address. */
		page = skewed(&random, sums) * 509 % SKEWED_PAGES;
		CHECK_DONE(mirror_read(&mirror, bytes + (size_t)page * PAGE, PAGE));
	}
	counters = mirror_counters(&mirror);
	/* A miss that moves its page is one page, too. */
	moved = counters.cache_misses + counters.pages_returned;
	CHECK(counters.cache_hits + counters.cache_misses >= SKEWED_READS);
	CHECK(migrate_on_device(&mirror, bytes, size) <= SKEWED_PAGES / 8);
	if (moved * 2 > SKEWED_READS)
		test_fail(__FILE__, __LINE__,
			  "%llu pages moved for %u reads: %llu hits, %llu misses, %llu there, "
			  "%llu back",
			  (unsigned long long)moved, SKEWED_READS,
			  (unsigned long long)counters.cache_hits,
			  (unsigned long long)counters.cache_misses,
			  (unsigned long long)counters.pages_migrated,
			  (unsigned long long)counters.pages_returned);
	CHECK_EQUAL(munmap(bytes, size), 0);
}

const struct test sim_cache_tests[] = {
	{ "hot", test_hot, 0, SIM_MIGRATES },
	{ "limit", test_limit, 0, SIM_MIGRATES },
	{ "stores", test_stores, 0, SIM_MIGRATES },
	{ "changes", test_changes, 0, SIM_MIGRATES },
	{ "off", test_off, 0, SIM_MIGRATES },
	{ "skewed", test_skewed, 60, SIM_MIGRATES },
	{ NULL, NULL, 0, 0 },
};
