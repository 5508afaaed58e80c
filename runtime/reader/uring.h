/* SPDX-License-Identifier: MIT */
/*
 * Many reads in flight, by io_uring. Each goes to a place of the caller's or, where O_DIRECT
 * wants other alignments than the caller has, to a bounce buffer, from which what was wanted
 * is copied. In a build without liburing there is none.
 */
#ifndef HETMAP_READER_URING_H
#define HETMAP_READER_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uring;

/* Reads that belong together. Begun as all zero. */
struct uring_group {
	uint32_t pending;
	int error;      /* of the first one that failed: -ENODATA, the file ended before */
	uint64_t where; /* in the file, it failed */
};

struct uring_read {
	int fd;
	char *to;
	uint64_t offset;
	uint32_t length;
	uint32_t wanted; /* of these: behind the file's end there may be less */
	char *copy_to;   /* NULL: it is where it is to be */
	uint32_t unit;   /* reads begin at multiples of it: a shorter one was the file's end */
	uint32_t skip;   /* so many bytes of @to are not copied there, of those wanted */
	bool own;        /* @to is memory of the reader's, which can be written to */
	struct uring_group *group;
};

/*
 * Why there is none: "EMFILE (Too many open files): ...", with the limit and the remedy.
 * Gives @text, of @size bytes.
 */
#define URING_TEXT_MAX 192
const char *uring_explain(int r, char *text, size_t size);

/* @depth reads at most are in flight. -ENOMEM, -ENOSYS and io_uring_setup(2)'s. */
int uring_open(uint32_t depth, struct uring **ret_ring);
/* Waits for what is in flight. NULL is allowed. */
void uring_close(struct uring *ring);

/*
 * The number of the next read, from 0, before depth: whose bounce buffer is free. Waits for
 * one to end, where none is. What fails has its own text.
 */
int uring_slot(struct uring *ring, uint32_t *ret_slot);
/* Puts @read into the slot that uring_slot() has just given. Begins with the next call. */
void uring_read(struct uring *ring, uint32_t slot, const struct uring_read *read);

/* Begins what was put in, waits for nothing. */
int uring_submit(struct uring *ring);
/* Until none of @group is in flight; its error is not this function's. */
int uring_wait(struct uring *ring, const struct uring_group *group);
/*
 * Until nothing is in flight, whatever happens: after an error of the above, before memory
 * that is read to is another's. The ring can only be closed then.
 */
void uring_drain(struct uring *ring);

#endif
