/* SPDX-License-Identifier: MIT */
/*
 * New memory beside old is one mapping with it, and the kernel tells of it as a whole: what
 * of it is new is to be found out.
 */
#ifndef HETMAP_SPACES_MERGED_H
#define HETMAP_SPACES_MERGED_H

#include "spaces_range.h"

/* Anonymous memory below that is counted together: allocators map a lot of it. */
#define ANON_LEAST (UINT64_C(1) << 20)

/*
 * Memory that is told of from where it began to a little behind its end has grown, as
 * allocators let it. NULL: it is something else.
 */
struct range *merged_grown(const struct range_tree *maps, const struct recorded_event *event);

/*
 * Takes what was known before off the ends of what is told. It may leave a length of 0: all
 * of it was known, and who knows which part of that was unmapped before.
 */
void merged_trim(const struct range_tree *maps, struct recorded_event *event);

/*
 * What was known of @told and left in @maps may have been replaced by what is told, after
 * all: where it is more than @anew, its new part, which has it then if it has an object of
 * its own. @anew NULL: there is none, and each part may have been.
 */
void merged_doubt(const struct range_tree *maps, const struct recorded_event *told,
		  const struct range *anew);

/*
 * A page fault at @address of @range, of memory: whether it says that the memory is another
 * than before. Pages that were touched stay, in a mapping that grew.
 */
bool merged_touch(struct range *range, uint64_t address);

#endif
