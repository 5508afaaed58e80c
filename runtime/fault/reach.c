// SPDX-License-Identifier: MIT
/*
 * Pages that CPUs can't reach, in maps of devices that can't take them away by themselves.
 *
 * A change is reported after it has happened, and the state is asked for when a map is updated,
 * one map at a time: the last update gets it right. The reporting thread does not wait for a
 * buffer's lock, the holder of which may be waiting for it: the holder updates the maps.
 */
#include "fault/reach.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "core/buffer.h"
#include "core/device_link.h"
#include "map/map.h"
#include "fault/repair.h"
#include "base/reserve.h"
#include "map/resident.h"
#include "base/rlimits.h"
#include "core/segments.h"
#include "base/sys.h"

/* Values of hm_map.hidden. */
#define SHOWN 0
#define HIDDEN 1

/* A map that is being updated. */
struct showing {
	struct hm_map *map;
	bool hide;                     /* for the range at hand */
	int fd;                        /* a file without bytes; -1: none needed yet */
	const struct rangemap *walked; /* the old map->hidden, whose runs are visited */
};

static bool has_reach(const struct hm_buffer *buffer)
{
	return backend_has(buffer->device->ops, HM_BACKEND_REACH);
}

static int open_bus(struct showing *showing)
{
	int fd;

	if (showing->fd >= 0)
		return 0;
	fd = sys_memfd_create("hetmap:hidden", MFD_CLOEXEC);
	if (fd < 0)
		return err_set(fd,
			       "making an empty file, for the pages of a map that are out of "
			       "reach: %s",
			       err_name(fd));
	showing->fd = fd;
	return 0;
}

/* Maps a file without bytes. If even this fails, the range has no access. */
static int put_bus(struct showing *showing, uint64_t offset, uint64_t length)
{
	char *address = showing->map->address + offset;
	void *mapped;
	int r;

	r = sys_mmap(address, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		     showing->fd, 0, &mapped);
	if (!r)
		r = sys_madvise(address, length, MADV_DONTFORK);
	if (r)
		rlimits_explain_map(r, length, 0, "hiding pages that are out of reach");
	else
		r = map_apply_rights(showing->map->address, showing->map->rights, offset,
				     length);
	if (r)
		reserve_mend(address, length);
	return r;
}

static int put_run(void *user, uint64_t offset, uint64_t length, uint32_t access)
{
	struct hm_map *map = user;
	struct hm_buffer *buffer = map->buffer;

	return map_segments(buffer->segment, buffer->n_segment, map->offset + offset, length,
			    map->address + offset, prot_of_access(access));
}

/* Each run keeps its rights, so that a touch meanwhile finds neither more nor less. */
int reach_put_back(struct hm_map *map, uint64_t offset, uint64_t length)
{
	int r = rangemap_each(map->rights, offset, length, put_run, map);

	if (!r)
		r = map_dress(map->buffer, map->address + offset, length);
	if (r)
		reserve_mend(map->address + offset, length);
	return r;
}

/*
 * A handler's replacements of lost bytes stay, with bytes that were stored there since: the
 * device's pages come and go in the other blocks.
 */
static int show_unpoisoned(struct showing *showing, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length, part;
	struct hm_map *map = showing->map;
	int r, first = 0;

	repair_claim(map, offset, length);
	for (; offset < end; offset += part) {
		if (repair_is_poisoned(map, offset, end - offset, &part))
			continue;
		r = showing->hide ? put_bus(showing, offset, part) :
				    reach_put_back(map, offset, part);
		if (!first)
			first = r;
	}
	repair_release(map);
	return first;
}

/*
 * Steps that can fail without a trace come first. A range that could not be hidden has no
 * access, and counts as hidden, so that it is put back later.
 */
static int show_run(void *user, uint64_t offset, uint64_t length, uint32_t value)
{
	struct showing *showing = user;
	uint32_t wanted = showing->hide ? HIDDEN : SHOWN;
	struct hm_map *map = showing->map;
	struct rangemap *hidden;
	int r;

	if (value == wanted)
		return 0;
	r = showing->hide ? open_bus(showing) : 0;
	if (r)
		return r;
	hidden = rangemap_set(map->hidden, offset, length, wanted);
	if (!hidden)
		return err_set(-ENOMEM, "no memory to note the pages of a map that are out of "
					"reach");
	r = show_unpoisoned(showing, offset, length);
	if (r && !showing->hide) {
		free(hidden);
		return r;
	}
	if (map->hidden != showing->walked)
		free(map->hidden);
	map->hidden = hidden;
	if (!showing->hide)
		resident_lock_again(map, map->address);
	return r;
}

static int show_range(struct showing *showing, uint64_t offset, uint64_t length)
{
	struct hm_map *map = showing->map;
	struct rangemap *old;
	int r;

	if (!map->hidden && !showing->hide)
		return 0;
	if (!map->hidden) {
		map->hidden = rangemap_create(SHOWN, 0);
		if (!map->hidden)
			return err_set(-ENOMEM,
				       "no memory to note the pages of a map that are out of "
				       "reach");
	}
	old = map->hidden;
	showing->walked = old;
	r = rangemap_each(old, offset, length, show_run, showing);
	if (map->hidden != old)
		free(old);
	if (map->hidden->n == 1 && map->hidden->run[0].value == SHOWN) {
		free(map->hidden);
		map->hidden = NULL;
	}
	return r;
}

/* Updates the part of the map that is in the segment, piece by piece. */
static int show_segment(struct showing *showing, const struct hm_segment *segment,
			uint64_t from, uint64_t to)
{
	const struct hm_device *device = showing->map->buffer->device;
	const struct device_link *link = segments_link(showing->map->buffer);
	uint64_t length;
	int r;

	for (; from < to; from += length) {
		showing->hide = device->ops->hidden(link->backend, segment,
						    from - segment->offset, to - from, &length);
		r = show_range(showing, from - showing->map->offset, length);
		if (r)
			return r;
	}
	return 0;
}

