/* SPDX-License-Identifier: MIT */
/* State of a map's blocks that a handler may replace. fault/repair.h says how it changes. */
#ifndef HETMAP_MAP_REPAIR_H
#define HETMAP_MAP_REPAIR_H

#include "core/core.h"

/* State of a block: one word for each 2 MiB of a map's span. */
enum block_state {
	BLOCK_OK = 0,
	BLOCK_CHANGING, /* a fault returns, so that the access is retried */
	BLOCK_REPAIRING,
	BLOCK_POISONED, /* reported by the next fence or bracket */
	/*
	 * Together with one of the first three: the block was POISONED, and is reported as such,
	 * but shows its buffer again, at least in part: the lost pages are to be replaced once
	 * more.
	 */
	BLOCK_SUSPECT = 1u << 2,
	/*
	 * Locks ended with the pages replaced there, and hm_map.locked still lists them: see
	 * resident_forget_replaced().
	 */
	BLOCK_UNNOTED = 1u << 3,
	BLOCK_PHASES = 3, /* the bits of the first four */
	/*
	 * For a SUSPECT block, the bits from here on count its first pages that are still the
	 * handler's replacement and not the buffer's (REPAIR_FRONT_PAGE).
	 */
	BLOCK_FRONT_SHIFT = 8,
};

struct block_states {
	struct block_states *before; /* states of a shorter span: see repair_prepare() */
	uint64_t n;
	_Atomic uint32_t state[];
};

/*
 * Made for all maps by the first handler, and for each new map while there is one. A map keeps it
 * to its end.
 */
struct map_repair {
	_Atomic(struct block_states *) blocks; /* NULL: all are BLOCK_OK. Set with change held */
	_Atomic uint32_t restored; /* blocks that recoveries have brought back so far */
	_Atomic uint32_t replaced; /* blocks that handlers have replaced so far */
	uint32_t seen;             /* buffer->lock: replaced, when a recovery began to wait */
	_Atomic uint32_t told;     /* replaced, as the generation and callbacks have told */
	_Atomic bool unnoted;      /* some of blocks may be BLOCK_UNNOTED. Set by handlers */
};

static inline struct map_repair *map_repair(const struct hm_map *map)
{
	return atomic_load_explicit(&map->repair, memory_order_acquire);
}

/* NULL: no block was ever replaced, and no handler can replace one. */
static inline struct block_states *repair_states(const struct hm_map *map)
{
	struct map_repair *repair = map_repair(map);

	return repair ? atomic_load_explicit(&repair->blocks, memory_order_acquire) : NULL;
}

static inline uint32_t repair_n_restored(const struct hm_map *map)
{
	struct map_repair *repair = map_repair(map);

	return repair ? atomic_load(&repair->restored) : 0;
}

/* Notes the number of replaced blocks. Caller holds buffer->lock. */
static inline void repair_see(struct hm_map *map)
{
	struct map_repair *repair = map_repair(map);

	if (repair)
		repair->seen = atomic_load(&repair->replaced);
}

/* Has no block been replaced since? */
static inline bool repair_was_seen(const struct hm_map *map)
{
	struct map_repair *repair = map_repair(map);

	return !repair || atomic_load(&repair->replaced) == repair->seen;
}

/* May some block be BLOCK_UNNOTED? */
static inline bool repair_is_unnoted(const struct hm_map *map)
{
	struct map_repair *repair = map_repair(map);

	return repair && atomic_load_explicit(&repair->unnoted, memory_order_relaxed);
}

#endif
