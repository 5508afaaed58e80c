// SPDX-License-Identifier: MIT
/* The gaps of a trace, with their reasons: sentences of a report, each with its remedy. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/text.h"
#include "perf/read/device_sites.h"
#include "perf/read/symbols.h"
#include "report.h"

const char *about_string(const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));

	return value ? value : "";
}

uint64_t about_count(const json_t *object, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(object, name));

	return value > 0 ? (uint64_t)value : 0;
}

static void miss(struct report *report, char *sentence)
{
	char **more = realloc(report->missing, (report->n_missing + 1) * sizeof(*more));

	if (!more) {
		free(sentence);
		return;
	}
	report->missing = more;
	more[report->n_missing++] = sentence;
}

static uint64_t unknown_faults(const struct analysis *analysis)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < analysis->n_counted; i++)
		if (analysis->counted[i]->object->kind == OBJECT_UNKNOWN)
			n += analysis->counted[i]->minor + analysis->counted[i]->major;
	return n;
}

void report_find_missing(struct report *report)
{
	const json_t *counted = json_object_get(report->about, "counted");
	const json_t *points = json_object_get(report->about, "tracepoints");
	const char *untraced =
		about_string(json_object_get(report->about, "untraced"), "missing");
	struct analysis *analysis = &report->analysis;
	uint64_t lost = about_count(counted, "lost"), unknown = unknown_faults(analysis);
	char a[TEXT_MAX], b[TEXT_MAX];

	if (report->about_refused) {
		char *why = text_escape(report->about_refused);

		miss(report,
		     text_format("its about.json can't be read (%s): the command, the "
				 "machine, the duration, the cost of faults there and gaps of "
				 "the recording are not known",
				 why));
		free(why);
	} else if (report->about_missing) {
		miss(report,
		     text_format("about.json is not there: the tracer was killed, or part of "
				 "the trace is elsewhere. The command and the machine are not "
				 "known"));
	}
	if (*untraced)
		miss(report, text_escape(untraced));
	/* No record tells the last loss: the events themselves count it. */
	if (analysis->lost < lost)
		analysis->lost = lost;
	if (analysis->lost)
		miss(report,
		     text_format("%s records were lost: the rings were full. Larger ones "
				 "help (hetmap trace --ring, as root)",
				 text_count(analysis->lost, a)));
	if (json_is_true(json_object_get(report->about, "no_room")))
		miss(report,
		     text_format("there was no more room for the trace: later records are not "
				 "in it (hetmap trace -o names another folder)"));
	if (about_count(report->about, "not_attached"))
		miss(report,
		     text_format("%s threads that were there as tracing began, or began "
				 "meanwhile, could not be recorded: more descriptors help "
				 "(ulimit -n)",
				 text_count(about_count(report->about, "not_attached"), a)));
	if (analysis->totals.cut_off)
		miss(report,
		     text_format("the recording is cut off: it has only the first %s records",
				 text_count(analysis->totals.records, a)));
	if (analysis->share == RECORDED_SAMPLES)
		miss(report,
		     text_format(
			     "it has samples of the page faults only, as perf record was run "
			     "without -c 1: %s samples stand for %s faults, and all numbers "
			     "are estimates. The order and duration of faults, and advice, "
			     "need each fault",
			     text_count(analysis->samples, a),
			     text_count(analysis->faults, b)));
	else if (analysis->share == RECORDED_UNTOLD)
		miss(report,
		     text_format("the text does not tell whether each page fault was "
				 "recorded: the order of faults, and advice, need that. perf "
				 "script -F with period tells it"));
	if (analysis->filtered)
		miss(report,
		     text_format("%s records were left out by the filter of perf record",
				 text_count(analysis->filtered, a)));
	if (analysis->totals.unknown)
		miss(report, text_format("%s records are of kinds that this version does not "
					 "know, and were left out",
					 text_count(analysis->totals.unknown, a)));
	if (!analysis->has_latency && analysis->share != RECORDED_SAMPLES)
		miss(report, text_format("the duration of faults, and the faults that read "
					 "storage, are not known: hetmap trace without "
					 "--no-latency records them"));
	if (analysis->faults && report->costs.anon_fault <= 0)
		miss(report,
		     text_format("the cost of faults on its machine is not known, and "
				 "no advice follows from it (hetmap trace measures it)"));
	if (json_is_true(json_object_get(report->about, "user_only")))
		miss(report,
		     text_format("faults inside of system calls were not recorded: that "
				 "takes root, or kernel.perf_event_paranoid below 2"));
	if (analysis->nodes.n > 1 && analysis->has_latency &&
	    json_is_false(json_object_get(report->about, "nodes_recorded")))
		miss(report,
		     text_format("the NUMA nodes of pages were not recorded: that takes root, "
				 "or kernel.perf_event_paranoid below 2"));
	if (json_is_string(json_object_get(points, "missing")))
		miss(report,
		     text_escape(json_string_value(json_object_get(points, "missing"))));
	if (unknown)
		miss(report, text_format("the memory at the addresses of %s faults is not "
					 "known: mremap(2) moved it, mostly",
					 text_count(unknown, a)));
	if (analysis->forgotten)
		miss(report,
		     text_format("%s maps had ended, and left the library's own table, before "
				 "hetmap trace looked: their faults may have the names of "
				 "other maps",
				 text_count(analysis->forgotten, a)));
	if (analysis->left_out)
		miss(report,
		     text_format("the library's own table had no room for %s maps: their "
				 "faults have no names",
				 text_count(analysis->left_out, a)));
	if (json_is_true(json_object_get(report->about, "unpublished")))
		miss(report, text_format("with HETMAP_PUBLISH=0 the library tells no names of "
					 "buffers"));
	if (about_count(report->about, "tables_lost"))
		miss(report,
		     text_format("%s published tables could not be kept whole: buffers in them "
				 "have no names",
				 text_count(about_count(report->about, "tables_lost"), a)));
	if (analysis->broken_tables)
		miss(report, text_format("%s published tables make no sense, or could not be "
					 "written (ulimit -f, a full disk), and were left out",
					 text_count(analysis->broken_tables, a)));
	if (analysis->totals.unsorted)
		miss(report, text_format("%s of %s records were not in order: some faults may "
					 "have the wrong name",
					 text_count(analysis->totals.unsorted, a),
					 text_count(analysis->totals.records, b)));
}

