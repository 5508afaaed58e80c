// SPDX-License-Identifier: MIT
/*
 * Makes a shadow, puts it in another's place, and makes it anew where a part of it is in use.
 */
#include <errno.h>
#include <string.h>

#include "base/handler_phase.h"
#include "loss/loss.h"
#include "loss/device_loss.h"
#include "loss/shadow.h"
#include "base/sys.h"

/* Bytes at a time. If a page can't be read, the pages of the step are read one by one. */
#define FILL_STEP MIB(1)

/* Shadows made one after the other, as each may be sealed meanwhile. */
#define RENEWALS 3

/* Pages that can't be read any more come from @old. */
static int fill_pages(struct shadow *shadow, struct hm_buffer *buffer, const struct shadow *old,
		      uint64_t from, uint64_t to, bool *ret_complete)
{
	uint64_t length;
	int r = 0;

	for (; from < to && !r; from += length) {
		length = min_u64(page_size(), to - from);
		r = shadow_refresh(shadow, buffer, from, length);
		if (r != -EIO)
			continue;
		r = shadow_read(old, shadow_place(shadow, from), from, length);
		*ret_complete = false;
	}
	return r;
}

static int fill(struct shadow *shadow, struct hm_buffer *buffer, const struct shadow *old,
		uint64_t size, bool *ret_complete)
{
	uint64_t at, length;
	int r = 0;

	*ret_complete = true;
	for (at = 0; at < size && !r; at += length) {
		length = min_u64(FILL_STEP, size - at);
		r = shadow_refresh(shadow, buffer, at, length);
		if (r == -EIO && old)
			r = fill_pages(shadow, buffer, old, at, at + length, ret_complete);
	}
	return r;
}

int loss_fill_shadow(struct loss *loss, uint64_t size, struct shadow **ret_shadow,
		     bool *ret_complete)
{
	struct shadow *shadow, *old = atomic_load(&loss->shadow);
	int r;

	r = shadow_create(size, &shadow);
	if (r)
		return r;
	atomic_store(&loss->shadow, shadow);
	r = fill(shadow, loss->buffer, old && shadow_is_sealed(old) ? old : NULL, size,
		 ret_complete);
	if (r)
		goto err_shadow;
	/* The buffer's own bytes there are zeros. */
	if (unlikely(loss->unmended_length) && loss->unmended + loss->unmended_length <= size)
		memcpy(shadow_place(shadow, loss->unmended), loss->unmended_bytes,
		       loss->unmended_length);
	*ret_shadow = shadow;
	return 0;

err_shadow:
	atomic_store(&loss->shadow, old);
	shadow_free(shadow);
	return r;
}

void loss_change_shadow(struct loss *loss, struct shadow *old, struct shadow *shadow,
			bool complete)
{
	if (complete)
		loss->stale = false;
	atomic_store(&loss->in_place, shadow);
	atomic_store(&loss->shadow, shadow);
	if (old == shadow)
		return;
	/* A handler may have found the old one. Maps that show it keep the file. */
	handler_quiesce();
	shadow_free(old);
}

__attribute__((noinline, cold)) int loss_renew_shadow(struct loss *loss, uint64_t offset,
						      uint64_t length)
{
	struct shadow *shadow, *old;
	bool complete;
	int r = -ENODEV, i;

	for (i = 0; i < RENEWALS && r == -ENODEV; i++) {
		old = atomic_load(&loss->shadow);
		if (!shadow_is_sealed(old) || device_loss_check_buffer(loss->buffer))
			break;
		r = loss_fill_shadow(loss, loss->limit, &shadow, &complete);
		if (r)
			break;
		loss_change_shadow(loss, old, shadow, complete);
		err_clear();
		r = shadow_refresh(shadow, loss->buffer, offset, length);
	}
	return r;
}
