/* SPDX-License-Identifier: MIT */
/*
 * Many reads in flight, by io_uring. Each goes to a place of the caller's or, where O_DIRECT
 * wants other alignments than the caller has, to a bounce buffer, from which what was wanted
 * is copied. In a build without liburing there is none.
 */
#ifndef HETMAP_READER_RING_H
#define HETMAP_READER_RING_H

#include <stdbool.h>
#include <stdint.h>

struct ring;

/* Reads that belong together. Begun as all zero. */
struct ring_group {
	uint32_t pending;
	int error;      /* of the first one that failed: -ENODATA, the file ended before */
	uint64_t where; /* in the file, it failed */
};

struct ring_read {
	int fd;
	char *to;
	uint64_t offset;
	uint32_t length;
	uint32_t wanted; /* of these: behind the file's end there may be less */
	char *copy_to;   /* NULL: it is where it is to be */
	uint32_t unit;   /* reads begin at multiples of it: a shorter one was the file's end */
	uint32_t skip;   /* so many bytes of @to are not copied there, of those wanted */
	struct ring_group *group;
};

/* Can it be had in this process? Asked once, as long as it can. */
bool ring_is_there(void);

/* @depth reads at most are in flight. -ENOMEM, -EOPNOTSUPP and io_uring_setup(2)'s. */
int ring_open(uint32_t depth, struct ring **ret_ring);
/* Waits for what is in flight. NULL is allowed. */
void ring_close(struct ring *ring);

/*
 * The number of the next read, from 0, before depth: whose bounce buffer is free. Waits for
 * one to end, where none is. What fails has its own text.
 */
int ring_slot(struct ring *ring, uint32_t *ret_slot);
/* Puts @read into the slot that ring_slot() has just given. Begins with the next call. */
void ring_read(struct ring *ring, uint32_t slot, const struct ring_read *read);

/* Begins what was put in, waits for nothing. */
int ring_submit(struct ring *ring);
/* Until none of @group is in flight; its error is not this function's. */
int ring_wait(struct ring *ring, const struct ring_group *group);
/*
 * Until nothing is in flight, whatever happens: after an error of the above, before memory
 * that is read to is another's. The ring can only be closed then.
 */
void ring_drain(struct ring *ring);

#endif