static void find_changed(struct report *report)
{
	const struct analysis *analysis = &report->analysis;
	const struct site *first = NULL;
	uint32_t i;

	for (i = 0; i < analysis->n_site && !first; i++)
		if (analysis->sites[i]->changed)
			first = analysis->sites[i];
	for (i = 0; i < analysis->n_device_site && !first; i++)
		if (analysis->device_sites[i]->site.changed)
			first = &analysis->device_sites[i]->site;
	if (first) {
		char *shown = text_escape(first->module);

		miss(report, text_format("files of code are not those that were recorded, "
					 "such as %s: their code is shown by its place in the "
					 "file, and not by the functions of another one",
					 shown));
		free(shown);
	}
}

static void find_refused(struct report *report)
{
	const char *name = report->symbols ? symbols_refused(report->symbols) : NULL;
	char bytes[TEXT_MAX], lines[TEXT_MAX];

	if (name)
		miss(report,
		     text_format("/tmp/%s was not read, as it has more than %s or %s lines: "
				 "code that its process made has no names. A shorter run writes "
				 "a smaller file",
				 name, text_bytes(SYMBOLS_MAP_BYTES_MOST, bytes),
				 text_count(SYMBOLS_MAP_LINES_MOST, lines)));
}

void report_find_unnamed(struct report *report)
{
	find_changed(report);
	find_refused(report);
}
