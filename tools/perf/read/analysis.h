/* SPDX-License-Identifier: MIT */
/* The faults of a recording, summed up: by object, call site, order, and cost. */
#ifndef HETMAP_ANALYSIS_H
#define HETMAP_ANALYSIS_H

#include <stdbool.h>
#include <stdint.h>

#include "latency.h"
#include "nodes.h"
#include "ranges.h"
#include "recording.h"
#include "spaces.h"
#include "traced_devices.h"

enum pattern {
	PATTERN_FEW,        /* too few to be called anything */
	PATTERN_SEQUENTIAL, /* each fault where the one before it ended, or just before it */
	PATTERN_STRIDED,    /* with gaps of one size */
	PATTERN_RANDOM,
};

/*
 * An instruction, by the mapping at its address at that time: later another program may be
 * there.
 */
struct place {
	const char *file; /* one of spaces_code(); NULL: none, and offset is the address */
	uint64_t offset;
	uint64_t address; /* where it was first */
};

/* Where faults began, as instructions: the faulting one, and its callers. */
struct site {
	struct counted *of;
	uint32_t pid;
	uint64_t ip; /* where it was first */
	struct place place,
		caller; /* by the call chain. {}: not known. Of a text: its names, as addresses */
	struct place top; /* place to which the top of the stack leads, for the C library */
	uint64_t faults;
	uint64_t time_ns;
	/* Filled by symbols.c: */
	const char *module, *function, *file;
	int line;
	bool changed; /* at the path there is another file than was recorded: no function */
	const struct place *named; /* the instruction that these are of: it, or its caller */
};

/* Negative: @x comes first, which has more time, or as much and more faults. */
static inline int site_compare_time(const struct site *x, const struct site *y)
{
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? 1 : -1;
	return (x->faults < y->faults) - (x->faults > y->faults);
}

struct stacks;
struct streams; /* streams of one thread in one object (pattern.c) */

/* Faults of one object. */
struct counted {
	struct object *object;
	/* Pieces of memory that are in this row, and those in the place of an earlier one. */
	uint64_t taken, again;
	uint32_t piece_kind; /* the same of those that are alike; 0: of none. See pieces.c */
	uint64_t minor, major;
	uint64_t unfinished; /* began, and have no end: signals, or records that are lost */
	uint64_t in_kernel;
	uint64_t reads, writes; /* the rest is unknown */
	uint64_t minor_ns, major_ns;
	/* For a file: faults that took as long as storage does, major or not. */
	uint64_t waits, waits_ns;
	/*
	 * By [node of the CPU * analysis.nodes.n + node of the page]; NULL: of none of its
	 * faults both are known.
	 */
	uint64_t *by_nodes;
	uint64_t first_ns, last_ns; /* times of the first and the last */
	/* That its processes stood still while a fault of its was under way; see stalls.h. */
	uint64_t stalled_ns;
	uint64_t stalled_until; /* end of stalled_pid's stalls that are counted */
	uint32_t stalled_pid;
	uint64_t lowest, highest; /* offsets; of the pages */
	struct streams *streams;
	enum pattern pattern;
	int64_t stride;               /* pages, of sequential and strided */
	double regular;               /* share of the faults that the pattern foretells */
	const struct device_use *use; /* on a device that tells; NULL: it did not */
};

/* One fault, for a picture. */
struct event_row {
	uint64_t time_ns;
	uint64_t page; /* in the object */
	uint32_t object, thread, cpu, cost_ns;
	uint16_t node; /* the page's; UINT16_MAX: not known */
	bool major, in_kernel;
	bool access_known, write;
};

#define EVENT_ROWS_MOST (UINT32_C(1) << 20)

struct thread_row {
	uint32_t pid, tid;
};

struct analysis {
	struct spaces *spaces;
	enum recorded_share share; /* samples: all numbers of faults are foretold from them */
	uint64_t samples;          /* number of samples */
	bool has_latency;
	bool has_stalls;           /* and when threads ran */
	bool has_calls;            /* and the calls that changed mappings */
	bool has_access;           /* faults have their direction */
	uint64_t begin_ns, end_ns; /* times of the first and last fault; end_ns 0: none */
	struct counted **counted;  /* by time, then by faults, most first */
	uint32_t n_counted;
	uint32_t n_folded;   /* behind these: rows that are now in another one */
	uint32_t n_kind;     /* number of kinds of pieces */
	struct site **sites; /* likewise */
	uint32_t n_site;
	struct stacks *stacks; /* with ANALYSIS_STACKS */
	struct latency minor, major;
	uint64_t faults, lost, filtered;
	struct recording_totals totals;
	/* Every so-manieth fault, so that it is not too many; by when they began. */
	struct event_row *rows;
	uint32_t n_row, each;
	struct thread_row *threads;
	uint32_t n_thread;
	uint32_t broken_tables;
	struct nodes nodes; /* nodes that the trace has */
	struct devices *devices;
	struct traced_device *device; /* the first of those that told */
	/* Call sites of the devices' work; by bytes, then by times, most first. */
	struct device_site **device_sites;
	uint32_t n_device_site;
	uint64_t forgotten, left_out; /* maps that published tables could not tell of */
	/* The work of accelerators by entries of their own; in rows, see ranges.h. */
	struct traced_range *ranges;
	uint64_t n_range, ranges_left_out;
};

#define ANALYSIS_TEXT (1u << 0)
#define ANALYSIS_STACKS (1u << 1)

/*
 * Reads the trace's folder @path, or one file of perf's, or, with ANALYSIS_TEXT, the output of
 * perf script; ANALYSIS_STACKS: with call chains. @nodes: the result of nodes_here() on that
 * machine, or NULL. Returns a status, after the user was told.
 */
int analysis_read(const char *path, uint32_t flags, const json_t *nodes,
		  struct analysis *ret_analysis);
void analysis_free(struct analysis *analysis);

/* ---- pattern.c ---- */

/* Thread @tid faulted on @page of an object. 0 or -ENOMEM. */
int pattern_note(struct streams **streams, uint32_t tid, int64_t page);
/* One of its faults there waited. */
void pattern_waited(struct streams *streams, uint32_t tid, uint64_t ns);
/* The longest wait of one thread: other threads waited at the same time. */
uint64_t pattern_longest_wait(const struct streams *streams);
/* Those of @from go to @to. */
void pattern_join(struct streams **to, struct streams **from);
/* Judges the pattern of the streams. */
void pattern_judge(struct counted *counted);
void pattern_free(struct streams *streams);

/* ---- tables.c: published tables of a trace's folder ---- */

struct published_event {
	uint64_t time;
	uint32_t pid;
	bool begin;
	struct hm_published_entry entry;
};

struct tables {
	struct published_event *events; /* by time */
	uint64_t n_event;
	struct traced_range *ranges; /* by the time of their last event; without objects */
	uint64_t n_range;
	uint64_t forgotten, left_out, ranges_left_out;
	uint32_t broken; /* tables that make no sense */
	uint64_t next_event, next_range;
};

/* All of @folder/maps. The caller frees events and ranges. 0 or -ENOMEM. */
int tables_read(const char *folder, struct tables *ret_tables);
/*
 * Tells @spaces the events of the tables up to that time, and finds objects of ranges. 0 or
 * -ENOMEM.
 */
int tables_catch_up(struct tables *tables, struct spaces *spaces, uint64_t time);

#endif
