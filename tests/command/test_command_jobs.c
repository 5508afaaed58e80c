// SPDX-License-Identifier: MIT
/*
 * The command's jobs on the stub driver: wrong results, the number of rounds. And on
 * the twin of the simulated device, whose engine needs no OpenCL.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "accel/accel_support.h"
#include "lib/command.h"

#define FILE_BYTES 10000

/* The job on the stub driver in @mode. @rounds, @data (histogram's file): or NULL. */
static void run_rounds(const char *mode, const char *job, const char *rounds, const char *data,
		       bool json, struct outcome *ret_outcome)
{
	struct command command = {
		.args = { "run", job, "--accel", "opencl:0" },
		.env = { NULL, "XDG_CACHE_HOME=/proc/1/nothing" },
	};
	char vendors[4200];
	int n = 4;

	use_stub(mode);
	/* Said again for this command, which under sanitizers has no driver else. */
	snprintf(vendors, sizeof(vendors), "OCL_ICD_VENDORS=%s", getenv("OCL_ICD_VENDORS"));
	command.env[0] = vendors;
	if (rounds)
		command.args[n++] = rounds;
	if (json)
		command.args[n++] = "--json";
	command.args[n++] = data ? data : "--size=64K";
	command_run(&command, ret_outcome);
}

static void run_job(const char *mode, const char *job, const char *data, bool json,
		    struct outcome *ret_outcome)
{
	run_rounds(mode, job, "--rounds=2", data, json, ret_outcome);
}

/* A failure with status 1, told for people and as JSON, that has both @parts. */
static void check_wrong(const char *mode, const char *job, const char *data,
			const char *const parts[2])
{
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *json = NULL;
	int i;

	run_job(mode, job, data, false, &outcome);
	CHECK_EQUAL(outcome.status, 1);
	CHECK_EQUAL(strlen(outcome.out), 0);
	CHECK(!strncmp(outcome.err, "hetmap: wrong result: ", 22));
	for (i = 0; i < 2; i++)
		CHECK_HAS(outcome.err, parts[i]);

	run_job(mode, job, data, true, &outcome);
	CHECK_EQUAL(outcome.status, 1);
	CHECK_EQUAL(strlen(outcome.err), 0);
	check_failure_json(&outcome, EIO);
	json = outcome_json(&outcome);
	for (i = 0; i < 2; i++)
		if (!strstr(json_string_value(json_object_get(json, "error")), parts[i]))
			test_fail(__FILE__, __LINE__, "no '%s' in: %s", parts[i], outcome.out);
}

/* The same driver without its error, which causes the failures below. */
static void check_right(const char *job, const char *data)
{
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *json = NULL;

	run_job("", job, data, true, &outcome);
	CHECK_EQUAL(outcome.status, 0);
	json = outcome_json(&outcome);
	CHECK(json_is_true(json_object_get(json, "verified")));
	CHECK(!strcmp(json_string_value(json_object_get(json, "accel")), "opencl:0"));
}

/* FILE_BYTES of "a", which is 0x61: the stub adds one to that count. */
static void histogram(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");
	char bytes[FILE_BYTES];

	memset(bytes, 'a', sizeof(bytes));
	file_write(folder, "data", bytes, sizeof(bytes));
	check_right("histogram", path);
	check_wrong("wrong", "histogram", path,
		    (const char *[]){ "byte 0x61 10001 times", "the CPU 10000" });
	check_wrong("wrong-later", "histogram", path,
		    (const char *[]){ "byte 0x61 10001 times", "first pass 10000" });
}

/* x[i] is i % 1021 and y[i] i % 509: at 8192, the middle of 64 KiB, 24 and 48. */
static void saxpy(void)
{
	check_right("saxpy", NULL);
	check_wrong("wrong", "saxpy", NULL,
		    (const char *[]){ "y[8192] is 97 after 1 pass,", "should be 96" });
	check_wrong("wrong-later", "saxpy", NULL,
		    (const char *[]){ "y[8192] is 337 after 6 passes,", "should be 336" });
}

