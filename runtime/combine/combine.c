// SPDX-License-Identifier: MIT
/* hm_combine: small writes to a map, gathered by lines. */
#include "combine/combine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/guard_slot.h"
#include "base/sys.h"
#include "core/core.h"
#include "core/buffer.h"
#include "loss/device_loss.h"
#include "map/remap.h"
#include "map/view.h"
#include "share/share.h"

/* Longest wait in a callback of a view. */
#define PATIENCE_NS 1000000000

/*
 * The thread that has the lock may wait, for a buffer's or a map's, for the change that a view's
 * callback is part of: such a callback does not wait for that thread without end.
 */
static __attribute__((noinline, cold)) int lock_taken(struct hm_combine *combine)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	uint64_t deadline = time_now_ns() + PATIENCE_NS;

	if (!view_in_callback()) {
		pthread_mutex_lock(&combine->lock);
		return 0;
	}
	while (pthread_mutex_trylock(&combine->lock)) {
		if (time_now_ns() > deadline)
			return err_set(-EAGAIN,
				       "another thread uses the combine, and may wait for the "
				       "change that this callback is part of");
		nanosleep(&moment, NULL);
	}
	return 0;
}

static inline int lock(struct hm_combine *combine)
{
	return likely(!pthread_mutex_trylock(&combine->lock)) ? 0 : lock_taken(combine);
}

static inline void unlock(struct hm_combine *combine)
{
	pthread_mutex_unlock(&combine->lock);
}

/* ---- the map's list ---- */

/* Returns the combine behind @combine, NULL: the first, with a reference; NULL: the end. */
static struct hm_combine *next_of(struct hm_map *map, struct hm_combine *combine)
{
	struct cds_list_head *link;
	struct hm_combine *next = NULL;

	pthread_mutex_lock(&map->lock);
	link = combine ? combine->link.next : map->combines.next;
	for (; link != &map->combines; link = link->next) {
		next = caa_container_of(link, struct hm_combine, link);
		if (object_try_ref(&next->object))
			break;
		next = NULL;
	}
	pthread_mutex_unlock(&map->lock);
	return next;
}

static void unlink_combine(struct hm_combine *combine)
{
	struct hm_map *map = combine->map;

	pthread_mutex_lock(&map->lock);
	cds_list_del(&combine->link);
	if (cds_list_empty(&map->combines))
		map->write_out = NULL;
	pthread_mutex_unlock(&map->lock);
}

/* Reports a loss that a flush may have met. The caller holds no lock. */
static int notice(struct hm_combine *combine, int r)
{
	return device_loss_notice(combine->map->buffer->device, r);
}

/* @tell: no bracket is open, so a loss may be reported. */
static void put(struct hm_combine *combine, bool tell)
{
	int r;

	if (!object_put(&combine->object))
		return;
	unlink_combine(combine);
	err_hold();
	r = combine_flush_locked(combine, NULL);
	if (tell)
		notice(combine, r);
	err_release();
	combine->object.kind = OBJECT_FREED;
	hm_map_unref(combine->map);
	pthread_mutex_destroy(&combine->lock);
	table_end(combine);
	free(combine);
}

static int flush(struct hm_combine *combine, struct hm_fault *ret_fault)
{
	int r = lock(combine);

	if (r)
		return r;
	r = combine_flush_locked(combine, ret_fault);
	unlock(combine);
	return r;
}

int combine_write_out(struct hm_map *map)
{
	struct hm_combine *combine = next_of(map, NULL), *next;
	int r, first = 0;

	while (combine) {
		if (first)
			err_hold();
		r = flush(combine, NULL);
		if (first)
			err_release();
		first = first ? first : r;
		next = next_of(map, combine);
		put(combine, false);
		combine = next;
	}
	return first;
}

static void link_combine(struct hm_combine *combine)
{
	struct hm_map *map = combine->map;

	pthread_mutex_lock(&map->lock);
	cds_list_add_tail(&combine->link, &map->combines);
	map->write_out = combine_write_out;
	pthread_mutex_unlock(&map->lock);
}

/* ---- making and ending ---- */

static int combine_create(struct hm_map *map, const struct hm_combine_desc *from,
			  struct hm_combine **ret_combine)
{
	struct hm_combine_desc desc = { 0 };
	struct hm_combine *combine;
	int r;

	r = map_check(map);
	if (r)
		return r;
	if (!ret_combine)
		return err_set(-EINVAL, "hm_combine_create: ret_combine is NULL");
	if (from)
		r = struct_read(&desc, sizeof(desc), from, from->struct_size,
				offsetof(struct hm_combine_desc, lines), "hm_combine_desc");
	if (r)
		return r;
	if (desc.flags || desc.lines > COMBINE_LINES_MOST)
		return err_set(-EINVAL,
			       "hm_combine_desc: flags 0x%x must be 0, and %" PRIu64
			       " lines at most %u",
			       desc.flags, desc.lines, COMBINE_LINES_MOST);
	if (!(map->access & HM_WRITE))
		return err_set(-EACCES,
			       "hm_combine_create: the map of %s was made without HM_WRITE",
			       map->buffer->name);
	if (map->lost)
		return remap_refuse_lost(map);
	combine = sys_calloc(1, sizeof(*combine));
	if (!combine)
		return err_set(-ENOMEM, "hm_combine_create: no memory");
	r = table_init(combine, desc.lines ? (uint32_t)desc.lines : COMBINE_LINES_USUAL);
	if (r) {
		free(combine);
		return r;
	}
	object_init(&combine->object, OBJECT_COMBINE);
	pthread_mutex_init(&combine->lock, NULL);
	combine->map = hm_map_ref(map);
	link_combine(combine);
	*ret_combine = combine;
	return 0;
}

