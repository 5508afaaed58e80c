// SPDX-License-Identifier: MIT
/*
 * Any pointer of the process on an engine, and ranges of them: the device's mirror, by the calls of
 * include/uapi/hetsim.h from HETSIM_MIRROR on.
 */
#include "accel/engine/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "soft/event.h"
#include "tell/publish_range.h"

#define PAGE 4096ull
#define PIECE MIB(32)      /* of a prefetch */
#define LEARN_UNIT KIB(64) /* the unit of the device's policy */
#define LEARN_MINOR 9      /* of the interface that has HETSIM_LEARN, and HETSIM_ADVISE_CACHE */

int engine_any_acquire(void *accel, struct hm_accel_range *range)
{
	struct engine *engine = accel;
	uint64_t align = engine->port->query.dma_align;

	if (!is_aligned((uint64_t)(uintptr_t)range->pointer, align))
		return err_set(-EINVAL,
			       "%s takes addresses at multiples of %" PRIu64 ", and %p is none",
			       engine->name, align, range->pointer);
	range->way = HM_WAY_DIRECT;
	return sim_port_mirror(engine->port);
}

/* ---- advice ---- */

static int explain(struct engine *engine, int r, const char *what)
{
	if (r == -ERANGE)
		return err_set(-EINVAL,
			       "%s: %s: the range ends behind the addresses of a process",
			       engine->name, what);
	if (r == -ENOSPC)
		return err_set(r,
			       "%s: its advice falls into more ranges than it keeps: give some "
			       "of them HM_RANGE_NORMAL",
			       engine->name);
	return sim_port_explain(engine->port, r, what);
}

static int advise(struct engine *engine, uint64_t address, uint64_t length, uint32_t advice,
		  uint64_t value)
{
	struct hetsim_advise call = {
		.size = sizeof(call),
		.advice = advice,
		.address = address,
		.length = length,
		.value = value,
	};
	int r = sim_port_call(engine->port, HETSIM_ADVISE, &call);

	return r ? explain(engine, r, "advice") : 0;
}

/* By enum hm_range_advice. HM_RANGE_NORMAL undoes all of them. */
static const struct {
	uint32_t advice; /* enum hetsim_advice */
	uint64_t value;
} advices[] = {
	[HM_RANGE_PREFER_DEVICE] = { HETSIM_ADVISE_LOCATION, HETSIM_LOCATION_DEVICE },
	[HM_RANGE_PREFER_HOST] = { HETSIM_ADVISE_LOCATION, HETSIM_LOCATION_HOST },
	[HM_RANGE_ACCESSED_BY] = { HETSIM_ADVISE_ACCESSED_BY, 1 },
	[HM_RANGE_READ_MOSTLY] = { HETSIM_ADVISE_READ_MOSTLY, 1 },
	[HM_RANGE_GRANULE] = { HETSIM_ADVISE_GRANULE, 0 },
	[HM_RANGE_NO_ACCESS] = { HETSIM_ADVISE_NO_ACCESS, 1 },
	[HM_RANGE_MOVE_AFTER] = { HETSIM_ADVISE_COUNTER, 0 },
};

/* What its device's version knows. */
static uint32_t last_advice(const struct engine *engine)
{
	if (engine->port->minor < 8)
		return HETSIM_ADVISE_NO_ACCESS;
	return engine->port->minor < LEARN_MINOR ? HETSIM_ADVISE_COUNTER : HETSIM_ADVISE_CACHE;
}

/* The part of HM_RANGE_READ_MOSTLY that is its value: how much of its memory may be a cache. */
static int advise_cache(struct engine *engine, uint64_t address, uint64_t length,
			uint64_t bytes)
{
	if (!bytes && last_advice(engine) < HETSIM_ADVISE_CACHE)
		return 0;
	if (!is_aligned(bytes, PAGE))
		return err_set(-EINVAL,
			       "%s: a cache of %" PRIu64 " bytes: it has whole pages of 4096",
			       engine->name, bytes);
	if (last_advice(engine) < HETSIM_ADVISE_CACHE)
		return err_set(-EOPNOTSUPP,
			       "%s: its driver has no cache for pages of the host: one of "
			       "interface 1.%d does",
			       engine->name, LEARN_MINOR);
	return advise(engine, address, length, HETSIM_ADVISE_CACHE, bytes);
}

/* Advice that the device keeps, and can't follow. */
static bool is_wish(const struct engine *engine, uint32_t advice, uint64_t value)
{
	return engine->port->mirror.migration == HETSIM_MIGRATION_NONE &&
	       (advice == HM_RANGE_PREFER_DEVICE || advice == HM_RANGE_MOVE_AFTER ||
		(advice == HM_RANGE_READ_MOSTLY && value));
}

