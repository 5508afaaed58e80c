/* SPDX-License-Identifier: MIT */
/* CXL memory behind a DAX device, as sysfs names it. */
#ifndef HETMAP_TIER_CXL_H
#define HETMAP_TIER_CXL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Describes the CXL memory that the device of @folder in sysfs is made of, a link: "CXL mem0 serial
 * 0xc0ffee, region0, 1 way of 256 bytes". False: it is made of none.
 */
bool cxl_made_of(const char *folder, char *text, size_t size);

#endif
