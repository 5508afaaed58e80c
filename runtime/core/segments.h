/* SPDX-License-Identifier: MIT */
/*
 * A buffer's segments for those who don't have its lock, for as long as they like:
 * who waits for a device may hold up nobody who changes the buffer.
 *
 * A list that was published never changes. A change publishes another; objects that are
 * not in that one end as soon as nobody has an older one.
 *
 * A reader counts himself on the list that he has found, and then looks whether it is
 * still the current one; a change publishes its own, and then looks whether anybody is
 * counted on the old one. One of them sees the other. A reader who comes late counts
 * himself on a list that is none any more before he finds that out: so lists are used
 * again, and never freed while the buffer lives.
 */
#ifndef HETMAP_SEGMENTS_H
#define HETMAP_SEGMENTS_H

#include "core/core.h"

/* Ends what nobody has. */
void segments_sweep(struct hm_buffer *buffer);

static inline void segments_put(struct hm_buffer *buffer, struct segment_list *list)
{
	if (atomic_fetch_sub(&list->n_user, 1) == 1 &&
	    unlikely(list != atomic_load(&buffer->segments)))
		segments_sweep(buffer);
}

/* The segments as they are now, whose objects stay until segments_put(). */
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
 * The same in a signal handler, which must not sweep: what nobody has any more when it leaves ends
 * with the next sweep, at the latest the buffer's.
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

/* Room for @n segments, for segments_swap() or segments_abandon(). -ENOMEM. */
int segments_create(struct hm_buffer *buffer, uint32_t n, struct segment_list **ret_list);
void segments_abandon(struct hm_buffer *buffer, struct segment_list *list);

/* Of a buffer that nobody knows yet; @link is held, and the list's from here on. */
void segments_begin(struct hm_buffer *buffer, const struct hm_segment *segment,
		    struct device_link *link);

/* Of whom its objects are now. Caller holds buffer->lock, or nobody knows the buffer. */
static inline struct device_link *segments_link(const struct hm_buffer *buffer)
{
	return atomic_load(&((struct hm_buffer *)buffer)->segments)->link;
}

/*
 * Publishes the first @n of @list, of the same link. The first @n_kept objects of the
 * old one are in it; the others are the old list's to end. Caller holds buffer->lock.
 */
void segments_swap(struct hm_buffer *buffer, struct segment_list *list, uint32_t n,
		   uint32_t n_kept);

/* The same with all objects new ones of @link, which is held, and the list's then. */
void segments_renew(struct hm_buffer *buffer, struct segment_list *list,
		    struct device_link *link);

/* The buffer's end, and that of its objects. */
void segments_end(struct hm_buffer *buffer);

#endif
