// SPDX-License-Identifier: MIT
/* A report as JSON, for the page and for scripts. page.h has its form. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "page.h"
#include "report.h"

/* No buffer: where there are more than a column's numbers reach. */
#define NO_BUFFER UINT16_MAX

static const char *const patterns[] = {
	[PATTERN_FEW] = "few",
	[PATTERN_SEQUENTIAL] = "sequential",
	[PATTERN_STRIDED] = "strided",
	[PATTERN_RANDOM] = "random",
};

const char *report_pattern(enum pattern pattern)
{
	return patterns[pattern];
}

static json_t *text_of(const char *text)
{
	char *shown = text ? text_escape_json(text) : NULL;
	json_t *value = shown ? json_string(shown) : json_string("");

	free(shown);
	return value;
}

static uint64_t since(const struct analysis *analysis, uint64_t time)
{
	return time > analysis->begin_ns ? time - analysis->begin_ns : 0;
}

static json_t *known_or_null(const struct analysis *analysis, uint64_t n)
{
	return analysis->has_access ? json_integer((json_int_t)n) : json_null();
}

/* Which faults read storage, and how long they took, is told together or not at all. */
static json_t *timed_or_null(const struct analysis *analysis, uint64_t n)
{
	return analysis->has_latency ? json_integer((json_int_t)n) : json_null();
}

static json_t *calls_json(const struct object *object)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "madvise",
			 (json_int_t)object->calls[OBJECT_MADVISE], "mprotect",
			 (json_int_t)object->calls[OBJECT_MPROTECT], "mremap",
			 (json_int_t)object->calls[OBJECT_MREMAP], "munmap",
			 (json_int_t)object->calls[OBJECT_MUNMAP]);
}

/* The backend of a library's buffer, by the device's name up to its colon: "sim" of "sim:0". */
static json_t *backend_of(const struct object *object)
{
	const char *device = object->device;
	char *backend;
	json_t *value;

	if (!device || !*device)
		return json_null();
	backend = strndup(device, strcspn(device, ":"));
	value = backend ? text_of(backend) : json_null();
	free(backend);
	return value;
}

/* Samples have none. */
static const char *pattern_of(const struct analysis *analysis, const struct counted *counted)
{
	return analysis->share == RECORDED_EACH ? patterns[counted->pattern] : "";
}

static json_t *buffer_json(const struct analysis *analysis, const struct counted *counted)
{
	const struct object *object = counted->object;
	char address[24];
	json_t *value;

	snprintf(address, sizeof(address), "0x%" PRIx64, object->address);
	value = json_pack("{s:o, s:s, s:o, s:o, s:i, s:s, s:I, s:i}", "name",
			  text_of(object->name), "kind", object_kind_name(object->kind),
			  "backend", backend_of(object), "device", text_of(object->device),
			  "pid", (int)object->pid, "address", address, "length",
			  (json_int_t)object->length, "offset", 0);
	json_object_update_new(
		value, json_pack("{s:I, s:o, s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I}",
				 "faults", (json_int_t)(counted->minor + counted->major),
				 "minor", timed_or_null(analysis, counted->minor), "major",
				 timed_or_null(analysis, counted->major), "time_ns",
				 timed_or_null(analysis, counted->minor_ns + counted->major_ns),
				 "pattern", pattern_of(analysis, counted), "stride",
				 (json_int_t)counted->stride * 4096, "page_size",
				 (json_int_t)object->page_size, "first_ns",
				 (json_int_t)since(analysis, counted->first_ns), "last_ns",
				 (json_int_t)since(analysis, counted->last_ns), "unfinished",
				 (json_int_t)counted->unfinished, "in_kernel",
				 (json_int_t)counted->in_kernel));
	json_object_set_new(value, "taken", json_integer((json_int_t)counted->taken));
	/* Of none it is known: null, of some: the numbers of those. */
	json_object_set_new(value, "reads", known_or_null(analysis, counted->reads));
	json_object_set_new(value, "writes", known_or_null(analysis, counted->writes));
	if (counted->by_nodes)
		json_object_set_new(value, "nodes", report_nodes_json(analysis, counted));
	if (analysis->has_calls)
		json_object_set_new(value, "calls", calls_json(object));
	if (counted->use)
		json_object_set_new(value, "on_device",
				    report_use_json(analysis, counted->use));
	return value;
}

/* Of each object its place in the list of buffers. */
static uint32_t *places(const struct analysis *analysis)
{
	uint32_t n, i, *place;

	spaces_objects(analysis->spaces, &n);
	place = malloc((n + 1) * sizeof(*place));
	if (!place)
		return NULL;
	for (i = 0; i <= n; i++)
		place[i] = UINT32_MAX;
	for (i = 0; i < analysis->n_counted; i++)
		place[analysis->counted[i]->object->index] = i;
	return place;
}

