/* SPDX-License-Identifier: MIT */
/* What faults cost on this machine, measured: advice says what it would save by that. */
#ifndef HETMAP_CALIBRATE_H
#define HETMAP_CALIBRATE_H

#include <jansson.h>

/*
 * {"anon_fault_ns", "file_fault_ns"}: of one fault; {"anon_populate_ns", "anon_huge_ns",
 * "file_populate_ns"}: of a page of 4 KiB that comes with others. null where it can't be
 * measured here. Takes some 50 ms.
 */
json_t *calibrate(void);

#endif