int engine_range_advise(void *accel, uint64_t address, uint64_t length, uint32_t advice,
			uint64_t value)
{
	struct engine *engine = accel;
	uint32_t i;
	int r;

	r = sim_port_mirror(engine->port);
	if (r)
		return r;
	if (advice == HM_RANGE_NORMAL) {
		for (i = HETSIM_ADVISE_LOCATION; !r && i <= last_advice(engine); i++)
			r = advise(engine, address, length, i, 0);
		return r;
	}
	if (advice == HM_RANGE_GRANULE && !(value & engine->port->mirror.chunks))
		return err_set(-EINVAL,
			       "%s: entries of %" PRIu64
			       " bytes: it has 4 KiB, 64 KiB and 2 MiB",
			       engine->name, value);
	if (advice == HM_RANGE_READ_MOSTLY) {
		r = advise_cache(engine, address, length, value);
		if (r)
			return r;
	}
	if (advices[advice].advice > last_advice(engine))
		return err_set(-EOPNOTSUPP,
			       "%s: its driver counts no uses: one of interface 1.8 does",
			       engine->name);
	r = advise(engine, address, length, advices[advice].advice,
		   advices[advice].value ? advices[advice].value : value);
	if (!r && is_wish(engine, advice, value))
		err_warn("%s uses pages of the process where they are, and moves none to its "
			 "memory: the wish is kept",
			 engine->name);
	return r;
}

/* ---- prefetch ---- */

/* The caller holds engine->range_lock. */
static int prefetch_locked(struct engine *engine, struct hetsim_prefetch *call)
{
	struct engine_queue *queue;
	struct engine_end end;
	int r;

	if (!engine->range_queue) {
		r = engine_queue_make(engine, HETSIM_QUEUE_COUNTER, &engine->range_queue);
		if (r)
			return r;
	}
	queue = engine->range_queue;
	call->queue = queue->number;
	r = sim_port_call(engine->port, HETSIM_PREFETCH, call);
	if (r == -EAGAIN && queue->last) {
		/* Full: the last one's end makes room for many. */
		r = engine_wait_number(engine->port, queue->number, queue->last, ENGINE_FOREVER,
				       &end);
		if (!r)
			r = sim_port_call(engine->port, HETSIM_PREFETCH, call);
	}
	if (r)
		return explain(engine, r, "a prefetch");
	queue->last = call->seqno;
	return 0;
}

/* One piece, which ends before the queue's time does. */
static int prefetch_piece(struct engine *engine, uint64_t address, uint64_t length,
			  uint32_t access)
{
	struct hetsim_prefetch call = {
		.size = sizeof(call),
		.flags = access & HM_WRITE ? HETSIM_PREFETCH_WRITE : 0,
		.location = access & HM_RANGE_BACK ? HETSIM_LOCATION_HOST :
						     HETSIM_LOCATION_DEVICE,
		.address = address,
		.length = length,
	};
	struct hm_range_event done = { .kind = HM_RANGE_PREFETCHED,
				       .time = time_now_ns(),
				       .address = address,
				       .length = length };
	struct engine_end end;
	char text[96];
	int r;

	pthread_mutex_lock(&engine->range_lock);
	r = prefetch_locked(engine, &call);
	pthread_mutex_unlock(&engine->range_lock);
	if (r)
		return r;
	r = engine_wait_number(engine->port, call.queue, call.seqno, ENGINE_FOREVER, &end);
	if (r)
		return sim_port_explain(engine->port, r, "waiting for a prefetch");
	if (!end.status) {
		if (!(access & HM_RANGE_BACK))
			publish_range(engine->name, &done, 0, time_now_ns() - done.time);
		return 0;
	}
	return err_set(end.status, "%s: %s", engine->name,
		       engine_explain_end(engine, &end, text, sizeof(text)));
}

int engine_range_prefetch(void *accel, uint64_t address, uint64_t length, uint32_t access)
{
	struct engine *engine = accel;
	uint64_t at, piece;
	int r;

	r = sim_port_mirror(engine->port);
	for (at = 0; !r && at < length; at += piece) {
		piece = min_u64(length - at, PIECE);
		r = prefetch_piece(engine, address + at, piece, access);
	}
	return r;
}

/* ---- query ---- */

static const uint8_t why_of[] = {
	[HETSIM_WHY_NONE] = HM_RANGE_BY_NOTHING,
	[HETSIM_WHY_FAULT] = HM_RANGE_BY_FAULT,
	[HETSIM_WHY_NEIGHBOUR] = HM_RANGE_BY_FAULT,
	[HETSIM_WHY_PREFETCH] = HM_RANGE_BY_PREFETCH,
	[HETSIM_WHY_ADVICE] = HM_RANGE_BY_ADVICE,
};

