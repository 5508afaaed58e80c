/* SPDX-License-Identifier: MIT */
/* Sums of /proc/self/smaps over an address range, and numbers of related files [proc(5)]. */
#ifndef HETMAP_SMAPS_H
#define HETMAP_SMAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/smaps_mapping.h"

/*
 * Adds up the mappings that lie in [address, address + length). A mapping that reaches beyond
 * the range counts by its share, rounded down: the figures are exact for the library's maps,
 * which share no mapping unless the kernel merged neighbours. Slow (tens of microseconds): never
 * on a hot path.
 *
 * Errors, with a text:
 *   -ENOENT /proc is not mounted
 *   others from reading the file
 */
int smaps_read(const void *address, uint64_t length, struct smaps_sum *ret_sum);

/* The number in "KEY: N kB" of /proc/self/status, in bytes; 0 if not there. */
uint64_t status_read(const char *key);
/* The same, but a file that can't be read is an error, with a text. */
int status_get(const char *key, uint64_t *ret_bytes);

/*
 * Sets 1 if that capability of linux/capability.h is in this thread's effective set. Errors as
 * above.
 */
int capable_get(uint32_t capability, uint32_t *ret_capable);

/* The same for /proc/meminfo: "MemAvailable". */
uint64_t meminfo_read(const char *key);

/* Number of lines of /proc/self/maps, each a mapping; 0 if not readable. */
uint64_t maps_count(void);

#endif
