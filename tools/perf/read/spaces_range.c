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

struct range_tree {
	void *root;
	uint32_t n_user;
};

struct range *range_find(const struct range_tree *tree, uint64_t start, uint64_t end)
{
	const struct range key = { .start = start, .end = end };
	void *node = tree ? tfind(&key, &tree->root, compare_ranges) : NULL;

	return node ? *(struct range **)node : NULL;
}

static int insert(struct range_tree *tree, const struct range *range)
{
	struct range *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *range;
	if (tsearch(copy, &tree->root, compare_ranges))
		return 0;
	free(copy);
	return -ENOMEM;
}

struct copying {
	struct range_tree *to;
	bool all;
	int r;
};

/* Of the tree's walk: twalk_r(3) of glibc 2.30. */
static void copy_range(const void *node, VISIT visit, void *user)
{
	const struct range *range = *(struct range *const *)node;
	struct copying *copying = user;

	if ((visit == postorder || visit == leaf) && !copying->r &&
	    (copying->all || range->inherited))
		copying->r = insert(copying->to, range);
}

static int copy(const struct range_tree *tree, bool all, struct range_tree **ret_copy)
{
	struct copying copying = { .to = calloc(1, sizeof(*tree)), .all = all };

	if (!copying.to)
		return -ENOMEM;
	copying.to->n_user = 1;
	if (tree)
		twalk_r(tree->root, copy_range, &copying);
	if (copying.r)
		range_drop(&copying.to);
	else
		*ret_copy = copying.to;
	return copying.r;
}

/* One that nobody else has. */
static int own(struct range_tree **tree)
{
	struct range_tree *mine;
	int r;

	if (*tree && (*tree)->n_user == 1)
		return 0;
	r = copy(*tree, true, &mine);
	if (r)
		return r;
	range_drop(tree);
	*tree = mine;
	return 0;
}

int range_insert(struct range_tree **tree, const struct range *range)
{
	int r = own(tree);

	return r ? r : insert(*tree, range);
}

int range_cut(struct range_tree **tree, uint64_t start, uint64_t end, bool *code)
{
	struct range *range, before, behind;
	int r = range_find(*tree, start, end) ? own(tree) : 0;

	while (!r && (range = range_find(*tree, start, end))) {
		before = behind = *range;
		*code |= range->file != NULL;
		tdelete(range, &(*tree)->root, compare_ranges);
		free(range);
		before.end = start;
		if (before.start < start)
			r = insert(*tree, &before);
		behind.offset += end - behind.start;
		behind.file_offset += end - behind.start;
		behind.start = end;
		if (!r && behind.start < behind.end)
			r = insert(*tree, &behind);
	}
	return r;
}

struct range_tree *range_share(struct range_tree *tree)
{
	if (tree)
		tree->n_user++;
	return tree;
}

int range_copy_inherited(const struct range_tree *tree, struct range_tree **ret_copy)
{
	return copy(tree, false, ret_copy);
}

void range_drop(struct range_tree **tree)
{
	if (*tree && !--(*tree)->n_user) {
		tdestroy((*tree)->root, free);
		free(*tree);
	}
	*tree = NULL;
}
