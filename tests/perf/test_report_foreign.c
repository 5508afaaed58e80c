// SPDX-License-Identifier: MIT
/*
 * hetmap report on perf's own recordings: records of unknown kinds, of any size, compressed ones,
 * and unreadable ones.
 */
#include "perf/written_trace.h"

#ifdef HAVE_LIBZSTD
#include <zstd.h>
#endif

/* A record of a kind that means nothing, with so many bytes in it, and some behind it. */
static void put_foreign(struct written *written, uint32_t type, size_t inside, size_t behind)
{
	struct {
		struct perf_event_header header;
		uint64_t first;
		char rest[4096];
	} record = { .header = { .type = type, .size = (uint16_t)(8 + inside) } };

	memset(record.rest, 0xff, sizeof(record.rest));
	record.first = behind;
	CHECK_OK(record_write(&written->recorder, &record, 8 + inside + behind));
}

static void check_read(struct written *written, uint64_t faults, bool unknown)
{
	AUTO(json_t) *json = NULL;

	finish(written, json_object());
	json = json_of(written);
	CHECK_EQUAL(faults_of(json), faults);
	CHECK(!misses(json, "cut off"));
	CHECK_EQUAL(misses(json, "kinds that this version does not know"), unknown);
	end(written);
}

/* Each kind of today's perf that is not told, the kernel's and its own, in sizes of its own. */
static void test_kinds(void)
{
	static const uint8_t told[] = { PERF_RECORD_MMAP,         PERF_RECORD_LOST,
					PERF_RECORD_COMM,         PERF_RECORD_EXIT,
					PERF_RECORD_FORK,         PERF_RECORD_SAMPLE,
					PERF_RECORD_MMAP2,        PERF_RECORD_LOST_SAMPLES,
					PERF_RECORD_SWITCH,       PERF_RECORD_SWITCH_CPU_WIDE,
					PERF_RECORD_TRACING_DATA, PERF_RECORD_FINISHED_ROUND,
					PERF_RECORD_AUXTRACE,     PERF_RECORD_COMPRESSED,
					PERF_RECORD_COMPRESSED2 };
	struct written written;
	uint32_t type;

	begin(&written);
	put_memory(&written);
	for (type = 1; type <= PERF_RECORD_USER_LAST; type++)
		if (!memchr(told, (int)type, sizeof(told)) &&
		    (type <= PERF_RECORD_KERNEL_LAST || type >= PERF_RECORD_USER_FIRST))
			put_foreign(&written, type, 9 + type, 0);
	put_faults(&written);
	check_read(&written, SOME_FAULTS, false);
}

/* Unknown kinds are left out, and reported. */
static void test_new_kinds(void)
{
	struct written written;

	begin(&written);
	put_memory(&written);
	put_foreign(&written, PERF_RECORD_KERNEL_LAST + 1, 24, 0);
	put_foreign(&written, PERF_RECORD_USER_LAST + 1, 5, 0);
	put_foreign(&written, 4000000000, 0, 0);
	put_faults(&written);
	check_read(&written, SOME_FAULTS, true);
}

/* A record's size leaves out the data behind it; the report reads a mebibyte at a time. */
static void test_behind(void)
{
	struct written written;
	uint32_t i;

	begin(&written);
	put_memory(&written);
	put_foreign(&written, PERF_RECORD_TRACING_DATA, 4, 0);
	put_foreign(&written, PERF_RECORD_AUXTRACE, 40, 24);
	for (i = 0; i < 600; i++)
		put_foreign(&written, PERF_RECORD_AUXTRACE, 40, 3001);
	put_faults(&written);
	check_read(&written, SOME_FAULTS, false);
}

