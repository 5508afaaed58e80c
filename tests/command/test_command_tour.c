// SPDX-License-Identifier: MIT
/* hetmap tour: its steps on several devices, and its output when one fails. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "lib/command.h"

#define NOBODY 65534

static const char *const steps[] = {
	"open",   "create", "map",     "write",     "grow",     "lock",   "protect",
	"launch", "read",   "bracket", "map again", "prefetch", "shrink", "release",
};

#define N_STEP (sizeof(steps) / sizeof(steps[0]))

static json_t *step_of(const json_t *json, const char *name)
{
	const json_t *array = json_object_get(json, "steps");
	size_t i;

	for (i = 0; i < json_array_size(array); i++)
		if (!strcmp(string_of(json_array_get(array, i), "step"), name))
			return json_array_get(array, i);
	test_fail(__FILE__, __LINE__, "no step %s", name);
	return NULL;
}

/* @text: ranges as "state offset+length", in KiB, with ", " between them. */
static void check_map(const json_t *json, const char *name, const char *text)
{
	char found[512] = "";
	json_t *range;
	size_t i, n = 0;

	json_array_foreach(json_object_get(step_of(json, name), "map"), i, range)
	{
		n += (size_t)snprintf(found + n, sizeof(found) - n, "%s%s %d+%d", i ? ", " : "",
				      string_of(range, "state"),
				      (int)(integer_of(range, "offset") >> 10),
				      (int)(integer_of(range, "length") >> 10));
	}
	if (strcmp(found, text) != 0)
		test_fail(__FILE__, __LINE__, "%s: map is '%s', not '%s'", name, found, text);
}

/* The tour on @device and @accel as JSON; all its steps are there. */
static json_t *tour(const char *device, const char *accel, const char *size)
{
	const struct command command = { .args = { "tour", "--device", device, "--accel", accel,
						   "--size", size, "--json" } };
	AUTO(outcome) outcome = { 0 };
	json_t *json, *step;
	int64_t checks = 0;
	size_t i;

	CHECK_RUN(0, &outcome, &command);
	CHECK_EQUAL(strlen(outcome.err), 0);
	json = outcome_json(&outcome);
	CHECK_FATAL(json != NULL);
	CHECK(!strcmp(string_of(json, "device"), device));
	CHECK(!strcmp(string_of(json, "accel"), accel));
	CHECK(json_is_true(json_object_get(json, "verified")));
	CHECK_EQUAL(json_array_size(json_object_get(json, "steps")), N_STEP);
	json_array_foreach(json_object_get(json, "steps"), i, step)
	{
		CHECK(!strcmp(string_of(step, "step"), steps[i]));
		CHECK(*string_of(step, "text"));
		CHECK(json_is_real(json_object_get(step, "seconds")));
		CHECK(!strcmp(string_of(step, "state"), "absent") ||
		      integer_of(step, "checks") > 0);
		checks += integer_of(step, "checks");
	}
	CHECK_EQUAL(integer_of(json, "checks"), checks);
	CHECK_EQUAL(integer_of(json, "done") + integer_of(json, "absent"), N_STEP);
	return json;
}

/* 128 KiB: parts of 64. */
static void check_maps(const char *device, const char *accel)
{
	AUTO(json_t) *json = tour(device, accel, "128K");

	CHECK_EQUAL(integer_of(json, "bytes"), 128 << 10);
	CHECK_EQUAL(integer_of(json, "absent"), 0);
	check_map(json, "open", "");
	check_map(json, "create", "");
	check_map(json, "write", "read and write 0+128, reserved 128+64");
	check_map(json, "grow", "read and write 0+192");
	check_map(json, "lock", "read and write 0+64, locked 64+64, read and write 128+64");
	check_map(json, "read", "read only 0+64, locked 64+64, read and write 128+64");
	check_map(json, "shrink", "read only 0+64, reserved 64+128");
	check_map(json, "release", "");
	CHECK_EQUAL(integer_of(step_of(json, "grow"), "bytes"), 192 << 10);
	CHECK_EQUAL(integer_of(step_of(json, "shrink"), "bytes"), 64 << 10);
	CHECK(!strcmp(string_of(step_of(json, "map"), "address"),
		      string_of(step_of(json, "shrink"), "address")));
	CHECK(json_is_null(json_object_get(step_of(json, "release"), "address")));
}

static void on_host(void)
{
	check_maps("host", "cpu");
}

static void on_soft(void)
{
	check_maps("soft:0", "cpu");
	check_maps("soft:0", "soft:0");
}

/* Sizes that do not divide: whole pages, and one page less is left to compute on. */
static void odd_sizes(void)
{
	AUTO(json_t) *json = tour("host", "cpu", "98305");

	CHECK_EQUAL(integer_of(json, "bytes"), 104 << 10);
	CHECK_EQUAL(integer_of(json, "absent"), 0);
}

