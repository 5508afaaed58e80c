/* SPDX-License-Identifier: MIT */
/* Functions and lines of call sites, as far as the files' symbols and debug info tell. */
#ifndef HETMAP_SYMBOLS_H
#define HETMAP_SYMBOLS_H

#include "analysis.h"
#include "symbols_map.h"

struct symbols;

/*
 * Fills in the first @n sites, and as many of the devices', and makes one of those that are one
 * line. The names last until symbols_free().
 */
struct symbols *symbols_find(struct analysis *analysis, uint32_t n,
			     const struct symbols_span *recorded);
/*
 * The function that an instruction of @pid's is in, and the name of its file; NULL: not known.
 */
void symbols_name(struct symbols *symbols, uint32_t pid, const struct place *place,
		  const char **ret_module, const char **ret_function);
/* Did the function at @place, of the C library, get called from @top, which a stack led to? */
bool symbols_top_is_caller(struct symbols *symbols, const struct place *place,
			   const struct place *top);
/* The first perf-PID.map, as its name, that is too large to be read; NULL: none is. */
const char *symbols_refused(const struct symbols *symbols);
/* When the last of @trace was recorded, a folder or a file, of CLOCK_REALTIME; 0: not known. */
uint64_t symbols_recorded(const char *trace);
void symbols_free(struct symbols *symbols);

#endif
