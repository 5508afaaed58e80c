// SPDX-License-Identifier: MIT
/*
 * Tests that take two NUMA nodes with memory, as the machines of tests/vm have: traces and hetmap
 * explain report the memory of another node. This program also runs those of traced.c and
 * watched.c.
 */
#include <string.h>

#include "../../tools/perf/read/nodes.h"
#include "perf/trace_support.h"
#include "perf/watched.h"

static bool has_two_nodes(void)
{
	if (nodes_several())
		return true;
	test_skip("numa", "this machine has one NUMA node");
	return false;
}

static bool advises_node(const json_t *json)
{
	json_t *advice;
	size_t i;

	json_array_foreach(json_object_get(json, "advice"), i, advice)
	{
		if (strstr(string_of(advice, "text"), "numactl --membind=0"))
			return true;
	}
	return false;
}

static void check_traced(const char *program, int64_t remote)
{
	AUTO_TEXT *folder = folder_make();
	AUTO(json_t) *json = report_of(folder, program);
	const json_t *nodes = json_object_get(buffer_of(json, NAME), "nodes");

	if (nodes) {
		CHECK_EQUAL(integer_of(nodes, "remote"), remote);
		CHECK_EQUAL(integer_of(nodes, "local"), TRACED_PAGES - remote);
		CHECK_EQUAL(advises_node(json), remote > 0);
	} else {
		test_skip("perf", "this user is not told whose memory pages are");
	}
}

/* Each page of memory that is bound to another node is remote. */
static void test_remote(void)
{
	if (has_two_nodes() && may_trace())
		check_traced("remote", TRACED_PAGES);
}

static void test_local(void)
{
	if (has_two_nodes() && may_trace())
		check_traced("sequential", 0);
}

static void test_explained(void)
{
	char pid[16];
	const struct command command = { .args = { "explain", "-p", pid, "far", "--json" } };
	struct watched watched;
	json_t *json, *subject, *finding;

	TEST_NEEDS(has_two_nodes());
	watched = watched_start("remote", NULL);
	snprintf(pid, sizeof(pid), "%d", (int)watched.pid);
	json = command_json(&command, 0);
	subject = json_array_get(json_object_get(json, "subjects"), 0);
	finding = json_array_get(json_object_get(subject, "findings"), 0);
	CHECK_FATAL(finding != NULL);
	CHECK(!strcmp(string_of(finding, "kind"), "remote_node"));
	json_decref(json);
	watched_end(&watched);
}

static const struct test tests[] = {
	{ "remote", test_remote, 60, TEST_ONCE },
	{ "local", test_local, 60, TEST_ONCE },
	{ "explained", test_explained, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	watched_act(argc, argv);
	return trace_tests_main(argc, argv, "two_nodes", tests);
}
