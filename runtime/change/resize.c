// SPDX-License-Identifier: MIT
/* hm_buffer_resize: grows and shrinks in place; replace.c makes new objects. */
#include "change/resize.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "core/buffer.h"
#include "core/device_link.h"
#include "loss/loss.h"
#include "loss/device_loss.h"
#include "base/rlimits.h"
#include "map/map.h"
#include "tell/probe.h"
#include "change/replace.h"
#include "map/resident.h"
#include "core/segments.h"
#include "share/share.h"
#include "base/sys.h"

/*
 * A receiver of the buffer that does not know the last size yet may have stored into bytes that
 * were cut off. Gives them back, as a shrink does. A seal forbids that: other processes can't
 * write such memory.
 */
static int forget_strays(struct hm_buffer *buffer, struct hm_segment *segment,
			 uint64_t old_part, uint64_t new_part)
{
	int r;

	if (new_part <= old_part || !buffer_is(buffer, HM_MEMORY_SPARSE) ||
	    buffer_is(buffer, MEMORY_HUGE) ||
	    !(buffer->exported || atomic_load(&buffer->share)))
		return 0;
	r = buffer->device->ops->resize(segments_link(buffer)->backend, segment, new_part,
					old_part);
	if (r != -EPERM)
		return r;
	err_clear();
	return 0;
}

int resize_object(struct hm_buffer *buffer, uint32_t index, uint64_t old_size,
		  uint64_t new_size)
{
	struct hm_segment *segment = &buffer->segment[index];
	uint64_t old_part = old_size > segment->offset ? old_size - segment->offset : 0;
	uint64_t new_part = new_size > segment->offset ? new_size - segment->offset : 0;
	uint32_t said = err_count();
	int r;

	if (old_part == new_part)
		return 0; /* already full; growth goes on behind it */
	if (share_is_received(buffer))
		return 0; /* done by the owner, perhaps with more changes since */
	/*
	 * Told after the wait for maps, and not before: copies of bytes wait for the end of
	 * this.
	 */
	share_resizing_locked(buffer);
	r = forget_strays(buffer, segment, old_part, new_part);
	if (!r)
		r = buffer->device->ops->resize(segments_link(buffer)->backend, segment,
						old_part, new_part);
	return backend_explain(buffer->device->ops, said, r, "resize");
}

/* ---- growing inside max_size ---- */

/* Undoes a growth, in the objects that hold [to, from), the last one first. */
static void shrink_objects(struct hm_buffer *buffer, uint64_t from, uint64_t to)
{
	uint32_t first = buffer_segment_at(buffer, to - 1);
	uint32_t i;
	uint64_t end;

	for (i = buffer_segment_at(buffer, from - 1); from > to; from = end, i--) {
		end = i > first ? max_u64(buffer->segment[i].offset, to) : to;
		resize_object(buffer, i, from, end);
		if (i == first)
			break;
	}
}

/* Growth may reach from one object into further ones that a shrink had emptied. */
static int grow_objects(struct hm_buffer *buffer, uint64_t new_size)
{
	uint32_t first = buffer_segment_at(buffer, buffer->size - 1);
	uint32_t i, last = buffer_segment_at(buffer, new_size - 1);
	uint64_t end;
	int r;

	for (i = first; i <= last; i++) {
		end = buffer->segment[i].offset + buffer->segment[i].length;
		r = resize_object(buffer, i, buffer->size, min_u64(new_size, end));
		if (r)
			goto err_objects;
	}
	return 0;

err_objects:
	shrink_objects(buffer, buffer->segment[i].offset, buffer->size);
	return r;
}

/*
 * Private memory: MADV_DONTNEED drops pages, and the rest of the last page is cleared, so that
 * growing again gives zeros. The one map is frozen.
 */
static int discard_private(struct hm_map *map, uint64_t new_size, uint64_t from, uint64_t to)
{
	uint64_t page = map->buffer->page_size;
	char *last = map->address + round_down(new_size, page);
	bool clear = !is_aligned(new_size, page);
	uint32_t access = HM_READ | HM_WRITE;
	int r;

	if (clear)
		access = rangemap_at(map->rights, round_down(new_size, page))->value;
	/* Steps that can fail come first: discarded bytes do not come back. */
	if (!(access & HM_WRITE)) {
		r = sys_mprotect(last, page, PROT_READ | PROT_WRITE);
		if (r)
			return rlimits_explain_map(r, page, TAKES_DATA,
						   "clearing the last page");
	}
	/*
	 * Brings the page in, so that clearing it raises no fault, which would wait for this
	 * very change. Kernels before 5.14 can't do this.
	 */
	r = clear ? sys_madvise(last, page, MADV_POPULATE_WRITE) : 0;
	if (r && r != -EINVAL) {
		r = err_set(r,
			    "%s: the rest of the page behind byte %" PRIu64 " can't be "
			    "cleared: %s: shrink the buffer to a multiple of %" PRIu64,
			    map->buffer->name, new_size, err_name(r), page);
		goto out;
	}
	if (to > from) {
		/* Under mlockall() they stay locked; only this advice takes locked pages. */
		r = sys_madvise(map->address + from, to - from, MADV_DONTNEED_LOCKED);
		if (r == -EINVAL)
			r = sys_madvise(map->address + from, to - from, MADV_DONTNEED);
		if (r) {
			r = err_set(r, "giving back %" PRIu64 " bytes (MADV_DONTNEED): %s",
				    to - from, err_name(r));
			goto out;
		}
	}
	if (clear)
		memset(map->address + new_size, 0, from - new_size);
	r = 0;
out:
	if (!(access & HM_WRITE))
		sys_mprotect(last, page, prot_of_access(access));
	return r;
}

