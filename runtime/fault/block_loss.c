// SPDX-License-Identifier: MIT
/*
 * Blocks of maps that handlers have replaced: reports and restores them.
 *
 * A thread that has read in a replaced block finds out by the block's state. No block is
 * restored before all threads that may have read there have ended: they are waited for, and a
 * block that is replaced meanwhile, which map_repair.replaced counts, makes the restoration begin
 * anew. Guarded copies are not waited for: they check map_repair.restored.
 */
#include "fault/block_loss.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <hetmap/loss.h>

#include "core/buffer.h"
#include "base/compat.h"
#include "core/device_link.h"
#include "base/callback.h"
#include "loss/loss.h"
#include "loss/device_loss.h"
#include "map/map.h"
#include "base/memfd.h"
#include "tell/publish.h"
#include "fault/reach.h"
#include "fault/recover_wait.h"
#include "map/remap.h"
#include "fault/repair.h"
#include "base/reserve.h"
#include "map/resident.h"
#include "core/segments.h"
#include "loss/shadow.h"
#include "base/sys.h"
#include "map/view.h"

/* The restoration must begin anew: more was replaced, or the buffer has changed meanwhile. */
#define AGAIN 1

/* Bytes of broken pages that are mended at a time. */
#define STEP MIB(1)

/* ---- reports ---- */

/* The map's pointers stay, and the bytes there do not. Caller holds change. */
static void next_generation(struct hm_map *map)
{
	registry_set_generation(map->slot, map->generation + 1);
	pthread_mutex_lock(&map->lock);
	map->generation++;
	pthread_mutex_unlock(&map->lock);
	publish_change(map);
}

/* A loss of the device is reported as such, and not as a part. Holds no locks. */
static bool is_gone(struct hm_map *map)
{
	if (likely(!loss_ask(map->buffer)))
		return false;
	device_loss_notice(map->buffer->device, -ENODEV);
	return true;
}

/*
 * Only tries: a thread that changes the map, or is in a callback, may wait for this one. False:
 * told later.
 */
static bool tell_map(struct hm_map *map)
{
	struct hm_buffer *buffer = map->buffer;
	int r;

	if (!loss_teller_take(buffer))
		return false;
	r = remap_trylock(map);
	if (!r) {
		next_generation(map);
		remap_unlock(map);
		if (atomic_load(&buffer->loss))
			loss_call(buffer, HM_LOSS_PART);
	}
	loss_teller_give(buffer);
	/* A lost map has more than a part to report. */
	return !r || r == -ENODEV;
}

static void tell(struct hm_map *map, const void *user)
{
	struct map_repair *repair = map_repair(map);
	uint32_t told = repair ? atomic_load(&repair->told) : 0;
	uint32_t replaced = repair ? atomic_load(&repair->replaced) : 0;

	(void)user;
	if (likely(told == replaced) ||
	    !atomic_compare_exchange_strong(&repair->told, &told, replaced) || is_gone(map) ||
	    tell_map(map))
		return;
	/* Put back, unless more was reported meanwhile. */
	atomic_compare_exchange_strong(&repair->told, &replaced, told);
	repair_tell_later();
}

int block_loss_notice(int r)
{
	if (likely(!repair_is_untold()) || view_in_callback() || !repair_take_untold())
		return r;
	err_hold();
	map_each(NULL, tell, NULL);
	err_release();
	return r;
}

/* ---- broken pages ---- */

/* A run of pages of the buffer, in one object. */
struct broken {
	uint64_t offset, length;
	const struct hm_segment *segment;
	bool kept; /* in loss->unmended: the bytes are there already */
};

/*
 * Finds the first byte from *offset on that a handler has replaced in some map of the buffer.
 */
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

/*
 * Has the file lost some of the page? Not tested by a mapping, which would raise a signal. A
 * huge page may be broken anywhere.
 */
static bool is_broken(const struct hm_buffer *buffer, const struct hm_segment *segment,
		      uint64_t offset)
{
	uint64_t at = segment->fd_offset + offset - segment->offset,
		 end = at + buffer->page_size;
	ssize_t n = 1;
	char byte;

	for (; at < end && n == 1; at += page_size())
		n = sys_pread(segment->fd, &byte, 1, at);
	return !n || n == -EIO;
}

