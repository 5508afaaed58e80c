// SPDX-License-Identifier: MIT
/* Which of the numbers that a published table gave was never seen. */
#include "../../tools/perf/read/serials.h"
#include "lib/support.h"

static void add_all(struct serials *serials, uint64_t first, uint64_t last)
{
	for (; first <= last; first++)
		CHECK_OK(serials_add(serials, first));
}

static void missing(void)
{
	struct serials serials = { 0 };
	int i;

	CHECK_EQUAL(serials_missing(&serials), 0);
	serials_begin(&serials);
	CHECK_EQUAL(serials_missing(&serials), 0);
	/* In any order, and more than once. */
	for (i = 0; i < 3; i++) {
		add_all(&serials, 5, 90);
		add_all(&serials, 1, 4);
	}
	CHECK_EQUAL(serials_missing(&serials), 0);
	add_all(&serials, 101, 1000);
	CHECK_EQUAL(serials_missing(&serials), 10);
	CHECK_EQUAL(serials_missing(&serials), 10);
	serials_free(&serials);
}

/* Serials before the first look are not asked for. */
static void before(void)
{
	struct serials serials = { 0 };

	add_all(&serials, 7, 9);
	add_all(&serials, 500, 600);
	serials_begin(&serials);
	CHECK_EQUAL(serials_missing(&serials), 0);
	add_all(&serials, 400, 450);
	CHECK_EQUAL(serials_missing(&serials), 0);
	add_all(&serials, 603, 604);
	CHECK_EQUAL(serials_missing(&serials), 2);
	/* A table that lies. */
	add_all(&serials, UINT64_MAX - 1, UINT64_MAX - 1);
	CHECK_EQUAL(serials_missing(&serials), UINT64_MAX - 1 - 600 - 3);
	serials_free(&serials);
}

static const struct test tests[] = {
	{ "missing", missing, 0, 0 },
	{ "before", before, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "serials", tests)
