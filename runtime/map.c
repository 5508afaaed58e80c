// SPDX-License-Identifier: MIT
/* Maps: made, described, released. */
#include "map.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "access.h"
#include "buffer.h"
#include "compat.h"
#include "lost.h"
#include "rlimits.h"
#include "placement.h"
#include "reach.h"
#include "remap.h"
#include "reserve.h"
#include "resident.h"
#include "smaps.h"
#include "sync.h"
#include "share.h"
#include "sys.h"
#include "view.h"

#define MAP_FLAGS (HM_MAP_GUARD | HM_MAP_POPULATE)

/* From this size on huge pages are asked for: smaller ranges cannot hold one. */
#define HUGE_LEAST MIB(2)

int prot_of_access(uint32_t access)
{
	return (access & HM_READ ? PROT_READ : 0) | (access & HM_WRITE ? PROT_WRITE : 0);
}

int map_dress(const struct hm_buffer *buffer, char *address, uint64_t length)
{
	int r;

	r = placement_apply(address, length, buffer->numa_mode, buffer->numa_nodes);
	if (r)
		return r;
	if (buffer->backing == HM_BACKING_ANON)
		/* -EINVAL without CONFIG_ANON_VMA_NAME: a name is only a help. */
		sys_prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, (uintptr_t)address, length,
			  (uintptr_t)buffer->name);
	if (length >= HUGE_LEAST &&
	    (buffer->backing == HM_BACKING_ANON || buffer->backing == HM_BACKING_MEMFD))
		/* Advice; what was obtained is in hm_map_query. */
		sys_madvise(address, length, MADV_HUGEPAGE);
	if (buffer->caps & HM_CAP_FORK)
		return 0;
	r = sys_madvise(address, length, MADV_DONTFORK);
	/* EAGAIN, which is what madvise(2) makes of it where mappings run out. */
	return r ? rlimits_explain_map(r == -EAGAIN ? -ENOMEM : r, length,
				       "keeping a device map out of fork children") :
		   0;
}

void map_entry(const struct hm_map *map, const char *address, uint64_t length,
	       uint32_t generation, const struct rangemap *rights,
	       struct registry_entry *ret_entry)
{
	*ret_entry = (struct registry_entry){
		.base = (uintptr_t)address,
		.length = length,
		.buffer_offset = map->offset,
		.map = (struct hm_map *)map,
		.buffer = map->buffer,
		.device = map->buffer->device,
		.generation = generation,
		.not_inherited = !(map->buffer->caps & HM_CAP_FORK),
		.access = rights,
	};
}

static int apply_run(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	int r = sys_mprotect((char *)user + offset, length, prot_of_access(value));

	return r ? rlimits_explain_map(r, length, "changing rights") : 0;
}

int map_apply_rights(char *address, const struct rangemap *rights, uint64_t offset,
		     uint64_t length)
{
	return rangemap_each(rights, offset, length, apply_run, address);
}

/* ---- creation ---- */

static int read_desc(struct hm_buffer *buffer, const struct hm_map_desc *from,
		     struct hm_map_desc *desc)
{
	int r;

	if (!from) {
		*desc = (struct hm_map_desc){ .access = buffer->access };
		return 0;
	}
	r = struct_read(desc, sizeof(*desc), from, from->struct_size, sizeof(*desc),
			"hm_map_desc");
	if (r)
		return r;
	if (desc->flags & ~MAP_FLAGS)
		return err_set(-EINVAL, "hm_map_desc.flags 0x%x has unknown bits 0x%x",
			       desc->flags, desc->flags & ~MAP_FLAGS);
	if (desc->reserved)
		return err_set(-EINVAL, "hm_map_desc.reserved is not 0");
	if ((desc->flags & HM_MAP_POPULATE) && !desc->access)
		return err_set(-EINVAL,
			       "HM_MAP_POPULATE needs HM_READ: what can't be read can't "
			       "be brought in");
	return remap_check_access(buffer, desc->access);
}

