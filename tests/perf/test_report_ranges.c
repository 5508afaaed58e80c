// SPDX-License-Identifier: MIT
/* Ranges of a published table in hetmap report: rows, and advice. */
#include "perf/written_trace.h"

#define MS UINT64_C(1000000)
/* The byte of a table's file at which its ranges begin. */
#define RANGES_AT (HM_PUBLISHED_FIRST + 2 * PAGE)

/* 512 pages of MEMORY that soft:0 had so many faults on, of so many ns each. */
static struct hm_published_range faulted(uint64_t faults, uint64_t ns)
{
	return (struct hm_published_range){
		.sequence = 2,
		.start = MEMORY,
		.end = MEMORY + MEMORY_BYTES,
		.first_ns = 2000,
		.last_ns = 3000,
		.faults = faults,
		.fault_pages = faults,
		.fault_ns = faults * ns,
		.accel = "soft:0",
	};
}

static void put_table(const struct written *written, const struct hm_published_range *ranges,
		      uint64_t n)
{
	const struct hm_published_head head = {
		.magic = HM_PUBLISHED_MAGIC,
		.version = HM_PUBLISHED_VERSION,
		.entry_size = sizeof(struct hm_published_entry),
		.pid = PID,
		.range_first = RANGES_AT,
		.range_size = sizeof(*ranges),
		.n_range = n,
		.ranges_used = n,
	};
	size_t length = RANGES_AT + n * sizeof(*ranges);
	AUTO_TEXT *bytes = calloc(1, length);

	CHECK_FATAL(bytes != NULL);
	memcpy(bytes, &head, sizeof(head));
	memcpy(bytes + RANGES_AT, ranges, n * sizeof(*ranges));
	file_write(written->trace.path, "maps/maps.7", bytes, length);
}

/* A program that ran for a second, and its ranges; @prefetch_ns of a page, 0: not known. */
static void write_trace(struct written *written, const struct hm_published_range *ranges,
			uint64_t n, double prefetch_ns)
{
	const uint64_t code = CODE + 0x10;
	json_t *about = json_pack("{s:I, s:I}", "begin_ns", (json_int_t)1000, "end_ns",
				  (json_int_t)(1000 + 1000 * MS));

	begin(written);
	put_program(written, "/p.so", code, "ranges");
	written->time += 10 * MS;
	put_fault(written, PID, MEMORY + PAGE, 1, &code);
	put_table(written, ranges, n);
	if (prefetch_ns > 0)
		json_object_set_new(about, "prefetch_page_ns_soft:0", json_real(prefetch_ns));
	finish(written, about);
}

/* The only advice on ranges; NULL: none. */
static const json_t *advice_in(const json_t *json)
{
	const json_t *advice, *found = NULL;
	size_t i;

	json_array_foreach(json_object_get(json, "advice"), i, advice)
	{
		if (!strstr(string_of(advice, "text"), "hm_range_"))
			continue;
		CHECK(!found);
		found = advice;
	}
	return found;
}

static void check_none(const struct hm_published_range *range, double prefetch_ns)
{
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;

	write_trace(&written, range, 1, prefetch_ns);
	json = json_of(&written);
	CHECK_EQUAL(json_array_size(json_object_get(json, "ranges")), 1);
	CHECK(!advice_in(json));
}

/* The gain is the time of the faults without that of a prefetch. */
static void test_prefetch(void)
{
	const struct hm_published_range range = faulted(5000, 10000);
	AUTO(written) written = { 0 };
	const json_t *advice, *row;
	AUTO(json_t) *json = NULL;
	char *text;

	write_trace(&written, &range, 1, 1000);
	json = json_of(&written);
	row = json_array_get(json_object_get(json, "ranges"), 0);
	CHECK_EQUAL(integer_of(row, "device_faults"), 5000);
	CHECK_EQUAL(integer_of(row, "device_fault_ns"), 50 * MS);
	CHECK_EQUAL(integer_of(row, "length"), MEMORY_BYTES);
	CHECK_EQUAL(integer_of(row, "buffer"), 0);
	advice = advice_in(json);
	CHECK_FATAL(advice != NULL);
	CHECK_EQUAL(integer_of(advice, "buffer"), 0);
	CHECK_EQUAL(integer_of(advice, "gain_ns"), 45 * MS);
	CHECK(json_is_false(json_object_get(advice, "at_most")));
	CHECK(strstr(string_of(advice, "text"), "hm_range_prefetch()") != NULL);
	text = report_as(&written, NULL);
	CHECK(strstr(text, "Reached by devices") != NULL);
	CHECK(strstr(text, "20000000-20200000") != NULL);
	CHECK(strstr(text, "Expected gain: about 45.0 ms") != NULL);
	free(text);
	text = report_as(&written, "--html");
	CHECK(strstr(text, "\"device_faults\":5000") != NULL);
	CHECK(strstr(text, "hm_range_prefetch()") != NULL);
	free(text);
}

