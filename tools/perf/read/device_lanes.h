/* SPDX-License-Identifier: MIT */
/* Lanes of devices: the work of each of a client's queues, and the moves of its memory. */
#ifndef HETMAP_DEVICE_LANES_H
#define HETMAP_DEVICE_LANES_H

#include "traced_devices.h"

/* So many spans; of more, neighbours are one. */
#define SPANS_MOST 8192

struct queue_lane;

/* All zeros: none yet. */
struct lanes {
	struct device_lane *first; /* by own: the last one that was made */
	struct device_lane *memory, *losses;
	struct queue_lane *queues;
};

/* 0 or -ENOMEM. */
int lanes_move(struct lanes *lanes, const char *device, const struct recorded_event *event,
	       bool evicted, const struct object *object, const struct device_site *site);
int lanes_submit(struct lanes *lanes, const char *device, const struct recorded_event *event);
int lanes_loss(struct lanes *lanes, const char *device, const struct recorded_event *event);

/* The time at which the work that @event completes was submitted; 0: not told. */
uint64_t lanes_begun(struct lanes *lanes, const struct recorded_event *event);
int lanes_complete(struct lanes *lanes, const struct recorded_event *event, uint64_t begun);

/* Puts @first and those behind it in front of @list. They stay whose they are. */
void lanes_join(struct device_lane **list, struct device_lane *first);
void lanes_free(struct lanes *lanes);

#endif
