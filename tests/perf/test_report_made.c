// SPDX-License-Identifier: MIT
/*
 * Code that a process made while it ran has names of /tmp/perf-PID.map, if the file belongs to the
 * recorded process.
 */
#include <inttypes.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "../../tools/perf/read/symbols_map.h"
#include "perf/written_trace.h"

/* "int fast(int)" was made in the middle of the older "old;er". */
static const char lines[] = "10000000 100 old;er\n"
			    "0x10000080 40 int fast(int)\n"
			    "no line\n"
			    "10000200 0 nothing\n"
			    "10000300 10 unfinished";
static const uint64_t old_code = CODE + 0x10, fast_code = CODE + 0x90;

/* A number that no process can have, so that no other process has its file. */
static uint32_t number(void)
{
	return (uint32_t)(1 << 22) + 1 + (uint32_t)getpid();
}

static char *map_path(uint32_t pid)
{
	char *path = NULL;

	CHECK_FATAL(asprintf(&path, "/tmp/perf-%" PRIu32 ".map", pid) > 0);
	return path;
}

/* Writes a map that was modified @seconds after now, by the file system's clock. */
static void write_map(const char *path, long seconds)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	FILE *file = fopen(path, "we");

	CHECK_FATAL(file && fputs(lines, file) >= 0 && !fclose(file));
	clock_gettime(CLOCK_REALTIME, &times[1]);
	times[1].tv_sec += seconds;
	CHECK(!seconds || !utimensat(AT_FDCWD, path, times, 0));
}

/*
 * A trace of @pid, in whose memory three places in code fault: one has no name. @seconds: from now
 * to the end of its recording.
 */