/* Finds bytes that were given up once, and are still zeros. */
static bool is_unmended(const struct hm_buffer *buffer, const struct loss *loss,
			struct broken *ret)
{
	const struct hm_segment *segment;

	*ret = (struct broken){ 0 };
	if (likely(!loss->unmended_length))
		return false;
	segment = &buffer->segment[buffer_segment_at(buffer, loss->unmended)];
	*ret = (struct broken){
		.offset = loss->unmended,
		.length = min_u64(loss->unmended_length,
				  segment->offset + segment->length - loss->unmended),
		.segment = segment,
		.kept = true,
	};
	return true;
}

/* Finds the first broken run of replaced bytes from *offset on, which becomes its end. */
static bool next_broken_locked(const struct hm_buffer *buffer, const struct loss *loss,
			       uint64_t *offset, struct broken *ret)
{
	const struct hm_segment *segment;
	uint64_t end = 0;

	if (is_unmended(buffer, loss, ret))
		return true;
	while (!ret->length && next_replaced(buffer, offset, &end))
		for (; *offset < end && ret->length < STEP; *offset += buffer->page_size) {
			segment = &buffer->segment[buffer_segment_at(buffer, *offset)];
			if (ret->length && segment != ret->segment)
				break;
			if (is_broken(buffer, segment, *offset)) {
				if (!ret->length)
					*ret = (struct broken){ *offset, 0, segment, false };
				ret->length += buffer->page_size;
			} else if (ret->length) {
				break;
			}
		}
	return ret->length;
}

/* Reads the rest of a huge page, most of which can be read. */
static int read_rest(struct hm_buffer *buffer, const struct loss *loss,
		     const struct broken *broken, char *bytes)
{
	uint64_t page = page_size(), at;
	struct broken now;
	uint64_t from = broken->offset;
	int r = buffer_lock(buffer);

	if (r)
		return r;
	if (!next_broken_locked(buffer, loss, &from, &now) || now.offset != broken->offset)
		r = AGAIN;
	from = r ? 0 : now.segment->fd_offset + now.offset - now.segment->offset;
	/* Reads all of a page, or nothing. */
	for (at = 0; at < broken->length && !r; at += page)
		sys_pread(now.segment->fd, bytes + at, page, from + at);
	buffer_unlock(buffer);
	return r;
}

static int make_bytes(struct hm_buffer *buffer, struct loss *loss,
		      const struct hm_loss_desc *desc, const struct broken *broken, char *bytes)
{
	const struct shadow *shadow;
	struct callback callback;
	int r = 0;

	pthread_mutex_lock(&loss->lock);
	shadow = atomic_load(&loss->shadow);
	if (shadow)
		r = shadow_read(shadow, bytes, broken->offset, broken->length);
	pthread_mutex_unlock(&loss->lock);
	if (r)
		return err_set(r, "%s: reading its shadow: %s", buffer->name, err_name(r));
	if (buffer->page_size > page_size())
		r = read_rest(buffer, loss, broken, bytes);
	if (r || !desc->refill)
		return r;
	callback = callback_begin();
	r = desc->refill(buffer, bytes, broken->offset, broken->length, desc->user);
	callback_end(callback);
	return r ? err_set(r < 0 ? r : -EIO,
			   "%s: its refill callback answered %d for %" PRIu64
			   " bytes from %" PRIu64 " on",
			   buffer->name, r, broken->length, broken->offset) :
		   0;
}

/* Makes the file give up the pages, and allocate as many new ones, of zeros. */
static int renew_pages(const struct broken *broken)
{
	uint64_t at = broken->segment->fd_offset + broken->offset - broken->segment->offset;
	int r = sys_fallocate(broken->segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      at, broken->length);

	return r ? r : sys_fallocate(broken->segment->fd, 0, at, broken->length);
}

/* Maps that no handler has touched show these bytes, too, and their change. */
static void suspect_maps_locked(struct hm_buffer *buffer, const struct broken *broken)
{
	uint64_t from, to;
	struct hm_map *map;

	cds_list_for_each_entry(map, &buffer->maps, buffer_link) {
		from = max_u64(broken->offset, map->offset);
		to = min_u64(broken->offset + broken->length, map->offset + map->span);
		if (from >= to || remap_lock_lost_too(map))
			continue;
		if (!map->lost)
			repair_suspect(map, from - map->offset, to - from);
		remap_unlock(map);
	}
}

