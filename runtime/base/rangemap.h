/* SPDX-License-Identifier: MIT */
/*
 * Sorted runs of equal value over [0, length): the rights of a map, its locked ranges. An array
 * never changes once made: a change makes a new one.
 */
#ifndef HETMAP_RANGEMAP_H
#define HETMAP_RANGEMAP_H

#include <stdint.h>

struct rangemap_run {
	uint64_t offset; /* of the first byte; a run ends where the next begins */
	uint32_t value;
	uint32_t cache; /* enum hm_cache; 0 where the cache has no meaning */
};

struct rangemap {
	uint32_t n;
	uint32_t reserved;
	struct rangemap_run run[]; /* n >= 1, run[0].offset == 0, neighbours differ */
};

/* One run of @value over everything. NULL: no memory. free() it. */
struct rangemap *rangemap_create(uint32_t value, uint32_t cache);

/* A copy in which [offset, offset + length) has @value. NULL: no memory. */
struct rangemap *rangemap_set(const struct rangemap *old, uint64_t offset, uint64_t length,
			      uint32_t value);

/* A copy in which the values of [offset, offset + length) keep only the bits of @mask. */
struct rangemap *rangemap_and(const struct rangemap *old, uint64_t offset, uint64_t length,
			      uint32_t mask);

/* A copy in which the bits of @mask of these values are those of @bits. */
struct rangemap *rangemap_put(const struct rangemap *old, uint64_t offset, uint64_t length,
			      uint32_t mask, uint32_t bits);

/* The run that holds @offset. */
const struct rangemap_run *rangemap_at(const struct rangemap *ranges, uint64_t offset);

/*
 * Calls @each for every run, cut to [offset, offset + length), in order, until
 * one call returns non-zero, which is the result.
 */
int rangemap_each(const struct rangemap *ranges, uint64_t offset, uint64_t length,
		  int (*each)(void *user, uint64_t offset, uint64_t length, uint32_t value),
		  void *user);

#endif
