/* SPDX-License-Identifier: MIT */
/*
 * Lock budget: how much hm_map_lock() may keep in RAM in all, and who gives way.
 *
 * One for the process: the smaller of RLIMIT_MEMLOCK and what hm_lock_budget_set()
 * says. RLIMIT_MEMLOCK does not bind a process with CAP_IPC_LOCK, and counts what
 * others in the process have locked, too; the set budget always binds, and counts
 * hm_map_lock()'s bytes only.
 *
 * A lock has a priority, HM_LOCK_PRIORITY(n) in its flags, 0 (the default) to 7. Where
 * the budget lacks room for one, ranges of lower priority are unlocked for it, the
 * lowest first, as many bytes as it needs, and all of that only if it suffices (with
 * HM_LOCK_PARTIAL: as far as it goes). They are counted and wait: hm_map_info.lock_waiting
 * and hm_lock_budget have the bytes, and hm_lock_restore() locks them again as room
 * comes. What has the same priority never gives way.
 *
 * Blocks that the handler has replaced (hetmap/guard.h) are not locked any more, nor do
 * they wait. Counters have them until the next call that locks, changes the map, or asks for
 * the budget.
 */
#ifndef HETMAP_LOCK_H
#define HETMAP_LOCK_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values of HM_LOCK_PRIORITY: 0 to this - 1. */
#define HM_LOCK_PRIORITIES 8

#define HM_LOCK_NO_BUDGET UINT64_MAX

struct hm_lock_budget {
	uint32_t struct_size;
	uint32_t privileged;    /* 1: CAP_IPC_LOCK is effective; see below */
	uint64_t limit;         /* RLIMIT_MEMLOCK; UINT64_MAX: none */
	uint64_t set;           /* hm_lock_budget_set()'s; HM_LOCK_NO_BUDGET */
	uint64_t kernel_locked; /* the process's, as the kernel counts (VmLck) */
	uint64_t used;          /* by hm_map_lock(): the sum of used_by */
	uint64_t room;          /* bytes that fit now with nobody giving way */
	uint64_t waiting;       /* unlocked for others: the sum of waiting_by */
	uint64_t used_by[HM_LOCK_PRIORITIES];
	uint64_t waiting_by[HM_LOCK_PRIORITIES];
	uint64_t evictions;     /* ranges unlocked for others, since the start */
	uint64_t evicted_bytes; /* likewise */
};

/**
 * hm_lock_budget_set - how much hm_map_lock() may keep in RAM in all
 * @bytes: [in] from 0; HM_LOCK_NO_BUDGET: RLIMIT_MEMLOCK alone (so it is at first)
 *
 * Where more is locked now, ranges give way until it fits, the lowest priority first.
 * A fork child starts with its parent's budget, and nothing of it in use.
 *
 * Errors: -EBUSY maps with locks are being changed, or the kernel does not unlock them,
 * so that they can't give way; the budget is as it was.
 */
HM_API int hm_lock_budget_set(uint64_t bytes);

/**
 * hm_lock_budget_query - limits, what is locked, what waits
 * @ret_budget: [in,out] struct_size set by the caller; filled on success
 *
 * privileged says what /proc/self/status does. In a user namespace the kernel does not
 * honour the capability [capabilities(7)]: then RLIMIT_MEMLOCK holds all the same, and
 * room is more than there is.
 *
 * Errors: -E2BIG; -ENOENT /proc is not mounted; -EMFILE, -ENFILE, -EIO that file can't be read.
 */
HM_API int hm_lock_budget_query(struct hm_lock_budget *ret_budget);

/**
 * hm_lock_restore - lock again what was unlocked for others, as far as there is room
 * @ret_locked: [out, optional] bytes that are locked again
 *
 * The highest priority first, and nobody gives way. Ranges of maps that another
 * thread is changing, and what finds no room, wait on.
 *
 * Returns: 0, also where nothing waits or nothing fits.
 */
HM_API int hm_lock_restore(uint64_t *ret_locked);

#ifdef __cplusplus
}
#endif

#endif
