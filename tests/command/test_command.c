// SPDX-License-Identifier: MIT
/* The command's jobs: results, exit status, JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/command.h"

/* ---- usage ---- */

static void check_usage(const char *const *args, const char *part)
{
	struct command command = { .args = { args[0], args[1], args[2], args[3] } };
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(2, &outcome, &command);
	CHECK_EQUAL(strlen(outcome.out), 0);
	CHECK_HAS(outcome.err, part);
	CHECK(!strncmp(outcome.err, "hetmap: ", 8));
	check_lines(outcome.err);
}

static void test_usage(void)
{
	static const struct {
		const char *args[5];
		const char *part;
	} cases[] = {
		{ { "device" }, "did you mean hetmap devices?" },
		{ { "dcotor" }, "did you mean hetmap doctor?" },
		{ { "wrong" }, "hetmap help lists the commands" },
		{ { "--wrong" }, "unknown option --wrong" },
		{ { "run" }, "no job was named" },
		{ { "run", "histogam" }, "did you mean hetmap run histogram?" },
		{ { "run", "/etc/passwd" }, "the job comes before the file" },
		{ { "run", "histogram", "--jsno" }, "did you mean --json?" },
		{ { "run", "histogram", "--rounds" }, "needs a value" },
		{ { "run", "histogram", "--quiet=1" }, "takes no value" },
		{ { "run", "histogram", "-x" }, "unknown option -x" },
		{ { "run", "histogram", "--rounds=0" }, "a number from 1 to 1000" },
		{ { "run", "histogram", "--rounds=1e3" }, "a number from 1 to 1000" },
		{ { "run", "histogram", "--window=1000" }, "a multiple of the page size" },
		{ { "run", "histogram", "--ahead=1000" }, "a multiple of the page size" },
		{ { "run", "histogram", "--ahead=0" }, "a multiple of the page size" },
		{ { "run", "histogram", "--ahead=1M", "--device=host", "/bin/sh" },
		  "for a file that is mapped" },
		{ { "run", "histogram", "--size=4" }, "an option of saxpy" },
		{ { "run", "histogram", "/a", "/b" }, "one file at a time" },
		{ { "run", "saxpy", "/a" }, "saxpy takes no file" },
		{ { "run", "saxpy", "--ahead=1M" }, "an option of histogram" },
		{ { "run", "saxpy", "--size=6" }, "a multiple of 4" },
		{ { "run", "saxpy", "--size=-4" }, "a multiple of 4" },
		{ { "run", "saxpy", "--size=16E" }, "a multiple of 4" },
		{ { "run", "saxpy", "--device=file" }, "creates none" },
		{ { "devices", "all" }, "takes no argument" },
		{ { "doctor", "--quick" }, "unknown option" },
		{ { "doctor", "--path", "/etc/passwd" }, "name its folder" },
		{ { "help", "run", "histogram" }, "help takes one command" },
		{ { "inspect", "/a", "/b" }, "cannot open '/a'" },
		{ { "report", "/dev/null" }, "hetmap trace -- COMMAND makes one" },
		{ { "run", "saxpy", "--policy=/a" }, "as hetmap-run(1) has them" },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_usage(cases[i].args, cases[i].part);
}

static void test_help(void)
{
	static const char *const cases[][3] = {
		{ "--help" },
		{ "-h" },
		{ "help" },
		{ "help", "run" },
		{ "help", "devices" },
		{ "help", "doctor" },
		{ "run", "--help" },
		{ "devices", "-h" },
		{ "doctor", "--help" },
		{ "version" },
		{ "--version" },
		{ "run", "saxpy", "-h" },
	};
	AUTO(outcome) outcome = { 0 };
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct command command = { .args = { cases[i][0], cases[i][1],
							   cases[i][2] } };

		CHECK_RUN(0, &outcome, &command);
		CHECK_EQUAL(strlen(outcome.err), 0);
		CHECK(strlen(outcome.out) > 10);
		check_lines(outcome.out);
	}
}

/* ---- results ---- */

