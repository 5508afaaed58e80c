// SPDX-License-Identifier: MIT
/* For tests of traces: they trace the programs of traced.c, and check the reports. */
#include "perf/trace_support.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

char self[512];

bool may_trace(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period = 1,
		.exclude_kernel = 1,
		.disabled = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

	if (fd >= 0) {
		close(fd);
		return true;
	}
	test_skip("perf", "perf_event_open: %s", strerror(errno));
	return false;
}

void need_trace(void)
{
	if (!may_trace())
		test_abandon();
}

char *traced_folder(void)
{
	need_trace();
	return folder_make();
}

/* Tracepoints change the kernel's code: where it is emulated that is asked for rarely. */
void trace_with(const char *folder, const char *name, int expected, bool points)
{
	AUTO_TEXT *path = folder_path(folder, "trace");
	const struct command command = {
		.args = { "trace", "-q", "-o", path, points ? "--" : "--no-tracepoints",
			  points ? self : "--", points ? "--traced" : self,
			  points ? name : "--traced", points ? NULL : name }
	};
	AUTO(outcome) outcome = { 0 };

	CHECK_RUN(expected, &outcome, &command);
	if (outcome.err[0])
		test_fail(__FILE__, __LINE__, "%s: it said: %s", name, outcome.err);
}

void trace(const char *folder, const char *name, int expected)
{
	trace_with(folder, name, expected, false);
}

json_t *report(const char *folder)
{
	AUTO_TEXT *path = folder_path(folder, "trace");
	const struct command command = { .args = { "report", "--json", "-q", path } };
	AUTO(outcome) outcome = { 0 };
	json_t *json;

	CHECK_RUN(0, &outcome, &command);
	CHECK(!outcome.err[0]);
	json = outcome_json(&outcome);
	CHECK_FATAL(json != NULL);
	return json;
}

json_t *report_of(const char *folder, const char *name)
{
	trace(folder, name, 0);
	return report(folder);
}

json_t *buffer_of(const json_t *json, const char *name)
{
	json_t *buffer;
	size_t i;

	json_array_foreach(json_object_get(json, "buffers"), i, buffer)
	{
		if (!strcmp(string_of(buffer, "name"), name))
			return buffer;
	}
	test_fail(__FILE__, __LINE__, "there is no buffer %s", name);
	return NULL;
}

void pause_a_while(void)
{
	const char *scale = getenv("HETMAP_TIME_SCALE");
	unsigned long times = scale ? strtoul(scale, NULL, 10) : 1;

	for (times = times ? times : 1; times; times--)
		usleep(300000);
}

char *read_all(const char *path, size_t *ret_length)
{
	FILE *file = fopen(path, "re");
	char *bytes = NULL;

	CHECK_FATAL(file != NULL);
	fseek(file, 0, SEEK_END);
	*ret_length = (size_t)ftell(file);
	rewind(file);
	bytes = malloc(*ret_length + 1);
	CHECK_FATAL(bytes && fread(bytes, 1, *ret_length, file) == *ret_length);
	fclose(file);
	return bytes;
}

uint64_t trace_inode(const char *folder, const char *name)
{
	struct stat st;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s/perf.data", folder, name);
	return stat(path, &st) ? 0 : st.st_ino;
}

bool is_missing(const json_t *json, const char *words)
{
	json_t *sentence;
	size_t i;

	json_array_foreach(json_object_get(json, "missing"), i, sentence)
	{
		if (strstr(json_string_value(sentence), words))
			return true;
	}
	return false;
}

int trace_tests_main(int argc, char **argv, const char *suite, const struct test *tests)
{
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (argc == 3 && !strcmp(argv[1], "--traced"))
		return traced_main(argv[2]);
	if (n < 0)
		return 3;
	return harness_main(argc, argv, suite, tests);
}
