// SPDX-License-Identifier: MIT
/*
 * hetmap run saxpy --pointer: every kind of memory on every accelerator that takes any pointer,
 * and refused arguments.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/command.h"

static const char *const kinds[] = { "malloc", "stack", "file", "map" };

#define N_KIND (sizeof(kinds) / sizeof(kinds[0]))

static json_int_t number(const json_t *json, const char *object, const char *key)
{
	const json_t *in = object ? json_object_get(json, object) : json;

	CHECK(json_is_integer(json_object_get(in, key)));
	return json_integer_value(json_object_get(in, key));
}

/* Verified, without a copy; with --prefetch the launches meet fewer device faults. */
static void check_kind(const char *kind, const char *device, bool entries)
{
	struct outcome outcome = { 0 };
	const json_t *advised;
	json_t *json;

	command_run(&(struct command){ .args = { "run", "saxpy", "--pointer", kind, "--device",
						 device, "--size", "1M", "--rounds", "2",
						 "--prefetch", "--json" } },
		    &outcome);
	CHECK_EQUAL(outcome.status, 0);
	json = json_loads(outcome.out, 0, NULL);
	CHECK_FATAL(json);
	CHECK_EQUAL(number(json, NULL, "bytes_copied"), 0);
	CHECK_EQUAL(number(json, NULL, "bytes"), 2 << 20);
	CHECK(json_is_true(json_object_get(json, "verified")));
	CHECK(!strcmp(json_string_value(json_object_get(json, "pointer")), kind));
	CHECK(!strcmp(json_string_value(json_object_get(json, "accel")), device));
	CHECK(!strcmp(json_string_value(json_object_get(json, "way_in")), "direct"));
	advised = json_object_get(json, "advised");
	CHECK(json_is_object(advised));
	if (entries) {
		CHECK(number(json, "faults", "device") >= 1);
		CHECK(number(advised, "faults", "device") < number(json, "faults", "device"));
		CHECK(number(advised, NULL, "prefetched_pages_used") >= 0);
	}
	json_decref(json);
	outcome_free(&outcome);
}

static void on_cpu(void)
{
	size_t i;

	for (i = 0; i < N_KIND; i++)
		check_kind(kinds[i], "cpu", false);
}

/* A machine with the module runs this program for the module: the twin runs everywhere. */
static void on_engine(void)
{
	const char *device = access("/dev/hetsim0", F_OK) ? "soft:0" : "sim:0";
	size_t i;

	for (i = 0; i < N_KIND; i++)
		check_kind(kinds[i], device, true);
}

static bool ranges_have_faults(const json_t *ranges)
{
	const json_t *range;
	bool has = false;
	size_t i;

	json_array_foreach(ranges, i, range)
		has |= json_real_value(json_object_get(range, "device_faults_per_second")) > 0;
	return has;
}

/* Does a line of hetmap top, of many looks, have device faults of process @pid? */
static bool line_has_faults(const char *line, pid_t pid, bool *ret_listed)
{
	json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, NULL), *process;
	bool has = false;
	size_t i;

	CHECK_FATAL(json != NULL);
	json_array_foreach(json_object_get(json, "processes"), i, process)
	{
		if (integer_of(process, "pid") != pid)
			continue;
		*ret_listed = true;
		CHECK_EQUAL(json_array_size(json_object_get(process, "buffers")), 0);
		CHECK_EQUAL(integer_of(process, "mapped"), 0);
		has |= json_real_value(json_object_get(process, "device_faults_per_second")) >
			       0 &&
		       ranges_have_faults(json_object_get(process, "ranges"));
	}
	json_decref(json);
	return has;
}

/* A job on memory of malloc() has no map: hetmap top lists the ranges that its engine reaches. */
static void seen_in_top(void)
{
	struct command top = { .args = { "top", "--json", "-d", "0.1" } };
	const bool sim = !access("/dev/hetsim0", F_OK);
	/* Machines have less memory, and take longer. */
	const struct command job = { .args = { "run", "saxpy", "--pointer", "malloc",
					       "--device", sim ? "sim:0" : "soft:0", "--size",
					       sim ? "32M" : "256M", "--rounds", "2",
					       "--advise", "granule-4K" } };
	bool listed = false, faults = false;
	struct outcome seen = { 0 }, done = { 0 };
	pid_t pid, watcher;
	char *line = NULL;
	size_t room = 0;
	struct stat st;
	unsigned int i;
	FILE *out;

	/* Two commands at a time: one has an output of its own. */
	out = tmpfile();
	CHECK_FATAL(out != NULL);
	top.out = fileno(out);
	watcher = command_start(&top);
	/* Its first look, which may take long, is without the job. */
	for (i = 0; i < 200 && !fstat(fileno(out), &st) && !st.st_size; i++)
		usleep(50000);
	pid = command_start(&job);
	command_wait(pid, &done);
	CHECK_EQUAL(done.status, 0);
	outcome_free(&done);
	kill(watcher, SIGINT);
	command_wait(watcher, &seen);
	CHECK_EQUAL(seen.status, 128 + SIGINT);
	rewind(out);
	while (getline(&line, &room, out) > 0)
		faults |= line_has_faults(line, pid, &listed);
	free(line);
	fclose(out);
	CHECK(listed);
	CHECK(faults);
	outcome_free(&seen);
}

/* The text has both runs, and the share of each device. */
static void as_text(void)
{
	struct outcome outcome = { 0 };

	command_run(&(struct command){ .args = { "run", "saxpy", "--pointer", "malloc",
						 "--device", "soft:0", "--size", "1M",
						 "--rounds", "1", "--advise", "granule-4K" } },
		    &outcome);
	CHECK_EQUAL(outcome.status, 0);
	CHECK(strstr(outcome.out, "bytes copied 0 by the launches"));
	CHECK(strstr(outcome.out, "with granule-4K, "));
	CHECK(strstr(outcome.out, "faults in the first pass"));
	CHECK(strstr(outcome.out, "every element of y, by the CPU"));
	outcome_free(&outcome);
}

static void refused(void)
{
	static const struct {
		const char *args[8];
		int status;
		const char *text;
	} cases[] = {
		{ { "run", "saxpy", "--pointer", "heap" }, 2, "malloc, stack, file or map" },
		{ { "run", "saxpy", "--pointer", "malloc", "--advise", "fast" },
		  2,
		  "accessed-by" },
		{ { "run", "saxpy", "--prefetch" }, 2, "go with --pointer" },
		{ { "run", "histogram", "--pointer", "malloc" }, 2, "an option of saxpy" },
		{ { "run", "saxpy", "--pointer", "malloc", "--unplug-at", "5" }, 2, "exclude" },
		{ { "run", "saxpy", "--pointer", "malloc", "--device", "host" }, 3, "cpu" },
	};
	struct outcome outcome = { 0 };
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command command = { 0 };

		memcpy(command.args, cases[i].args, sizeof(cases[i].args));
		command_run(&command, &outcome);
		CHECK_EQUAL(outcome.status, cases[i].status);
		if (!strstr(outcome.err, cases[i].text))
			test_fail(__FILE__, __LINE__, "no '%s' in: %s", cases[i].text,
				  outcome.err);
		outcome_free(&outcome);
	}
}

static const struct test tests[] = {
	{ "on_cpu", on_cpu, 60, 0 },           { "on_engine", on_engine, 60, 0 },
	{ "as_text", as_text, 60, 0 },         { "refused", refused, 60, 0 },
	{ "seen_in_top", seen_in_top, 60, 0 }, { NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main_once, "command_pointer", tests)
