/* SPDX-License-Identifier: MIT */
/* Memory that is taken and given back, again and again. */
#ifndef HETMAP_PIECES_H
#define HETMAP_PIECES_H

#include "analysis.h"

/*
 * Finds pieces of one kind among the counted objects, and makes one row of those without a name
 * that were in one place, one after another. 0 or -ENOMEM.
 */
int pieces_find(struct analysis *analysis);

/* Adds the numbers of @from, of the same kind, to those of @to. */
void pieces_sum(struct counted *to, const struct counted *from);

#endif