/* The cost of the trace's own prefetches counts more than a measured one. */
static void test_own_prefetches(void)
{
	struct hm_published_range ranges[2] = { faulted(5000, 10000), faulted(0, 0) };
	AUTO(written) written = { 0 };
	const json_t *advice;
	AUTO(json_t) *json = NULL;

	ranges[1].start = 4 * MEMORY;
	ranges[1].end = ranges[1].start + MEMORY_BYTES;
	ranges[1].prefetched = 512;
	ranges[1].prefetch_ns = 512 * 6000;
	write_trace(&written, ranges, 2, 1000);
	json = json_of(&written);
	advice = advice_in(json);
	CHECK_FATAL(advice != NULL);
	CHECK_EQUAL(integer_of(advice, "gain_ns"), 20 * MS);
}

static void test_no_prefetch(void)
{
	struct hm_published_range range = faulted(5000, 10000);

	check_none(&range, 9000); /* 5 ms of a second */
	check_none(&range, 20000);
	range.refused = 1;
	check_none(&range, 1000);
	range.refused = 0;
	range.prefetched = 5000;
	range.wasted = 40000;
	check_none(&range, 1000);
	range = faulted(100, 10000);
	check_none(&range, 1000);
}

/* 512 pages went there three times, and came back twice. */
static void test_location(void)
{
	struct hm_published_range range = faulted(24, 1000);
	struct written written;
	const json_t *advice;
	AUTO(json_t) *json = NULL;

	range.moved_in = 3 * 512;
	range.moved_out = 2 * 512;
	range.move_ns = 60 * MS;
	write_trace(&written, &range, 1, 1000);
	json = json_of(&written);
	advice = advice_in(json);
	CHECK_FATAL(advice != NULL);
	CHECK(strstr(string_of(advice, "text"), "HM_RANGE_PREFER_HOST") != NULL);
	CHECK_EQUAL(integer_of(advice, "gain_ns"), 60 * MS);
	CHECK(json_is_true(json_object_get(advice, "at_most")));
	end(&written);

	/* A program may want to go there and back once. */
	range.moved_in = range.moved_out = 512;
	check_none(&range, 1000);
	range.moved_in = 3 * 512;
	range.moved_out = 2 * 512;
	range.move_ns = 10 * MS;
	check_none(&range, 1000);
}

/* Neighbours of one piece of memory are one range, and another accelerator's is another. */
static void test_joined(void)
{
	struct hm_published_range ranges[3] = { faulted(3, 10), faulted(4, 10),
						faulted(5, 10) };
	AUTO(written) written = { 0 };
	json_t *json, *list;

	ranges[0].start = MEMORY + 256 * PAGE;
	ranges[1].end = MEMORY + 256 * PAGE;
	snprintf(ranges[2].accel, sizeof(ranges[2].accel), "sim:0");
	write_trace(&written, ranges, 3, 0);
	json = json_of(&written);
	list = json_object_get(json, "ranges");
	CHECK_EQUAL(json_array_size(list), 2);
	CHECK_EQUAL(integer_of(json_array_get(list, 0), "device_faults"), 7);
	CHECK_EQUAL(integer_of(json_array_get(list, 0), "length"), MEMORY_BYTES);
	CHECK_EQUAL(integer_of(json_array_get(list, 1), "device_faults"), 5);
	json_decref(json);
}

/* A table is data of a stranger. */
static void test_hostile(void)
{
	struct hm_published_range ranges[3] = { faulted(3, 10), faulted(4, 10),
						faulted(5, 10) };
	AUTO(written) written = { 0 };
	AUTO_TEXT *text = NULL;

	memset(ranges[0].accel, 'a', sizeof(ranges[0].accel));
	memcpy(ranges[0].accel, HARM, 20);
	ranges[1].start = UINT64_MAX - 1;
	ranges[1].end = UINT64_MAX;
	ranges[1].last_ns = UINT64_MAX;
	ranges[2].start = ranges[2].end;
	write_trace(&written, ranges, 3, 0);
	text = report_as(&written, NULL);
	check_harmless(text);
	CHECK(strstr(text, "Reached by devices") != NULL);
}

static const struct test tests[] = {
	{ "prefetch", test_prefetch, 60, TEST_ONCE },
	{ "own_prefetches", test_own_prefetches, 60, TEST_ONCE },
	{ "no_prefetch", test_no_prefetch, 60, TEST_ONCE },
	{ "location", test_location, 60, TEST_ONCE },
	{ "joined", test_joined, 60, TEST_ONCE },
	{ "hostile", test_hostile, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_ranges", tests)