/* Fills in what follows from the description. Caller holds buffer->lock. */
static int size_up(struct hm_map *map, const struct hm_map_desc *desc, uint64_t *ret_length)
{
	struct hm_buffer *buffer = map->buffer;
	uint64_t length = desc->length;

	if (!is_aligned(desc->offset, buffer->page_size))
		return err_set(-EINVAL,
			       "offset %" PRIu64 " is not a multiple of the buffer's "
			       "page size, %" PRIu64,
			       desc->offset, buffer->page_size);
	if (desc->offset > buffer->size || length > buffer->size - desc->offset ||
	    (!length && desc->offset == buffer->size))
		return err_set(-ERANGE,
			       "bytes %" PRIu64 " to %" PRIu64 " are not in the buffer "
			       "of %" PRIu64 " bytes",
			       desc->offset, desc->offset + length, buffer->size);
	/* Length 0 with an offset is the rest: a part, which does not follow. */
	map->whole = !length && !desc->offset;
	if (!length)
		length = buffer->size - desc->offset;
	map->offset = desc->offset;
	map->access = desc->access;
	map->map_flags = desc->flags;
	map->span = buffer_pages(buffer, map->whole ? buffer->max_size : length);
	*ret_length = length;
	return 0;
}

/*
 * A huge page needs room for one, and an offset that agrees with the address.
 * Any other map need not be aligned: small windows of one buffer side by side
 * share page tables, and the registry's nodes.
 */
static uint64_t alignment_of(const struct hm_map *map)
{
	const struct hm_buffer *buffer = map->buffer;

	if (map->span >= buffer->alignment && is_aligned(map->offset, buffer->alignment))
		return buffer->alignment;
	return buffer->page_size;
}

/*
 * A window of whole entries of the registry (radix.h): at their multiples it
 * takes one word for 64 KiB there, elsewhere sixteen, which is what a look-up
 * among many of them has to bring into the cache.
 */
#define WINDOW_ALIGNMENT KIB(64)

static bool is_window(uint64_t base, uint64_t span)
{
	return is_aligned(base | span, WINDOW_ALIGNMENT) && span < HUGE_LEAST;
}

/*
 * Where the next window should end, as a hint, which costs no system call: the
 * kernel takes it where the place is free, and else goes by its own rule, which
 * mostly is the place below the lowest window, and thus as good. A release only
 * raises it: the place that became free is used again, not one further down.
 */
static _Atomic uint64_t window_end;

static void window_placed(const struct hm_map *map)
{
	if (is_window((uintptr_t)map->address, map->span))
		atomic_store_explicit(&window_end, (uintptr_t)map->address,
				      memory_order_relaxed);
}

static void window_released(const struct hm_map *map)
{
	uint64_t end = (uintptr_t)map->address + map->span;

	if (is_window((uintptr_t)map->address, map->span) &&
	    end > atomic_load_explicit(&window_end, memory_order_relaxed))
		atomic_store_explicit(&window_end, end, memory_order_relaxed);
}

/*
 * All of the segment as an earlier map left it, with the pages that were brought in.
 * NULL: none did.
 */
static void *take_kept(const struct hm_map *map, const struct hm_segment *segment,
		       uint64_t from, uint64_t length, int prot)
{
	const struct hm_device *device = map->buffer->device;
	void *mapped;

	if (from != segment->offset || length != segment->length)
		return NULL;
	mapped = device->ops->map_take(device->backend, segment);
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
	if (!r)
		placed_at(map, mapped);
	return r;
}

static int map_part(const struct hm_map *map, const struct hm_segment *segment, uint64_t from,
		    uint64_t length, int prot)
{
	char *address = map->address + (from - map->offset);
	void *kept = take_kept(map, segment, from, length, prot);

	if (kept && !sys_mremap_to(kept, length, length, address))
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

	r = reserve_range(map->span, alignment, guard, &map->reservation, &map->address);
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
	/* Rarely: the first one, or a hole between others' mappings. */
	r = place_reserved(map, WINDOW_ALIGNMENT, prot);
	/* Where there is no room to align in, any place will do. */
	return r ? place_at(map, 0, prot) : 0;
}

