/* SPDX-License-Identifier: MIT */
/*
 * Many reads in flight, by io_uring. Each goes to a place of the caller's or, where O_DIRECT
 * requires another alignment, to a bounce buffer, and from there to the caller. A build without
 * liburing has no io_uring.
 */
#ifndef HETMAP_READER_URING_H
#define HETMAP_READER_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uring;

/* Reads that belong together. Must begin zeroed. */
struct uring_group {
	uint32_t pending;
	int error;      /* of the first failure: -ENODATA if the file ended before */
	uint64_t where; /* offset of the failure in the file */
};

struct uring_read {
	int fd;
	char *to;
	uint64_t offset;
	uint32_t length;
	uint32_t wanted; /* of these: the file may end before the rest */
	char *copy_to;   /* NULL: @to is the destination */
	uint32_t unit;   /* reads begin at multiples of it: a shorter one met the file's end */
	uint32_t skip;   /* wanted bytes at the beginning of @to that are not copied */
	bool own;        /* @to is memory of the reader's, which can be written to */
	struct uring_group *group;
};

/*
 * The reason for a missing io_uring: "EMFILE (Too many open files): ...", with the limit and the
 * remedy. Returns @text, of @size bytes.
 */
#define URING_TEXT_MAX 192
const char *uring_explain(int r, char *text, size_t size);

/* Makes a ring for @depth reads in flight. -ENOMEM, -ENOSYS, errors of io_uring_setup(2). */
int uring_open(uint32_t depth, struct uring **ret_ring);
/* Waits for reads in flight. NULL is allowed. */
void uring_close(struct uring *ring);

/*
 * The number of a free slot, from 0, below depth: its bounce buffer is free. Waits for a read to
 * end if no slot is free. Errors have a text.
 */
int uring_slot(struct uring *ring, uint32_t *ret_slot);
/* Puts @read into the slot that uring_slot() has just returned. The next call submits it. */
void uring_read(struct uring *ring, uint32_t slot, const struct uring_read *read);

/* Submits queued reads, without waiting. */
int uring_submit(struct uring *ring);
/* Waits until no read of @group is in flight; does not return the group's error. */
int uring_wait(struct uring *ring, const struct uring_group *group);
/*
 * Waits until nothing is in flight, whatever happens: must be called after an error of the
 * functions above, before memory of the reads is given to another user. The ring can only be
 * closed then.
 */
void uring_drain(struct uring *ring);

#endif
