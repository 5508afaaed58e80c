/* SPDX-License-Identifier: MIT */
/*
 * Buffers: the functions that maps and the steps of a resize need.
 *
 * The core keeps the wanted place of a buffer (hm_buffer_desc.place) for the objects that
 * replace its first one. The backend makes it a driver's place, at one point, and the recipe
 * tells the place of the object.
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

/* Bytes that the present objects can hold; the rest up to max_size needs further ones. */
static inline uint64_t buffer_capacity(const struct hm_buffer *buffer)
{
	const struct hm_segment *last = &buffer->segment[buffer->n_segment - 1];

	return last->offset + last->length;
}

/* Kind of the buffer's memory, as programs are told. The library asks buffer_is() instead. */
enum hm_backing buffer_backing(const struct hm_buffer *buffer);

static inline bool buffer_is_private(const struct hm_buffer *buffer)
{
	return buffer->flags & HM_BUFFER_PRIVATE;
}

/*
 * Checks that the device has @cap, and the capabilities for the flags; -EOPNOTSUPP. @what:
 * caller.
 */
int buffer_check_caps(struct hm_device *device, const struct hm_buffer_desc *desc, uint64_t cap,
		      const char *what);
/* Makes a new object of @desc, one that is checked, and the buffer around it. */
int buffer_make(struct hm_device *device, const struct hm_buffer_desc *desc,
		struct hm_buffer **ret_buffer);
/*
 * Makes a buffer around @fd, which is closed on failure. @file: by from_file. @map_flags: the
 * result of dmabuf_map_flags(), of a receiver that checks the access itself; NULL: looked for.
 */
int buffer_adopt_fd(struct hm_device *device, int fd, const struct hm_buffer_desc *desc,
		    bool file, const uint32_t *map_flags, struct hm_buffer **ret_buffer);

/*
 * Notes that the buffer's memory has been given to another holder, or came from one. If the first
 * object is a dma-buf, it stays the first object from here on, and brackets use its descriptor
 * without segments_get(). The caller holds buffer->lock, or has not published the buffer yet.
 */
void buffer_settle_locked(struct hm_buffer *buffer);

struct resize_set;

/* Checks HM_EXPORT_* flags; -EINVAL. */
int buffer_check_export(const char *what, uint32_t flags);
/* The caller holds buffer->lock, and drops @set after unlocking. */
int buffer_export_locked(struct hm_buffer *buffer, uint32_t flags, struct resize_set *set,
			 int *ret_fd);

/* Returns -EDEADLK in a view's callback: its thread may hold the lock already. */
int buffer_lock(struct hm_buffer *buffer);
/* Also ends maps that lost their last reference in the meantime. */
void buffer_unlock(struct hm_buffer *buffer);

/*
 * Called for the last reference to @map: takes the map off the buffer and releases it, here or,
 * where the buffer's lock is taken, in the thread that holds it. Never waits: a thread that
 * completes work may hold the lock of a change, for which the lock's holder waits.
 */
void buffer_end_map(struct hm_map *map);

/*
 * hm_buffer_unref for a retired map: the map's grace period has covered its buffer, too, since a
 * handler finds a buffer by its maps only.
 */
void buffer_unref_retired(struct hm_buffer *buffer);

/* Index of the segment that holds @offset. The caller holds buffer->lock. */
uint32_t buffer_segment_at(const struct hm_buffer *buffer, uint64_t offset);

/*
 * Makes a further object of the buffer's kind on @link: @size committed of @capacity bytes. The
 * caller owns ret_segment->object and fd until it puts them into the buffer; *ret_place is the
 * object's enum hm_place. -EOPNOTSUPP: @link is not the buffer's, and its objects are of another
 * kind.
 */
int buffer_create_object(struct hm_buffer *buffer, const struct device_link *link,
			 uint64_t size, uint64_t capacity, struct hm_segment *ret_segment,
			 uint32_t *ret_place);

/* Ends the objects of @n segments, which belong to the buffer's link. */
void buffer_destroy_objects(struct hm_buffer *buffer, struct hm_segment *segments, uint32_t n);

/*
 * Seals the buffer's memory. *@ret_mapped: it has a mapping that may become writable. The caller
 * holds buffer->lock, and drops @set after unlocking.
 */
int buffer_seal_locked(struct hm_buffer *buffer, struct resize_set *set, uint32_t flags,
		       bool *ret_mapped);

#endif
