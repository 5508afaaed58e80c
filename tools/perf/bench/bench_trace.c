// SPDX-License-Identifier: MIT
/*
 * trace_overhead: how much longer a program that only faults takes when hetmap trace, or perf,
 * records each of its faults. Both sides are the added time: each traced run comes right behind
 * one without a trace.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_folder.h"
#include "bench_options.h"
#include "common/command.h"
#include "common/extension.h"
#include "common/text.h"
#include "peer.h"
#include "perf/read/recording.h"
#include "program.h"

#define FAULTING "1G"
#define PAGES (GIB(1) / KIB(4))
#define FAULTING_SHORT "16M"
#define PAGES_SHORT (MIB(16) / KIB(4))
/* Room for two recordings. */
#define ROOM MIB(200)

#define ARGUMENTS 24

struct overhead {
	char *self; /* the program that faults */
	char *hetmap;
	char *trace, *records;    /* hetmap trace's folder, and the file in it */
	char *perf;               /* perf's file */
	const char *fault;        /* the option of the program that is traced */
	bool by_default;          /* as hetmap trace does it; else the events of perf record */
	uint64_t lost, peer_lost; /* records of all runs so far */
	char *why;                /* text of a failed run; NULL: none failed */
};

/* Appends up to NULL. */
static void add(char *argv[ARGUMENTS], const char *const *words)
{
	size_t n = 0;

	while (argv[n])
		n++;
	for (; *words && n < ARGUMENTS - 1; words++)
		argv[n++] = (char *)*words;
}

static void add_program(char *argv[ARGUMENTS], const struct overhead *overhead)
{
	const char *program[] = { overhead->self, overhead->fault,
				  bench_options.small ? FAULTING_SHORT : FAULTING, NULL };

	add(argv, program);
}

/* The time that the program itself reports. */
static int run(struct overhead *overhead, char *const argv[], double *ret_ns)
{
	struct program_result result;
	char *end;
	int r = program_run(argv, &result);

	if (r)
		return r;
	*ret_ns = strtod(result.out, &end);
	if (!result.status && end > result.out)
		return 0;
	free(overhead->why);
	overhead->why =
		result.status == STATUS_NOT_FOUND ?
			text_format("%s is not installed", basename(argv[0])) :
			text_format("%s", result.errors[0] ? result.errors : "it said nothing");
	return -EPROTO;
}

/* ---- lost records ---- */

struct seen {
	uint64_t faults, lost;
};

static int count(void *user, const struct recorded_event *event)
{
	struct seen *seen = user;

	seen->faults += event->kind == RECORDED_FAULT;
	seen->lost += event->kind == RECORDED_LOST ? event->lost : 0;
	return 0;
}

/* Records that are missing in a recording of the program. */
static int lost_in(const char *path, uint64_t *ret_lost)
{
	uint64_t pages = bench_options.small ? PAGES_SHORT : PAGES;
	struct recording_totals totals;
	struct recording *recording;
	struct seen seen = { 0 };
	const char *reason;
	int r = recording_open(path, &recording, &reason);

	if (r)
		return r;
	r = recording_each(recording, count, &seen, &totals, &reason);
	recording_close(recording);
	if (!r && !seen.lost && seen.faults < pages)
		seen.lost = pages - seen.faults;
	if (!r)
		*ret_lost = seen.lost;
	return r;
}

/* ---- the sides ---- */

static int added(struct overhead *overhead, char *const traced[], const char *records,
		 uint64_t *lost, double *ret_ns)
{
	char *bare[ARGUMENTS] = { NULL };
	double ns, bare_ns;
	uint64_t missing;
	int r;

	add_program(bare, overhead);
	r = run(overhead, bare, &bare_ns);
	if (!r)
		r = run(overhead, traced, &ns);
	if (!r)
		r = lost_in(records, &missing);
	if (r)
		return r;
	*lost += missing;
	*ret_ns = ns - bare_ns;
	return 0;
}