/* Hands @bytes to the loss, if it has none. */
static void keep_bytes(struct loss *loss, const struct broken *broken, char *bytes)
{
	if (broken->kept)
		return;
	pthread_mutex_lock(&loss->lock);
	free(loss->unmended_bytes);
	loss->unmended_bytes = bytes;
	loss->unmended = broken->offset;
	loss->unmended_length = broken->length;
	pthread_mutex_unlock(&loss->lock);
}

/* Drops the loss' copy of bytes that are in the file now. */
static void drop_bytes(struct loss *loss, const struct broken *broken)
{
	pthread_mutex_lock(&loss->lock);
	loss->unmended += broken->length;
	loss->unmended_length -= broken->length;
	memmove(loss->unmended_bytes, loss->unmended_bytes + broken->length,
		loss->unmended_length);
	pthread_mutex_unlock(&loss->lock);
}

/* *bytes becomes NULL if the loss keeps them. */
static int put_bytes_locked(struct hm_buffer *buffer, struct loss *loss,
			    const struct broken *broken, char **bytes)
{
	struct reservation range;
	uint64_t at = broken->offset;
	struct broken now;
	char *to;
	int r;

	/* The buffer may have been resized, or mended otherwise, meanwhile. */
	if (!next_broken_locked(buffer, loss, &at, &now) || now.offset != broken->offset ||
	    now.length != broken->length || now.kept != broken->kept)
		return AGAIN;
	if (buffer->pinned)
		return err_set(-EBUSY,
			       "%s was exported as a dma-buf, which keeps its pages: with new "
			       "pages here, importers would see other bytes",
			       buffer->name);
	r = map_scratch(now.segment, 1, now.offset, now.length, buffer->page_size,
			PROT_READ | PROT_WRITE, &range, &to);
	if (r)
		return r;
	suspect_maps_locked(buffer, &now);
	keep_bytes(loss, &now, *bytes);
	*bytes = NULL;
	r = renew_pages(&now);
	if (!r) {
		memcpy(to, loss->unmended_bytes, now.length);
		drop_bytes(loss, &now);
	} else {
		r = err_set(r == -ENOSPC ? -ENOMEM : r,
			    "%s: no other pages for %" PRIu64 " bytes from %" PRIu64 " on, "
			    "which failed (%s): another recovery may find some",
			    buffer->name, now.length, now.offset, err_name(r));
	}
	reserve_release(&range);
	return r;
}

static int mend_run(struct hm_buffer *buffer, struct loss *loss,
		    const struct hm_loss_desc *desc, const struct broken *broken,
		    struct hm_recover_info *info)
{
	char *bytes = broken->kept ? NULL : sys_calloc(1, broken->length);
	int r = 0;

