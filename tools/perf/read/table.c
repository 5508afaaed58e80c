// SPDX-License-Identifier: MIT
/* Values by name, over the trees of tsearch(3). */
#include "table.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct row {
	const char *key;
	void *value;
	char copy[];
};

static int compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return strcmp(x->key, y->key);
}

void **table_place(struct table *table, const char *key)
{
	const struct row wanted = { .key = key };
	size_t size = strlen(key) + 1;
	struct row *row;
	void *node;

	node = tfind(&wanted, &table->root, compare);
	if (node)
		return &(*(struct row **)node)->value;
	row = malloc(sizeof(*row) + size);
	if (!row)
		return NULL;
	memcpy(row->copy, key, size);
	row->key = row->copy;
	row->value = NULL;
	if (tsearch(row, &table->root, compare))
		return &row->value;
	free(row);
	return NULL;
}

void *table_get(const struct table *table, const char *key)
{
	const struct row wanted = { .key = key };
	void *node = tfind(&wanted, &table->root, compare);

	return node ? (*(struct row **)node)->value : NULL;
}

void table_clear(struct table *table, void (*end)(void *value))
{
	struct row *row;

	/* Its root is the first row, as long as there is one. */
	while (table->root) {
		row = *(struct row **)table->root;
		tdelete(row, &table->root, compare);
		if (end && row->value)
			end(row->value);
		free(row);
	}
}
