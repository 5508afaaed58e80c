/* SPDX-License-Identifier: MIT */
/* A graph out of the trace of a program that launched by hand: hetmap plan learn and try. */
#ifndef HETMAP_GRAPH_LEARN_H
#define HETMAP_GRAPH_LEARN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The transfers that the program made by hand. */
struct by_hand {
	uint64_t launches; /* that are nodes of the graph */
	uint64_t failed;   /* that are not */
	uint64_t copied;   /* launches that copied their ranges */
	uint64_t copies; /* copies between memories, in place of which the plan moves ranges */
	uint64_t brackets; /* of the CPU, on ranges of launches */
	uint64_t bytes_in, bytes_out;
	bool waits; /* the CPU is taken to have touched all ranges after each wait */
};

/* ---- events.c: lines of the trace ---- */

enum event_kind {
	EVENT_LAUNCH,
	EVENT_DONE,
	EVENT_BRACKET,
	EVENT_MAP,
	EVENT_UNMAP,
};

struct event_range {
	uint64_t address, length;
	bool read, write;
};

struct event {
	enum event_kind kind;
	double time;   /* microseconds */
	uint64_t line; /* of the file: what has the same time stays in order */
	const char *name, *id;
	json_t *json;
	struct event_range *range;
	uint32_t n_range;
	uint64_t bytes; /* in of a launch, out of its end */
	int status;     /* of an end; for a launch that of its end */
};

struct events {
	struct event *event;
	uint32_t n, room;
};

/* Reads a trace, by time. 0, or an exit status. */
int events_read(FILE *in, const char *file, struct events *ret_events);
void events_free(struct events *events);

/* ---- learn.c ---- */

/* The JSON that tools/graph makes of models, of the trace's launches. 0, or an exit status. */
int learn(const struct events *events, const char *name, bool waits, json_t **ret_graph,
	  struct by_hand *ret_by_hand);

#endif