	if (!bytes && !broken->kept)
		return err_set(-ENOMEM, "no memory to mend %" PRIu64 " bytes", broken->length);
	if (bytes)
		r = make_bytes(buffer, loss, desc, broken, bytes);
	if (!r)
		r = buffer_lock(buffer);
	if (r)
		goto out;
	r = put_bytes_locked(buffer, loss, broken, &bytes);
	buffer_unlock(buffer);
	if (r)
		goto out;
	if (atomic_load(&loss->shadow)) {
		info->bytes_shadow += broken->length;
		/* As refilled, or as kept. A query tells of a failure. */
		if ((desc->refill || broken->kept) &&
		    loss_refresh(buffer, broken->offset, broken->length))
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

/* Mends the library's own memory only, not foreign objects, files and devices' memory. */
static int mend(struct hm_buffer *buffer, struct loss *loss, const struct hm_loss_desc *desc,
		struct hm_recover_info *info)
{
	struct broken broken;
	uint64_t at = 0;
	bool found;
	int r = 0;

	if (!buffer->created || !buffer_is(buffer, HM_MEMORY_SPARSE))
		return 0;
	while (!r) {
		r = buffer_lock(buffer);
		if (r)
			return r;
		found = next_broken_locked(buffer, loss, &at, &broken);
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

	for (; backend_has(ops, HM_BACKEND_REACH) && from < to; from += length) {
		segment = &buffer->segment[buffer_segment_at(buffer, from)];
		if (ops->hidden(segments_link(buffer)->backend, segment, from - segment->offset,
				min_u64(to, segment->offset + segment->length) - from, &length))
			return false;
	}
	return true;
}

/* Otherwise the next touch would have the bytes replaced once more. */
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
		       "%s: some of %" PRIu64 " bytes from %" PRIu64 " on still can't be "
		       "read: the file was cut, or pages fail",
		       buffer->name, length, offset);
}

/*
 * Makes the address space behind the map's bytes, [@from, @to) of the map, like a fresh map's:
 * a growth gives it rights, and nothing else.
 */
static int clear_behind(struct hm_map *map, uint64_t from, uint64_t to)
{
	struct hm_buffer *buffer = map->buffer;
	uint64_t end = min_u64(to, buffer_capacity(buffer) -
					   min_u64(map->offset, buffer_capacity(buffer)));
	int r;

	to = min_u64(to, map->span);
	if (from >= to)
		return 0;
	r = reserve_mend(map->address + from, to - from);
	end = min_u64(end, to);
	if (!r && from < end)
		r = map_segments(buffer->segment, buffer->n_segment, map->offset + from,
				 end - from, map->address + from, PROT_NONE);
	return r ? r : map_dress(buffer, map->address + from, to - from);
}

/* Puts the buffer's bytes in place of a replacement, which stays after an early failure. */
static int restore_block(struct hm_map *map, uint64_t offset, bool first)
{
	struct hm_buffer *buffer = map->buffer;
	uint64_t unit = max_u64(REPAIR_BLOCK, buffer->page_size);
	uint64_t committed = buffer_pages(buffer, map->length);
	uint64_t end = max_u64(offset, min_u64(offset + unit, committed));
	int r = 0;

	if (offset < end)
		r = check_readable(buffer, map->offset + offset, end - offset);
	if (!r)
		r = reach_forget(map, offset, unit);
	if (r)
		return r;
	r = clear_behind(map, end, offset + unit);
	if (!r && offset < end)
		r = reach_put_back(map, offset, end - offset);
	if (!r) {
		/* The order matters: a reader of the old bytes looks at the state first. */
		if (first)
			next_generation(map);
		atomic_fetch_add(&map_repair(map)->restored, 1);
		repair_restored(map, offset);
		return 0;
	}
	/* The replacement is gone; the policy makes another. */
	if (offset < end)
		device_loss_put_range(map, offset, end - offset);
	return r;
}

/* Caller holds change, and the map is frozen. */
static int restore_blocks(struct hm_map *map)
{
	uint64_t unit = max_u64(REPAIR_BLOCK, map->buffer->page_size), at;
	bool first = true;
	int r, failed = 0;

	for (at = 0; repair_next_replaced(map, &at); at += unit) {
		r = restore_block(map, at, first);
		first = first && r;
		/* The last failure counts, as its text is there. */
		if (r)
			failed = r;
	}
	return failed;
}

/* A sealed file takes no new writable mapping, and a growth needs one. */
static int check_sealed(const struct hm_map *map)
{
	const struct hm_buffer *buffer = map->buffer;

	if (!(map->access & HM_WRITE) || !buffer_is(buffer, HM_MEMORY_SEALED) ||
	    !memfd_is_one_way(buffer->segment[buffer->n_segment - 1].fd))
		return 0;
	return err_set(-EPERM,
		       "%s was sent or exported read-only: this map, which may be written, "
		       "can't be made again: make a read-only one",
		       buffer->name);
}

/* The map is frozen, and locked. */
static int restore_frozen(struct hm_map *map)
{
	/* Includes the part behind its bytes. No block is replaced from here on. */
	repair_claim(map, 0, map->span);
	if (!repair_was_seen(map))
		return AGAIN;
	resident_forget_replaced(map);
	if (repair_is_unnoted(map))
		return err_set(-ENOMEM, "no memory to note the locked ranges of a map");
	return restore_blocks(map);
}

/* Caller holds buffer->lock. */
static int restore_map(struct hm_map *map)
{
	struct remap remap;
	int r;

	r = remap_lock(map);
	if (r)
		return r;
	r = check_sealed(map);
	if (r)
		goto out;
	remap_init(&remap, map, 0, map->length);
	r = remap_freeze(&remap);
	if (r)
		goto out;
	r = restore_frozen(map);
	err_hold();
	remap_thaw(&remap, r != AGAIN);
	/* As far as limits allow; hm_map_query() tells of a lock that did not come. */
	resident_lock_again(map, map->address);
	if (reach_show(map))
		map->buffer->reach_failed = true;
	if (!r)
		map_note_recovered(map);
	err_release();
out:
	remap_unlock(map);
	return r;
}

/* Notes the counts of the maps before readers of their blocks are waited for. */
static int see_maps(struct hm_buffer *buffer)
{
	struct hm_map *map;
	int r;

	r = buffer_lock(buffer);
	if (r)
		return r;
	cds_list_for_each_entry(map, &buffer->maps, buffer_link)
		repair_see(map);
	buffer_unlock(buffer);
	return 0;
}

bool block_loss_any(struct hm_buffer *buffer)
{
	const struct loss *loss = atomic_load(&buffer->loss);
	struct hm_map *map;
	bool any;

	if (buffer_lock(buffer))
		return false;
	any = loss && loss->unmended_length;
	cds_list_for_each_entry(map, &buffer->maps, buffer_link)
		any = any || (!map->lost && repair_has_replaced(map));
	buffer_unlock(buffer);
	return any;
}

/* The device, and all maps with it, may have been lost meanwhile. */
static int check_there(struct hm_buffer *buffer)
{
	return device_loss_check_link(buffer->device, segments_link(buffer));
}

/* Finds the next map behind @address, with a reference: maps are in that order. */
static struct hm_map *next_map_locked(struct hm_buffer *buffer, const char *address)
{
	struct hm_map *map;

