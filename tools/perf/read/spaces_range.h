/* SPDX-License-Identifier: MIT */
/* Ranges of an address space, as the parts of spaces share them. */
#ifndef HETMAP_SPACES_RANGE_H
#define HETMAP_SPACES_RANGE_H

#include "spaces.h"

struct range {
	uint64_t start, end;
	uint64_t offset; /* of start in the object */
	struct object *object;
	const char *file;     /* of code, or NULL; see spaces_code() */
	uint64_t file_offset; /* of start */
	uint64_t serial;      /* the library's number of the map; 0: the kernel's range */
	bool inherited;       /* by a child of fork(2) */
	bool writable;        /* or that is not told */
	/* Of memory: see merged_doubt(), merged_touch(). Addresses of pages; 0: none. */
	bool doubted;
	struct object *heir;
	uint64_t touched_first, touched_last;
};

/*
 * NULL is an empty tree. A child of fork(2) has its parent's until one of them changes it:
 * who changes a tree that others have, too, gets a copy first.
 */
struct range_tree;

/* The one of @tree that overlaps [start, end), or one of them; NULL: none does. */
struct range *range_find(const struct range_tree *tree, uint64_t start, uint64_t end);
/* Puts in a copy of @range, which overlaps none. 0 or -ENOMEM. */
int range_insert(struct range_tree **tree, const struct range *range);
/*
 * Takes [start, end) out of all ranges: the parts before it and behind it stay. *code: some of
 * it was code; else it is left alone. 0 or -ENOMEM.
 */
int range_cut(struct range_tree **tree, uint64_t start, uint64_t end, bool *code);

/* The same tree for one more. */
struct range_tree *range_share(struct range_tree *tree);
/* A copy of the ranges that are inherited. 0 or -ENOMEM. */
int range_copy_inherited(const struct range_tree *tree, struct range_tree **ret_copy);
/* One has it no more. */
void range_drop(struct range_tree **tree);

#endif
