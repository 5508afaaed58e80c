// SPDX-License-Identifier: MIT
/* NUMA nodes as traces tell of them: this machine's, and those of a file that may lie. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "../../tools/perf/read/nodes.h"
#include "lib/command.h"

static struct nodes loaded(const char *text)
{
	AUTO(json_t) *list = json_loads(text, JSON_DECODE_ANY, NULL);
	struct nodes nodes;

	CHECK_FATAL(list != NULL);
	CHECK_OK(nodes_load(list, &nodes));
	return nodes;
}

static void test_found(void)
{
	struct nodes nodes = loaded("[{\"node\": 0, \"cpus\": [0, 2], \"memory\": "
				    "[[4096, 8192], [16384, 32768]]}, {\"node\": 3, "
				    "\"cpus\": [], \"memory\": [[32768, 65536]]}]");

	CHECK_EQUAL(nodes.n, 4);
	CHECK_EQUAL(nodes_of_memory(&nodes, 0), NODE_UNKNOWN);
	CHECK_EQUAL(nodes_of_memory(&nodes, 4096), 0);
	CHECK_EQUAL(nodes_of_memory(&nodes, 8191), 0);
	CHECK_EQUAL(nodes_of_memory(&nodes, 8192), NODE_UNKNOWN);
	CHECK_EQUAL(nodes_of_memory(&nodes, 16384), 0);
	CHECK_EQUAL(nodes_of_memory(&nodes, 32768), 3);
	CHECK_EQUAL(nodes_of_memory(&nodes, 65536), NODE_UNKNOWN);
	CHECK_EQUAL(nodes_of_cpu(&nodes, 0), 0);
	CHECK_EQUAL(nodes_of_cpu(&nodes, 1), NODE_UNKNOWN);
	CHECK_EQUAL(nodes_of_cpu(&nodes, 2), 0);
	CHECK_EQUAL(nodes_of_cpu(&nodes, 3), NODE_UNKNOWN);
	CHECK(nodes_has_memory(&nodes, 0) && nodes_has_memory(&nodes, 3));
	CHECK(!nodes_has_memory(&nodes, 1));
	nodes_free(&nodes);
}

/* Zones of two nodes that span each other's memory: nobody's for sure. */
static void test_mixed(void)
{
	struct nodes nodes = loaded("[{\"node\": 0, \"memory\": [[0, 100], [50, 60]]}, "
				    "{\"node\": 1, \"memory\": [[80, 200]]}]");

	CHECK_EQUAL(nodes_of_memory(&nodes, 55), 0);
	CHECK_EQUAL(nodes_of_memory(&nodes, 90), NODE_UNKNOWN);
	CHECK_EQUAL(nodes_of_memory(&nodes, 150), 1);
	nodes_free(&nodes);
}

/* Nonsense is left out, and its numbers size no allocation. */
static void test_lies(void)
{
	static const char *const texts[] = {
		"{}",
		"[]",
		"3",
		"[1, null, []]",
		"[{\"node\": -1, \"cpus\": [0], \"memory\": [[0, 1]]}]",
		"[{\"node\": 1024, \"cpus\": [0], \"memory\": [[0, 1]]}]",
		"[{\"node\": \"0\", \"cpus\": [0]}]",
		"[{\"node\": 1.5, \"cpus\": [0]}]",
	};
	struct nodes nodes;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		nodes = loaded(texts[i]);
		CHECK_EQUAL(nodes.n, 0);
		CHECK_EQUAL(nodes_of_memory(&nodes, 0), NODE_UNKNOWN);
		nodes_free(&nodes);
	}
	nodes = loaded("[{\"node\": 1, \"cpus\": [-1, 9000000000, \"x\", 70000], \"memory\": "
		       "[[5], [9, 3], [-4, 3], 7, [\"0\", 1], [10, 20]]}]");
	CHECK_EQUAL(nodes.n, 2);
	CHECK_EQUAL(nodes.n_cpu, 0);
	CHECK_EQUAL(nodes.n_span, 1);
	CHECK_EQUAL(nodes_of_memory(&nodes, 15), 1);
	nodes_free(&nodes);
	CHECK_OK(nodes_load(NULL, &nodes));
	CHECK_EQUAL(nodes.n, 0);
}

static void test_here(void)
{
	AUTO(json_t) *list = nodes_here();
	cpu_set_t before, after;
	struct nodes nodes;
	double ns = -1;
	uint32_t node;

	if (!list) {
		test_skip("kernel", "this kernel tells of no NUMA nodes");
		return;
	}
	CHECK_OK(nodes_load(list, &nodes));
	CHECK(nodes.n > 0 && nodes.n_span > 0);
	node = nodes_of_cpu(&nodes, (uint32_t)sched_getcpu());
	CHECK(node < nodes.n);
	if (nodes_has_memory(&nodes, node)) {
		CHECK(!sched_getaffinity(0, sizeof(before), &before));
		CHECK_OK(nodes_measure(node, node, &ns));
		CHECK(ns > 1 && ns < 1e6);
		CHECK(!sched_getaffinity(0, sizeof(after), &after));
		CHECK(CPU_EQUAL(&before, &after));
	}
	ns = -1;
	CHECK(nodes_measure(NODES_MOST - 1, node, &ns) < 0);
	CHECK(ns == -1);
	nodes_free(&nodes);
}

static const struct test tests[] = {
	{ "found", test_found, 60, TEST_ONCE },
	{ "mixed", test_mixed, 60, TEST_ONCE },
	{ "lies", test_lies, 60, TEST_ONCE },
	{ "here", test_here, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "nodes", tests)
