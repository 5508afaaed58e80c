/* SPDX-License-Identifier: MIT */
/*
 * New memory beside old is one mapping with it, and the kernel tells the whole: the new part is
 * found out here.
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
 * Takes known memory off the ends of the told range. It may leave a length of 0: all of it was
 * known, and some part, which can't be told, was unmapped before.
 */
void merged_trim(const struct range_tree *maps, struct recorded_event *event);

/*
 * The known parts of @told that were left in @maps may have been replaced after all: if they
 * are larger than @anew, the new part, it gets them if it has an object of its own. @anew NULL:
 * there is none, and each part may have been.
 */
void merged_doubt(const struct range_tree *maps, const struct recorded_event *told,
		  const struct range *anew);

/*
 * A page fault at @address of @range, of memory: whether it says that the memory is another
 * than before. Pages that were touched stay, in a mapping that grew.
 */
bool merged_touch(struct range *range, uint64_t address);

#endif
