/* SPDX-License-Identifier: MIT */
/*
 * Begins and ends the CPU's access to a range of a buffer, with each of the objects that the
 * range is in. Inline, so that one object costs its two calls and no more.
 */
#ifndef HETMAP_BRACKET_WALK_H
#define HETMAP_BRACKET_WALK_H

#include "core/core.h"

/* A backend's functions for one object. */
struct bracket_walk {
	bool (*takes_part)(const struct hm_segment *segment);
	int (*begin)(const struct hm_segment *segment, uint32_t access);
	int (*end)(const struct hm_segment *segment, uint32_t access);
};

static inline bool bracket_walk_at(const struct bracket_walk *walk,
				   const struct hm_segment *segment, uint64_t offset,
				   uint64_t length)
{
	return ranges_overlap(segment->offset, segment->length, offset, length) &&
	       walk->takes_part(segment);
}

/* Begins with all objects or none: a failure ends those that were begun. */
static inline int bracket_walk_begin(const struct bracket_walk *walk,
				     const struct hm_segment *segments, uint32_t n,
				     uint64_t offset, uint64_t length, uint32_t access)
{
	uint32_t i;
	int r;

	for (i = 0; i < n; i++) {
		if (!bracket_walk_at(walk, &segments[i], offset, length))
			continue;
		r = walk->begin(&segments[i], access);
		if (r)
			goto err_end;
	}
	return 0;

err_end:
	while (i--)
		if (bracket_walk_at(walk, &segments[i], offset, length))
			walk->end(&segments[i], access);
	return r;
}

/* Ends with each object, even if one fails. Returns the first error. */
static inline int bracket_walk_end(const struct bracket_walk *walk,
				   const struct hm_segment *segments, uint32_t n,
				   uint64_t offset, uint64_t length, uint32_t access)
{
	int r, first = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (!bracket_walk_at(walk, &segments[i], offset, length))
			continue;
		r = walk->end(&segments[i], access);
		if (r && !first)
			first = r;
	}
	return first;
}

#endif
