// SPDX-License-Identifier: MIT
/* Simulated devices in a report: a table, JSON, and lanes of the page. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "perf/read/device_sites.h"
#include "report.h"

#define NAME_WIDTH 28
#define SITE_NAME_WIDTH 20

static const char *place_name(uint32_t place)
{
	static const char *const names[] = { "VRAM", "system memory", "the window" };

	return place < sizeof(names) / sizeof(names[0]) ? names[place] : "elsewhere";
}

/* ---- text ---- */

static const char *evictions_of(const struct analysis *analysis, const struct device_use *use,
				char text[TEXT_MAX])
{
	return devices_tell_evictions(analysis->devices) || !(use->moves + use->evictions) ?
		       text_count(use->evictions, text) :
		       "unknown";
}

static void print_use(const struct analysis *analysis, const char *name,
		      const struct device_use *use)
{
	char faults[TEXT_MAX], accesses[TEXT_MAX], moves[TEXT_MAX], evictions[TEXT_MAX];
	char moved[TEXT_MAX];

	printf("%-*s %9s %9s %9s %10s %10s\n", NAME_WIDTH, name,
	       text_count(use->faults, faults), text_count(use->accesses, accesses),
	       text_count(use->moves, moves), evictions_of(analysis, use, evictions),
	       text_bytes(use->bytes_moved, moved));
}

static void print_jobs(const struct traced_device *device)
{
	char jobs[TEXT_MAX], half[TEXT_MAX], most[TEXT_MAX], count[TEXT_MAX];

	if (device->completed || device->submitted)
		printf("  %s jobs completed of %s", text_count(device->completed, jobs),
		       text_count(device->submitted, count));
	if (device->jobs.n)
		printf(": half within %s of their submission, 99 %% within %s",
		       text_seconds((double)latency_at(&device->jobs, 0.5) / 1e9, half),
		       text_seconds((double)latency_at(&device->jobs, 0.99) / 1e9, most));
	if (device->completed || device->submitted)
		printf("; %s failed\n", text_count(device->failed, count));
	if (device->losses)
		printf("  lost %s times\n", text_count(device->losses, count));
}

/* The device's work in words: free() it. */
static char *work_text(const struct device_site *site)
{
	switch (site->work) {
	case WORK_FAULT:
		return text_format("faults");
	case WORK_ACCESS:
		return text_format("accesses");
	default:
		return text_format("%s to %s", site->work == WORK_MOVE ? "moved" : "evicted",
				   place_name(site->place));
	}
}

/* Of code the function and line: free() it. */
static char *asker_text(const struct device_site *site)
{
	static const char *const askers[] = {
		[ASKER_ENGINE] = "the device's engine",
		[ASKER_OTHER] = "a process that was not traced",
		[ASKER_UNKNOWN] = "unknown",
	};

	return site->asker == ASKER_CODE ? report_site(&site->site) :
					   text_format("%s", askers[site->asker]);
}

static void print_sites(const struct report *report)
{
	const struct analysis *analysis = &report->analysis;
	char n[TEXT_MAX], moved[TEXT_MAX], more[TEXT_MAX];
	uint64_t others = 0, bytes = 0;
	uint32_t i;

	if (!analysis->n_device_site)
		return;
	printf("\n%-*s %-24s %9s %9s  %s\n", SITE_NAME_WIDTH, "Done on a device", "what",
	       "times", "moved", "asked for by");
	for (i = 0; i < analysis->n_device_site; i++) {
		const struct device_site *site = analysis->device_sites[i];
		char *name, *work, *asker;

		if (i >= report->rows) {
			others += site->n;
			bytes += site->bytes;
			continue;
		}
		name = report_name(site->object->name, SITE_NAME_WIDTH);
		work = work_text(site);
		asker = asker_text(site);
		printf("%-*s %-24s %9s %9s  %s\n", SITE_NAME_WIDTH, name, work,
		       text_count(site->n, n),
		       site->bytes ? text_bytes(site->bytes, moved) : "-", asker);
		free(asker);
		free(work);
		free(name);
	}
	if (analysis->n_device_site > report->rows)
		printf("... and %s more: %s times, %s moved (--rows)\n",
		       text_count(analysis->n_device_site - report->rows, more),
		       text_count(others, n), text_bytes(bytes, moved));
}

void report_devices_text(const struct report *report)
{
	const struct analysis *analysis = &report->analysis;
	const struct traced_device *device;
	uint32_t i, n;

	for (device = analysis->device; device; device = device->next) {
		printf("\n%-*s %9s %9s %9s %10s %10s\n", NAME_WIDTH, "Device", "faults",
		       "accesses", "moves", "evictions", "moved");
		print_use(analysis, device->name, &device->use);
		print_jobs(device);
	}
	for (i = n = 0; i < analysis->n_counted && n < report->rows; i++) {
		const struct counted *counted = analysis->counted[i];
		char *name;

		if (!counted->use)
			continue;
		if (!n++)
			printf("\n%-*s %9s %9s %9s %10s %10s\n", NAME_WIDTH,
			       "Buffer on a device", "faults", "accesses", "moves", "evictions",
			       "moved");
		name = report_name(counted->object->name, NAME_WIDTH);
		print_use(analysis, name, counted->use);
		free(name);
	}
	print_sites(report);
}

