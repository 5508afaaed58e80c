// SPDX-License-Identifier: MIT
/* The list of benchmarks, those of extensions, and the code that each is compared with. */
#include "bench_list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench_run.h"
#include "common/command.h"

const struct bench *bench_list;
size_t bench_list_n;

/* In the order of their programs' own lists. */
static const struct bench_elsewhere elsewhere[] = {
	{ "formats", "one table as .npy, Arrow, Parquet and CSV", "table" },
	{ "arrow_open", "1 GiB of Arrow, to the first value of each column", "table" },
	{ "arrow_scan", "the sum of a column of Arrow where it lies", "table" },
	{ "parquet_columns", "columns of Parquet, until an accelerator may read them",
	  "table" },
	{ "parquet_skip", "1% of sorted rows, by the statistics of row groups", "table" },
	{ "table_window", "a file of Parquet through a bounded window", "table" },
	{ "persist", "stores to a DAX device, made to last", "tier" },
	{ "log_append", "a record of 256 bytes that outlives a power failure", "tier" },
	{ "graph_transfer", "transfers of a step of training, by its plan", "graph" },
	{ "graph_overlap", "transfers beside the compute of a plan", "graph" },
	{ "plan_compile", "a plan of 10,000 nodes", "graph" },
	{ "plan_launch", "a run of a plan, a node", "graph" },
	{ "array_put", "bytes to another rank's part of an array", "particles" },
	{ "array_get", "bytes of another rank's part of an array", "particles" },
	{ "array_page", "loads that bring pages of another node", "particles" },
	{ "particles", "molecular dynamics: the share of communication, and balance",
	  "particles" },
};

#define N_ELSEWHERE (sizeof(elsewhere) / sizeof(elsewhere[0]))

const struct bench_elsewhere *bench_elsewhere_at(size_t i)
{
	return i < N_ELSEWHERE ? &elsewhere[i] : NULL;
}

const struct bench_elsewhere *bench_elsewhere_find(const char *name)
{
	size_t i;

	/* The program that has them does not look elsewhere. */
	if (bench_find(name))
		return NULL;
	for (i = 0; i < N_ELSEWHERE; i++)
		if (!strcmp(elsewhere[i].name, name))
			return &elsewhere[i];
	return NULL;
}

const struct bench *bench_find(const char *name)
{
	size_t i;

	for (i = 0; i < bench_list_n; i++)
		if (!strcmp(bench_list[i].name, name))
			return &bench_list[i];
	return NULL;
}

const char *bench_summary(const char *name)
{
	const struct bench_elsewhere *other = bench_elsewhere_find(name);
	const struct bench *bench = bench_find(name);

	return bench ? bench->summary : other ? other->summary : NULL;
}

int bench_refuse(const char *name)
{
	const char *names[BENCH_MOST + N_ELSEWHERE + 1] = { NULL };
	const char *nearest;
	size_t i, k;

	for (i = 0; i < bench_list_n; i++)
		names[i] = bench_list[i].name;
	for (k = 0; k < N_ELSEWHERE; k++)
		names[i + k] = elsewhere[k].name;
	nearest = option_nearest(name, names);
	if (nearest)
		return fail(STATUS_USAGE, EINVAL, NULL,
			    "bench: there is no case '%s': did you mean %s?", name, nearest);
	return fail(STATUS_USAGE, EINVAL, NULL,
		    "bench: there is no case '%s': see hetmap bench --list", name);
}

/* ---- the peers' code ---- */

/* The text behind the last '/' '*' that heads a part: does it name @name? */
static bool part_names(const char *head, const char *end, const char *name)
{
	size_t length = strlen(name);
	const char *at;

	for (at = head; at + length < end; at++)
		if (!strncmp(at, name, length) && at[-1] == ' ' && at[length] == ' ')
			return true;
	return false;
}

/* Prints those parts of the peer's file that are headed by the benchmark's name. */
void bench_show_peer(const struct bench *bench)
{
	static const char mark[] = "\n/* ---- ";
	const char *part = strstr(bench->peer_source, mark);

	printf("/* The peer of %s: %s. */\n", bench->name, bench->summary);
	while (part) {
		const char *next = strstr(part + 1, mark);
		const char *line_end = strchr(part + 1, '\n');
		size_t length = next ? (size_t)(next - part) : strlen(part);

		if (line_end && part_names(part + 1, line_end, bench->name))
			printf("%.*s", (int)length, part);
		part = next;
	}
	putchar('\n');
}
