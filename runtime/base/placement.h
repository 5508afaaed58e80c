/* SPDX-License-Identifier: MIT */
/* NUMA placement of maps, by libnuma's mbind(2). */
#ifndef HETMAP_PLACEMENT_H
#define HETMAP_PLACEMENT_H

#include <stdint.h>

/* -EINVAL, -EOPNOTSUPP: a mode or nodes that this machine has not. */
int placement_check(uint32_t mode, uint64_t nodes);

/* Before the first touch of the pages. @mode: enum hm_numa_mode. */
int placement_apply(void *address, uint64_t length, uint32_t mode, uint64_t nodes);

#endif