	cds_list_for_each_entry(map, &buffer->maps, buffer_link)
		if (map->address > address && !map->lost && repair_has_replaced(map) &&
		    object_try_ref(&map->object))
			return map;
	return NULL;
}

/* Takes one map at a time, as an unref needs the lock to be free. *address: the last map's. */
static int restore_next(struct hm_buffer *buffer, const char **address, bool *ret_more)
{
	struct hm_map *map = NULL;
	int r;

	*ret_more = false;
	r = buffer_lock(buffer);
	if (r)
		return r;
	r = check_there(buffer);
	if (!r)
		map = next_map_locked(buffer, *address);
	if (map) {
		*ret_more = true;
		*address = map->address;
		r = restore_map(map);
	}
	buffer_unlock(buffer);
	if (map)
		hm_map_unref(map);
	return r;
}

static int restore_maps(struct hm_buffer *buffer, struct hm_recover_info *info)
{
	bool more = true, again = false;
	const char *address = NULL;
	int r, failed = 0;

	while (more) {
		r = restore_next(buffer, &address, &more);
		info->maps_back += more && !r;
		if (r == AGAIN)
			again = true;
		if (r >= 0 || failed)
			continue;
		failed = r;
		err_hold(); /* the text of the first map that failed */
	}
	if (failed)
		err_release();
	return again ? AGAIN : failed;
}

int block_loss_restore(struct hm_buffer *buffer, struct loss *loss,
		       const struct hm_loss_desc *desc, struct hm_recover_info *info)
{
	uint64_t deadline = time_now_ns() + REMAP_TIMEOUT_NS;
	int r;

	if (buffer_is_private(buffer))
		return err_set(-EOPNOTSUPP,
			       "%s is private memory: there is no copy of the bytes that were "
			       "lost",
			       buffer->name);
	do {
		r = see_maps(buffer);
		if (!r)
			r = recover_wait(buffer, loss, true);
		if (!r)
			r = mend(buffer, loss, desc, info);
		if (!r)
			r = restore_maps(buffer, info);
	} while (r == AGAIN && time_now_ns() < deadline);
	if (r == AGAIN)
		return err_set(-EBUSY,
			       "%s: the handler kept replacing blocks of its maps: call again",
			       buffer->name);
	if (!r)
		info->buffers_back++;
	return r;
}
