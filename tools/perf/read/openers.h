/* SPDX-License-Identifier: MIT */
/*
 * Openers of simulated devices, each counted once: all descriptors of one open file, dup()s
 * and inherited ones too, are one opener, in whatever order a folder has them.
 */
#ifndef HETMAP_PERF_OPENERS_H
#define HETMAP_PERF_OPENERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "live.h"

/* A figure that nobody told. */
#define FIGURE_UNKNOWN UINT64_MAX

/* Of a device's entries for pages of the process. */
enum mirrored {
	MIRRORED_FAULTS,      /* of the device */
	MIRRORED_INVALIDATED, /* times that the kernel took entries away */
	MIRRORED_THERE,       /* pages that moved to the device's memory */
	MIRRORED_BACK,        /* and that came back */
	N_MIRRORED
};

/* Unknown figures are FIGURE_UNKNOWN. */
struct opener {
	uint64_t device, id;
	uint64_t evictions;
	uint64_t vram, system; /* KiB that it has in the device's memory, and in the system's */
	uint64_t mirrored[N_MIRRORED];
};

/* A buffer of which pages went to make room: its bytes in the device's file. */
struct evicted {
	uint64_t device;
	uint64_t start, end;
	uint64_t n; /* times */
};

struct openers {
	struct opener *of;
	size_t n, room;
	struct evicted *evicted; /* by device and start */
	size_t n_evicted, room_evicted;
	uint64_t evictions;            /* of all of them; FIGURE_UNKNOWN: nobody counts it */
	uint64_t mirrored[N_MIRRORED]; /* the same */
};

/* Is the device that is called so one of those? *@ret_device: its number. */
bool openers_device(const char *name, uint64_t *ret_device);

void openers_begin(struct openers *openers);
/*
 * All of the process's. Begins @openers. 0; -ENOMEM:
 * these are a part of them.
 */
int openers_look(pid_t pid, struct openers *openers);
/* Does a device of the process tell of pages outside of buffers? */
bool openers_mirror(const struct openers *openers);
/* @text: of /proc/PID/fdinfo/FD. 0, also for files of other devices; -ENOMEM. */
int openers_add(struct openers *openers, const char *text);
/* Those of one device together: id is how many; evictions FIGURE_UNKNOWN: it has none. */
struct opener openers_of(const struct openers *openers, uint64_t device);
/*
 * How often the buffer that has @offset of the device's file was evicted; FIGURE_UNKNOWN: there
 * is no opener of that device.
 */
uint64_t openers_evicted(const struct openers *openers, uint64_t device, uint64_t offset);
void openers_end(struct openers *openers);

#endif
