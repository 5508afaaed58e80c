// SPDX-License-Identifier: MIT
/*
 * Keeps pages in RAM (hm_map_lock): locks, unlocks, and locks again where pages are new.
 * lock_budget.c counts the total, and decides which ranges give way.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/buffer.h"
#include "map/lock_budget.h"
#include "map/map.h"
#include "tell/probe.h"
#include "map/remap.h"
#include "fault/repair.h"
#include "map/resident.h"
#include "base/rlimits.h"
#include "base/sys.h"

/* Rounds of making room for one lock while other locks take it. */
#define LOCK_ROUNDS 8

struct lock_request {
	struct hm_map *map;
	uint64_t offset, length; /* whole pages */
	uint32_t value;          /* of hm_map.locked */
	uint64_t wanted;         /* bytes of these not locked yet */
	struct lock_sums own;    /* [out] their locks so far, which give no way to themselves */
	uint64_t missing;        /* [out] bytes that a limit lacks; 0: another failure */
	bool by_budget;          /* [out] the limit is the budget, not RLIMIT_MEMLOCK */
	bool told;               /* [out] the error has its text already */
	uint64_t start;          /* of trace_start() */
};

uint64_t resident_locked_in(const struct hm_map *map, uint64_t offset, uint64_t length)
{
	struct lock_sums sums;
	uint64_t bytes = 0;
	uint32_t i;

	lock_sum(map->locked, offset, length, &sums);
	for (i = 0; i < HM_LOCK_PRIORITIES; i++)
		bytes += sums.held[i];
	return bytes;
}

static int count_held(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	uint64_t *bytes = user;

	(void)offset;
	if (!lock_holds(value))
		return 1;
	*bytes += length;
	return 0;
}

/* Bytes locked from the first byte of the range on, without a gap. */
static uint64_t locked_run(const struct hm_map *map, uint64_t offset, uint64_t length)
{
	uint64_t bytes = 0;

	if (map->locked && length)
		rangemap_each(map->locked, offset, length, count_held, &bytes);
	return bytes;
}

uint64_t resident_locked_bytes(const struct hm_map *map)
{
	return resident_locked_in(map, 0, map->span);
}

/* ---- the system calls ---- */

static int unlock_if_not(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	if (!lock_holds(value))
		sys_munlock((char *)user + offset, length);
	return 0;
}

/*
 * A failed mlock2() may have marked a part of the range: unlocks the pages that were not
 * locked.
 */
static void restore_locks(struct hm_map *map, uint64_t offset, uint64_t length)
{
	if (map->locked)
		rangemap_each(map->locked, offset, length, unlock_if_not, map->address);
	else
		sys_munlock(map->address + offset, length);
}

struct again {
	const struct hm_map *map;
	char *address;
};

static int is_closed(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	(void)user, (void)offset, (void)length;
	return !(value & HM_READ);
}

static int lock_run(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	const struct again *again = user;
	int r;

	if (!lock_holds(value))
		return 0;
	r = sys_mlock2(again->address + offset, length,
		       value & LOCK_ONFAULT ? MLOCK_ONFAULT : 0);
	/*
	 * Rights were taken away since the lock: these pages come in when the rights are back.
	 */
	if (r == -ENOMEM && rangemap_each(again->map->rights, offset, length, is_closed, NULL))
		r = sys_mlock2(again->address + offset, length, MLOCK_ONFAULT);
	return r;
}

static int explain_lock(int r, uint64_t length, uint64_t wanted)
{
	uint64_t limit, locked, room = rlimits_lockable(&limit, &locked);

	if (r == -EPERM)
		return err_set(r,
			       "RLIMIT_MEMLOCK is 0 and the process has not CAP_IPC_LOCK: "
			       "raise it to %" PRIu64 " bytes at least (ulimit -l, "
			       "LimitMEMLOCK= of the service)",
			       locked + wanted);
	if ((r == -ENOMEM || r == -EAGAIN) && room < wanted)
		return lock_budget_explain(-ENOMEM, wanted, wanted - room, false);
	if (r == -EAGAIN)
		return err_set(r,
			       "locking %" PRIu64
			       " bytes: there was no memory for all of their "
			       "pages just now (memory.max of the control group, or the "
			       "machine's): try again later, or pass HM_LOCK_ONFAULT",
			       length);
	/* The limit is not to blame, but the number of mappings, where the range is part of one. */
	return rlimits_explain_map(r, length, 0, "locking");
}

