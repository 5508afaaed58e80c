// SPDX-License-Identifier: MIT
/* The command where its surroundings fail it: signals, outputs, drivers, limits. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/command.h"

#define NOBODY 65534

static void test_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM };
	AUTO(outcome) outcome = { 0 };
	size_t i;
	pid_t pid;

	for (i = 0; i < 2; i++) {
		const struct command command = { .args = { "run", "saxpy", "--size", "64M",
							   "--accel", "cpu", "--rounds",
							   "1000" } };

		pid = command_start(&command);
		command_await(pid, signals[i], NULL);
		CHECK_EQUAL(kill(pid, signals[i]), 0);
		command_wait(pid, &outcome);
		CHECK_EQUAL(outcome.status, 128 + signals[i]);
		CHECK_EQUAL(strlen(outcome.out), 0);
	}
}

static void test_closed_output(void)
{
	struct command command = { .args = { "run", "histogram", ON_CPU, "/etc/passwd" } };
	AUTO(outcome) outcome = { 0 };
	int ends[2];

	CHECK_EQUAL(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	command.out = ends[1];
	CHECK_RUN(128 + SIGPIPE, &outcome, &command);
	CHECK_EQUAL(strlen(outcome.err), 0);
	close(ends[1]);

	command.out = open("/dev/full", O_WRONLY | O_CLOEXEC);
	CHECK_RUN(3, &outcome, &command);
	CHECK(strstr(outcome.err, "No space left") != NULL);

	/* The error is printed once, with its reason, also by a command that flushes each line. */
	command = (struct command){ .args = { "bench", "--list" }, .out = command.out };
	CHECK_RUN(3, &outcome, &command);
	CHECK(!strcmp(outcome.err,
		      "hetmap: cannot write the result: No space left on device\n"));

	/* A text of more than a buffer, whose last write comes in the middle of it. */
	command = (struct command){ .args = { "run", "--help" }, .out = command.out };
	CHECK_RUN(3, &outcome, &command);
	CHECK(!strcmp(outcome.err,
		      "hetmap: cannot write the result: No space left on device\n"));
	close(command.out);
}

/* Without a standard output no buffer takes its number, to get the output. */
static void test_no_output(void)
{
	struct command command = { .args = { "tour", "--device", "host", "--accel", "cpu" },
				   .out = -1 };
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(3, &outcome, &command);
	CHECK(!strcmp(outcome.err, "hetmap: cannot write the result: Bad file descriptor\n"));
}

static void test_no_opencl(void)
{
	struct command command = {
		.args = { "run", "histogram", "--json", "/etc/passwd" },
		.env = { "OCL_ICD_VENDORS=/nonexistent" },
	};
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *json = NULL;

	CHECK_RUN(0, &outcome, &command);
	CHECK(strstr(outcome.err, "no OpenCL device here: running on the CPU") != NULL);
	json = outcome_json(&outcome);
	CHECK(!strcmp(string_of(json, "accel"), "cpu"));
	CHECK(!strcmp(string_of(json, "way_in"), "direct"));

	command.args[4] = "--accel=opencl:0";
	CHECK_RUN(3, &outcome, &command);
	check_failure_json(&outcome, ENODEV);

	command.args[4] = "--device=drm:amdgpu";
	CHECK_RUN(3, &outcome, &command);
	check_failure_json(&outcome, ENODEV);
}

/* A trace was asked for: the command says why there is none, and the job is done. */
static void test_no_trace(void)
{
	const struct command command = {
		.args = { "run", "histogram", "--quiet", ON_CPU, "/etc/passwd" },
		.env = { "HETMAP_TRACE=/nonexistent/trace" },
	};
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(0, &outcome, &command);
	CHECK(!strcmp(outcome.err,
		      "hetmap: HETMAP_TRACE: /nonexistent/trace can't be written, and the "
		      "trace ends there: ENOENT (No such file or directory)\n"));
}

static void check_limit(const char *path, int resource, uint64_t limit, int error,
			const char *part)
{
	const struct command command = {
		.args = { "run", "histogram", "--json", ON_CPU, path },
		.resource = resource,
		.limit = limit,
	};
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(3, &outcome, &command);
	check_failure_json(&outcome, error);
	CHECK_HAS(outcome.out, part);
}

static void test_limits(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "sparse");

	file_sparse(folder, "sparse", 2ull << 30);
	check_limit(path, RLIMIT_NOFILE, 4, EMFILE, "RLIMIT_NOFILE");
	/* A sanitizer alone takes more than that. */
	if (!TEST_ASAN && !TEST_TSAN)
		check_limit(path, RLIMIT_AS, 1ull << 30, ENOMEM, "RLIMIT_AS");
}