/*
 * Some file systems refuse MAP_SHARED (-ENODEV; FUSE with direct I/O). A reader
 * loses nothing by a private map but the sight of later writes: visible as
 * HM_BACKING_FILE_PRIVATE.
 */
static bool may_be_private(const struct hm_buffer *buffer)
{
	return buffer->backing == HM_BACKING_FILE && !(buffer->access & HM_WRITE) &&
	       !buffer->n_map;
}

static void set_backing(struct hm_buffer *buffer, uint32_t backing, uint32_t segment_flags)
{
	buffer->backing = backing;
	buffer->segment[0].flags = segment_flags;
}

static int place(struct hm_map *map, uint64_t committed)
{
	struct hm_buffer *buffer = map->buffer;
	uint64_t alignment = alignment_of(map);
	uint64_t mapped = min_u64(map->span, buffer_capacity(buffer) - map->offset);
	bool simple = buffer->n_segment == 1 && !(map->map_flags & HM_MAP_GUARD) &&
		      alignment <= page_size() && mapped == map->span &&
		      map_is_direct(&buffer->segment[0], map->offset, map->span);
	int prot = prot_of_access(map->access);
	/* The part that is not committed must not be touched. */
	int first = committed == mapped ? prot : PROT_NONE;
	int r;

	r = simple ? place_simple(map, first) : place_reserved(map, alignment, first);
	if (r == -ENODEV && may_be_private(buffer)) {
		set_backing(buffer, HM_BACKING_FILE_PRIVATE,
			    HM_SEGMENT_PRIVATE | HM_SEGMENT_NORESERVE);
		r = simple ? place_simple(map, first) : place_reserved(map, alignment, first);
		if (r)
			set_backing(buffer, HM_BACKING_FILE, HM_SEGMENT_SHARED);
	}
	if (r == -ENODEV && buffer->backing == HM_BACKING_DEVICE)
		return err_set(
			r,
			"%s: its device, \"%s\", was taken away: there is nothing to map "
			"any more",
			buffer->name, buffer->device->name);
	if (r == -ENODEV)
		return err_set(r,
			       "%s: this file system can't share mappings (MAP_SHARED): "
			       "pass HM_BUFFER_READ_ONLY or HM_BUFFER_PRIVATE",
			       buffer->name);
	if (r == -EPERM && buffer->exported && (map->access & HM_WRITE))
		return err_set(r,
			       "%s was exported read-only: its seal forbids further maps that "
			       "may be written",
			       buffer->name);
	if (r)
		return rlimits_explain_map(r, map->span, "mapping");
	stats_add(&stats.bytes_reserved, map->reservation.length);

	if (first != prot) {
		r = sys_mprotect(map->address, committed, prot);
		if (r) {
			r = rlimits_explain_map(r, committed, "making a map accessible");
			goto err_release;
		}
	}
	r = map_dress(buffer, map->address, map->span);
	if (r)
		goto err_release;
	return 0;

err_release:
	reserve_release(&map->reservation);
	return r;
}

static struct hm_map *map_alloc(struct hm_buffer *buffer)
{
	struct hm_map *map = sys_calloc(1, sizeof(*map));
	pthread_mutexattr_t attr;

	if (!map)
		return NULL;
	object_init(&map->object, OBJECT_MAP);
	map->buffer = hm_buffer_ref(buffer);
	/* A callback that changes its own map is told -EDEADLK instead of hanging. */
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&map->change, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_mutex_init(&map->lock, NULL);
	CDS_INIT_LIST_HEAD(&map->uses);
	CDS_INIT_LIST_HEAD(&map->views);
	map->bracket_begin = bracket_begin_of(map, false);
	map->bracket_end = bracket_end_of(map, false);
	return map;
}

static void map_free(struct hm_map *map)
{
	map->object.kind = OBJECT_FREED;
	pthread_mutex_destroy(&map->change);
	pthread_mutex_destroy(&map->lock);
	free(map->rights);
	free(map->spare_rights);
	free(map->locked);
	free(map->hidden);
	hm_buffer_unref(map->buffer);
	free(map);
}

