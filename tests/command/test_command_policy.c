// SPDX-License-Identifier: MIT
/* hetmap run --policy: rules of each kind, their refusals, and files that are no policy. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/command.h"

#define NOBODY 65534

/* A job of two vectors of 64 KiB, or of @file; nothing but the library is needed. */
static void run_job(const char *policy, const char *file, uid_t uid, bool json,
		    struct outcome *ret_outcome)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "rules");
	struct command command = {
		.args = { "run", file ? "histogram" : "saxpy", "--accel", "cpu", "--rounds",
			  "1", "--policy", path, file ? file : "--size=64K",
			  json ? "--json" : NULL },
		.uid = uid,
	};

	file_write(folder, "rules", policy, strlen(policy));
	command_run(&command, ret_outcome);
}

static void check_allowed(const char *policy, const char *file)
{
	AUTO(outcome) outcome = { 0 };

	run_job(policy, file, 0, false, &outcome);
	if (outcome.status)
		test_fail(__FILE__, __LINE__, "%s gave %d: %s", policy, outcome.status,
			  outcome.err);
}

/* By the rule in @line, told to people and as JSON. */
static void check_refused(const char *policy, const char *file, uid_t uid, unsigned int line,
			  const char *rule)
{
	AUTO(outcome) outcome = { 0 };
	char part[160];
	AUTO(json_t) *json = NULL;

	snprintf(part, sizeof(part), "rule '%s' in line %u of ", rule, line);
	run_job(policy, file, uid, false, &outcome);
	CHECK_EQUAL(outcome.status, 3);
	CHECK_EQUAL(strlen(outcome.out), 0);
	CHECK(strstr(outcome.err, "the access hook refused ") != NULL);
	CHECK(strstr(outcome.err, "change the policy, or run it without --policy") != NULL);
	CHECK_HAS(outcome.err, part);

	run_job(policy, file, uid, true, &outcome);
	CHECK_EQUAL(outcome.status, 3);
	check_failure_json(&outcome, EACCES);
	json = outcome_json(&outcome);
	CHECK(strstr(json_string_value(json_object_get(json, "error")), part) != NULL);
}

static void verdicts(void)
{
	check_allowed("", NULL);
	check_allowed("\n# refuse all\n \t # nor this\n", NULL);
	check_allowed("allow all\nrefuse all\n", NULL);
	check_allowed("refuse export,import,send,receive,from_file\n", NULL);
	check_refused("refuse all", NULL, 0, 1, "refuse all");
	check_refused("# one\n\n\t refuse   open,map\r\n", NULL, 0, 3, "refuse   open,map");
	check_refused("allow open\nrefuse all\n", NULL, 0, 2, "refuse all");
}

/* Each kind of condition, where it fits and where it does not. */
static void conditions(void)
{
	check_refused("refuse open device=h?st\n", NULL, 0, 1, "refuse open device=h?st");
	check_allowed("refuse open device=soft* accel=cpu\n", NULL); /* never both */
	check_refused("refuse open accel=c*\n", NULL, 0, 1, "refuse open accel=c*");
	check_allowed("refuse create accel=c*\n", NULL); /* has none */
	check_refused("refuse launch kernel=saxpy\n", NULL, 0, 1, "refuse launch kernel=saxpy");
	check_allowed("refuse launch kernel=axpy\n", NULL);
	check_refused("refuse create buffer=alloc-*\n", NULL, 0, 1,
		      "refuse create buffer=alloc-*");
	check_refused("refuse create over=65535\n", NULL, 0, 1, "refuse create over=65535");
	check_allowed("refuse create over=64K\n", NULL);
	check_refused("refuse launch over=127K\n", NULL, 0, 1, "refuse launch over=127K");
	check_allowed("refuse launch over=128K\n", NULL);
	check_refused("refuse map access=write\n", NULL, 0, 1, "refuse map access=write");
	check_allowed("refuse open access=read\n", NULL);
	check_allowed("refuse all peer=0\n", NULL);
	/* All of a rule's conditions have to hold. */
	check_refused("refuse create device=host over=1K access=read\n", NULL, 0, 1,
		      "refuse create device=host over=1K access=read");
	check_allowed("refuse create device=host over=1K buffer=other\n", NULL);
}

/* By the file itself: a link to it, or dots on the way, are the same file. */
static void paths(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");
	char policy[4200];
	AUTO_TEXT *link = folder_path(folder, "link"), *dots = NULL;
	const char *rule = "refuse from_file path=*/data";

	file_write(folder, "data", "some bytes", 10);
	CHECK_FATAL(!symlink(path, link));
	CHECK_FATAL(asprintf(&dots, "%s/./../%s/link", folder, strrchr(folder, '/') + 1) > 0);
	snprintf(policy, sizeof(policy), "allow from_file path=*/link\n%s\n", rule);
	check_refused(policy, path, 0, 2, rule);
	check_refused(policy, link, 0, 2, rule);
	check_refused(policy, dots, 0, 2, rule);
	snprintf(policy, sizeof(policy), "allow from_file path=%s\nrefuse from_file\n", path);
	check_allowed(policy, dots);
	check_allowed("refuse from_file access=write\n", path);
	check_refused("refuse from_file access=read\n", path, 0, 1,
		      "refuse from_file access=read");
}

