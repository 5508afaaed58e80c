// SPDX-License-Identifier: MIT
/* The sentences of hetmap report on missing parts of a trace, and on the files beside it. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perf/written_trace.h"

/* A file beside the recording is reported where it can't be read, and only there. */
static void test_broken_about(void)
{
	static const struct {
		const char *text, *why;
	} broken[] = {
		{ "{\"costs\": {\"anon", "(line 1: " },
		{ "[]", "(it is no object)" },
		{ "", "(line 1: " },
	};
	uint64_t code = CODE + 0x100;
	AUTO(written) written = { 0 };
	char *text;
	size_t i;

	begin(&written);
	put_name(&written, PID, "broken", true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fault(&written, PID, MEMORY, 1, &code);
	finish(&written, json_object());
	text = report_as(&written, NULL);
	CHECK(!strstr(text, "about.json"));
	free(text);
	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		file_write(written.folder, "trace/about.json", broken[i].text,
			   strlen(broken[i].text));
		text = report_as(&written, NULL);
		CHECK(strstr(text, "! its about.json can't be read ("));
		CHECK(strstr(text, broken[i].why));
		free(text);
	}
	file_write(written.folder, "trace/about.json", "{\"a\": \033[2J}", 11);
	text = report_as(&written, NULL);
	check_harmless(text);
	free(text);
}

/* The trace of a killed tracer: it has neither its end nor the files beside it. */
static void test_unfinished(void)
{
	uint64_t code = CODE + 0x100;
	AUTO(written) written = { 0 };
	json_t *json, *missing;
	AUTO_TEXT *text = NULL;

	begin(&written);
	put_program(&written, "/program", code, "first");
	json = json_of(&written);
	CHECK_EQUAL(faults_at(json, "program"), 1);
	missing = json_object_get(json, "missing");
	CHECK(strstr(json_string_value(json_array_get(missing, 0)), "about.json is not there"));
	CHECK(strstr(json_string_value(json_array_get(missing, 1)), "is cut off"));
	json_decref(json);
	text = report_as(&written, NULL);
	CHECK(strstr(text, "! about.json is not there"));
}

