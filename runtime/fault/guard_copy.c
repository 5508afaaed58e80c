// SPDX-License-Identifier: MIT
/*
 * hm_copy_in, hm_copy_out, guarded_store: the bytes go by the C library's memcpy(), or as suits
 * memory of a device (copy/copy.h), in a guarded scope. Each end that is in a map is checked
 * before and after: was it cut off, lost or replaced meanwhile?
 */
#include <hetmap/guard.h>

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <urcu/arch.h>

#include "core/buffer.h"
#include "core/core.h"
#include "core/identity.h"
#include "fault/fault.h"
#include "fault/guarded.h"
#include "base/guard_slot.h"
#include "fault/handler.h"
#include "loss/loss.h"
#include "loss/device_loss.h"
#include "map/remap.h"
#include "fault/repair.h"
#include "share/share.h"
#include "base/sys.h"
#include "map/view.h"

struct copy {
	const char *what;
	struct guard_slot *slot; /* this thread's; NULL: none yet */
	bool follows;            /* directly after the thread's last one, see guard_follows() */
	char *in_map;            /* the one of @dst and @src in the map that was named */
	void *dst;
	const void *src;
	uint64_t length;
	copy_function *store; /* the way of guarded_store(); or NULL */
	bool unguarded;       /* no handler is there: a fault remains a signal */
	/*
	 * The state of @in_map before the copy. Buffer and device are read from here, and not
	 * by way of the map: a copy pushes all of them out of the nearest cache, and with the
	 * addresses at hand the CPU waits for them at once instead of one after the other.
	 */
	struct hm_pointer_info at;
	uint32_t recoveries; /* of the device, before the first byte */
};

/* End of the copy in the buffer. */
static uint64_t buffer_end(const struct copy *copy)
{
	return copy->at.map->offset + copy->at.map_offset + copy->length;
}

/* Bytes of the map. A map of a part keeps its length when another process cuts bytes off. */
static uint64_t bytes_of(const struct hm_map *map)
{
	uint64_t length = hm_map_length(map), seen;

	if (likely(map->whole || !share_is_received(map->buffer)))
		return length;
	seen = share_seen(map->buffer);
	return min_u64(length, seen > map->offset ? seen - map->offset : 0);
}

static inline int check_map(const struct copy *copy)
{
	if (unlikely(copy->at.map->lost))
		return remap_refuse_lost(copy->at.map);
	return map_check_range(copy->at.map, copy->at.map_offset, copy->length, copy->what);
}

/* Brings a buffer that another process owns to its present size. */
static __attribute__((noinline)) int check_received(const struct copy *copy)
{
	int r;

	r = share_follow(copy->at.buffer);
	guard_forget(guard_own);
	if (!r)
		r = check_map(copy);
	if (r || copy->at.map_offset + copy->length <= bytes_of(copy->at.map))
		return r;
	return err_set(-ERANGE,
		       "%s: the owner of %s has cut off bytes from %" PRIu64 " on, which the "
		       "map still has",
		       copy->what, copy->at.buffer->name, bytes_of(copy->at.map));
}

/* Checks all that needs no touch of the bytes; again afterwards. */
static inline int check_range(const struct copy *copy)
{
	int r = object_check(&copy->at.map->object, OBJECT_MAP);

	if (unlikely(r))
		return r;
	return likely(!share_is_received(copy->at.buffer)) ? check_map(copy) :
							     check_received(copy);
}

static void tell_fault(const struct copy *copy, uint64_t offset, uint32_t cause,
		       struct hm_fault *ret_fault)
{
	*ret_fault = (struct hm_fault){
		.struct_size = sizeof(*ret_fault),
		.cause = cause,
		.address = copy->in_map + (offset - copy->at.map_offset),
		.offset = offset,
		.serial = copy->at.buffer->serial,
		.generation = copy->at.map->generation,
	};
}

/* Reports a range that ends behind the map, or a lost map: before and after the copy. */
static void tell_refused(const struct copy *copy, int r, struct hm_fault *ret_fault)
{
	if (r == -ERANGE)
		tell_fault(copy, max_u64(copy->at.map_offset, bytes_of(copy->at.map)),
			   HM_FAULT_END, ret_fault);
	else if (r == -ENODEV)
		tell_fault(copy, copy->at.map_offset, HM_FAULT_LOST, ret_fault);
}

