// SPDX-License-Identifier: MIT
/* Brackets around CPU access, and write-back to storage. */
#define PROBE_WATCHERS 1

#include "map/sync.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

#include "core/buffer.h"
#include "dmabuf/dmabuf.h"
#include "core/device_link.h"
#include "loss/loss.h"
#include "loss/lost.h"
#include "map/map.h"
#include "tell/probe.h"
#include "map/protect.h"
#include "fault/reach.h"
#include "map/remap.h"
#include "fault/repair.h"
#include "core/segments.h"
#include "share/share.h"
#include "base/sys.h"
#include "map/view.h"

int bracket_nothing(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	(void)map, (void)offset, (void)length, (void)access;
	return 0;
}

/* Calls the begin_cpu or end_cpu hook of each view of the range; returns the first error. */
static int call_views(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access,
		      bool begin)
{
	struct map_view *view = NULL;
	uint64_t end;
	int r, first = 0;

	/* Keeps views from going while a hook works; a callback must not come here. */
	r = remap_lock(map);
	if (r)
		return r;
	while ((view = view_behind(map, view))) {
		int (*hook)(struct map_view * view, uint64_t offset, uint64_t length,
			    uint32_t access) = begin ? view->hooks->begin_cpu :
						       view->hooks->end_cpu;

		end = view->length ? view->offset + view->length : map->length;
		if (!hook || offset >= end || offset + length <= view->offset)
			continue;
		r = hook(view, offset, length, access);
		if (r && !first)
			first = r;
	}
	remap_unlock(map);
	return first;
}

int bracket_views_begin(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	return call_views(map, offset, length, access, true);
}

int bracket_views_end(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	return call_views(map, offset, length, access, false);
}

typedef int device_op(void *device, const struct hm_segment *segments, uint32_t n_segment,
		      uint64_t offset, uint64_t length, uint32_t access);

/*
 * Holds no lock, because a device may take as long as its work does. If the buffer changes
 * meanwhile, the access belongs to the objects that it had; no device knows a new object yet.
 */
static inline int call_device(struct hm_map *map, uint64_t offset, uint64_t length,
			      uint32_t access, device_op *op, const char *what)
{
	struct hm_buffer *buffer = map->buffer;
	const struct hm_device *device = buffer->device;
	uint32_t said = err_count();
	struct segment_list *segments;
	int r;

	segments = segments_get(buffer);
	r = op(segments->link->backend, segments->segment, segments->n, map->offset + offset,
	       length, access);
	segments_put(buffer, segments);
	return likely(!r) ? 0 : backend_explain(device->ops, said, r, what);
}

/*
 * The result may tell of a loss. The call that begins or ends the access handles it, when it has no
 * bracket open.
 */
static inline int tell_device(struct hm_map *map, uint64_t offset, uint64_t length,
			      uint32_t access, device_op *op, const char *what)
{
	err_clear();
	return call_device(map, offset, length, access, op, what);
}

/*
 * The dma-buf that holds the range, and that stays as long as the buffer; or -1. A dma-buf made
 * of a memfd has no other object behind it, so a part of the range is enough.
 */
static inline int settled_fd(const struct hm_map *map, uint64_t offset, uint64_t length)
{
	const struct hm_buffer *buffer = map->buffer;
	int fd = atomic_load_explicit(&buffer->settled_fd, memory_order_acquire);
	uint64_t settled = atomic_load_explicit(&buffer->settled_length, memory_order_relaxed);
	uint64_t end = map->offset + offset + (buffer->settled_own ? 1 : length);

	return fd >= 0 && end <= settled ? fd : -1;
}

/*
 * The cold half is a function of its own: inlined, it would make the compiler save registers
 * each time, and call the hot half in another page.
 */
static __attribute__((noinline, cold)) int begin_unsettled(struct hm_map *map, uint64_t offset,
							   uint64_t length, uint32_t access)
{
	const struct hm_backend_ops *ops = map->buffer->device->ops;
	int r = tell_device(map, offset, length, access, ops->begin_cpu, "begin_cpu");

	return unlikely(!r && backend_has(ops, HM_BACKEND_REACH)) ? reach_settle(map->buffer) :
								    r;
}

static inline __attribute__((always_inline)) int
device_begin(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	int fd = settled_fd(map, offset, length);

	return likely(fd >= 0) ? dmabuf_begin_cpu(fd, access) :
				 begin_unsettled(map, offset, length, access);
}

int bracket_device_begin(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	return device_begin(map, offset, length, access);
}

static __attribute__((noinline, cold)) int end_unsettled(struct hm_map *map, uint64_t offset,
							 uint64_t length, uint32_t access)
{
	return tell_device(map, offset, length, access, map->buffer->device->ops->end_cpu,
			   "end_cpu");
}

static inline __attribute__((always_inline)) int device_end(struct hm_map *map, uint64_t offset,
							    uint64_t length, uint32_t access)
{
	int fd = settled_fd(map, offset, length);

	return likely(fd >= 0) ? dmabuf_end_cpu(fd, access) :
				 end_unsettled(map, offset, length, access);
}

int bracket_device_end(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	return device_end(map, offset, length, access);
}

static int device_views_begin(struct hm_map *map, uint64_t offset, uint64_t length,
			      uint32_t access)
{
	int r;

	r = bracket_device_begin(map, offset, length, access);
	if (r)
		return r;
	r = bracket_views_begin(map, offset, length, access);
	if (r)
		goto err_device;
	return 0;

err_device:
	err_hold();
	bracket_device_end(map, offset, length, access);
	err_release();
	return r;
}

