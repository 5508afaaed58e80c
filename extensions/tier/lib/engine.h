/* SPDX-License-Identifier: MIT */
/* libpmem2 as the engine of a log. */
#ifndef HETMAP_TIER_ENGINE_H
#define HETMAP_TIER_ENGINE_H

#include "log_core.h"

struct pmem_engine;

extern const struct log_engine pmem_engine_ops;

/*
 * Describes the map to libpmem2, which @info is of, and whose unit is @persist, enum hm_persist. 0,
 * or a negative errno; *ret_text is libpmem2's reason then. The caller keeps the map.
 */
int pmem_engine_make(struct hm_map *map, const struct hm_map_info *info, uint32_t persist,
		     struct pmem_engine **ret_engine, const char **ret_text);
void pmem_engine_end(struct pmem_engine *engine);

#endif
