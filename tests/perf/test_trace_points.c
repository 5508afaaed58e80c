// SPDX-License-Identifier: MIT
/*
 * hetmap trace with tracepoints: a device's work, which faults were writes, and memory that was
 * moved or grew. This program also runs those of traced.c.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "perf/trace_support.h"

/* Tracepoints of @system's: a kernel may have none, and a user may not see them. */
static bool may_point(const char *system)
{
	char path[128];

	if (!may_trace())
		return false;
	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/%s", system);
	if (!access(path, R_OK | X_OK))
		return true;
	test_skip("perf", "%s: %s", path, strerror(errno));
	return false;
}

static json_t *report_of_points(const char *folder, const char *name)
{
	trace_with(folder, name, 0, true);
	return report(folder);
}

/* Which faults were writes is told by the processor, through a tracepoint. */
static void test_access(void)
{
	AUTO_TEXT *folder = NULL;
	json_t *json, *buffer;

	if (!may_point("exceptions"))
		return;
	folder = folder_make();
	json = report_of_points(folder, "halves");
	buffer = buffer_of(json, NAME);
	CHECK_EQUAL(integer_of(buffer, "minor"), TRACED_PAGES);
	CHECK_EQUAL(integer_of(buffer, "reads"), TRACED_PAGES / 2);
	CHECK_EQUAL(integer_of(buffer, "writes"), TRACED_PAGES / 2);
	json_decref(json);
}

/* Unrecorded values are reported as unknown. */
static void test_no_tracepoints(void)
{
	AUTO_TEXT *folder = traced_folder();
	AUTO(json_t) *json = report_of(folder, "halves");
	json_t *buffer = buffer_of(json, NAME);

	CHECK_EQUAL(integer_of(buffer, "minor"), TRACED_PAGES);
	CHECK(json_is_null(json_object_get(buffer, "reads")));
	CHECK(json_is_null(json_object_get(buffer, "writes")));
	CHECK(!json_object_get(buffer, "calls"));
	CHECK_EQUAL(json_array_size(json_object_get(json, "devices")), 0);
}

/* Memory moved by mremap(2) keeps its identity, and growing by small steps makes nothing new. */
static void check_one_object(const char *program, const char *call, int64_t times,
			     int64_t unmapped)
{
	AUTO_TEXT *folder = NULL;
	json_t *json, *buffer;

	if (!may_point("syscalls"))
		return;
	folder = folder_make();
	json = report_of_points(folder, program);
	buffer = buffer_of(json, NAME);
	CHECK_EQUAL(integer_of(buffer, "minor"), TRACED_PAGES);
	CHECK_EQUAL(integer_of(json_object_get(buffer, "calls"), call), times);
	CHECK_EQUAL(integer_of(json_object_get(buffer, "calls"), "munmap"), unmapped);
	CHECK_EQUAL(integer_of(json_object_get(json, "totals"), "unattributed"), 0);
	json_decref(json);
}

static void test_moved(void)
{
	check_one_object("moved", "mremap", 1, 0);
}

static void test_steps(void)
{
	check_one_object("steps", "mprotect", TRACED_PAGES / TRACED_STEP, 1);
}

/* Memory mapped below is a new object, whether the call was seen or not. */
static void test_extended(void)
{
	json_t *json;
	int points;

	need_trace();
	for (points = 0; points < 2; points++) {
		AUTO_TEXT *folder = folder_make();

		trace_with(folder, "extended_below", 0, points);
		json = report(folder);
		CHECK_EQUAL(integer_of(buffer_of(json, NAME), "minor"), TRACED_PAGES);
		json_decref(json);
	}
}

/* Larger memory in the place of other, which nothing but the call tells. */
static void test_over(void)
{
	AUTO_TEXT *folder = NULL;
	AUTO(json_t) *json = NULL;

	if (!may_point("syscalls"))
		return;
	folder = folder_make();
	json = report_of_points(folder, "extended_over");
	CHECK_EQUAL(integer_of(buffer_of(json, NAME), "minor"), TRACED_PAGES / 2);
	CHECK_EQUAL(integer_of(buffer_of(json, "40 MiB of memory"), "minor"), TRACED_PAGES / 2);
}

static const json_t *lane_of(const json_t *json, const char *name)
{
	json_t *lane;
	size_t i;

	json_array_foreach(json_object_get(json, "lanes"), i, lane)
	{
		if (!strcmp(string_of(lane, "name"), name))
			return json_object_get(lane, "spans");
	}
	test_fail(__FILE__, __LINE__, "there is no lane %s", name);
	return NULL;
}

#define EVICTED "weights: 1 MiB evicted to system memory, asked for by traced_evict"

