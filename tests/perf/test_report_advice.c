// SPDX-License-Identifier: MIT
/*
 * The advice of hetmap report where programs wait for storage: recordings are written here, as perf
 * script prints them, so that each time in them is known.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../tools/common/command.h"
#include "../../tools/perf/record/storage.h"
#include "../../tools/perf/report/report.h"
#include "lib/command.h"

#define FAULTS 64
#define BASE UINT64_C(0x10000000)
#define BYTES ((uint64_t)FAULTS * 64 * 1024)
#define MS UINT64_C(1000000)

struct story {
	const char *file;
	uint64_t wait_ns, work_ns; /* of each fault, and between two */
	bool scattered;
	bool uneven; /* irregular steps, as if the kernel mapped the pages around */
	bool major;
	unsigned int threads; /* take turns at the file, each on its own */
};

static void tell(FILE *out, uint64_t ns, unsigned int thread, const char *event, uint64_t at)
{
	fprintf(out, "a 7/%u %" PRIu64 ".%09" PRIu64 ": 1 %s:u: %" PRIx64 " [unknown] (/a)\n",
		7 + thread, 10 + ns / 1000000000, ns % 1000000000, event, at);
}

/* @how: "IN", "OUT", "OUT preempt". */
static void tell_switch(FILE *out, uint64_t ns, unsigned int thread, const char *how)
{
	fprintf(out, "a 7/%u %" PRIu64 ".%09" PRIu64 ": PERF_RECORD_SWITCH %s\n", 7 + thread,
		10 + ns / 1000000000, ns % 1000000000, how);
}

static FILE *begin_story(char **text, size_t *length, uint64_t bytes, const char *file)
{
	FILE *out = open_memstream(text, length);

	CHECK_FATAL(out != NULL);
	fprintf(out, "a 7/7 10.000000000: PERF_RECORD_COMM exec: a:7/7\n");
	fprintf(out,
		"a 7/7 10.000001000: PERF_RECORD_MMAP2 7/7: [0x%" PRIx64 "(0x%" PRIx64
		") @ 0 fe:00 12 34]: r--s %s\n",
		BASE, bytes, file);
	return out;
}

static void write_story(const char *folder, const struct story *story)
{
	AUTO_TEXT *text = NULL;
	size_t length = 0;
	FILE *out = begin_story(&text, &length, BYTES * story->threads, story->file);
	static const unsigned int steps[] = { 16, 9, 16, 5, 12, 16, 7 };
	uint64_t ns = 2000, pages = 0;
	unsigned int i, t;

	for (i = 0; i < FAULTS; i++) {
		pages = story->uneven    ? pages + steps[i % 7] :
			story->scattered ? i * 37 % FAULTS * 16 :
					   i * 16ull;
		for (t = 0; t < story->threads; t++)
			tell(out, ns + t, t, "page-faults", BASE + t * BYTES + pages * 4096);
		ns += story->wait_ns;
		for (t = 0; t < story->threads; t++)
			tell(out, ns + t, t, story->major ? "major-faults" : "minor-faults",
			     BASE + t * BYTES + pages * 4096);
		ns += story->work_ns;
	}
	fclose(out);
	file_write(folder, "script", text, length);
}

static json_t *report_on(const char *folder)
{
	AUTO_TEXT *path = folder_path(folder, "script");
	const struct command command = { .args = { "report", "--json", "--perf-script",
						   path } };
	json_t *json;

	json = command_json(&command, 0);
	CHECK_FATAL(json != NULL);
	return json;
}

/* Checks the advice for the script in @folder. @gain_ms: expected, within 2 %; below 0: unknown. */
static void check_gain(const char *folder, const char *words, int64_t gain_ms)
{
	json_t *json = report_on(folder), *advice, *gain;
	int64_t ns;

	advice = json_object_get(json, "advice");
	CHECK_FATAL(json_array_size(advice) == 1);
	advice = json_array_get(advice, 0);
	CHECK_HAS(string_of(advice, "text"), words);
	gain = json_object_get(advice, "gain_ns");
	if (gain_ms < 0) {
		CHECK(json_is_null(gain));
	} else {
		ns = json_integer_value(gain);
		CHECK(ns > gain_ms * (int64_t)MS * 98 / 100);
		CHECK(ns < gain_ms * (int64_t)MS * 102 / 100);
		/* A text doesn't tell the best rate of the storage. */
		CHECK(json_is_true(json_object_get(advice, "at_most")));
	}
	json_decref(json);
}

