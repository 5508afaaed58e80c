/* SPDX-License-Identifier: MIT */
/*
 * Identity of a buffer's bytes: two buffers of one file, or a buffer and an import of its
 * export, have the same. It is derived from the inodes of the descriptors that a buffer was made
 * of or has given away, when that happens, so that comparing is arithmetic.
 *
 * Not recognised: a memfd and a dma-buf that another process made of it, both imported.
 */
#ifndef HETMAP_IDENTITY_H
#define HETMAP_IDENTITY_H

#include "core/core.h"

/* Finds the identity of @fd's bytes, and takes a reference. -ENOMEM, or the error of fstat(). */
int identity_get(int fd, struct identity **ret_identity);
/* NULL is allowed. */
void identity_put(struct identity *identity);
/*
 * Notes that @fd, with the buffer's bytes, leaves the buffer. The caller holds buffer->lock.
 * Errors as above.
 */
int identity_add_locked(struct hm_buffer *buffer, int fd);

void identity_fork_prepare(void);
void identity_fork_after(void);

static inline bool identity_same(const struct hm_buffer *a, const struct hm_buffer *b)
{
	const struct identity *identity;

	if (likely(a == b))
		return true;
	identity = atomic_load_explicit(&a->identity, memory_order_acquire);
	return identity && identity == atomic_load_explicit(&b->identity, memory_order_acquire);
}

/* Do ranges of two maps, or of one, have bytes in common? Addresses do not matter. */
static inline bool maps_overlap(const struct hm_map *a, uint64_t a_offset, uint64_t a_length,
				const struct hm_map *b, uint64_t b_offset, uint64_t b_length)
{
	return identity_same(a->buffer, b->buffer) &&
	       ranges_overlap(a->buffer->identity_at + a->offset + a_offset, a_length,
			      b->buffer->identity_at + b->offset + b_offset, b_length);
}

#endif