static void users(void)
{
	const struct passwd *user = getpwuid(geteuid());
	char rule[100], policy[128];

	snprintf(rule, sizeof(rule), "refuse open uid=%u", geteuid());
	snprintf(policy, sizeof(policy), "%s\n", rule);
	check_refused(policy, NULL, 0, 1, rule);
	snprintf(policy, sizeof(policy), "refuse open uid=%u\n", geteuid() + 1);
	check_allowed(policy, NULL);
	if (user) {
		snprintf(rule, sizeof(rule), "refuse open uid=%s", user->pw_name);
		snprintf(policy, sizeof(policy), "%s\n", rule);
		check_refused(policy, NULL, 0, 1, rule);
	}
}

/* OpenCL that a policy refuses is not missing: no other takes its place. */
static void not_replaced(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "rules");
	struct command command = {
		.args = { "run", "saxpy", "--size=64K", "--rounds", "1", "--policy", path },
	};
	AUTO(outcome) outcome = { 0 };

	file_write(folder, "rules", "refuse open accel=opencl*\n", 26);
	CHECK_RUN(3, &outcome, &command);
	CHECK(strstr(outcome.err, "cannot open the accelerator: the access hook refused open "
				  "\"opencl:0\"") != NULL);
}

static void no_policies(void)
{
	static const struct {
		const char *text, *part;
	} rows[] = {
		{ "refus all\n",
		  "line 1: a rule begins with allow or refuse, not with 'refus'" },
		{ "refus all\n", "did you mean refuse?" },
		{ "allow open\nrefuse\n", "line 2: no operation behind 'refuse'" },
		{ "\n\nrefuse opn\n", "line 3: unknown operation 'opn'" },
		{ "\n\nrefuse opn\n", "did you mean open?" },
		{ "refuse open,,map\n", "line 1: unknown operation ''" },
		{ "refuse open devixe=x\n", "unknown condition 'devixe'" },
		{ "refuse open devixe=x\n", "did you mean device?" },
		{ "refuse open device\n", "no condition: 'device'" },
		{ "refuse open device=\n", "nothing behind 'device='" },
		{ "refuse open device=a device=b\n", "a second 'device=b'" },
		{ "refuse open over=1 over=2\n", "a second 'over=2'" },
		{ "refuse create over=1X\n", "not valid: 'over=1X'" },
		{ "refuse create over=-1\n", "bytes, as in 4096, 64K, 1G" },
		{ "refuse create uid=no.such.user\n", "not valid: 'uid=no.such.user'" },
		{ "refuse create uid=4294967295\n", "a user's name or number" },
		{ "refuse create peer=-1\n", "not valid: 'peer=-1'" },
		{ "refuse map access=both\n", "read or write" },
		{ "allow \033[31m\n", "unknown operation '\\x1b[31m'" },
	};
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		run_job(rows[i].text, NULL, 0, false, &outcome);
		CHECK_EQUAL(outcome.status, 2);
		CHECK_EQUAL(strlen(outcome.out), 0);
		CHECK_HAS(outcome.err, rows[i].part);
		run_job(rows[i].text, NULL, 0, true, &outcome);
		CHECK_EQUAL(outcome.status, 2);
		check_failure_json(&outcome, EINVAL);
	}
}

static void check_file(const char *path, uid_t uid, int status, const char *part)
{
	struct command command = {
		.args = { "run", "saxpy", "--accel=cpu", "--size=64K", "--policy", path },
		.uid = uid,
	};
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(status, &outcome, &command);
	CHECK_HAS(outcome.err, part);
}

static void odd_files(void)
{
	static char comment[(1 << 20) + 1];
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "rules");

	check_file("/nonexistent/rules", 0, 2, "cannot open the policy '/nonexistent/rules'");
	check_file(folder, 0, 2, "Is a directory");
	file_write(folder, "rules", "allow all\0refuse all\n", 21);
	check_file(path, 0, 2, "line 1: a NUL behind 'allow all'");
	memset(comment, '#', sizeof(comment));
	file_write(folder, "rules", comment, sizeof(comment));
	check_file(path, 0, 2, "is longer than 1 MiB");
	if (!geteuid()) {
		CHECK(!chmod(path, 0600) && !chmod(folder, 0755));
		check_file(path, NOBODY, 3, "Permission denied");
	}
}

/* The one that is shown works as it says. */
static void example(void)
{
	struct command command = {
		.args = { "run", "histogram", "--accel", "cpu", "--rounds", "1", "--policy",
			  "examples/host-only.policy", "/usr/bin/env", NULL, NULL },
	};
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(0, &outcome, &command);
	command.args[9] = "--device=soft:0";
	CHECK_RUN(3, &outcome, &command);
	CHECK(strstr(outcome.err, "rule 'refuse open' in line ") != NULL);
	command.args[8] = "/etc/passwd";
	command.args[9] = NULL;
	command.uid = geteuid() ? 0 : NOBODY;
	CHECK_RUN(3, &outcome, &command);
	CHECK(strstr(outcome.err, "rule 'refuse from_file' in line ") != NULL);
}

static const struct test tests[] = {
	{ "verdicts", verdicts, 60, 0 },
	{ "conditions", conditions, 120, 0 },
	{ "paths", paths, 60, 0 },
	{ "users", users, 60, 0 },
	{ "not_replaced", not_replaced, 60, 0 },
	{ "no_policies", no_policies, 120, 0 },
	{ "odd_files", odd_files, 60, 0 },
	{ "example", example, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main_once, "command_policy", tests)
