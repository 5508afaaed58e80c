/* SPDX-License-Identifier: MIT */
/* Functions and lines of call sites, as far as the files' symbols and debug info tell. */
#ifndef HETMAP_SYMBOLS_H
#define HETMAP_SYMBOLS_H

#include "analysis.h"

struct symbols;

/*
 * Fills in the first @n sites, and as many of the devices', and makes one of those that are
 * one line. Ended by symbols_free(), to which what is filled in lasts.
 */
struct symbols *symbols_find(struct analysis *analysis, uint32_t n);
/* The function that an instruction is in, and the name of its file; NULL, what is not known. */
void symbols_name(struct symbols *symbols, const struct place *place, const char **ret_module,
		  const char **ret_function);
void symbols_free(struct symbols *symbols);

#endif
