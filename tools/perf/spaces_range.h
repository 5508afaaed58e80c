/* SPDX-License-Identifier: MIT */
/* Ranges of an address space, as the parts of spaces share them. */
#ifndef HETMAP_SPACES_RANGE_H
#define HETMAP_SPACES_RANGE_H

#include "spaces.h"

struct range {
	uint64_t start, end;
	uint64_t offset; /* of start in the object */
	struct object *object;
	const char *file;     /* of code, or NULL; one of spaces->strings */
	uint64_t file_offset; /* of start */
	uint64_t serial;      /* the library's number of the map; 0: the kernel's range */
	bool inherited;       /* by a child of fork(2) */
};

/* The one of @tree that overlaps [start, end), or one of them; NULL: none does. */
struct range *range_find(void *const *tree, uint64_t start, uint64_t end);
/* Puts in a copy of @range, which overlaps none. 0 or -ENOMEM. */
int range_insert(void **tree, const struct range *range);
/* Takes [start, end) out of all ranges: what is before it and behind it stays. The same. */
int range_cut(void **tree, uint64_t start, uint64_t end);

#endif
