/* SPDX-License-Identifier: MIT */
/* System calls that change what is mapped: what the records of mappings don't tell. */
#ifndef HETMAP_CALLS_H
#define HETMAP_CALLS_H

#include "recording.h"
#include "spaces.h"

struct calls;

struct calls *calls_create(struct spaces *spaces); /* NULL: no memory */
void calls_free(struct calls *calls);

/*
 * A mapping, or one of POINTS_CALLS: goes to the spaces as what it was in truth. 0 or
 * -ENOMEM.
 */
int calls_event(struct calls *calls, const struct recorded_event *event);

#endif