/*
 * Locks the request's pages, or none of them.
 * -ENOSPC: the budget has no room.
 * Other errors are the system call's. Sets no text, unless request->told is true.
 */
static PROBE_SITE int lock_all(struct lock_request *request)
{
	struct rangemap *base = request->map->locked, *locked;
	uint64_t limit, kernel_locked, room;
	struct hm_map *map = request->map;
	struct lock_sums before, after;
	int r;

	request->wanted =
		request->length - resident_locked_in(map, request->offset, request->length);
	lock_sum(base, request->offset, request->length, &request->own);
	request->missing = 0;
	request->by_budget = false;
	request->told = true;
	if (!base) {
		base = rangemap_create(0, 0);
		if (!base)
			return err_set(-ENOMEM, "no memory to note a locked range");
	}
	locked = rangemap_set(base, request->offset, request->length, request->value);
	if (!locked) {
		r = err_set(-ENOMEM, "no memory to note a locked range");
		goto err_base;
	}
	request->told = false;
	lock_sum(base, 0, map->span, &before);
	lock_sum(locked, 0, map->span, &after);
	if (!lock_budget_take(map, &before, &after, &request->missing)) {
		request->by_budget = true;
		r = -ENOSPC;
		goto err_locked;
	}
	r = sys_mlock2(map->address + request->offset, request->length,
		       request->value & LOCK_ONFAULT ? MLOCK_ONFAULT : 0);
	if (r) {
		restore_locks(map, request->offset, request->length);
		room = rlimits_lockable(&limit, &kernel_locked);
		if ((r == -ENOMEM || r == -EAGAIN) && room < request->wanted)
			request->missing = request->wanted - room;
		goto err_budget;
	}
	free(base);
	map->locked = locked;
	probe_lock(map, request->offset, request->length, lock_priority(request->value),
		   request->start);
	return 0;

err_budget:
	lock_budget_note(map, &after, &before);
err_locked:
	free(locked);
err_base:
	if (base != map->locked)
		free(base);
	return r;
}

/* ---- as much as fits ---- */

/* Bytes from the start on that the limits allow; bytes locked already cost nothing more. */
static uint64_t lockable(const struct lock_request *request)
{
	uint64_t page = request->map->buffer->page_size, limit, locked, part, next = 0, room;
	uint64_t length = request->length, lacks = request->missing;
	const struct hm_map *map = request->map;

	/* RLIMIT_MEMLOCK need not bind, unless a failure of the system call says so. */
	room = request->by_budget ? request->wanted - min_u64(lacks, request->wanted) :
				    rlimits_lockable(&limit, &locked);
	if (room >= length)
		return length;
	do {
		part = next;
		next = min_u64(round_down(room, page) +
				       resident_locked_in(map, request->offset, part),
			       length);
		next += locked_run(map, request->offset + next, length - next);
	} while (next > part);
	return part;
}

/*
 * Locks as much as the limits allow: that much at first, then half of it while other locks race
 * for the room.
 */
static int lock_part(const struct lock_request *all, uint64_t *ret_locked)
{
	uint64_t page = all->map->buffer->page_size, part;
	struct lock_request request = *all;
	int r;

	for (part = lockable(all); part; part = round_down(part / 2, page)) {
		request.length = part;
		r = lock_all(&request);
		if (!r)
			break;
		if (r != -ENOMEM && r != -EAGAIN && r != -EPERM && r != -ENOSPC)
			return r;
	}
	/* Bytes behind that part count, too, if they were locked before. */
	*ret_locked = locked_run(all->map, all->offset, all->length);
	return 0;
}

/* ---- hm_map_lock ---- */

