/* SPDX-License-Identifier: MIT */
/* The work of simulated devices while a program was traced, by hetsim's tracepoints. */
#ifndef HETMAP_DEVICES_H
#define HETMAP_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "latency.h"
#include "recording.h"
#include "spaces.h"

/* Of a buffer, or of all of them that the traced processes had on a device. */
struct device_use {
	uint64_t faults, accesses; /* accesses that were sampled */
	uint64_t moves;            /* by command, or not known why */
	uint64_t evictions;
	uint64_t bytes_moved;  /* evictions, too */
	struct object *object; /* of a buffer; NULL else */
	struct device_use *next;
};

enum span_kind {
	SPAN_JOB,
	SPAN_MOVE,
	SPAN_EVICTION,
	SPAN_LOSS,
};

/* One thing that a device did, or, of so many that they are merged, @n of them. */
struct device_span {
	uint64_t begin, end;
	enum span_kind kind;
	uint32_t n;
	uint64_t seqno; /* of a job */
	int status;
	uint64_t pages; /* of a move */
	uint32_t place;
	const struct object *object;    /* of a move; NULL: not known */
	const struct device_site *site; /* and where it was asked for; NULL likewise */
};

/* In order of their begin. */
struct device_lane {
	char name[48];
	struct device_span *span;
	uint32_t n, room;
	struct device_lane *next; /* of the device's */
	struct device_lane *own;  /* of who frees it */
};

struct traced_device {
	uint32_t index;
	char name[24];
	struct device_use use;
	uint64_t submitted, completed, failed, fences, losses;
	struct latency jobs; /* from submission to completion */
	struct device_lane *lanes;
	struct traced_device *next;
};

struct device_site;
struct devices;

struct devices *devices_create(struct spaces *spaces); /* NULL: no memory */
void devices_free(struct devices *devices);

/* A mapping: which buffer is where. 0 or -ENOMEM. */
int devices_map(struct devices *devices, const struct recorded_event *event);

/*
 * A tracepoint of theirs. @fault: the address whose page fault its thread is in, 0: none;
 * @object: the memory there. 0 or -ENOMEM.
 */
int devices_point(struct devices *devices, const struct recorded_event *event, uint64_t fault,
		  struct object *object);

/* The traced processes' devices, and their buffers; once all was told. 0 or -ENOMEM. */
int devices_sum(struct devices *devices, struct traced_device **ret_devices,
		struct device_use **ret_buffers);

/* Where in the code it was asked for: the first of a list, see device_sites.h. */
struct device_site *devices_sites(const struct devices *devices);

/* Were moves told with their cause? */
bool devices_tell_evictions(const struct devices *devices);

#endif
