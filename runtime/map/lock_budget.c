// SPDX-License-Identifier: MIT
/*
 * The lock budget: counts the bytes that hm_map_lock() holds, by priority, and makes lower
 * priorities give way.
 *
 * The mutex is a leaf: no function is called with it held. Bytes are entered before mlock() is
 * called for them and taken out after munlock(), so two threads together never hold more than
 * the budget.
 */
#include "map/lock_budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "map/map.h"
#include "map/remap.h"
#include "fault/repair.h"
#include "map/resident.h"
#include "base/rlimits.h"
#include "base/smaps.h"

#define CAP_IPC_LOCK_BIT 14 /* linux/capability.h */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects the next one */
static struct {
	uint64_t set;
	struct lock_sums now;
	uint64_t evictions, evicted_bytes;
} budget = { .set = HM_LOCK_NO_BUDGET };

/* ---- sums ---- */

static int add_run(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	struct lock_sums *sums = user;

	(void)offset;
	if (value & LOCK_WAITING)
		sums->waiting[lock_priority(value)] += length;
	else if (value)
		sums->held[lock_priority(value)] += length;
	return 0;
}

void lock_sum(const struct rangemap *locked, uint64_t offset, uint64_t length,
	      struct lock_sums *ret_sums)
{
	memset(ret_sums, 0, sizeof(*ret_sums));
	if (locked)
		rangemap_each(locked, offset, length, add_run, ret_sums);
}

static uint64_t total(const uint64_t bytes[HM_LOCK_PRIORITIES])
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < HM_LOCK_PRIORITIES; i++)
		sum += bytes[i];
	return sum;
}

static void enter_locked(struct hm_map *map, const struct lock_sums *from,
			 const struct lock_sums *to)
{
	uint64_t more = total(to->held) - total(from->held);
	uint32_t i;

	for (i = 0; i < HM_LOCK_PRIORITIES; i++) {
		budget.now.held[i] += to->held[i] - from->held[i];
		budget.now.waiting[i] += to->waiting[i] - from->waiting[i];
	}
	count_add(&map->buffer->counts, COUNT_BYTES_LOCKED, more);
	stats_add(&stats.bytes_locked, more);
}

static void forget_replaced(struct hm_map *map, const void *user)
{
	(void)user;
	if (!repair_is_unnoted(map))
		return;
	/* The thread that changes the map has looked already; the next call looks again. */
	if (pthread_mutex_trylock(&map->change)) {
		repair_note_later(map);
		return;
	}
	if (!map->lost)
		resident_forget_replaced(map);
	remap_unlock(map);
}

void lock_budget_look(void)
{
	if (unlikely(repair_take_unnoted()))
		map_each(NULL, forget_replaced, NULL);
}

bool lock_budget_take(struct hm_map *map, const struct lock_sums *from,
		      const struct lock_sums *to, uint64_t *ret_short)
{
	uint64_t less = total(from->held), more = total(to->held), would;
	bool fits;

	pthread_mutex_lock(&mutex);
	would = total(budget.now.held) - less + more;
	/* A change that adds no bytes always fits: another priority, a smaller lock. */
	fits = more <= less || would <= budget.set;
	if (fits)
		enter_locked(map, from, to);
	else
		*ret_short = min_u64(would - budget.set, more - less);
	pthread_mutex_unlock(&mutex);
	return fits;
}

void lock_budget_note(struct hm_map *map, const struct lock_sums *from,
		      const struct lock_sums *to)
{
	pthread_mutex_lock(&mutex);
	enter_locked(map, from, to);
	pthread_mutex_unlock(&mutex);
}

/* ---- giving way ---- */

/* The first held run of a priority in a part of a map. */
struct held_run {
	uint32_t priority;
	uint64_t offset, length; /* [out] */
	uint32_t value;          /* [out] */
};

static int find_held(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	struct held_run *run = user;

	if (!lock_holds(value) || lock_priority(value) != run->priority)
		return 0;
	run->offset = offset;
	run->length = length;
	run->value = value;
	return 1;
}

/* Unlocks in [from, end) of the map, each run from its end on. */
static void evict_part(struct hm_map *map, uint64_t from, uint64_t end, uint32_t priority,
		       struct lock_eviction *eviction)
{
	struct held_run run = { .priority = priority };
	uint64_t page = map->buffer->page_size, part;