static void write_trace(struct written *written, uint32_t pid, const char *code, long seconds)
{
	const uint64_t chain[] = { fast_code, old_code, CODE + 0x90 }, other = CODE + 0x305;
	struct timespec now, times[2] = { { .tv_nsec = UTIME_OMIT } };

	clock_gettime(CLOCK_REALTIME, &now);
	begin(written);
	put_name(written, pid, "vm", true);
	put_map(written, pid, CODE, PAGE, code, true);
	put_map(written, pid, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fault(written, pid, MEMORY, 3, chain);
	put_fault(written, pid, MEMORY + PAGE, 1, &fast_code);
	put_fault(written, pid, MEMORY + 2 * PAGE, 1, &other);
	/* That clock is behind this one by up to a tick. */
	finish(written, json_pack("{s:f}", "began", (double)(now.tv_sec + seconds) - 1));
	times[1] = (struct timespec){ now.tv_sec + seconds, now.tv_nsec };
	CHECK(!seconds || !futimens(written->trace.data_fd, times));
}

static uint64_t faults_in(const json_t *json, const char *function)
{
	uint64_t n = 0;
	json_t *site;
	size_t i;

	json_array_foreach(json_object_get(json, "sites"), i,
			   site) if (!strcmp(string_of(site, "function"), function))
		n += (uint64_t)integer_of(site, "faults");
	return n;
}

/* The map was written @seconds after the trace began. @expected is the number of named faults. */
static void check_named(uint32_t pid, const char *code, long seconds, uint64_t expected)
{
	char module[32];
	AUTO_TEXT *path = map_path(pid), *folded = NULL;
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;

	write_map(path, seconds);
	write_trace(&written, pid, code, 0);
	snprintf(module, sizeof(module), "perf-%" PRIu32 ".map", pid);
	json = json_of(&written);
	CHECK_EQUAL(faults_in(json, "int fast(int)"), expected);
	CHECK_EQUAL(faults_at(json, module), expected);
	folded = report_as(&written, "--folded");
	CHECK_EQUAL(strstr(folded, ";int_fast(int);old_er;int_fast(int);") != NULL,
		    expected != 0);
	unlink(path);
}

static void test_named(void)
{
	check_named(number(), "//anon", 0, 2);
	check_named(number(), "/memfd:compiled (deleted)", 0, 2);
	/* Code of a file has the names of the file's functions. */
	check_named(number(), "/no/such/file", 0, 0);
}

/* The process number belonged to another process before, or belongs to one now. */
static void test_of_another(void)
{
	check_named(number(), "//anon", -3600, 0);
	check_named(number(), "//anon", 3600, 0);
}

/* The process exists, so its map may be older or newer than the trace, but not than the process. */
static void test_still_there(void)
{
	check_named((uint32_t)getpid(), "//anon", 3600, 2);
	check_named((uint32_t)getpid(), "//anon", -3600 * 24 * 365 * 20, 0);
}

#define ANOTHER_USER 65534

/* A process of another user has the number by now: it does not name the old records. */
static void test_number_again(void)
{
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;
	int ready[2];
	pid_t child;
	char *path, byte;

	if (geteuid()) {
		test_skip("kernel", "only root can begin a process of another user");
		return;
	}
	CHECK_FATAL(!pipe2(ready, O_CLOEXEC));
	child = fork();
	if (!child) {
		if (!setuid(ANOTHER_USER) && !prctl(PR_SET_PDEATHSIG, SIGKILL) &&
		    write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	CHECK_FATAL(child > 0 && read(ready[0], &byte, 1) == 1);
	close(ready[0]);
	path = map_path((uint32_t)child);
	write_map(path, -3600);
	CHECK_OK(chown(path, ANOTHER_USER, ANOTHER_USER));
	write_trace(&written, (uint32_t)child, "//anon", -3600);
	json = json_of(&written);
	CHECK_EQUAL(faults_in(json, "int fast(int)"), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	unlink(path);
	free(path);
}

static bool is_told(const json_t *json, const char *words)
{
	const json_t *missing = json_object_get(json, "missing");
	size_t i;

	for (i = 0; i < json_array_size(missing); i++)
		if (strstr(json_string_value(json_array_get(missing, i)), words))
			return true;
	return false;
}

/* No part of a map that is too large is read. */
static void check_refused(const char *path)
{
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;

	write_trace(&written, number(), "//anon", 0);
	json = json_of(&written);
	CHECK_EQUAL(faults_in(json, "int fast(int)"), 0);
	CHECK(is_told(json, ".map was not read, as it has more than 256 MiB or "));
	unlink(path);
}

static void test_too_large(void)
{
	AUTO_TEXT *path = map_path(number());
	uint64_t i;
	FILE *file;

	write_map(path, 0);
	CHECK_OK(truncate(path, SYMBOLS_MAP_BYTES_MOST + 1));
	check_refused(path);
	write_map(path, 0);
	file = fopen(path, "ae");
	CHECK_FATAL(file != NULL);
	for (i = 0; i < SYMBOLS_MAP_LINES_MOST; i++)
		fputs("\n", file);
	CHECK_EQUAL(fclose(file), 0);
	check_refused(path);
}

static void test_no_file(void)
{
	AUTO_TEXT *path = map_path(number()), *target = NULL;
	AUTO(written) written = { 0 };
	AUTO(json_t) *json = NULL;

	/* A link is refused: it may lead anywhere. */
	CHECK_FATAL(asprintf(&target, "%s.target", path) > 0);
	write_map(target, 0);
	CHECK_EQUAL(symlink(target, path), 0);
	write_trace(&written, number(), "//anon", 0);
	json = json_of(&written);
	CHECK_EQUAL(faults_in(json, "int fast(int)"), 0);
	unlink(path);
	unlink(target);
}

static const struct test tests[] = {
	{ "named", test_named, 60, TEST_ONCE },
	{ "of_another", test_of_another, 60, TEST_ONCE },
	{ "still_there", test_still_there, 60, TEST_ONCE },
	{ "number_again", test_number_again, 60, TEST_ONCE },
	{ "too_large", test_too_large, 60, TEST_ONCE },
	{ "no_file", test_no_file, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_made", tests)