static void check_advised(const struct story *story, const char *words, int64_t gain_ms)
{
	AUTO_TEXT *folder = folder_make();

	write_story(folder, story);
	check_gain(folder, words, gain_ms);
}

static void check_nothing(const struct story *story)
{
	AUTO_TEXT *folder = folder_make();
	AUTO(json_t) *json = NULL;

	write_story(folder, story);
	json = report_on(folder);
	CHECK_EQUAL(json_array_size(json_object_get(json, "advice")), 0);
}

/* The kernel calls few of them major: most find the read under way. */
static void test_waits(void)
{
	const struct story minor = {
		.file = "/srv/weights", .wait_ns = 8 * MS, .work_ns = 10 * MS, .threads = 1
	};
	struct story story = minor;

	check_advised(&story, "read ahead of the use", FAULTS * 8);
	story.major = true;
	check_advised(&story, "read ahead of the use", FAULTS * 8);
	/* Two at the same time wait no longer than one. */
	story.threads = 2;
	check_advised(&story, "read ahead of the use", FAULTS * 8);
	story.threads = 1;
	story.uneven = true;
	check_advised(&story, "read ahead of the use", FAULTS * 8);
	story.uneven = false;
	story.scattered = true;
	check_advised(&story, "announce the ranges of a batch", -1);
}

static void test_no_waits(void)
{
	struct story story = {
		.file = "/srv/weights", .wait_ns = 5000, .work_ns = 10 * MS, .threads = 1
	};

	check_nothing(&story);
	/* Long, and in memory: the thread waited for a CPU. */
	story.wait_ns = 8 * MS;
	story.file = "/memfd:weights (deleted)";
	check_nothing(&story);
	/* The program has no other work: only larger reads can help. */
	story.file = "/srv/weights";
	story.wait_ns = 100 * MS;
	story.work_ns = 1000;
	story.scattered = false;
	check_advised(&story, "read ahead of the use", FAULTS * 100);
}

/* ---- when threads run ---- */

#define NOBODY UINT_MAX

/* A fault of @thread, which sleeps in it for @wait_ns; @other has its CPU taken meanwhile. */
static uint64_t tell_wait(FILE *out, uint64_t ns, unsigned int thread, unsigned int page,
			  unsigned int other, uint64_t wait_ns)
{
	uint64_t at = BASE + (uint64_t)page * 64 * 1024, end = ns + wait_ns;

	tell(out, ns, thread, "page-faults", at);
	tell_switch(out, ns + 1000, thread, "OUT");
	if (other != NOBODY) {
		tell_switch(out, ns + 2000, other, "OUT preempt");
		tell_switch(out, end - 3000, other, "IN");
	}
	tell_switch(out, end - 2000, thread, "IN");
	tell(out, end - 1000, thread, "minor-faults", at);
	return end;
}

/*
 * The first half of a file is read by one thread for another one, which has touched it and
 * sleeps meanwhile, and then reads the other half.
 */
static void write_baton(FILE *out)
{
	uint64_t ns = tell_wait(out, 2000, 0, 0, NOBODY, 8 * MS);
	unsigned int i;

	tell_switch(out, ns, 0, "OUT");
	for (i = 1; i < FAULTS / 2; i++)
		ns = tell_wait(out, ns, 1, i, NOBODY, 8 * MS) + 2 * MS;
	tell_switch(out, ns, 1, "OUT");
	tell_switch(out, ns, 0, "IN");
	for (; i < FAULTS; i++)
		ns = tell_wait(out, ns, 0, i, NOBODY, 8 * MS) + 2 * MS;
}

/* While one waits the other one is at work, or would be if it had a CPU: nothing to gain. */
static void write_both(FILE *out, bool preempted)
{
	unsigned int i, thread;
	uint64_t ns = 2000;

	tell_switch(out, ns, 1, "IN");
	for (i = 0; i < FAULTS; i++) {
		thread = i % 2;
		ns = tell_wait(out, ns, thread, thread * FAULTS + i / 2,
			       preempted ? !thread : NOBODY, 8 * MS);
	}
}

static void write_working(FILE *out)
{
	write_both(out, false);
}

static void write_preempted(FILE *out)
{
	write_both(out, true);
}

