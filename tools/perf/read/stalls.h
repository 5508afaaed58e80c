/* SPDX-License-Identifier: MIT */
/*
 * How long a process stood still for page faults: some thread of it slept in one, and none ran.
 * The faults cost it no more than that. A thread that waits for another one sleeps, too, and a
 * thread may sleep in a fault while others get on: neither is seen from the faults alone.
 */
#ifndef HETMAP_STALLS_H
#define HETMAP_STALLS_H

#include "recording.h"

struct stalls;

/* NULL: no memory. */
struct stalls *stalls_create(void);
void stalls_free(struct stalls *stalls);

/*
 * Events of threads in the order of their times: faults that begin and end, when a thread
 * comes onto a CPU and leaves it, and ends; the others mean nothing. 0 or -ENOMEM.
 */
int stalls_event(struct stalls *stalls, const struct recorded_event *event);

/* Of a process up to its last event, ns. */
uint64_t stalls_of(struct stalls *stalls, uint32_t pid);

#endif
