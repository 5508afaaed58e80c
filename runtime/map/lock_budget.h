/* SPDX-License-Identifier: MIT */
/* What hm_map_lock() holds in all, by priority: counted, and made room in. */
#ifndef HETMAP_LOCK_BUDGET_H
#define HETMAP_LOCK_BUDGET_H

#include "core/core.h"

/* Values of hm_map.locked; 0: no lock. A priority, and */
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

/* Of [offset, offset + length) of @locked, which may be NULL. */
void lock_sum(const struct rangemap *locked, uint64_t offset, uint64_t length,
	      struct lock_sums *ret_sums);

/*
 * Handlers enter nothing: takes out what they have replaced of all maps but those that are
 * being changed. With no lock held, as a map's last reference may go here.
 */
void lock_budget_look(void);

/*
 * Enters that what was @from of the process's locks, those of @map, is @to. False: that is more
 * than the budget has room for, by *ret_short bytes; nothing was entered.
 */
bool lock_budget_take(struct hm_map *map, const struct lock_sums *from,
		      const struct lock_sums *to, uint64_t *ret_short);
/* The same whatever the budget: less is locked, or what was is again. */
void lock_budget_note(struct hm_map *map, const struct lock_sums *from,
		      const struct lock_sums *to);

/* Of those below @priority; what @map holds of [offset, offset + length) stays. */
struct lock_eviction {
	uint32_t priority;
	uint64_t need; /* bytes */
	const struct hm_map *map;
	uint64_t offset, length;
	struct lock_sums own; /* what that is */
	uint64_t freed;       /* [out] bytes */
	uint32_t ranges;      /* [out] */
	bool busy;            /* [out] a map with locks was being changed */
};

/*
 * Unlocks until that is enough, or nothing is left. Takes other maps' change by
 * trying only, so the caller may hold one; he holds none that is to give way.
 */
void lock_evict(struct lock_eviction *eviction);

/* Bytes that lock_evict() could free, but for maps that are being changed. */
uint64_t lock_evictable(const struct lock_eviction *eviction);

/*
 * The sentence about a shortage of @missing bytes, of the budget or of RLIMIT_MEMLOCK:
 * the limit, and who has how much. Returns @r.
 */
int lock_budget_explain(int r, uint64_t wanted, uint64_t missing, bool by_budget);

void lock_budget_fork_child(void);

/* ---- lock.c, for lock_budget.c ---- */

/* Caller holds map->change. */

/* Unlocks [offset, offset + length), all of value @value, which waits from then on. */
int lock_give_way(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t value);

/* Locks again what waits of @priority, as far as there is room: bytes in *locked. */
void lock_again_waiting(struct hm_map *map, uint32_t priority, uint64_t *locked);

#endif
