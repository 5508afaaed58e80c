// SPDX-License-Identifier: MIT
/* Finds a map's place in the address space, and makes its first mappings there. */
#include "map/map.h"

#include <sys/mman.h>

#include "core/buffer.h"
#include "core/device_link.h"
#include "dmabuf/dmabuf.h"
#include "base/reserve.h"
#include "base/rlimits.h"
#include "core/segments.h"
#include "share/share.h"
#include "base/sys.h"

/*
 * A huge page needs room for one, and an offset that agrees with the address. Other maps need
 * no alignment: small windows of one buffer side by side share page tables, and the registry's
 * nodes.
 */
static uint64_t alignment_of(const struct hm_map *map)
{
	const struct hm_buffer *buffer = map->buffer;

	if (map->span >= buffer->alignment && is_aligned(map->offset, buffer->alignment))
		return buffer->alignment;
	return buffer->page_size;
}

/*
 * A window covers whole entries of the registry (radix.h). At a multiple of 64 KiB it takes one
 * word for each 64 KiB there, elsewhere sixteen words, all of which a lookup among many windows
 * has to bring into the cache.
 */
#define WINDOW_ALIGNMENT KIB(64)

static bool is_window(uint64_t base, uint64_t span)
{
	return is_aligned(base | span, WINDOW_ALIGNMENT) && span < MAP_HUGE_LEAST;
}

/*
 * Hint for the end of the next window, which costs no system call. The kernel takes the hint if
 * the place is free; otherwise it uses its own rule, which mostly gives the place below the
 * lowest window, just as good. A release only raises the hint, so that the freed place is used
 * again instead of one further down.
 */
static _Atomic uint64_t window_end;

/*
 * The same for maps that may have huge pages. To reserve room to align in, and to give the rest
 * back, takes three system calls; a hint takes none.
 */
static _Atomic uint64_t aligned_end;

static bool is_at(const struct hm_map *map, uint64_t alignment)
{
	return is_aligned((uintptr_t)map->address, alignment);
}

void map_placed(const struct hm_map *map)
{
	if (map->span >= MAP_HUGE_LEAST && is_at(map, map->buffer->alignment))
		atomic_store_explicit(&aligned_end, (uintptr_t)map->address,
				      memory_order_relaxed);
	if (is_window((uintptr_t)map->address, map->span))
		atomic_store_explicit(&window_end, (uintptr_t)map->address,
				      memory_order_relaxed);
}

static void place_released(const struct hm_map *map)
{
	uint64_t end = (uintptr_t)map->address + map->span;

	if (map->span >= MAP_HUGE_LEAST &&
	    end > atomic_load_explicit(&aligned_end, memory_order_relaxed))
		atomic_store_explicit(&aligned_end, end, memory_order_relaxed);
	if (is_window((uintptr_t)map->address, map->span) &&
	    end > atomic_load_explicit(&window_end, memory_order_relaxed))
		atomic_store_explicit(&window_end, end, memory_order_relaxed);
}

/*
 * Takes the mapping of all of the segment that an earlier map left, with the pages that were
 * brought in. NULL: none was left.
 */
static void *take_kept(const struct hm_map *map, const struct hm_segment *segment,
		       uint64_t from, uint64_t length, int prot)
{
	const struct hm_device *device = map->buffer->device;
	void *mapped;

	if (from != segment->offset || length != segment->length)
		return NULL;
	mapped = device->ops->map_take(segments_link(map->buffer)->backend, segment);
	if (!mapped || !sys_mprotect(mapped, length, prot))
		return mapped;
	sys_munmap(mapped, length);
	return NULL;
}

static void placed_at(struct hm_map *map, void *mapped)
{
	map->address = mapped;
	map->reservation.base = mapped;
	map->reservation.length = map->span;
}

/* One object, no guard: the mapping is its own reservation. */
static int place_at(struct hm_map *map, uint64_t hint, int prot)
{
	const struct hm_segment *segment = &map->buffer->segment[0];
	void *mapped;
	int r;

	r = map_direct(segment, map->offset, map->span, (char *)(uintptr_t)hint, 0, prot,
		       &mapped);
	if (r)
		return map_explain(segment, map->span, TAKES_SPACE, r);
	placed_at(map, mapped);
	return 0;
}

