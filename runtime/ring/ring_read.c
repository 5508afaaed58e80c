// SPDX-License-Identifier: MIT
/* Ring: the reader's end. Each head is read once, and checked before it is used. */
#include "ring/ring.h"

#include <inttypes.h>
#include <string.h>

static struct ring_head head_at(const struct hm_ring *ring, uint64_t position)
{
	const char *at = ring->data + (position & (ring->capacity - 1));
	uint64_t word = *(const volatile uint64_t *)at;
	struct ring_head head;

	memcpy(&head, &word, sizeof(head));
	return head;
}

static __attribute__((noinline, cold)) int refuse(const struct hm_ring *ring, uint64_t position,
						  struct ring_head head)
{
	return err_set(-EBADMSG,
		       "there is no record at %" PRIu64
		       ": its head says %u bytes, mark 0x%x, and "
		       "%" PRIu64 " bytes are committed from there on",
		       position, head.length, head.mark, ring->other - position);
}

/* Checks the record at @position, which is committed as far as the writer's position tells. */
static int look_at(struct hm_ring *ring, uint64_t position)
{
	struct ring_head head = head_at(ring, position);
	uint64_t left = ring->capacity - (position & (ring->capacity - 1));
	uint64_t most = min_u64(left, ring->other - position);

	if (unlikely(head.mark != ring_mark(position, false) || !head.length ||
		     head.length > ring_record_max(ring->capacity) ||
		     ring_room(head.length) > most))
		return refuse(ring, position, head);
	ring->skip = position - ring->own;
	ring->length = head.length;
	ring->held = true;
	return 0;
}

static int next(struct hm_ring *ring, uint64_t timeout_ns)
{
	uint64_t left = ring->capacity - (ring->own & (ring->capacity - 1));
	struct ring_head head;
	int r;

	if (ring->held)
		return 0;
	if (ring->other == ring->own) {
		r = ring_wait(ring, ring->own + 8, timeout_ns);
		if (r)
			return r;
	}
	head = head_at(ring, ring->own);
	if (likely(head.mark != ring_mark(ring->own, true)))
		return look_at(ring, ring->own);
	/* A skip comes with its record. */
	if (head.length != left - RING_HEAD || ring->other - ring->own <= left)
		return refuse(ring, ring->own, head);
	return look_at(ring, ring->own + left);
}

static const char *record(const struct hm_ring *ring)
{
	return ring->data + ((ring->own + ring->skip) & (ring->capacity - 1)) + RING_HEAD;
}

/*
 * Releases the record. If its bytes were lost, the position stays, so that it does not count as
 * read.
 */
static int release(struct hm_ring *ring)
{
	int r = ring_check(ring);

	if (unlikely(r))
		return r;
	ring->held = false;
	ring->own += ring->skip + ring_room(ring->length);
	ring_publish(ring);
	return 0;
}

int hm_ring_peek(struct hm_ring *ring, uint64_t timeout_ns, const void **ret_data,
		 uint64_t *ret_length)
{
	int r;

	err_begin();
	r = ring_enter(ring, HM_RING_READER, "hm_ring_peek");
	if (r)
		return r;
	r = ret_data && ret_length ?
		    next(ring, timeout_ns) :
		    err_set(-EINVAL, "hm_ring_peek: ret_data or ret_length is NULL");
	/* Results stay untouched on failure. */
	if (!r)
		r = ring_check(ring);
	if (!r) {
		*ret_data = record(ring);
		*ret_length = ring->length;
	}
	return ring_leave(ring, r);
}

int hm_ring_release(struct hm_ring *ring)
{
	int r;

	err_begin();
	r = ring_enter(ring, HM_RING_READER, "hm_ring_release");
	if (r)
		return r;
	r = ring->held ? release(ring) :
			 err_set(-EINVAL, "hm_ring_release without hm_ring_peek");
	return ring_leave(ring, r);
}

static int read_next(struct hm_ring *ring, void *to, uint64_t room, uint64_t timeout_ns,
		     uint64_t *ret_length)
{
	uint64_t length;
	int r;

	r = next(ring, timeout_ns);
	if (r)
		return r;
	length = ring->length;
	if (length > room)
		return err_set(-EMSGSIZE,
			       "hm_ring_read: the record has %" PRIu64
			       " bytes, and there is room for %" PRIu64,
			       length, room);
	memcpy(to, record(ring), length);
	r = release(ring);
	if (!r)
		*ret_length = length;
	return r;
}

int hm_ring_read(struct hm_ring *ring, void *to, uint64_t room, uint64_t timeout_ns,
		 uint64_t *ret_length)
{
	int r;

	err_begin();
	r = ring_enter(ring, HM_RING_READER, "hm_ring_read");
	if (r)
		return r;
	if (to && ret_length)
		r = read_next(ring, to, room, timeout_ns, ret_length);
	else
		r = err_set(-EINVAL, "hm_ring_read: to or ret_length is NULL");
	return ring_leave(ring, r);
}
