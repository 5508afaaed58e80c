/* SPDX-License-Identifier: MIT */
/* The cost of a prefetch to an accelerator on this machine, measured. */
#ifndef HETMAP_ACCEL_COST_H
#define HETMAP_ACCEL_COST_H

/*
 * Cost of a page of 4 KiB that hm_range_prefetch() brings to @accel with others, ns. The memory is
 * as a device fault finds it: one of "soft:N" leaves it to the copy behind it to touch the pages,
 * another one touches them itself. Takes some milliseconds. 0; or a negative errno.
 */
int accel_prefetch_cost(const char *accel, double *ret_ns);

#endif