static int added_ours(void *user, double *ret_ns)
{
	static const char *const as_perf[] = { "--no-latency", "--no-tracepoints",
					       "--max-stack", "127", NULL };
	struct overhead *overhead = user;
	const char *trace[] = { overhead->hetmap, "trace", "-q", "-o", overhead->trace, NULL };
	char *argv[ARGUMENTS] = { NULL };

	bench_folder_clear(overhead->trace);
	add(argv, trace);
	if (!overhead->by_default)
		add(argv, as_perf);
	add(argv, (const char *const[]){ "--", NULL });
	add_program(argv, overhead);
	return added(overhead, argv, overhead->records, &overhead->lost, ret_ns);
}

static int added_peer(void *user, double *ret_ns)
{
	struct overhead *overhead = user;
	char *argv[ARGUMENTS] = { NULL };

	add(argv, peer_perf);
	add(argv, (const char *const[]){ overhead->perf, "--", NULL });
	add_program(argv, overhead);
	return added(overhead, argv, overhead->perf, &overhead->peer_lost, ret_ns);
}

/* ---- the rows ---- */

static int compare(struct overhead *overhead, struct bench_pair *pair, const char *fault,
		   enum bench_target kind)
{
	overhead->fault = fault;
	return bench_compare(pair, overhead, "ms", 1e6, kind, 1.05);
}

static int measure(struct overhead *overhead)
{
	struct bench_pair pair = {
		.name = "1 GiB read, added",
		.peer = "what perf record -e page-faults -c 1 -d -g adds",
		.ours = added_ours,
		.peer_side = added_peer,
		.rounds = bench_options.small ? 1 : 21,
		.warm_up = !bench_options.small,
	};
	struct bench_result lost = {
		.name = "records lost",
		.unit = "",
		.peer = "records that perf lost",
		.kind = TARGET_VALUE,
	};
	int r = compare(overhead, &pair, "--fault-read", TARGET_RATIO);

	pair.name = "1 GiB written, added";
	if (!r)
		r = compare(overhead, &pair, "--fault-write", TARGET_RATIO);
	overhead->by_default = true;
	pair.name = "read, with latencies";
	pair.rounds = bench_options.small ? 1 : 7;
	if (!r)
		r = compare(overhead, &pair, "--fault-read", TARGET_NONE);
	if (r)
		return r;
	lost.value = (double)overhead->lost;
	lost.peer_value = (double)overhead->peer_lost;
	bench_report(&lost);
	return 0;
}

/* Both are tried once: either may be refused here, or not be installed. */
static int try(struct overhead *overhead)
{
	double ns;
	int r;

	overhead->fault = "--fault-read";
	r = added_ours(overhead, &ns);
	if (!r)
		r = added_peer(overhead, &ns);
	overhead->lost = overhead->peer_lost = 0;
	return r;
}

int bench_trace_overhead(void)
{
	char *folder = bench_folder_make("1 GiB read, added", ROOM);
	struct overhead overhead = { .self = program_self(), .hetmap = hetmap_path() };
	int r;

	if (!folder || !overhead.self || !overhead.hetmap) {
		free(overhead.hetmap);
		free(overhead.self);
		bench_folder_remove(folder);
		return 0;
	}
	overhead.trace = text_format("%s/trace", folder);
	overhead.records = text_format("%s/perf.data", overhead.trace);
	overhead.perf = text_format("%s/perf.data", folder);
	r = try(&overhead);
	if (r == -EPROTO) {
		bench_skip("1 GiB read, added", "%s", overhead.why);
		r = 0;
	} else {
		r = r ? bench_fail("a first run", r, false) : measure(&overhead);
	}
	if (r && overhead.why)
		fprintf(stderr, "%s\n", overhead.why);
	free(overhead.trace);
	free(overhead.records);
	free(overhead.perf);
	free(overhead.why);
	free(overhead.hetmap);
	free(overhead.self);
	bench_folder_remove(folder);
	return r;
}