void report_site_json(json_t *value, const struct site *site)
{
	json_object_update_new(value,
			       json_pack("{s:o, s:o, s:i, s:o}", "function",
					 text_of(site->function), "file", text_of(site->file),
					 "line", site->line, "module", text_of(site->module)));
	if (site->changed)
		json_object_set_new(value, "changed_at",
				    json_integer((json_int_t)(site->named->offset)));
}

#define SITES_MOST 1000

static json_t *sites_json(const struct analysis *analysis, const uint32_t *place, uint32_t most)
{
	json_t *sites = json_array();
	uint32_t i;

	for (i = 0; i < analysis->n_site && i < most; i++) {
		const struct site *site = analysis->sites[i];

		json_t *value = json_pack("{s:I, s:I, s:o}", "buffer",
					  (json_int_t)place[site->of->object->index], "faults",
					  (json_int_t)site->faults, "time_ns",
					  timed_or_null(analysis, site->time_ns));

		report_site_json(value, site);
		json_array_append_new(sites, value);
	}
	return sites;
}

json_t *report_latency_json(const struct latency *latency)
{
	json_t *counts = json_array();
	uint32_t i;

	for (i = 0; i < LATENCY_CLASSES; i++)
		if (latency->count[i])
			json_array_append_new(counts,
					      json_pack("[I, I]", (json_int_t)latency_end(i),
							(json_int_t)latency->count[i]));
	return json_pack("{s:I, s:I, s:o}", "p50_ns", (json_int_t)latency_at(latency, 0.5),
			 "p99_ns", (json_int_t)latency_at(latency, 0.99), "counts", counts);
}

static json_t *threads_json(const struct analysis *analysis)
{
	json_t *threads = json_array();
	uint32_t i;

	for (i = 0; i < analysis->n_thread; i++)
		json_array_append_new(
			threads,
			json_pack("{s:i, s:i, s:o}", "pid", (int)analysis->threads[i].pid,
				  "tid", (int)analysis->threads[i].tid, "name",
				  text_of(spaces_thread_name(analysis->spaces,
							     analysis->threads[i].tid))));
	return threads;
}

static json_t *advice_json(const struct report *report, const uint32_t *place)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < report->n_advice; i++) {
		const struct advice *advice = &report->advice[i];
		char *text = text_format("%s: %s", advice->of->name, advice->text);
		uint32_t at = place[advice->of->index];

		json_array_append_new(
			list,
			json_pack("{s:I, s:o, s:s, s:o, s:b}", "buffer",
				  at == UINT32_MAX ? (json_int_t)-1 : (json_int_t)at, "text",
				  text_of(text), "evidence", advice->evidence, "gain_ns",
				  advice->gain_ns >= 0 ?
					  json_integer((json_int_t)advice->gain_ns) :
					  json_null(),
				  "at_most", advice->at_most));
		free(text);
	}
	return list;
}

static json_t *totals_json(const struct report *report)
{
	const struct analysis *analysis = &report->analysis;
	uint64_t minor = 0, major = 0, unattributed = 0, time = 0;
	uint32_t i;

	for (i = 0; i < analysis->n_counted; i++) {
		const struct counted *counted = analysis->counted[i];

		minor += counted->minor;
		major += counted->major;
		time += counted->minor_ns + counted->major_ns;
		if (counted->object->kind == OBJECT_UNKNOWN)
			unattributed += counted->minor + counted->major;
	}
	return json_pack("{s:I, s:o, s:o, s:I, s:I, s:o}", "faults",
			 (json_int_t)analysis->faults, "minor", timed_or_null(analysis, minor),
			 "major", timed_or_null(analysis, major), "lost",
			 (json_int_t)analysis->lost, "unattributed", (json_int_t)unattributed,
			 "time_ns", timed_or_null(analysis, time));
}

/* ---- events ---- */

/* A page is below 2 MB: of a trace with more it has as many events as fit, evenly spaced. */
#define EVENTS_LETTERS_MOST 1700000
/* Costs of more events have 6 binary digits: their sums are as good, and half as long. */
#define EVENTS_EXACT 65536
#define COST_DIGITS 6

static uint32_t rounded(uint32_t cost)
{
	int low = cost ? 32 - __builtin_clz(cost) - COST_DIGITS : 0;
	uint32_t half = low > 0 ? UINT32_C(1) << (low - 1) : 0;

	return low > 0 && cost <= UINT32_MAX - half ? (cost + half) >> low << low : cost;
}

