// SPDX-License-Identifier: MIT
/* Range maps against an array with one value a page. */
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/harness.h"
#include "base/rangemap.h"
#include "base/sys.h"
#include "base/util.h"

#define PAGES 64

static bool is_canonical(const struct rangemap *ranges)
{
	uint32_t i;

	if (!ranges->n || ranges->run[0].offset)
		return false;
	for (i = 1; i < ranges->n; i++) {
		if (ranges->run[i].offset <= ranges->run[i - 1].offset)
			return false;
		if (ranges->run[i].value == ranges->run[i - 1].value &&
		    ranges->run[i].cache == ranges->run[i - 1].cache)
			return false;
	}
	return true;
}

static void test_one_run(void)
{
	AUTO_FREE struct rangemap *ranges = rangemap_create(3, 1);

	CHECK_FATAL(ranges);
	CHECK_EQUAL(ranges->n, 1);
	CHECK_EQUAL(rangemap_at(ranges, 0)->value, 3);
	CHECK_EQUAL(rangemap_at(ranges, UINT64_MAX)->value, 3);
	CHECK_EQUAL(rangemap_at(ranges, 0)->cache, 1);
}

static void test_split_and_join(void)
{
	AUTO_FREE struct rangemap *whole = rangemap_create(3, 0);
	struct rangemap *joined, *open;

	CHECK_FATAL(whole);
	AUTO_FREE struct rangemap *split = rangemap_set(whole, 2 * PAGE, PAGE, 1);
	CHECK_FATAL(split);
	CHECK_EQUAL(split->n, 3);
	CHECK_EQUAL(split->run[1].offset, 2 * PAGE);
	CHECK_EQUAL(split->run[2].offset, 3 * PAGE);
	/* The old one is as it was. */
	CHECK_EQUAL(whole->n, 1);
	joined = rangemap_set(split, 2 * PAGE, PAGE, 3);
	CHECK_FATAL(joined);
	CHECK_EQUAL(joined->n, 1);
	free(joined);
	/* A length that overflows reaches the end; an empty one changes nothing. */
	open = rangemap_set(split, PAGE, UINT64_MAX, 0);
	CHECK_FATAL(open);
	CHECK_EQUAL(open->n, 2);
	CHECK_EQUAL(rangemap_at(open, UINT64_MAX)->value, 0);
	free(open);
	open = rangemap_set(split, PAGE, 0, 0);
	CHECK_FATAL(open);
	CHECK_EQUAL(open->n, 3);
	free(open);
}

struct walk {
	uint32_t value[PAGES];
	uint64_t next;
	uint64_t stop; /* offset at which to stop; UINT64_MAX: never */
	bool right;
};

static int walk_run(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	struct walk *walk = user;
	uint64_t page;

	if (offset == walk->stop)
		return 42;
	if (offset != walk->next || !length)
		walk->right = false;
	for (page = offset / PAGE; page < (offset + length) / PAGE; page++)
		if (walk->value[page] != value)
			walk->right = false;
	walk->next = offset + length;
	return 0;
}

static void test_random_changes(void)
{
	uint64_t state = test_seed();
	struct rangemap *ranges = rangemap_create(0, 2);
	struct walk model = { .right = true, .stop = UINT64_MAX };
	int round;

	CHECK_FATAL(ranges);
	for (round = 0; round < 20000; round++) {
		uint64_t first = test_random(&state) % PAGES;
		uint64_t n = 1 + test_random(&state) % (PAGES - first);
		uint32_t value = (uint32_t)(test_random(&state) % 4);
		struct rangemap *changed;
		uint64_t page;

		if (test_random(&state) % 2)
			n = 1;
		changed = rangemap_set(ranges, first * PAGE, n * PAGE, value);
		CHECK_FATAL(changed);
		free(ranges);
		ranges = changed;
		for (page = first; page < first + n; page++)
			model.value[page] = value;
		CHECK_FATAL(is_canonical(ranges));
		page = test_random(&state) % PAGES;
		CHECK_EQUAL(rangemap_at(ranges, page * PAGE + 17)->value, model.value[page]);
		CHECK_EQUAL(rangemap_at(ranges, page * PAGE)->cache, 2);
		first = test_random(&state) % PAGES;
		n = 1 + test_random(&state) % (PAGES - first);
		model.next = first * PAGE;
		CHECK_EQUAL(rangemap_each(ranges, first * PAGE, n * PAGE, walk_run, &model), 0);
		CHECK_EQUAL(model.next, (first + n) * PAGE);
		CHECK_FATAL(model.right);
	}
	/* The first answer that is not 0 ends it. */
	model.stop = 0;
	CHECK_EQUAL(rangemap_each(ranges, 0, PAGES * PAGE, walk_run, &model), 42);
	CHECK_EQUAL(rangemap_each(ranges, 0, 0, walk_run, &model), 0);
	free(ranges);
}

static void *no_memory(size_t count, size_t size)
{
	(void)count;
	(void)size;
	return NULL;
}

static void test_no_memory(void)
{
	void *(*calloc_before)(size_t, size_t) = sys_table.calloc;
	AUTO_FREE struct rangemap *ranges = rangemap_create(1, 0);

	CHECK_FATAL(ranges);
	sys_table.calloc = no_memory;
	CHECK(!rangemap_create(1, 0));
	CHECK(!rangemap_set(ranges, 0, PAGE, 2));
	sys_table.calloc = calloc_before;
	CHECK_EQUAL(ranges->n, 1);
}

#define RUNS 16384

/* A change of one run among many takes about as long as a copy of the runs. */
static void test_many_runs(void)
{
	AUTO_FREE struct rangemap *many =
		sys_calloc(1, sizeof(*many) + RUNS * sizeof(many->run[0]));
	double change = 1, copy = 1, start;
	struct rangemap *ranges;
	uint32_t i;

	CHECK_FATAL(many);
	/* Memory of the heap: no page is new. */
	mallopt(M_MMAP_THRESHOLD, 1 << 26);
	mallopt(M_TRIM_THRESHOLD, 1 << 26);
	many->n = RUNS;
	for (i = 0; i < RUNS; i++)
		many->run[i] = (struct rangemap_run){ i * PAGE, i % 2, 0 };
	/* The least of many: this machine may have other work. */
	for (i = 0; i < 200; i++) {
		start = test_now();
		ranges = rangemap_set(many, RUNS / 2 * PAGE, PAGE, 2);
		change = fmin(change, test_now() - start);
		CHECK_FATAL(ranges && ranges->n == RUNS && is_canonical(ranges));
		free(ranges);
		start = test_now();
		ranges = sys_calloc(1, sizeof(*many) + (RUNS + 2) * sizeof(many->run[0]));
		CHECK_FATAL(ranges);
		memcpy(ranges, many, sizeof(*many) + RUNS * sizeof(many->run[0]));
		copy = fmin(copy, test_now() - start);
		free(ranges);
	}
	/* 1.02 as it is, 2.0 where each run is looked at. */
	if (!TEST_ASAN && !TEST_TSAN)
		CHECK(change < 1.5 * copy);
}

static const struct test tests[] = {
	{ "one_run", test_one_run, 0, 0 },
	{ "split_and_join", test_split_and_join, 0, 0 },
	{ "random_changes", test_random_changes, 60, 0 },
	{ "no_memory", test_no_memory, 0, 0 },
	{ "many_runs", test_many_runs, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "rangemap", tests)