static int map_part(const struct hm_map *map, const struct hm_segment *segment, uint64_t from,
		    uint64_t length, int prot)
{
	char *address = map->address + (from - map->offset);
	void *kept = take_kept(map, segment, from, length, prot);

	if (kept && !reserve_move(kept, length, length, address))
		return 0;
	if (kept)
		sys_munmap(kept, length);
	return map_one(segment, from, length, address, prot);
}

static int place_reserved(struct hm_map *map, uint64_t alignment, int prot)
{
	uint64_t guard = map->map_flags & HM_MAP_GUARD ? map->buffer->page_size : 0;
	struct hm_buffer *buffer = map->buffer;
	uint32_t i;
	int r;

	r = reserve_range(map->span, buffer->page_size, alignment, guard, &map->reservation,
			  &map->address);
	if (r)
		return r;
	for (i = buffer_segment_at(buffer, map->offset); i < buffer->n_segment; i++) {
		const struct hm_segment *segment = &buffer->segment[i];
		uint64_t from = max_u64(map->offset, segment->offset);
		uint64_t to =
			min_u64(map->offset + map->span, segment->offset + segment->length);

		if (from >= to)
			break;
		r = map_part(map, segment, from, to - from, prot);
		if (r)
			goto err_unmap;
	}
	return 0;

err_unmap:
	sys_munmap(map->reservation.base, map->reservation.length);
	return r;
}

static int place_simple(struct hm_map *map, int prot)
{
	uint64_t end = atomic_load_explicit(&window_end, memory_order_relaxed);
	bool window = is_window(0, map->span);
	void *kept;
	int r;

	kept = take_kept(map, &map->buffer->segment[0], map->offset, map->span, prot);
	if (kept) {
		placed_at(map, kept);
		return 0;
	}
	r = place_at(map, window && end > map->span ? end - map->span : 0, prot);
	if (r || !window || is_window((uintptr_t)map->address, map->span) ||
	    sys_munmap(map->address, map->span))
		return r;
	/* Rare: the first window, or a hole between foreign mappings. */
	r = place_reserved(map, WINDOW_ALIGNMENT, prot);
	if (!r)
		return 0;
	/* Without room to align in, any place will do, and that it is another is no failure. */
	err_clear();
	return place_at(map, 0, prot);
}

/* By one mapping at the hint, if that place is free; otherwise in reserved room. */
static int place_aligned(struct hm_map *map, uint64_t alignment, int prot)
{
	uint64_t end = atomic_load_explicit(&aligned_end, memory_order_relaxed);
	int r;

	if (end <= map->span || backend_has(map->buffer->device->ops, HM_BACKEND_MAP_CACHE))
		return place_reserved(map, alignment, prot);
	r = place_at(map, round_down(end - map->span, alignment), prot);
	if (!r && (is_at(map, alignment) || sys_munmap(map->address, map->span)))
		return 0;
	/*
	 * What is short may do for a reservation, which promises no memory. Where the hint is
	 * taken, a DAX device refuses the address that the kernel chooses.
	 */
	if (r && r != -ENOMEM && !(r == -EINVAL && map->buffer->page_size > page_size()))
		return r;
	err_clear();
	return place_reserved(map, alignment, prot);
}

/*
 * Some file systems refuse MAP_SHARED (-ENODEV; FUSE with direct I/O). A reader with a private
 * map loses only the sight of later writes: visible as HM_BACKING_FILE_PRIVATE.
 */
static bool may_be_private(const struct hm_buffer *buffer)
{
	return buffer_is(buffer, HM_MEMORY_STORAGE) && !buffer_is(buffer, MEMORY_PRIVATE) &&
	       !(buffer->access & HM_WRITE) && !buffer->n_map;
}

