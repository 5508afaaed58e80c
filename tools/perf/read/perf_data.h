/* SPDX-License-Identifier: MIT */
/*
 * A trace is a folder: perf.data, the records as the kernel gives them, which `perf report`
 * reads, too; maps/, the tables that programs with the library publish of their maps;
 * about.json, which has the command, the machine, and the gaps.
 *
 * The format: tools/perf/Documentation/perf.data-file-format.txt in the kernel's source.
 */
#ifndef HETMAP_PERF_DATA_H
#define HETMAP_PERF_DATA_H

#include <linux/perf_event.h>
#include <stdint.h>

#define PERF_DATA_MAGIC "PERFILE2"
#define PERF_DATA_MAGIC_SWAPPED "2ELIFREP" /* of a machine with the other byte order */
#define PERF_DATA_MAGIC_OLD "PERFFILE"

/*
 * Of perf's own, not the kernel's [tools/lib/perf/include/perf/event.h]. All before the round
 * before a FINISHED_ROUND may be sorted. Behind a TRACING_DATA and an AUXTRACE stand bytes that
 * its size does not count.
 */
#define PERF_RECORD_USER_FIRST 64
#define PERF_RECORD_TRACING_DATA 66
#define PERF_RECORD_FINISHED_ROUND 68
#define PERF_RECORD_AUXTRACE 71
#define PERF_RECORD_COMPRESSED 81
#define PERF_RECORD_COMPRESSED2 83
#define PERF_RECORD_USER_LAST 86   /* that is known of: SCHEDSTAT_DOMAIN */
#define PERF_RECORD_KERNEL_LAST 22 /* likewise: CALLCHAIN_DEFERRED */

/* perf's own mark of a LOST_SAMPLES: perf record --filter left them out. */
#define PERF_RECORD_LOST_TO_FILTER (1u << 15)

/* In a call chain: a number follows, by which a later record has the user's part. */
#define PERF_CHAIN_DEFERRED ((uint64_t)-640)

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
/* The feature that records are in further files of the same folder: HEADER_DIR_FORMAT. */
#define PERF_DATA_FOLDER 24
#define PERF_DATA_FOLDER_REASON                                                         \
	"it is a folder of perf record --threads, whose records are in several files: " \
	"record it without --threads"

struct perf_data_attr {
	struct perf_event_attr attr;
	struct perf_data_section ids;
};

/* The events that this program has the kernel record, in the order of the file's attributes. */
enum trace_event {
	TRACE_FAULT, /* as a fault begins, with its call chain; also mappings and tasks */
	TRACE_MINOR, /* as one ends that took no storage */
	TRACE_MAJOR, /* one that did */
	N_TRACE_EVENT,
};

/* Without a chain: the same in each record, whatever event it is of. */
#define TRACE_SAMPLE                                                                    \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | \
	 PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU)

/* The fields behind each record that is no sample: those of TRACE_SAMPLE that apply. */
struct trace_trailer {
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, reserved;
	uint64_t identifier;
};

#endif