static int grow_locked(struct hm_buffer *buffer, uint64_t new_size, struct resize_set *set)
{
	uint64_t from = buffer_pages(buffer, buffer->size);
	uint64_t to = buffer_pages(buffer, new_size);
	struct hm_map *map;
	uint32_t i = 0;
	int r;

	r = resize_set_stage(set, new_size, from, to - from);
	if (r)
		return r;
	r = resize_set_freeze(set, buffer->size, new_size - buffer->size);
	if (r)
		return r;
	/* Bytes stored behind the end, in its page, must not become new bytes. */
	if (buffer_is(buffer, MEMORY_ANON) && set->n && buffer->size < from) {
		r = discard_private(set->maps[0].map, buffer->size, from, from);
		if (r)
			return r;
	}
	r = grow_objects(buffer, new_size);
	if (r)
		return r;
	for (i = 0; i < set->n && to > from; i++) {
		map = set->maps[i].map;
		r = sys_mprotect(map->address + from, to - from, prot_of_access(map->access));
		if (r) {
			r = rlimits_explain_map(r, to - from, TAKES_DATA,
						"making new bytes accessible");
			goto err_protect;
		}
	}
	resize_set_commit(set, new_size);
	buffer->size = new_size;
	return 0;

err_protect:
	/* mprotect() over several objects may have done the first. */
	do {
		sys_mprotect(set->maps[i].map->address + from, to - from, PROT_NONE);
	} while (i--);
	shrink_objects(buffer, new_size, buffer->size);
	return r;
}

/* ---- shrinking ---- */

/* One step: the bytes cut off are in one segment, so a failure undoes all of it. */
static int shrink_step(struct hm_buffer *buffer, uint32_t index, uint64_t new_size,
		       struct resize_set *set)
{
	uint64_t from = buffer_pages(buffer, new_size);
	uint64_t to = buffer_pages(buffer, buffer->size);
	struct hm_map *map;
	uint32_t i;
	int r;

	/* Rights go with their bytes: bytes that grow there later are new. */
	r = resize_set_stage(set, new_size, from, to - from);
	if (r)
		return r;
	r = resize_set_freeze(set, new_size, buffer->size - new_size);
	if (r)
		return r;
	resize_cut_begin(set, new_size);
	for (i = 0; i < set->n && to > from; i++) {
		map = set->maps[i].map;
		r = sys_mprotect(map->address + from, to - from, PROT_NONE);
		/* Before the pages go: MADV_DONTNEED refuses locked ones. */
		if (!r && set->maps[i].locked)
			r = sys_munlock(map->address + from, to - from);
		if (r) {
			r = rlimits_explain_map(r, to - from, 0, "cutting bytes off");
			goto err_protect;
		}
	}
	if (buffer_is(buffer, MEMORY_ANON) && set->n) {
		r = discard_private(set->maps[0].map, new_size, from, to);
		if (r)
			goto err_protect;
	}
	r = resize_object(buffer, index, buffer->size, new_size);
	if (r)
		goto err_protect;
	resize_set_commit(set, new_size);
	buffer->size = new_size;
	return 0;

err_protect:
	for (i = 0; i < set->n && to > from; i++) {
		map = set->maps[i].map;
		map_apply_rights(map->address, map->rights, from, to - from);
		resident_lock_again(map, map->address);
	}
	return r;
}

/* -EBUSY: a map of a part would lose bytes. */
static int check_parts(struct hm_buffer *buffer, uint64_t new_size)
{
	struct hm_map *map;

	cds_list_for_each_entry(map, &buffer->maps, buffer_link)
		if (!map->whole && map->offset + map->length > new_size)
			return err_set(-EBUSY,
				       "%s: %" PRIu64 " bytes would cut into the map of "
				       "bytes %" PRIu64 " to %" PRIu64 " at %p: unmap it first",
				       buffer->name, new_size, map->offset,
				       map->offset + map->length, (void *)map->address);
	return 0;
}

static int with_maps(struct hm_buffer *buffer, uint32_t index, uint64_t new_size,
		     struct resize_set *set)
{
	int r;

