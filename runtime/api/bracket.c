// SPDX-License-Identifier: MIT
/* Brackets around CPU access. */
#define PROBE_WATCHERS 1

#include <inttypes.h>

#include "api/door.h"
#include "fault/repair.h"
#include "loss/loss.h"
#include "map/bracket_settled.h"
#include "map/protect.h"
#include "map/remap.h"

static inline int check(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access,
			const char *what)
{
	if (!access || access & ~(HM_READ | HM_WRITE))
		return err_set(-EINVAL, "%s: access 0x%x is not HM_READ, HM_WRITE or both",
			       what, access);
	return map_check_range(map, offset, length, what);
}

/* Moves the count of some ended brackets to the buffer, for good. */
static __attribute__((noinline, cold)) void carry(struct hm_map *map)
{
	if (atomic_fetch_and(&map->brackets->n, ~BRACKET_CARRY) & BRACKET_CARRY)
		count_add(&map->buffer->counts, COUNT_BRACKETS, BRACKET_CARRY / BRACKET_ENDED);
}

/*
 * Closes one of the open brackets; false: there was none. @ended: BRACKET_ENDED, or 0 if its
 * begin has failed.
 */
static inline __attribute__((always_inline)) bool close_one(struct hm_map *map, uint64_t ended)
{
	_Atomic uint64_t *count = &map->brackets->n;
	uint64_t n = atomic_load_explicit(count, memory_order_relaxed);

	while ((uint32_t)n)
		if (atomic_compare_exchange_weak(count, &n, n - 1 + ended)) {
			if (unlikely(n & BRACKET_CARRY))
				carry(map);
			return true;
		}
	return false;
}

/* Refuses an access that hm_map_protect() has taken away from the map. */
static __attribute__((noinline, cold)) int check_rights(struct hm_map *map, uint64_t offset,
							uint64_t length, uint32_t access,
							const char *what)
{
	access &= map->access;
	if (map_allows(map, offset, length, access))
		return 0;
	return err_set(-EACCES,
		       "%s: some of %" PRIu64 " bytes from %" PRIu64
		       " on may not be %s: see hm_map_protect()%s",
		       what, length, offset, access & HM_WRITE ? "written" : "read",
		       protect_cause(map, offset, length, access));
}

/* Inlined twice, so that the usual way is straight: with a tracer, and without one. */
static inline __attribute__((always_inline)) int begin_cpu(struct hm_map *map, uint64_t offset,
							   uint64_t length, uint32_t access)
{
	bracket_function *begin;
	int r;

	r = map_check(map);
	if (!r)
		r = check(map, offset, length, access, "hm_map_begin_cpu");
	if (r)
		return r;
	/* A lost map has no rights at all; don't report that as hm_map_protect(). */
	if (unlikely(atomic_load_explicit(&map->narrowed, memory_order_relaxed)) &&
	    !map->lost) {
		r = check_rights(map, offset, length, access, "hm_map_begin_cpu");
		if (r)
			return r;
	}
	r = map_use_wait(map, offset, length, access, UINT64_MAX);
	if (r)
		return r;
	/*
	 * Counted first: a recovery waits for open brackets, or shows the map before the check
	 * here.
	 */
	atomic_fetch_add(&map->brackets->n, 1);
	if (unlikely(map->lost)) {
		r = remap_refuse_lost(map);
		goto err_bracket;
	}
	r = repair_check(map, offset, length, NULL);
	if (unlikely(r))
		goto err_bracket;
	begin = map->bracket_begin;
	/*
	 * Inlined, as the usual one: the code around a call costs as much as a part of the
	 * call.
	 */
	r = likely(begin == bracket_device_begin) ?
		    bracket_begin_inline(map, offset, length, access) :
		    begin(map, offset, length, access);
	if (unlikely(r))
		goto err_bracket;
	return 0;

err_bracket:
	close_one(map, 0);
	return device_loss_notice(map->buffer->device, r);
}

__attribute__((noinline, cold)) int map_begin_cpu(struct hm_map *map, uint64_t offset,
						  uint64_t length, uint32_t access)
{
	int r = begin_cpu(map, offset, length, access);

	if (!r)
		probe_bracket_begin(map, offset, length, access);
	return r;
}

/*
 * Aligned, as the end is, to lie in one page: a jump into another page costs more than the
 * rest.
 */
__attribute__((aligned(1024))) int hm_map_begin_cpu(struct hm_map *map, uint64_t offset,
						    uint64_t length, uint32_t access)
{
	err_begin();
	return unlikely(probe_brackets_watched()) ? map_begin_cpu(map, offset, length, access) :
						    begin_cpu(map, offset, length, access);
}

/*
 * Called while the bracket is open: copies its stores into the shadow, as they would be lost
 * otherwise. From the end of the bracket on the device may take the bytes out of the CPU's
 * reach.
 */
