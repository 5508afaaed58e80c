// SPDX-License-Identifier: MIT
/* The plan of hetmap explain --tiers, by files of /proc that this program plays. */
#include <stdlib.h>
#include <string.h>

#include "../../tools/perf/explain/explain_tiers.h"
#include "lib/command.h"

#define MEBI (1ull << 20)

static const char smaps[] =
	"10000000-20000000 rw-s 00000000 00:01 77    /memfd:hetmap:weights (deleted)\n"
	"Size:             262144 kB\nRss:              204800 kB\nReferenced:       10240 kB\n"
	"VmFlags: rd wr sh\n"
	"7f0000000000-7f0000200000 rw-p 00000000 00:00 0\n"
	"Size:               2048 kB\nRss:                2048 kB\nReferenced:        2048 kB\n"
	"7fff00000000-7fff00021000 rw-p 00000000 00:00 0    [stack]\n"
	"Rss:                 132 kB\nReferenced:            0 kB\n";
static const char numa_maps[] =
	"10000000 bind:1 file=/memfd:x dirty=51200 N0=12800 N1=38400 kernelpagesize_kB=4\n"
	"7f0000000000 default anon=1 dirty=1 N1=1 kernelpagesize_kB=2048\n"
	"7fff00000000 default stack anon=33 N0=33 kernelpagesize_kB=4\n";

static void read_rows(struct tier_rows *rows, char **ret_text)
{
	AUTO_TEXT *places = strdup(numa_maps);

	*ret_text = strdup(smaps);
	if (!places || !*ret_text || tier_rows_read(*ret_text, rows))
		test_abandon();
	tier_rows_place(places, rows);
}

static void test_rows(void)
{
	struct tier_rows rows;
	AUTO_TEXT *text = NULL;

	read_rows(&rows, &text);
	CHECK_EQUAL(rows.n, 3);
	CHECK(!strcmp(rows.rows[0].name, "/memfd:hetmap:weights (deleted)"));
	CHECK(!strcmp(rows.rows[1].name, ""));
	CHECK_EQUAL(rows.rows[0].resident, 200 * MEBI);
	CHECK_EQUAL(rows.rows[0].touched, 10 * MEBI);
	CHECK_EQUAL(rows.rows[0].on[0], 50 * MEBI);
	CHECK_EQUAL(rows.rows[0].on[1], 150 * MEBI);
	CHECK_EQUAL(rows.rows[1].on[1], 2 * MEBI);
	CHECK_EQUAL(rows.rows[2].on[0], 33 * 4096);
	free(rows.rows);
}

static void test_plan(void)
{
	const uint64_t latency[EXPLAIN_TIERS_NODES] = { 100, 300 };
	const uint64_t unknown[EXPLAIN_TIERS_NODES] = { 100 };
	struct tier_rows rows;
	struct tier_plan plan;
	AUTO_TEXT *text = NULL;

	read_rows(&rows, &text);
	tier_rows_plan(&rows, 0, 100 * MEBI, latency, &plan);
	/* All of 2 MiB, and three quarters of 10 MiB, are on node 1. */
	CHECK_EQUAL(plan.touched, 12 * MEBI);
	CHECK_EQUAL(plan.touched_slow, 2 * MEBI + 15 * MEBI / 2);
	CHECK_EQUAL(plan.promoted, plan.touched_slow);
	CHECK_EQUAL((uint64_t)(plan.latency_now + 0.5), (25 * 100 + 95 * 300) / 120);
	CHECK_EQUAL((uint64_t)(plan.latency_then + 0.5), 100);
	/* The densest first: there is room for its bytes, and for 1 MiB. */
	tier_rows_plan(&rows, 0, 3 * MEBI, latency, &plan);
	CHECK_EQUAL(rows.rows[0].promoted, 2 * MEBI);
	CHECK_EQUAL(rows.rows[1].promoted, MEBI);
	CHECK_EQUAL(rows.rows[2].promoted, 0);
	CHECK(plan.latency_then > 100 && plan.latency_then < plan.latency_now);
	/* Without figures there is a plan, and no gain. */
	tier_rows_plan(&rows, 0, 3 * MEBI, unknown, &plan);
	CHECK_EQUAL(plan.promoted, 3 * MEBI);
	CHECK(plan.latency_now <= 0);
	free(rows.rows);
}

static const struct test tests[] = {
	{ .name = "rows", .run = test_rows },
	{ .name = "plan", .run = test_plan },
	{ 0 },
};

TEST_MAIN(harness_main, "explain_tiers", tests)
