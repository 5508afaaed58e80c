// SPDX-License-Identifier: MIT
/* Maps: the object, its release, its loss. */
#include "map/map.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/buffer.h"
#include "base/compat.h"
#include "core/device_link.h"
#include "base/handler_phase.h"
#include "loss/loss.h"
#include "base/rlimits.h"
#include "base/placement.h"
#include "tell/publish.h"
#include "tell/probe.h"
#include "fault/reach.h"
#include "fault/repair.h"
#include "base/reserve.h"
#include "map/resident.h"
#include "core/segments.h"
#include "map/bracket.h"
#include "share/share.h"
#include "base/sys.h"
#include "map/view.h"

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
	if (buffer_is(buffer, MEMORY_ANON))
		/* -EINVAL without CONFIG_ANON_VMA_NAME; a name only helps people. */
		sys_prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, (uintptr_t)address, length,
			  (uintptr_t)buffer->name);
	if (length >= MAP_HUGE_LEAST && buffer_is(buffer, HM_MEMORY_SPARSE | MEMORY_ANON) &&
	    !buffer_is(buffer, MEMORY_HUGE))
		/* Advice only: hm_map_query() tells how many huge pages came. */
		sys_madvise(address, length, MADV_HUGEPAGE);
	if (buffer->caps & HM_CAP_FORK)
		return 0;
	r = sys_madvise(address, length, MADV_DONTFORK);
	/* madvise(2) answers EAGAIN when the process runs out of mappings. */
	return r ? rlimits_explain_map(r == -EAGAIN ? -ENOMEM : r, length, 0,
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

	return r ? rlimits_explain_map(r, length, TAKES_DATA, "changing rights") : 0;
}

int map_apply_rights(char *address, const struct rangemap *rights, uint64_t offset,
		     uint64_t length)
{
	return rangemap_each(rights, offset, length, apply_run, address);
}

struct hm_map *map_alloc(struct hm_buffer *buffer)
{
	struct hm_map *map = sys_calloc(1, sizeof(*map));

	if (!map)
		return NULL;
	object_init(&map->object, OBJECT_MAP);
	map->buffer = hm_buffer_ref(buffer);
	/* A callback that changes its own map is told -EDEADLK instead of hanging. */
	map->change = (pthread_mutex_t)PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	map->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	CDS_INIT_LIST_HEAD(&map->uses);
	CDS_INIT_LIST_HEAD(&map->views);
	CDS_INIT_LIST_HEAD(&map->scopes);
	CDS_INIT_LIST_HEAD(&map->combines);
	return map;
}

void map_free(struct hm_map *map)
{
	map->object.kind = OBJECT_FREED;
	pthread_mutex_destroy(&map->change);
	pthread_mutex_destroy(&map->lock);
	free(map->rights);
	free(map->spare_rights);
	free(map->base);
	free(map->locked);
	free(map->hidden);
	repair_end(map);
	free(map);
}

void map_link_locked(struct hm_map *map)
{
	struct hm_buffer *buffer = map->buffer;
	struct hm_map *other;

	/* Sorted by address, the order in which a change of the buffer locks its maps. */
	cds_list_for_each_entry(other, &buffer->maps, buffer_link)
		if (other->address > map->address)
			break;
	cds_list_add_tail(&map->buffer_link, &other->buffer_link);
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
	/*
	 * Readers in their sections may still use the mapping, and a fault handler that found
	 * the map may be putting other pages there, or has done so.
	 */
	if (retire_is_on() || atomic_load(&handler_was_installed))
		return;
	if (device->ops->map_keep(segments_link(buffer)->backend, segment, map->address))
		return;
	stats_sub(&stats.bytes_reserved, map->span);
	map->reservation.length = 0;
}

static void dispose(struct retired *retired)
{
	struct hm_map *map = caa_container_of(retired, struct hm_map, retired);
	struct hm_buffer *buffer = map->whole ? map->buffer : NULL;

	map_unplace(map);
	map_free(map);
	if (buffer)
		buffer_unref_retired(buffer);
}

void map_release(struct hm_map *map)
{
	struct hm_buffer *buffer = map->buffer;
	uint64_t committed = buffer_pages(buffer, map->length);
	/*
	 * Released at once: locked bytes count for the process, and peers of a shared buffer
	 * must learn of its end.
	 */
	bool now = map->locked || atomic_load(&buffer->share), whole = map->whole;

	probe_unmap(map);
	bracket_turn_end(map, NULL);
	if (map->locked)
		resident_note(map, NULL);
	stats_sub(&stats.bytes_mapped, committed);
	stats_sub(&stats.maps, 1);
	/*
	 * Retired, because a fault handler that still has the map would put pages over other
	 * mappings.
	 */
	retire(&map->retired, committed, now, dispose);
	/* A map of a part counts fewer bytes than its buffer, which retires by itself. */
	if (!whole)
		hm_buffer_unref(buffer);
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
	err_hold();
	publish_end(map);
	registry_remove(map->slot);
	map_count_special(map->buffer, -1);
	/* Views end at once: an accelerator that ends inside this callback waits for that. */
	view_release_all(map);
	buffer_end_map(map);
	err_release();
}

PROBE_SITE void map_note_lost(struct hm_map *map)
{
	count_add(&map->buffer->counts, COUNT_LOST, 1);
	publish_change(map);
	probe_lost(map);
}

PROBE_SITE void map_note_recovered(struct hm_map *map)
{
	count_add(&map->buffer->counts, COUNT_RECOVERED, 1);
	probe_recovered(map);
}

void map_lose_locked(struct hm_map *map, struct rangemap **none,
		     struct registry_descriptor **staged)
{
	struct rangemap *old = map->rights;
	struct registry_entry entry;

	reserve_mend(map->address, map->span);
	(*none)->n = 1;
	(*none)->run[0].value = HM_NONE;
	map_entry(map, map->address, map->length, map->generation + 1, *none, &entry);
	registry_restage(&entry, *staged);
	registry_commit(map->slot, *staged);
	*staged = NULL;
	pthread_mutex_lock(&map->lock);
	map->rights = *none;
	map->generation++;
	map->lost = true;
	pthread_mutex_unlock(&map->lock);
	map->given_up = true;
	map_note_lost(map);
	*none = NULL;
	free(old);
	/* The locks went with the mappings. */
	resident_note(map, NULL);
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
