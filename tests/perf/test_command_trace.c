// SPDX-License-Identifier: MIT
/*
 * hetmap trace and hetmap report: programs whose faults are known are traced, and the report has to
 * say so. This program also runs those of traced.c: --traced NAME.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/trace_support.h"

#define NOBODY 65534

/* ---- tests ---- */

static void check_known(const char *program, int64_t faults, const char *pattern,
			int64_t stride)
{
	AUTO_TEXT *folder = traced_folder();
	AUTO(json_t) *json = report_of(folder, program);
	json_t *buffer = buffer_of(json, NAME);

	CHECK_EQUAL(integer_of(buffer, "minor"), faults);
	CHECK_EQUAL(integer_of(buffer, "major"), 0);
	CHECK_EQUAL(integer_of(buffer, "unfinished"), 0);
	CHECK(!strcmp(string_of(buffer, "pattern"), pattern));
	CHECK_EQUAL(integer_of(buffer, "stride"), stride);
	CHECK(integer_of(buffer, "time_ns") > faults * 50);
}

static void test_sequential(void)
{
	check_known("sequential", TRACED_PAGES, "sequential", 4096);
}

static void test_backwards(void)
{
	check_known("backwards", TRACED_PAGES, "sequential", -4096);
}

static void test_strided(void)
{
	check_known("strided", TRACED_PAGES / 8, "strided", 8 * 4096);
}

static void test_scattered(void)
{
	AUTO_TEXT *folder = traced_folder();
	AUTO(json_t) *json = report_of(folder, "scattered");
	json_t *buffer = buffer_of(json, NAME);

	/* That many random draws meet 1 - 1/e of the pages. */
	CHECK(integer_of(buffer, "minor") > (int64_t)TRACED_PAGES / 2);
	CHECK(!strcmp(string_of(buffer, "pattern"), "random"));
}

/* One fault each, and each has the name of the buffer that was there at that time. */
static void check_names(const char *program)
{
	bool seen[TRACED_BUFFERS] = { false };
	json_t *buffer;
	size_t i, n = 0;
	int number;
	AUTO_TEXT *folder = traced_folder();
	AUTO(json_t) *json = report_of(folder, program);

	/* Only root sees faults in system calls where perf_event_paranoid is 2. */
	CHECK(json_array_size(json_object_get(json, "missing")) <= (geteuid() ? 1 : 0));
	json_array_foreach(json_object_get(json, "buffers"), i, buffer)
	{
		if (sscanf(string_of(buffer, "name"), "b%4d", &number) != 1 || number < 0 ||
		    number >= TRACED_BUFFERS)
			continue;
		if (seen[number])
			test_fail(__FILE__, __LINE__, "b%04d is there twice", number);
		seen[number] = true;
		CHECK_EQUAL(integer_of(buffer, "minor"), 1);
		n++;
	}
	CHECK_EQUAL(n, TRACED_BUFFERS);
}

static void test_names_host(void)
{
	check_names("buffers_host");
}

static void test_names_soft(void)
{
	check_names("buffers_soft");
}

static void test_life(void)
{
	int64_t faults = 0;
	json_t *buffer;
	size_t i;
	AUTO_TEXT *folder = traced_folder();
	AUTO(json_t) *json = report_of(folder, "life");

	/* The child's are those of an object of its own, or the parent's. */
	json_array_foreach(json_object_get(json, "buffers"), i, buffer)
	{
		if (!strcmp(string_of(buffer, "name"), "life"))
			faults += integer_of(buffer, "minor");
	}
	CHECK_EQUAL(faults, 64);
}

static void test_children(void)
{
	int64_t faults = 0;
	json_t *buffer;
	size_t i;
	AUTO_TEXT *folder = traced_folder();
	AUTO(json_t) *json = report_of(folder, "children");

	json_array_foreach(json_object_get(json, "buffers"), i, buffer)
	{
		if (!strcmp(string_of(buffer, "name"), NAME))
			faults += integer_of(buffer, "minor");
	}
	CHECK_EQUAL(faults, TRACED_CHILDREN);
}