	while (eviction->freed < eviction->need && from < end &&
	       rangemap_each(map->locked, from, end - from, find_held, &run)) {
		from = run.offset + run.length;
		part = min_u64(run.length, round_up(eviction->need - eviction->freed, page));
		if (lock_give_way(map, from - part, part, run.value))
			continue; /* the run stays locked */
		eviction->freed += part;
		eviction->ranges++;
	}
}

struct visit {
	struct lock_eviction *eviction;
	uint32_t priority;
};

static void evict_from(struct hm_map *map, const void *user)
{
	const struct visit *visit = user;
	struct lock_eviction *eviction = visit->eviction;
	bool own = map == eviction->map;

	if (eviction->freed >= eviction->need)
		return;
	/* Only tried, because the lock's holder may wait for a map that the caller holds. */
	if (pthread_mutex_trylock(&map->change)) {
		eviction->busy = true;
		return;
	}
	if (map->locked && !map->lost) {
		evict_part(map, 0, own ? eviction->offset : map->span, visit->priority,
			   eviction);
		if (own)
			evict_part(map, eviction->offset + eviction->length, map->span,
				   visit->priority, eviction);
	}
	remap_unlock(map);
}

void lock_evict(struct lock_eviction *eviction)
{
	struct visit visit = { .eviction = eviction };

	eviction->freed = 0;
	eviction->ranges = 0;
	eviction->busy = false;
	for (; visit.priority < eviction->priority && eviction->freed < eviction->need;
	     visit.priority++)
		map_each(NULL, evict_from, &visit);
	pthread_mutex_lock(&mutex);
	budget.evictions += eviction->ranges;
	budget.evicted_bytes += eviction->freed;
	pthread_mutex_unlock(&mutex);
}

uint64_t lock_evictable(const struct lock_eviction *eviction)
{
	uint64_t bytes = 0;
	uint32_t i;

	pthread_mutex_lock(&mutex);
	for (i = 0; i < eviction->priority; i++)
		bytes +=
			budget.now.held[i] - min_u64(eviction->own.held[i], budget.now.held[i]);
	pthread_mutex_unlock(&mutex);
	return bytes;
}

/* ---- the sentence ---- */

struct holder {
	uint64_t bytes;
	uint32_t maps;
	char name[BUFFER_NAME_MAX];
};

static void find_holder(struct hm_map *map, const void *user)
{
	struct holder *most = *(struct holder *const *)user;
	uint64_t bytes;

	if (pthread_mutex_trylock(&map->change))
		return;
	bytes = map->lost ? 0 : resident_locked_bytes(map);
	most->maps += !!bytes;
	if (bytes > most->bytes) {
		most->bytes = bytes;
		memcpy(most->name, map->buffer->name, sizeof(most->name));
	}
	remap_unlock(map);
}

/* "hm_map_lock() has 12288: priority 0: 4096, 3: 8192; most of it \"model\", 8192" */
static void tell_holders(char *text, size_t size)
{
	struct holder most = { 0 }, *user = &most;
	struct lock_sums now;
	const char *sep = ": priority ";
	size_t n;
	uint32_t i;

	pthread_mutex_lock(&mutex);
	now = budget.now;
	pthread_mutex_unlock(&mutex);
	n = (size_t)snprintf(text, size, "hm_map_lock() has %" PRIu64, total(now.held));
	for (i = 0; i < HM_LOCK_PRIORITIES && n < size; i++) {
		if (!now.held[i])
			continue;
		n += (size_t)snprintf(text + n, size - n, "%s%u: %" PRIu64, sep, i,
				      now.held[i]);
		sep = ", ";
	}
	map_each(NULL, find_holder, &user);
	if (most.bytes && n < size)
		snprintf(text + n, size - n, "; of %u maps \"%s\" has most, %" PRIu64,
			 most.maps, most.name, most.bytes);
}

int lock_budget_explain(int r, uint64_t wanted, uint64_t missing, bool by_budget)
{
	uint64_t limit, locked, set;
	char holders[240], text[2][16];

	rlimits_lockable(&limit, &locked);
	pthread_mutex_lock(&mutex);
	set = budget.set;
	pthread_mutex_unlock(&mutex);
	tell_holders(holders, sizeof(holders));
	if (by_budget)
		return err_set(r,
			       "locking %" PRIu64 " more bytes: the lock budget is %" PRIu64
			       " bytes (RLIMIT_MEMLOCK %s), %" PRIu64
			       " bytes short (%s): raise "
			       "it with hm_lock_budget_set(), unlock, or pass a higher "
			       "HM_LOCK_PRIORITY",
			       wanted, set, format_bytes(limit, text[0], 16), missing, holders);
	return err_set(r,
		       "locking %" PRIu64 " more bytes: RLIMIT_MEMLOCK is %s with %s locked "
		       "already, %" PRIu64 " bytes short (%s): raise it to %" PRIu64
		       " bytes at least (ulimit -l, LimitMEMLOCK= of the service)",
		       wanted, format_bytes(limit, text[0], 16),
		       format_bytes(locked, text[1], 16), missing, holders, locked + wanted);
}