/* ---- JSON ---- */

static uint64_t since(const struct analysis *analysis, uint64_t time)
{
	return time > analysis->begin_ns ? time - analysis->begin_ns : 0;
}

json_t *report_use_json(const struct analysis *analysis, const struct device_use *use)
{
	bool told = devices_tell_evictions(analysis->devices) || !(use->moves + use->evictions);

	return json_pack("{s:I, s:I, s:I, s:o, s:I}", "faults", (json_int_t)use->faults,
			 "accesses", (json_int_t)use->accesses, "moves", (json_int_t)use->moves,
			 "evictions",
			 told ? json_integer((json_int_t)use->evictions) : json_null(),
			 "bytes_moved", (json_int_t)use->bytes_moved);
}

json_t *report_devices_json(const struct analysis *analysis)
{
	const struct traced_device *device;
	json_t *list = json_array(), *value;

	for (device = analysis->device; device; device = device->next) {
		value = report_use_json(analysis, &device->use);
		json_object_update_new(value,
				       json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o}",
						 "name", device->name, "backend", "sim",
						 "submitted", (json_int_t)device->submitted,
						 "completed", (json_int_t)device->completed,
						 "failed", (json_int_t)device->failed, "fences",
						 (json_int_t)device->fences, "losses",
						 (json_int_t)device->losses, "job",
						 report_latency_json(&device->jobs)));
		json_array_append_new(list, value);
	}
	return list;
}

static json_t *place_json(const struct device_site *site)
{
	static const char *const names[] = { "vram", "system", "window" };

	if (site->work < WORK_MOVE || site->place >= sizeof(names) / sizeof(names[0]))
		return json_null();
	return json_string(names[site->place]);
}

json_t *report_device_sites_json(const struct analysis *analysis, const uint32_t *place,
				 uint32_t most)
{
	static const char *const works[] = {
		[WORK_FAULT] = "fault",
		[WORK_ACCESS] = "access",
		[WORK_MOVE] = "move",
		[WORK_EVICTION] = "eviction",
	};
	static const char *const askers[] = {
		[ASKER_CODE] = "code",
		[ASKER_ENGINE] = "engine",
		[ASKER_OTHER] = "other",
		[ASKER_UNKNOWN] = "unknown",
	};
	json_t *list = json_array(), *value;
	uint32_t i;

	for (i = 0; i < analysis->n_device_site && i < most; i++) {
		const struct device_site *site = analysis->device_sites[i];
		char name[24];

		snprintf(name, sizeof(name), "hetsim%" PRIu32, site->device);
		value = json_pack("{s:I, s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:s}", "buffer",
				  (json_int_t)place[site->object->index], "device", name,
				  "what", works[site->work], "place", place_json(site), "n",
				  (json_int_t)site->n, "bytes", (json_int_t)site->bytes,
				  "first_ns", (json_int_t)since(analysis, site->first_ns),
				  "last_ns", (json_int_t)since(analysis, site->last_ns), "by",
				  askers[site->asker]);
		report_site_json(value, &site->site);
		json_array_append_new(list, value);
	}
	return list;
}

/* ---- lanes ---- */

static char *add_asker(char *label, const struct device_site *site)
{
	char *asker = asker_text(site);
	char *text = text_format("%s, asked for by %s", label, asker);

	free(asker);
	free(label);
	return text;
}

static char *label_of(const struct device_span *span)
{
	char size[TEXT_MAX], n[TEXT_MAX], *name, *label;

	text_bytes(span->pages * 4096, size);
	text_count(span->n, n);
	switch (span->kind) {
	case SPAN_JOB:
		if (span->n > 1)
			return text_format("%s jobs%s%s", n, span->status ? ", one: " : "",
					   span->status ? strerror(-span->status) : "");
		return text_format("job %llu%s%s", (unsigned long long)span->seqno,
				   span->status ? ": " : "",
				   span->status ? strerror(-span->status) : "");
	case SPAN_LOSS:
		return text_format("lost");
	default:
		name = span->object ? text_escape_json(span->object->name) :
				      text_format("buffers");
		if (span->n > 1)
			label = text_format("%s: %s moves of %s in all", name, n, size);
		else
			label = text_format("%s: %s %s %s", name, size,
					    span->kind == SPAN_EVICTION ? "evicted to" :
									  "moved to",
					    place_name(span->place));
		free(name);
		return span->site ? add_asker(label, span->site) : label;
	}
}

json_t *report_lanes_json(const struct analysis *analysis)
{
	const struct traced_device *device;
	const struct device_lane *lane;
	json_t *lanes = json_array(), *spans;
	uint32_t i;

	for (device = analysis->device; device; device = device->next) {
		for (lane = device->lanes; lane; lane = lane->next) {
			spans = json_array();
			for (i = 0; i < lane->n; i++) {
				char *label = label_of(&lane->span[i]);
				json_t *span = json_pack(
					"[I, I, s]",
					(json_int_t)since(analysis, lane->span[i].begin),
					(json_int_t)since(analysis, lane->span[i].end), label);

				free(label);
				json_array_append_new(spans, span);
			}
			json_array_append_new(lanes, json_pack("{s:s, s:o}", "name", lane->name,
							       "spans", spans));
		}
	}
	return lanes;
}