/* A program that may not write into the folder publishes elsewhere, and its names are found. */
static void test_stranger(void)
{
	AUTO_TEXT *folder = NULL;
	AUTO(json_t) *json = NULL;

	need_trace();
	if (geteuid()) {
		test_skip("kernel", "only root can become another user");
		return;
	}
	folder = folder_make();
	json = report_of(folder, "stranger");
	CHECK_EQUAL(integer_of(buffer_of(json, "strange"), "minor"), TRACED_AFTER);
}

/* Without a table, the report says why names are missing. */
static void test_unpublished(void)
{
	AUTO_TEXT *folder = NULL, *path = NULL;
	AUTO(json_t) *json = NULL;

	folder = traced_folder();
	CHECK(!setenv("HETMAP_PUBLISH", "0", 1));
	json = report_of(folder, "buffers_soft");
	CHECK(!unsetenv("HETMAP_PUBLISH"));
	CHECK(is_missing(json, "HETMAP_PUBLISH=0"));
	path = folder_path(folder, "trace/maps");
	/* The folder is empty. */
	CHECK(!rmdir(path));
}

static void test_status(void)
{
	AUTO_TEXT *folder = traced_folder();

	trace(folder, "status", 42);
	trace(folder, "killed", 128 + SIGTERM);
}

/* Figures that cost nothing are reported; the rest is reported as unknown. */
static void test_no_latency(void)
{
	struct command command = { .args = { "trace", "-q", "-o", NULL, "--no-tracepoints",
					     "--no-latency", "--", self, "--traced",
					     "sequential" } };
	AUTO(outcome) outcome = { 0 };
	AUTO_TEXT *folder = NULL, *path = NULL;
	json_t *json, *buffer;

	folder = traced_folder();
	command.args[3] = path = folder_path(folder, "trace");
	CHECK_RUN(0, &outcome, &command);
	json = report(folder);
	buffer = buffer_of(json, NAME);
	CHECK_EQUAL(integer_of(buffer, "faults"), TRACED_PAGES);
	CHECK(json_is_null(json_object_get(buffer, "major")));
	CHECK(strstr(string_of(json, "advice_unknown"), "without --no-latency"));
	json_decref(json);
}

static void check_refused(const char *const *args, int expected, const char *words)
{
	struct command command = { .args = { NULL } };
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; args[i]; i++)
		command.args[i] = args[i];
	CHECK_RUN(expected, &outcome, &command);
	CHECK_HAS(outcome.err, words);
}

static void test_bad_input(void)
{
	AUTO_TEXT *folder = folder_make(), *none = folder_path(folder, "none");
	AUTO_TEXT *other = folder_path(folder, "other"), *text = folder_path(folder, "text");

	file_write(folder, "other/letter", "dear", 4);
	file_write(folder, "text",
		   "no recording at all, but long enough to be the head of one, "
		   "and then some more of it: that is what it takes to be looked "
		   "at",
		   120);
	check_refused((const char *const[]){ "trace", NULL }, 125, "no command was named");
	check_refused((const char *const[]){ "trace", "-p", "x", NULL }, 125, "--pid");
	check_refused((const char *const[]){ "trace", "-o", other, "--", "true", NULL }, 125,
		      "is no trace");
	check_refused((const char *const[]){ "report", none, NULL }, 2, "No such file");
	check_refused((const char *const[]){ "report", text, NULL }, 2, "no recording");
	check_refused((const char *const[]){ "report", other, NULL }, 2, "is no trace");
	check_refused((const char *const[]){ "report", "a", "b", NULL }, 2, "more than one");
	check_refused((const char *const[]){ "report", "--perf-script", text, NULL }, 2,
		      "perf script --ns");
	if (may_trace()) {
		check_refused((const char *const[]){ "trace", "-o", none, "--",
						     "/nonexistent/program", NULL },
			      127, "/nonexistent/program");
		/* Nothing is left of a trace that never began. */
		check_refused((const char *const[]){ "report", none, NULL }, 2, "No such file");
		check_refused((const char *const[]){ "trace", "-o", none, "-p", "999999999",
						     NULL },
			      125, "no process");
	}
}

static size_t entries_of(const char *folder)
{
	DIR *listed = opendir(folder);
	size_t n = 0;

	while (listed && readdir(listed))
		n++;
	if (listed)
		closedir(listed);
	return n - 2;
}