static void check_use(const json_t *use)
{
	/* The first fault, and one a page that is sampled. */
	CHECK_EQUAL(integer_of(use, "faults"), 1 + TRACED_DEVICE_SAMPLES);
	CHECK_EQUAL(integer_of(use, "accesses"), TRACED_DEVICE_SAMPLES);
	CHECK_EQUAL(integer_of(use, "moves"), 2);
	CHECK_EQUAL(integer_of(use, "evictions"), 1);
	CHECK_EQUAL(integer_of(use, "bytes_moved"), 3 * TRACED_DEVICE_PAGES * 4096);
}

static const json_t *site_of(const json_t *json, const char *what, const char *place)
{
	json_t *site;
	size_t i;

	json_array_foreach(json_object_get(json, "device_sites"), i, site)
	{
		const char *to = json_string_value(json_object_get(site, "place"));

		if (!strcmp(string_of(site, "what"), what) && (!place || !strcmp(to, place)))
			return site;
	}
	test_fail(__FILE__, __LINE__, "no call site of a device's %s", what);
	return NULL;
}

/* Each was asked for in a function of traced_device.c's, through the library or by a touch. */
static void check_asker(const json_t *json, const char *what, const char *place, int64_t n,
			const char *function)
{
	const json_t *site = site_of(json, what, place);
	const char *found;

	if (!site)
		return;
	found = string_of(site, "function");
	CHECK(!strcmp(string_of(site, "by"), "code"));
	CHECK_EQUAL(integer_of(site, "n"), n);
	/* The compiler adds a suffix to the name of a variant, which begins with a dot. */
	if (strncmp(found, function, strlen(function)) != 0 ||
	    (found[strlen(function)] && found[strlen(function)] != '.'))
		test_fail(__FILE__, __LINE__, "%s: asked for by %s, not %s", what, found,
			  function);
	CHECK(!strcmp(string_of(site, "file"), "traced_device.c"));
}

/* hetsim tells of buffers by numbers, and its engine is a thread of the kernel's. */
static void test_device(void)
{
	const json_t *device, *spans;
	AUTO_TEXT *folder = NULL;
	json_t *json, *buffer;
	size_t i;

	if (!may_point("hetsim"))
		return;
	folder = folder_make();
	json = report_of_points(folder, "device");
	CHECK_EQUAL(json_array_size(json_object_get(json, "devices")), 1);
	device = json_array_get(json_object_get(json, "devices"), 0);
	CHECK(!strcmp(string_of(device, "name"), "hetsim0"));
	check_use(device);
	CHECK_EQUAL(integer_of(device, "submitted"), TRACED_DEVICE_JOBS);
	CHECK_EQUAL(integer_of(device, "completed"), TRACED_DEVICE_JOBS);
	CHECK_EQUAL(integer_of(device, "failed"), 0);
	CHECK_EQUAL(integer_of(device, "losses"), 0);
	CHECK(integer_of(json_object_get(device, "job"), "p50_ns") > 0);
	buffer = buffer_of(json, "weights");
	CHECK(!strcmp(string_of(buffer, "device"), "sim:0"));
	check_use(json_object_get(buffer, "on_device"));
	check_asker(json, "move", "system", 1, "traced_move");
	check_asker(json, "move", "vram", 1, "traced_move");
	check_asker(json, "eviction", "system", 1, "traced_evict");
	check_asker(json, "access", NULL, TRACED_DEVICE_SAMPLES, "traced_device");
	spans = lane_of(json, "hetsim0 moves");
	CHECK_EQUAL(json_array_size(spans), 3);
	CHECK(!strncmp(json_string_value(json_array_get(json_array_get(spans, 2), 2)), EVICTED,
		       strlen(EVICTED)));
	spans = lane_of(json, "hetsim0 queue 1");
	CHECK_EQUAL(json_array_size(spans), TRACED_DEVICE_JOBS);
	for (i = 0; i < json_array_size(spans); i++)
		CHECK(json_integer_value(json_array_get(json_array_get(spans, i), 0)) <
		      json_integer_value(json_array_get(json_array_get(spans, i), 1)));
	json_decref(json);
}

static const struct test tests[] = {
	{ "access", test_access, 60, TEST_ONCE },
	{ "no_tracepoints", test_no_tracepoints, 60, TEST_ONCE },
	{ "moved", test_moved, 60, TEST_ONCE },
	{ "extended", test_extended, 60, TEST_ONCE },
	{ "over", test_over, 60, TEST_ONCE },
	{ "steps", test_steps, 60, TEST_ONCE },
	{ "device", test_device, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(trace_tests_main, "trace_points", tests)
