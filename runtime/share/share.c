// SPDX-License-Identifier: MIT
/* A buffer while it is shared: a receiver's follows its owner's size. */
#include "share/share.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "core/buffer.h"
#include "share/control.h"
#include "loss/device_loss.h"
#include "map/map.h"
#include "change/resize.h"
#include "base/sys.h"

static int follow_locked(struct hm_buffer *buffer, uint64_t size, struct resize_set *set)
{
	uint64_t mine = min_u64(size, buffer->max_size);
	int r;

	if (!size || size > buffer->share->max_size)
		return share_explain_size(buffer, size, buffer->share->max_size);
	r = mine > buffer->size ? share_check_size(buffer, mine) : 0;
	if (!r && mine != buffer->size)
		r = resize_follow_locked(buffer, mine, set);
	if (!r)
		buffer->share->seen = size;
	return r;
}

int share_follow(struct hm_buffer *buffer)
{
	struct resize_set set = { 0 };
	struct share *share = buffer->share;
	int r;

	if (likely(control_size(share, share->seen) == share->seen))
		return 0;
	r = buffer_lock(buffer);
	if (r)
		return r;
	r = follow_locked(buffer, control_size(share, share->seen), &set);
	buffer_unlock(buffer);
	resize_set_drop(&set);
	return device_loss_notice(buffer->device, r);
}

void share_resizing_locked(struct hm_buffer *buffer)
{
	if (buffer->share && !buffer->share->received)
		control_resizing(buffer->share);
}

bool share_owner_cuts(struct hm_buffer *buffer, uint64_t *ret_cuts)
{
	bool gone;

	if (control_is_resized(buffer->share, ret_cuts))
		return false;
	/*
	 * The lock's holder may be in a callback, or wait for work: "true" makes the caller ask
	 * again.
	 */
	if (pthread_mutex_trylock(&buffer->lock))
		return true;
	gone = control_owner_gone(buffer->share);
	buffer_unlock(buffer);
	return !gone;
}

bool share_owner_has_cut(const struct hm_buffer *buffer, uint64_t cuts)
{
	return control_resizes(buffer->share, UINT64_MAX) != cuts;
}

uint64_t share_seen(const struct hm_buffer *buffer)
{
	const struct share *share = buffer->share;

	return atomic_load_explicit(&share->seen, memory_order_acquire);
}

void share_publish_locked(struct hm_buffer *buffer)
{
	if (buffer->share && !buffer->share->received)
		control_publish(buffer->share, buffer->size);
}

int share_refuse_resize_locked(const struct hm_buffer *buffer, uint64_t new_size,
			       uint32_t flags)
{
	struct share *share = buffer->share;

	if (likely(!share))
		return 0;
	if (share->received && control_owner_gone(share))
		return err_set(-EOWNERDEAD,
			       "%s can't be resized any more: its owner, the only process "
			       "that may, has ended",
			       buffer->name);
	if (share->received)
		return err_set(-EBUSY,
			       "%s: it was received, and only its owner, process %" PRIu64
			       ", may resize it",
			       buffer->name, control_owner_pid(share));
	if (new_size < buffer->size && buffer_is(buffer, HM_MEMORY_STORAGE | MEMORY_HUGE))
		return err_set(-EBUSY,
			       "%s was sent to other processes, and a touch of bytes cut off "
			       "of a %s would end them (SIGBUS): it can't shrink any more",
			       buffer->name,
			       buffer_is(buffer, MEMORY_HUGE) ? "huge page" : "file");
	if (new_size > buffer->size &&
	    (new_size > buffer->max_size || flags & (HM_GROW_REPLACE | HM_GROW_APPEND)))
		return err_set(
			-EBUSY,
			"%s was sent to other processes, which have its one object: it grows "
			"inside max_size, %" PRIu64 ", only",
			buffer->name, buffer->max_size);
	return 0;
}

void share_describe_locked(const struct hm_buffer *buffer, struct hm_buffer_info *info)
{
	struct share *share = buffer->share;

	if (!share)
		return;
	info->sharing = share->received ? HM_SHARING_RECEIVED : HM_SHARING_SENT;
	if (share->received && control_owner_gone(share))
		info->sharing |= HM_SHARING_OWNER_GONE;
	/* The slot may be another buffer's by now: the last number stays then. */
	share->resizes_seen = control_resizes(share, share->resizes_seen);
	info->owner_resizes = (uint32_t)share->resizes_seen;
}

void share_end(struct hm_buffer *buffer)
{
	control_end(buffer->share);
	buffer->share = NULL;
}