/* *@ret_fault: set for a map that was found. */
static int find_map(struct copy *copy, struct hm_fault *ret_fault)
{
	int r;

	ret_fault->cause = HM_FAULT_NONE;
	r = registry_find(copy->in_map, &copy->at);
	if (r == -EAGAIN)
		return err_set(r, "%s: the map at %p kept changing: call again", copy->what,
			       (void *)copy->in_map);
	if (r) {
		r = registry_check_left(copy->in_map);
		return r ? err_prefix(r, "%s", copy->what) :
			   err_set(-ENOENT, "%s: %p is in no map", copy->what,
				   (void *)copy->in_map);
	}
	copy->recoveries = atomic_load(&copy->at.device->generation);
	r = check_range(copy);
	if (unlikely(r))
		tell_refused(copy, r, ret_fault);
	return r;
}

/* A map that was lost, and has its bytes again, looks as if nothing had happened. */
static int check_recovered(const struct copy *copy)
{
	if (likely(atomic_load(&copy->at.device->generation) == copy->recoveries))
		return 0;
	return err_set(
		-ENODEV,
		"%s: %s was taken away and recovered (hm_device_recover) meanwhile: bytes "
		"that were copied before may differ from the present ones",
		copy->what, copy->at.device->name);
}

/* Not inlined: few devices can go. A call of a backend may change the mask; a look can't. */
static __attribute__((noinline)) int ask_device(const struct copy *copy)
{
	int r = loss_ask(copy->at.buffer);

	if (copy->at.buffer->ask == ASK_DEVICE)
		guard_forget(guard_own);
	return r;
}

/*
 * Bytes that were copied without a fault may be replacements of lost ones: a thread that
 * replaces bytes marks them first, or the device is asked.
 */
static inline int check_copied(const struct copy *copy, struct hm_fault *fault)
{
	uint64_t offset = copy->at.map_offset;
	int r;

	cmm_smp_rmb();
	r = repair_check(copy->at.map, copy->at.map_offset, copy->length, &offset);
	if (unlikely(r)) {
		/* The device was asked, and a backend may change the mask. */
		guard_forget(guard_own);
		tell_fault(copy, offset, r == -ENODEV ? HM_FAULT_LOST : HM_FAULT_REPAIRED,
			   fault);
		return r;
	}
	r = check_range(copy);
	if (likely(!r))
		r = check_recovered(copy);
	if (likely(!r) && unlikely(copy->at.buffer->ask != ASK_NOBODY))
		r = ask_device(copy);
	if (unlikely(r))
		tell_refused(copy, r, fault);
	return r;
}

/*
 * The other end of the copy may be in a map, too: bytes that were lost there before raise no
 * fault any more. Only its first byte is looked up: memory of the application that begins outside
 * of a map does not go on inside one, and the pages of HM_MAP_GUARD keep a stray copy out.
 */
struct other_end {
	struct copy copy; /* at.map NULL: in no map */
	uint64_t cuts;
	uint32_t restored; /* blocks of the map, as of map_repair.restored */
};

/* Not an error: bytes are being cut off or brought back, or have been. */
#define COPY_AGAIN 1
/* Not an error: the map of guarded_store() is on its way to another address, or there. */
#define COPY_MOVED 2

static __attribute__((noinline)) int begin_other(const struct copy *copy, char *in_map,
						 struct other_end *other,
						 struct hm_fault *fault)
{
	struct hm_pointer_info at;
	int r;

	r = registry_find(in_map, &at);
	if (r)
		return r == -ENOENT ? 0 : COPY_AGAIN;
	/* A fork child may use the parent's maps like any memory. */
	if (at.map->object.fork_gen != fork_generation)
		return 0;
	if (maps_overlap(copy->at.map, copy->at.map_offset, copy->length, at.map, at.map_offset,
			 copy->length))
		return err_set(-EINVAL,
			       "%s: %" PRIu64
			       " bytes at %p and at %p overlap%s: copy them by way "
			       "of other memory",
			       copy->what, copy->length, copy->dst, copy->src,
			       at.map == copy->at.map ? "" : ", in two maps of the same bytes");
	other->copy = *copy;
	other->copy.in_map = in_map;
	other->copy.at = at;
	other->copy.recoveries = atomic_load(&at.device->generation);
	other->restored = repair_n_restored(at.map);
	r = check_range(&other->copy);
	if (unlikely(r))
		tell_refused(&other->copy, r, fault);
	else if (share_is_cut(at.buffer, buffer_end(&other->copy), &other->cuts))
		r = COPY_AGAIN;
	return r;
}

