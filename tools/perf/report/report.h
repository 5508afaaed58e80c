/* SPDX-License-Identifier: MIT */
/* hetmap report: the sums of a trace, and the remedies. */
#ifndef HETMAP_REPORT_H
#define HETMAP_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "perf/read/analysis.h"
#include "perf/record/storage.h"

/* Costs of faults on the traced machine, ns: see calibrate.h. 0: not known. */
struct costs {
	double anon_fault, file_fault;
	double anon_populate, anon_huge, file_populate;
};

/* Measured when advice asks for it; 0 where it can't be known. */
struct measures {
	/* The rate at which storage reads a file, bytes a ns: see storage.h. */
	double (*storage_rate)(void *user, const struct object *object);
	/* The time that a CPU of one node takes to read 4 KiB of another's, ns: see nodes.h. */
	double (*node_cost)(void *user, uint32_t cpu_node, uint32_t memory_node);
	/* The cost of a page in a prefetch to an accelerator, ns: see accel_cost.h. */
	double (*prefetch_cost)(void *user, const char *accel);
	void *user;
};

struct advice {
	const struct object *of;
	uint64_t faults; /* that it is about */
	char *text;
	char *evidence;
	double gain_ns; /* below 0: not foretold */
	bool at_most;   /* no more is known of it */
};

struct report {
	const char *path;
	bool about_missing; /* of a folder that should have it */
	struct analysis analysis;
	struct symbols *symbols; /* NULL: none */
	json_t *about;           /* about.json, or an empty object */
	char *about_refused;     /* why it can't be read; NULL: it was, or there is none */
	char *command;           /* "" where it is not known */
	uint64_t duration_ns;
	struct costs costs;
	struct storage_rates rates;
	struct advice *advice; /* the one with the most to gain first */
	uint32_t n_advice;
	struct range_row *range_rows; /* of analysis.ranges */
	uint64_t n_range_row;
	char **missing; /* sentences */
	uint32_t n_missing;
	uint32_t rows; /* of tables that are shown */
};

/* ---- report_missing.c ---- */

/* Members of about.json; "", 0: they are not there. */
const char *about_string(const json_t *object, const char *name);
uint64_t about_count(const json_t *object, const char *name);

/* Fills in report->missing: of the trace, and of the files that have its code and names. */
void report_find_missing(struct report *report);
void report_find_unnamed(struct report *report);

/* ---- advice.c ---- */

/* Fills in report->advice. 0 or -ENOMEM. */
int advice_find(struct report *report, const struct measures *measures);
/*
 * A sentence on the causes that the trace can't tell, as their events were not recorded; NULL:
 * all can.
 */
const char *advice_unknown(const struct report *report);

/* Is it worth a word? */
bool advice_is_gain(const struct report *report, double gain_ns);
/* Takes over @text and @evidence. 0 or -ENOMEM. */
int advice_add(struct report *report, struct advice *advice);

/* ---- advice_ranges.c ---- */

/* Adds advice on the work of accelerators by entries of their own. 0 or -ENOMEM. */
int advice_on_ranges(struct report *report, const struct measures *measures);

/* ---- report_ranges.c ---- */

void report_ranges_text(const struct report *report);
/* @place: of each object its place in the list of buffers. */
json_t *report_ranges_json(const struct report *report, const uint32_t *place);

/* ---- report_text.c ---- */

void report_text(const struct report *report);
/* At most @width columns of a name; free() it. */
char *report_name(const char *name, size_t width);
/* "function (file:line)", as far as it is known: free() it. */
char *report_site(const struct site *site);

/* ---- report_folded.c ---- */

/* "thread;function;...;buffer N" lines, as flame graphs are made of. 0 or -ENOMEM. */
int report_folded(const struct report *report, FILE *out);

/* ---- report_json.c ---- */

const char *report_pattern(enum pattern pattern);
/* The report as page.h describes it; with_events: with its columns. NULL: no memory. */
json_t *report_json(const struct report *report, bool with_events);

json_t *report_latency_json(const struct latency *latency);
/* Puts function, file, line and module of @site into @value. */
void report_site_json(json_t *value, const struct site *site);

/* ---- report_devices.c ---- */

void report_devices_text(const struct report *report);
json_t *report_use_json(const struct analysis *analysis, const struct device_use *use);
json_t *report_devices_json(const struct analysis *analysis);
/* The first @most of them; @place: of each object its place in the list of buffers. */
json_t *report_device_sites_json(const struct analysis *analysis, const uint32_t *place,
				 uint32_t most);
json_t *report_lanes_json(const struct analysis *analysis);

/* ---- report_nodes.c ---- */

/* Of an object's faults: those by CPUs of another node than the page's, and of its own. */
struct node_use {
	uint64_t local, remote;
	uint64_t most;                  /* of one pair that is remote: */
	uint32_t cpu_node, memory_node; /* this one */
};

void report_node_use(const struct analysis *analysis, const struct counted *counted,
		     struct node_use *ret_use);
/* Pages of @node, of those that are known. */
uint64_t report_on_node(const struct analysis *analysis, const struct counted *counted,
			uint32_t node);
/* Nothing of a machine with one node. */
void report_nodes_text(const struct report *report);
json_t *report_nodes_json(const struct analysis *analysis, const struct counted *counted);

/* ---- report_svg.c ---- */

/* The heat map of the object with the most faults. */
void report_svg(const struct report *report, FILE *out);

#endif
