/* SPDX-License-Identifier: MIT */
/*
 * Lock budget: the bytes that hm_map_lock() may keep in RAM in all, and the locks that give way.
 *
 * The process has one budget: the smaller of RLIMIT_MEMLOCK and the value of
 * hm_lock_budget_set(). RLIMIT_MEMLOCK does not bind a process with CAP_IPC_LOCK, and also
 * counts bytes that other code in the process has locked. The set budget always binds, and
 * counts only the bytes of hm_map_lock().
 *
 * A lock has a priority from 0, the default, to 7: HM_LOCK_PRIORITY(n) in its flags. If the
 * budget lacks room for a lock, the library unlocks ranges of lower priority, the lowest
 * priority first, and no more bytes than the lock needs. If these ranges together do not
 * suffice, the library unlocks nothing; with HM_LOCK_PARTIAL it unlocks them all, and locks as
 * much as fits. Ranges of the same priority never give way. If a byte is locked again, the flags
 * of the last lock count. With HM_LOCK_ONFAULT the whole range counts, too, from the start.
 *
 * The library counts the unlocked bytes as waiting: hm_map_info.lock_waiting and struct
 * hm_lock_budget report them, and hm_lock_restore() locks them again when the budget has room.
 *
 * Blocks that the handler has replaced (hetmap/guard.h) are no longer locked, and do not wait.
 * Counters include these blocks until the next call that locks, changes the map, or asks for
 * the budget.
 */
#ifndef HETMAP_LOCK_H
#define HETMAP_LOCK_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Number of priorities: HM_LOCK_PRIORITY takes 0 to this number - 1. */
#define HM_LOCK_PRIORITIES 8

#define HM_LOCK_NO_BUDGET UINT64_MAX

struct hm_lock_budget {
	uint32_t struct_size;
	uint32_t privileged;    /* 1: CAP_IPC_LOCK is effective; see below */
	uint64_t limit;         /* RLIMIT_MEMLOCK; UINT64_MAX: none */
	uint64_t set;           /* value of hm_lock_budget_set(); HM_LOCK_NO_BUDGET: none */
	uint64_t kernel_locked; /* bytes of the process, as the kernel counts them (VmLck) */
	uint64_t used;          /* bytes locked by hm_map_lock(): the sum of used_by */
	uint64_t room;          /* bytes that fit now, without unlocking any range */
	uint64_t waiting;       /* bytes unlocked for other locks: the sum of waiting_by */
	uint64_t used_by[HM_LOCK_PRIORITIES];
	uint64_t waiting_by[HM_LOCK_PRIORITIES];
	uint64_t evictions;     /* ranges unlocked for other locks, since the start */
	uint64_t evicted_bytes; /* bytes of these ranges */
};

/**
 * hm_lock_budget_set - limit the bytes that hm_map_lock() may keep in RAM in all
 * @bytes: [in] bytes, from 0; HM_LOCK_NO_BUDGET, the initial value: RLIMIT_MEMLOCK alone
 *
 * If more bytes are locked now, the library unlocks ranges until the rest fits, the lowest
 * priority first. They wait for hm_lock_restore(), and no warning reports them. A fork child
 * starts with its parent's budget, and with none of it in use.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EBUSY: maps with locks are being changed, or the kernel does not unlock them, and their
 *           ranges can't give way; the budget is unchanged.
 */
HM_API int hm_lock_budget_set(uint64_t bytes);

/**
 * hm_lock_budget_query - report limits, locked bytes and waiting bytes
 * @ret_budget: [in,out] the caller must set struct_size; filled on success
 *
 * privileged has the value that /proc/self/status gives. In a user namespace the kernel does
 * not honour the capability [capabilities(7)]. In that case RLIMIT_MEMLOCK binds all the same,
 * and the reported room is larger than the real room.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG:  struct_size is larger than this library knows.
 *   -ENOENT: /proc is not mounted; mount it.
 *   -EMFILE: the process has no descriptor left to open /proc/self/status.
 *   -ENFILE: the system has no open file left for /proc/self/status.
 *   -EIO:    /proc/self/status can't be read.
 */
HM_API int hm_lock_budget_query(struct hm_lock_budget *ret_budget);

/**
 * hm_lock_restore - lock waiting ranges again, as far as the budget has room
 * @ret_locked: [out, optional] bytes that this call locked again
 *
 * Starts with the highest priority, locks each range from its start on, and unlocks no range.
 * Ranges of maps that another thread is changing, and bytes that cannot be locked, go on waiting.
 *
 * Thread safety: any thread.
 *
 * Returns: 0, always.
 */
HM_API int hm_lock_restore(uint64_t *ret_locked);

#ifdef __cplusplus
}
#endif

#endif
