/* SPDX-License-Identifier: MIT */
/*
 * Bad ranges: of persistent memory as the bus "nd" keeps them, of CXL memory as its memory devices
 * do.
 */
#ifndef HETMAP_TIER_BAD_H
#define HETMAP_TIER_BAD_H

#include "tier/persist.h"

/* Where the bytes of a device are. */
struct bad_place {
	struct device_number device;
	char cxl[32];     /* region of CXL memory, "region0"; "": it is none */
	char region[512]; /* folder of the region of persistent memory */
	uint64_t size;    /* bytes of the device; 0: not known */
	uint64_t first;   /* its first byte within the region */
	uint64_t address; /* physical address of its first byte; 0: not told to this user */
	uint32_t bus;     /* number of the bus: /dev/ndctlN */
};

/*
 * Finds the place of "dax:PATH", "pmem:PATH" or, if CXL memory has made it, "node:N". Errors, with
 * a text: -ENODEV: there is no such device; -EOPNOTSUPP: its memory has no list;
 * -EACCES: this user is not told where it is.
 */
int bad_find(const char *name, struct bad_place *ret_place);

/*
 * Calls @each with each bad range that has bytes of the device, as offset in the device. Errors,
 * with a text: -EACCES; -EOPNOTSUPP: the memory has no list, or the kernel does not show it.
 */
int bad_each(const struct bad_place *place,
	     void (*each)(void *user, uint64_t offset, uint64_t length), void *user);

/*
 * Clears the lines of CXL memory in a range of the device that the list names. Errors, with a text:
 * likewise; -EIO: a line is as it was.
 */
int bad_clear_cxl(const struct bad_place *place, uint64_t offset, uint64_t length);

#endif