/* The engine of a simulated FPGA takes 1 MiB at a time. */
static void windows(void)
{
	const struct command command = {
		.args = { "tour", "-d", "soft:0", "-s", "4M", "--json" },
		.env = { "HETMAP_SOFT=kind=fpga" },
	};
	AUTO(json_t) *json = NULL;

	json = command_json(&command, 0);
	CHECK(!strcmp(string_of(json, "accel"), "soft:0"));
	CHECK(strstr(string_of(step_of(json, "launch"), "text"), "in 2 launches: ") != NULL);
}

static void check_text(const char *locale, const char *sign, const char *map)
{
	struct command command = { .args = { "tour", "-d", "host", "-a", "cpu", "-s", "64K" },
				   .env = { locale } };
	AUTO(outcome) outcome = { 0 };
	size_t i;

	CHECK_RUN(0, &outcome, &command);
	check_lines(outcome.out);
	for (i = 0; i < N_STEP; i++) {
		char line[64];

		snprintf(line, sizeof(line), "\n  %s %-9s ", sign, steps[i]);
		CHECK_HAS(outcome.out, line);
	}
	CHECK_HAS(outcome.out, map);
	CHECK(strstr(outcome.out, "\n  verified     14 steps by ") != NULL);
}

static void as_text(void)
{
	check_text("LC_ALL=C", "+", " --------LLLLLLLL######## ");
	check_text("LC_ALL=C.UTF-8", "\u2713", " \u2592\u2592\u2592\u2592\u2592\u2592");
}

/* On the stub driver in @mode. */
static void run_stub(const char *mode, const char *option, struct outcome *ret_outcome)
{
	struct command command = {
		.args = { "tour", "-d", "host", "-a", "opencl:0", "-s", "256K", option },
		.env = { NULL, "XDG_CACHE_HOME=/proc/1/nothing", "LC_ALL=C" }
	};
	char vendors[4200];

	use_stub(mode);
	snprintf(vendors, sizeof(vendors), "OCL_ICD_VENDORS=%s", getenv("OCL_ICD_VENDORS"));
	command.env[0] = vendors;
	command_run(&command, ret_outcome);
}

/* A driver that needs copies is no failure, and the copies are counted. */
static void with_copies(void)
{
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *json = NULL;

	run_stub("shadow", "--json", &outcome);
	CHECK_EQUAL(outcome.status, 0);
	json = outcome_json(&outcome);
	CHECK(strstr(string_of(step_of(json, "launch"), "text"), " KiB copied: ") != NULL);
}

/* The steps before are shown, the one that is wrong is marked, none follows. */
static void check_wrong(const char *mode, const char *part)
{
	AUTO(outcome) outcome = { 0 };

	run_stub(mode, "--quiet", &outcome);
	CHECK_EQUAL(outcome.status, 1);
	CHECK(!strncmp(outcome.err, "hetmap: tour: read: wrong result: ", 34));
	CHECK(strstr(outcome.err, part) != NULL);
	CHECK(strstr(outcome.out, "\n  + launch ") != NULL);
	CHECK(strstr(outcome.out, "\n  ! read ") != NULL);
	CHECK(!strstr(outcome.out, "bracket"));
	CHECK(!strstr(outcome.out, "verified"));
	check_lines(outcome.out);

	run_stub(mode, "--json", &outcome);
	CHECK_EQUAL(outcome.status, 1);
	check_failure_json(&outcome, EIO);
}

/* y is 32768 words, and the middle one is wrong. */
static void wrong_results(void)
{
	check_wrong("wrong", "y[16384] is 0x");
	check_wrong("wrong-later", "byte 0x61 ");
}

/* Less is locked than was asked for: that is reported, and the kernel's figure agrees. */
static void locked_in_part(void)
{
	const struct command command = {
		.args = { "tour", "-d", "host", "-a", "cpu", "-s", "256K", "--json" },
		.uid = geteuid() ? 0 : NOBODY,
		.resource = RLIMIT_MEMLOCK,
		.limit = 64 << 10,
	};
	AUTO(json_t) *json = NULL;

	json = command_json(&command, 0);
	CHECK(!strcmp(string_of(step_of(json, "lock"), "text"),
		      "64 KiB of 128 KiB; the kernel counts 64 KiB"));
	check_map(json, "lock", "read and write 0+128, locked 128+64, read and write 192+192");
}

static void check_refused(const struct command *command, int status, const char *part)
{
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(status, &outcome, command);
	CHECK(!strncmp(outcome.err, "hetmap: ", 8));
	CHECK_HAS(outcome.err, part);
	check_lines(outcome.out);
}

static void refused(void)
{
	static const struct {
		const char *args[6];
		int status;
		const char *part;
	} cases[] = {
		{ { "tour", "all" }, 2, "takes no argument" },
		{ { "tour", "--size=4K" }, 2, "from 64K on" },
		{ { "tour", "--size=lots" }, 2, "from 64K on" },
		{ { "tour", "--size=1e6" }, 2, "from 64K on" },
		{ { "tour", "--size=0x100000" }, 2, "from 64K on" },
		{ { "tour", "--devise=host" }, 2, "did you mean --device?" },
		{ { "tour", "--device=file" }, 2, "creates none" },
		{ { "tour", "--device=nothing" }, 3, "hetmap devices lists" },
		{ { "tour", "-d", "host", "-a", "nothing" }, 3, "hetmap devices lists" },
		{ { "tour", "-d", "host", "-s", "1000T" }, 3, "choose a smaller --size" },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command command = { .args = { NULL } };

		memcpy(command.args, cases[i].args, sizeof(cases[i].args));
		check_refused(&command, cases[i].status, cases[i].part);
	}
}

