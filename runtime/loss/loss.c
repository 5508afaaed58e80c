// SPDX-License-Identifier: MIT
/*
 * A buffer's loss policy: sets it, keeps its shadow fresh, and replaces bytes whose memory is
 * gone.
 */
#include "loss/loss.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/buffer.h"
#include "core/device_link.h"
#include "base/handler_phase.h"
#include "loss/device_loss.h"
#include "fault/repair.h"
#include "base/reserve.h"
#include "core/segments.h"
#include "loss/shadow.h"
#include "base/sys.h"
#include "map/view.h"

#define ZERO_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

int loss_map_after(const struct hm_buffer *buffer, char *address, uint64_t buffer_offset,
		   uint64_t length, int prot)
{
	struct loss *loss = atomic_load(&((struct hm_buffer *)buffer)->loss);
	struct shadow *shadow = loss ? atomic_load(&loss->in_place) : NULL;
	uint64_t done = 0;
	int r;

	if (shadow) {
		r = buffer->object.fork_gen == fork_generation ?
			    shadow_map(shadow, address, buffer_offset, length, prot, &done) :
			    shadow_copy(shadow, address, buffer_offset, length, prot, &done);
		if (r || done == length)
			return r;
	}
	return reserve_map_over(address + done, length - done, prot, ZERO_FLAGS, -1, 0);
}

/* ---- setting it ---- */

static bool wants_shadow(const struct hm_loss_desc *desc)
{
	return desc->policy == HM_LOSS_SHADOW || desc->flags & HM_LOSS_WITH_SHADOW;
}

static int check_locked(struct hm_buffer *buffer, const struct hm_loss_desc *desc)
{
	if (wants_shadow(desc) && !(buffer->caps & HM_CAP_MULTI_MAP))
		return err_set(-EOPNOTSUPP, "%s is private memory, which can have no shadow",
			       buffer->name);
	if (desc->policy == HM_LOSS_RECREATE && !buffer->created)
		return err_set(-EOPNOTSUPP,
			       "%s: the library can't make an imported object or a file "
			       "again: choose HM_LOSS_SHADOW",
			       buffer->name);
	return device_loss_check_buffer(buffer);
}

/* Caller holds buffer->lock. NULL: no memory. */
static struct loss *get_locked(struct hm_buffer *buffer)
{
	struct loss *loss = atomic_load(&buffer->loss);

	if (!loss) {
		loss = sys_calloc(1, sizeof(*loss));
		if (!loss)
			return NULL;
		loss->buffer = buffer;
		loss->limit = buffer->size;
		pthread_mutex_init(&loss->lock, NULL);
		pthread_cond_init(&loss->called, NULL);
		loss_enter(loss);
		atomic_store(&buffer->loss, loss);
	}
	return loss;
}

/* Caller holds both locks. Bytes that were replaced stay so until a recovery. */
static int set_locked(struct loss *loss, struct hm_buffer *buffer,
		      const struct hm_loss_desc *desc)
{
	struct shadow *old = atomic_load(&loss->shadow), *shadow = NULL;
	bool complete = true;
	int r;

	if (wants_shadow(desc)) {
		if (old && !loss->stale && !shadow_is_sealed(old)) {
			shadow = old;
		} else {
			r = loss_fill_shadow(loss, buffer->size, &shadow, &complete);
			if (r)
				return r;
		}
	}
	loss->desc = *desc;
	loss_change_shadow(loss, old, shadow, complete);
	return 0;
}

/* ---- refreshing ---- */

/* Caller holds loss->lock. */
static int refresh_locked(struct loss *loss, uint64_t offset, uint64_t length)
{
	struct shadow *shadow = atomic_load(&loss->shadow);
	int r;

	if (unlikely(offset + length > loss->limit))
		loss->missed = max_u64(loss->missed, offset + length);
	if (!shadow || offset >= loss->limit)
		return 0;
	length = min_u64(length, loss->limit - offset);
	r = shadow_refresh(shadow, loss->buffer, offset, length);
	return likely(r != -ENODEV) ? r : loss_renew_shadow(loss, offset, length);
}

int loss_refresh(struct hm_buffer *buffer, uint64_t offset, uint64_t length)
{
	struct loss *loss = atomic_load(&buffer->loss);
	int r;

	pthread_mutex_lock(&loss->lock);
	r = refresh_locked(loss, offset, length);
	pthread_mutex_unlock(&loss->lock);
	return r;
}

void loss_note_stale(struct loss *loss)
{
	pthread_mutex_lock(&loss->lock);
	loss->stale = true;
	pthread_mutex_unlock(&loss->lock);
}

bool loss_is_kept(const struct hm_buffer *buffer)
{
	const struct loss *loss = atomic_load(&buffer->loss);

	return atomic_load(&loss->shadow) != NULL;
}

