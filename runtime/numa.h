/* SPDX-License-Identifier: MIT */
/* NUMA placement of maps, by libnuma's mbind(2). */
#ifndef HETMAP_NUMA_POLICY_H
#define HETMAP_NUMA_POLICY_H

#include <stdint.h>

/* -EINVAL, -EOPNOTSUPP: a mode or nodes that this machine has not. */
int numa_check(uint32_t mode, uint64_t nodes);

/* Before the first touch of the pages. @mode: enum hm_numa_mode. */
int numa_apply(void *address, uint64_t length, uint32_t mode, uint64_t nodes);

#endif
