// SPDX-License-Identifier: MIT
/* Hot pages, on traces: which come, which leave, and the moves for that. */
#include <stdlib.h>
#include <string.h>

#include "lib/harness.h"
#include "model/hot.h"

#define PAGES (1u << 16)

/* A caller that obeys. */
struct cache {
	struct hot *hot;
	uint64_t n_hits, n_misses, n_came, n_left;
	unsigned char there[PAGES];
};

static struct cache *cache_new(uint32_t n_slots)
{
	struct cache *cache = calloc(1, sizeof(*cache));
	void *memory = malloc(hot_size(n_slots));

	CHECK_FATAL(cache && memory);
	cache->hot = hot_init(memory, n_slots);
	return cache;
}

static void cache_free(struct cache *cache)
{
	free(cache->hot);
	free(cache);
}

static enum hot_answer use(struct cache *cache, uint64_t page)
{
	uint64_t leaves = 0;
	enum hot_answer answer = hot_use(cache->hot, page, cache->there[page], &leaves);

	cache->n_hits += answer == HOT_HIT;
	cache->n_misses += answer == HOT_MISS || answer == HOT_COMES;
	if (answer != HOT_COMES)
		return answer;
	cache->n_came++;
	if (leaves != HOT_NONE) {
		CHECK(leaves != page && cache->there[leaves]);
		cache->there[leaves] = 0;
		cache->n_left++;
	}
	CHECK(hot_comes(cache->hot, page));
	cache->there[page] = 1;
	hot_came(cache->hot, page);
	CHECK(!hot_comes(cache->hot, page));
	CHECK(cache->hot->n_used <= cache->hot->n_slots);
	CHECK_EQUAL(cache->n_came - cache->n_left, cache->hot->n_used);
	return answer;
}

static void second_use(void)
{
	struct cache *cache = cache_new(4);

	CHECK_EQUAL(use(cache, 9), HOT_MISS);
	CHECK_EQUAL(use(cache, 9), HOT_COMES);
	CHECK_EQUAL(use(cache, 9), HOT_HIT);
	CHECK_EQUAL(cache->hot->n_used, 1);
	cache_free(cache);
}

/* A page that went back, or could not come, has to be used often again. */
static void refused(void)
{
	struct cache *cache = cache_new(4);
	uint64_t leaves;

	use(cache, 9);
	CHECK_EQUAL(hot_use(cache->hot, 9, false, &leaves), HOT_COMES);
	CHECK_EQUAL(hot_use(cache->hot, 9, false, &leaves), HOT_COUNTED);
	CHECK_EQUAL(cache->hot->n_used, 0);
	CHECK_EQUAL(hot_use(cache->hot, 9, false, &leaves), HOT_MISS);
	CHECK_EQUAL(hot_use(cache->hot, 9, false, &leaves), HOT_COMES);
	/* The use that made it come is not counted twice. */
	CHECK_EQUAL(hot_use(cache->hot, 9, true, &leaves), HOT_COUNTED);
	CHECK_EQUAL(hot_use(cache->hot, 9, true, &leaves), HOT_HIT);
	/* One that is there for another reason is a hit, and takes no slot. */
	CHECK_EQUAL(hot_use(cache->hot, 5, true, &leaves), HOT_HIT);
	CHECK_EQUAL(cache->hot->n_used, 1);
	hot_drop(cache->hot, 9);
	hot_drop(cache->hot, 9);
	CHECK_EQUAL(cache->hot->n_used, 0);
	cache_free(cache);
}

/* A look at four times as many pages, twice, takes few places of pages that are used often. */
static void scan(void)
{
	struct cache *cache = cache_new(64);
	unsigned int i, n = 0;

	for (i = 0; i < 64 * 32; i++)
		use(cache, i % 64);
	for (i = 0; i < 2 * 256; i++)
		use(cache, 1024 + i % 256);
	for (i = 0; i < 64; i++)
		n += cache->there[i];
	CHECK(n >= 48);
	cache_free(cache);
}

/* Pages that were hot once make room for those that are now. */
static void change(void)
{
	struct cache *cache = cache_new(64);
	unsigned int i, n = 0;

	for (i = 0; i < 64 * 64; i++)
		use(cache, i % 64);
	for (i = 0; i < 64 * 64; i++)
		use(cache, 1024 + i % 64);
	for (i = 0; i < 64; i++)
		n += cache->there[1024 + i];
	CHECK(n >= 48);
	cache_free(cache);
}

/* Any uses, and drops in between: the slots always agree with the places. */
static void any(void)
{
	struct cache *cache = cache_new(37);
	uint64_t random = test_seed(), page;
	unsigned int i, n;
	uint32_t at;

	for (i = 0; i < 200000; i++) {
		page = test_random(&random) % (1u << (1 + test_random(&random) % 12));
		if (test_random(&random) % 16) {
			use(cache, page);
			continue;
		}
		cache->n_left += cache->there[page];
		cache->there[page] = 0;
		hot_drop(cache->hot, page);
	}
	for (at = 0, n = 0; (page = hot_next(cache->hot, &at)) != HOT_NONE; n++)
		CHECK(cache->there[page]);
	CHECK_EQUAL(n, cache->hot->n_used);
	CHECK_EQUAL(cache->n_came - cache->n_left, n);
	cache_free(cache);
}

/* Reads by Zipf's law with exponent 1, and an eighth of the pages in the cache. */
static void zipf(void)
{
	struct cache *cache = cache_new(PAGES / 8);
	double *sums = calloc(PAGES, sizeof(*sums));
	uint64_t random = test_seed(), i;
	unsigned int low, high, middle;

	CHECK_FATAL(sums != NULL);
	for (i = 0; i < PAGES; i++)
		sums[i] = (i ? sums[i - 1] : 0) + 1.0 / (double)(i + 1);
	for (i = 0; i < 2 * PAGES; i++) {
		double x = (double)(test_random(&random) >> 11) / (double)(1ull << 53) *
			   sums[PAGES - 1];

		for (low = 0, high = PAGES - 1; low < high;) {
			middle = (low + high) / 2;
			if (sums[middle] < x)
				low = middle + 1;
			else
				high = middle;
		}
		use(cache, (uint64_t)low * 40503 % PAGES);
	}
	CHECK_EQUAL(cache->n_hits + cache->n_misses, 2 * PAGES);
	CHECK((cache->n_misses + cache->n_came + cache->n_left) * 2 <= 2 * PAGES);
	free(sums);
	cache_free(cache);
}

static const struct test tests[] = {
	{ "second_use", second_use, 0, 0 },
	{ "refused", refused, 0, 0 },
	{ "scan", scan, 0, 0 },
	{ "change", change, 0, 0 },
	{ "any", any, 0, 0 },
	{ "zipf", zipf, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hot", tests)
