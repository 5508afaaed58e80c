// SPDX-License-Identifier: MIT
/*
 * Write-once: the kernel keeps a memfd's bytes from changing after they are written.
 *
 * F_SEAL_WRITE is refused while the memory has a mapping that could become writable, even if it
 * has no such rights now [fcntl(2)]. Each map therefore gets, at its address, a mapping of a
 * descriptor that was opened for reading, which no mprotect() makes writable. That descriptor
 * takes the number of the old one. The bytes are the same throughout: readers notice nothing.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/buffer.h"
#include "loss/loss.h"
#include "map/map.h"
#include "base/memfd.h"
#include "map/protect.h"
#include "fault/repair.h"
#include "base/reserve.h"
#include "map/resident.h"
#include "change/resize.h"
#include "base/rlimits.h"
#include "share/share.h"
#include "base/sys.h"

/* Further mappings that one map may take while it is replaced. */
#define SEAL_MAPS 4

struct sealing {
	struct hm_buffer *buffer;
	struct resize_set *set;
	struct hm_segment readable; /* the buffer's segment, by the descriptor for reading */
	int writable;               /* the old descriptor, for the way back; or -1 */
	struct fresh {
		struct reservation range; /* length 0: in place */
		char *address;
	} * fresh; /* in the order of set->maps */
	uint32_t n_moved, n_lost;
	bool is_mapped; /* failed: mapped by other users, or by maps not yet released */
};

/* Bytes of the map that the object holds. */
static uint64_t mapped_of(const struct hm_map *map)
{
	return min_u64(map->span, buffer_capacity(map->buffer) - map->offset);
}

/* ---- steps that can fail, and change nothing ---- */

static int check(struct hm_buffer *buffer)
{
	int seals;

	if (!buffer_is(buffer, HM_MEMORY_SEALED) || buffer_is(buffer, MEMORY_HUGE) ||
	    buffer->n_segment > 1 || (buffer->segment[0].flags & HM_SEGMENT_DMABUF))
		return err_set(-EOPNOTSUPP,
			       "%s: the kernel seals the memory of memfds only, and of one "
			       "object: this is %s",
			       buffer->name,
			       buffer->n_segment > 1                ? "several" :
			       buffer_is(buffer, MEMORY_ANON)       ? "private memory" :
			       buffer_is(buffer, MEMORY_HUGE)       ? "the huge page pool's" :
			       buffer_is(buffer, HM_MEMORY_STORAGE) ? "a file" :
								      "a device's");
	if (!(buffer->access & HM_WRITE) && !buffer->seal_begun)
		return err_set(-EACCES,
			       "%s is read-only here: only a process that may write "
			       "it can seal it",
			       buffer->name);
	if (share_is_received(buffer))
		return err_set(-EBUSY, "%s was received: only its owner can seal it",
			       buffer->name);
	if (buffer->pinned)
		return err_set(-EBUSY,
			       "%s was exported as a dma-buf, by which devices may write it",
			       buffer->name);
	/* After maps have moved there may be no way back: see memfd_is_one_way(). */
	seals = sys_fcntl(buffer->segment[0].fd, F_GET_SEALS, 0);
	if (seals >= 0 && (seals & F_SEAL_SEAL) && !(seals & F_SEAL_WRITE))
		return err_set(-EPERM,
			       "%s: its maker or a receiver of its descriptor forbade further "
			       "seals (F_SEAL_SEAL): copy its %" PRIu64 " bytes to a buffer "
			       "of this process alone, and seal that",
			       buffer->name, buffer->size);
	return 0;
}

static int open_readable(struct sealing *sealing)
{
	int fd = sealing->buffer->segment[0].fd, readable;
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	readable = sys_open(path, O_RDONLY, 0);
	if (readable < 0)
		return rlimits_explain_fd(readable, "opening a memfd for reading");
	sealing->readable.fd = readable;
	sealing->writable = sys_dup(fd);
	if (sealing->writable < 0)
		return rlimits_explain_fd(sealing->writable, "duplicating a memfd");
	return 0;
}

static int stage(struct resize_map *item)
{
	struct hm_map *map = item->map;
	struct registry_entry entry;
	int r;

	item->rights = rangemap_and(map->rights, 0, UINT64_MAX, HM_READ);
	if (!item->rights)
		return err_set(-ENOMEM, "no memory for a map's rights");
	if (map->base) {
		item->base = rangemap_and(map->base, 0, UINT64_MAX, HM_READ);
		if (!item->base)
			return err_set(-ENOMEM, "no memory for a map's rights");
	}
	map_entry(map, map->address, map->length, map->generation, item->rights, &entry);
	r = registry_stage(&entry, &item->staged);
	return r ? err_set(r, "no memory for a map's rights") : 0;
}

static int freeze(struct resize_map *item)
{
	int r;

	remap_init(&item->remap, item->map, 0, item->map->length);
	item->remap.new_rights = item->rights;
	r = remap_freeze(&item->remap);
	item->frozen = !r;
	/* Replaced blocks get the buffer's bytes now, or a way back that has them. */
	if (!r)
		repair_show(item->map, 0, item->map->span);
	return r;
}

