// SPDX-License-Identifier: MIT
/* hetmap stat: its counts match the work done, by each source of counts. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/stat_support.h"

#define PAGES 20000
#define NOBODY 65534

static const char *const metrics[] = {
	"wall",
	"user",
	"system",
	"task_clock",
	"context_switches",
	"cpu_migrations",
	"minor_faults",
	"major_faults",
	"dtlb_load_misses",
	"dtlb_store_misses",
	"itlb_misses",
	"peak_rss",
	"peak_page_tables",
};

/* With 0 pages it gives the cost of starting a program, to be taken off. */
static json_t *touching(const char *self, const char *pages, const struct command *like)
{
	struct command command = like ? *like : (struct command){ 0 };

	command.args[0] = "--";
	command.args[1] = self;
	command.args[2] = "--act";
	command.args[3] = "touch";
	command.args[4] = pages;
	return stat_json(&command, 0);
}

static void check_near(double value, double expected, double share)
{
	if (fabs(value - expected) > expected * share)
		test_fail(__FILE__, __LINE__, "%.0f, not %.0f", value, expected);
}

static void test_faults(void)
{
	AUTO(json_t) *none = touching(stat_self(), "0", NULL);
	AUTO(json_t) *all = touching(stat_self(), "20000", NULL);
	double faults = stat_mean(all, "minor_faults") - stat_mean(none, "minor_faults");
	size_t i;

	check_near(faults, PAGES, 0.01);
	/* Eight bytes for each page, and the memory itself. */
	CHECK(stat_mean(all, "peak_page_tables") >= PAGES * 8);
	CHECK(stat_mean(all, "peak_rss") >= PAGES * 4096.0);
	CHECK(stat_mean(all, "wall") > 0);
	CHECK(stat_mean(all, "user") + stat_mean(all, "system") > 0);
	for (i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
		stat_check_told(all, metrics[i]);
}

/* Each of them is counted, whichever process it was in. */
static void test_children(void)
{
	const struct command command = { .args = { "--", stat_self(), "--act", "fork", "2000",
						   "10" } };
	AUTO(json_t) *report = stat_json(&command, 0);

	CHECK(stat_mean(report, "minor_faults") >= 20000);
	CHECK(stat_mean(report, "context_switches") >= 2000);
}

static void test_major_faults(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "file");
	const struct command command = { .args = { "stat", "--json", "--", stat_self(), "--act",
						   "major", path } };
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *report = NULL;

	char *bytes = calloc(64, 4096);

	CHECK_FATAL(bytes != NULL);
	file_write(folder, "file", bytes, 64 * 4096);
	free(bytes);
	command_run(&command, &outcome);
	report = json_loads(outcome.err, 0, NULL);
	CHECK_FATAL(report != NULL);
	/* On a file system in memory it is none. */
	CHECK(stat_mean(report, "major_faults") >= atof(outcome.out));
}

/* 0, 1000 and 2000 pages: the mean is one thousand more than the least, as is the deviation. */
static void test_repetitions(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "steps");
	const struct command command = { .args = { "-r", "3", "--", stat_self(), "--act",
						   "step", path, "1000" } };
	const json_t *faults;
	AUTO(json_t) *report = NULL;

	file_write(folder, "steps", "", 0);
	report = stat_json(&command, 0);
	faults = json_object_get(json_object_get(report, "metrics"), "minor_faults");
	CHECK_EQUAL(integer_of(report, "runs"), 3);
	CHECK_EQUAL(integer_of(report, "runs_asked"), 3);
	CHECK_EQUAL(integer_of(faults, "runs"), 3);
	check_near(real_of(faults, "max") - real_of(faults, "min"), 2000, 0.02);
	check_near(real_of(faults, "mean") - real_of(faults, "min"), 1000, 0.02);
	check_near(real_of(faults, "stddev"), 1000, 0.02);
}

/* ---- where counting is refused ---- */

/* As in a container: it counts by wait4(), and says which counts it can't have. */
static void test_refused(void)
{
	const struct command command = { .prepare = command_refuse_perf };
	AUTO(json_t) *none = NULL, *all = NULL;

	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) {
		test_skip("kernel", "no seccomp filters: %s", strerror(errno));
		return;
	}
	none = touching(stat_self(), "0", &command);
	all = touching(stat_self(), "20000", &command);
	check_near(stat_mean(all, "minor_faults") - stat_mean(none, "minor_faults"), PAGES,
		   0.01);
	CHECK(!strcmp(stat_text(all, "minor_faults", "source"), "wait4"));
	CHECK(!strcmp(stat_text(all, "context_switches", "source"), "wait4"));
	CHECK(strstr(stat_text(all, "task_clock", "not_counted"), "not permitted") != NULL);
	CHECK(strstr(stat_text(all, "cpu_migrations", "not_counted"), "not permitted") != NULL);
	CHECK_HAS(stat_text(all, "dtlb_load_misses", "not_counted"), "not permitted");
	CHECK(strstr(string_of(all, "perf_refused"), "perf_event_open(2) is refused") != NULL);
	/* Faults before execve(2) are taken off, as a counter would leave them out. */
	CHECK(stat_mean(none, "minor_faults") < 20000);
}

