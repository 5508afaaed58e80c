/* SPDX-License-Identifier: MIT */
/* System calls that change mappings: the facts that the records of mappings lack. */
#ifndef HETMAP_CALLS_H
#define HETMAP_CALLS_H

#include "recording.h"
#include "spaces.h"

struct calls;

struct calls *calls_create(struct spaces *spaces); /* NULL: no memory */
void calls_free(struct calls *calls);

/*
 * A mapping, or one of POINTS_CALLS: goes to the spaces in its true extent. Returns 0 or
 * -ENOMEM.
 */
int calls_event(struct calls *calls, const struct recorded_event *event);

#endif
