/* SPDX-License-Identifier: MIT */
/* CXL memory behind a DAX device, as sysfs names it. */
#ifndef HETMAP_TIER_CXL_H
#define HETMAP_TIER_CXL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Describes the CXL memory that the device of @folder in sysfs is made of, a link: "CXL mem0 serial
 * 0xc0ffee, region0, 1 way of 256 bytes". False: it is made of none.
 */
bool cxl_made_of(const char *folder, char *text, size_t size);

/*
 * Name of the region that the device of @folder is made of: "region0". False: it is made of none,
 * or of persistent memory and this process is not root's.
 */
bool cxl_region_of(const char *folder, char *name, size_t size);
/* The number in a file of the region's, "resource" or "interleave_ways"; false: there is none. */
bool cxl_region_number(const char *region, const char *attribute, uint64_t *ret_number);
/* Calls @each with the memory devices of the region: "mem0". */
void cxl_each_memory(const char *region, void (*each)(void *user, const char *memory),
		     void *user);

#endif
