// SPDX-License-Identifier: MIT
/*
 * hetmap trace where there is little room: the records until the room ran out are a trace. This
 * program also runs those of traced.c.
 */
#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perf/trace_support.h"

/* "hetmap: 12,345 page faults, " on a line: 12345. */
static int64_t faults_said(const char *said)
{
	const char *at = strstr(said, " page faults, ");
	int64_t faults = 0;

	while (at && at > said && at[-1] != ' ')
		at--;
	for (; at && (isdigit((unsigned char)*at) || *at == ','); at++)
		if (*at != ',')
			faults = 10 * faults + *at - '0';
	return faults;
}

/* The command's trace ends early: the records until then are a trace. */
static void check_ends(const char *folder, struct command *command, const char *remedy)
{
	AUTO(outcome) outcome = { 0 };
	int64_t faults;
	AUTO(json_t) *json = NULL;

	CHECK_RUN(125, &outcome, command);
	if (!strstr(outcome.err, "no more room") || !strstr(outcome.err, remedy))
		test_fail(__FILE__, __LINE__, "it said: %s", outcome.err);
	CHECK(strstr(outcome.err, " page faults before it ended found no room: "));
	json = report(folder);
	CHECK(is_missing(json, "no more room"));
	/* As many are said to be in it as are. */
	CHECK_EQUAL(faults_said(outcome.err),
		    integer_of(json_object_get(json, "totals"), "faults"));
	faults = integer_of(buffer_of(json, NAME), "minor");
	CHECK(faults > 100 && faults < TRACED_PAGES);
}

/* On a file system that is full soon. */
static void check_no_room(const char *traced, const char *room)
{
	struct command command = { .args = { "trace", "-o", NULL, "--no-tracepoints", "--",
					     self, "--traced", traced } };
	AUTO_TEXT *folder = NULL, *path = NULL;

	folder = folder_make();
	command.args[2] = path = folder_path(folder, "trace");
	/* In a chroot "/" is no mount: then it shows outside, too, until it is taken off. */
	if (unshare(CLONE_NEWNS) ||
	    (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) && errno != EINVAL) ||
	    mount("trace", folder, "tmpfs", 0, room)) {
		test_skip("kernel", "no file system can be mounted: %s", strerror(errno));
		return;
	}
	check_ends(folder, &command, "a folder with more room");
	CHECK(!umount2(folder, MNT_DETACH));
}

/* Also where the mapping is in a ring that found no room; and where it is all too small. */
static void test_no_room(void)
{
	/* A MiB of it is set aside. A sanitizer's own start takes half a MiB of records. */
	const char *room = TEST_ASAN ? "size=2048k,mode=777" : "size=1536k,mode=777";

	need_trace();
	check_no_room("sequential", room);
	check_no_room("migrated", room);
	if (!TEST_ASAN)
		check_no_room("sequential", "size=1024k,mode=777");
}

/* Nor may a file be as long as the trace gets; the one before it is where it always is. */
static void test_file_size(void)
{
	struct command command = { .args = { "trace", "-o", NULL, "--no-tracepoints", "--",
					     self, "--traced", "sequential" },
				   .resource = RLIMIT_FSIZE,
				   .limit = TEST_ASAN ? 2 << 20 : 1 << 20 };
	AUTO_TEXT *folder = NULL, *path = NULL;
	uint64_t before;

	folder = traced_folder();
	command.args[2] = path = folder_path(folder, "trace");
	trace(folder, "status", 42);
	before = trace_inode(folder, "trace");
	check_ends(folder, &command, "ulimit -f");
	CHECK_EQUAL(trace_inode(folder, "trace.old"), before);
}

/* The room kept for the end is given back: the file takes no more room than its length. */
static void test_room(void)
{
	struct stat st;
	AUTO_TEXT *folder = traced_folder();
	AUTO_TEXT *path = folder_path(folder, "trace/perf.data");

	trace(folder, "sequential", 0);
	CHECK(!stat(path, &st));
	CHECK(st.st_blocks * 512 < st.st_size + 65536);
}

static const struct test tests[] = {
	{ "no_room", test_no_room, 60, TEST_ONCE },
	{ "file_size", test_file_size, 60, TEST_ONCE },
	{ "room", test_room, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(trace_tests_main, "trace_room", tests)
