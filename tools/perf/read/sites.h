/* SPDX-License-Identifier: MIT */
/* Call sites of faults, while a recording is read. */
#ifndef HETMAP_SITES_H
#define HETMAP_SITES_H

#include "analysis.h"

struct sites;

/* Of @analysis, whose spaces are as they are at each fault. NULL: no memory. */
struct sites *sites_create(struct analysis *analysis);

/* Where that fault of @counted began: one of the analysis's sites. NULL: no memory. */
struct site *sites_of(struct sites *sites, struct counted *counted,
		      const struct recorded_event *event);

/* The analysis keeps the sites. */
void sites_free(struct sites *sites);

#endif
