/* SPDX-License-Identifier: MIT */
/* Pages move to another NUMA node, and keep their addresses. */
#ifndef HETMAP_TIER_MOVE_H
#define HETMAP_TIER_MOVE_H

#include <stdint.h>

/* Bytes. */
struct tier_moved {
	uint64_t moved;
	uint64_t there;   /* were on the node before */
	uint64_t refused; /* stayed elsewhere */
	int why;          /* of the last page that stayed: a negative errno; 0: none did */
};

/*
 * Moves the pages of [@address, @address + @length), whole pages, that are in memory to @node.
 * Pages that are not stay as they are. Adds to *@moved, and brings in the entries of the pages
 * that move. Bytes beyond a failure have not moved.
 *
 * Errors, with a text: -ENODEV: there is no such node, or it is offline; -EACCES, -EPERM: this
 * process may not use it, or a filter refuses the call; -EOPNOTSUPP: the kernel has no NUMA;
 * -EFAULT: nothing is mapped there.
 */
int tier_move(uint64_t address, uint64_t length, uint32_t node, struct tier_moved *moved);

/* Pages of a range by node. */
struct tier_census {
	uint64_t a, b;  /* bytes on the first and on the second node asked for */
	uint64_t other; /* bytes in memory elsewhere, or on an unknown node */
};

/* Counts where pages are; those not in memory are not counted. Errors as above. */
int tier_count(uint64_t address, uint64_t length, uint32_t a, uint32_t b,
	       struct tier_census *ret_census);

#endif
