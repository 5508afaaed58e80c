// SPDX-License-Identifier: MIT
/*
 * hetmap report on a device's tracepoints: which code asked for each action, by the call chains
 * beside them, and recordings without chains.
 */
#include "perf/written_trace.h"

#define OTHER_PID 90 /* nothing is known of it */
#define ENGINE_PID 91
#define OPENER 1
#define BUFFER 3
#define FIRST CODE
#define SECOND (CODE + PAGE)
#define LIBRARY (CODE + 2 * PAGE)
#define C_LIBRARY (CODE + 3 * PAGE)

/* Laid out like drivers/sim/sim_trace.h, all in one: a fault ignores the fields it lacks. */
struct told {
	uint64_t common;
	uint32_t device, buffer;
	uint64_t opener, page;
	uint32_t n_pages, place, evicted, reserved;
};

#define FIELDS                                                            \
	"format:\n"                                                       \
	"\tfield:unsigned int device;\toffset:8;\tsize:4;\tsigned:0;\n"   \
	"\tfield:u32 buffer;\toffset:12;\tsize:4;\tsigned:0;\n"           \
	"\tfield:u64 opener;\toffset:16;\tsize:8;\tsigned:0;\n"           \
	"\tfield:u64 page;\toffset:24;\tsize:8;\tsigned:0;\n"             \
	"\tfield:unsigned int n_pages;\toffset:32;\tsize:4;\tsigned:0;\n" \
	"\tfield:u32 place;\toffset:36;\tsize:4;\tsigned:0;\n"            \
	"\tfield:u32 evicted;\toffset:40;\tsize:4;\tsigned:0;\n"

static const struct {
	const char *format;
	enum point point;
} formats[] = {
	{ "name: fault\nID: 300\n" FIELDS, POINT_SIM_FAULT },
	{ "name: access\nID: 301\n" FIELDS, POINT_SIM_ACCESS },
	{ "name: move\nID: 302\n" FIELDS, POINT_SIM_MOVE },
};

#define N_FORMAT (sizeof(formats) / sizeof(formats[0]))

/* Nothing is opened: each has a number, and a descriptor that is none. */
static void begin_points(struct written *written, const struct record_options *wish)
{
	struct record_points *points;
	uint32_t i;

	begin_without_file(written);
	written->recorder.options = wish;
	points = &written->recorder.points;
	points->tracefs = "/nowhere";
	for (i = 0; i < N_FORMAT; i++) {
		struct record_point *point = &points->point[points->n++];

		*point = (struct record_point){ .point = formats[i].point,
						.id = 300 + i,
						.format = strdup(formats[i].format),
						.fds = malloc(sizeof(int)),
						.ids = malloc(sizeof(uint64_t)),
						.n_fd = 1 };
		CHECK_FATAL(point->format && point->fds && point->ids);
		point->fds[0] = -1;
		point->ids[0] = 2000 + i;
	}
	CHECK_OK_FATAL(record_begin_file(&written->recorder, getpid()));
	put_name(written, PID, "asking", true);
	put_map(written, PID, FIRST, PAGE, "/first", true);
	put_map(written, PID, SECOND, PAGE, "/second", true);
	put_map(written, PID, LIBRARY, PAGE, "/libhetmap.so.0", true);
	put_map(written, PID, C_LIBRARY, PAGE, "/libc.so.6", true);
}

static void put_told(struct written *written, uint32_t i, uint32_t pid, const struct told *told,
		     uint64_t n_chain, const uint64_t *chain)
{
	uint64_t words[32] = { 0 }, n = 1;
	uint32_t size = sizeof(*told) + 4; /* a multiple of 8 with its own length */
	struct perf_event_header header = { .type = PERF_RECORD_SAMPLE,
					    .misc = PERF_RECORD_MISC_KERNEL };

	words[n++] = 2000 + i;
	words[n++] = pid | (uint64_t)pid << 32;
	words[n++] = written->time += 10;
	words[n++] = 0;
	if (written->recorder.options->max_stack) {
		CHECK_FATAL(n_chain < CHAIN_MOST);
		words[n++] = n_chain;
		if (n_chain)
			memcpy(&words[n], chain, n_chain * sizeof(*chain));
		n += n_chain;
	}
	memcpy(&words[n], &size, sizeof(size));
	memcpy((char *)&words[n] + sizeof(size), told, sizeof(*told));
	n += (sizeof(size) + size) / sizeof(uint64_t);
	header.size = (uint16_t)(n * sizeof(uint64_t));
	memcpy(words, &header, sizeof(header));
	CHECK_OK(record_write(&written->recorder, words, header.size));
}

static const struct told fault = { .buffer = BUFFER, .opener = OPENER };

static struct told move_of(uint32_t n_pages, uint32_t place, bool evicted)
{
	return (struct told){ .buffer = BUFFER,
			      .opener = OPENER,
			      .n_pages = n_pages,
			      .place = place,
			      .evicted = evicted };
}

#define VRAM 0
#define SYSTEM 1

/* Two moves by one call site and one by another, and evictions by others and the engine. */
static void put_all(struct written *written)
{
	static const uint64_t first[] = { PERF_CONTEXT_USER, FIRST + 0x10, FIRST + 0x20 };
	/* Behind the library's own calls, and with an address that is no code at the end. */
	static const uint64_t second[] = { PERF_CONTEXT_USER, C_LIBRARY + 1, LIBRARY + 1,
					   LIBRARY + 2,       SECOND + 1,    8 };
	static const uint64_t zero[] = { PERF_CONTEXT_USER, 0 };
	static const uint64_t kernel[] = { PERF_CONTEXT_KERNEL, FIRST + 1 };
	const struct told out = move_of(16, SYSTEM, false), in = move_of(8, VRAM, false);
	const struct told evicted = move_of(4, SYSTEM, true);

	put_told(written, 0, PID, &fault, 3, first);
	put_told(written, 2, PID, &out, 3, first);
	put_told(written, 2, PID, &out, 3, first);
	put_told(written, 2, PID, &in, 6, second);
	put_told(written, 2, OTHER_PID, &evicted, 3, first);
	put_told(written, 2, ENGINE_PID, &evicted, 2, kernel);
	put_told(written, 2, ENGINE_PID, &evicted, 2, zero);
	put_told(written, 1, PID, &fault, 0, NULL);
}

