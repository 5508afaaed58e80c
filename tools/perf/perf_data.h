/* SPDX-License-Identifier: MIT */
/*
 * A trace is a folder: perf.data, the records as the kernel gives them, which `perf
 * report` reads, too; maps/, the tables that programs with the library publish of their
 * maps; about.json, what was traced, on what machine, and what is missing.
 *
 * The format: tools/perf/Documentation/perf.data-file-format.txt in the kernel's source.
 */
#ifndef HETMAP_PERF_DATA_H
#define HETMAP_PERF_DATA_H

#include <linux/perf_event.h>
#include <stdint.h>

#define PERF_DATA_MAGIC "PERFILE2"

/* Of perf's own, not the kernel's: all before the round before this one may be sorted. */
#define PERF_RECORD_FINISHED_ROUND 68

struct perf_data_section {
	uint64_t offset;
	uint64_t size;
};

struct perf_data_head {
	char magic[8];
	uint64_t size;
	uint64_t attr_size; /* of one of attrs: attribute and section of its ids */
	struct perf_data_section attrs;
	struct perf_data_section data;
	/*
	 * perf has had nothing there since 3.x. In a trace of this program's it is where the
	 * feature of formats is, so that they are found without the table behind the data.
	 */
	struct perf_data_section formats;
	uint64_t features[4]; /* bits; each has a section, in this order, behind the data */
};

/* The feature that is the formats of tracepoints: HEADER_TRACING_DATA of perf's. */
#define PERF_DATA_FORMATS 1

struct perf_data_attr {
	struct perf_event_attr attr;
	struct perf_data_section ids;
};

/* What this program has the kernel record, in the order of the file's attributes. */
enum trace_event {
	TRACE_FAULT, /* as a fault begins, with its call chain; also what is mapped, and who */
	TRACE_MINOR, /* as one ends that took no storage */
	TRACE_MAJOR, /* one that did */
	N_TRACE_EVENT,
};

/* Without a chain: the same in each record, whatever event it is of. */
#define TRACE_SAMPLE                                                                    \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | \
	 PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU)

/* What stands behind each record that is no sample: of TRACE_SAMPLE, what applies. */
struct trace_trailer {
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, reserved;
	uint64_t identifier;
};

#endif
