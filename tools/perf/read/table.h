/* SPDX-License-Identifier: MIT */
/* Values by name: tsearch(3) and copies of the names. Zeros are an empty table. */
#ifndef HETMAP_TABLE_H
#define HETMAP_TABLE_H

struct table {
	void *root;
};

/* Where the value of @key stands, NULL at first; NULL: no memory. Valid until cleared. */
void **table_place(struct table *table, const char *key);
/* The value of @key; NULL: it has none. */
void *table_get(const struct table *table, const char *key);
/* Empties it; each value that is not NULL goes to @end, if that is not NULL. */
void table_clear(struct table *table, void (*end)(void *value));

#endif
