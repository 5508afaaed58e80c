/* SPDX-License-Identifier: MIT */
/* New objects behind a buffer: replace, append. Caller holds buffer->lock. */
#ifndef HETMAP_REPLACE_H
#define HETMAP_REPLACE_H

#include "change/resize.h"

/*
 * -EBUSY: another user knows the old object.
 * -EOPNOTSUPP: never on this buffer.
 */
int replace_check(struct hm_buffer *buffer);

/*
 * Makes one new object of @new_size with the old bytes copied: at the same address up to
 * max_size, elsewhere past it. Also turns several objects into one (same size). The caller
 * drops ret_set after the lock.
 */
int replace_locked(struct hm_buffer *buffer, uint64_t new_size, struct resize_set *ret_set);

/* ---- replace_copy.c ---- */

struct replace_copy {
	struct hm_buffer *buffer;       /* with its old segments */
	const struct hm_segment *fresh; /* the one new object */
	char *old;                      /* all of the buffer, mapped for reading */
	char *address;                  /* the new object, mapped for writing */
};

/* Copies the first @kept bytes. -ENODEV: the device is gone, and the bytes with it. */
int replace_copy(const struct replace_copy *copy, uint64_t kept);

/* ---- replace.c ---- */

/* Grows by a further object behind the old ones; nothing is copied. */
int replace_append_locked(struct hm_buffer *buffer, uint64_t new_size,
			  struct resize_set *ret_set);

#endif
