// SPDX-License-Identifier: MIT
/* Data for the page of "hetmap report --html", from events that a test makes up. */
#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../tools/perf/report/page.h"

static json_t *list(const struct scene *scene, const char *name)
{
	return json_object_get(scene->report, name);
}

/* A failure of this program, not of the tested code: it gives up. */
static json_t *made(json_t *json)
{
	if (!json)
		abort();
	return json;
}

void scene_begin(struct scene *scene, const char *command, double seconds)
{
	memset(scene, 0, sizeof(*scene));
	scene->random = 88172645463325252u;
	scene->report =
		made(json_pack("{s:i, s:s, s:f, s:I, s:{s:s, s:s, s:i, s:i, s:s, s:I},"
			       " s:[], s:[], s:[], s:[], s:[], s:[]}",
			       "version", 1, "command", command, "began", 1700000000.0,
			       "duration_ns", (json_int_t)(seconds * 1e9), "machine", "kernel",
			       "6.1.0-28-amd64", "cpu", "AMD EPYC 7B13", "cpus", 4,
			       "numa_nodes", 1, "thp", "madvise", "memory", (json_int_t)8 << 30,
			       "missing", "threads", "buffers", "sites", "advice", "lanes"));
}

uint16_t scene_thread(struct scene *scene, const char *name)
{
	json_t *threads = list(scene, "threads");
	size_t index = json_array_size(threads);

	json_array_append_new(threads, made(json_pack("{s:i, s:i, s:s}", "pid", 4710, "tid",
						      4710 + (int)index, "name", name)));
	return (uint16_t)index;
}

uint16_t scene_buffer(struct scene *scene, const char *name, const char *kind,
		      const char *device, uint64_t pages, const char *pattern, uint64_t stride)
{
	json_t *buffers = list(scene, "buffers");
	size_t index = json_array_size(buffers);
	char address[32];

	snprintf(address, sizeof(address), "0x%llx",
		 0x7f0000000000ull + ((unsigned long long)index << 33));
	json_array_append_new(
		buffers,
		made(json_pack("{s:s, s:s, s:s, s:i, s:s, s:I, s:i, s:s, s:I, s:i}", "name",
			       name, "kind", kind, "device", device, "pid", 4710, "address",
			       address, "length", (json_int_t)pages * 4096, "offset", 0,
			       "pattern", pattern, "stride", (json_int_t)stride, "page_size",
			       4096)));
	return (uint16_t)index;
}

void scene_event(struct scene *scene, struct scene_event event)
{
	if (scene->n == scene->room) {
		scene->room = scene->room ? 2 * scene->room : 1024;
		scene->events = realloc(scene->events, scene->room * sizeof(scene->events[0]));
		if (!scene->events)
			abort();
	}
	scene->events[scene->n++] = event;
}

void scene_site(struct scene *scene, int buffer, const char *function, const char *file,
		int line, uint64_t faults, uint64_t time_ns)
{
	json_array_append_new(list(scene, "sites"),
			      made(json_pack("{s:i, s:s, s:s, s:i, s:s, s:I, s:I}", "buffer",
					     buffer, "function", function, "file", file, "line",
					     line, "module", "infer", "faults",
					     (json_int_t)faults, "time_ns",
					     (json_int_t)time_ns)));
}

void scene_device_site(struct scene *scene, int buffer, const char *what, const char *place,
		       uint64_t n, uint64_t bytes, const char *by, const char *function)
{
	json_t *sites = list(scene, "device_sites");

	if (!sites) {
		sites = made(json_array());
		json_object_set_new(scene->report, "device_sites", sites);
	}
	json_array_append_new(
		sites,
		made(json_pack(
			"{s:i, s:s, s:s, s:s?, s:I, s:I, s:i, s:i, s:s, s:s, s:s, s:i, s:s}",
			"buffer", buffer, "device", "hetsim0", "what", what, "place", place,
			"n", (json_int_t)n, "bytes", (json_int_t)bytes, "first_ns", 1000000,
			"last_ns", 2000000, "by", by, "function", function, "file",
			*function ? "room.c" : "", "line", *function ? 17 : 0, "module",
			*function ? "infer" : "")));
}

void scene_advice(struct scene *scene, int buffer, const char *text, const char *evidence,
		  uint64_t gain_ns)
{
	json_array_append_new(list(scene, "advice"),
			      made(json_pack("{s:i, s:s, s:s, s:I}", "buffer", buffer, "text",
					     text, "evidence", evidence, "gain_ns",
					     (json_int_t)gain_ns)));
}

void scene_missing(struct scene *scene, const char *sentence)
{
	json_array_append_new(list(scene, "missing"), made(json_string(sentence)));
}

void scene_lane(struct scene *scene, const char *name, json_t *spans)
{
	json_array_append_new(list(scene, "lanes"),
			      made(json_pack("{s:s, s:o}", "name", name, "spans", spans)));
}

uint32_t scene_random(struct scene *scene, uint32_t below)
{
	scene->random ^= scene->random << 13;
	scene->random ^= scene->random >> 7;
	scene->random ^= scene->random << 17;
	return (uint32_t)(scene->random >> 32) % below;
}

