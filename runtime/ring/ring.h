/* SPDX-License-Identifier: MIT */
/*
 * A ring's file, and the state of one end.
 *
 * Page 0 describes the ring and never changes; page 1 has both positions; the records follow,
 * @capacity bytes of them; the last page ends with the magic again. A truncation anywhere takes
 * that magic away, and growing the file again brings zeros: a look at it, after bytes were read
 * or written, tells whether they belonged to a whole file.
 *
 * A position counts all bytes that records ever took, and its remainder is the place. A record
 * is a head of 8 bytes and its bytes, up to a multiple of 8, in one piece: where too little is
 * left before the end, a skip takes that.
 *
 * The writer commits a record, and its skip, by storing its position, as the last of its stores;
 * the reader releases one by storing its own. Each end keeps its position in its own memory and
 * only ever stores it in the file. It checks the other end's at each read: not behind the last
 * one, not further than possible.
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

/*
 * Each end's words are on lines of their own, and only that end writes them, except for those
 * that wake it.
 */
struct ring_control {
	_Alignas(128) _Atomic uint64_t tail; /* the writer's: bytes committed */
	_Atomic uint32_t writers;            /* times that a writer was opened */
	_Atomic uint32_t reader_sleeps;      /* on tail; the writer clears it */
	_Alignas(128) _Atomic uint64_t head; /* the reader's: bytes released */
	_Atomic uint32_t readers;
	_Atomic uint32_t writer_sleeps;
	_Atomic uint64_t writer_wants; /* a head: wake the writer only from there on */
};

_Static_assert(sizeof(struct ring_control) <= RING_DATA - RING_CONTROL, "it has a page");

/* Head of a record. @mark is derived from its position, so that old bytes are no record. */
struct ring_head {
	uint32_t length; /* without the head */
	uint32_t mark;
};

struct hm_ring {
	struct hm_object object;
	struct cds_list_head link; /* in the list of all ends of the process, for fork(2) */
	int lock_fd;               /* holds the end's lock; -1: the parent's object */
	uint32_t end;
	struct hm_map *map;
	struct ring_control *control;
	char *data;
	uint64_t capacity;
	const _Atomic uint64_t *last; /* the file's last word: RING_MAGIC, or it was cut off */

	_Atomic bool busy; /* a thread is in a call; protects the fields below */
	uint64_t own;      /* position of this end */
	uint64_t other;    /* of the other end, as last read */
	uint64_t skip;     /* writer: bytes before the reservation; reader: before the record */
	uint64_t length;   /* of the reservation, or of the peeked record */
	bool held;         /* a reservation or a peeked record exists */
	uint32_t opens;    /* of the other end, when it was last known to be absent */
	bool peer_seen;    /* the other end has been there since */
};

/* Bytes that a record takes in the ring. */
static inline uint64_t ring_room(uint64_t length)
{
	return RING_HEAD + round_up(length, 8);
}

static inline uint64_t ring_record_max(uint64_t capacity)
{
	return capacity / 2 - RING_HEAD;
}

/* Size of the file. */
static inline uint64_t ring_size(uint64_t capacity)
{
	return RING_DATA + capacity + RING_LAST;
}

static inline uint32_t ring_mark(uint64_t position, bool skip)
{
	return (uint32_t)(position >> 3) << 1 | skip;
}

/* ---- ring_create.c ---- */

/* Checks the header of a file of @size bytes. -EBADMSG with a text. */
int ring_check_header(const struct ring_header *header, uint64_t size);

/* ---- ring_open.c ---- */

/*
 * Attaches @ring, with its end set, to the file's bytes at @base. -EBADMSG: the file's positions
 * are wrong.
 */
int ring_attach(struct hm_ring *ring, void *base, uint64_t capacity);
/* Does a process have the other end? Costs a system call. */
bool ring_peer_is_there(const struct hm_ring *ring);
/* Begins a call: 0, and ring_leave() must follow; or the call's error. @end: or RING_ANY. */
#define RING_ANY UINT32_MAX
int ring_enter(struct hm_ring *ring, uint32_t end, const char *what);
/* Ends a call. Returns @r, or the error of ring_check(). */
int ring_leave(struct hm_ring *ring, int r);
/*
 * -EIO, with a text: bytes read or written before, positions and the held record, are not, or
 * may not be, the file's. The file was cut off, or a handler has replaced the bytes. While a
 * file system changes a page's bytes before it publishes the shorter length, a look can't tell.
 */
int ring_check(const struct hm_ring *ring);
/*
 * Opens the file of @fd anew, for reading and writing. Returns a descriptor, or -errno with a
 * text.
 */
int ring_open_file(int fd);

void ring_fork_prepare(void);
void ring_fork_parent(void);
void ring_fork_child(void);

/* ---- ring_wait.c ---- */

/* Reads the other end's position into ring->other. -EBADMSG: impossible position. */
int ring_look(struct hm_ring *ring);
/* Waits until the other end's position is at least @wanted. -ETIME, -EPIPE, -EBADMSG. */
int ring_wait(struct hm_ring *ring, uint64_t wanted, uint64_t timeout_ns);
/* Publishes ring->own as this end's position, and wakes the other end. */
void ring_publish(struct hm_ring *ring);

#endif
