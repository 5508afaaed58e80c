/* SPDX-License-Identifier: MIT */
/*
 * A ring's file, and what one end of it knows.
 *
 * Page 0 says what it is and never changes; page 1 has both positions; the records follow,
 * @capacity bytes of them; the last page ends with the magic again. Whoever cuts the file off,
 * wherever, takes that away, and growing it again brings zeros: so one look at it, after bytes
 * were read or written, says whether they were a whole file's.
 *
 * A position counts all bytes that records ever took, and its remainder is the place. A record
 * is a head of 8 bytes and its bytes, up to a multiple of 8, in one piece: where too little is
 * left before the end, a skip takes that.
 *
 * What commits a record, and its skip, is the store of the writer's position, the last one
 * that it makes; what releases one is the store of the reader's. Each end has its own
 * position in its own memory and only ever stores it in the file; the other's is checked
 * each time that it is read: not behind what it was, not further than it may be.
 */
#ifndef HETMAP_RING_RING_H
#define HETMAP_RING_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <urcu/list.h>

#include <hetmap/ring.h>

#include "core/core.h"

#define RING_MAGIC "HMRING\r\n"
#define RING_VERSION 2 /* 1 had no last page */
#define RING_ORDER 0x01020304u
#define RING_CONTROL 4096 /* offset of struct ring_control */
#define RING_DATA 8192    /* offset of the first record */
#define RING_LAST 4096    /* bytes behind the records */
#define RING_CAPACITY_MIN 4096ull
#define RING_CAPACITY_MAX GIB(1) /* positions are waited for by their low 32 bits */
#define RING_HEAD 8ull

struct ring_header {
	char magic[8]; /* written last */
	uint32_t version;
	uint32_t order;
	uint64_t capacity;
	uint64_t data; /* RING_DATA */
};

/* On lines of their own: each is written by one end, but for what wakes that one. */
struct ring_control {
	_Alignas(128) _Atomic uint64_t tail; /* the writer's: bytes committed */
	_Atomic uint32_t writers;            /* times that this end was opened */
	_Atomic uint32_t reader_sleeps;      /* on tail; the writer ends it */
	_Alignas(128) _Atomic uint64_t head; /* the reader's: bytes released */
	_Atomic uint32_t readers;
	_Atomic uint32_t writer_sleeps;
	_Atomic uint64_t writer_wants; /* a head: before it there is no need to be woken */
};

_Static_assert(sizeof(struct ring_control) <= RING_DATA - RING_CONTROL, "it has a page");

/* Of a record. @mark says at which position it is, so that what is old is no record. */
struct ring_head {
	uint32_t length; /* without the head */
	uint32_t mark;
};

struct hm_ring {
	struct hm_object object;
	struct cds_list_head link; /* of all ends of the process, for fork(2) */
	int lock_fd;               /* holds the end's lock; -1: of the parent's */
	uint32_t end;
	struct hm_map *map;
	struct ring_control *control;
	char *data;
	uint64_t capacity;
	const _Atomic uint64_t *last; /* the file's last word: RING_MAGIC, or it was cut off */

	_Atomic bool busy; /* a thread is inside of a call; protects the below */
	uint64_t own;      /* position of this end */
	uint64_t other;    /* of the other, when it was read last */
	uint64_t skip;     /* writer: bytes before the reservation; reader: before the record */
	uint64_t length;   /* of the reservation, or of the record that was peeked at */
	bool held;         /* there is such a one */
	uint32_t opens;    /* of the other end, when it was last known to be away */
	bool peer_seen;    /* it was there since */
};

/* Bytes that a record takes. */
static inline uint64_t ring_room(uint64_t length)
{
	return RING_HEAD + round_up(length, 8);
}

static inline uint64_t ring_record_max(uint64_t capacity)
{
	return capacity / 2 - RING_HEAD;
}

/* Bytes of its file. */
static inline uint64_t ring_size(uint64_t capacity)
{
	return RING_DATA + capacity + RING_LAST;
}

static inline uint32_t ring_mark(uint64_t position, bool skip)
{
	return (uint32_t)(position >> 3) << 1 | skip;
}

/* ---- ring_create.c ---- */

/* The header of a file of @size bytes. -EBADMSG with a text. */
int ring_check_header(const struct ring_header *header, uint64_t size);

/* ---- ring_open.c ---- */

/* @ring has its end: the file's bytes are at @base. -EBADMSG: its positions are wrong. */
int ring_attach(struct hm_ring *ring, void *base, uint64_t capacity);
/* Has a process the other end? Costs a system call. */
bool ring_peer_is_there(const struct hm_ring *ring);
/* 0, and ring_leave() has to follow; or what the call fails with. @end: RING_ANY, too. */
#define RING_ANY UINT32_MAX
int ring_enter(struct hm_ring *ring, uint32_t end, const char *what);
/* What the call ends with: @r, or what ring_check() says. */
int ring_leave(struct hm_ring *ring, int r);
/*
 * -EIO, with a text: what was read or written before, of positions and of the record that is
 * held, is not, or need not be, the file's. It was cut off, or a handler has put others in the
 * bytes' place. Of what a file system does to the bytes of a page before it says that the file
 * is shorter, a look in that moment knows nothing.
 */
int ring_check(const struct hm_ring *ring);
/* Opens the file of @fd anew, to read and write. A descriptor; -errno with a text. */
int ring_open_file(int fd);

void ring_fork_prepare(void);
void ring_fork_parent(void);
void ring_fork_child(void);

/* ---- ring_wait.c ---- */

/* Reads the other end's position into ring->other. -EBADMSG: it can't be. */
int ring_look(struct hm_ring *ring);
/* Until the other end's position is at least @wanted. -ETIME, -EPIPE, -EBADMSG. */
int ring_wait(struct hm_ring *ring, uint64_t wanted, uint64_t timeout_ns);
/* This end's position is ring->own from here on; the other end is woken. */
void ring_publish(struct hm_ring *ring);

#endif