/* The reader is gone: no error is printed, and the status is that of SIGPIPE. */
static void test_reader_gone(void)
{
	uint64_t code = CODE + 0x100;
	AUTO(written) written = { 0 };
	AUTO(outcome) outcome = { 0 };
	AUTO_TEXT *path = NULL;
	int line[2];

	begin(&written);
	put_name(&written, PID, "gone", true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fault(&written, PID, MEMORY, 1, &code);
	finish(&written, json_object());
	path = folder_path(written.folder, "trace");
	CHECK_FATAL(!pipe2(line, O_CLOEXEC));
	close(line[0]);
	CHECK_RUN(128 + SIGPIPE, &outcome,
		  &(struct command){ .args = { "report", "-q", "--html", "-", path },
				     .out = line[1] });
	CHECK(!strcmp(outcome.err, ""));
	close(line[1]);
}

/* The process sleeps, and has used no CPU for a while. */
static bool is_waiting(pid_t pid)
{
	char path[32], state;
	unsigned long long before = 1, now = 0;
	unsigned long user, system;
	int same = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (same < 10) {
		usleep(20000);
		file = fopen(path, "re");
		if (!file)
			return false;
		state = 'X';
		user = system = 0;
		fscanf(file, "%*d (%*[^)]) %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
		       &state, &user, &system);
		fclose(file);
		if (state == 'X' || state == 'Z')
			return false;
		now = (unsigned long long)user + system;
		same = state == 'S' && now == before ? same + 1 : 0;
		before = now;
	}
	return true;
}

/* Signals also end it once the trace was read, and while it waits for a pipe without a reader. */
static void test_signals(void)
{
	static const char *const options[] = { "--html", "--folded", "--perf-script" };
	static const int signals[] = { SIGINT, SIGTERM };
	uint64_t code = CODE + 0x100;
	AUTO(written) written = { 0 };
	AUTO(outcome) outcome = { 0 };
	AUTO_TEXT *path = NULL, *line = NULL;
	size_t i;
	pid_t pid;

	if (TEST_TSAN) {
		test_skip("sanitizer", "TSan runs handlers once a system call has ended, and "
				       "the one that waits here does not");
		return;
	}
	begin(&written);
	put_program(&written, "/nowhere/program", code, "waiting");
	finish(&written, json_object());
	path = folder_path(written.folder, "trace");
	line = folder_path(written.folder, "line");
	CHECK(!mkfifo(line, 0600));
	for (i = 0; i < 6; i++) {
		pid = command_start(&(struct command){ .args = { "report", "-q", options[i / 2],
								 line, i < 4 ? path : NULL } });
		CHECK(is_waiting(pid));
		CHECK(!kill(pid, signals[i % 2]));
		command_wait(pid, &outcome);
		CHECK_EQUAL(outcome.status, 128 + signals[i % 2]);
		CHECK(!strcmp(outcome.out, "") && !strcmp(outcome.err, ""));
	}
}

/* JSON on standard output, beside a file. */
static void test_json_beside(void)
{
	static const char *const options[] = { "--html", "--svg", "--folded" };
	uint64_t code = CODE + 0x100;
	AUTO(written) written = { 0 };
	AUTO(outcome) outcome = { 0 };
	AUTO_TEXT *path = NULL, *file = NULL;
	struct stat st;
	size_t i;

	begin(&written);
	put_name(&written, PID, "beside", true);
	put_map(&written, PID, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fault(&written, PID, MEMORY, 1, &code);
	finish(&written, json_object());
	path = folder_path(written.folder, "trace");
	file = folder_path(written.folder, "file");
	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		CHECK_RUN(0, &outcome,
			  &(struct command){ .args = { "report", "-q", "--json", options[i],
						       file, path } });
		CHECK(!strcmp(outcome.err, ""));
		json_decref(outcome_json(&outcome));
		CHECK(!stat(file, &st) && st.st_size > 0);
		CHECK(!unlink(file));
	}
}

/* No output overwrites the input or another output. This is checked before anything is read. */
static void test_outputs_refused(void)
{
	AUTO_TEXT *folder = folder_make(), *trace = folder_path(folder, "t");
	AUTO_TEXT *data = folder_path(folder, "t/perf.data"),
		  *maps = folder_path(folder, "t/maps/x");
	AUTO_TEXT *about = folder_path(folder, "t/about.json"),
		  *link = folder_path(folder, "link");
	const struct {
		const char *args[6];
		const char *says;
	} cases[] = {
		{ { "--html", data, trace }, "--html '" },
		{ { "--html", link, trace }, "--html '" },
		{ { "--html", maps, trace }, "would overwrite its own trace" },
		{ { "--svg", about, trace }, "--svg '" },
		{ { "--folded", data, data }, "--folded '" },
		{ { "--folded", data, "--perf-script", data },
		  "would overwrite its own trace" },
		{ { "--html", "-", "--svg", "-", trace }, "--html and --svg go to the same" },
		{ { "--svg", "x", "--folded", "x", trace }, "--svg and --folded go to" },
		{ { "--html", "-", "--svg", "-", trace }, "one can be \"-\"" },
		{ { "--json", "--html", "-", trace }, "--json and --html go to the same" },
	};
	AUTO(outcome) outcome = { 0 };
	size_t i;

	file_write(folder, "t/perf.data", "abc", 3);
	file_write(folder, "t/about.json", "{}", 2);
	file_write(folder, "t/maps/x", "m", 1);
	CHECK(!symlink("t/perf.data", link));
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command command = { .args = { "report" } };

		memcpy(command.args + 1, cases[i].args, sizeof(cases[i].args));
		CHECK_RUN(2, &outcome, &command);
		/* With --json it is an object on standard output. */
		CHECK(strstr(outcome.out, cases[i].says) || strstr(outcome.err, cases[i].says));
	}
	CHECK_EQUAL(access(maps, F_OK), 0);
}

static const struct test tests[] = {
	{ "broken_about", test_broken_about, 60, TEST_ONCE },
	{ "unfinished", test_unfinished, 60, TEST_ONCE },
	{ "reader_gone", test_reader_gone, 60, 0 },
	{ "signals", test_signals, 60, TEST_ONCE },
	{ "json_beside", test_json_beside, 60, TEST_ONCE },
	{ "outputs_refused", test_outputs_refused, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_missing", tests)
