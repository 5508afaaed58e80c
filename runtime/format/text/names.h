/* SPDX-License-Identifier: MIT */
/*
 * Names of a file, and a number for each, in a hash table: found without a search, and a second
 * occurrence is reported. The hash has a seed of the process, so that no file can be made whose
 * names all collide.
 */
#ifndef HETMAP_FORMAT_NAMES_H
#define HETMAP_FORMAT_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

struct name {
	const char *text; /* the caller's; must stay */
	uint32_t length;
	uint32_t value;
};

/* Must begin zeroed. */
struct names {
	struct name *name; /* n of them, in the order of names_add() */
	uint32_t n;
	uint32_t room;
	uint32_t n_slot; /* a power of two, more than n; 0: none yet */
	uint32_t *slot;  /* index of name, plus 1; 0: free */
};

/* Makes room for @n expected names. -ENOMEM. */
int names_expect(struct names *names, uint32_t n);
/*
 * Errors:
 *   -EEXIST the name exists (without a text)
 *   -ENOMEM, -E2BIG
 */
int names_add(struct names *names, const char *text, size_t length, uint32_t value);
/* NULL: no such name. */
const struct name *names_find(const struct names *names, const char *text, size_t length);
void names_free(struct names *names);

#endif