/* The user's part of a chain that comes later: a number stands for it, and no address. */
static void test_deferred(void)
{
	const uint64_t chain[] = { CODE, PERF_CHAIN_DEFERRED, CODE + PAGE + 0x10 };
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;
	AUTO_TEXT *text = NULL;

	begin(&written);
	put_memory(&written);
	put_map(&written, PID, CODE, PAGE, "/inner", true);
	put_map(&written, PID, CODE + PAGE, PAGE, "/none", true);
	put_fault(&written, PID, MEMORY, 3, chain);
	finish(&written, json_object());
	json = json_of(&written);
	CHECK_EQUAL(faults_at(json, "inner"), 1);
	text = report_as(&written, "--folded");
	CHECK(!strstr(text, "none"));
}

/* ---- compressed ---- */

#ifdef HAVE_LIBZSTD

/* Appends one record of @type to @to, with @from compressed. */
static size_t pack(ZSTD_CStream *stream, uint32_t type, const char *from, size_t length,
		   char *to, size_t room)
{
	uint64_t head = type == PERF_RECORD_COMPRESSED2 ? 16 : 8, n;
	struct perf_event_header record = { .type = type };
	ZSTD_outBuffer out = { to + head, room - head, 0 };
	ZSTD_inBuffer in = { from, length, 0 };

	CHECK(!ZSTD_isError(ZSTD_compressStream(stream, &out, &in)));
	CHECK(!ZSTD_flushStream(stream, &out));
	CHECK_FATAL(in.pos == length && out.pos + 16 < UINT16_MAX);
	n = head + out.pos;
	if (type == PERF_RECORD_COMPRESSED2) {
		memcpy(to + 8, &(uint64_t){ out.pos }, sizeof(uint64_t));
		for (; n % 8; n++)
			to[n] = 0;
	}
	record.size = (uint16_t)n;
	memcpy(to, &record, sizeof(record));
	return n;
}

/* The trace's records as perf record -z has them: in records of @type, split anywhere. */
static void pack_trace(const struct written *written, uint32_t type, bool damage)
{
	char *path = folder_path(written->folder, "trace/perf.data"), *from, *to;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ZSTD_CStream *stream = ZSTD_createCStream();
	struct perf_data_head head;
	size_t at, n, length = 0;

	CHECK_FATAL(fd >= 0 && stream && pread(fd, &head, sizeof(head), 0) == sizeof(head));
	from = malloc(head.data.size);
	to = malloc(2 * head.data.size + (1 << 16));
	CHECK_FATAL(from && to &&
		    pread(fd, from, head.data.size, (off_t)head.data.offset) ==
			    (ssize_t)head.data.size);
	ZSTD_initCStream(stream, 1);
	for (at = 0; at < head.data.size; at += n) {
		n = head.data.size - at < 1003 ? head.data.size - at : 1003;
		length += pack(stream, type, from + at, n, to + length, 1 << 16);
	}
	if (damage)
		memset(to + 16 + length / 4, 0xff, length / 8);
	ZSTD_freeCStream(stream);
	head.data.size = length;
	CHECK(pwrite(fd, to, length, (off_t)head.data.offset) == (ssize_t)length);
	CHECK_OK(ftruncate(fd, (off_t)(head.data.offset + length)));
	CHECK(pwrite(fd, &head, sizeof(head), 0) == sizeof(head));
	close(fd);
	free(from);
	free(to);
	free(path);
}

static void check_packed(uint32_t type)
{
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;
	uint32_t i;

	begin(&written);
	put_memory(&written);
	for (i = 0; i < 50; i++)
		put_faults(&written);
	finish(&written, json_object());
	pack_trace(&written, type, false);
	json = json_of(&written);
	CHECK_EQUAL(faults_of(json), 50 * SOME_FAULTS);
	CHECK(!misses(json, "cut off"));
}

static void test_packed(void)
{
	check_packed(PERF_RECORD_COMPRESSED);
}

static void test_packed_anew(void)
{
	check_packed(PERF_RECORD_COMPRESSED2);
}

