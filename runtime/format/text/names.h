/* SPDX-License-Identifier: MIT */
/*
 * Names of a file, and a number for each, by a hash table: found without a search, and
 * told when one comes a second time. The hash has a seed of the process, so that no file
 * can be made whose names all meet.
 */
#ifndef HETMAP_FORMAT_NAMES_H
#define HETMAP_FORMAT_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

struct name {
	const char *text; /* the caller's, who keeps it */
	uint32_t length;
	uint32_t value;
};

/* Begun with zeros. */
struct names {
	struct name *name; /* n of them, in the order of names_add() */
	uint32_t n;
	uint32_t room;
	uint32_t n_slot; /* a power of two, more than n; 0: none yet */
	uint32_t *slot;  /* of name, plus 1; 0: free */
};

/* Room for @n, which are expected. -ENOMEM. */
int names_expect(struct names *names, uint32_t n);
/* -EEXIST it is there (without a text), -ENOMEM, -E2BIG. */
int names_add(struct names *names, const char *text, size_t length, uint32_t value);
/* NULL: there is none. */
const struct name *names_find(const struct names *names, const char *text, size_t length);
void names_free(struct names *names);

#endif