/* ---- the sums ---- */

struct sums {
	uint64_t minor, major, time_ns, first_us, last_us;
};

static void add(struct sums *sums, const struct scene_event *event)
{
	if (!sums->minor && !sums->major)
		sums->first_us = event->time_us;
	sums->last_us = event->time_us;
	sums->minor += !(event->kind & PAGE_MAJOR);
	sums->major += event->kind & PAGE_MAJOR;
	sums->time_ns += event->cost_ns;
}

static json_t *timed(const struct scene *scene, uint64_t n)
{
	return made(scene->untimed ? json_null() : json_integer((json_int_t)n));
}

static void sum_up(const struct scene *scene)
{
	json_t *buffers = list(scene, "buffers");
	size_t n_buffer = json_array_size(buffers), i;
	struct sums total = { 0 };
	struct sums *of = calloc(n_buffer + 1, sizeof(*of));

	if (!of)
		abort();
	for (i = 0; i < scene->n; i++) {
		size_t b = scene->events[i].buffer;

		add(&of[b < n_buffer ? b : n_buffer], &scene->events[i]);
		add(&total, &scene->events[i]);
	}
	for (i = 0; i < n_buffer; i++)
		json_object_update_new(
			json_array_get(buffers, i),
			made(json_pack("{s:I, s:o, s:o, s:o, s:I, s:I}", "faults",
				       (json_int_t)(of[i].minor + of[i].major), "minor",
				       timed(scene, of[i].minor), "major",
				       timed(scene, of[i].major), "time_ns",
				       timed(scene, of[i].time_ns), "first_ns",
				       (json_int_t)of[i].first_us * 1000, "last_ns",
				       (json_int_t)of[i].last_us * 1000)));
	json_object_set_new(
		scene->report, "totals",
		made(json_pack("{s:I, s:o, s:o, s:i, s:I, s:o}", "faults",
			       (json_int_t)(total.minor + total.major), "minor",
			       timed(scene, total.minor), "major", timed(scene, total.major),
			       "lost", 0, "unattributed",
			       (json_int_t)(of[n_buffer].minor + of[n_buffer].major), "time_ns",
			       timed(scene, total.time_ns))));
	free(of);
}

/* ---- latencies: steps of a quarter of a power of two ---- */

static int by_cost(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static json_t *latency(const struct scene *scene, uint8_t major)
{
	uint32_t *costs = malloc((scene->n + 1) * sizeof(*costs));
	json_t *counts = made(json_array());
	size_t n = 0, i, at;
	double upper = 100;
	json_t *latency;

	if (!costs)
		abort();
	for (i = 0; i < scene->n; i++)
		if ((scene->events[i].kind & PAGE_MAJOR) == major && scene->events[i].cost_ns)
			costs[n++] = scene->events[i].cost_ns;
	qsort(costs, n, sizeof(*costs), by_cost);
	for (i = 0; i < n; upper *= 1.189207115) {
		for (at = i; i < n && costs[i] <= upper; i++)
			;
		json_array_append_new(counts, made(json_pack("[I, I]", (json_int_t)upper,
							     (json_int_t)(i - at))));
	}
	latency = made(json_pack(
		"{s:I, s:I, s:o}", "p50_ns", (json_int_t)(n ? costs[(n - 1) / 2] : 0), "p99_ns",
		(json_int_t)(n ? costs[(n - 1) * 99 / 100] : 0), "counts", counts));
	free(costs);
	return latency;
}

/* ---- the end ---- */

static int by_time(const void *a, const void *b)
{
	const struct scene_event *x = a, *y = b;

	return x->time_us < y->time_us ? -1 : x->time_us > y->time_us;
}

static json_t *packed(const struct scene *scene)
{
	struct page_event *events = calloc(scene->n + 1, sizeof(*events));
	json_t *text;
	size_t i;

	if (!events)
		abort();
	for (i = 0; i < scene->n; i++)
		events[i] = (struct page_event){ .time = scene->events[i].time_us,
						 .page = scene->events[i].page,
						 .cost_ns = scene->events[i].cost_ns,
						 .buffer = scene->events[i].buffer,
						 .thread = scene->events[i].thread,
						 .cpu = scene->events[i].cpu,
						 .kind = scene->events[i].kind };
	if (page_events(events, scene->n, false, &text))
		abort();
	free(events);
	return text;
}

int scene_end(struct scene *scene, uint64_t of)
{
	json_t *events = made(json_pack("{s:I, s:I, s:i}", "n", (json_int_t)scene->n, "of",
					(json_int_t)(of ? of : scene->n), "time_unit_us", 1));
	int r;

	if (scene->n)
		qsort(scene->events, scene->n, sizeof(scene->events[0]), by_time);
	sum_up(scene);
	json_object_set_new(scene->report, "latency",
			    made(json_pack("{s:o, s:o}", "minor", latency(scene, 0), "major",
					   latency(scene, PAGE_MAJOR))));
	json_object_set_new(events, "packed", packed(scene));
	json_object_set_new(scene->report, "events", events);
	r = page_write(stdout, scene->report);
	json_decref(scene->report);
	free(scene->events);
	return r;
}
