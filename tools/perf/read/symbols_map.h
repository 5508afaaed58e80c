/* SPDX-License-Identifier: MIT */
/* Names of code that a process made while it ran, which no file has: of /tmp/perf-PID.map. */
#ifndef HETMAP_SYMBOLS_MAP_H
#define HETMAP_SYMBOLS_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "spaces.h"

/* When something was recorded, of CLOCK_REALTIME. */
struct symbols_span {
	uint64_t from_ns, to_ns; /* to_ns 0: not known */
};

/* A map of more than that is not read: a part of it has names that later lines replace. */
#define SYMBOLS_MAP_BYTES_MOST (UINT64_C(256) << 20)
#define SYMBOLS_MAP_LINES_MOST (UINT64_C(2) << 20)

struct symbols_map;

/*
 * The map of @pid, if it is of the process that was recorded then: NULL else, and where there is
 * none. Its names last as long as @spaces.
 */
struct symbols_map *symbols_map_open(struct spaces *spaces, uint32_t pid,
				     const struct symbols_span *recorded);
/* The code at @address, by the last line that has it; NULL: none. */
const char *symbols_map_name(const struct symbols_map *map, uint64_t address);
/* Has the file too many bytes or lines? The map has no names then. */
bool symbols_map_is_too_large(const struct symbols_map *map);
void symbols_map_close(struct symbols_map *map);

#endif
