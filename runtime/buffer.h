/* SPDX-License-Identifier: MIT */
/* Buffers: what map.c and the resize steps need of them. */
#ifndef HETMAP_BUFFER_INTERNAL_H
#define HETMAP_BUFFER_INTERNAL_H

#include "core.h"

/* Longest size: rounding up by any page size must not overflow. */
#define BUFFER_SIZE_MAX (1ull << 62)

/* Committed bytes at @size: whole pages. */
static inline uint64_t buffer_pages(const struct hm_buffer *buffer, uint64_t size)
{
	return round_up(size, buffer->page_size);
}

/* Bytes that its objects can hold; the rest up to max_size is for further ones. */
static inline uint64_t buffer_capacity(const struct hm_buffer *buffer)
{
	const struct hm_segment *last = &buffer->segment[buffer->n_segment - 1];

	return last->offset + last->length;
}

static inline bool buffer_is_private(const struct hm_buffer *buffer)
{
	return buffer->flags & HM_BUFFER_PRIVATE;
}

/* -EDEADLK in a view's callback, whose thread may hold it already. */
int buffer_lock(struct hm_buffer *buffer);
/* Also ends the maps that lost their last reference meanwhile. */
void buffer_unlock(struct hm_buffer *buffer);

/*
 * The last reference to @map is gone: it leaves the buffer and is released, here
 * or, where the buffer's lock is taken, by whoever holds it. Never waits: who
 * completes work may hold the lock of a change, for which the holder waits.
 */
void buffer_end_map(struct hm_map *map);

/* The index of the segment that holds @offset. Caller holds buffer->lock. */
uint32_t buffer_segment_at(const struct hm_buffer *buffer, uint64_t offset);

/*
 * A further object of the buffer's kind: @size committed of @capacity bytes.
 * The caller owns ret_segment->object and fd until it is put into the buffer.
 */
int buffer_create_object(struct hm_buffer *buffer, uint64_t size, uint64_t capacity,
			 struct hm_segment *ret_segment);

/*
 * The segments for who can't have buffer->lock, to be freed: their objects stay as
 * long as something keeps the bytes that they hold. -ENOMEM.
 */
int buffer_copy_segments(struct hm_buffer *buffer, struct hm_segment **ret_segments,
			 uint32_t *ret_n);
/* Takes @segments over. Returns the old ones, to be freed. Caller holds buffer->lock. */
struct hm_segment *buffer_swap_segments(struct hm_buffer *buffer, struct hm_segment *segments,
					uint32_t n);

/* Ends the objects of @n segments. */
void buffer_destroy_objects(struct hm_buffer *buffer, struct hm_segment *segments, uint32_t n);

#endif