/*
 * Asks the device, unless *@asked says that it has answered already. *@asked is its own backend
 * pointer afterwards.
 */
int loss_ask_device(struct hm_buffer *buffer, const void **asked)
{
	struct segment_list *segments = segments_get(buffer);
	const struct device_link *link = segments->link;
	int r;

	if (buffer->ask == ASK_CHECK || (asked && *asked && *asked == link->backend))
		r = device_loss_check_link(buffer->device, link);
	else
		r = device_loss_ask(buffer->device, link);
	if (asked)
		*asked = link->backend;
	segments_put(buffer, segments);
	return r;
}

/*
 * Keeps the stores of work that has ended. The work's result stands, unless its bytes are lost
 * (-ENODEV). Bytes that only the shadow lacks are reported by a query.
 */
static int keep_launched(struct loss *loss, const struct map_use *use)
{
	bool gone, asked;
	int r;

	/*
	 * One hold of the lock: a full refresh comes before the one that fails, or after the
	 * note of it.
	 */
	pthread_mutex_lock(&loss->lock);
	/*
	 * The refresh reads no bytes that are being cut off, so it does not ask; nor does it
	 * without memory.
	 */
	asked = use->map->offset + use->offset < loss->limit;
	r = refresh_locked(loss, use->map->offset + use->offset, use->length);
	/*
	 * The shadow may also be sealed for another part: mmap() may be the first to know of
	 * the loss.
	 */
	gone = (r || !asked) && loss_ask(loss->buffer);
	if (r && !gone)
		loss->stale = true;
	pthread_mutex_unlock(&loss->lock);
	return gone ? -ENODEV : 0;
}

int loss_launch_ended(const struct map_use *use, const void **asked)
{
	struct hm_buffer *buffer = use->map->buffer;
	struct loss *loss = atomic_load(&buffer->loss);
	int r;

	/* If the map is lost already, the work fails by itself. */
	if (use->map->lost)
		return 0;
	/* The work's text must stay, too. */
	err_hold();
	/*
	 * A refresh asks by itself. Bytes that were read, or are kept nowhere, may have been
	 * zeros.
	 */
	if (use->access & HM_WRITE && loss && atomic_load(&loss->shadow))
		r = keep_launched(loss, use);
	else
		r = buffer->ask == ASK_NOBODY ? 0 : loss_ask_device(buffer, asked);
	err_release();
	return r;
}

/* Bytes that are cut off are not touched any more once this has returned. */
void loss_resize_begin(struct hm_buffer *buffer, uint64_t new_size)
{
	struct loss *loss = atomic_load(&buffer->loss);

	if (likely(!loss))
		return;
	pthread_mutex_lock(&loss->lock);
	loss->limit = min_u64(loss->limit, new_size);
	pthread_mutex_unlock(&loss->lock);
}

/*
 * Refreshes bytes that are in reach in the end, but were not meanwhile: not cut after all, or
 * grown. Work that ended and brackets may have written there.
 */
static void catch_up(struct loss *loss, struct shadow *shadow, uint64_t from, uint64_t to)
{
	err_hold();
	if (shadow_refresh(shadow, loss->buffer, from, to - from))
		loss->stale = true;
	err_release();
}

/* Bytes that are cut off need no pages. */
static void cut_unmended(struct loss *loss, uint64_t size)
{
	uint64_t end = buffer_pages(loss->buffer, size);

	if (likely(loss->unmended + loss->unmended_length <= end))
		return;
	loss->unmended_length = end - min_u64(end, loss->unmended);
}

int loss_check_mended(struct hm_buffer *buffer)
{
	const struct loss *loss = atomic_load(&buffer->loss);

	if (likely(!loss || !loss->unmended_length))
		return 0;
	return err_set(-EIO,
		       "%s: %" PRIu64 " bytes from %" PRIu64
		       " on failed, and there was no memory for others: hm_device_recover() "
		       "tries again",
		       buffer->name, loss->unmended_length, loss->unmended);
}

/*
 * A shadow that some map shows keeps the bytes that are cut off: another one, without them, is
 * made.
 */
static void cut_shadow(struct loss *loss, struct shadow *shadow, uint64_t old_size)
{
	if (!shadow_is_sealed(shadow) || loss->limit >= old_size) {
		shadow_cut(shadow, loss->limit);
		return;
	}
	err_hold();
	loss_renew_shadow(loss, 0, loss->limit);
	if (atomic_load(&loss->shadow) == shadow)
		loss->stale = true;
	err_release();
}