/* One that never begins leaves the two before it as they were; one that does replaces them. */
static void test_before(void)
{
	const char *const failing[][6] = {
		{ "--", "/nonexistent/program" },
		{ "-p", "999999999" },
		{ "--", "true" }, /* and the kernel refuses */
	};
	uint64_t last, before;
	AUTO(outcome) outcome = { 0 };
	size_t i, k;
	AUTO_TEXT *folder = traced_folder();
	AUTO_TEXT *path = folder_path(folder, "trace");

	trace(folder, "sequential", 0);
	before = trace_inode(folder, "trace");
	trace(folder, "sequential", 0);
	last = trace_inode(folder, "trace");
	CHECK_EQUAL(trace_inode(folder, "trace.old"), before);
	for (i = 0; i < 3; i++) {
		struct command command = { .args = { "trace", "-q", "-o", path },
					   .prepare = i == 2 ? command_refuse_perf : NULL };

		for (k = 0; failing[i][k]; k++)
			command.args[4 + k] = failing[i][k];
		CHECK_RUN(i ? 125 : 127, &outcome, &command);
		CHECK_EQUAL(trace_inode(folder, "trace"), last);
		CHECK_EQUAL(trace_inode(folder, "trace.old"), before);
		CHECK_EQUAL(entries_of(folder), 2);
	}
	trace(folder, "sequential", 0);
	CHECK_EQUAL(trace_inode(folder, "trace.old"), last);
	CHECK_EQUAL(entries_of(folder), 2);
	/* A folder in the way of the old trace is reported before anything is traced. */
	file_write(folder, "trace.old/letter", "dear", 4);
	check_refused((const char *const[]){ "trace", "-o", path, "--", "true", NULL }, 125,
		      "that is no trace");
	CHECK_EQUAL(entries_of(folder), 2);
}

/* A shell can take the printed name as it is, in any locale. */
static void check_shown(const char *folder, const char *name, bool utf8)
{
	char *path = folder_path(folder, name), line[1024];
	const struct command command = {
		.args = { "trace", "-o", path, "--no-tracepoints", "--", "true" },
		.env = { utf8 ? "LC_ALL=C.UTF-8" : "LC_ALL=C" },
	};
	AUTO(outcome) outcome = { 0 };
	const char *word;
	FILE *shell;
	size_t n;

	CHECK_RUN(0, &outcome, &command);
	word = strstr(outcome.err, "hetmap report ");
	CHECK_FATAL(word != NULL);
	word += strlen("hetmap report ");
	n = strcspn(word, "\n");
	CHECK(!strncmp(word + n, "\n", 2));
	snprintf(line, sizeof(line),
		 "bash -c 'read -r word && eval \"printf %%s $word\"' <<'.'\n%.*s\n.\n", (int)n,
		 word);
	shell = popen(line, "r");
	CHECK_FATAL(shell != NULL);
	n = fread(line, 1, sizeof(line) - 1, shell);
	line[n] = '\0';
	CHECK_EQUAL(pclose(shell), 0);
	if (strcmp(line, path) != 0)
		test_fail(__FILE__, __LINE__, "'%s' is shown as %s", path, outcome.err);
	free(path);
}

static void test_shown(void)
{
	static const char *const names[] = { "plain.trace", "a b",  "d\xc3\xbc x", "it's",
					     "$HOME;",      "a\\b", "line\nit's" };
	size_t i;
	AUTO_TEXT *folder = traced_folder();

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		check_shown(folder, names[i], true);
		check_shown(folder, names[i], false);
	}
}

/* An ordinary user reads the remedy before the fault; a user with the right reads another one. */
static void test_paranoid(void)
{
	char root[128];
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "trace");
	struct command command = { .args = { "trace", "-o", path, "--", "true" },
				   .env = { root },
				   .uid = getuid() ? 0 : NOBODY,
				   .prepare = command_refuse_perf };
	AUTO(outcome) outcome = { 0 };

	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) {
		test_skip("kernel", "no seccomp filters: %s", strerror(errno));
		return;
	}
	snprintf(root, sizeof(root), "HETMAP_ROOT=%s", folder);
	file_write(folder, "proc/sys/kernel/perf_event_paranoid", "3\n", 2);
	CHECK(!chmod(folder, 0777));
	CHECK_RUN(125, &outcome, &command);
	if (strncmp(outcome.err, "hetmap: sudo sysctl kernel.perf_event_paranoid=2 ", 49) !=
		    0 ||
	    !strstr(outcome.err, "kernel.perf_event_paranoid is 3"))
		test_fail(__FILE__, __LINE__, "it said: %s", outcome.err);
	/* Nothing is left of a trace that never began. */
	CHECK(access(path, F_OK) < 0);
	if (!getuid()) {
		command.uid = 0;
		CHECK_RUN(125, &outcome, &command);
		CHECK(!strstr(outcome.err, "sysctl") && strstr(outcome.err, "seccomp"));
	}
}

