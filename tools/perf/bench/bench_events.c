// SPDX-License-Identifier: MIT
/* report_10m: the cost of hetmap report on a trace of ten million faults. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_folder.h"
#include "bench_options.h"
#include "common/extension.h"
#include "common/text.h"
#include "peer.h"
#include "perf/record/made_trace.h"
#include "program.h"

#define FAULTS UINT64_C(10000000)
#define FAULTS_SHORT UINT64_C(20000)
/* Bytes of a fault's two records. */
#define BYTES_A_FAULT 144

struct events {
	char *hetmap;
	struct trace_folder trace;
	char *records; /* its file */
	uint64_t n, bytes;
	double most; /* memory of a report, MiB */
	char why[PROGRAM_TEXT];
};

static int report_ours(void *user, double *ret_ns)
{
	struct events *events = user;
	char *argv[] = { events->hetmap, "report", "-q", "--json", events->trace.path, NULL };
	struct program_result result;
	double memory;
	int r = program_run(argv, &result);

	if (r)
		return r;
	if (result.status) {
		memcpy(events->why, result.errors, sizeof(events->why));
		return -EPROTO;
	}
	memory = (double)result.usage.ru_maxrss / 1024;
	if (memory > events->most)
		events->most = memory;
	*ret_ns = result.ns;
	return 0;
}

static int report_peer(void *user, double *ret_ns)
{
	const struct events *events = user;
	double start = bench_now();
	int r = peer_read_all(events->records);

	*ret_ns = bench_now() - start;
	return r;
}

static int measure(struct events *events)
{
	const struct bench_pair pair = {
		.name = "time",
		.peer = "read() of all its records",
		.ours = report_ours,
		.peer_side = report_peer,
		.rounds = 5,
		.warm_up = 1,
	};
	struct bench_result result = {
		.name = "memory",
		.unit = "MiB",
		.peer = "size of its records",
		.peer_value = (double)events->bytes / (double)MIB(1),
		.kind = TARGET_VALUE,
		.target = 1024,
	};
	int r = bench_compare(&pair, events, "s", 1e9, TARGET_VALUE, 5);

	if (r) {
		if (events->why[0])
			fprintf(stderr, "%s\n", events->why);
		return r;
	}
	result.value = events->most;
	bench_report(&result);
	return 0;
}

int bench_report_10m(void)
{
	struct events events = { .n = bench_options.small ? FAULTS_SHORT : FAULTS };
	char *folder = bench_folder_make("time", events.n * BYTES_A_FAULT * 5 / 4), *path;
	int r;

	if (!folder)
		return 0;
	events.hetmap = hetmap_path();
	path = text_format("%s/trace", folder);
	r = events.hetmap ? made_trace(path, events.n, &events.trace, &events.bytes) : -ENOENT;
	if (r) {
		bench_fail("a trace that is made up", r, false);
		goto out;
	}
	events.records = trace_folder_file(events.trace.path, "perf.data");
	r = measure(&events);
	free(events.records);
	trace_folder_close(&events.trace, false);
out:
	bench_folder_remove(folder);
	free(path);
	free(events.hetmap);
	return r;
}
