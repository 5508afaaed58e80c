// SPDX-License-Identifier: MIT
/*
 * Blocks of maps that handlers have replaced: told of, and restored.
 *
 * Who has read in a replaced block finds out by the block's state. So none is restored
 * before everybody who may have read there has ended: those are waited for, and a block that
 * is replaced meanwhile, which hm_map.replaced counts, has all of it begin anew. Guarded copies
 * are not waited for: hm_device.restored tells them.
 */
#include "replaced.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <hetmap/lost.h>

#include "buffer.h"
#include "compat.h"
#include "device_link.h"
#include "handler.h"
#include "loss.h"
#include "lost.h"
#include "map.h"
#include "probe.h"
#include "publish.h"
#include "reach.h"
#include "recover_wait.h"
#include "remap.h"
#include "repair.h"
#include "reserve.h"
#include "resident.h"
#include "segments.h"
#include "shadow.h"
#include "sys.h"
#include "view.h"

/* Times that a restoration begins anew because more was replaced. */
#define TRIES 8

/* Broken pages that are given bytes at a time. */
#define STEP MIB(1)

/* ---- telling ---- */

/* Its pointers are as they were, and what they show is not. Caller holds change. */
static void next_generation(struct hm_map *map)
{
	registry_set_generation(map->slot, map->generation + 1);
	pthread_mutex_lock(&map->lock);
	map->generation++;
	pthread_mutex_unlock(&map->lock);
	publish_change(map);
}

/* Who changes it, and is not waited for, may wait for this thread. False: told later. */
static bool tell_map(struct hm_map *map)
{
	int r = remap_trylock(map);

	if (r == -ENODEV)
		return true; /* more than a part of it is lost, and told */
	if (r)
		return false;
	next_generation(map);
	remap_unlock(map);
	return loss_tell_part(map->buffer);
}

static void tell(struct hm_map *map, const void *user)
{
	uint32_t told = atomic_load(&map->replaced_told),
		 replaced = atomic_load(&map->replaced);

	(void)user;
	if (likely(told == replaced) ||
	    !atomic_compare_exchange_strong(&map->replaced_told, &told, replaced) ||
	    tell_map(map))
		return;
	atomic_store(&map->replaced_told, told);
	repair_tell_later();
}

int replaced_notice(int r)
{
	char text[ERR_TEXT_MAX];

	if (likely(!repair_is_untold()) || view_in_callback() || !repair_take_untold())
		return r;
	snprintf(text, sizeof(text), "%s", hm_errmsg());
	lost_each_map(NULL, tell, NULL);
	return err_set(r, "%s", text);
}

/* ---- pages that are broken ---- */

/* A run of pages of the buffer, in one object. */
struct broken {
	uint64_t offset, length;
	const struct hm_segment *segment;
};

/* The first byte of the buffer from *offset on that a handler has replaced in some map. */
static bool next_replaced(const struct hm_buffer *buffer, uint64_t *offset, uint64_t *ret_end)
{
	uint64_t unit = max_u64(REPAIR_BLOCK, buffer->page_size), first = UINT64_MAX, at;
	struct hm_map *map;

	cds_list_for_each_entry(map, &buffer->maps, buffer_link) {
		at = *offset - min_u64(*offset, map->offset);
		if (map->lost || !repair_next_replaced(map, &at) || map->offset + at >= first)
			continue;
		first = map->offset + at;
		*ret_end = map->offset + round_down(at, unit) + unit;
	}
	*ret_end = min_u64(*ret_end, buffer_pages(buffer, buffer->size));
	*offset = first;
	return first < *ret_end;
}

/* Has its file the page no more? Not asked by a mapping: that would be a signal. */
static bool is_broken(const struct hm_segment *segment, uint64_t offset)
{
	char byte;
	ssize_t n =
		sys_pread(segment->fd, &byte, 1, segment->fd_offset + offset - segment->offset);

	return !n || n == -EIO;
}

/* Of the replaced ones, the first run from *offset on, which becomes its end. */
static bool next_broken_locked(const struct hm_buffer *buffer, uint64_t *offset,
			       struct broken *ret)
{
	const struct hm_segment *segment;
	uint64_t end = 0;

	ret->length = 0;
	while (!ret->length && next_replaced(buffer, offset, &end))
		for (; *offset < end && ret->length < STEP; *offset += buffer->page_size) {
			segment = &buffer->segment[buffer_segment_at(buffer, *offset)];
			if (ret->length && segment != ret->segment)
				break;
			if (is_broken(segment, *offset)) {
				if (!ret->length)
					*ret = (struct broken){ *offset, 0, segment };
				ret->length += buffer->page_size;
			} else if (ret->length) {
				break;
			}
		}
	return ret->length;
}

