/* SPDX-License-Identifier: MIT */
/*
 * Which bytes a buffer's are: two buffers of one file, or a buffer and an import of what it
 * has exported, have the same ones. Known by the inodes of the descriptors that a buffer was
 * made of or has given away, and asked for then, so that comparing is arithmetic.
 *
 * Not known: of a memfd and of a dma-buf that another process made of it, both imported.
 */
#ifndef HETMAP_IDENTITY_H
#define HETMAP_IDENTITY_H

#include "core/core.h"

/* Of what @fd has, with a reference. -ENOMEM, or fstat()'s. */
int identity_get(int fd, struct identity **ret_identity);
/* NULL is allowed. */
void identity_put(struct identity *identity);
/* @fd has the buffer's bytes and goes to others. Caller holds buffer->lock. As above. */
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

/* Have ranges of two maps, or of one, bytes in common? Whatever their addresses are. */
static inline bool maps_overlap(const struct hm_map *a, uint64_t a_offset, uint64_t a_length,
				const struct hm_map *b, uint64_t b_offset, uint64_t b_length)
{
	return identity_same(a->buffer, b->buffer) &&
	       ranges_overlap(a->buffer->identity_at + a->offset + a_offset, a_length,
			      b->buffer->identity_at + b->offset + b_offset, b_length);
}

#endif
