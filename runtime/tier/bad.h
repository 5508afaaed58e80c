/* SPDX-License-Identifier: MIT */
/* Bad ranges of persistent memory, as the bus "nd" keeps them. */
#ifndef HETMAP_TIER_BAD_H
#define HETMAP_TIER_BAD_H

#include "tier/persist.h"

/* Where the bytes of a device are. */
struct bad_place {
	struct device_number device;
	char region[512]; /* folder of the region */
	uint64_t size;    /* bytes of the device; 0: not known */
	uint64_t first;   /* its first byte within the region */
	uint64_t address; /* physical address of its first byte; 0: not told to this user */
	uint32_t bus;     /* number of the bus: /dev/ndctlN */
};

/*
 * Finds the place of "dax:PATH" or "pmem:PATH". Errors, with a text: -ENODEV: there is no such
 * device; -EOPNOTSUPP: its memory is below no region of the bus; -EACCES: this user is not told
 * where it is.
 */
int bad_find(const char *name, struct bad_place *ret_place);

/*
 * Calls @each with each bad range that has bytes of the device, as offset in the device. Errors,
 * with a text: -EACCES; -EOPNOTSUPP: the kernel keeps no list.
 */
int bad_each(const struct bad_place *place,
	     void (*each)(void *user, uint64_t offset, uint64_t length), void *user);

#endif
