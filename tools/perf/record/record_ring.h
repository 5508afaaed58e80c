/* SPDX-License-Identifier: MIT */
/* Rings that the kernel writes records into, one for each CPU. */
#ifndef HETMAP_RECORD_RING_H
#define HETMAP_RECORD_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "perf/read/perf_data.h"

/* Bytes of data; a power of two of pages. A million faults a second fill 150 MB. */
#define RING_MOST (UINT64_C(8) << 20)
#define RING_LEAST (UINT64_C(64) << 10)
/* Of all CPUs' together, where nobody asked for more. */
#define RINGS_MOST (UINT64_C(256) << 20)

struct recorder;

struct ring {
	int cpu;
	int fd;       /* of the event that it is of, which is the recorder's; -1: none */
	bool hung_up; /* as poll(2) has it: whom it is of has ended, if not his children */
	bool refused; /* its records found no room, or not all of them */
	struct perf_event_mmap_page *page;
};

/* @fd's event gets the ring; 0 or a negative errno. */
int ring_map(struct ring *ring, int fd, uint64_t bytes);
/* @fd's event writes into it, too. */
int ring_share(const struct ring *ring, int fd);
void ring_unmap(struct ring *ring, uint64_t bytes);
/*
 * Writes its records of mappings and tasks, without the first @skipped bytes, @room bytes at
 * most. 0 or a negative errno.
 */
int ring_rescue(struct recorder *recorder, const struct ring *ring, uint64_t skipped,
		uint64_t room);

#endif