static void test_packed_damaged(void)
{
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;
	uint32_t i;

	begin(&written);
	put_memory(&written);
	for (i = 0; i < 50; i++)
		put_faults(&written);
	finish(&written, json_object());
	pack_trace(&written, PERF_RECORD_COMPRESSED, true);
	json = json_of(&written);
	CHECK(faults_of(json) < 50 * SOME_FAULTS);
	CHECK(misses(json, "cut off"));
}

#else

/* A build without zstd can't read it, and has to say so and name a remedy. */
static void test_packed(void)
{
	AUTO(written) written = { 0 };
	AUTO(outcome) outcome = { 0 };

	begin(&written);
	put_memory(&written);
	put_foreign(&written, PERF_RECORD_COMPRESSED, 24, 0);
	put_faults(&written);
	finish(&written, json_object());
	CHECK_RUN(3, &outcome,
		  &(struct command){ .args = { "report", "-q", written.trace.path } });
	CHECK(strstr(outcome.err, "record it without -z, or build hetmap where libzstd-dev"));
}

#define test_packed_anew test_packed
#define test_packed_damaged test_packed

#endif

/* ---- refused and empty recordings ---- */

/* Without faults the gains are unknown, not zero. */
static void test_no_faults(void)
{
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;
	AUTO_TEXT *text = NULL;

	begin(&written);
	put_memory(&written);
	finish(&written, json_pack("{s:{s:f, s:f}}", "costs", "anon_fault_ns", 500.0,
				   "file_fault_ns", 500.0));
	json = json_of(&written);
	CHECK_EQUAL(faults_of(json), 0);
	CHECK_EQUAL(json_array_size(json_object_get(json, "advice")), 0);
	CHECK(strstr(string_of(json, "advice_unknown"), "no page faults"));
	text = report_as(&written, NULL);
	CHECK(strstr(text, "no page faults"));
	CHECK(!strstr(text, "would gain"));
}

static void check_refused(const char *path, const char *words)
{
	const struct command command = { .args = { "report", "-q", path } };
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(2, &outcome, &command);
	CHECK_HAS(outcome.err, words);
}

/* perf record --threads: the folder, and the file in it that has no samples. */
static void test_threads(void)
{
	struct perf_data_head head = { .magic = PERF_DATA_MAGIC,
				       .size = sizeof(head),
				       .attr_size = sizeof(struct perf_data_attr),
				       .features = { UINT64_C(1) << PERF_DATA_FOLDER } };
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");

	file_write(folder, "data", (const char *)&head, sizeof(head));
	check_refused(folder, "record it without --threads");
	check_refused(path, "record it without --threads");
}

static void test_other_files(void)
{
	struct perf_data_head head = { .size = sizeof(head) };
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "perf.data");

	memcpy(head.magic, PERF_DATA_MAGIC_SWAPPED, sizeof(head.magic));
	file_write(folder, "perf.data", (const char *)&head, sizeof(head));
	check_refused(path, "other byte order");
	memcpy(head.magic, PERF_DATA_MAGIC_OLD, sizeof(head.magic));
	file_write(folder, "perf.data", (const char *)&head, sizeof(head));
	check_refused(path, "before Linux 3.2");
}

static const struct test tests[] = {
	{ "kinds", test_kinds, 60, TEST_ONCE },
	{ "new_kinds", test_new_kinds, 60, TEST_ONCE },
	{ "behind", test_behind, 60, TEST_ONCE },
	{ "deferred", test_deferred, 60, TEST_ONCE },
	{ "packed", test_packed, 60, TEST_ONCE },
	{ "packed_anew", test_packed_anew, 60, TEST_ONCE },
	{ "packed_damaged", test_packed_damaged, 60, TEST_ONCE },
	{ "no_faults", test_no_faults, 60, TEST_ONCE },
	{ "threads", test_threads, 60, TEST_ONCE },
	{ "other_files", test_other_files, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_foreign", tests)
