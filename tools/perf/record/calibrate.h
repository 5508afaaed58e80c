/* SPDX-License-Identifier: MIT */
/* The cost of faults on this machine, measured: advice computes its gains by it. */
#ifndef HETMAP_CALIBRATE_H
#define HETMAP_CALIBRATE_H

#include <jansson.h>

/*
 * {"anon_fault_ns", "file_fault_ns"}: cost of one fault; {"anon_populate_ns", "anon_huge_ns",
 * "file_populate_ns"}: cost of a page of 4 KiB that comes with other pages. null where it can't
 * be measured here. Takes some 50 ms.
 */
json_t *calibrate(void);

#endif
