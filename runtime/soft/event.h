/* SPDX-License-Identifier: MIT */
/* Events of a device's mirror, the module's and the twin's, in the library's terms. */
#ifndef HETMAP_RUNTIME_SOFT_EVENT_H
#define HETMAP_RUNTIME_SOFT_EVENT_H

#include <hetmap/range.h>
#include <uapi/hetsim.h>

/* An event of a kind that this library does not know has the kind 0. */
void sim_event_translate(const struct hetsim_event *from, struct hm_range_event *to);

/*
 * Adds the event to the published table. @accel: "sim:0". Prefetches are left out: who waits for
 * one adds it, with its duration.
 */
void sim_event_publish(const char *accel, const struct hetsim_event *event);

#endif