/* Checks the map and the range. Caller holds map->change. */
static int check_lock(struct hm_map *map, uint64_t offset, uint64_t length)
{
	int r;

	r = map_check_pages(map, offset, length, "hm_map_lock");
	if (r)
		return r;
	if (!(map->buffer->caps & HM_CAP_LOCK))
		return err_set(-EOPNOTSUPP,
			       "%s: mlock() does nothing for memory of this kind, "
			       "though it answers 0 (%s)",
			       map->buffer->name,
			       buffer_is(map->buffer, MEMORY_HUGE) ?
				       "huge pool pages are never swapped" :
				       "device memory");
	if (!map_allows(map, offset, length, HM_READ))
		return err_set(-EACCES,
			       "hm_map_lock: some of %" PRIu64 " bytes from %" PRIu64 " on "
			       "have no access, and pages that can't be read can't be brought "
			       "in",
			       length, offset);
	return 0;
}

/* One try: locks the request's pages or, with @part, as many as possible. */
static int with_change(struct lock_request *request, uint64_t offset, uint64_t length,
		       bool part, uint64_t *ret_locked)
{
	struct hm_map *map = request->map;
	int r;

	request->told = true;
	r = remap_lock(map);
	if (r)
		return r;
	r = check_lock(map, offset, length);
	if (r)
		goto out;
	request->offset = offset;
	request->length = map_pages(map, offset, length);
	if (part) {
		r = lock_part(request, ret_locked);
	} else {
		r = lock_all(request);
		*ret_locked = request->length;
	}
out:
	remap_unlock(map);
	return r;
}

#define GAVE_WAY "%" PRIu64 " bytes in %u ranges of lower priority were unlocked"

/* True: some room was made, so the caller must try again. */
static bool make_room(const struct lock_request *request, uint32_t flags,
		      struct lock_eviction *total)
{
	struct lock_eviction eviction = {
		.priority = lock_priority(request->value),
		.need = request->missing,
		.map = request->map,
		.offset = request->offset,
		.length = request->length,
		.own = request->own,
	};

	if (!eviction.priority ||
	    (!(flags & HM_LOCK_PARTIAL) && lock_evictable(&eviction) < eviction.need))
		return false;
	lock_evict(&eviction);
	total->freed += eviction.freed;
	total->ranges += eviction.ranges;
	if (eviction.freed < eviction.need && eviction.busy)
		sched_yield();
	return eviction.freed || eviction.busy;
}

static int explain_request(const struct lock_request *request, int r)
{
	if (r == -ENOSPC)
		return lock_budget_explain(-ENOMEM, request->wanted, request->missing, true);
	return explain_lock(r, request->length, request->wanted);
}

/* May a smaller lock help where all of it failed with @r? */
static bool may_be_partial(int r)
{
	return r == -ENOMEM || r == -EPERM || r == -EAGAIN;
}

/* Locks the ranges again that gave way in vain. Returns @r, with its text. */
static int give_back(int r)
{
	err_hold();
	lock_restore(NULL);
	err_release();
	return r;
}

int resident_lock(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags,
		  uint64_t *ret_locked)
{
	struct lock_request request = {
		.map = map,
		.value = LOCK_KEPT | (flags & HM_LOCK_ONFAULT ? LOCK_ONFAULT : 0) |
			 (flags >> 16) << LOCK_PRIORITY_SHIFT,
		.start = trace_start(),
	};
	struct lock_eviction gone = { 0 };
	uint32_t round = 0;
	int r;

	lock_budget_look();
	do {
		r = with_change(&request, offset, length, false, ret_locked);
	} while (r && !request.told && request.missing && ++round < LOCK_ROUNDS &&
		 make_room(&request, flags, &gone));
	if (r && !request.told)
		r = explain_request(&request, r);
	if (!request.told && (flags & HM_LOCK_PARTIAL) && may_be_partial(r)) {
		r = with_change(&request, offset, length, true, ret_locked);
		if (!r) /* the text says why it is less */
			err_survive();
	}
	if (r && gone.freed)
		return give_back(r);
	if (gone.freed)
		err_warn(GAVE_WAY, gone.freed, gone.ranges);
	return r;
}

/* ---- locked again ---- */

int resident_lock_again(const struct hm_map *map, char *address)
{
	struct again again = { .map = map, .address = address };
	uint64_t bytes;
	int r;

	if (!map->locked)
		return 0;
	r = rangemap_each(map->locked, 0, map->span, lock_run, &again);
	if (!r)
		return 0;
	bytes = resident_locked_bytes(map);
	return explain_lock(r, bytes, bytes);
}

