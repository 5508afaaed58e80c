// SPDX-License-Identifier: MIT
/* Makes pools for tests, and checks that their numbers add up. */
#include "pool/pool_support.h"

#include <stdlib.h>

struct hm_pool *pool_make(const char *name, uint64_t limit, uint64_t block_size)
{
	struct hm_pool *pool;
	AUTO(hm_device) *device = rig_device(name);

	CHECK_OK_FATAL(hm_pool_create(device,
				      DESC(hm_pool_desc, .name = "tested", .limit = limit,
					   .block_size = block_size),
				      &pool));
	return pool;
}

struct hm_pool_info pool_info(struct hm_pool *pool)
{
	struct hm_pool_info info = { .struct_size = sizeof(info) };

	CHECK_OK(hm_pool_query(pool, &info));
	CHECK_EQUAL(info.live + info.rounding + info.cached + info.busy + info.unused,
		    info.held);
	CHECK(info.largest <= info.unused && info.held <= info.held_peak);
	/* No number is below 0, which would be a very large one. */
	CHECK(info.live <= info.held && info.rounding <= info.held &&
	      info.allocations <= info.held);
	return info;
}

void *pool_take(struct hm_pool *pool, uint64_t size)
{
	void *pointer = NULL;

	CHECK_OK_FATAL(hm_pool_alloc(pool, size, 0, &pointer));
	return pointer;
}

unsigned int pool_rounds(void)
{
	const char *text = getenv("HETMAP_ROUNDS");

	return text && atoi(text) > 0 ? (unsigned int)atoi(text) : 1;
}
