// SPDX-License-Identifier: MIT
/*
 * Fuzzes what reads traces: the input is a recording or, after a first byte that is odd,
 * a published table. What they tell goes where hetmap report puts it.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../tools/hetmap/command.h"
#include "../tools/perf/calls.h"
#include "../tools/perf/devices.h"
#include "../tools/perf/published.h"
#include "../tools/perf/recording.h"
#include "../tools/perf/spaces.h"

/* Of the command, whose texts ask it. */
struct output output;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reading {
	struct spaces *spaces;
	struct calls *calls;
	struct devices *devices;
	uint64_t fault;        /* the last one's address */
	struct object *object; /* and what was there */
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
	if (event->kind <= RECORDED_MAJOR) {
		reading->fault = event->address + sum / UINT64_MAX;
		reading->object = spaces_find(spaces, event->pid, reading->fault, &offset);
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
	struct traced_device *device;
	struct device_use *use;

	if (!reading.calls || !reading.devices)
		abort();
	recording_each(recording, on_event, &reading, &totals);
	devices_sum(reading.devices, &device, &use);
	devices_free(reading.devices);
	calls_free(reading.calls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spaces *spaces = spaces_create();
	struct recording *recording;
	struct published table;
	const char *reason;
	char path[32];
	int fd;

	fd = memfd_create("fuzz", 0);
	if (!spaces || fd < 0)
		abort();
	if (size > 1 && write(fd, data + 1, size - 1) != (ssize_t)(size - 1))
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (size && data[0] & 1) {
		table = (struct published){ .fd = -1 };
		if (!published_open(path, &table)) {
			published_each(&table, on_entry, spaces);
			published_close(&table);
		}
	} else if (!recording_open(path, &recording, &reason)) {
		read_recording(recording, spaces);
		recording_close(recording);
	}
	spaces_free(spaces);
	close(fd);
	return 0;
}
