// SPDX-License-Identifier: MIT
/*
 * Fuzzes the readers of traces: the input's first byte says how the rest is read, as a recording, a
 * published table, the output of perf script, the NUMA nodes of about.json, or a table in a trace's
 * folder. The results go where hetmap report puts them.
 */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../tools/perf/read/analysis.h"
#include "../../tools/perf/read/calls.h"
#include "../../tools/perf/read/nodes.h"
#include "../../tools/perf/read/published.h"
#include "../../tools/perf/read/recording.h"
#include "../../tools/perf/read/spaces.h"
#include "../../tools/perf/read/traced_devices.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reading {
	struct spaces *spaces;
	struct calls *calls;
	struct devices *devices;
	uint64_t fault;        /* the last one's address */
	struct object *object; /* and the object at it */
};

static int on_point(struct reading *reading, const struct recorded_event *event)
{
	if (points_known[event->point].group == POINTS_CALLS)
		return calls_event(reading->calls, event);
	if (points_known[event->point].group == POINTS_DEVICE)
		return devices_point(reading->devices, event, reading->fault, reading->object);
	return 0;
}

static int on_event(void *user, const struct recorded_event *event)
{
	struct reading *reading = user;
	struct spaces *spaces = reading->spaces;
	uint64_t offset, sum = 0;
	uint32_t i;

	for (i = 0; i < event->n_chain; i++)
		sum += event->chain[i];
	/* Those of a text have names in place of addresses. */
	if (event->function)
		spaces_string(spaces, event->function);
	if (event->module)
		spaces_string(spaces, event->module);
	if (event->kind <= RECORDED_MAJOR) {
		reading->fault = event->address + sum / UINT64_MAX;
		reading->object = spaces_fault(spaces, event->pid, reading->fault, &offset);
	} else if (event->kind == RECORDED_POINT) {
		on_point(reading, event);
	} else if (event->kind == RECORDED_MAP) {
		devices_map(reading->devices, event);
		calls_event(reading->calls, event);
	} else {
		spaces_event(spaces, event);
	}
	spaces_code(spaces, event->pid, event->ip, &offset);
	return 0;
}

static int on_entry(void *user, const struct hm_published_entry *entry)
{
	struct spaces *spaces = user;
	uint64_t offset;

	spaces_begin(spaces, 1, entry);
	spaces_find(spaces, 1, entry->address, &offset);
	if (entry->end_ns)
		spaces_end(spaces, 1, entry);
	return 0;
}

static void read_recording(struct recording *recording, struct spaces *spaces)
{
	struct reading reading = { .spaces = spaces,
				   .calls = calls_create(spaces),
				   .devices = devices_create(spaces) };
	struct recording_totals totals;
	const char *reason;
	struct traced_device *device;
	struct device_use *use;

	if (!reading.calls || !reading.devices)
		abort();
	recording_each(recording, on_event, &reading, &totals, &reason);
	devices_sum(reading.devices, &device, &use);
	devices_free(reading.devices);
	calls_free(reading.calls);
}

/* ---- kinds of inputs ---- */

static void try_recording(const char *path, struct spaces *spaces)
{
	struct recording *recording;
	const char *reason;

	if (recording_open(path, &recording, &reason))
		return;
	read_recording(recording, spaces);
	recording_close(recording);
}

static void try_text(const char *path, struct spaces *spaces)
{
	struct recording *recording;
	const char *reason;

	if (recording_open_text(path, &recording, &reason))
		return;
	read_recording(recording, spaces);
	recording_close(recording);
}

static void try_table(const char *path, struct spaces *spaces)
{
	struct published published = { .fd = -1 };

	if (published_open(path, &published))
		return;
	published_each(&published, on_entry, spaces);
	published_close(&published);
}

/* As hetmap report takes it out of about.json, and asks it of any CPU and address. */
static void try_nodes(const char *path, struct spaces *spaces)
{
	json_t *about = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	struct nodes nodes;
	uint32_t i;

	(void)spaces;
	if (!nodes_load(json_object_get(about, "nodes"), &nodes)) {
		for (i = 0; i < 64; i++) {
			nodes_of_cpu(&nodes, i);
			nodes_of_memory(&nodes, UINT64_C(1) << i);
		}
		nodes_of_cpu(&nodes, UINT32_MAX);
		nodes_of_memory(&nodes, UINT64_MAX);
		nodes_free(&nodes);
	}
	json_decref(about);
}

/* A folder whose one table is the input. It is made once. */
static char folder[] = "/tmp/hetmap-fuzz-XXXXXX";
static char maps[64], table[80];

static void remove_folder(void)
{
	unlink(table);
	rmdir(maps);
	rmdir(folder);
}

static const char *folder_of(const char *path)
{
	if (!maps[0]) {
		if (!mkdtemp(folder))
			abort();
		snprintf(maps, sizeof(maps), "%s/maps", folder);
		snprintf(table, sizeof(table), "%s/maps.1", maps);
		if (mkdir(maps, 0700) || atexit(remove_folder))
			abort();
	}
	unlink(table);
	if (symlink(path, table))
		abort();
	return folder;
}

static void try_folder(const char *path, struct spaces *spaces)
{
	struct tables tables;
	uint64_t i, n;

	if (tables_read(folder_of(path), &tables))
		return;
	for (i = 1; i < tables.n_event; i++)
		if (tables.events[i].time < tables.events[i - 1].time)
			abort();
	if (tables_catch_up(&tables, spaces, UINT64_MAX) ||
	    tables.next_range != tables.n_range || tables.next_event != tables.n_event)
		abort();
	n = ranges_join(tables.ranges, tables.n_range);
	free(ranges_rows(tables.ranges, n, &i));
	free(tables.events);
	free(tables.ranges);
}

static void (*const kinds[])(const char *path, struct spaces *spaces) = {
	try_recording, try_table, try_text, try_nodes, try_folder,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spaces *spaces = spaces_create();
	char path[32];
	int fd;

	fd = memfd_create("fuzz", 0);
	if (!spaces || fd < 0)
		abort();
	if (size > 1 && write(fd, data + 1, size - 1) != (ssize_t)(size - 1))
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	kinds[(size ? data[0] : 0) % (sizeof(kinds) / sizeof(kinds[0]))](path, spaces);
	spaces_free(spaces);
	close(fd);
	return 0;
}
