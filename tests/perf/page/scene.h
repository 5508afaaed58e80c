/* SPDX-License-Identifier: MIT */
/* Data for the page of "hetmap report --html", from events that a test makes up. */
#ifndef HETMAP_TESTS_SCENE_H
#define HETMAP_TESTS_SCENE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scene_event {
	uint32_t time_us, page, cost_ns;
	uint16_t buffer, thread;
	uint8_t cpu, kind;
};

struct scene {
	json_t *report;
	struct scene_event *events;
	size_t n, room;
	uint64_t random;
	bool untimed; /* the recording has no durations: set it before scene_end() */
};

void scene_begin(struct scene *scene, const char *command, double seconds);
/* Their indexes. */
uint16_t scene_thread(struct scene *scene, const char *name);
uint16_t scene_buffer(struct scene *scene, const char *name, const char *kind,
		      const char *device, uint64_t pages, const char *pattern, uint64_t stride);
void scene_event(struct scene *scene, struct scene_event event);
void scene_site(struct scene *scene, int buffer, const char *function, const char *file,
		int line, uint64_t faults, uint64_t time_ns);
/* @place NULL: nothing was moved. */
void scene_device_site(struct scene *scene, int buffer, const char *what, const char *place,
		       uint64_t n, uint64_t bytes, const char *by, const char *function);
void scene_advice(struct scene *scene, int buffer, const char *text, const char *evidence,
		  uint64_t gain_ns);
void scene_missing(struct scene *scene, const char *sentence);
/* @spans made of [begin_ns, end_ns, label]. */
void scene_lane(struct scene *scene, const char *name, json_t *spans);
/* From 0 to @below - 1. */
uint32_t scene_random(struct scene *scene, uint32_t below);
/*
 * Sorts the events, adds them up for buffers, totals and latencies, and packs them.
 * They are a sample of @of; 0: all. Prints the page; false: standard output takes it not.
 */
int scene_end(struct scene *scene, uint64_t of);

#endif