static inline int keep_stores(struct hm_map *map, uint64_t offset, uint64_t length,
			      uint32_t access)
{
	int r;

	if (unlikely(map->lost))
		return remap_refuse_lost(map);
	/* A recovery waits for open brackets, and clears the state that is checked here. */
	r = repair_check(map, offset, length, NULL);
	if (unlikely(r))
		return r;
	if (unlikely(map->buffer->loss) && access & HM_WRITE && loss_is_kept(map->buffer))
		return loss_refresh(map->buffer, map->offset + offset, length);
	/*
	 * A refresh asks by itself. Bytes that were read, or are kept nowhere, may have been
	 * zeros.
	 */
	return loss_ask(map->buffer);
}

/*
 * The same where a combine could not be written out, by the error @r that the end reports: the
 * other stores of the bracket are kept all the same, unless the device is gone.
 */
static __attribute__((noinline, cold)) void keep_others(struct hm_map *map, uint64_t offset,
							uint64_t length, uint32_t access, int r)
{
	struct loss *loss = atomic_load(&map->buffer->loss);

	if (!length || r == -ENODEV)
		return;
	err_hold();
	if (keep_stores(map, offset, length, access) && loss)
		loss_note_stale(loss);
	err_release();
}

/*
 * Ends a bracket that is closed. Keeping its stores failed with @kept and a text, which are
 * returned.
 */
static __attribute__((noinline, cold)) int
end_unkept(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access, int kept)
{
	/*
	 * Loaded by hand, since GCC 12 calls the function of an atomic pointer by a plain load.
	 */
	bracket_function *end = map->bracket_end;

	err_hold();
	end(map, offset, length, access);
	err_release();
	return device_loss_notice(map->buffer->device, kept);
}

/* Ends a bracket that is closed; @kept is the result of keeping its stores. */
static inline __attribute__((always_inline)) int
end_range(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access, int kept)
{
	bracket_function *end = map->bracket_end;
	int r;

	/* Cold, and a function of its own. */
	if (unlikely(kept))
		return end_unkept(map, offset, length, access, kept);
	r = likely(end == bracket_device_end) ?
		    bracket_end_inline(map, offset, length, access) :
		    end(map, offset, length, access);
	if (unlikely(r))
		return device_loss_notice(map->buffer->device, r);
	if (likely(!atomic_load_explicit(&map->narrowed, memory_order_relaxed)))
		return 0;
	/* The begin has checked the rights: they were withdrawn while the bracket was open. */
	return check_rights(map, offset, length, access, "hm_map_end_cpu");
}

/*
 * *@length: returns the part of the range that is left. *@ret_closed: there was a bracket,
 * which ends.
 */
static inline __attribute__((always_inline)) int end_cpu(struct hm_map *map, uint64_t offset,
							 uint64_t *length, uint32_t access,
							 bool *ret_closed)
{
	uint64_t map_length;
	int r, kept;

	*ret_closed = false;
	/* The owner's size is not asked for: an open bracket ends at any size. */
	r = object_check((struct hm_object *)map, OBJECT_MAP);
	if (!r)
		r = check(map, offset, *length, access, "hm_map_end_cpu");
	if (r && r != -ERANGE)
		return r;
	if (r) {
		/* A shrink has cut the range since: the rest of it ends. */
		map_length = map->length;
		*length = offset < map_length ? min_u64(*length, map_length - offset) : 0;
	}
	kept = bracket_write_out(map, access);
	if (unlikely(kept))
		keep_others(map, offset, *length, access, kept);
	else if (likely(*length))
		kept = keep_stores(map, offset, *length, access);
	if (!close_one(map, BRACKET_ENDED))
		return r ? r : err_set(-EINVAL, "hm_map_end_cpu without hm_map_begin_cpu");
	if (unlikely(r && !kept))
		err_clear();
	*ret_closed = true;
	if (likely(*length))
		return end_range(map, offset, *length, access, kept);
	return likely(!kept) ? 0 : device_loss_notice(map->buffer->device, kept);
}

__attribute__((noinline, cold)) int map_end_cpu(struct hm_map *map, uint64_t offset,
						uint64_t length, uint32_t access)
{
	bool closed;
	int r = end_cpu(map, offset, &length, access, &closed);

	if (closed)
		probe_bracket_end(map, offset, length, access, r);
	return r;
}

__attribute__((aligned(1024))) int hm_map_end_cpu(struct hm_map *map, uint64_t offset,
						  uint64_t length, uint32_t access)
{
	bool closed;

	err_begin();
	return unlikely(probe_brackets_watched()) ?
		       map_end_cpu(map, offset, length, access) :
		       end_cpu(map, offset, &length, access, &closed);
}
