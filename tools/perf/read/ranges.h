/* SPDX-License-Identifier: MIT */
/*
 * Memory that accelerators reached by entries of their own (HM_ACCEL_MIRROR) while a program was
 * traced: by object, and by range of it.
 */
#ifndef HETMAP_RANGES_H
#define HETMAP_RANGES_H

#include <stdint.h>

#include "published.h"
#include "spaces.h"

/* Neighbours of one object are joined: these may be longer than 2 MiB. */
struct traced_range {
	uint32_t pid;
	struct hm_published_range sum;
	uint64_t reach; /* bytes of the ranges that are joined in it */
	struct object *object;
};

/* Of one object and accelerator: @n ranges from ranges[@first] on, and their sum. */
struct range_row {
	uint64_t first, n;
	struct traced_range sum;
};

/* Adds the sums of @from; the addresses of @to then cover both. */
void ranges_add(struct traced_range *to, const struct traced_range *from);
/* By object, accelerator and address, neighbours joined. Returns how many there are then. */
uint64_t ranges_join(struct traced_range *ranges, uint64_t n);
/* Most time in faults first, then most faults: free() them. NULL: no memory. */
struct range_row *ranges_rows(const struct traced_range *ranges, uint64_t n, uint64_t *ret_n);

#endif
