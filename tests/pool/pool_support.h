/* SPDX-License-Identifier: MIT */
/* Pools to test: how they are made and looked at. */
#ifndef HETMAP_TESTS_POOL_SUPPORT_H
#define HETMAP_TESTS_POOL_SUPPORT_H

#include "lib/support.h"

/* A pool called "tested", which holds its device; 0: no limit, blocks as the device likes. */
struct hm_pool *pool_make(const char *device, uint64_t limit, uint64_t block_size);
/* Its numbers, which add up. For pools that no other thread uses. */
struct hm_pool_info pool_info(struct hm_pool *pool);
/* Allocates, or abandons the test. */
void *pool_take(struct hm_pool *pool, uint64_t size);
/* The environment's HETMAP_ROUNDS; 1 without. */
unsigned int pool_rounds(void);

#endif
