// SPDX-License-Identifier: MIT
/* hetsim: the command's tour and jobs on sim:0, through one pointer without OpenCL. */
#include <hetmap/hetmap.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

static json_t *run(const struct command *command)
{
	struct outcome outcome;
	json_t *json;

	command_run(command, &outcome);
	if (outcome.status)
		test_fail(__FILE__, __LINE__, "status %d: %s%s", outcome.status, outcome.out,
			  outcome.err);
	json = outcome_json(&outcome);
	outcome_free(&outcome);
	CHECK_FATAL(json != NULL);
	CHECK(json_is_true(json_object_get(json, "verified")));
	return json;
}

static bool is(const json_t *json, const char *key, const char *expected)
{
	const char *text = json_string_value(json_object_get(json, key));

	return text && !strcmp(text, expected);
}

static void check_tour(const struct command *command, const char *accel)
{
	json_t *json = run(command), *step;
	const char *text;
	size_t i;

	CHECK(is(json, "device", "sim:0"));
	CHECK(is(json, "accel", accel));
	CHECK_EQUAL(json_integer_value(json_object_get(json, "absent")), 2);
	CHECK_EQUAL(json_integer_value(json_object_get(json, "done")), 12);
	json_array_foreach(json_object_get(json, "steps"), i, step)
	{
		bool absent = is(step, "step", "lock") || is(step, "step", "prefetch");

		text = json_string_value(json_object_get(step, "text"));
		CHECK_FATAL(text != NULL);
		CHECK(is(step, "state", absent ? "absent" : "done"));
		/* With the reason. */
		CHECK(!absent || strlen(text) > strlen("not on this device: "));
		CHECK(!is(step, "step", "launch") || strstr(text, "direct, 0 bytes copied"));
	}
	json_decref(json);
}

/* A device's own engine comes before other accelerators. */
static void tour(void)
{
	const struct command own = { .args = { "tour", "--device", "sim:0", "--size", "4M",
					       "--json" } };
	const struct command on_cpu = { .args = { "tour", "--device", "sim:0", "--accel", "cpu",
						  "--size", "1M", "--json" } };

	check_tour(&own, "sim:0");
	check_tour(&on_cpu, "cpu");
}

/* Left to itself it takes the best device there is, which soft is not here. */
static void best(void)
{
	const struct command tour = { .args = { "tour", "--size", "1M", "--json" } };
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct hm_device *device;
	json_t *json;

	CHECK_OK_FATAL(hm_device_open(NULL, &device));
	CHECK_OK_FATAL(hm_device_query(device, &info));
	hm_device_unref(device);
	CHECK(strcmp(info.backend, "soft") != 0);
	json = run(&tour);
	CHECK(is(json, "device", info.name));
	json_decref(json);
}

static void jobs(void)
{
	const struct command histogram = { .args = { "run", "histogram", "--device", "sim:0",
						     "--accel", "sim:0", "--rounds", "1",
						     "--json" } };
	const struct command saxpy = { .args = { "run", "saxpy", "--device", "sim:0", "--accel",
						 "cpu", "--size", "1M", "--rounds", "1",
						 "--json" } };
	json_t *json = run(&histogram);

	CHECK(is(json, "way_in", "direct"));
	CHECK(is(json, "device", "sim:0"));
	CHECK(is(json, "accel", "sim:0"));
	json_decref(json);
	json = run(&saxpy);
	CHECK(is(json, "device", "sim:0"));
	CHECK_EQUAL(json_integer_value(json_object_get(json, "bytes_copied")), 0);
	json_decref(json);
}

static const struct test tests[] = {
	{ "tour", tour, 30, TEST_ONCE },
	{ "best", best, 30, TEST_ONCE },
	{ "jobs", jobs, 30, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "hetsim_command", tests);
}