/* As find_map(), for bytes that need not be in a map. COPY_AGAIN: the map is being changed. */
static inline int find_other(const struct copy *copy, struct other_end *other,
			     struct hm_fault *fault)
{
	char *in_map = copy->in_map == copy->dst ? (char *)(uintptr_t)copy->src : copy->dst;

	other->copy.at.map = NULL;
	if (likely(!registry_may_find(in_map)))
		return 0;
	return begin_other(copy, in_map, other, fault);
}

/* True: lost bytes came back since, so the copy may be of their replacement. */
static inline bool was_restored(const struct copy *copy, uint32_t before)
{
	return repair_n_restored(copy->at.map) != before;
}

/* Not inlined: few copies have one. No other call reports on its device. */
static __attribute__((noinline)) int check_other(const struct other_end *other,
						 struct hm_fault *fault)
{
	int r = device_loss_notice(other->copy.at.device, check_copied(&other->copy, fault));

	return !r && was_restored(&other->copy, other->restored) ? COPY_AGAIN : r;
}

static inline bool other_was_cut(const struct other_end *other)
{
	return other->copy.at.map &&
	       share_was_cut(other->copy.at.buffer, buffer_end(&other->copy), other->cuts);
}

static int check_arguments(const struct copy *copy, const struct hm_fault *fault)
{
	if (!copy->dst || !copy->src || !copy->length)
		return err_set(-EINVAL, "%s: %s", copy->what,
			       copy->length ? "a pointer is NULL" : "the length is 0");
	if (fault)
		return struct_check_out(fault->struct_size, sizeof(*fault), sizeof(*fault),
					"hm_fault");
	return 0;
}

/* Longest wait while bytes are cut off. A GiB of them takes some 100 ms. */
#define COPY_PATIENCE_NS 1000000000
static const struct timespec copy_pause = { 0, 1000000 };

/*
 * Clears bytes that were cut off under a copy into them, in the middle of a page: they may have
 * been stored after they were cleared, and would show when the buffer grows, as no other step
 * clears them again. Bytes that another process cuts off are for that process to clear.
 */
static void clear_behind_end(const struct copy *to)
{
	static const char zeros[4096];
	uint64_t from, end, length, piece;
	struct hm_guard guard;

	/* A callback holds locks of another buffer, a callback of which may be here, too. */
	if (share_is_received(to->at.buffer) || view_in_callback() ||
	    buffer_lock(to->at.buffer))
		return;
	length = to->at.map->length;
	from = max_u64(to->at.map_offset, length);
	end = min_u64(to->at.map_offset + to->length,
		      round_up(length, to->at.buffer->page_size));
	for (; from < end; from += piece) {
		piece = min_u64(end - from, sizeof(zeros));
		if (guard_copy(&guard, guard_own, false, NULL, to->at.map->address + from,
			       zeros, piece))
			break;
	}
	buffer_unlock(to->at.buffer);
}

/* Called after a copy that may have gone beyond an end. Keeps its text. */
static __attribute__((noinline)) void after_cut(const struct copy *copy,
						const struct other_end *other)
{
	err_hold();
	if (copy->in_map == copy->dst)
		clear_behind_end(copy);
	else if (other->copy.at.map)
		clear_behind_end(&other->copy);
	err_release();
}

/* By the cache modes of both ends: NULL, memcpy(), for memory in maps of none other. */
static inline copy_function *way_of(const struct copy *copy, const struct other_end *other)
{
	uint8_t cache = copy->at.cache, beyond = 0;

	if (unlikely(other->copy.at.map != NULL))
		beyond = other->copy.at.cache;
	return copy->in_map == copy->dst ? copy_way(cache, beyond, copy->length) :
					   copy_way(beyond, cache, copy->length);
}

