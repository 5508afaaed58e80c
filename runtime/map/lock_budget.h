/* SPDX-License-Identifier: MIT */
/* Bytes that hm_map_lock() holds in all, by priority: counts them, and makes room for more. */
#ifndef HETMAP_LOCK_BUDGET_H
#define HETMAP_LOCK_BUDGET_H

#include "core/core.h"

/* Values of hm_map.locked: 0 without a lock, otherwise a priority and these bits: */
#define LOCK_KEPT 1u    /* always set */
#define LOCK_ONFAULT 2u /* pages are kept once they are touched */
#define LOCK_WAITING 4u /* unlocked for a higher priority: noted, not held */
#define LOCK_PRIORITY_SHIFT 8

static inline bool lock_holds(uint32_t value)
{
	return value && !(value & LOCK_WAITING);
}

static inline uint32_t lock_priority(uint32_t value)
{
	return value >> LOCK_PRIORITY_SHIFT;
}

struct lock_sums {
	uint64_t held[HM_LOCK_PRIORITIES];
	uint64_t waiting[HM_LOCK_PRIORITIES];
};

/* Sums of [offset, offset + length) of @locked, which may be NULL. */
void lock_sum(const struct rangemap *locked, uint64_t offset, uint64_t length,
	      struct lock_sums *ret_sums);

/*
 * Takes bytes that fault handlers have replaced out of the sums, since handlers can't; skips
 * maps that are being changed. The caller must hold no lock, as a map's last reference may go
 * here.
 */
void lock_budget_look(void);

/*
 * Replaces @from, a part of the process's locks, by @to, for locks of @map. False: the budget
 * lacks *ret_short bytes, and the sums are unchanged.
 */
bool lock_budget_take(struct hm_map *map, const struct lock_sums *from,
		      const struct lock_sums *to, uint64_t *ret_short);
/*
 * Replaces @from by @to without a look at the budget: fewer bytes are locked, or former locks
 * hold again.
 */
void lock_budget_note(struct hm_map *map, const struct lock_sums *from,
		      const struct lock_sums *to);

/*
 * A request to unlock ranges of priorities below @priority. Locks of @map in [offset, offset +
 * length) stay.
 */
struct lock_eviction {
	uint32_t priority;
	uint64_t need; /* bytes */
	const struct hm_map *map;
	uint64_t offset, length;
	struct lock_sums own; /* the locks that stay */
	uint64_t freed;       /* [out] bytes */
	uint32_t ranges;      /* [out] */
	bool busy;            /* [out] a map with locks was being changed */
};

/*
 * Unlocks ranges until eviction->need bytes are free or no range is left. Only tries the change
 * locks of maps, so the caller may hold one, but not that of a map that must give way.
 */
void lock_evict(struct lock_eviction *eviction);

/* Bytes that lock_evict() could free, if no map is being changed. */
uint64_t lock_evictable(const struct lock_eviction *eviction);

/*
 * Sets the sentence about a shortage of @missing bytes, of the budget or of RLIMIT_MEMLOCK: the
 * limit, and the holders with their bytes. Returns @r.
 */
int lock_budget_explain(int r, uint64_t wanted, uint64_t missing, bool by_budget);

void lock_budget_fork_child(void);

/* hm_lock_restore() without its door. */
int lock_restore(uint64_t *ret_locked);

/* ---- lock.c, for lock_budget.c ---- */

/* Caller holds map->change. */

/* Unlocks [offset, offset + length), all of value @value, and marks it as waiting. */
int lock_give_way(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t value);

/*
 * Locks waiting ranges of @priority again, as far as there is room; adds their bytes to
 * *locked.
 */
void lock_again_waiting(struct hm_map *map, uint32_t priority, uint64_t *locked);

#endif