	r = resize_set_begin(buffer, set);
	if (r)
		return r;
	r = new_size > buffer->size ? grow_locked(buffer, new_size, set) :
				      shrink_step(buffer, index, new_size, set);
	resize_set_end(set, !r);
	return r;
}

/*
 * Objects of a fixed length are replaced by a new one, which also gives back the bytes cut off.
 */
static bool replaces(struct hm_buffer *buffer, uint64_t new_size)
{
	if (!(buffer->caps & HM_CAP_RESIZE_REPLACES) ||
	    buffer_pages(buffer, new_size) == buffer_pages(buffer, buffer->size))
		return false;
	if (!replace_check(buffer))
		return true;
	/* No failure: the buffer changes in place, or by a further object. */
	err_clear();
	return false;
}

static PROBE_SITE void resized_locked(struct hm_buffer *buffer, uint64_t old_size, bool done,
				      uint64_t start)
{
	counts_sized_locked(buffer, done);
	if (done)
		probe_resize(buffer, old_size, start);
}

int resize_follow_locked(struct hm_buffer *buffer, uint64_t new_size, struct resize_set *set)
{
	uint64_t old_size = buffer->size, start = trace_start();
	int r;

	loss_resize_begin(buffer, new_size);
	r = with_maps(buffer, 0, new_size, set);
	loss_resize_end(buffer, old_size);
	resized_locked(buffer, old_size, !r, start);
	return r;
}

static int resize_locked(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags,
			 struct resize_set *set)
{
	uint32_t index = buffer_segment_at(buffer, buffer->size - 1);
	int r;

	r = share_refuse_resize_locked(buffer, new_size, flags);
	if (r)
		return r;
	if (!(buffer->caps & HM_CAP_RESIZE))
		return err_set(-EOPNOTSUPP,
			       "%s: this buffer can't be resized (read-only, a part "
			       "of a file, or imported so)",
			       buffer->name);
	if (new_size < buffer->size) {
		if (buffer->pinned)
			return err_set(-EBUSY,
				       "%s was exported as a dma-buf, which keeps its pages: "
				       "if this process gave them back, importers would see "
				       "other bytes; make a smaller buffer",
				       buffer->name);
		r = check_parts(buffer, new_size);
		if (r)
			return r;
		if (replaces(buffer, new_size))
			return replace_locked(buffer, new_size, set);
		/* Segment by segment; hm_buffer_resize() comes back for the next one. */
		return with_maps(buffer, index,
				 max_u64(new_size, buffer->segment[index].offset), set);
	}
	if ((flags & HM_GROW_REPLACE && !(buffer->caps & HM_CAP_REPLACE)) ||
	    (flags & HM_GROW_APPEND && !(buffer->caps & HM_CAP_APPEND)))
		return err_set(-EOPNOTSUPP,
			       "%s: this kind of buffer grows inside max_size only",
			       buffer->name);
	if (new_size > buffer->max_size && !(flags & HM_MAY_MOVE))
		return err_set(-ENOSPC,
			       "%s: %" PRIu64 " bytes are beyond max_size, %" PRIu64
			       ": pass HM_MAY_MOVE, or make the buffer with a larger max_size",
			       buffer->name, new_size, buffer->max_size);
	if (new_size > buffer->max_size || (flags & HM_GROW_REPLACE))
		return replace_locked(buffer, new_size, set);
	/* After a shrink there are emptied objects behind, which are used first. */
	if ((flags & HM_GROW_APPEND) && index == buffer->n_segment - 1)
		return replace_append_locked(buffer, new_size, set);
	if (!(flags & HM_GROW_APPEND) && replaces(buffer, new_size))
		return replace_locked(buffer, new_size, set);
	if (new_size > buffer_capacity(buffer))
		return replace_append_locked(buffer, new_size, set);
	return with_maps(buffer, 0, new_size, set);
}

int resize_buffer(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags)
{
	bool done = false, relieved = false;
	uint64_t old_size, start = trace_start();
	struct resize_set set;
	int r;

	do {
		set = (struct resize_set){ 0 };
		r = buffer_lock(buffer);
		if (r)
			return r;
		r = device_loss_check_buffer(buffer);
		if (!r && buffer->size != new_size) {
			old_size = buffer->size;
			loss_resize_begin(buffer, new_size);
			r = resize_locked(buffer, new_size, flags, &set);
			loss_resize_end(buffer, old_size);
			resized_locked(buffer, old_size, buffer->size == new_size, start);
		}
		share_publish_locked(buffer);
		done = buffer->size == new_size;
		buffer_unlock(buffer);
		resize_set_drop(&set);
	} while ((!r && !done) || retire_relieve(r, &relieved));
	/* A loss of the device since the check above may have missed a map that moved. */
	return r ? r : device_loss_check_buffer(buffer);
}
