/* SPDX-License-Identifier: MIT */
/* Poison lists of CXL memory: bytes that a memory device knows to be broken. */
#ifndef HETMAP_TIER_POISON_H
#define HETMAP_TIER_POISON_H

#include <stdint.h>

#define POISON_LINE 64u /* bytes that are cleared at a time */

/* Bytes in a row, of one memory device. */
struct poison_range {
	char memory[16];  /* "mem0" */
	uint64_t dpa;     /* first address in the memory device */
	uint64_t address; /* physical address of that byte */
	uint64_t length;
};

/*
 * Calls @each with the ranges of the CXL region ("region0"), until it fails. Errors, with a text:
 * that of @each; -EACCES: this is for root only; -EOPNOTSUPP: the kernel or a memory device of the
 * region has no such list, or no trace events.
 */
int poison_each(const char *region, int (*each)(void *user, const struct poison_range *range),
		void *user);

/*
 * Clears a line of POISON_LINE bytes, which are zero afterwards. Errors, with a text: -EACCES:
 * likewise; -EOPNOTSUPP: the kernel or the memory device clears nothing; -EIO.
 */
int poison_clear(const char *memory, uint64_t dpa);

#endif