/* Another user's process is that one's, or root's, to trace. */
static void test_of_others(void)
{
	char root[128], pid[16];
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "trace");
	const struct command command = { .args = { "trace", "-o", path, "-p", pid },
					 .env = { root },
					 .uid = NOBODY };
	AUTO(outcome) outcome = { 0 };

	if (geteuid()) {
		test_skip("kernel", "only root can become another user");
		return;
	}
	snprintf(root, sizeof(root), "HETMAP_ROOT=%s", folder);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	file_write(folder, "proc/sys/kernel/perf_event_paranoid", "2\n", 2);
	CHECK(!chmod(folder, 0777));
	CHECK_RUN(125, &outcome, &command);
	CHECK(!strncmp(outcome.err, "hetmap: tracing is not permitted: ", 34));
	CHECK(strstr(outcome.err, "run hetmap as the process's user, or with sudo") != NULL);
	CHECK(access(path, F_OK) < 0);
}

/* Checks the first and the last bytes of the output of --@option. */
static void check_output(const char *path, const char *option, const char *begins,
			 const char *has, const char *ends)
{
	const struct command command = { .args = { "report", "-q", option, "-", path } };
	AUTO(outcome) outcome = { 0 };
	size_t length;

	CHECK_RUN(0, &outcome, &command);
	CHECK(!outcome.err[0]);
	length = strlen(outcome.out);
	CHECK(!strncmp(outcome.out, begins, strlen(begins)));
	CHECK(strstr(outcome.out, has) != NULL);
	CHECK(length > strlen(ends) && !strcmp(outcome.out + length - strlen(ends), ends));
}

/* Each form has the buffer's name, and how often. */
static void test_outputs(void)
{
	char lines[64];
	AUTO_TEXT *folder = traced_folder();
	AUTO_TEXT *path = folder_path(folder, "trace");

	trace(folder, "sequential", 0);
	/* The picture is of the most faults, which may be a sanitizer's own memory's. */
	check_output(path, "--svg", "<svg ",
		     TEST_TSAN ? " page faults, " : NAME ": 8,192 page faults, sequential",
		     "</svg>\n");
	check_output(path, "--html", "<!DOCTYPE html>", NAME, "</html>\n");
	snprintf(lines, sizeof(lines), ";32_MiB_of_memory %d\n", TRACED_PAGES);
	check_output(path, "--folded", "", lines, "\n");
}

/* Any bytes are a recording, or none: they end in a report or in a sentence. */
static void check_any(const char *folder, const char *bytes, size_t length)
{
	AUTO_TEXT *path = folder_path(folder, "trace");
	const struct command command = { .args = { "report", "-q", path } };
	AUTO(outcome) outcome = { 0 };

	file_write(folder, "trace/perf.data", bytes, length);
	command_run(&command, &outcome);
	CHECK(outcome.status == 0 || outcome.status == 2 || outcome.status == 3);
	CHECK(outcome.status == 0 || outcome.err[0]);
}

static void test_mutated(void)
{
	uint64_t state = test_seed();
	AUTO_TEXT *folder = NULL, *path = NULL, *bytes = NULL, *copy = NULL;
	size_t length, i, n;

	folder = traced_folder();
	trace(folder, "life", 0);
	path = folder_path(folder, "trace/perf.data");
	bytes = read_all(path, &length);
	copy = malloc(length);
	for (i = 0; i < 60 && copy; i++) {
		memcpy(copy, bytes, length);
		for (n = 0; n < 1 + i % 8; n++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			copy[(state >> 20) % length] ^= (char)(1u << (state >> 60) % 8);
		}
		check_any(folder, copy, length);
		/* Cut off anywhere, too; and of the head, each byte. */
		check_any(folder, bytes, (state >> 24) % length);
		memcpy(copy, bytes, length);
		copy[i * 2 % 104] = (char)(state >> 40);
		check_any(folder, copy, length);
	}
}