static void test_threads(void)
{
	static const struct {
		void (*write)(FILE *);
		int64_t gain_ms;
	} stories[] = {
		{ write_baton, FAULTS * 8 },
		{ write_working, 0 },
		{ write_preempted, 0 },
	};
	char *folder, *text = NULL;
	size_t length = 0, i;
	json_t *json;
	FILE *out;

	for (i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
		folder = folder_make();
		out = begin_story(&text, &length, 2 * BYTES, "/srv/weights");
		stories[i].write(out);
		fclose(out);
		file_write(folder, "script", text, length);
		free(text);
		if (stories[i].gain_ms) {
			check_gain(folder, "read ahead of the use", stories[i].gain_ms);
		} else {
			json = report_on(folder);
			CHECK_EQUAL(json_array_size(json_object_get(json, "advice")), 0);
			json_decref(json);
		}
		folder_remove(folder);
	}
}

/* ---- rates of storage ---- */

static void test_storage(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");
	AUTO_TEXT *none = folder_path(folder, "none"), *small = folder_path(folder, "small");
	double rate = 17;
	struct stat st;
	int fd, r;

	file_write(folder, "small", "a", 1);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_FATAL(fd >= 0);
	CHECK_OK(ftruncate(fd, 32 << 20));
	CHECK_OK(fstat(fd, &st));
	close(fd);
	CHECK_EQUAL(storage_measure(none, 0, &rate), -ENOENT);
	r = storage_measure(small, 0, &rate);
	CHECK_EQUAL(r, -EOPNOTSUPP);
	r = storage_measure(path, st.st_ino + 1, &rate);
	CHECK(r == -ESTALE || r == -EOPNOTSUPP);
	r = storage_measure(folder, 0, &rate);
	CHECK(r == -ESTALE || r == -EOPNOTSUPP || r == -EISDIR);
	CHECK(rate == 17);
	/* A file system of memory, or one over a network, may have no direct I/O. */
	r = storage_measure(path, st.st_ino, &rate);
	CHECK(r == -EOPNOTSUPP || (!r && rate > 0 && rate < 1000));
}

/* Stands for reading it. */
static int fake_measure(const char *path, uint64_t inode, double *ret_bytes_per_ns)
{
	(void)inode;
	if (strstr(path, "bad"))
		return -EOPNOTSUPP;
	*ret_bytes_per_ns = 3;
	return 0;
}

/* Each device is measured once, and some files at most. */
static void test_devices(void)
{
	AUTO_TEXT *folder = folder_make(), *good = folder_path(folder, "good");
	AUTO_TEXT *bad = folder_path(folder, "bad");
	struct storage_rates rates = { .measure = fake_measure };
	double rate = 17;
	unsigned int i;

	file_write(folder, "good", "a", 1);
	file_write(folder, "bad", "a", 1);
	/* One that can't tell is none for another one beside it. */
	CHECK_EQUAL(storage_rate(&rates, bad, 0, &rate), -EOPNOTSUPP);
	CHECK(rate == 17);
	CHECK_EQUAL(storage_rate(&rates, good, 0, &rate), 0);
	CHECK(rate == 3);
	rate = 17;
	CHECK_EQUAL(storage_rate(&rates, bad, 0, &rate), 0);
	CHECK(rate == 3);
	CHECK_EQUAL(rates.n_measured, 2);
	/* A file of another device, which has no rate. */
	rates.known[0].device++;
	for (i = rates.n_measured; i < STORAGE_MEASURED_MOST; i++)
		CHECK_EQUAL(storage_rate(&rates, bad, 0, &rate), -EOPNOTSUPP);
	CHECK_EQUAL(storage_rate(&rates, good, 0, &rate), -EAGAIN);
	CHECK_EQUAL(rates.n_measured, STORAGE_MEASURED_MOST);
}

/* ---- files that are written ---- */

