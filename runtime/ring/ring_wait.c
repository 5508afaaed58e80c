// SPDX-License-Identifier: MIT
/*
 * Ring: reads and awaits the other end's position, and publishes this end's.
 *
 * A sleeper sets its flag before its last look; a publisher looks for sleepers after it has
 * published. All four accesses are in one order, so that one end sees the other. The kernel
 * compares the low half of a position, which never looks like an old one: a ring is smaller than
 * 2^32 bytes.
 */
#include "ring/ring.h"

#include <endian.h>
#include <inttypes.h>
#include <unistd.h>

#include "arch/cpu.h"
#include "base/sys.h"

/* Looks before a sleep: an update under way takes less time than a wake-up. */
#define SPINS 500
/* Lengths of a sleep, in ns; after each the other end's presence is checked. */
#define SLICE_FIRST 1000000ull
#define SLICE_MAX 100000000ull

static _Atomic uint64_t *others_position(const struct hm_ring *ring)
{
	return ring->end == HM_RING_WRITER ? &ring->control->head : &ring->control->tail;
}

static void *low_half(_Atomic uint64_t *position)
{
	return (char *)position + (BYTE_ORDER == BIG_ENDIAN ? 4 : 0);
}

/* Cold half of ring_look(). */
static __attribute__((noinline, cold)) int refuse(const struct hm_ring *ring, uint64_t position)
{
	if (ring->end == HM_RING_WRITER)
		return err_set(-EBADMSG,
			       "the ring's reader is at %" PRIu64 ", and must be from "
			       "%" PRIu64 ", its last position, to %" PRIu64 ", the bytes "
			       "written",
			       position, ring->other, ring->own);
	return err_set(-EBADMSG,
		       "the ring's writer is at %" PRIu64 ", and must be from %" PRIu64
		       ", its last position, to %" PRIu64 ", the end of the room",
		       position, ring->other, ring->own + ring->capacity);
}

int ring_look(struct hm_ring *ring)
{
	uint64_t position = atomic_load_explicit(others_position(ring), memory_order_acquire);
	uint64_t most = ring->end == HM_RING_WRITER ? ring->own : ring->own + ring->capacity;

	if (unlikely(position < ring->other || position > most || position % 8))
		return refuse(ring, position);
	ring->other = position;
	return 0;
}

/* Has the other end been there, and gone? */
static bool peer_is_gone(struct hm_ring *ring)
{
	const struct ring_control *control = ring->control;
	uint32_t opens;

	if (ring_peer_is_there(ring)) {
		ring->peer_seen = true;
		return false;
	}
	opens = atomic_load(ring->end == HM_RING_WRITER ? &control->readers :
							  &control->writers);
	if (!ring->peer_seen && opens == ring->opens)
		return false;
	/* Reported once: from here on the next opener is waited for. */
	ring->peer_seen = false;
	ring->opens = opens;
	return true;
}

static int spin(struct hm_ring *ring, uint64_t wanted)
{
	static _Atomic long processors;
	uint32_t i;
	int r = 0;

	if (!atomic_load_explicit(&processors, memory_order_relaxed))
		atomic_store_explicit(&processors, sysconf(_SC_NPROCESSORS_ONLN),
				      memory_order_relaxed);
	/* On one processor the other end runs only while this one sleeps. */
	if (processors == 1)
		return 0;
	for (i = 0; !r && ring->other < wanted && i < SPINS; i++) {
		cpu_relax();
		r = ring_look(ring);
	}
	return r;
}

static _Atomic uint32_t *sleeps_of(const struct hm_ring *ring)
{
	return ring->end == HM_RING_WRITER ? &ring->control->writer_sleeps :
					     &ring->control->reader_sleeps;
}

/* Sleeps until the other end wakes it, or the time is up. */
static int sleep_once(struct hm_ring *ring, uint64_t wanted, uint64_t time_ns)
{
	_Atomic uint64_t *position = others_position(ring);
	int r;

	if (ring->end == HM_RING_WRITER) {
		/* Half of the ring is worth a wake-up; smaller needs are seen after a slice. */
		if (ring->own > ring->capacity / 2)
			wanted = max_u64(wanted, ring->own - ring->capacity / 2);
		atomic_store_explicit(&ring->control->writer_wants, wanted,
				      memory_order_relaxed);
	}
	atomic_store(sleeps_of(ring), 1);
	if (atomic_load(position) != ring->other)
		return 0;
	r = sys_futex_wait(low_half(position), (uint32_t)ring->other, time_ns);
	if (!r || r == -EAGAIN || r == -EINTR || r == -ETIMEDOUT)
		return 0;
	return err_set(r, "waiting for the ring's other end: %s", err_name(r));
}

static int refuse_wait(const struct hm_ring *ring, int r, uint64_t timeout_ns)
{
	const char *what = ring->end == HM_RING_WRITER ? "the ring has no room" :
							 "the ring has no record";

	if (r == -EPIPE)
		return err_set(r, "%s, and its %s, which was there, is gone", what,
			       ring->end == HM_RING_WRITER ? "reader" : "writer");
	return err_set(r, "%s after %" PRIu64 " ns", what, timeout_ns);
}

int ring_wait(struct hm_ring *ring, uint64_t wanted, uint64_t timeout_ns)
{
	uint64_t now, end, slice = SLICE_FIRST;
	bool gone;
	int r;

	r = ring_look(ring);
	if (!r && ring->other < wanted && timeout_ns)
		r = spin(ring, wanted);
	if (r || ring->other >= wanted)
		return r;
	if (!timeout_ns)
		return refuse_wait(ring, -ETIME, 0);
	now = time_now_ns();
	end = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
	for (;; slice = min_u64(2 * slice, SLICE_MAX)) {
		/* In this order: bytes written before the other end went are still read. */
		gone = peer_is_gone(ring);
		r = ring_check(ring);
		if (!r)
			r = ring_look(ring);
		if (r || ring->other >= wanted)
			return r;
		if (gone) {
			r = -EPIPE;
			break;
		}
		now = time_now_ns();
		if (now >= end) {
			r = -ETIME;
			break;
		}
		r = sleep_once(ring, wanted, min_u64(slice, end - now));
		if (r)
			return r;
	}
	atomic_store(sleeps_of(ring), 0);
	return refuse_wait(ring, r, timeout_ns);
}

void ring_publish(struct hm_ring *ring)
{
	struct ring_control *control = ring->control;
	_Atomic uint32_t *sleeps;

	if (ring->end == HM_RING_WRITER) {
		atomic_store(&control->tail, ring->own);
		sleeps = &control->reader_sleeps;
		if (likely(!atomic_load(sleeps)))
			return;
	} else {
		atomic_store(&control->head, ring->own);
		sleeps = &control->writer_sleeps;
		if (likely(!atomic_load(sleeps)) ||
		    ring->own <
			    atomic_load_explicit(&control->writer_wants, memory_order_relaxed))
			return;
	}
	atomic_store(sleeps, 0);
	sys_futex_wake(low_half(ring->end == HM_RING_WRITER ? &control->tail : &control->head));
}
