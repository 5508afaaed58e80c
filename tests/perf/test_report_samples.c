// SPDX-License-Identifier: MIT
/*
 * hetmap report on recordings that only sample the page faults: numbers by their periods, and no
 * figure that needs each fault.
 */
#include "perf/written_trace.h"

/* A page of MEMORY, as the only event's sample; @period 0: it does not tell. */
static void put_sample(struct written *written, uint64_t page, uint64_t period)
{
	struct {
		struct perf_event_header header;
		uint64_t identifier, ip;
		uint32_t pid, tid;
		uint64_t time, address;
		uint32_t cpu, reserved;
		uint64_t last[2];
	} record = {
		.header = { .type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_USER },
		.identifier = written->events[TRACE_FAULT].id,
		.ip = CODE,
		.pid = PID,
		.tid = PID,
		.time = written->time += 10,
		.address = MEMORY + page * PAGE,
		.last = { period },
	};

	/* Behind the period is a call chain, of no address. */
	record.header.size = (uint16_t)((char *)&record.last[period ? 2 : 1] - (char *)&record);
	CHECK_OK(record_write(&written->recorder, &record, record.header.size));
}

/* How the event is opened, in the trace's file. */
static void set_attr(const struct written *written, uint64_t period, bool freq)
{
	AUTO_TEXT *path = folder_path(written->folder, "trace/perf.data");
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct perf_data_attr attr;
	struct perf_data_head head;

	CHECK_FATAL(fd >= 0 && pread(fd, &head, sizeof(head), 0) == sizeof(head));
	CHECK(pread(fd, &attr, sizeof(attr), (off_t)head.attrs.offset) == sizeof(attr));
	attr.attr.sample_period = period;
	attr.attr.freq = freq;
	if (freq)
		attr.attr.sample_type |= PERF_SAMPLE_PERIOD;
	CHECK(pwrite(fd, &attr, sizeof(attr), (off_t)head.attrs.offset) == sizeof(attr));
	close(fd);
}

/* Samples, 100 faults each, of pages in order: of which they say nothing. */
static void check_samples(bool freq)
{
	AUTO(written) written = { 0 };
	json_t *json, *buffer;
	uint64_t i;
	char *text;

	begin(&written);
	put_memory(&written);
	for (i = 0; i < SOME_FAULTS; i++)
		put_sample(&written, i, freq ? 100 : 0);
	finish(&written, json_pack("{s:{s:f, s:f}}", "costs", "anon_fault_ns", 500000.0,
				   "anon_populate_ns", 500.0));
	set_attr(&written, freq ? 4000 : 100, freq);
	json = json_of(&written);
	buffer = json_array_get(json_object_get(json, "buffers"), 0);
	CHECK(json_is_true(json_object_get(json, "sampled")));
	CHECK_EQUAL(faults_of(json), 100 * SOME_FAULTS);
	CHECK_EQUAL(integer_of(buffer, "faults"), 100 * SOME_FAULTS);
	CHECK(!strcmp(string_of(buffer, "pattern"), ""));
	CHECK(json_is_null(json_object_get(buffer, "time_ns")));
	CHECK_EQUAL(integer_of(json_array_get(json_object_get(json, "sites"), 0), "faults"),
		    100 * SOME_FAULTS);
	CHECK(misses(json, "40 samples stand for 4,000 faults"));
	CHECK_EQUAL(json_array_size(json_object_get(json, "advice")), 0);
	CHECK(strstr(string_of(json, "advice_unknown"), "perf record -c 1"));
	json_decref(json);
	text = report_as(&written, NULL);
	CHECK(strstr(text, "about 4,000 page faults"));
	CHECK(!strstr(text, "sequential"));
	free(text);
	text = report_as(&written, "--folded");
	CHECK(strstr(text, " 4000\n"));
	free(text);
}

static void test_every_so_manieth(void)
{
	check_samples(false);
}

static void test_by_frequency(void)
{
	check_samples(true);
}

/* Each fault's line, with its period as perf script prints it. */
static void check_text(const char *first, const char *others, uint64_t faults, bool told)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "script"), *text = NULL;
	const struct command command = { .args = { "report", "--json", "--perf-script",
						   path } };
	size_t length = 0, i;
	FILE *out = open_memstream(&text, &length);
	json_t *json, *buffer;

	CHECK_FATAL(out != NULL);
	fputs("a 7/7 10.000000000: PERF_RECORD_MMAP2 7/7: [0x10000000(0x200000) @ 0 "
	      "00:00 0 0]: rw-p //anon\n",
	      out);
	for (i = 0; i < SOME_FAULTS; i++)
		fprintf(out, "a 7/7 10.%09zu: %s page-faults: %zx [unknown] (//anon)\n",
			100 + i, i ? others : first, (size_t)0x10000000 + i * 4096);
	fclose(out);
	file_write(folder, "script", text, length);
	json = command_json(&command, 0);
	buffer = json_array_get(json_object_get(json, "buffers"), 0);
	CHECK_EQUAL(faults_of(json), faults);
	CHECK_EQUAL(json_is_null(json_object_get(json, "sampled")), !told);
	CHECK_EQUAL(json_is_true(json_object_get(json, "sampled")), faults != SOME_FAULTS);
	CHECK(!strcmp(string_of(buffer, "pattern"),
		      told && faults == SOME_FAULTS ? "sequential" : ""));
	CHECK(told || misses(json, "perf script -F with period"));
	json_decref(json);
}

static void test_text(void)
{
	check_text("1", "1", SOME_FAULTS, true);
	check_text("1", "7", 1 + 7 * (SOME_FAULTS - 1), true);
	check_text("", "", SOME_FAULTS, false);
}

/* Records left out by a filter were not lost to a full ring. */
static void test_filtered(void)
{
	struct {
		struct perf_event_header header;
		uint64_t lost;
		struct trace_trailer trailer;
	} record = { .header.misc = PERF_RECORD_LOST_TO_FILTER, .lost = 12 };
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;

	begin(&written);
	put_memory(&written);
	put(&written, &record, PERF_RECORD_LOST_SAMPLES, offsetof(typeof(record), trailer),
	    PID);
	put_faults(&written);
	finish(&written, json_object());
	json = json_of(&written);
	CHECK_EQUAL(integer_of(json_object_get(json, "totals"), "lost"), 0);
	CHECK(misses(json, "12 records were left out by the filter"));
}

static const struct test tests[] = {
	{ "every_so_manieth", test_every_so_manieth, 60, TEST_ONCE },
	{ "by_frequency", test_by_frequency, 60, TEST_ONCE },
	{ "text", test_text, 60, TEST_ONCE },
	{ "filtered", test_filtered, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_samples", tests)