/* Prepares and freezes all maps, and makes a mapping for each that waits to take its place. */
static int prepare(struct sealing *sealing)
{
	struct resize_set *set = sealing->set;
	struct hm_map *map;
	uint32_t i;
	int r;

	for (i = 0; i < set->n; i++) {
		r = stage(&set->maps[i]);
		if (r)
			return r;
	}
	for (i = 0; i < set->n; i++) {
		r = freeze(&set->maps[i]);
		if (r)
			return r;
	}
	for (i = 0; i < set->n; i++) {
		map = set->maps[i].map;
		r = map_scratch(&sealing->readable, 1, map->offset, mapped_of(map), page_size(),
				PROT_READ, &sealing->fresh[i].range,
				&sealing->fresh[i].address);
		if (!r)
			r = map_dress(map->buffer, sealing->fresh[i].address, mapped_of(map));
		if (r)
			return r;
	}
	return rlimits_check_maps((uint64_t)set->n * SEAL_MAPS);
}

/* ---- there and back ---- */

/* Gives the fresh mapping at the map's address its end and its rights. */
static int finish_map(struct hm_map *map, const struct rangemap *rights)
{
	uint64_t committed = buffer_pages(map->buffer, map->length);
	uint64_t mapped = mapped_of(map);
	int r;

	if (committed < mapped) {
		r = sys_mprotect(map->address + committed, mapped - committed, PROT_NONE);
		if (r)
			return rlimits_explain_map(r, mapped - committed, 0, "setting rights");
	}
	return map_apply_rights(map->address, rights, 0, committed);
}

static int move(struct sealing *sealing, uint32_t i)
{
	struct resize_map *item = &sealing->set->maps[i];
	struct fresh *fresh = &sealing->fresh[i];
	struct hm_map *map = item->map;
	int r;

	sealing->n_moved = i + 1;
	r = reserve_move(fresh->address, mapped_of(map), mapped_of(map), map->address);
	if (r)
		return rlimits_explain_map(r, mapped_of(map), 0,
					   "moving a sealed map into place");
	stats_sub(&stats.bytes_reserved, fresh->range.length);
	fresh->range.length = 0;
	r = finish_map(map, item->rights);
	return r ? r : resident_lock_again(map, map->address);
}

/* Maps @segment at the map's address, with @rights, over the present mapping. */
static int map_again(struct hm_map *map, const struct hm_segment *segment,
		     const struct rangemap *rights)
{
	int r;

	r = map_segments(segment, 1, map->offset, mapped_of(map), map->address,
			 prot_of_access(rights->run[0].value));
	if (!r)
		r = map_dress(map->buffer, map->address, mapped_of(map));
	if (!r)
		r = finish_map(map, rights);
	/* The bytes count more than their lock: hm_map_query() tells the locked bytes. */
	if (!r)
		resident_lock_again(map, map->address);
	return r;
}

static void lose(struct sealing *sealing, uint32_t i)
{
	struct resize_map *item = &sealing->set->maps[i];

	map_lose_locked(item->map, &item->rights, &item->staged);
	sealing->n_lost++;
}

/*
 * Makes the old mappings again; a map that the kernel refuses is lost. False: the kernel makes
 * no writable mapping any more, which the first refusal may have revealed.
 */
static bool put_back(struct sealing *sealing)
{
	struct hm_map *map;
	int r;

	if (memfd_is_one_way(sealing->writable))
		return false;
	for (; sealing->n_moved; sealing->n_moved--) {
		map = sealing->set->maps[sealing->n_moved - 1].map;
		r = map_again(map, sealing->buffer->segment, map->rights);
		if ((r == -EPERM || r == -EACCES) && memfd_is_one_way(sealing->writable))
			return false;
		if (r)
			lose(sealing, sealing->n_moved - 1);
	}
	return true;
}

/* Makes the map read-only in the books, as its mapping is. */
static void commit(struct resize_map *item)
{
	struct hm_map *map = item->map;
	struct rangemap *old;

	registry_commit(map->slot, item->staged);
	item->staged = NULL;
	pthread_mutex_lock(&map->lock);
	old = map->rights;
	map->rights = item->rights;
	pthread_mutex_unlock(&map->lock);
	item->rights = NULL;
	free(old);
	protect_commit_base(map, &item->base, buffer_pages(map->buffer, map->length));
	atomic_store_explicit(&map->narrowed, true, memory_order_relaxed);
}

static void take_writing(struct hm_buffer *buffer)
{
	buffer->access = HM_READ;
	buffer->flags |= HM_BUFFER_READ_ONLY;
	buffer->caps &= ~(uint64_t)(HM_CAP_WRITE | HM_CAP_RESIZE | HM_CAP_REPLACE |
				    HM_CAP_APPEND | HM_CAP_DMABUF);
}

/*
 * For a seal without a way back: all maps stay readable in their new places. A map for which
 * that fails is lost.
 */