/* ---- for users ---- */

int hm_lock_budget_set(uint64_t bytes)
{
	struct lock_eviction eviction = { .priority = HM_LOCK_PRIORITIES };
	uint64_t old, used;
	uint32_t tries = 100;

	err_begin();
	lock_budget_look();
	pthread_mutex_lock(&mutex);
	old = budget.set;
	budget.set = bytes; /* at once, so that no lock takes the bytes freed below */
	used = total(budget.now.held);
	pthread_mutex_unlock(&mutex);
	while (used > bytes && tries--) {
		eviction.need = used - bytes;
		lock_evict(&eviction);
		pthread_mutex_lock(&mutex);
		used = total(budget.now.held);
		pthread_mutex_unlock(&mutex);
	}
	if (used <= bytes)
		return 0;
	pthread_mutex_lock(&mutex);
	if (budget.set == bytes)
		budget.set = old;
	pthread_mutex_unlock(&mutex);
	lock_restore(NULL);
	return err_set(-EBUSY,
		       "hm_lock_budget_set: %" PRIu64 " bytes are locked, and maps that would "
		       "have to give some of them are being changed, or can't be unlocked",
		       used);
}

static void lock_again(struct hm_map *map, const void *user)
{
	const struct visit *visit = user;

	if (pthread_mutex_trylock(&map->change))
		return;
	if (map->locked && !map->lost)
		lock_again_waiting(map, visit->priority, &visit->eviction->freed);
	remap_unlock(map);
}

int lock_restore(uint64_t *ret_locked)
{
	struct lock_eviction sum = { 0 };
	struct visit visit = { .eviction = &sum, .priority = HM_LOCK_PRIORITIES };
	uint64_t waiting;

	lock_budget_look();
	while (visit.priority--) {
		pthread_mutex_lock(&mutex);
		waiting = budget.now.waiting[visit.priority];
		pthread_mutex_unlock(&mutex);
		if (waiting)
			map_each(NULL, lock_again, &visit);
	}
	err_clear();
	if (ret_locked)
		*ret_locked = sum.freed;
	return 0;
}

int hm_lock_restore(uint64_t *ret_locked)
{
	err_begin();
	return lock_restore(ret_locked);
}

int hm_lock_budget_query(struct hm_lock_budget *ret_budget)
{
	struct hm_lock_budget now = { 0 };
	uint64_t room;
	int r;

	err_begin();
	if (!ret_budget)
		return err_set(-EINVAL, "hm_lock_budget_query: ret_budget is NULL");
	r = struct_check_out(ret_budget->struct_size, sizeof(now), sizeof(now),
			     "hm_lock_budget");
	if (r)
		return r;
	lock_budget_look();
	/* Zeros would pass for figures, and would promise room. */
	r = status_get("VmLck", &now.kernel_locked);
	if (!r)
		r = capable_get(CAP_IPC_LOCK_BIT, &now.privileged);
	if (r)
		return r;
	room = rlimits_lock_room(now.kernel_locked, &now.limit);
	if (now.privileged)
		room = UINT64_MAX;
	pthread_mutex_lock(&mutex);
	now.set = budget.set;
	memcpy(now.used_by, budget.now.held, sizeof(now.used_by));
	memcpy(now.waiting_by, budget.now.waiting, sizeof(now.waiting_by));
	now.evictions = budget.evictions;
	now.evicted_bytes = budget.evicted_bytes;
	pthread_mutex_unlock(&mutex);
	now.used = total(now.used_by);
	now.waiting = total(now.waiting_by);
	now.room = room;
	if (now.set != HM_LOCK_NO_BUDGET)
		now.room = min_u64(room, now.set > now.used ? now.set - now.used : 0);
	struct_write(ret_budget, &now, ret_budget->struct_size);
	return 0;
}

void lock_budget_fork_child(void)
{
	/* Locks are not inherited [mlock(2)], and the maps are the parent's. */
	pthread_mutex_init(&mutex, NULL);
	stats_sub(&stats.bytes_locked, total(budget.now.held));
	memset(&budget.now, 0, sizeof(budget.now));
}