static void make_private(struct hm_buffer *buffer)
{
	atomic_fetch_or(&buffer->memory, MEMORY_PRIVATE);
	buffer->segment[0].flags = HM_SEGMENT_PRIVATE | HM_SEGMENT_NORESERVE;
}

static void make_shared(struct hm_buffer *buffer)
{
	atomic_fetch_and(&buffer->memory, ~MEMORY_PRIVATE);
	buffer->segment[0].flags = HM_SEGMENT_SHARED;
}

static bool is_sealed(const struct hm_map *map)
{
	return map->buffer->exported && (map->access & HM_WRITE);
}

static int refuse_sealed(const struct hm_buffer *buffer)
{
	return err_set(-EPERM,
		       "%s was exported read-only: its seal forbids further maps that may be "
		       "written",
		       buffer->name);
}

/* Explains why the map finds no place, where the failed call's own text does not. */
static int explain_place(const struct hm_map *map, int r)
{
	const struct hm_buffer *buffer = map->buffer;

	if (r == -ENODEV && !buffer_is(buffer, HM_MEMORY_STORAGE))
		return err_set(
			r,
			"%s: its device, \"%s\", was taken away: there is nothing to map "
			"any more",
			buffer->name, buffer->device->name);
	/*
	 * An imported dma-buf was checked at its import; a received one was only described by
	 * its sender.
	 */
	if (dmabuf_is_refusal(r) && share_is_received(buffer) && !buffer->n_map &&
	    buffer->segment[0].flags & HM_SEGMENT_DMABUF)
		return dmabuf_explain_map(r);
	if (r == -ENODEV)
		return err_set(-EOPNOTSUPP,
			       "%s: this file system can't share mappings (MAP_SHARED): "
			       "pass HM_BUFFER_READ_ONLY or HM_BUFFER_PRIVATE",
			       buffer->name);
	if (r == -EPERM && is_sealed(map))
		return refuse_sealed(buffer);
	return r;
}

/* @simple: one mapping can be all of the map. */
static int place_somewhere(struct hm_map *map, bool simple, uint64_t alignment, int prot)
{
	if (!simple)
		return place_reserved(map, alignment, prot);
	return alignment <= page_size() ? place_simple(map, prot) :
					  place_aligned(map, alignment, prot);
}

int map_place(struct hm_map *map, uint64_t committed)
{
	struct hm_buffer *buffer = map->buffer;
	uint64_t alignment = alignment_of(map);
	uint64_t mapped = min_u64(map->span, buffer_capacity(buffer) - map->offset);
	bool simple = buffer->n_segment == 1 && !(map->map_flags & HM_MAP_GUARD) &&
		      mapped == map->span &&
		      map_is_direct(&buffer->segment[0], map->offset, map->span);
	int prot = prot_of_access(map->access);
	/* The part that is not committed must not be touched. */
	int first = committed == mapped ? prot : PROT_NONE;
	int r;

	r = place_somewhere(map, simple, alignment, first);
	if (r == -ENODEV && may_be_private(buffer)) {
		/* The sentence of the try that does not count. */
		err_clear();
		make_private(buffer);
		r = place_somewhere(map, simple, alignment, first);
		if (r)
			make_shared(buffer);
	}
	if (r)
		return explain_place(map, r);
	stats_add(&stats.bytes_reserved, map->reservation.length);

	/* While all of it is one mapping. */
	r = map_dress(buffer, map->address, map->span);
	if (r)
		goto err_release;
	if (first != prot) {
		r = sys_mprotect(map->address, committed, prot);
		/* mmap() without PROT_WRITE took the mapping as read-only. */
		if (r == -EACCES && is_sealed(map)) {
			r = refuse_sealed(buffer);
			goto err_release;
		}
		if (r) {
			r = rlimits_explain_map(r, committed, TAKES_DATA,
						"making a map accessible");
			goto err_release;
		}
	}
	return 0;

err_release:
	reserve_release(&map->reservation);
	return r;
}

void map_unplace(struct hm_map *map)
{
	if (!map->reservation.length)
		return;
	reserve_release(&map->reservation);
	place_released(map);
}
