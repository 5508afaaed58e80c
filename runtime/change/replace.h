/* SPDX-License-Identifier: MIT */
/* New objects behind a buffer: replace, append. Caller holds buffer->lock. */
#ifndef HETMAP_REPLACE_H
#define HETMAP_REPLACE_H

#include "change/resize.h"

/* -EBUSY: somebody knows the old object; -EOPNOTSUPP: never on this buffer. */
int replace_check(struct hm_buffer *buffer);

/*
 * One new object of @new_size with the old bytes copied: at the same address up
 * to max_size, elsewhere past it. Also makes several objects one (same size).
 * ret_set is dropped by the caller after the lock.
 */
int replace_locked(struct hm_buffer *buffer, uint64_t new_size, struct resize_set *ret_set);

/* ---- replace_copy.c ---- */

struct replace_copy {
	struct hm_buffer *buffer;       /* with its old segments */
	const struct hm_segment *fresh; /* the one new object */
	char *old;                      /* all of the buffer, mapped to be read */
	char *address;                  /* the new object, mapped to be written */
};

/* Its first @kept bytes. -ENODEV: the device is gone, and the bytes with it. */
int replace_copy(const struct replace_copy *copy, uint64_t kept);

/* ---- replace.c ---- */

/* Grows by a further object behind the old ones; nothing is copied. */
int replace_append_locked(struct hm_buffer *buffer, uint64_t new_size,
			  struct resize_set *ret_set);

#endif