/* The device that the user has chosen for all programs is never replaced by another one. */
static void chosen_by_variable(void)
{
	const struct command host = {
		.args = { "tour", "-a", "cpu", "-s", "64K", "--json" },
		.env = { "HETMAP_DEVICE=host" },
	};
	const struct command saxpy = {
		.args = { "run", "saxpy", "-a", "cpu", "-s", "64K", "--rounds", "1", "--json" },
		.env = { "HETMAP_DEVICE=soft:0" },
	};
	const struct command unset = {
		.args = { "run", "saxpy", "-a", "cpu", "-s", "64K", "--rounds", "1", "--json" },
	};
	const struct command none = {
		.args = { "tour" },
		.env = { "HETMAP_DEVICE=sofa" },
	};
	const struct {
		const struct command *command;
		const char *device;
	} rows[] = { { &host, "host" }, { &saxpy, "soft:0" }, { &unset, "host" } };
	json_t *json;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json = command_json(rows[i].command, 0);
		CHECK(!strcmp(string_of(json, "device"), rows[i].device));
		json_decref(json);
	}
	check_refused(&none, 3, "HETMAP_DEVICE=sofa");
}

/* A limit is the environment's fault, and named: status 3. */
static void limits(void)
{
	const struct command soft = {
		.args = { "tour", "-d", "soft:0", "-a", "cpu", "-s", "16M" },
		.env = { "HETMAP_SOFT=opener_mb=20" },
	};
	const struct command full = {
		.args = { "tour", "-d", "soft:0", "-a", "cpu", "-s", "16M" },
		.env = { "HETMAP_SOFT=vram_mb=20" },
	};
	const struct command small = {
		.args = { "tour" },
		.env = { "HETMAP_SOFT=vram_mb=1" },
	};
	const struct command settings = {
		.args = { "tour" },
		.env = { "HETMAP_SOFT=wrong=1" },
	};
	/* No device's fault: another one does not open either. */
	const struct command retire = {
		.args = { "tour" },
		.env = { "HETMAP_RETIRE=foo" },
	};
	const struct command command = {
		.args = { "tour", "-d", "host", "-a", "cpu", "-s", "1M" },
		.resource = RLIMIT_FSIZE,
		.limit = 1 << 20,
	};

	check_refused(&command, 3, "tour: create: ");
	check_refused(&command, 3, "RLIMIT_FSIZE");
	check_refused(&soft, 3, "tour: grow: soft:0: ");
	check_refused(&soft, 3, "16 MiB of 20 MiB are used");
	check_refused(&soft, 3, "choose a smaller --size");
	check_refused(&full, 3, "8 MiB are more than this process has left of it: 16 MiB of ");
	check_refused(&small, 3,
		      "16 MiB are more than a buffer can have in VRAM, where it is made as a "
		      "whole, 1 MiB: pass HM_PLACE_SYSTEM, or raise vram_mb (HETMAP_SOFT)");
	check_refused(&settings, 3, "there is no setting \"wrong\"");
	check_refused(&settings, 3, "hetmap tour --device host needs none");
	check_refused(&retire, 3, "no device opens here: HETMAP_RETIRE is \"foo\"");
	check_refused(&retire, 3, "hetmap(7) lists the variables of the environment");
}

/* The signal is heard in the middle of a step, or between two. */
static void stopped(void)
{
	const struct command command = { .args = { "tour", "-d", "host", "-a", "cpu", "-s",
						   "1G" } };
	AUTO(outcome) outcome = { 0 };
	pid_t pid = command_start(&command);

	command_await(pid, SIGTERM, "memfd:hetmap");
	kill(pid, SIGTERM);
	command_wait(pid, &outcome);
	CHECK_EQUAL(outcome.status, 128 + SIGTERM);
	CHECK(!strstr(outcome.out, "verified"));
	CHECK(strstr(outcome.out, "  stopped\n") && !strstr(outcome.out, "failed"));
}

static const struct test tests[] = {
	{ "on_host", on_host, 60, 0 },
	{ "on_soft", on_soft, 60, 0 },
	{ "odd_sizes", odd_sizes, 60, 0 },
	{ "windows", windows, 60, 0 },
	{ "as_text", as_text, 60, 0 },
	{ "with_copies", with_copies, 60, 0 },
	{ "wrong_results", wrong_results, 60, 0 },
	{ "locked_in_part", locked_in_part, 60, 0 },
	{ "refused", refused, 60, 0 },
	{ "chosen_by_variable", chosen_by_variable, 60, TEST_ONCE },
	{ "limits", limits, 60, 0 },
	{ "stopped", stopped, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main_once, "command_tour", tests)
