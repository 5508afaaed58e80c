/* SPDX-License-Identifier: MIT */
/*
 * Buffers: what map.c and the resize steps need of them.
 *
 * The core keeps the wanted place of a buffer (hm_buffer_desc.place) for the objects that replace
 * its first one. The backend makes it a driver's place, at one point, and the recipe tells the
 * place of the object.
 */
#ifndef HETMAP_BUFFER_INTERNAL_H
#define HETMAP_BUFFER_INTERNAL_H

#include "core/core.h"

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

/* Copies a description, checked; NULL: all defaults. */
int buffer_read_desc(const struct hm_buffer_desc *from, struct hm_buffer_desc *desc);
/* Has the device @cap, and what the flags ask for? -EOPNOTSUPP; @what: who asks. */
int buffer_check_caps(struct hm_device *device, const struct hm_buffer_desc *desc, uint64_t cap,
		      const char *what);
/* Of what makes a buffer: -EINVAL, -EOWNERDEAD. */
int buffer_check_args(struct hm_device *device, const void *ret_buffer, const char *what);
/*
 * A buffer around @fd, which is closed should that fail. @file: by from_file. @map_flags:
 * what dmabuf_map_flags() would say, should it be a dma-buf.
 */
int buffer_adopt_fd(struct hm_device *device, int fd, const struct hm_buffer_desc *desc,
		    bool file, uint32_t map_flags, struct hm_buffer **ret_buffer);

/*
 * What it is made of has been given to others, or is theirs: where it is a dma-buf it stays
 * the first object, and a bracket need not keep it. Caller holds buffer->lock, or nobody
 * knows the buffer.
 */
void buffer_settle_locked(struct hm_buffer *buffer);

struct resize_set;

/* HM_EXPORT_*; -EINVAL. */
int buffer_check_export(const char *what, uint32_t flags);
/* Caller holds buffer->lock, and drops @set after it. */
int buffer_export_locked(struct hm_buffer *buffer, uint32_t flags, struct resize_set *set,
			 int *ret_fd);

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

/*
 * hm_buffer_unref of a map that is gone: what it waited for is over for its buffer, too,
 * which is found by maps only.
 */
void buffer_unref_retired(struct hm_buffer *buffer);

/* The index of the segment that holds @offset. Caller holds buffer->lock. */
uint32_t buffer_segment_at(const struct hm_buffer *buffer, uint64_t offset);

/*
 * A further object of the buffer's kind, by @link: @size committed of @capacity bytes.
 * The caller owns ret_segment->object and fd until it is put into the buffer;
 * *ret_place is the enum hm_place it is in. -EOPNOTSUPP: @link is not the buffer's, and
 * its objects are of another kind.
 */
int buffer_create_object(struct hm_buffer *buffer, const struct device_link *link,
			 uint64_t size, uint64_t capacity, struct hm_segment *ret_segment,
			 uint32_t *ret_place);

/* Ends the objects of @n segments, of the link that the buffer has. */
void buffer_destroy_objects(struct hm_buffer *buffer, struct hm_segment *segments, uint32_t n);

#endif