static void stay_narrowed(struct sealing *sealing)
{
	struct resize_map *item;
	uint32_t i;

	for (i = 0; i < sealing->set->n; i++) {
		item = &sealing->set->maps[i];
		if (item->map->lost)
			continue;
		if (map_again(item->map, &sealing->readable, item->rights))
			lose(sealing, i);
		else
			commit(item);
	}
	take_writing(sealing->buffer);
	sealing->buffer->seal_begun = true;
}

static int add_seal(struct sealing *sealing)
{
	int r = sys_fcntl(sealing->writable, F_ADD_SEALS, F_SEAL_WRITE);
	int seals;

	/* Under F_SEAL_SEAL the kernel refuses seals that exist already, too. */
	if (r == -EPERM) {
		seals = sys_fcntl(sealing->writable, F_GET_SEALS, 0);
		if (seals >= 0 && (seals & F_SEAL_WRITE))
			return 0;
	}
	sealing->is_mapped = r == -EBUSY;
	if (r == -EBUSY)
		return err_set(r,
			       "%s: there are other writable mappings of its memory (of a "
			       "process that it was sent to, a fork child, or code outside "
			       "the library), or a device uses its pages: end them first",
			       sealing->buffer->name);
	return r ? err_set(r, "sealing %s against writing (F_SEAL_WRITE): %s",
			   sealing->buffer->name, err_name(r)) :
		   0;
}

static int seal_memory(struct sealing *sealing)
{
	struct hm_buffer *buffer = sealing->buffer;
	int r, fd = buffer->segment[0].fd;
	bool one_way;
	uint32_t i;

	r = sys_dup_to(sealing->readable.fd, fd);
	if (r)
		return rlimits_explain_fd(r, "replacing a memfd's descriptor");
	/* No mprotect() makes mappings writable that the shadow makes from here on. */
	loss_let_go(buffer);
	for (i = 0; i < sealing->set->n; i++) {
		r = move(sealing, i);
		if (r)
			goto err_back;
	}
	r = add_seal(sealing);
	if (r)
		goto err_back;
	return 0;

err_back:
	err_hold();
	/* Fails only without an entry in the table, and both have theirs. */
	sys_dup_to(sealing->writable, fd);
	one_way = !put_back(sealing);
	if (one_way)
		stay_narrowed(sealing);
	err_release();
	if (one_way)
		err_prefix(r, "this process can only read it from now on, and may call "
			      "hm_buffer_seal() again, as its memory takes no writable mapping "
			      "any more, as after a read-only export");
	if (sealing->n_lost)
		err_prefix(r, "%u of its maps could not be put back and are lost",
			   sealing->n_lost);
	return r;
}

/* ---- done ---- */

static void publish(struct sealing *sealing)
{
	uint32_t i;

	take_writing(sealing->buffer);
	sealing->buffer->sealed |= HM_SEALED_MEMORY;
	for (i = 0; i < sealing->set->n; i++)
		commit(&sealing->set->maps[i]);
}

/* Tried, and not promised: kernels from 6.10 on have it. Caller holds the maps. */
static void seal_addresses(struct hm_buffer *buffer, const struct resize_set *set)
{
	const struct hm_map *map;
	uint32_t i;
	int r;

	for (i = 0; i < set->n; i++) {
		map = set->maps[i].map;
		r = sys_mseal(map->address, map->span);
		if (r) {
			err_warn("%s is sealed, the addresses of its maps are not: mseal(): %s "
				 "(kernels from 6.10 on have it)",
				 buffer->name, err_name(r));
			return;
		}
	}
	if (set->n)
		buffer->sealed |= HM_SEALED_ADDRESSES;
}

int buffer_seal_locked(struct hm_buffer *buffer, struct resize_set *set, uint32_t flags,
		       bool *ret_mapped)
{
	struct sealing sealing = {
		.buffer = buffer,
		.set = set,
		.readable = buffer->segment[0],
		.writable = -1,
	};
	uint32_t i;
	int r;

	r = check(buffer);
	if (r)
		return r;
	sealing.readable.fd = -1;
	r = resize_set_begin_all(buffer, set);
	if (r)
		return r;
	sealing.fresh = sys_calloc(set->n + 1ul, sizeof(*sealing.fresh));
	r = sealing.fresh ? open_readable(&sealing) :
			    err_set(-ENOMEM, "no memory to seal a buffer");
	if (!r)
		r = prepare(&sealing);
	if (!r)
		r = seal_memory(&sealing);
	if (!r) {
		publish(&sealing);
		if (flags & HM_SEAL_ADDRESSES)
			seal_addresses(buffer, set);
	}
	resize_set_end(set, !r);
	for (i = 0; sealing.fresh && i < set->n; i++)
		if (sealing.fresh[i].range.length)
			reserve_release(&sealing.fresh[i].range);
	free(sealing.fresh);
	if (sealing.readable.fd >= 0)
		sys_close(sealing.readable.fd);
	if (sealing.writable >= 0)
		sys_close(sealing.writable);
	*ret_mapped = sealing.is_mapped;
	return r;
}
