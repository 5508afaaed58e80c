// SPDX-License-Identifier: MIT
/* Cases of hetmap bench that are jobs of several ranks: --short. */
#ifdef HAVE_CLUSTER
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cluster/ranks.h"
#include "lib/command.h"

/* A row as "bench --short --json CASE" printed it: measured, with both sides above 0. */
static bool is_measured(const json_t *row)
{
	return !json_object_get(row, "skipped") && real_of(row, "value") > 0 &&
	       real_of(row, "peer_value") > 0;
}

/* The case has exactly @names, which end with NULL, in this order. */
static void run_case(const char *name, const char *const *names)
{
	AUTO(outcome) outcome = { 0 };
	const char *at, *end;
	json_t *row;

	ranks_need_launcher();
	CHECK_RUN(0, &outcome,
		  &(struct command){ .args = { "bench", "--short", "--json", name },
				     .env = { "ASAN_OPTIONS=detect_leaks=0" } });
	for (at = outcome.out; *at; at = end + (*end == '\n')) {
		end = at + strcspn(at, "\n");
		row = json_loadb(at, (size_t)(end - at), 0, NULL);
		if (json_object_get(row, "case")) {
			if (!*names || strcmp(string_of(row, "case"), *names) != 0 ||
			    !is_measured(row))
				test_fail(__FILE__, __LINE__, "not %s: %.*s",
					  *names ? *names : "a row", (int)(end - at), at);
			names += *names != NULL;
		}
		json_decref(row);
	}
	if (*names)
		test_fail(__FILE__, __LINE__, "no row '%s': %s%s", *names, outcome.out,
			  outcome.err);
}

static void put(void)
{
	static const char *const names[] = { "put, 8 B, shared pages",
					     "put, 4 KiB, shared pages",
					     "put, 64 KiB, shared pages",
					     "put, 4 MiB, shared pages",
					     "put, 8 B, MPI in one machine",
					     "put, 4 KiB, MPI in one machine",
					     "put, 64 KiB, MPI in one machine",
					     "put, 4 MiB, MPI in one machine",
					     "put, 8 B, MPI over TCP",
					     "put, 4 KiB, MPI over TCP",
					     "put, 64 KiB, MPI over TCP",
					     "put, 4 MiB, MPI over TCP",
					     NULL };

	run_case("array_put", names);
}

static void get(void)
{
	static const char *const names[] = { "get, 8 B, shared pages",
					     "get, 4 KiB, shared pages",
					     "get, 64 KiB, shared pages",
					     "get, 4 MiB, shared pages",
					     "get, 8 B, MPI in one machine",
					     "get, 4 KiB, MPI in one machine",
					     "get, 64 KiB, MPI in one machine",
					     "get, 4 MiB, MPI in one machine",
					     "get, 8 B, MPI over TCP",
					     "get, 4 KiB, MPI over TCP",
					     "get, 64 KiB, MPI over TCP",
					     "get, 4 MiB, MPI over TCP",
					     NULL };

	run_case("array_get", names);
}

static void pages(void)
{
	static const char *const names[] = { "first touch of a page, MPI in one machine",
					     "4 MiB of pages in order, MPI in one machine",
					     "first touch of a page, MPI over TCP",
					     "4 MiB of pages in order, MPI over TCP", NULL };

	run_case("array_page", names);
}

static void particles(void)
{
	static char last[64];
	const char *names[] = { "share of communication, 4 ranks, shared pages",
				"share of communication, 4 ranks, MPI over TCP", last, NULL };

	snprintf(last, sizeof(last), "uneven start, with rebalancing, %d ranks",
		 sysconf(_SC_NPROCESSORS_ONLN) >= 4 ? 4 : 2);
	run_case("particles", names);
}

static const struct test tests[] = {
	{ .name = "put", put, .seconds = 120 },
	{ .name = "get", get, .seconds = 120 },
	{ .name = "pages", pages, .seconds = 120 },
	{ .name = "particles", particles, .seconds = 120 },
	{ 0 },
};

TEST_MAIN(harness_main_once, "bench_cluster", tests)
#else
#include "cluster/not_built.h"
#endif