struct waiting {
	uint32_t priority;
	uint64_t offset, length; /* [out] */
	uint32_t value;          /* [out] */
};

static int find_waiting(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	struct waiting *waiting = user;

	if (!(value & LOCK_WAITING) || lock_priority(value) != waiting->priority)
		return 0;
	waiting->offset = offset;
	waiting->length = length;
	waiting->value = value;
	return 1;
}

void lock_again_waiting(struct hm_map *map, uint32_t priority, uint64_t *locked)
{
	struct waiting waiting = { .priority = priority };
	uint64_t at, part, end = buffer_pages(map->buffer, map->length);
	struct lock_request request = { .map = map };

	for (at = 0; at < end && map->locked &&
		     rangemap_each(map->locked, at, end - at, find_waiting, &waiting);
	     at = waiting.offset + waiting.length) {
		request.offset = waiting.offset;
		request.length = waiting.length;
		request.value = waiting.value & ~LOCK_WAITING;
		request.start = trace_start();
		part = waiting.length;
		if (lock_all(&request) && lock_part(&request, &part))
			part = 0;
		*locked += part;
	}
}

static PROBE_SITE void tell_unlocked(const struct hm_map *map, uint64_t offset, uint64_t length,
				     uint64_t start)
{
	probe_unlock(map, offset, length, start);
}

int lock_give_way(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t value)
{
	struct lock_sums before = { 0 }, after = { 0 };
	uint64_t start = trace_start();
	struct rangemap *locked;
	int r;

	locked = rangemap_set(map->locked, offset, length, value | LOCK_WAITING);
	if (!locked)
		return -ENOMEM;
	r = sys_munlock(map->address + offset, length);
	if (r) {
		resident_lock_again(map, map->address);
		free(locked);
		return r;
	}
	before.held[lock_priority(value)] = length;
	after.waiting[lock_priority(value)] = length;
	lock_budget_note(map, &before, &after);
	free(map->locked);
	map->locked = locked;
	tell_unlocked(map, offset, length, start);
	return 0;
}

/* ---- hm_map_unlock ---- */

static int has_lock(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	(void)user, (void)offset, (void)length;
	return value != 0;
}

static int unlock_range(struct hm_map *map, uint64_t offset, uint64_t length)
{
	uint64_t start = trace_start();
	struct rangemap *locked;
	int r;

	if (!map->locked || !rangemap_each(map->locked, offset, length, has_lock, NULL))
		return 0;
	locked = rangemap_set(map->locked, offset, length, 0);
	if (!locked)
		return err_set(-ENOMEM, "no memory to note an unlocked range");
	r = sys_munlock(map->address + offset, length);
	if (r) {
		/* munlock() over several mappings may have stopped half way. */
		resident_lock_again(map, map->address);
		free(locked);
		return rlimits_explain_map(r, length, 0, "unlocking");
	}
	resident_note(map, locked);
	tell_unlocked(map, offset, length, start);
	return 0;
}

int resident_unlock(struct hm_map *map, uint64_t offset, uint64_t length)
{
	int r;

	r = remap_lock(map);
	if (r)
		return r;
	r = map_check_pages(map, offset, length, "hm_map_unlock");
	if (!r)
		r = unlock_range(map, offset, map_pages(map, offset, length));
	remap_unlock(map);
	return r;
}

void resident_note(struct hm_map *map, struct rangemap *locked)
{
	struct lock_sums before, after;

	lock_sum(map->locked, 0, map->span, &before);
	lock_sum(locked, 0, map->span, &after);
	lock_budget_note(map, &before, &after);
	free(map->locked);
	map->locked = locked;
}

/* A repair that failed half way has left a part of the range locked. */
static int forget_range(struct hm_map *map, uint64_t offset, uint64_t length)
{
	struct rangemap *locked;
	int r;

	if (!map->locked || !rangemap_each(map->locked, offset, length, has_lock, NULL))
		return 0;
	locked = rangemap_set(map->locked, offset, length, 0);
	if (!locked)
		return -ENOMEM;
	r = sys_munlock(map->address + offset, length);
	if (r) {
		free(locked);
		return r;
	}
	resident_note(map, locked);
	return 0;
}

void resident_forget_each(struct hm_map *map)
{
	repair_each_unnoted(map, forget_range);
}