static int device_views_end(struct hm_map *map, uint64_t offset, uint64_t length,
			    uint32_t access)
{
	int r = bracket_views_end(map, offset, length, access);
	int end = bracket_device_end(map, offset, length, access);

	return r ? r : end;
}

int bracket_turn_begin(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	uint32_t before;
	int r;

	r = bracket_device_begin(map, offset, length, access);
	if (!r && backend_has(map->buffer->device->ops, HM_BACKEND_BRACKET_END)) {
		before = atomic_exchange(&map->turn, access);
		if (before)
			r = bracket_device_end(map, offset, length, before);
	}
	return likely(!r) ? 0 : lost_notice(map->buffer->device, r);
}

int bracket_turn_end(struct hm_map *map, uint32_t *ret_access)
{
	uint32_t access = HM_NONE;
	int fd;

	if (unlikely(atomic_load_explicit(&map->turn, memory_order_relaxed)))
		access = atomic_exchange(&map->turn, HM_NONE);
	if (ret_access)
		*ret_access = access;
	if (likely(!access))
		return 0;
	fd = settled_fd(map, 0, map->length);
	return fd >= 0 ? dmabuf_end_cpu(fd, access) :
			 call_device(map, 0, map->length, access,
				     map->buffer->device->ops->end_cpu, "end_cpu");
}

/*
 * Can another device have the map's bytes? A dma-buf's, once it was exported or imported, or as
 * long as there are views, which are told of segments; another backend's at any time.
 */
static bool has_device(const struct hm_map *map)
{
	const struct hm_buffer *buffer = map->buffer;

	return buffer->caps & HM_CAP_BRACKET &&
	       (!backend_has(buffer->device->ops, HM_BACKEND_BRACKET_DMABUF) || map->n_view ||
		atomic_load_explicit(&buffer->settled_fd, memory_order_relaxed) >= 0);
}

void bracket_choose(struct hm_map *map, bool begin, bool end)
{
	if (unlikely(has_device(map))) {
		map->bracket_begin = begin ? device_views_begin : bracket_device_begin;
		map->bracket_end = end ? device_views_end : bracket_device_end;
	} else {
		map->bracket_begin = begin ? bracket_views_begin : bracket_nothing;
		map->bracket_end = end ? bracket_views_end : bracket_nothing;
	}
}

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
	r = likely(begin == bracket_device_begin) ? device_begin(map, offset, length, access) :
						    begin(map, offset, length, access);
	if (unlikely(r))
		goto err_bracket;
	return 0;

err_bracket:
	close_one(map, 0);
	return lost_notice(map->buffer->device, r);
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
	return lost_notice(map->buffer->device, kept);
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
	r = likely(end == bracket_device_end) ? device_end(map, offset, length, access) :
						end(map, offset, length, access);
	if (unlikely(r))
		return lost_notice(map->buffer->device, r);
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
	int r, kept = 0;

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
	if (likely(*length))
		kept = keep_stores(map, offset, *length, access);
	if (!close_one(map, BRACKET_ENDED))
		return r ? r : err_set(-EINVAL, "hm_map_end_cpu without hm_map_begin_cpu");
	if (unlikely(r))
		err_clear();
	*ret_closed = true;
	return likely(*length) ? end_range(map, offset, *length, access, kept) : 0;
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

static int write_back(struct hm_map *map, char *address, uint64_t offset, uint64_t length,
		      uint32_t flags)
{
	int r;

	r = sys_msync(address + offset, map_pages(map, offset, length),
		      flags & HM_SYNC_ASYNC ? MS_ASYNC : MS_SYNC);
	if (r)
		return err_set(r,
			       "writing back %" PRIu64 " bytes of %s from %" PRIu64
			       " on (msync): %s",
			       length, map->buffer->name, offset, err_name(r));
	return 0;
}

/*
 * Holds no lock while it waits: a server that does not answer makes it wait for ever, and
 * changes of the map, the loss of its device and the handler's installation must not wait as
 * well. A change by another thread that takes pages away meanwhile counts as a later one; but
 * if other bytes took their place (*ret_again), those were not written back.
 */
static int sync_once(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags,
		     bool *ret_again)
{
	uint32_t generation;
	char *address;
	int r;

	*ret_again = false;
	r = remap_lock(map);
	if (r)
		return r;
	r = map_check_pages(map, offset, length, "hm_map_sync");
	if (r || !(map->buffer->caps & HM_CAP_SYNC)) {
		remap_unlock(map);
		return r;
	}
	address = map->address;
	generation = map->generation;
	atomic_fetch_add(&map->n_sync, 1);
	remap_unlock(map);
	r = write_back(map, address, offset, length, flags);
	atomic_fetch_sub(&map->n_sync, 1);
	*ret_again = map->generation != generation;
	return r;
}

int map_sync(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags)
{
	int r, lost;
	bool again;

	r = map_check(map);
	if (r)
		return r;
	if (flags & ~HM_SYNC_ASYNC)
		return err_set(-EINVAL, "hm_map_sync: unknown flags 0x%x",
			       flags & ~HM_SYNC_ASYNC);
	/* Before it, too: replacements of lost bytes may go while they are written back. */
	lost = repair_check(map, offset, length, NULL);
	do
		r = sync_once(map, offset, length, flags, &again);
	while (again);
	/* After it: replacements of lost pages belong to no file, and msync() answers 0. */
	if (!r)
		r = repair_check(map, offset, length, NULL);
	if (!r && lost)
		r = err_set(lost,
			    "%s: bytes that were lost under the map at %p were recovered "
			    "meanwhile, without the stores to their replacements",
			    map->buffer->name, (void *)map->address);
	return lost_notice(map->buffer->device, r);
}

int hm_map_sync(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t flags)
{
	err_begin();
	return map_sync(map, offset, length, flags);
}
