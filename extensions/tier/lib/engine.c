// SPDX-License-Identifier: MIT
/*
 * libpmem2 writes bytes of a log, and makes them last: it has the fastest copies for persistent
 * memory, and knows which instruction or system call each unit needs [libpmem2(7)].
 */
#include "engine.h"

#include <errno.h>
#include <libpmem2.h>
#include <stdbool.h>
#include <stdlib.h>

struct pmem_engine {
	struct hm_map *map;
	const char *base;
	bool pages;
	struct pmem2_source *source;
	struct pmem2_map *mapping;
	pmem2_memcpy_fn copy;
	pmem2_flush_fn flush;
	pmem2_drain_fn drain;
};

/* Indexed by enum hm_persist. */
static const enum pmem2_granularity granularities[] = {
	[HM_PERSIST_PAGE] = PMEM2_GRANULARITY_PAGE,
	[HM_PERSIST_LINE] = PMEM2_GRANULARITY_CACHE_LINE,
	[HM_PERSIST_BYTE] = PMEM2_GRANULARITY_BYTE,
};

static void store(void *user, void *to, const void *from, size_t length)
{
	const struct pmem_engine *engine = user;

	engine->copy(to, from, length, PMEM2_F_MEM_NOFLUSH);
}

/* The function for pages has no result, and msync(2) may fail: the library's call says so. */
static int flush(void *user, const void *address, size_t length)
{
	const struct pmem_engine *engine = user;

	if (engine->pages)
		return hm_map_persist(engine->map,
				      (uint64_t)((const char *)address - engine->base), length);
	engine->flush(address, length);
	return 0;
}

static int fence(void *user)
{
	const struct pmem_engine *engine = user;

	engine->drain();
	return 0;
}

const struct log_engine pmem_engine_ops = { store, flush, fence };

int pmem_engine_make(struct hm_map *map, const struct hm_map_info *info, uint32_t persist,
		     struct pmem_engine **ret_engine, const char **ret_text)
{
	struct pmem_engine *engine = calloc(1, sizeof(*engine));
	int r;

	*ret_text = "no memory";
	if (!engine)
		return -ENOMEM;
	engine->map = map;
	engine->base = info->address;
	engine->pages = persist == HM_PERSIST_PAGE;
	r = pmem2_source_from_anon(&engine->source, info->length);
	if (r)
		goto err_free;
	r = pmem2_map_from_existing(&engine->mapping, engine->source, info->address,
				    info->length, granularities[persist]);
	if (r)
		goto err_source;
	engine->copy = pmem2_get_memcpy_fn(engine->mapping);
	engine->flush = pmem2_get_flush_fn(engine->mapping);
	engine->drain = pmem2_get_drain_fn(engine->mapping);
	*ret_engine = engine;
	return 0;

err_source:
	pmem2_source_delete(&engine->source);
err_free:
	*ret_text = pmem2_errormsg();
	free(engine);
	/* Its own errors are numbers below all of the system's. */
	return r > -4096 ? r : -EINVAL;
}

void pmem_engine_end(struct pmem_engine *engine)
{
	if (!engine)
		return;
	pmem2_map_delete(&engine->mapping);
	pmem2_source_delete(&engine->source);
	free(engine);
}