/* One that is mapped with @rights, and each page touched in order; so many faults are told. */
static void check_mapped_in(const char *rights, uint64_t reads, uint64_t writes, bool advised)
{
	const struct measures measures = { 0 };
	struct report report = {
		.costs = { .anon_fault = 1, .file_fault = 1e6, .file_populate = 1 }
	};
	char *at;
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "script"), *text = NULL;
	size_t length = 0, i;
	FILE *out = begin_story(&text, &length, BYTES, "/srv/weights");

	for (i = 0; i < FAULTS; i++) {
		tell(out, 2000 + i * MS, 0, "page-faults", BASE + i * 4096);
		tell(out, 2000 + i * MS + MS / 20, 0, "minor-faults", BASE + i * 4096);
	}
	fclose(out);
	at = strstr(text, "r--s");
	CHECK_FATAL(at != NULL);
	memcpy(at, rights, 4);
	file_write(folder, "script", text, length);
	output.quiet = true;
	CHECK_EQUAL(analysis_read(path, ANALYSIS_TEXT, NULL, &report.analysis), 0);
	CHECK_FATAL(report.analysis.n_counted == 1);
	report.analysis.counted[0]->reads = reads;
	report.analysis.counted[0]->writes = writes;
	CHECK_OK(advice_find(&report, &measures));
	CHECK_EQUAL(report.n_advice, advised ? 1 : 0);
	for (i = 0; i < report.n_advice; i++) {
		CHECK(strstr(report.advice[i].text, "map it in by one call") != NULL);
		free(report.advice[i].text);
		free(report.advice[i].evidence);
	}
	free(report.advice);
	analysis_free(&report.analysis);
}

/* By the accesses to it, and where those are not known, by its rights. */
static void test_written(void)
{
	check_mapped_in("r--s", 0, 0, true);
	check_mapped_in("r--p", 0, 0, true);
	check_mapped_in("rw-s", 0, 0, false);
	check_mapped_in("rw-p", 0, 0, false);
	check_mapped_in("rw-p", FAULTS - 2, 2, true);
	check_mapped_in("rw-s", FAULTS / 2, FAULTS / 2, false);
	/* Some accesses say nothing of the rest. */
	check_mapped_in("rw-s", 3, 0, false);
	check_mapped_in("r--s", 0, 3, true);
}

/* ---- unknown values ---- */

/* Faults of which only the beginning is told: in @folder. */
static void write_untimed(const char *folder)
{
	AUTO_TEXT *text = NULL;
	size_t length = 0;
	FILE *out = begin_story(&text, &length, BYTES, "/srv/weights");
	unsigned int i;

	for (i = 0; i < FAULTS; i++)
		tell(out, 2000 + i * MS, 0, "page-faults", BASE + i * 4096ull);
	fclose(out);
	file_write(folder, "script", text, length);
}

static void check_untimed(const json_t *of)
{
	CHECK_EQUAL(integer_of(of, "faults"), FAULTS);
	CHECK(json_is_null(json_object_get(of, "minor")));
	CHECK(json_is_null(json_object_get(of, "major")));
	CHECK(json_is_null(json_object_get(of, "time_ns")));
}

/* Where nothing was computed it is not said that nothing would gain. */
static void test_unknown(void)
{
	const struct story story = {
		.file = "/srv/weights", .wait_ns = 5000, .work_ns = 10 * MS, .threads = 1
	};
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "script");
	const struct command command = { .args = { "report", "--perf-script", path } };
	AUTO(outcome) outcome = { 0 };
	json_t *json;
	int timed;

	for (timed = 0; timed < 2; timed++) {
		if (timed)
			write_story(folder, &story);
		else
			write_untimed(folder);
		CHECK_RUN(0, &outcome, &command);
		CHECK(!strstr(outcome.out, "None"));
		CHECK(strstr(outcome.out, timed ? "The gain of fewer faults is not known" :
						  "Gains are not known") != NULL);
		json = report_on(folder);
		CHECK(strstr(string_of(json, "advice_unknown"), ": hetmap trace "));
		json_decref(json);
	}
}

static void test_untimed(void)
{
	AUTO_TEXT *folder = folder_make();
	json_t *json, *site;

	write_untimed(folder);
	json = report_on(folder);
	check_untimed(json_array_get(json_object_get(json, "buffers"), 0));
	check_untimed(json_object_get(json, "totals"));
	site = json_array_get(json_object_get(json, "sites"), 0);
	CHECK_EQUAL(integer_of(site, "faults"), FAULTS);
	CHECK(json_is_null(json_object_get(site, "time_ns")));
	json_decref(json);
}