/* Checks the members of every result; returns its bytes_copied. */
static int64_t check_common(const json_t *json, const char *job, const char *device)
{
	const json_t *seconds = json_object_get(json, "seconds");
	const json_t *faults = json_object_get(json, "faults");
	const json_t *with_copies = json_object_get(seconds, "with_copies");

	CHECK(!strcmp(string_of(json, "job"), job));
	CHECK(!strcmp(string_of(json, "device"), device));
	CHECK(*string_of(json, "accel") != '\0');
	CHECK(json_is_true(json_object_get(json, "verified")));
	CHECK_EQUAL(json_object_size(seconds), 3);
	CHECK(json_real_value(json_object_get(seconds, "first")) > 0);
	CHECK(real_of(seconds, "in_place") > 0);
	CHECK(json_is_real(with_copies) || json_is_null(with_copies));
	CHECK_EQUAL(json_object_size(faults), 2);
	CHECK(integer_of(faults, "minor") >= 0);
	CHECK(integer_of(faults, "major") >= 0);
	CHECK(integer_of(json, "rounds") >= 1);
	return integer_of(json, "bytes_copied");
}

static void check_counts(const json_t *json, const unsigned char *bytes, size_t n)
{
	const json_t *histogram = json_object_get(json, "histogram");
	uint64_t counts[256] = { 0 };
	double entropy = 0;
	size_t i;

	for (i = 0; i < n; i++)
		counts[bytes[i]]++;
	CHECK_EQUAL(json_array_size(histogram), 256);
	CHECK_EQUAL(integer_of(json, "bytes"), n);
	for (i = 0; i < 256; i++) {
		double p = (double)counts[i] / (double)n;

		CHECK_EQUAL(json_integer_value(json_array_get(histogram, i)), counts[i]);
		if (counts[i])
			entropy -= p * log2(p);
	}
	CHECK(fabs(real_of(json, "entropy") - entropy) < 1e-6);
}

/* 1 MiB and a bit, every value, none as often as the next. */
static size_t make_bytes(unsigned char **ret_bytes)
{
	const size_t n = (1u << 20) + 77;
	unsigned char *bytes = malloc(n);
	uint64_t state = 1;
	size_t i;

	CHECK_FATAL(bytes != NULL);
	for (i = 0; i < n; i++) {
		uint64_t x = test_random(&state);

		bytes[i] = (unsigned char)((x & 255) * (x >> 8 & 255) >> 8);
	}
	*ret_bytes = bytes;
	return n;
}

static void histogram_of(const char *const *options, const char *device, int64_t copied)
{
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "data");
	struct command command = { .args = { "run", "histogram", "--json", "--quiet" } };
	AUTO(outcome) outcome = { 0 };
	unsigned char *bytes;
	size_t n = make_bytes(&bytes), i;
	AUTO(json_t) *json = NULL;

	for (i = 0; options[i]; i++)
		command.args[4 + i] = options[i];
	command.args[4 + i] = path;
	file_write(folder, "data", (const char *)bytes, n);
	CHECK_RUN(0, &outcome, &command);
	CHECK_EQUAL(strlen(outcome.err), 0);
	json = outcome_json(&outcome);
	if (json) {
		CHECK_EQUAL(json_object_size(json), 14);
		CHECK_EQUAL(check_common(json, "histogram", device),
			    copied < 0 ? (int64_t)n : 0);
		CHECK(!strcmp(string_of(json, "file"), path));
		CHECK(*string_of(json, "way_in") != '\0');
		check_counts(json, bytes, n);
	}
	free(bytes);
}

static void test_histogram_cpu(void)
{
	histogram_of((const char *[]){ ON_CPU, NULL }, "file", 0);
	histogram_of((const char *[]){ ON_CPU, "--window", "64K", NULL }, "file", 0);
	histogram_of((const char *[]){ ON_CPU, "--ahead", "64K", NULL }, "file", 0);
	histogram_of((const char *[]){ ON_CPU, "--ahead=1G", NULL }, "file", 0);
	histogram_of((const char *[]){ ON_CPU, "--device", "host", NULL }, "host", -1);
}

static void check_saxpy(const char *accel)
{
	const struct command command = { .args = { "run", "saxpy", "--json", "--size", "1M",
						   "--rounds=3", "--accel", accel } };
	json_t *json, *rate;

	json = command_json(&command, 0);
	if (json) {
		CHECK_EQUAL(json_object_size(json), 11);
		CHECK_EQUAL(check_common(json, "saxpy", "host"), 0);
		CHECK_EQUAL(integer_of(json, "bytes"), 2 << 20);
		CHECK_EQUAL(integer_of(json, "rounds"), 3);
		CHECK(!strncmp(string_of(json, "accel"), accel, strlen(accel)));
		rate = json_object_get(json, "gigabytes_per_second");
		CHECK(real_of(rate, "in_place") > 0);
	}
	json_decref(json);
}