static void describe(const struct hetsim_page *from, struct hm_range_page *to)
{
	to->device_access = (from->rights & HETSIM_PAGE_READ ? HM_READ : 0) |
			    (from->rights & HETSIM_PAGE_WRITE ? HM_WRITE : 0);
	to->why = from->why < ARRAY_SIZE(why_of) ? why_of[from->why] : HM_RANGE_BY_NOTHING;
	to->order = from->chunk_order;
	to->moves = from->moves;
	if (from->location == HETSIM_LOCATION_DEVICE)
		to->place = HM_RANGE_DEVICE;
}

int engine_range_query(void *accel, uint64_t address, uint64_t length,
		       struct hm_range_page *pages)
{
	struct engine *engine = accel;
	uint64_t i, n = length / PAGE;
	struct hetsim_range_query call = { .size = sizeof(call),
					   .address = address,
					   .length = length };
	struct hetsim_page *answer;
	int r;

	r = sim_port_mirror(engine->port);
	if (r)
		return r;
	answer = sys_calloc(n, sizeof(*answer));
	if (!answer)
		return err_set(-ENOMEM, "%s: no memory to describe %" PRIu64 " pages",
			       engine->name, n);
	call.pages = (uint64_t)(uintptr_t)answer;
	r = sim_port_call(engine->port, HETSIM_RANGE_QUERY, &call);
	if (r)
		r = explain(engine, r, "a query");
	for (i = 0; !r && i < n; i++)
		describe(&answer[i], &pages[i]);
	free(answer);
	return r;
}

/* ---- events ---- */

int engine_range_events(void *accel, uint64_t *cursor, struct hm_range_event *events,
			uint32_t capacity, uint32_t *ret_n, uint64_t *ret_lost)
{
	struct engine *engine = accel;
	struct hetsim_event batch[64];
	uint32_t i;
	int r;

	r = sim_port_events(engine->port, cursor, batch,
			    (uint32_t)min_u64(capacity, ARRAY_SIZE(batch)), ret_n, ret_lost);
	for (i = 0; !r && i < *ret_n; i++)
		sim_event_translate(&batch[i], &events[i]);
	return r;
}

/* ---- counters, and the prefetch that learns ---- */

int engine_range_counts(void *accel, struct hm_range_counts *counts)
{
	struct engine *engine = accel;
	struct hetsim_counters now = { .size = sizeof(now), .scope = HETSIM_SCOPE_OPENER };
	int r;

	r = sim_port_call(engine->port, HETSIM_COUNTERS, &now);
	if (r)
		return sim_port_explain(engine->port, r, "its counters");
	counts->faults = now.mirror_faults;
	counts->fault_pages = now.mirror_pages;
	counts->refused = now.mirror_faults_refused;
	counts->invalidated = now.mirror_invalidations;
	counts->moved_in = now.pages_migrated * PAGE;
	counts->moved_out = now.pages_returned * PAGE;
	counts->evicted = now.mirror_evictions;
	counts->prefetched = now.prefetches;
	counts->used = now.prefetch_used;
	counts->wasted = now.prefetch_wasted;
	/* Zeros, where the driver is older and does not know them. */
	counts->accesses = now.learn_accesses;
	counts->sequential = now.learn_sequential;
	counts->strided = now.learn_strided;
	counts->random = now.learn_random;
	counts->planned = now.learn_planned;
	counts->doubled = now.learn_doubled;
	counts->halved = now.learn_halved;
	counts->cache_hits = now.cache_hits;
	counts->cache_misses = now.cache_misses;
	return 0;
}

int engine_range_learn(void *accel, uint64_t least, uint64_t most)
{
	struct engine *engine = accel;
	struct hetsim_learn learn = { .size = sizeof(learn), .least = least, .most = most };
	int r;

	if (engine->port->minor < LEARN_MINOR)
		return err_set(-EOPNOTSUPP,
			       "%s prefetches nothing by itself: its driver has the interface "
			       "1.%" PRIu32 ", and 1.%d learns; call hm_range_prefetch()",
			       engine->name, engine->port->minor, LEARN_MINOR);
	if (most && (!is_aligned(least, LEARN_UNIT) || !is_aligned(most, LEARN_UNIT)))
		return err_set(-EINVAL,
			       "%s: windows are multiples of 64 KiB, and %" PRIu64
			       " or %" PRIu64 " is none",
			       engine->name, least, most);
	r = sim_port_mirror(engine->port);
	if (r)
		return r;
	r = sim_port_call(engine->port, HETSIM_LEARN, &learn);
	return r ? explain(engine, r, "the prefetch that learns") : 0;
}
