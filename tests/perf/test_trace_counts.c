// SPDX-License-Identifier: MIT
/* hetmap trace: the faults that it has are those that there were, or it says how many not. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perf/stat_support.h"
#include "perf/trace_support.h"

#define PAGES "20000"
#define NOBODY 65534

/* Traces @program as an ordinary user: the tracer's messages, and the report. NULL: a skip. */
static json_t *trace_as_user(const char *folder, const char *program, char **ret_said)
{
	AUTO_TEXT *path = folder_path(folder, "trace");
	const struct command command = { .args = { "trace", "-o", path, "--no-tracepoints",
						   "--", program, "--act", "touch", PAGES },
					 .uid = getuid() ? 0 : NOBODY };
	AUTO(outcome) outcome = { 0 };
	json_t *json = NULL;

	command_run(&command, &outcome);
	if (outcome.status == 125)
		test_skip("perf", "no ordinary user may trace here: %s", outcome.err);
	else
		json = report(folder);
	*ret_said = outcome.err;
	outcome.err = NULL;
	return json;
}

/*
 * A program that its user may not read, such as a set-user-ID one: the kernel takes the events
 * away, as the user may not see into it. An empty trace then does not mean no faults.
 */
static void test_taken_away(void)
{
	AUTO_TEXT *folder = folder_make(), *copy = stat_copy(folder, 0111), *said = NULL;
	const json_t *untraced;
	json_t *json, *about;
	char path[512];

	CHECK(!chmod(folder, 0777));
	json = trace_as_user(folder, copy, &said);
	if (json) {
		CHECK(strstr(said, "page faults, and 0 were recorded"));
		CHECK(strstr(said, "sudo hetmap trace"));
		CHECK(is_missing(json, "page faults, and 0 were recorded"));
		snprintf(path, sizeof(path), "%s/trace/about.json", folder);
		about = json_load_file(path, 0, NULL);
		untraced = json_object_get(about, "untraced");
		CHECK_FATAL(untraced != NULL);
		CHECK(integer_of(untraced, "faults") >= atoi(PAGES));
		json_decref(about);
	}
	json_decref(json);
}

/* One that he may read has no such sentence, whatever else he is not shown. */
static void test_ordinary_user(void)
{
	AUTO_TEXT *folder = folder_make(), *copy = stat_copy(folder, 0755), *said = NULL;
	AUTO(json_t) *json = NULL;

	CHECK(!chmod(folder, 0777));
	json = trace_as_user(folder, copy, &said);
	if (json) {
		CHECK(!strstr(said, "were recorded"));
		CHECK(!is_missing(json, "were recorded: "));
		CHECK(integer_of(json_object_get(json, "totals"), "minor") >= atoi(PAGES));
	}
}

/* ---- beside perf ---- */

static bool is_near(int64_t value, double expected)
{
	return fabs((double)value - expected) <= expected * 0.01;
}

/* The recording's records, as the report counts them, and the events' own counts. */
static bool agrees(const char *folder, const struct command *command, const double counts[2],
		   char *said, size_t size)
{
	const double all = counts[0] + counts[1];
	AUTO(outcome) outcome = { 0 };
	const json_t *totals;
	int64_t minor, both;
	AUTO(json_t) *json = NULL;
	bool agree;

	CHECK_RUN(0, &outcome, command);
	json = report(folder);
	totals = json_object_get(json, "totals");
	minor = integer_of(totals, "minor");
	both = minor + integer_of(totals, "major");
	agree = is_near(minor, counts[0]) && is_near(both, all) &&
		is_near(integer_of(totals, "faults"), all);
	snprintf(said, size, "%lld minor faults and %lld in all, not %.0f and %.0f",
		 (long long)minor, (long long)both, counts[0], all);
	return agree;
}

/*
 * Two runs of a program, of which each may find pages of it missing that the other one has:
 * on a busy machine one pair of three is to agree.
 */
static void check_beside_perf(const char *const act[])
{
	struct command command = { .args = { "trace", "-q", "-o", NULL, "--no-tracepoints",
					     "--", self, "--act" } };
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "trace");
	char said[160] = "";
	bool agree = false;
	double counts[2];
	int i, tries;

	command.args[3] = path;
	for (i = 0; act[i]; i++)
		command.args[8 + i] = act[i];
	for (tries = 0; may_trace() && tries < 3 && !agree; tries++) {
		if (!stat_ask_perf(act, counts))
			break;
		unlink(path);
		agree = agrees(folder, &command, counts, said, sizeof(said));
	}
	if (!agree && *said)
		test_fail(__FILE__, __LINE__, "%s", said);
}

static void test_agrees_with_perf(void)
{
	check_beside_perf((const char *const[]){ "touch", PAGES, NULL });
}

/*
 * Its children count, too. Few, with many pages each: the faults of a fork() itself differ from run
 * to run, most under ASan, where they are a quarter of all if there are 100.
 */
static void test_children_agree_with_perf(void)
{
	check_beside_perf((const char *const[]){ "fork", "20", "1000", NULL });
}

/* A ring larger than the user may lock: the error names the limit; the events are allowed. */
static void test_large_ring(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "trace");
	struct command command = { .args = { "trace", "-o", path, "--no-tracepoints", "--",
					     "/bin/true" },
				   .uid = getuid() ? 0 : NOBODY };
	AUTO(outcome) outcome = { 0 };

	CHECK(!chmod(folder, 0777));
	command_run(&command, &outcome);
	if (outcome.status) {
		test_skip("perf", "no ordinary user may trace here: %s", outcome.err);
	} else {
		command.args[3] = "--ring=1G";
		CHECK_RUN(125, &outcome, &command);
		CHECK(strstr(outcome.err, "a ring of 1 GiB takes 1048580 KiB for each CPU"));
		CHECK(strstr(outcome.err, "(kernel.perf_event_mlock_kb)"));
		CHECK(strstr(outcome.err, "a smaller --ring"));
	}
}

static const struct test tests[] = {
	{ "taken_away", test_taken_away, 60, TEST_ONCE },
	{ "large_ring", test_large_ring, 60, TEST_ONCE },
	{ "ordinary_user", test_ordinary_user, 60, TEST_ONCE },
	{ "agrees_with_perf", test_agrees_with_perf, 60, TEST_ONCE },
	{ "children_agree_with_perf", test_children_agree_with_perf, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	stat_act(argc, argv);
	return trace_tests_main(argc, argv, "trace_counts", tests);
}