static void test_saxpy_cpu(void)
{
	check_saxpy("cpu");
}

static void test_opencl(void)
{
	TEST_NEEDS(have_opencl());
	histogram_of((const char *[]){ "--accel", "opencl:0", NULL }, "file", 0);
	histogram_of((const char *[]){ "--accel", "opencl", "--window=64K", NULL }, "file", 0);
	histogram_of((const char *[]){ "-a", "opencl:0", "-r1", "-dhost", NULL }, "host", -1);
	check_saxpy("opencl");
}

static void test_for_people(void)
{
	static const char *const locales[] = { "LC_ALL=C.UTF-8", "LC_ALL=C" };
	AUTO(outcome) outcome = { 0 };
	const char *at;
	size_t i;

	for (i = 0; i < 2; i++) {
		const struct command command = {
			.args = { "run", "histogram", ON_CPU, "/etc/passwd" },
			.env = { locales[i] },
		};

		CHECK_RUN(0, &outcome, &command);
		check_lines(outcome.out);
		CHECK(strstr(outcome.out, "bytes copied 0\n") != NULL);
		CHECK(strstr(outcome.out, "entropy") != NULL);
		CHECK(strstr(outcome.out, "verified") != NULL);
		for (at = outcome.out; *at; at++)
			if (i == 1 && (unsigned char)*at > 0x7e)
				break;
		CHECK(*at == '\0');
	}
}

/* Without a file it finds one, wherever the options stand. */
static void test_default_file(void)
{
	const struct command command = {
		.args = { "run", "--json", "histogram", ON_CPU },
		.env = { "POSIXLY_CORRECT=1" },
	};
	AUTO(json_t) *json = NULL;

	json = command_json(&command, 0);
	CHECK(integer_of(json, "bytes") > 100000);
	CHECK(*string_of(json, "file") == '/');
}

/* ---- odd files ---- */

static void check_tiny(const char *folder, const char *bytes, size_t n)
{
	AUTO_TEXT *path = folder_path(folder, "tiny");
	struct command command = { .args = { "run", "histogram", "--json", ON_CPU, path } };
	AUTO(outcome) outcome = { 0 };
	AUTO(json_t) *json = NULL;

	file_write(folder, "tiny", bytes, n);
	json = command_json(&command, 0);
	CHECK_EQUAL(integer_of(json, "bytes"), n);
	CHECK(real_of(json, "entropy") == 0);
	CHECK(json_is_true(json_object_get(json, "verified")));
	CHECK_EQUAL(json_is_null(json_object_get(json, "way_in")), n == 0);
	command.args[2] = "--quiet";
	CHECK_RUN(0, &outcome, &command);
	CHECK((strstr(outcome.out, "The file is empty") != NULL) == (n == 0));
	check_lines(outcome.out);
}

/* No byte of the file is mapped; the device is there all the same, or is not. */
static void check_empty_on(const char *folder, const char *device, int status)
{
	AUTO_TEXT *path = folder_path(folder, "empty");
	const struct command command = { .args = { "run", "histogram", "--json", ON_CPU,
						   "--device", device, path } };
	AUTO(outcome) outcome = { 0 };
	json_t *json;

	file_write(folder, "empty", "", 0);
	CHECK_RUN(status, &outcome, &command);
	if (status) {
		check_failure_json(&outcome, ENODEV);
	} else {
		json = outcome_json(&outcome);
		CHECK(!strncmp(string_of(json, "device"), device, strlen(device)));
		CHECK(strcmp(string_of(json, "device"), "soft") != 0);
		json_decref(json);
	}
}

static void test_tiny(void)
{
	AUTO_TEXT *folder = folder_make();

	check_tiny(folder, "", 0);
	check_tiny(folder, "x", 1);
	check_empty_on(folder, "file", 0);
	check_empty_on(folder, "soft", 0);
	check_empty_on(folder, "nosuch", 3);
}