/* Which limit it is, and nothing advised that does not help. */
static void test_limits_of_work(void)
{
	static const struct {
		const char *args[8];
		int resource;
		uint64_t limit;
		const char *says;
		bool less; /* a smaller --size helps */
	} cases[] = {
		{ { "tour", "-d", "soft:0", "-a", "soft:0" },
		  RLIMIT_NPROC,
		  1,
		  "submitting work: no thread could be started: RLIMIT_NPROC is 1 ",
		  false },
		{ { "run", "saxpy", "--size", "8M", "-a", "cpu" },
		  RLIMIT_NPROC,
		  1,
		  "computing on the CPU: no thread could be started: RLIMIT_NPROC is 1 ",
		  false },
		{ { "run", "saxpy", "--size", "8M", "-d", "soft:0" },
		  RLIMIT_NOFILE,
		  4,
		  "all 4 descriptors of this process are in use",
		  false },
		{ { "tour", "-d", "host" },
		  RLIMIT_NOFILE,
		  5,
		  "/proc/self/smaps: all 5 descriptors",
		  false },
		{ { "run", "saxpy", "--size", "1M", "-a", "cpu", "-d", "host" },
		  RLIMIT_DATA,
		  20 << 20,
		  "no thread could be started: its stack of 8 MiB is beyond RLIMIT_DATA, 20 MiB",
		  false },
		{ { "run", "saxpy", "--size", "1G", "-a", "cpu", "-d", "soft:0" },
		  RLIMIT_AS,
		  512 << 20,
		  "soft:0: making a buffer: beyond RLIMIT_AS, 512 MiB, of which ",
		  true },
		{ { "tour", "-d", "soft:0" },
		  RLIMIT_FSIZE,
		  102400,
		  "its file would exceed RLIMIT_FSIZE, 100 KiB",
		  true },
	};
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command command = {
			.resource = cases[i].resource,
			.limit = cases[i].limit,
			.uid = geteuid() ? 0 : NOBODY,
			.env = { "OCL_ICD_VENDORS=/nonexistent" },
		};

		/* A sanitizer starts threads of its own, and takes more memory. */
		if ((TEST_ASAN || TEST_TSAN) &&
		    (cases[i].resource == RLIMIT_NPROC || cases[i].resource == RLIMIT_DATA ||
		     cases[i].resource == RLIMIT_AS))
			continue;
		memcpy(command.args, cases[i].args, sizeof(cases[i].args));
		command_run(&command, &outcome);
		CHECK(outcome.status == 3 || outcome.status == 1);
		CHECK_HAS(outcome.err, cases[i].says);
		CHECK_EQUAL(strstr(outcome.err, "smaller --size") != NULL, cases[i].less);
	}
}

/* Text from files, arguments and the environment does nothing to a terminal. */
static void test_escapes(void)
{
	static const struct {
		const char *args[6];
		const char *env;
		const char *says;
	} cases[] = {
		{ { "bench", "\033[31mred" }, NULL, "no case '\\x1b[31mred'" },
		{ { "run", "saxpy", "-d", "\033[2Jx\nhetmap: y" }, NULL, "\"?[2Jx?hetmap: y\"" },
		{ { "tour", "-d", "soft:0" }, "HETMAP_SOFT=\033c=1", "\"?c\"" },
		{ { "bench", "soft_submit" }, "HETMAP_SOFT=\033c=1", "\"?c\"" },
		{ { "doctor" }, "HETMAP_SOFT=\033c=1", "\"?c\"" },
	};
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command command = { .env = { cases[i].env } };

		memcpy(command.args, cases[i].args, sizeof(cases[i].args));
		command_run(&command, &outcome);
		/* A doctor reports it, which is no failure of his. */
		CHECK(outcome.status == 2 || outcome.status == 3 ||
		      !strcmp(cases[i].args[0], "doctor"));
		CHECK(!strchr(outcome.err, '\033') && !strchr(outcome.out, '\033'));
		if (!strstr(outcome.err, cases[i].says) && !strstr(outcome.out, cases[i].says))
			test_fail(__FILE__, __LINE__, "no '%s' in: %s", cases[i].says,
				  outcome.err);
	}
}

/* An ordinary user becomes root in a user namespace. */
static void hide_proc(void)
{
	if ((unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS)) ||
	    mount("none", "/proc", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/proc", "tmpfs", 0, NULL))
		_exit(COMMAND_NO_FILTER);
}

static void test_no_proc(void)
{
	static const struct {
		const char *args[6];
		int status;
	} cases[] = {
		{ { "explain", "-p", "1", "x" }, 3 },
		{ { "top", "--once" }, 3 },
		{ { "top", "--once", "-p", "1" }, 3 },
		{ { "trace", "-o", "/nowhere/trace", "--", "true" }, 125 },
		{ { "trace", "-o", "/nowhere/trace", "-p", "1" }, 125 },
	};
	AUTO(outcome) outcome = { 0 };
	size_t i;

	if (TEST_ASAN) {
		test_skip("sanitizer",
			  "it looks for leaks by /proc, and has its options there");
		return;
	}
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command command = { .prepare = hide_proc };

		memcpy(command.args, cases[i].args, sizeof(cases[i].args));
		command_run(&command, &outcome);
		if (outcome.status == COMMAND_NO_FILTER) {
			test_skip("kernel", "/proc can't be mounted over");
			return;
		}
		CHECK_EQUAL(outcome.status, cases[i].status);
		CHECK(strstr(outcome.err, "/proc is not mounted: "));
		CHECK(strstr(outcome.err, "\n        mount -t proc proc /proc\n"));
	}
}

static const struct test tests[] = {
	{ .name = "signals", .run = test_signals },
	{ .name = "closed_output", .run = test_closed_output },
	{ .name = "no_output", .run = test_no_output },
	{ .name = "no_opencl", .run = test_no_opencl },
	{ .name = "no_trace", .run = test_no_trace },
	{ .name = "escapes", .run = test_escapes },
	{ .name = "no_proc", .run = test_no_proc },
	{ .name = "limits", .run = test_limits },
	{ .name = "limits_of_work", .run = test_limits_of_work },
	{ 0 },
};

TEST_MAIN(harness_main_once, "command_surroundings", tests)