/* The remedy comes first, before any figure. */
static void test_paranoid(void)
{
	AUTO_TEXT *folder = folder_make(), *setting = NULL;
	struct command command = { .prepare = command_refuse_perf,
				   .args = { "stat", "--", "true" } };
	AUTO(outcome) outcome = { 0 };
	const char *remedy;

	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) {
		test_skip("kernel", "no seccomp filters: %s", strerror(errno));
		return;
	}
	CHECK_FATAL(asprintf(&setting, "HETMAP_ROOT=%s", folder) > 0);
	command.env[0] = setting;
	command.uid = getuid() ? 0 : NOBODY;
	file_write(folder, "proc/sys/kernel/perf_event_paranoid", "3\n", 2);
	CHECK_RUN(0, &outcome, &command);
	remedy = strstr(outcome.err, "sudo sysctl kernel.perf_event_paranoid=1");
	CHECK(remedy != NULL && remedy < strstr(outcome.err, "wall time"));
	CHECK(strstr(outcome.err, "it is 3, and") != NULL);
	CHECK(strstr(outcome.err, "by wait4(2)") != NULL);
	check_lines(outcome.err);

	/* Root is told that something else refuses. */
	command.uid = 0;
	if (!getuid()) {
		command_run(&command, &outcome);
		CHECK(strstr(outcome.err, "sysctl") == NULL);
		CHECK(strstr(outcome.err, "seccomp") != NULL);
	}
}

/* Whatever the setting is on this machine: an ordinary user sees the right number. */
static void test_ordinary_user(void)
{
	const struct command command = { .uid = getuid() ? 0 : NOBODY };
	AUTO_TEXT *folder = folder_make(), *copy = stat_copy(folder, 0755);
	AUTO(json_t) *none = touching(copy, "0", &command);
	AUTO(json_t) *all = touching(copy, "20000", &command);

	check_near(stat_mean(all, "minor_faults") - stat_mean(none, "minor_faults"), PAGES,
		   0.01);
}

/*
 * A program that its user may not read: the kernel takes the counters away, as its user may not see
 * into it. Their counts until then are not shown as the result.
 */
static void test_taken_away(void)
{
	const struct command command = { .uid = getuid() ? 0 : NOBODY };
	AUTO_TEXT *folder = folder_make(), *copy = stat_copy(folder, 0111);
	AUTO(json_t) *report = touching(copy, "20000", &command);

	CHECK(stat_mean(report, "minor_faults") >= PAGES);
	CHECK(!strcmp(stat_text(report, "minor_faults", "source"), "wait4"));
	CHECK(*stat_text(report, "task_clock", "not_counted"));
}

/* ---- beside perf ---- */

static void test_agrees_with_perf(void)
{
	const char *const act[] = { "touch", "20000", NULL };
	double counts[2];
	json_t *report;

	if (stat_ask_perf(act, counts)) {
		report = touching(stat_self(), "20000", NULL);
		check_near(stat_mean(report, "minor_faults"), counts[0], 0.01);
		check_near(stat_mean(report, "minor_faults") +
				   stat_mean(report, "major_faults"),
			   counts[0] + counts[1], 0.01);
		json_decref(report);
	}
}

static const struct test tests[] = {
	{ .name = "faults", .run = test_faults, .seconds = 60 },
	{ .name = "children", .run = test_children, .seconds = 120 },
	{ .name = "major_faults", .run = test_major_faults, .seconds = 60 },
	{ .name = "repetitions", .run = test_repetitions, .seconds = 60 },
	{ .name = "refused", .run = test_refused, .seconds = 60 },
	{ .name = "paranoid", .run = test_paranoid, .seconds = 60 },
	{ .name = "ordinary_user", .run = test_ordinary_user, .seconds = 60 },
	{ .name = "taken_away", .run = test_taken_away, .seconds = 60 },
	{ .name = "agrees_with_perf", .run = test_agrees_with_perf, .seconds = 60 },
	{ 0 },
};

int main(int argc, char **argv)
{
	stat_act(argc, argv);
	return harness_main_once(argc, argv, "stat", tests);
}
