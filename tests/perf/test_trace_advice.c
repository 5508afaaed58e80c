// SPDX-License-Identifier: MIT
/*
 * The advice of hetmap report after hetmap trace: programs with something to gain get advice, and
 * healthy ones none. Memory of a far node: test_two_nodes.c. This program also runs those of
 * traced.c: --traced NAME.
 */
#include <stdlib.h>
#include <string.h>

#include "perf/trace_support.h"

/* The advice for @name; "": none. */
static const char *advice_of(const json_t *json, const char *name)
{
	json_t *advice;
	size_t i;

	json_array_foreach(json_object_get(json, "advice"), i, advice)
	{
		json_t *buffer = json_array_get(json_object_get(json, "buffers"),
						(size_t)integer_of(advice, "buffer"));

		if (!strcmp(string_of(buffer, "name"), name))
			return string_of(advice, "text");
	}
	return "";
}

/* Makes a file in memory for a program to map: its path is in the environment. */
static char *make_file(const char *folder)
{
	char *bytes = calloc(1, TRACED_FILE), *path;

	CHECK_FATAL(bytes != NULL);
	file_write(folder, "weights", bytes, TRACED_FILE);
	free(bytes);
	path = folder_path(folder, "weights");
	setenv("HETMAP_TRACED_FILE", path, 1);
	return path;
}

/*
 * The best advice depends on costs that are measured while other tests run: after a bad moment,
 * they are measured again.
 */
#define TRIES 3

static void check_advised(const char *program, const char *name, const char *words)
{
	int i;
	AUTO_TEXT *folder = traced_folder();
	AUTO_TEXT *path = make_file(folder);
	json_t *json = report_of(folder, program);

	name = name ? name : path;
	for (i = 1; i < TRIES && !TEST_TSAN && !strstr(advice_of(json, name), words); i++) {
		json_decref(json);
		json = report_of(folder, program);
	}
	/* A sanitizer's own memory costs so much more that this is no part of it. */
	if (TEST_TSAN)
		CHECK(buffer_of(json, name) != NULL);
	else if (!strstr(advice_of(json, name), words))
		test_fail(__FILE__, __LINE__, "%s: '%s' is not in: '%s'", program, words,
			  advice_of(json, name));
	json_decref(json);
}

static void test_huge_pages_off(void)
{
	check_advised("large", "256 MiB of memory", "pages of 2 MiB");
}

static void test_strided(void)
{
	check_advised("large_strided", "256 MiB of memory", "pages of 2 MiB");
}

static void test_in_no_order(void)
{
	check_advised("large_scattered", "256 MiB of memory", "pages of 2 MiB");
}

/* The advice on device faults of that memory; NULL: there is none. */
static const json_t *advice_on_device(const json_t *json)
{
	const json_t *advice;
	size_t i;

	json_array_foreach(json_object_get(json, "advice"), i,
			   advice) if (strstr(string_of(advice, "text"),
					      "hm_range_")) return advice;
	return NULL;
}

static uint64_t device_faults(const json_t *json)
{
	const json_t *range;
	uint64_t n = 0;
	size_t i;

	json_array_foreach(json_object_get(json, "ranges"), i, range)
	{
		CHECK(!strcmp(string_of(range, "accel"), "soft:0"));
		CHECK(!strcmp(string_of(range, "name"), NAME));
		n += (uint64_t)integer_of(range, "device_faults");
	}
	return n;
}

/* A prefetch would have saved the device's faults, and is advised with its gain. */
static void test_device_faults(void)
{
	const json_t *advice;
	int i;
	AUTO_TEXT *folder = traced_folder();
	json_t *json = report_of(folder, "device_faults");

	for (i = 1; i < TRIES && !advice_on_device(json); i++) {
		json_decref(json);
		json = report_of(folder, "device_faults");
	}
	CHECK_EQUAL(device_faults(json), TRACED_PAGES);
	advice = advice_on_device(json);
	CHECK_FATAL(advice != NULL);
	CHECK(strstr(string_of(advice, "text"), "hm_range_prefetch()") != NULL);
	CHECK(integer_of(advice, "gain_ns") > 0);
	CHECK(integer_of(advice, "gain_ns") <=
	      integer_of(json_array_get(json_object_get(json, "ranges"), 0),
			 "device_fault_ns"));
	json_decref(json);
}

static void test_device_prefetched(void)
{
	AUTO_TEXT *folder = traced_folder();
	AUTO(json_t) *json = report_of(folder, "device_prefetched");

	CHECK_EQUAL(device_faults(json), 0);
	CHECK_EQUAL(integer_of(json_array_get(json_object_get(json, "ranges"), 0),
			       "prefetched_pages"),
		    TRACED_PAGES);
	CHECK(!advice_on_device(json));
}

static void test_sequential(void)
{
	check_advised("file_sequential", NULL, "map it in by one call");
}

static void test_buffer(void)
{
	check_advised("buffer_touched", "weights", "hm_map_prefetch()");
}

/* A sanitizer's own memory is touched page by page: it may well be advised. */
static void check_healthy(const char *program, bool points)
{
	json_t *json, *advice;
	size_t i;
	AUTO_TEXT *folder = traced_folder();
	AUTO_TEXT *path = make_file(folder);

	trace_with(folder, program, 0, points);
	json = report(folder);
	CHECK(!strcmp(advice_of(json, NAME), ""));
	json_array_foreach(json_object_get(json, "advice"), i, advice)
	{
		if (!TEST_ASAN && !TEST_TSAN)
			test_fail(__FILE__, __LINE__, "%s: advised: %s", program,
				  string_of(advice, "text"));
	}
	json_decref(json);
}

static void test_healthy(void)
{
	check_healthy("populated", false);
	check_healthy("computing", false);
	check_healthy("huge", false);
	check_healthy("sparse", false);
	check_healthy("file_populated", false);
	check_healthy("buffer_prefetched", false);
}

/* Whether accesses are known or not: populating gains nothing where a mapping is written. */
static void test_written(void)
{
	int points;

	for (points = 0; points < 2; points++) {
		check_healthy("file_private", points);
		check_healthy("memfd_written", points);
		check_healthy("file_sparse_written", points);
	}
}

static const struct test tests[] = {
	{ "huge_pages_off", test_huge_pages_off, 60, TEST_ONCE },
	{ "strided", test_strided, 60, TEST_ONCE },
	{ "in_no_order", test_in_no_order, 60, TEST_ONCE },
	{ "device_faults", test_device_faults, 120, TEST_ONCE },
	{ "device_prefetched", test_device_prefetched, 60, TEST_ONCE },
	{ "sequential", test_sequential, 60, TEST_ONCE },
	{ "buffer", test_buffer, 60, TEST_ONCE },
	{ "written", test_written, 120, TEST_ONCE },
	{ "healthy", test_healthy, 120, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(trace_tests_main, "trace_advice", tests)
