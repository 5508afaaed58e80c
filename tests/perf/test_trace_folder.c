// SPDX-License-Identifier: MIT
/*
 * The folder that hetmap trace writes to: one trace at a time, whatever else would use it, and
 * whatever happened to the last one. This program also runs those of traced.c.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf/trace_support.h"

#define AT_ONCE 4

static const char busy[] = "another hetmap trace writes to";

static bool is_there(const char *folder, const char *name)
{
	AUTO_TEXT *path = folder_path(folder, name);

	return !access(path, F_OK);
}

/* Names of traces in it, "NAME" and "NAME.old", and of nothing else that begins so. */
static size_t traces_in(const char *folder, const char *name)
{
	DIR *listed = opendir(folder);
	struct dirent *entry;
	size_t n = 0;

	while (listed && (entry = readdir(listed)))
		n += !strncmp(entry->d_name, name, strlen(name));
	if (listed)
		closedir(listed);
	return n;
}

/* One that is under way: its command has begun, and waits for let_go(). */
struct under_way {
	const char *folder;
	pid_t pid;
	FILE *said;
	char script[1024], path[512];
};

static void begin(const char *folder, const char *name, struct under_way *ret)
{
	struct command command = { .args = { "trace", "-q", "-o", ret->path, "--no-tracepoints",
					     "--", "sh", "-c", ret->script } };

	ret->folder = folder;
	snprintf(ret->path, sizeof(ret->path), "%s/%s", folder, name);
	snprintf(
		ret->script, sizeof(ret->script),
		"cd '%s' && : >began && while [ -e began ] && [ ! -e go ]; do sleep 0.02; done; "
		"exit 11",
		folder);
	ret->said = tmpfile();
	CHECK_FATAL(ret->said != NULL);
	command.out = command.err = fileno(ret->said);
	ret->pid = command_start(&command);
	while (!is_there(folder, "began"))
		usleep(1000);
}

static void let_go(const struct under_way *one)
{
	file_write(one->folder, "go", "", 0);
}

static void end(const struct under_way *one)
{
	AUTO(outcome) outcome = { 0 };
	char *path;

	let_go(one);
	command_wait(one->pid, &outcome);
	CHECK_EQUAL(outcome.status, 11);
	fseek(one->said, 0, SEEK_END);
	CHECK_EQUAL(ftell(one->said), 0);
	fclose(one->said);
	path = folder_path(one->folder, "go");
	CHECK(!unlink(path));
	free(path);
	path = folder_path(one->folder, "began");
	CHECK(!unlink(path));
	free(path);
}

/* Another one is refused @name, before its command is executed. */
static void check_busy(const char *folder, const char *name)
{
	AUTO_TEXT *path = folder_path(folder, name), *ran = folder_path(folder, "ran");
	struct command command = { .args = { "trace", "-o", path, "--", "touch", ran } };
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(125, &outcome, &command);
	if (!strstr(outcome.err, busy) || !strstr(outcome.err, "-o"))
		test_fail(__FILE__, __LINE__, "it said: %s", outcome.err);
	CHECK(!is_there(folder, "ran"));
}

static void test_busy(void)
{
	struct under_way one;
	uint64_t inode;
	AUTO(json_t) *json = NULL;
	AUTO_TEXT *folder = traced_folder();

	begin(folder, "trace", &one);
	inode = trace_inode(folder, "trace");
	check_busy(folder, "trace");
	check_busy(folder, "trace/");
	CHECK_EQUAL(traces_in(folder, "trace"), 1);
	end(&one);
	CHECK_EQUAL(trace_inode(folder, "trace"), inode);
	json = report(folder);
	CHECK(!strncmp(string_of(json, "command"), "sh -c", 5));
	/* Nor may a trace in the folder that has to make room. */
	begin(folder, "trace.old", &one);
	check_busy(folder, "trace");
	CHECK_EQUAL(trace_inode(folder, "trace"), inode);
	end(&one);
	CHECK_EQUAL(traces_in(folder, "trace"), 2);
}

/* The killed tracer writes to it no more, even though its command lives on. */
static void test_killed(void)
{
	struct under_way one;
	AUTO(outcome) outcome = { 0 };
	uint64_t inode;
	AUTO_TEXT *folder = traced_folder();

	begin(folder, "trace", &one);
	inode = trace_inode(folder, "trace");
	CHECK(!kill(one.pid, SIGKILL));
	command_wait(one.pid, &outcome);
	fclose(one.said);
	trace(folder, "status", 42);
	CHECK_EQUAL(trace_inode(folder, "trace.old"), inode);
	CHECK_EQUAL(traces_in(folder, "trace"), 2);
	let_go(&one);
}