static int make_bytes(struct hm_buffer *buffer, struct loss *loss,
		      const struct hm_loss_desc *desc, const struct broken *broken, char *bytes)
{
	const struct shadow *shadow;
	struct hm_guard *guard;
	int r = 0;

	memset(bytes, 0, broken->length);
	pthread_mutex_lock(&loss->lock);
	shadow = atomic_load(&loss->shadow);
	if (shadow)
		r = shadow_read(shadow, bytes, broken->offset, broken->length);
	pthread_mutex_unlock(&loss->lock);
	if (r)
		return err_set(r, "%s: reading its shadow: %s", buffer->name, err_name(r));
	if (!desc->refill)
		return 0;
	guard = guard_suspend();
	r = desc->refill(buffer, bytes, broken->offset, broken->length, desc->user);
	guard_resume(guard);
	return r ? err_set(r < 0 ? r : -EIO,
			   "%s: its refill callback answered %d for %" PRIu64
			   " bytes from %" PRIu64 " on",
			   buffer->name, r, broken->length, broken->offset) :
		   0;
}

/* The file gives up the pages, and has others for what is written there. */
static int put_bytes_locked(struct hm_buffer *buffer, const struct broken *broken,
			    const char *bytes)
{
	uint64_t at = broken->offset, length;
	struct broken now;
	ssize_t n;
	int r;

	/* Meanwhile it may have been resized, or mended otherwise. */
	if (!next_broken_locked(buffer, &at, &now) || now.offset != broken->offset ||
	    now.length != broken->length)
		return -EAGAIN;
	at = now.segment->fd_offset + now.offset - now.segment->offset;
	r = sys_fallocate(now.segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
			  now.length);
	for (length = now.length; !r && length; length -= (uint64_t)n, at += (uint64_t)n) {
		n = sys_pwrite(now.segment->fd, bytes + now.length - length, length, at);
		if (n <= 0)
			r = n ? (int)n : -EIO;
	}
	return r ? err_set(r, "%s: new pages for %" PRIu64 " bytes from %" PRIu64 " on: %s",
			   buffer->name, now.length, now.offset, err_name(r)) :
		   0;
}

static int mend_run(struct hm_buffer *buffer, struct loss *loss,
		    const struct hm_loss_desc *desc, const struct broken *broken,
		    struct hm_recover_info *info)
{
	char *bytes = sys_calloc(1, broken->length);
	int r;

	if (!bytes)
		return err_set(-ENOMEM, "no memory to mend %" PRIu64 " bytes", broken->length);
	r = make_bytes(buffer, loss, desc, broken, bytes);
	if (!r)
		r = buffer_lock(buffer);
	if (r)
		goto out;
	r = put_bytes_locked(buffer, broken, bytes);
	buffer_unlock(buffer);
	if (r)
		goto out;
	if (atomic_load(&loss->shadow)) {
		info->bytes_shadow += broken->length;
		/* As refilled; what fails is told by a query. */
		if (desc->refill && loss_refresh(buffer, broken->offset, broken->length))
			loss_note_stale(loss);
	} else if (!desc->refill) {
		info->bytes_zero += broken->length;
	}
	if (desc->refill)
		info->bytes_refilled += broken->length;
out:
	free(bytes);
	return r;
}

/* Of somebody else's object, or a file, and of a device's memory, it's theirs to do. */
static int mend(struct hm_buffer *buffer, struct loss *loss, const struct hm_loss_desc *desc,
		struct hm_recover_info *info)
{
	struct broken broken;
	uint64_t at = 0;
	bool found;
	int r = 0;

	if (!buffer->created ||
	    (buffer->backing != HM_BACKING_MEMFD && buffer->backing != HM_BACKING_HUGETLB))
		return 0;
	while (!r) {
		r = buffer_lock(buffer);
		if (r)
			return r;
		found = next_broken_locked(buffer, &at, &broken);
		buffer_unlock(buffer);
		if (!found)
			return 0;
		r = mend_run(buffer, loss, desc, &broken, info);
	}
	return r;
}

/* ---- blocks that show the buffer again ---- */

static bool is_in_reach(const struct hm_buffer *buffer, uint64_t from, uint64_t to)
{
	const struct hm_backend_ops *ops = buffer->device->ops;
	const struct hm_segment *segment;
	uint64_t length;

	for (; ops->hidden && from < to; from += length) {
		segment = &buffer->segment[buffer_segment_at(buffer, from)];
		if (ops->hidden(segments_link(buffer)->backend, segment, from - segment->offset,
				min_u64(to, segment->offset + segment->length) - from, &length))
			return false;
	}
	return true;
}

/* Else the next one to touch them would have them replaced once more. */
static int check_readable(const struct hm_buffer *buffer, uint64_t offset, uint64_t length)
{
	struct reservation range;
	char *bytes;
	int r;

	r = map_scratch(buffer->segment, buffer->n_segment, offset, length, buffer->page_size,
			PROT_READ, &range, &bytes);
	if (r)
		return r;
	/* -EINVAL: pages that can't be asked for, or a kernel before 5.14. */
	r = sys_madvise(bytes, length, MADV_POPULATE_READ);
	reserve_release(&range);
	if (r == -ENOMEM)
		return err_set(r, "no memory to read %" PRIu64 " bytes of %s", length,
			       buffer->name);
	if ((!r || r == -EINVAL) && is_in_reach(buffer, offset, offset + length))
		return 0;
	return err_set(-EIO,
		       "%s: some of %" PRIu64 " bytes from %" PRIu64
		       " on can't be read still: a file that is cut, or pages that fail",
		       buffer->name, length, offset);
}