void map_link_locked(struct hm_map *map)
{
	struct hm_buffer *buffer = map->buffer;
	struct hm_map *other;

	/* By address: the order in which a change of the buffer locks its maps. */
	cds_list_for_each_entry(other, &buffer->maps, buffer_link)
		if (other->address > map->address)
			break;
	cds_list_add_tail(&map->buffer_link, &other->buffer_link);
}

static int create_locked(struct hm_map *map, const struct hm_map_desc *desc)
{
	struct hm_buffer *buffer = map->buffer;
	struct registry_entry entry;
	uint64_t length = 0, committed;
	int r;

	r = lost_check(buffer->device);
	if (r)
		return r;
	if (desc->flags & HM_MAP_POPULATE) {
		r = resident_check(buffer);
		if (r)
			return r;
	}
	if (buffer->n_map && !(buffer->caps & HM_CAP_MULTI_MAP))
		return err_set(-EBUSY, "%s is private memory and has its one map already",
			       buffer->name);
	r = size_up(map, desc, &length);
	if (r)
		return r;
	committed = buffer_pages(buffer, length);
	map->rights = rangemap_create(map->access, buffer->cache);
	if (!map->rights)
		return err_set(-ENOMEM, "no memory for a map's rights");
	r = place(map, committed);
	if (r)
		return r;
	map->length = length;
	if (map->map_flags & HM_MAP_POPULATE) {
		r = resident_populate(map, 0, committed, map->access);
		if (r)
			goto err_release;
	}
	map_entry(map, map->address, length, 0, map->rights, &entry);
	r = registry_insert(&entry, map->span, &map->slot);
	if (r) {
		r = err_set(r, "entering a map of %" PRIu64 " bytes into the registry: %s",
			    length, err_name(r));
		goto err_release;
	}
	window_placed(map);
	map_link_locked(map);
	buffer->n_map++;
	stats_add(&stats.maps, 1);
	stats_add(&stats.bytes_mapped, committed);
	return 0;

err_release:
	reserve_release(&map->reservation);
	return r;
}

int hm_map_create(struct hm_buffer *buffer, const struct hm_map_desc *from,
		  struct hm_map **ret_map)
{
	struct hm_map_desc desc;
	struct hm_map *map;
	int r, shown = 0;

	r = buffer_check(buffer);
	if (r)
		return r;
	if (!ret_map)
		return err_set(-EINVAL, "hm_map_create: ret_map is NULL");
	r = read_desc(buffer, from, &desc);
	if (!r)
		r = access_map(buffer, &desc);
	if (r)
		return r;
	map = map_alloc(buffer);
	if (!map)
		return err_set(-ENOMEM, "no memory for a map's description");

	r = buffer_lock(buffer);
	if (r)
		goto err_free;
	r = create_locked(map, &desc);
	if (!r)
		shown = reach_show(map);
	buffer_unlock(buffer);
	if (r) {
		r = lost_notice(buffer->device, r);
		goto err_free;
	}
	/* Taken away meanwhile, it may not have seen this map: nobody else has yet. */
	r = lost_check(buffer->device);
	if (!r)
		r = shown;
	if (r)
		goto err_map;
	*ret_map = map;
	return 0;

err_map:
	hm_map_unref(map);
	return r;
err_free:
	map_free(map);
	return r;
}

/* ---- release ---- */

void map_keep_locked(struct hm_map *map)
{
	const struct hm_buffer *buffer = map->buffer;
	const struct hm_segment *segment = &buffer->segment[0];
	const struct hm_device *device = buffer->device;

	if (map->touched || buffer->n_segment > 1 || map->offset ||
	    map->span != segment->length || map->reservation.length != map->span)
		return;
	if (device->ops->map_keep(device->backend, segment, map->address))
		return;
	stats_sub(&stats.bytes_reserved, map->span);
	map->reservation.length = 0;
}

