/* SPDX-License-Identifier: MIT */
/* NUMA placement of maps, by libnuma's mbind(2). */
#ifndef HETMAP_PLACEMENT_H
#define HETMAP_PLACEMENT_H

#include <stdint.h>

/* Errors, for a mode or nodes that this machine does not have: -EINVAL, -EOPNOTSUPP. */
int placement_check(uint32_t mode, uint64_t nodes);

/* Must be called before the first touch of the pages. @mode: enum hm_numa_mode. */
int placement_apply(void *address, uint64_t length, uint32_t mode, uint64_t nodes);

#endif
