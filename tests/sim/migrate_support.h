/* SPDX-License-Identifier: MIT */
/* Pages of the process that move to a device's memory, for their tests. */
#ifndef HETMAP_TESTS_MIGRATE_SUPPORT_H
#define HETMAP_TESTS_MIGRATE_SUPPORT_H

#include "sim/mirror_support.h"

/*
 * A device with a mirror, and the answer of MIRROR on migration. False: the test was skipped, as
 * there is no such device.
 */
bool migrate_open(struct mirror *mirror, struct hetsim_mirror *ret_says);
/* The same; the test ends where it would be skipped. */
struct mirror migrate_begin(struct hetsim_mirror *ret_says);

/* Private memory of small pages: @n bytes that are @value. A failure ends the test. */
unsigned char *migrate_map(size_t n, int value);
/* How many pages of the range the device has in its memory, by its entries. */
unsigned int migrate_on_device(const struct mirror *mirror, const void *bytes, size_t n);
/* A prefetch to the device for writing, or to the host: it must succeed. */
void migrate_there(const struct mirror *mirror, const void *bytes, size_t n);
void migrate_back(const struct mirror *mirror, const void *bytes, size_t n);
/* Pages that are in the device's memory, by the counters. */
uint64_t migrate_pages(const struct mirror *mirror);
/* Are all bytes of the range that? */
bool migrate_is(const unsigned char *bytes, size_t n, int value);

#endif