/* Larger than a window, and than what a 32-bit offset or counter takes. */
static void test_sparse(void)
{
	/* Sanitizers make it slow; there only the number of windows matters. */
	const bool slow = TEST_ASAN || TEST_TSAN;
	const uint64_t size = slow ? 96ull << 20 : 3ull << 30;
	AUTO_TEXT *folder = folder_make(), *path = folder_path(folder, "sparse");
	struct command command = { .args = { "run", "histogram", "--json", "-r1", path,
					     slow ? "--window=32M" : NULL } };
	AUTO(json_t) *json = NULL;

	file_sparse(folder, "sparse", size);
	json = command_json(&command, 0);
	CHECK_EQUAL(json_integer_value(json_array_get(json_object_get(json, "histogram"), 0)),
		    size);
	CHECK_EQUAL(check_common(json, "histogram", "file"), 0);
}

/* ---- devices ---- */

static bool has_name(const json_t *array, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach(array, i,
			   one) if (!strcmp(json_string_value(one), name)) return true;
	return false;
}

static void test_devices(void)
{
	struct command command = { .args = { "devices", "--json" } };
	bool host = false, file = false, cpu = false;
	AUTO(outcome) outcome = { 0 };
	json_t *json, *one, *window;
	size_t i;

	json = command_json(&command, 0);
	CHECK_EQUAL(json_object_size(json), 4);
	CHECK(json_is_array(json_object_get(json, "drm_nodes")));
	CHECK(json_array_size(json_object_get(json, "tiers")) > 0);
	json_array_foreach(json_object_get(json, "tiers"), i, one)
	{
		CHECK_EQUAL(json_object_size(one), 10);
		CHECK(*string_of(one, "device") != '\0');
	}
	json_array_foreach(json_object_get(json, "drm_nodes"), i, one)
	{
		CHECK_EQUAL(json_object_size(one), 11);
		CHECK(json_is_array(json_object_get(one, "capabilities")));
		CHECK(!integer_of(one, "errno") ==
		      json_is_null(json_object_get(one, "remedy")));
	}
	json_array_foreach(json_object_get(json, "devices"), i, one)
	{
		CHECK_EQUAL(json_object_size(one), 9);
		host |= !strcmp(string_of(one, "name"), "host");
		file |= !strcmp(string_of(one, "name"), "file");
		CHECK(*string_of(one, "description") != '\0');
		CHECK(integer_of(one, "page_size") >= 4096);
		/* Buffers of the host's memory need no brackets. */
		if (!strcmp(string_of(one, "backend"), "host"))
			CHECK(!has_name(json_object_get(one, "capabilities"), "bracket"));
		CHECK(json_array_size(json_object_get(one, "capabilities")) > 0);
	}
	json_array_foreach(json_object_get(json, "accelerators"), i, one)
	{
		CHECK_EQUAL(json_object_size(one), 13);
		/* Engines are behind it. */
		CHECK_EQUAL(cpu, !strcmp(string_of(one, "kind"), "engine"));
		cpu |= !strcmp(string_of(one, "name"), "cpu");
		CHECK(integer_of(one, "units") > 0);
		CHECK(json_array_size(json_object_get(one, "ways_in")) > 0);
		/* No limit is null, and no number that only stands for it. */
		window = json_object_get(one, "window");
		CHECK(json_is_null(window) || json_integer_value(window) > 0);
	}
	CHECK(host && file && cpu);
	json_decref(json);

	command.args[1] = NULL;
	CHECK_RUN(0, &outcome, &command);
	check_lines(outcome.out);
	CHECK(!strstr(outcome.out, " 0 bytes free"));

	/* Why there is no soft:0 is said. */
	command.env[0] = "HETMAP_SOFT=wrong";
	CHECK_RUN(0, &outcome, &command);
	CHECK(strstr(outcome.err, "HETMAP_SOFT: \"wrong\" is not NAME=VALUE") != NULL);
}

static const struct test tests[] = {
	{ .name = "usage", .run = test_usage, .seconds = 60 },
	{ .name = "help", .run = test_help },
	{ .name = "histogram_cpu", .run = test_histogram_cpu, .seconds = 60 },
	{ .name = "saxpy_cpu", .run = test_saxpy_cpu },
	{ .name = "opencl", .run = test_opencl, .seconds = 60 },
	{ .name = "for_people", .run = test_for_people },
	{ .name = "default_file", .run = test_default_file },
	{ .name = "tiny", .run = test_tiny },
	{ .name = "sparse", .run = test_sparse, .seconds = 120, .flags = TEST_ONCE },
	{ .name = "devices", .run = test_devices },
	{ 0 },
};

TEST_MAIN(harness_main_once, "command", tests)