static struct page_event event_of(const struct analysis *analysis, const struct event_row *row,
				  const uint32_t *place, uint64_t unit)
{
	return (struct page_event){
		.time = (uint32_t)(since(analysis, row->time_ns) / unit),
		.page = row->page < UINT32_MAX ? (uint32_t)row->page : UINT32_MAX,
		.cost_ns = analysis->n_row > EVENTS_EXACT ? rounded(row->cost_ns) :
							    row->cost_ns,
		.buffer = place[row->object] < NO_BUFFER ? (uint16_t)place[row->object] :
							   NO_BUFFER,
		.thread = row->thread < UINT16_MAX ? (uint16_t)row->thread : UINT16_MAX,
		.cpu = row->cpu < UINT8_MAX ? (uint8_t)row->cpu : UINT8_MAX,
		.node = row->node < UINT8_MAX ? (uint8_t)row->node : UINT8_MAX,
		.kind = (uint8_t)((row->major ? PAGE_MAJOR : 0) |
				  (row->in_kernel ? PAGE_KERNEL : 0) |
				  (row->access_known ? PAGE_ACCESS_KNOWN : 0) |
				  (row->write ? PAGE_WRITE : 0)),
	};
}

/* Leaves as many of @n events, which take @letters, as should fit; returns their number. */
static uint32_t thinned(struct page_event *events, uint32_t n, size_t letters)
{
	uint32_t fewer = (uint32_t)((double)n * EVENTS_LETTERS_MOST / (double)letters * 0.95);
	uint32_t i;

	for (i = 0; i < fewer; i++)
		events[i] = events[(uint64_t)i * n / fewer];
	return fewer;
}

static json_t *events_json(const struct analysis *analysis, const uint32_t *place)
{
	uint32_t n = analysis->n_row, i;
	struct page_event *events = malloc((n + 1) * sizeof(*events));
	/* Of 71 minutes and more the microseconds have no room. */
	uint64_t unit = 1000 * (since(analysis, analysis->end_ns) / 1000 / UINT32_MAX + 1);
	bool nodes = analysis->nodes.n > 1;
	json_t *packed = NULL;
	int r;

	if (!events)
		return NULL;
	for (i = 0; i < n; i++)
		events[i] = event_of(analysis, &analysis->rows[i], place, unit);
	while (!(r = page_events(events, n, nodes, &packed)) &&
	       json_string_length(packed) > EVENTS_LETTERS_MOST) {
		n = thinned(events, n, json_string_length(packed));
		json_decref(packed);
	}
	free(events);
	if (r)
		return NULL;
	return json_pack(
		"{s:I, s:I, s:I, s:b, s:o}", "n", (json_int_t)n, "of",
		(json_int_t)(analysis->each > 1 || n < analysis->n_row ? analysis->samples : n),
		"time_unit_us", (json_int_t)(unit / 1000), "nodes", nodes, "packed", packed);
}

json_t *report_json(const struct report *report, bool with_events)
{
	const struct analysis *analysis = &report->analysis;
	json_t *machine = json_object_get(report->about, "machine"), *began;
	json_t *object, *buffers = json_array(), *missing = json_array(), *events;
	const char *unknown = advice_unknown(report);
	uint32_t *place = places(analysis), i;

	if (!place)
		return NULL;
	for (i = 0; i < analysis->n_counted; i++)
		json_array_append_new(buffers, buffer_json(analysis, analysis->counted[i]));
	for (i = 0; i < report->n_missing; i++)
		json_array_append_new(missing, text_of(report->missing[i]));
	began = json_object_get(report->about, "began");
	object = json_pack("{s:i, s:o, s:f, s:I, s:O, s:o, s:o, s:o}", "version", 1, "command",
			   text_of(report->command), "began",
			   began ? json_number_value(began) : 0.0, "duration_ns",
			   (json_int_t)report->duration_ns, "machine",
			   machine ? machine : json_null(), "totals", totals_json(report),
			   "missing", missing, "threads", threads_json(analysis));
	json_object_set_new(object, "sampled",
			    analysis->share == RECORDED_UNTOLD ?
				    json_null() :
				    json_boolean(analysis->share == RECORDED_SAMPLES));
	json_object_set_new(object, "buffers", buffers);
	json_object_set_new(object, "sites", sites_json(analysis, place, SITES_MOST));
	json_object_set_new(object, "latency",
			    json_pack("{s:o, s:o}", "minor",
				      report_latency_json(&analysis->minor), "major",
				      report_latency_json(&analysis->major)));
	json_object_set_new(object, "advice", advice_json(report, place));
	json_object_set_new(object, "advice_unknown",
			    unknown ? json_string(unknown) : json_null());
	json_object_set_new(object, "devices", report_devices_json(analysis));
	json_object_set_new(object, "device_sites",
			    report_device_sites_json(analysis, place, SITES_MOST));
	json_object_set_new(object, "ranges", report_ranges_json(report, place));
	json_object_set_new(object, "lanes", report_lanes_json(analysis));
	if (with_events) {
		events = events_json(analysis, place);
		if (!events) {
			json_decref(object);
			object = NULL;
		} else {
			json_object_set_new(object, "events", events);
		}
	}
	free(place);
	return object;
}
