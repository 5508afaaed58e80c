/* SPDX-License-Identifier: MIT */
/*
 * Free memory broken into pieces: so that no 2 MiB of it lie together where they are to be
 * had by luck on a machine that has run for weeks, and by this on one that has just begun.
 */
#ifndef HETMAP_FRAGMENTS_H
#define HETMAP_FRAGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Free memory, and the part of it in pieces below 2 MiB [/proc/buddyinfo]. */
struct free_memory {
	uint64_t bytes;
	uint64_t small;
};

/* 0 or a negative errno. */
int free_memory_read(struct free_memory *ret_memory);
double free_memory_share(const struct free_memory *memory);

struct fragments; /* the pages that hold them apart */

/* Why it is not done here: free() it. NULL: it is. */
char *fragment_refusal(void);

/*
 * Takes nearly all of the machine's free memory, and gives it back but for a page in each of so
 * many blocks of 2 MiB that @share of free memory, 0 to 1, lies in smaller pieces. These pages
 * the kernel can't move. They are held until fragment_end(), or the process's end. 0 or a
 * negative errno: -EPERM: it takes root; -ERANGE: the result was more than 5 points off, and is
 * undone. ret_memory is of then.
 */
int fragment_begin(double share, struct fragments **ret_fragments,
		   struct free_memory *ret_memory);
void fragment_end(struct fragments *fragments);

#endif