/* How many there were, and how long the command ran. */
static uint64_t rounds_of(const char *mode, const char *option, double *ret_seconds)
{
	struct timespec begin, end;
	AUTO(outcome) outcome = { 0 };
	uint64_t rounds;
	AUTO(json_t) *json = NULL;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	run_rounds(mode, "saxpy", option, NULL, true, &outcome);
	clock_gettime(CLOCK_MONOTONIC, &end);
	*ret_seconds = (double)(end.tv_sec - begin.tv_sec) +
		       (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	CHECK_EQUAL(outcome.status, 0);
	json = outcome_json(&outcome);
	rounds = (uint64_t)json_integer_value(json_object_get(json, "rounds"));
	return rounds;
}

/* 64 KiB: all 101, unless this machine needs 0.3 seconds for fewer. */
static void rounds_of_short_ones(void)
{
	double seconds;
	uint64_t n = rounds_of("", NULL, &seconds);

	CHECK(n % 2 == 1 && n >= 1 && n <= 101);
	if (n != 101 && seconds < 0.3)
		test_fail(__FILE__, __LINE__, "%u rounds in %f s", (unsigned int)n, seconds);
	CHECK_EQUAL(rounds_of("", "--rounds=4", &seconds), 4);
}

/* Events are 0.1 seconds late, so a round of both ways takes 0.2 at least. */
static void rounds_of_long_ones(void)
{
	double seconds;
	uint64_t n = rounds_of("late", NULL, &seconds);

	CHECK(n % 2 == 1 && n <= 9);
}

/* ---- engines ---- */

#define NO_OPENCL "OCL_ICD_VENDORS=/nonexistent"

/* The histogram of @data on the twin with these settings; its JSON. */
static json_t *engine_job(const char *settings, const char *device, const char *accel,
			  const char *data)
{
	struct command command = {
		.args = { "run", "histogram", "--rounds=2", "--json", "--device", device,
			  "--accel", accel, "--", data },
		.env = { NO_OPENCL, settings },
	};
	json_t *json;

	json = command_json(&command, 0);
	CHECK(json_is_true(json_object_get(json, "verified")));
	CHECK(!strcmp(json_string_value(json_object_get(json, "accel")), "soft:0"));
	return json;
}

static uint64_t number_of(const json_t *json, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(json, name));
}

/* FILE_BYTES is no multiple of 64: 16 bytes at its end are the CPU's. */
static void engine_histogram(void)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");
	static char bytes[FILE_BYTES + (3 << 20)];
	json_t *json;

	memset(bytes, 'a', sizeof(bytes));
	file_write(folder, "data", bytes, sizeof(bytes));
	json = engine_job("HETMAP_SOFT=", "soft:0", "soft:0", path);
	CHECK(!strcmp(json_string_value(json_object_get(json, "way_in")), "direct"));
	CHECK_EQUAL(number_of(json, "bytes_copied"), sizeof(bytes)); /* to load them */
	CHECK_EQUAL(number_of(json, "bytes_by_cpu"), 0);
	CHECK_EQUAL(number_of(json_object_get(json, "faults"), "major"), 0);
	json_decref(json);

	/* Windows of 1 MiB, four launches with a table of 1 KiB there and back. */
	json = engine_job("HETMAP_SOFT=kind=fpga", "file", "soft", path);
	CHECK(!strcmp(json_string_value(json_object_get(json, "way_in")), "copy"));
	CHECK_EQUAL(number_of(json, "bytes_by_cpu"), 16);
	CHECK_EQUAL(number_of(json, "bytes_copied"), sizeof(bytes) - 16 + 4ull * 2048);
	CHECK_EQUAL(json_integer_value(json_array_get(json_object_get(json, "histogram"), 'a')),
		    sizeof(bytes));
	json_decref(json);

	/* Nothing for the engine at all. */
	file_write(folder, "data", bytes, 3);
	json = engine_job("HETMAP_SOFT=", "soft", "soft:0", path);
	CHECK_EQUAL(number_of(json, "bytes_by_cpu"), 3);
	CHECK(!strcmp(json_string_value(json_object_get(json, "device")), "soft:0"));
	CHECK(json_is_null(json_object_get(json, "way_in")));
	json_decref(json);
}

static void engine_saxpy(void)
{
	struct command command = {
		.args = { "run", "saxpy", "--size=64K", "--rounds=2", "--device", "soft:0",
			  "--accel", "cpu", "--json" },
		.env = { NO_OPENCL },
	};
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *json = NULL;

	json = command_json(&command, 0);
	CHECK(json_is_true(json_object_get(json, "verified")));
	CHECK(!strcmp(json_string_value(json_object_get(json, "device")), "soft:0"));

	command.args[7] = "soft:0";
	command.args[8] = NULL;
	CHECK_RUN(3, &outcome, &command);
	CHECK(strstr(outcome.err, "kernel saxpy has no form that soft:0 runs (\"engine\"): it "
				  "has \"opencl\" and \"cpu\""));
}

