/* SPDX-License-Identifier: MIT */
/* What the kernel says of an address range: /proc/self/smaps [proc(5)]. */
#ifndef HETMAP_SMAPS_H
#define HETMAP_SMAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/smaps_mapping.h"

/*
 * Adds up the mappings that lie in [address, address + length). One that reaches
 * beyond it counts by its share, rounded down: exact where the library's maps
 * are concerned, which share no mapping unless the kernel merged neighbours.
 * Slow (tens of microseconds): never on a hot path.
 *
 * -ENOENT: /proc is not mounted; or what kept it from being read, with a text.
 */
int smaps_read(const void *address, uint64_t length, struct smaps_sum *ret_sum);

/* The number in "KEY: N kB" of /proc/self/status, in bytes; 0 if not there. */
uint64_t status_read(const char *key);
/* The same, for who has to know: a file that can't be read is an error, with a text. */
int status_get(const char *key, uint64_t *ret_bytes);

/* 1: that capability of linux/capability.h is in this thread's effective set. As above. */
int capable_get(uint32_t capability, uint32_t *ret_capable);

/* Likewise of /proc/meminfo: "MemAvailable". */
uint64_t meminfo_read(const char *key);

/* Lines of /proc/self/maps, that is mappings; 0 if not readable. */
uint64_t maps_count(void);

#endif