void map_release(struct hm_map *map)
{
	bracket_turn_end(map);
	if (map->locked)
		stats_sub(&stats.bytes_locked, resident_locked_bytes(map));
	stats_sub(&stats.bytes_mapped, buffer_pages(map->buffer, map->length));
	stats_sub(&stats.maps, 1);
	if (map->reservation.length) {
		reserve_release(&map->reservation);
		window_released(map);
	}
	map_free(map);
}

struct hm_map *hm_map_ref(struct hm_map *map)
{
	if (map)
		object_ref(&map->object);
	return map;
}

void hm_map_unref(struct hm_map *map)
{
	if (!map || !object_put(&map->object))
		return;
	registry_remove(map->slot);
	/* At once: an accelerator that ends in this very callback waits for it. */
	view_release_all(map);
	buffer_end_map(map);
}

/* ---- questions ---- */

void *hm_map_address(const struct hm_map *map)
{
	return map ? map->address : NULL;
}

uint64_t hm_map_length(const struct hm_map *map)
{
	return map ? atomic_load_explicit(&map->length, memory_order_relaxed) : 0;
}

int map_refuse_range(struct hm_map *map, uint64_t offset, uint64_t length, const char *what)
{
	if (!length)
		return err_set(-EINVAL, "%s: the length is 0", what);
	return err_set(-ERANGE,
		       "%s: %" PRIu64 " bytes from %" PRIu64 " on are not in "
		       "the map of %" PRIu64 " bytes",
		       what, length, offset, map->length);
}

int map_check_pages(struct hm_map *map, uint64_t offset, uint64_t length, const char *what)
{
	uint64_t page = map->buffer->page_size;
	int r;

	r = map_check_range(map, offset, length, what);
	if (r)
		return r;
	if (is_aligned(offset, page) &&
	    (is_aligned(length, page) || offset + length == map->length))
		return 0;
	return err_set(-EINVAL,
		       "%s: offset %" PRIu64 " and length %" PRIu64 " must be multiples "
		       "of the map's page size, %" PRIu64 " (or the length reach its end)",
		       what, offset, length, page);
}

static int lacks(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	uint32_t wanted = *(uint32_t *)user;

	(void)offset, (void)length;
	return (value & wanted) != wanted;
}

bool map_allows(struct hm_map *map, uint64_t offset, uint64_t length, uint32_t access)
{
	bool allowed;

	pthread_mutex_lock(&map->lock);
	allowed = !rangemap_each(map->rights, offset, length, lacks, &access);
	pthread_mutex_unlock(&map->lock);
	return allowed;
}

int hm_map_query(struct hm_map *map, struct hm_map_info *ret_info)
{
	struct hm_map_info info;
	struct smaps_sum sum = { 0 };
	uint32_t fields;
	int r;

	r = map_check(map);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_map_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info),
			     offsetof(struct hm_map_info, locked), "hm_map_info");
	if (r)
		return r;
	fields = ret_info->fields;
	if (fields & ~(HM_MAP_RESIDENT | HM_MAP_LOCKED))
		return err_set(-EINVAL, "hm_map_query: unknown fields 0x%x", fields);
	/* Held against a change, so that address and length belong together. */
	r = remap_lock(map);
	if (r)
		return r;
	if (fields) {
		r = smaps_read(map->address, buffer_pages(map->buffer, map->length), &sum);
		if (r)
			goto out;
	}
	pthread_mutex_lock(&map->lock);
	info = (struct hm_map_info){
		.fields = fields,
		.address = map->address,
		.length = map->length,
		.reserved_length = map->reservation.length,
		.offset = map->offset,
		.page_size = max_u64(map->buffer->page_size, sum.page_size),
		.access = map->rights->run[0].value,
		.runs = map->rights->n,
		.cache = map->buffer->cache,
		.generation = map->generation,
		.whole = map->whole,
		.in_flight = map->n_use,
		.views = map->n_view,
		.brackets = map->n_bracket,
		.resident = sum.resident,
		.huge = sum.huge,
		.locked = sum.locked,
	};
	pthread_mutex_unlock(&map->lock);
	struct_write(ret_info, &info, ret_info->struct_size);
out:
	remap_unlock(map);
	return r;
}
