// SPDX-License-Identifier: MIT
/* Ring: the writer's end. The file shows nothing of a record before it is committed. */
#include "ring/ring.h"

#include <inttypes.h>
#include <string.h>

static void put_head(struct hm_ring *ring, uint64_t position, uint64_t length, bool skip)
{
	const struct ring_head head = {
		.length = (uint32_t)length,
		.mark = ring_mark(position, skip),
	};

	memcpy(ring->data + (position & (ring->capacity - 1)), &head, sizeof(head));
}

static int reserve(struct hm_ring *ring, uint64_t length, uint64_t timeout_ns, void **ret_data)
{
	uint64_t left = ring->capacity - (ring->own & (ring->capacity - 1)), end, skip;
	int r;

	if (unlikely(!length))
		return err_set(-EINVAL, "length is 0: a record has at least 1 byte");
	if (unlikely(length > ring_record_max(ring->capacity)))
		return err_set(
			-EMSGSIZE,
			"a record of %" PRIu64 " bytes is beyond the largest one of this "
			"ring, %" PRIu64 ": make one of a capacity twice as large as that",
			length, ring_record_max(ring->capacity));
	skip = ring_room(length) > left ? left : 0;
	end = ring->own + skip + ring_room(length);
	if (end > ring->capacity && ring->other < end - ring->capacity) {
		r = ring_wait(ring, end - ring->capacity, timeout_ns);
		if (r)
			return r;
	}
	ring->skip = skip;
	ring->length = length;
	ring->held = true;
	*ret_data = ring->data + ((ring->own + skip) & (ring->capacity - 1)) + RING_HEAD;
	return 0;
}

static int commit(struct hm_ring *ring, uint64_t length)
{
	int r;

	if (!length) {
		ring->held = false;
		return 0;
	}
	if (ring->skip)
		put_head(ring, ring->own, ring->skip - RING_HEAD, true);
	put_head(ring, ring->own + ring->skip, length, false);
	/* Before the other end hears of it: lost bytes are no record. */
	r = ring_check(ring);
	ring->held = false;
	if (unlikely(r))
		return r;
	ring->own += ring->skip + ring_room(length);
	ring_publish(ring);
	return 0;
}

int hm_ring_reserve(struct hm_ring *ring, uint64_t length, uint64_t timeout_ns, void **ret_data)
{
	void *data;
	int r;

	err_begin();
	r = ring_enter(ring, HM_RING_WRITER, "hm_ring_reserve");
	if (r)
		return r;
	r = ret_data ? reserve(ring, length, timeout_ns, &data) :
		       err_set(-EINVAL, "hm_ring_reserve: ret_data is NULL");
	r = ring_leave(ring, r);
	/* Results stay untouched on failure. */
	if (!r)
		*ret_data = data;
	return r;
}

int hm_ring_commit(struct hm_ring *ring, uint64_t length)
{
	int r;

	err_begin();
	r = ring_enter(ring, HM_RING_WRITER, "hm_ring_commit");
	if (r)
		return r;
	if (!ring->held)
		r = err_set(-EINVAL, "hm_ring_commit without hm_ring_reserve");
	else if (length > ring->length)
		r = err_set(-EINVAL,
			    "hm_ring_commit: %" PRIu64 " bytes, and %" PRIu64 " were reserved",
			    length, ring->length);
	else
		r = commit(ring, length);
	return ring_leave(ring, r);
}

int hm_ring_write(struct hm_ring *ring, const void *data, uint64_t length, uint64_t timeout_ns)
{
	void *to;
	int r;

	err_begin();
	r = ring_enter(ring, HM_RING_WRITER, "hm_ring_write");
	if (r)
		return r;
	r = data ? reserve(ring, length, timeout_ns, &to) :
		   err_set(-EINVAL, "hm_ring_write: data is NULL");
	if (!r) {
		memcpy(to, data, length);
		r = commit(ring, length);
	}
	return ring_leave(ring, r);
}
