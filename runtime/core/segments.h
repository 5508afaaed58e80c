/* SPDX-License-Identifier: MIT */
/*
 * A buffer's segments for readers without its lock, for any time: a thread that waits for a
 * device must not hold up a change of the buffer.
 *
 * A list that was published never changes. A change publishes another; objects that are not in
 * the new list end with the last reader of the older ones.
 *
 * A reader counts itself on the list that it found, and then checks that the list is still
 * current. A change publishes its own list, and then looks for readers counted on the old one.
 * One of them sees the other. A late reader counts itself on an unused list before it finds that
 * out: lists are therefore reused, and never freed while the buffer lives.
 */
#ifndef HETMAP_SEGMENTS_H
#define HETMAP_SEGMENTS_H

#include "core/core.h"

/* Ends lists without readers, and their objects. */
void segments_sweep(struct hm_buffer *buffer);

static inline void segments_put(struct hm_buffer *buffer, struct segment_list *list)
{
	if (atomic_fetch_sub(&list->n_user, 1) == 1 &&
	    unlikely(list != atomic_load(&buffer->segments)))
		segments_sweep(buffer);
}

/* The current segments. Their objects stay until segments_put(). */
static inline struct segment_list *segments_get(struct hm_buffer *buffer)
{
	struct segment_list *list;

	for (;;) {
		list = atomic_load(&buffer->segments);
		atomic_fetch_add(&list->n_user, 1);
		if (likely(list == atomic_load(&buffer->segments)))
			return list;
		segments_put(buffer, list);
	}
}

/*
 * The same in a signal handler, which must not sweep: a list that the handler was the last to
 * use ends with the next sweep, at the latest with the buffer.
 */
static inline struct segment_list *segments_look(struct hm_buffer *buffer)
{
	struct segment_list *list;

	for (;;) {
		list = atomic_load(&buffer->segments);
		atomic_fetch_add(&list->n_user, 1);
		if (likely(list == atomic_load(&buffer->segments)))
			return list;
		atomic_fetch_sub(&list->n_user, 1);
	}
}

static inline void segments_leave(struct segment_list *list)
{
	atomic_fetch_sub(&list->n_user, 1);
}

/* Allocates room for @n segments, for segments_swap() or segments_abandon(). -ENOMEM. */
int segments_create(struct hm_buffer *buffer, uint32_t n, struct segment_list **ret_list);
void segments_abandon(struct hm_buffer *buffer, struct segment_list *list);

/*
 * Sets the first list of a buffer that is not published yet. Takes over the reference to @link.
 */
void segments_begin(struct hm_buffer *buffer, const struct hm_segment *segment,
		    struct device_link *link);

/*
 * The link of the present objects. The caller holds buffer->lock, or has not published the
 * buffer yet.
 */
static inline struct device_link *segments_link(const struct hm_buffer *buffer)
{
	return atomic_load(&((struct hm_buffer *)buffer)->segments)->link;
}

/*
 * Publishes the first @n of @list, with the same link. The first @n_kept objects of the old list
 * are in it; the others end with the old list. The caller holds buffer->lock.
 */
void segments_swap(struct hm_buffer *buffer, struct segment_list *list, uint32_t n,
		   uint32_t n_kept);

/* The same with only new objects, of @link. Takes over the reference to @link. */
void segments_renew(struct hm_buffer *buffer, struct segment_list *list,
		    struct device_link *link);

/* Ends the lists and all objects, at the buffer's end. */
void segments_end(struct hm_buffer *buffer);

#endif
