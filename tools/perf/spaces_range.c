// SPDX-License-Identifier: MIT
/* Trees of ranges that do not overlap: those of tsearch(3), where such are equal that do. */
#include "spaces_range.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->end <= y->start)
		return -1;
	return x->start >= y->end;
}

struct range *range_find(void *const *tree, uint64_t start, uint64_t end)
{
	const struct range key = { .start = start, .end = end };
	void *node = tfind(&key, tree, compare_ranges);

	return node ? *(struct range **)node : NULL;
}

int range_insert(void **tree, const struct range *range)
{
	struct range *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *range;
	if (tsearch(copy, tree, compare_ranges))
		return 0;
	free(copy);
	return -ENOMEM;
}

int range_cut(void **tree, uint64_t start, uint64_t end)
{
	struct range *range, before, behind;
	int r = 0;

	while (!r && (range = range_find(tree, start, end))) {
		before = behind = *range;
		tdelete(range, tree, compare_ranges);
		free(range);
		before.end = start;
		if (before.start < start)
			r = range_insert(tree, &before);
		behind.offset += end - behind.start;
		behind.file_offset += end - behind.start;
		behind.start = end;
		if (!r && behind.start < behind.end)
			r = range_insert(tree, &behind);
	}
	return r;
}