/* Microseconds of two hours are more than a column of the page holds. */
static void test_long(void)
{
	const struct story story = {
		.file = "/srv/weights", .wait_ns = MS, .work_ns = 120000 * MS, .threads = 1
	};
	AUTO_TEXT *folder = folder_make(), *path = NULL;
	struct command command = { .args = { "report", "--html", "-", "--perf-script" } };
	AUTO(outcome) outcome = { 0 };

	write_story(folder, &story);
	path = folder_path(folder, "script");
	command.args[4] = path;
	CHECK_RUN(0, &outcome, &command);
	CHECK(strstr(outcome.out, "\"time_unit_us\":2,") != NULL);
}

/* ---- the owner of a stall ---- */

#define OTHER (BASE + BYTES)

/* A stall of process @pid, asleep throughout; *ns: its begin, and then its end. */
static void tell_stall(FILE *out, uint32_t pid, uint64_t at, uint64_t wait, uint64_t *ns)
{
	static const struct {
		const char *what;
		bool waits; /* behind it */
	} told[] = {
		{ "1 page-faults:u: ", false },
		{ "PERF_RECORD_SWITCH OUT", true },
		{ "PERF_RECORD_SWITCH IN", false },
		{ "1 major-faults:u: ", false },
	};
	unsigned int i;

	for (i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		fprintf(out, "a %u/%u %" PRIu64 ".%09" PRIu64 ": %s", pid, pid,
			10 + *ns / 1000000000, *ns % 1000000000, told[i].what);
		if (strchr(told[i].what, ':'))
			fprintf(out, "%" PRIx64 " [unknown] (/a)", at);
		fputc('\n', out);
		*ns += told[i].waits ? wait : 1000;
	}
}

static int64_t gain_on(const json_t *json, const char *name)
{
	const json_t *advice = json_object_get(json, "advice"), *one;
	size_t i;

	for (i = 0; i < json_array_size(advice); i++) {
		one = json_array_get(advice, i);
		if (strstr(string_of(one, "text"), name))
			return json_integer_value(json_object_get(one, "gain_ns"));
	}
	test_fail(__FILE__, __LINE__, "nothing is advised of %s", name);
	return 0;
}

/* A file's waits are its own: neither the other one's, nor its first process's. */
static void test_whose(void)
{
	AUTO_TEXT *folder = folder_make(), *text = NULL;
	uint64_t ns = 2000;
	size_t length = 0;
	FILE *out = begin_story(&text, &length, BYTES, "/srv/short");
	unsigned int i;
	AUTO(json_t) *json = NULL;

	fprintf(out,
		"a 7/7 10.000001000: PERF_RECORD_MMAP2 7/7: [0x%" PRIx64 "(0x%" PRIx64
		") @ 0 fe:00 12 35]: r--s /srv/long\n",
		OTHER, BYTES);
	for (i = 0; i < FAULTS; i++) {
		uint64_t page = i * UINT64_C(65536);
		uint32_t pid = i < FAULTS / 2 ? 7 : 8;

		if (i == FAULTS / 2)
			fprintf(out,
				"a 7/7 %" PRIu64 ".%09" PRIu64
				": PERF_RECORD_FORK(8:8):(7:7)\n",
				10 + ns / 1000000000, ns % 1000000000);
		tell_stall(out, pid, BASE + page, 2 * MS, &ns);
		tell_stall(out, pid, OTHER + page, 8 * MS, &ns);
		ns += 10 * MS;
	}
	fclose(out);
	file_write(folder, "script", text, length);
	json = report_on(folder);
	CHECK(llabs(gain_on(json, "/srv/short") - FAULTS * 2 * (int64_t)MS) <
	      (int64_t)(3 * MS));
	CHECK(llabs(gain_on(json, "/srv/long") - FAULTS * 8 * (int64_t)MS) < (int64_t)(3 * MS));
}

static const struct test tests[] = {
	{ "waits", test_waits, 60, TEST_ONCE },
	{ "no_waits", test_no_waits, 60, TEST_ONCE },
	{ "threads", test_threads, 60, TEST_ONCE },
	{ "whose", test_whose, 60, TEST_ONCE },
	{ "storage", test_storage, 60, TEST_ONCE },
	{ "devices", test_devices, 60, 0 },
	{ "written", test_written, 60, TEST_ONCE },
	{ "unknown", test_unknown, 60, TEST_ONCE },
	{ "untimed", test_untimed, 60, TEST_ONCE },
	{ "long", test_long, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_advice", tests)