void loss_resize_end(struct hm_buffer *buffer, uint64_t old_size)
{
	struct loss *loss = atomic_load(&buffer->loss);
	struct shadow *shadow;
	uint64_t limit, end;

	if (likely(!loss))
		return;
	pthread_mutex_lock(&loss->lock);
	shadow = atomic_load(&loss->shadow);
	limit = loss->limit;
	end = limit < old_size ? max_u64(old_size, loss->missed) : loss->missed;
	end = min_u64(end, buffer->size);
	loss->limit = buffer->size;
	loss->missed = 0;
	cut_unmended(loss, buffer->size);
	if (shadow) {
		/* Replaced objects are about to end. */
		shadow_let_go(shadow);
		cut_shadow(loss, shadow, old_size);
		shadow = atomic_load(&loss->shadow);
		if (limit < end)
			catch_up(loss, shadow, limit, end);
	}
	pthread_mutex_unlock(&loss->lock);
}

void loss_let_go(struct hm_buffer *buffer)
{
	struct loss *loss = atomic_load(&buffer->loss);
	struct shadow *shadow;

	if (likely(!loss))
		return;
	pthread_mutex_lock(&loss->lock);
	shadow = atomic_load(&loss->shadow);
	if (shadow)
		shadow_let_go(shadow);
	pthread_mutex_unlock(&loss->lock);
}

/* ---- queries, and the end ---- */

void loss_describe_locked(struct hm_buffer *buffer, struct hm_buffer_info *info)
{
	struct loss *loss = atomic_load(&buffer->loss);
	struct shadow *shadow;
	struct hm_map *map;

	if (device_loss_check_buffer(buffer)) {
		info->lost |= HM_LOST_BYTES;
		err_clear();
	}
	cds_list_for_each_entry(map, &buffer->maps, buffer_link)
		if (!map->lost && repair_has_replaced(map))
			info->lost |= HM_LOST_PART;
	info->unheard = loss_unheard_locked(buffer);
	if (!loss)
		return;
	pthread_mutex_lock(&loss->lock);
	info->loss = loss->desc.policy;
	shadow = atomic_load(&loss->shadow);
	if (shadow) {
		info->bytes_shadow = shadow_bytes(shadow);
		info->lost |= shadow_is_sealed(shadow) ? HM_LOST_SEALED : 0;
		info->lost |= loss->stale ? HM_LOST_STALE : 0;
	}
	pthread_mutex_unlock(&loss->lock);
}

void loss_end(struct hm_buffer *buffer)
{
	struct loss *loss = atomic_load(&buffer->loss);

	if (likely(!loss))
		return;
	loss_leave(loss);
	handler_quiesce();
	shadow_free(atomic_load(&loss->shadow));
	pthread_cond_destroy(&loss->called);
	pthread_mutex_destroy(&loss->lock);
	free(loss->unmended_bytes);
	free(loss);
}

int loss_set(struct hm_buffer *buffer, const struct hm_loss_desc *desc)
{
	struct loss *loss;
	int r;

	r = buffer_lock(buffer);
	if (r)
		return r;
	r = check_locked(buffer, desc);
	if (r)
		goto out;
	loss = get_locked(buffer);
	if (!loss) {
		r = err_set(-ENOMEM, "no memory for a buffer's policy");
		goto out;
	}
	pthread_mutex_lock(&loss->lock);
	r = set_locked(loss, buffer, desc);
	pthread_mutex_unlock(&loss->lock);
	if (!r)
		loss_choose_signal(buffer);
out:
	buffer_unlock(buffer);
	if (!r)
		loss_drain(loss);
	return r;
}

static int check_shadow(struct hm_buffer *buffer, uint64_t offset, uint64_t length)
{
	struct loss *loss;
	int r;

	if (!length)
		return err_set(-EINVAL, "hm_buffer_shadow: the length is 0");
	r = buffer_lock(buffer);
	if (r)
		return r;
	loss = atomic_load(&buffer->loss);
	if (offset > buffer->size || length > buffer->size - offset)
		r = err_set(-ERANGE,
			    "hm_buffer_shadow: %" PRIu64 " bytes from %" PRIu64
			    " on are not in the buffer of %" PRIu64 " bytes",
			    length, offset, buffer->size);
	else if (!loss || !atomic_load(&loss->shadow))
		r = err_set(-EOPNOTSUPP, "%s has no shadow: hm_buffer_set_loss() makes one",
			    buffer->name);
	buffer_unlock(buffer);
	return r;
}

int loss_shadow(struct hm_buffer *buffer, uint64_t offset, uint64_t length)
{
	struct loss *loss;
	int r;

	r = check_shadow(buffer, offset, length);
	if (r)
		return r;
	loss = atomic_load(&buffer->loss);
	pthread_mutex_lock(&loss->lock);
	r = refresh_locked(loss, offset, length);
	/*
	 * The limit is today's, as the buffer may have grown. A change of size refreshes the
	 * bytes that it hides.
	 */
	if (!r && !offset && length >= loss->limit)
		loss->stale = false;
	pthread_mutex_unlock(&loss->lock);
	return r;
}