static void check_row(const json_t *json, size_t i, const char *what, const char *place,
		      int64_t n, int64_t pages, const char *by, const char *module)
{
	const json_t *row = json_array_get(json_object_get(json, "device_sites"), i);

	CHECK_FATAL(row != NULL);
	CHECK_EQUAL(integer_of(row, "buffer"), 0);
	CHECK(!strcmp(string_of(row, "device"), "hetsim0"));
	CHECK(!strcmp(string_of(row, "what"), what));
	if (place)
		CHECK(!strcmp(string_of(row, "place"), place));
	else
		CHECK(json_is_null(json_object_get(row, "place")));
	CHECK_EQUAL(integer_of(row, "n"), n);
	CHECK_EQUAL(integer_of(row, "bytes"), pages * (int64_t)PAGE);
	CHECK_EQUAL(integer_of(row, "last_ns") - integer_of(row, "first_ns"), (n - 1) * 10);
	CHECK(!strcmp(string_of(row, "by"), by));
	CHECK(!strcmp(string_of(row, "module"), module));
}

static void check_text(const struct written *written)
{
	const struct command command = { .args = { "report", "-q", "-n", "2",
						   written->trace.path } };
	AUTO(outcome) outcome = { 0 };
	AUTO_TEXT *text = report_as(written, NULL);

	CHECK(strstr(text, "asked for by"));
	CHECK(strstr(text, "moved to system memory           2   128 KiB  first\n"));
	CHECK(strstr(text, "moved to VRAM                    1    32 KiB  second\n"));
	CHECK(strstr(text, "evicted to system memory         2    32 KiB  "
			   "the device's engine\n"));
	CHECK(strstr(text, "a process that was not traced\n"));
	CHECK(!strstr(text, "libhetmap"));
	command_run(&command, &outcome);
	CHECK(strstr(outcome.out, "... and 4 more: 4 times, 48 KiB moved (--rows)\n"));
}

static void test_sites(void)
{
	AUTO(written) written = { 0 };
	const json_t *span;
	AUTO(json_t) *json = NULL;

	begin_points(&written, &options);
	put_all(&written);
	finish(&written, json_object());
	json = json_of(&written);
	CHECK_EQUAL(json_array_size(json_object_get(json, "device_sites")), 6);
	check_row(json, 0, "move", "system", 2, 32, "code", "first");
	/* Rows of equal bytes are in order of their counts. */
	check_row(json, 1, "eviction", "system", 2, 8, "engine", "");
	check_row(json, 2, "move", "vram", 1, 8, "code", "second");
	check_row(json, 3, "eviction", "system", 1, 4, "other", "");
	check_row(json, 4, "fault", NULL, 1, 0, "code", "first");
	check_row(json, 5, "access", NULL, 1, 0, "unknown", "");
	span = json_array_get(
		json_object_get(json_array_get(json_object_get(json, "lanes"), 0), "spans"), 0);
	CHECK(strstr(json_string_value(json_array_get(span, 2)),
		     "64 KiB moved to system memory, asked for by first"));
	check_text(&written);
	points_close(&written.recorder.points);
}

/* Older recordings, and those that were made with --max-stack 0. */
static void test_no_chains(void)
{
	static const struct record_options without = { .max_stack = 0 };
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;
	AUTO_TEXT *text = NULL;

	begin_points(&written, &without);
	put_all(&written);
	finish(&written, json_object());
	json = json_of(&written);
	CHECK_EQUAL(json_array_size(json_object_get(json, "device_sites")), 0);
	CHECK_EQUAL(integer_of(json_array_get(json_object_get(json, "devices"), 0), "moves"),
		    3);
	text = report_as(&written, NULL);
	CHECK(strstr(text, "Buffer on a device"));
	CHECK(!strstr(text, "asked for by"));
	points_close(&written.recorder.points);
}

/* A program that was built anew since: its code is told by the place in the file. */
static void test_changed(void)
{
	static const uint64_t chain[] = { PERF_CONTEXT_USER, MEMORY + 0x10 };
	const struct told out = move_of(16, SYSTEM, false);
	AUTO_TEXT *program = NULL, *text = NULL;
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;

	begin_points(&written, &options);
	file_write(written.folder, "program", "another one", 11);
	program = folder_path(written.folder, "program");
	written.inode = UINT64_MAX;
	put_map(&written, PID, MEMORY, PAGE, program, true);
	put_told(&written, 2, PID, &out, 2, chain);
	finish(&written, json_object());
	json = json_of(&written);
	check_row(json, 0, "move", "system", 1, 16, "code", "program");
	CHECK_EQUAL(integer_of(json_array_get(json_object_get(json, "device_sites"), 0),
			       "changed_at"),
		    0x10);
	text = report_as(&written, NULL);
	CHECK(strstr(text, "program+0x10 (changed since)\n") != NULL);
	CHECK(strstr(text, "not those that were recorded, such as program") != NULL);
	points_close(&written.recorder.points);
}

static const struct test tests[] = {
	{ "sites", test_sites, 60, TEST_ONCE },
	{ "changed", test_changed, 60, TEST_ONCE },
	{ "no_chains", test_no_chains, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_devices", tests)