static int show_all(struct hm_map *map)
{
	struct showing showing = { .map = map, .fd = -1 };
	struct hm_buffer *buffer = map->buffer;
	uint64_t end = map->offset + buffer_pages(buffer, map->length), from, to;
	const struct hm_segment *segment;
	uint32_t i;
	int r = 0;

	for (i = 0; i < buffer->n_segment && !r; i++) {
		segment = &buffer->segment[i];
		from = max_u64(segment->offset, map->offset);
		to = min_u64(segment->offset + segment->length, end);
		r = show_segment(&showing, segment, from, to);
	}
	if (showing.fd >= 0)
		sys_close(showing.fd);
	return r;
}

int reach_show(struct hm_map *map)
{
	return likely(!has_reach(map->buffer)) || map->lost ? 0 : show_all(map);
}

int reach_forget(struct hm_map *map, uint64_t offset, uint64_t length)
{
	struct rangemap *hidden = NULL;

	if (likely(!map->hidden))
		return 0;
	length = min_u64(length, UINT64_MAX - offset);
	if (offset || length < map->span) {
		hidden = rangemap_set(map->hidden, offset, length, SHOWN);
		if (!hidden)
			return err_set(-ENOMEM,
				       "no memory to note the pages of a map that are out of "
				       "reach");
	}
	free(map->hidden);
	map->hidden = hidden;
	return 0;
}

/* ---- reports ---- */

/*
 * A thread that holds a map's change without its buffer's lock never waits for a reporting
 * thread, nor for a launch, the end of which waits for a thread that refreshes a shadow
 * (remap_freeze()).
 */
static int show_locked(struct hm_map *map)
{
	int r;

	if (pthread_mutex_lock(&map->change))
		return 0;
	r = reach_show(map);
	pthread_mutex_unlock(&map->change);
	return r;
}

int reach_show_buffer_locked(struct hm_buffer *buffer)
{
	struct hm_map *map;
	int r, first = 0;

	buffer->reach_changed = false;
	cds_list_for_each_entry(map, &buffer->maps, buffer_link) {
		r = show_locked(map);
		if (!first)
			first = r;
	}
	buffer->reach_failed = first;
	return first;
}

int reach_settle(struct hm_buffer *buffer)
{
	int r;

	r = buffer_lock(buffer);
	if (r)
		return r;
	if (unlikely(buffer->reach_changed || buffer->reach_failed))
		r = reach_show_buffer_locked(buffer);
	buffer_unlock(buffer);
	return r;
}

static bool has_object(const struct hm_buffer *buffer, const void *object)
{
	uint32_t i;

	for (i = 0; i < buffer->n_segment; i++)
		if (buffer->segment[i].object == object)
			return true;
	return false;
}

static void visit(struct hm_map *map, const void *object)
{
	struct hm_buffer *buffer = map->buffer;

	if (!has_reach(buffer))
		return;
	if (pthread_mutex_trylock(&buffer->lock)) {
		buffer->reach_changed = true;
		/* A holder that unlocked before this was set has not seen it. */
		if (pthread_mutex_trylock(&buffer->lock))
			return;
	}
	if (has_object(buffer, object) && show_locked(map))
		buffer->reach_failed = true;
	buffer_unlock(buffer);
}

void reach_changed(const void *object)
{
	map_each(NULL, visit, object);
}

/* ---- visits ---- */

struct looking {
	const void *object;
	int (*visit)(void *context, char *address, uint64_t offset, uint64_t length);
	void *context;
	int r;
};

/*
 * Skips blocks that a handler has replaced, as they show nothing of the object. No block is
 * replaced meanwhile, as it could have stores that are in its new pages alone.
 */
static int look_unpoisoned(struct hm_map *map, const struct looking *looking, uint64_t offset,
			   uint64_t length, uint64_t object_offset)
{
	uint64_t done, part;
	int r = 0;

	repair_claim(map, offset, length);
	for (done = 0; done < length && !r; done += part)
		if (!repair_is_poisoned(map, offset + done, length - done, &part))
			r = looking->visit(looking->context, map->address + offset + done,
					   object_offset + done, part);
	repair_release(map);
	return r;
}

static int look_locked(struct hm_map *map, const struct looking *looking)
{
	const struct hm_buffer *buffer = map->buffer;
	uint64_t end = map->offset + buffer_pages(buffer, map->length), from, to;
	const struct hm_segment *segment;
	uint32_t i;
	int r = 0;

	for (i = 0; i < buffer->n_segment && !r; i++) {
		segment = &buffer->segment[i];
		from = max_u64(segment->offset, map->offset);
		to = min_u64(segment->offset + segment->length, end);
		if (segment->object == looking->object && from < to)
			r = look_unpoisoned(map, looking, from - map->offset, to - from,
					    from - segment->offset);
	}
	return r;
}

static void look(struct hm_map *map, const void *user)
{
	struct looking *looking = (struct looking *)(uintptr_t)user;

	if (looking->r || !has_reach(map->buffer) || buffer_lock(map->buffer))
		return;
	if (!pthread_mutex_lock(&map->change)) {
		if (!map->lost)
			looking->r = look_locked(map, looking);
		pthread_mutex_unlock(&map->change);
	}
	buffer_unlock(map->buffer);
}

int reach_visit(const void *object,
		int (*visit)(void *context, char *address, uint64_t offset, uint64_t length),
		void *context)
{
	struct looking looking = { .object = object, .visit = visit, .context = context };

	map_each(NULL, look, &looking);
	return looking.r;
}