/* Keeps the map at its address until drop_place(), without a lock; false: it is being moved. */
static bool hold_place(struct hm_map *map)
{
	atomic_fetch_add(&map->n_store, 1);
	if (likely(!atomic_load(&map->moving)))
		return true;
	atomic_fetch_sub(&map->n_store, 1);
	return false;
}

static void drop_place(struct hm_map *map)
{
	atomic_fetch_sub(&map->n_store, 1);
}

/* As guard_copy(), for guarded_store(); or COPY_MOVED. */
static __attribute__((noinline)) int store_in_place(const struct copy *copy,
						    struct hm_guard *guard)
{
	struct hm_map *map = copy->at.map;
	int r = 0;

	if (!hold_place(map))
		return COPY_MOVED;
	if (map->address + copy->at.map_offset != copy->in_map)
		r = COPY_MOVED;
	else if (copy->unguarded)
		copy->store(copy->dst, copy->src, copy->length);
	else
		r = guard_copy(guard, copy->slot, false, copy->store, copy->dst, copy->src,
			       copy->length);
	drop_place(map);
	return r;
}

/*
 * One try at all of the bytes: 0, a negative errno, with the fault in @guard, COPY_AGAIN or
 * COPY_MOVED.
 */
static int copy_once(const struct copy *copy, struct hm_guard *guard)
{
	uint32_t restored = repair_n_restored(copy->at.map);
	uint64_t cuts, end = buffer_end(copy);
	struct other_end other;
	int r;

	guard->fault.cause = HM_FAULT_NONE;
	r = find_other(copy, &other, &guard->fault);
	if (unlikely(r < 0))
		return r;
	if (unlikely(share_is_cut(copy->at.buffer, end, &cuts) || r)) {
		nanosleep(&copy_pause, NULL);
		return COPY_AGAIN;
	}
	r = unlikely(copy->store != NULL) ?
		    store_in_place(copy, guard) :
		    guard_copy(guard, copy->slot, copy->follows, way_of(copy, &other),
			       copy->dst, copy->src, copy->length);
	if (unlikely(r < 0 || r == COPY_MOVED))
		return r;
	if (unlikely(r)) {
		r = fault_explain(&guard->fault, guard->base, copy->what);
	} else {
		r = check_copied(copy, &guard->fault);
		if (unlikely(!r && other.copy.at.map))
			r = check_other(&other, &guard->fault);
		if (unlikely(!r && was_restored(copy, restored)))
			r = COPY_AGAIN;
	}
	/*
	 * Bytes that were cut off and came back are zeros, without a fault and at the old size;
	 * and bytes that faulted may be there again.
	 */
	if (unlikely(share_was_cut(copy->at.buffer, end, cuts) || other_was_cut(&other)))
		r = COPY_AGAIN;
	if (unlikely(r == COPY_AGAIN || r == -ERANGE))
		after_cut(copy, &other);
	return r;
}

/*
 * Asks for the first line of each of the next pages before its bytes are read, while the map is
 * looked up: the address of the page comes with the line, and the CPU's own prefetching, which
 * ends with a page, begins there [Intel 64 and IA-32 Architectures Optimization Reference
 * Manual, "Hardware Prefetching"]. Asking for a line raises no fault.
 */
#define PAGES_AHEAD 4u
#define PAGE 4096u

/* Always inlined: a compiler sees no effect in such a function, and leaves a call out. */
static inline __attribute__((always_inline)) void bring_pages(const struct copy *copy)
{
	const char *from = copy->src;
	char *to = copy->dst;
	uint64_t at, end = min_u64(copy->length, PAGES_AHEAD * PAGE);

	for (at = 0; at < end; at += PAGE) {
		__builtin_prefetch(from + at, 0);
		__builtin_prefetch(to + at, 1);
	}
}

/*
 * Tries until all of the bytes are copied, of a map that was found with the result @r, or for a
 * second at most.
 */