/* From what a handler put there to the buffer's bytes; as it was should that fail early. */
static int restore_block(struct hm_map *map, uint64_t offset)
{
	struct hm_buffer *buffer = map->buffer;
	uint64_t unit = max_u64(REPAIR_BLOCK, buffer->page_size);
	uint64_t end = min_u64(offset + unit, buffer_pages(buffer, map->length)), length;
	char *address = map->address + offset;
	int r;

	/* Of what a shrink has taken away nothing is shown. */
	if (offset >= end) {
		repair_restored(map, offset);
		return 0;
	}
	length = end - offset;
	r = check_readable(buffer, map->offset + offset, length);
	if (!r)
		r = reach_forget(map, offset, length);
	if (r)
		return r;
	r = reach_put_back(map, offset, length);
	if (!r) {
		/* In this order: a copy of what was there looks at the state first. */
		atomic_fetch_add(&buffer->device->restored, 1);
		repair_restored(map, offset);
		return 0;
	}
	/* What it had is gone; the policy has others. */
	if (!loss_map_after(buffer, address, map->offset + offset, length,
			    PROT_READ | PROT_WRITE))
		map_apply_rights(map->address, map->rights, offset, length);
	return r;
}

/* Caller holds change, and the map is frozen. */
static int restore_blocks(struct hm_map *map)
{
	uint64_t unit = max_u64(REPAIR_BLOCK, map->buffer->page_size), at;
	int r, first = 0;

	for (at = 0; repair_next_replaced(map, &at); at += unit) {
		r = restore_block(map, at);
		if (r && !first)
			first = r;
	}
	return first;
}

/* Caller holds buffer->lock. */
static int restore_map(struct hm_map *map)
{
	struct remap remap;
	int r;

	r = remap_lock(map);
	if (r)
		return r;
	if (atomic_load(&map->unnoted)) {
		r = err_set(-ENOMEM, "no memory to note what is locked of a map");
		goto out;
	}
	remap_init(&remap, map, 0, map->length);
	r = remap_freeze(&remap);
	if (r)
		goto out;
	/* None is replaced from here on. */
	if (atomic_load(&map->replaced) != map->replaced_seen) {
		remap_thaw(&remap, false);
		r = -EAGAIN;
		goto out;
	}
	r = restore_blocks(map);
	next_generation(map);
	remap_thaw(&remap, true);
	/* As far as limits go; a lock that did not come is told of by hm_map_query(). */
	resident_lock_again(map, map->address);
	if (reach_show(map))
		map->buffer->reach_failed = true;
	if (!r) {
		count_add(&map->buffer->counts, COUNT_RECOVERED, 1);
		probe_recovered(map);
	}
out:
	remap_unlock(map);
	return r;
}

/* Of these, whoever may have read there is waited for. */
static int see_maps(struct hm_buffer *buffer)
{
	struct hm_map *map;
	int r;

	r = buffer_lock(buffer);
	if (r)
		return r;
	cds_list_for_each_entry(map, &buffer->maps, buffer_link)
		map->replaced_seen = atomic_load(&map->replaced);
	buffer_unlock(buffer);
	return 0;
}

bool replaced_any(struct hm_buffer *buffer)
{
	struct hm_map *map;
	bool any = false;

	if (buffer_lock(buffer))
		return false;
	cds_list_for_each_entry(map, &buffer->maps, buffer_link)
		any = any || (!map->lost && repair_has_replaced(map));
	buffer_unlock(buffer);
	return any;
}

static int restore_maps(struct hm_buffer *buffer, struct hm_recover_info *info)
{
	struct hm_map *map;
	int r, first = 0;

	r = buffer_lock(buffer);
	if (r)
		return r;
	cds_list_for_each_entry(map, &buffer->maps, buffer_link) {
		if (map->lost || !repair_has_replaced(map))
			continue;
		r = restore_map(map);
		if (!r)
			info->maps_back++;
		else if (!first)
			first = r;
	}
	buffer_unlock(buffer);
	return first;
}

int replaced_restore(struct hm_buffer *buffer, struct loss *loss,
		     const struct hm_loss_desc *desc, struct hm_recover_info *info)
{
	int r = 0, tries;

	if (buffer_is_private(buffer))
		return err_set(-EOPNOTSUPP,
			       "%s: private memory is its one map's own: nothing has the bytes "
			       "that were lost",
			       buffer->name);
	for (tries = 0; tries < TRIES; tries++) {
		r = see_maps(buffer);
		if (!r)
			r = recover_wait(buffer, loss);
		if (!r)
			r = mend(buffer, loss, desc, info);
		if (!r)
			r = restore_maps(buffer, info);
		if (r != -EAGAIN)
			break;
	}
	if (r == -EAGAIN)
		return err_set(-EBUSY, "%s: blocks of its maps were replaced all the time",
			       buffer->name);
	if (!r)
		info->buffers_back++;
	return r;
}