int hm_combine_create(struct hm_map *map, const struct hm_combine_desc *desc,
		      struct hm_combine **ret_combine)
{
	err_begin();
	return combine_create(map, desc, ret_combine);
}

struct hm_combine *hm_combine_ref(struct hm_combine *combine)
{
	if (combine)
		object_ref(&combine->object);
	return combine;
}

void hm_combine_unref(struct hm_combine *combine)
{
	if (combine)
		put(combine, true);
}

/* ---- writing ---- */

static inline int check(struct hm_combine *combine)
{
	return object_check((struct hm_object *)combine, OBJECT_COMBINE);
}

/* Bytes [from, to) of the line. */
static inline int keep(struct hm_combine *combine, uint64_t line, uint32_t from, uint32_t to,
		       const char *bytes)
{
	uint64_t mask = COMBINE_WHOLE >> (COPY_LINE - (to - from)) << from;
	uint32_t entry = table_entry(combine, line);
	int r;

	if (unlikely(entry == UINT32_MAX)) {
		r = combine_flush_locked(combine, NULL);
		if (r)
			return r;
		entry = table_entry(combine, line);
	}
	memcpy(combine->bytes[entry].byte + from, bytes, to - from);
	combine->mask[entry] |= mask;
	combine->counts.alone += combine_stores(from, to);
	return 0;
}

static int keep_all(struct hm_combine *combine, uint64_t offset, const char *bytes,
		    uint64_t length)
{
	uint64_t end = offset + length, n;
	int r;

	for (; offset < end; offset += n, bytes += n) {
		uint32_t from = offset & (COPY_LINE - 1);

		n = min_u64(end - offset, COPY_LINE - from);
		r = keep(combine, offset / COPY_LINE, from, from + (uint32_t)n, bytes);
		if (unlikely(r))
			return r;
	}
	return 0;
}

static int write_locked(struct hm_combine *combine, uint64_t offset, const char *bytes,
			uint64_t length)
{
	int r = keep_all(combine, offset, bytes, length);

	if (unlikely(r))
		return r;
	combine->counts.writes++;
	combine->counts.bytes += length;
	return 0;
}

/* Would a fault at the caller's bytes jump out of this call? */
static bool is_guarded(void)
{
	const struct hm_guard *guard = guard_own ? guard_own->innermost : NULL;

	return guard && guard != &guard_suspended;
}

/* Reads the bytes without the lock, which a jump would leave locked. */
static __attribute__((noinline)) int write_guarded(struct hm_combine *combine, uint64_t offset,
						   const char *bytes, uint64_t length)
{
	uint64_t n, done;
	char piece[1024];
	int r = 0;

	for (done = 0; done < length && !r; done += n) {
		n = min_u64(length - done, sizeof(piece));
		memcpy(piece, bytes + done, n);
		r = lock(combine);
		if (r)
			break;
		r = keep_all(combine, offset + done, piece, n);
		if (!r && done + n == length) {
			combine->counts.writes++;
			combine->counts.bytes += length;
		}
		unlock(combine);
	}
	return r;
}

int hm_combine_write(struct hm_combine *combine, uint64_t offset, const void *bytes,
		     uint64_t length)
{
	int r;

	err_begin();
	r = check(combine);
	if (r)
		return r;
	if (unlikely(!bytes))
		return err_set(-EINVAL, "hm_combine_write: bytes is NULL");
	r = map_check_range(combine->map, offset, length, "hm_combine_write");
	if (unlikely(r))
		return r;
	if (unlikely(is_guarded())) {
		r = write_guarded(combine, offset, bytes, length);
	} else {
		r = lock(combine);
		if (unlikely(r))
			return r;
		r = write_locked(combine, offset, bytes, length);
		unlock(combine);
	}
	return likely(!r) ? 0 : notice(combine, r);
}

int hm_combine_flush(struct hm_combine *combine, struct hm_fault *fault)
{
	int r;

	err_begin();
	r = check(combine);
	if (!r && fault)
		r = struct_check_out(fault->struct_size, sizeof(*fault), sizeof(*fault),
				     "hm_fault");
	if (r)
		return r;
	return notice(combine, flush(combine, fault));
}

int hm_combine_discard(struct hm_combine *combine)
{
	int r;

	err_begin();
	r = check(combine);
	if (!r)
		r = lock(combine);
	if (r)
		return r;
	table_empty(combine);
	unlock(combine);
	return 0;
}

int hm_combine_query(struct hm_combine *combine, struct hm_combine_info *ret_info)
{
	struct hm_combine_info info;
	int r;

	err_begin();
	r = check(combine);
	if (r)
		return r;
	if (!ret_info)
		return err_set(-EINVAL, "hm_combine_query: ret_info is NULL");
	r = struct_check_out(ret_info->struct_size, sizeof(info),
			     offsetof(struct hm_combine_info, lines), "hm_combine_info");
	if (!r)
		r = lock(combine);
	if (r)
		return r;
	info = combine->counts;
	info.lines = combine->lines;
	info.pending = combine->n;
	unlock(combine);
	info.struct_size = ret_info->struct_size;
	struct_write(ret_info, &info, info.struct_size);
	return 0;
}