/* Taken away under the job, at its beginning, in its middle and when all is done. */
static void saxpy_unplugged(void)
{
	static const char *const at[] = { "0%", "50%", "100" };
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		CHECK_RUN(0, &outcome,
			  &(struct command){ .args = { "run", "saxpy", "--size=4M", "--device",
						       "soft:0", "--accel", "cpu",
						       "--unplug-at", at[i], "--json" } });
		CHECK(strstr(outcome.out, "\"buffers_back\": 2"));
		CHECK(strstr(outcome.out, "\"bytes_shadow\": 4194304"));
		CHECK(strstr(outcome.out, "\"bytes_refilled\": 4194304"));
		CHECK(strstr(outcome.out, "\"verified\": true"));
	}
	/* By the accelerator that there is, as the guide has it: OpenCL, else threads. */
	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "run", "saxpy", "--size=4M", "--device",
					       "soft:0", "--unplug-at", "50%", "--json" } });
	CHECK(strstr(outcome.out, "\"buffers_back\": 2"));
	CHECK(strstr(outcome.out, "\"verified\": true"));
	CHECK_RUN(2, &outcome,
		  &(struct command){ .args = { "run", "saxpy", "--unplug-at", "50%" } });
	CHECK(strstr(outcome.err, "--device soft:0"));
	CHECK_RUN(2, &outcome,
		  &(struct command){ .args = { "run", "histogram", "--unplug-at", "101" } });
}

/* Fewer bytes than there are percents: one part, as long as they are. */
static void saxpy_unplugged_small(void)
{
	static const char *const sizes[] = { "4", "64", "96", "100", "4096" };
	static const char *const at[] = { "0%", "50%", "100%" };
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * 3; i++) {
		CHECK_RUN(0, &outcome,
			  &(struct command){ .args = { "run", "saxpy", "--size", sizes[i / 3],
						       "--device", "soft:0", "--accel", "cpu",
						       "--unplug-at", at[i % 3], "--json" } });
		CHECK(strstr(outcome.out, "\"buffers_back\": 2"));
		CHECK(strstr(outcome.out, "\"verified\": true"));
	}
}

/* saxpy on soft:0, computed by threads, without --json: its output. */
static void run_unplugged(const char *at, struct outcome *ret_outcome)
{
	CHECK_RUN(0, ret_outcome,
		  &(struct command){ .args = { "run", "saxpy", "--size=4M", "--device",
					       "soft:0", "--accel", "cpu", "--unplug-at",
					       at } });
	CHECK(strstr(ret_outcome->out, "device       soft:0\n"));
	CHECK(strstr(ret_outcome->out, "came back    2 buffers at the same addresses, "));
	CHECK(strstr(ret_outcome->out, "s after the loss\n"));
	CHECK(strstr(ret_outcome->out, "y: 4 MiB from its shadow; x: 4 MiB computed again\n"));
	CHECK(strstr(ret_outcome->out, "verified     every element of y, by the CPU\n"));
}

/* Without --json: sentences name the bytes lost, those that came back, and the work done again. */
static void saxpy_unplugged_text(void)
{
	AUTO(outcome) outcome = { 0 };

	run_unplugged("50%", &outcome);
	CHECK(strstr(outcome.out, "taken away   at 50% of the work, 2.0 MiB of each vector, "
				  "with a launch under way\n"));
	CHECK(strstr(outcome.out, "the launch under way ended with No such device\n"));
	CHECK(strstr(outcome.out, "done again   44 KiB of each vector\n"));
	/* When all was done, nothing was under way. */
	run_unplugged("100%", &outcome);
	CHECK(strstr(outcome.out, "taken away   at 100% of the work, 4 MiB of each vector\n"));
	CHECK(!strstr(outcome.out, "under way"));
	CHECK(strstr(outcome.out, "done again   0 bytes of each vector\n"));
}

static const struct test tests[] = {
	{ "histogram", histogram, 60, 0 },
	{ "saxpy", saxpy, 60, 0 },
	{ "rounds_of_short_ones", rounds_of_short_ones, 60, 0 },
	{ "rounds_of_long_ones", rounds_of_long_ones, 60, TEST_ONCE },
	{ "engine_histogram", engine_histogram, 60, 0 },
	{ "engine_saxpy", engine_saxpy, 60, 0 },
	{ "saxpy_unplugged", saxpy_unplugged, 60, 0 },
	{ "saxpy_unplugged_small", saxpy_unplugged_small, 60, 0 },
	{ "saxpy_unplugged_text", saxpy_unplugged_text, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main_once, "command_jobs", tests)