static inline __attribute__((always_inline)) int
copy_found(struct copy *copy, struct hm_guard *guard, int r, struct hm_fault *ret_fault)
{
	uint64_t deadline = 0;

	if (unlikely(r))
		goto out;
	while (unlikely((r = copy_once(copy, guard)) == COPY_AGAIN)) {
		guard->fault.cause = HM_FAULT_NONE;
		copy->follows = false;
		if (!deadline)
			deadline = time_now_ns() + COPY_PATIENCE_NS;
		else if (time_now_ns() > deadline)
			return err_set(
				-EAGAIN,
				"%s: bytes kept being cut off, or brought back: call again",
				copy->what);
		/*
		 * Must not go beyond the end: bytes there may still exist, in the middle of a
		 * page.
		 */
		r = check_range(copy);
		if (r) {
			tell_refused(copy, r, &guard->fault);
			break;
		}
	}
	if (likely(!r)) {
		guard_copied(copy->slot);
		return 0;
	}
	/* Callbacks must find the lock free that is held around guarded_store(). */
	if (!copy->store)
		r = device_loss_notice(copy->at.device, r);
out:
	if (ret_fault && guard->fault.cause)
		struct_write(ret_fault, &guard->fault, ret_fault->struct_size);
	return r;
}

/*
 * Not inlined: a compiler that splits it behind the first checks passes all arguments on once
 * more.
 */
static __attribute__((noinline)) int copy_bytes(const char *what, void *in_map, void *dst,
						const void *src, uint64_t length,
						struct hm_fault *ret_fault)
{
	struct hm_guard guard;
	struct copy copy;
	int r;

	copy.slot = guard_own;
	copy.follows = guard_follows(copy.slot);
	copy.what = what;
	copy.in_map = in_map;
	copy.dst = dst;
	copy.src = src;
	copy.length = length;
	copy.store = NULL;
	copy.unguarded = false;
	r = check_arguments(&copy, ret_fault);
	if (r)
		return r;
	if (unlikely(handler_flags() == HANDLER_NONE))
		return guard_refuse_uninstalled(what);
	bring_pages(&copy);
	r = find_map(&copy, &guard.fault);
	return copy_found(&copy, &guard, r, ret_fault);
}

/* guarded_store() at the map's present address, or COPY_MOVED. */
static int store_once(const char *what, struct hm_map *map, uint64_t offset, uint64_t length,
		      copy_function *store, const void *from, struct hm_fault *ret_fault)
{
	struct copy copy = { .what = what, .src = from, .length = length, .store = store };
	struct hm_guard guard;
	int r;

	copy.unguarded = handler_flags() == HANDLER_NONE;
	copy.slot = guard_own;
	if (!hold_place(map))
		return COPY_MOVED;
	copy.in_map = map->address + offset;
	drop_place(map);
	copy.dst = copy.in_map;
	/* A place behind the map's end is in no map. */
	r = map_check_range(map, offset, length, what);
	if (unlikely(r)) {
		copy.at = (struct hm_pointer_info){
			.map = map,
			.buffer = map->buffer,
			.map_offset = offset,
			.generation = map->generation,
		};
		guard.fault.cause = HM_FAULT_NONE;
		tell_refused(&copy, r, &guard.fault);
		return copy_found(&copy, &guard, r, ret_fault);
	}
	r = find_map(&copy, &guard.fault);
	/* Moved since its address was read; another one may have come to the place. */
	if (unlikely(r == -ENOENT || (!r && copy.at.map != map)))
		return COPY_MOVED;
	return copy_found(&copy, &guard, r, ret_fault);
}

int guarded_store(const char *what, struct hm_map *map, uint64_t offset, uint64_t length,
		  copy_function *store, const void *from, struct hm_fault *ret_fault)
{
	uint64_t deadline = 0;
	int r;

	while (unlikely((r = store_once(what, map, offset, length, store, from, ret_fault)) ==
			COPY_MOVED)) {
		if (!deadline)
			deadline = time_now_ns() + COPY_PATIENCE_NS;
		else if (time_now_ns() > deadline)
			return err_set(-EAGAIN, "%s: the map kept moving: call again", what);
		err_clear(); /* the place of before was in no map */
		nanosleep(&copy_pause, NULL);
	}
	return r;
}

int hm_copy_in(void *dst_in_map, const void *src, uint64_t length, struct hm_fault *fault)
{
	err_begin();
	return copy_bytes("hm_copy_in", dst_in_map, dst_in_map, src, length, fault);
}

int hm_copy_out(void *dst, const void *src_in_map, uint64_t length, struct hm_fault *fault)
{
	void *in_map = (void *)(uintptr_t)src_in_map;

	err_begin();
	return copy_bytes("hm_copy_out", in_map, dst, src_in_map, length, fault);
}