/* A cut-off copy reports the records that it has, from the first one on. */
static void test_cut_off(void)
{
	AUTO_TEXT *folder = NULL, *path = NULL, *bytes = NULL, *none = NULL;
	int64_t faults, before = TRACED_PAGES;
	cpu_set_t all, one;
	size_t length, i;
	json_t *json;
	int cpu = 0;

	folder = traced_folder();
	path = folder_path(folder, "trace/perf.data");
	none = folder_path(folder, "head/perf.data");
	/* One ring only: the records of another processor may stand behind the cut. */
	CHECK_FATAL(!sched_getaffinity(0, sizeof(all), &all));
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	CHECK_FATAL(!sched_setaffinity(0, sizeof(one), &one));
	trace_with(folder, "sequential", 0, true);
	CHECK_FATAL(!sched_setaffinity(0, sizeof(all), &all));
	bytes = read_all(path, &length);
	for (i = 3; i; i--) {
		file_write(folder, "trace/perf.data", bytes, length * i / 4);
		json = report(folder);
		CHECK(is_missing(json, "the recording is cut off"));
		faults = integer_of(buffer_of(json, NAME), "minor");
		CHECK(faults > 100 && faults < before);
		before = faults;
		json_decref(json);
	}
	file_write(folder, "head/perf.data", bytes, 200);
	check_refused((const char *const[]){ "report", none, NULL }, 2,
		      "it is cut off before its records");
}

/* perf reads all of it, too. */
static void test_perf_reads(void)
{
	char *folder, command[600];
	const char *version = "perf --version >/dev/null 2>&1";
	int64_t faults = 0;
	AUTO(json_t) *json = NULL;
	FILE *perf;

	need_trace();
	if (system(version)) {
		test_skip("perf", "perf is not installed");
		return;
	}
	folder = folder_make();
	trace_with(folder, "sequential", 0, true);
	json = report(folder);
	snprintf(command, sizeof(command),
		 "perf script -f -i '%s/trace/perf.data' -F event 2>/dev/null | "
		 "grep -c '^ *page-faults'",
		 folder);
	perf = popen(command, "r");
	CHECK_FATAL(perf != NULL);
	CHECK_EQUAL(fscanf(perf, "%" SCNd64, &faults), 1);
	CHECK_EQUAL(pclose(perf), 0);
	CHECK_EQUAL(faults, integer_of(json_object_get(json, "totals"), "faults"));
	folder_remove(folder);
}

static const struct test tests[] = {
	{ "sequential", test_sequential, 60, TEST_ONCE },
	{ "backwards", test_backwards, 60, TEST_ONCE },
	{ "strided", test_strided, 60, TEST_ONCE },
	{ "scattered", test_scattered, 60, TEST_ONCE },
	{ "names_host", test_names_host, 90, TEST_ONCE },
	{ "names_soft", test_names_soft, 90, TEST_ONCE },
	{ "life", test_life, 60, TEST_ONCE },
	{ "children", test_children, 120, TEST_ONCE },
	{ "stranger", test_stranger, 60, TEST_ONCE },
	{ "unpublished", test_unpublished, 60, TEST_ONCE },
	{ "status", test_status, 60, TEST_ONCE },
	{ "no_latency", test_no_latency, 60, TEST_ONCE },
	{ "outputs", test_outputs, 60, TEST_ONCE },
	{ "bad_input", test_bad_input, 60, TEST_ONCE },
	{ "before", test_before, 60, TEST_ONCE },
	{ "shown", test_shown, 60, TEST_ONCE },
	{ "paranoid", test_paranoid, 60, TEST_ONCE },
	{ "of_others", test_of_others, 60, TEST_ONCE },
	{ "cut_off", test_cut_off, 60, TEST_ONCE },
	{ "perf_reads", test_perf_reads, 60, TEST_ONCE },
	{ "mutated", test_mutated, 120, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(trace_tests_main, "command_trace", tests)
