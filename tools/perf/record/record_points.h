/* SPDX-License-Identifier: MIT */
/* Recording tracepoints beside page faults, where this user may: into the same rings. */
#ifndef HETMAP_RECORD_POINTS_H
#define HETMAP_RECORD_POINTS_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "perf/read/points.h"

/*
 * Without the instruction and the address, which a tracepoint's data have; of some with a call
 * chain beside. Other records end as those of page faults do.
 */
#define POINT_SAMPLE                                                                     \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | \
	 PERF_SAMPLE_RAW)

struct recorder;

struct record_point {
	enum point point;
	uint64_t id;
	char *format; /* the text of its file */
	int *fds;     /* one for each thread and CPU, or for each CPU */
	uint64_t *ids;
	uint32_t n_fd, room;
};

struct record_points {
	struct record_point point[N_POINT];
	uint32_t n;
	const char *tracefs;      /* where they are; NULL: nowhere */
	int error[N_POINT_GROUP]; /* why there are none of that group; 0: there are */
};

/*
 * Opens the tracepoints that it may, of @tid and of all processes, disabled; points->error
 * tells the others. A recording goes on without.
 */
void points_open(struct recorder *recorder, pid_t tid);
/* The same of one more thread, enabled. 0 or a negative errno; of one that ended, too. */
int points_add(struct recorder *recorder, pid_t tid);

void points_enable(const struct record_points *points, bool of_tasks);
void points_disable(const struct record_points *points);
uint64_t points_lost(const struct record_points *points);
/* No more are told; ids and formats stay. */
void points_stop(struct record_points *points);
void points_close(struct record_points *points);

void points_attr(const struct recorder *recorder, const struct record_point *point,
		 struct perf_event_attr *ret_attr);

/*
 * The formats, as a perf.data file has them [trace-event-info.c of tools/perf/util]:
 * free() it. 0 or a negative errno.
 */
int points_tracing_data(const struct record_points *points, char **ret_data,
			uint64_t *ret_length);

/*
 * One sentence on the events that are not recorded, and the remedy: free() it. NULL: all are.
 */
char *points_missing(const struct record_points *points, bool left_out);

#endif