/* Those that begin at the same moment: each has a whole trace to itself, or none. */
static void check_at_once(const char *folder, const char *path)
{
	const struct command command = { .args = { "trace", "-q", "-o", path,
						   "--no-tracepoints", "--", "sh", "-c",
						   "exit 12" } };
	struct command each[AT_ONCE];
	AUTO(outcome) outcome = { 0 };
	pid_t pid[AT_ONCE];
	size_t i, n = 0;
	FILE *err[AT_ONCE];
	char said[1024];

	for (i = 0; i < AT_ONCE; i++) {
		err[i] = tmpfile();
		CHECK_FATAL(err[i] != NULL);
		each[i] = command;
		each[i].out = each[i].err = fileno(err[i]);
		pid[i] = command_start(&each[i]);
	}
	for (i = 0; i < AT_ONCE; i++) {
		command_wait(pid[i], &outcome);
		rewind(err[i]);
		said[fread(said, 1, sizeof(said) - 1, err[i])] = '\0';
		fclose(err[i]);
		n += outcome.status == 12;
		if (outcome.status != 12 && (outcome.status != 125 || !strstr(said, busy)))
			test_fail(__FILE__, __LINE__, "it ended with %d and said: %s",
				  outcome.status, said);
	}
	CHECK(n > 0);
	CHECK(is_there(folder, "trace/about.json") && is_there(folder, "trace/perf.data"));
	CHECK(!is_there(folder, "trace.old") || (is_there(folder, "trace.old/about.json") &&
						 is_there(folder, "trace.old/perf.data")));
	CHECK_EQUAL(traces_in(folder, "trace"), is_there(folder, "trace.old") ? 2 : 1);
}

static void test_at_once(void)
{
	int i;
	AUTO_TEXT *folder = traced_folder();
	AUTO_TEXT *path = folder_path(folder, "trace");

	for (i = 0; i < 5; i++)
		check_at_once(folder, path);
}

/* An empty folder is taken, once something is traced, and replaces no trace before it. */
static void test_empty(void)
{
	AUTO_TEXT *folder = NULL, *path = NULL;
	AUTO(outcome) outcome = { 0 };
	uint64_t before;

	folder = traced_folder();
	trace(folder, "status", 42);
	trace(folder, "status", 42);
	before = trace_inode(folder, "trace.old");
	folder_remove(folder_path(folder, "trace"));
	path = folder_path(folder, "trace");
	CHECK(!mkdir(path, 0700));
	CHECK_RUN(127, &outcome,
		  &(struct command){ .args = { "trace", "-o", path, "--", "/nonexistent" } });
	CHECK(is_there(folder, "trace") && !is_there(folder, "trace/perf.data"));
	trace(folder, "status", 42);
	CHECK(is_there(folder, "trace/about.json"));
	CHECK_EQUAL(trace_inode(folder, "trace.old"), before);
	CHECK_EQUAL(traces_in(folder, "trace"), 2);
}

static void refuse_exchange(void)
{
	command_refuse_call(SYS_renameat2, 4, RENAME_EXCHANGE, EINVAL);
}

/* On a file system that can't exchange two names one after the other gets its own. */
static void test_no_exchange(void)
{
	AUTO_TEXT *folder = NULL, *path = NULL;
	struct command command = { .args = { "trace", "-q", "-o", NULL, "--no-tracepoints",
					     "--", "true" },
				   .prepare = refuse_exchange };
	AUTO(outcome) outcome = { 0 };
	uint64_t before, last;

	folder = traced_folder();
	command.args[3] = path = folder_path(folder, "trace");
	trace(folder, "status", 42);
	before = trace_inode(folder, "trace");
	command_run(&command, &outcome);
	if (outcome.status == COMMAND_NO_FILTER) {
		test_skip("kernel", "no filter of system calls can be set");
		return;
	}
	CHECK_EQUAL(outcome.status, 0);
	last = trace_inode(folder, "trace");
	CHECK_EQUAL(trace_inode(folder, "trace.old"), before);
	command.args[6] = "/nonexistent/program";
	CHECK_RUN(127, &outcome, &command);
	CHECK_EQUAL(trace_inode(folder, "trace"), last);
	CHECK_EQUAL(trace_inode(folder, "trace.old"), before);
	CHECK_EQUAL(traces_in(folder, "trace"), 2);
}

static const struct test tests[] = {
	{ "busy", test_busy, 60, TEST_ONCE },
	{ "killed", test_killed, 60, TEST_ONCE },
	{ "at_once", test_at_once, 90, TEST_ONCE },
	{ "empty", test_empty, 60, TEST_ONCE },
	{ "no_exchange", test_no_exchange, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(trace_tests_main, "trace_folder", tests)
