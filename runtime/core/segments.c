// SPDX-License-Identifier: MIT
/*
 * Reference-counted segment lists. A list and the objects only it names are freed with its last
 * reader.
 */
#include "core/segments.h"

#include <stdlib.h>

#include "core/device_link.h"
#include "tell/publish.h"
#include "base/sys.h"

/* The first list's segment is the buffer's own. */
static void free_segments(struct hm_buffer *buffer, struct segment_list *list)
{
	if (list->segment != &buffer->first_segment)
		free(list->segment);
}

static void put_spare(struct hm_buffer *buffer, struct segment_list *list)
{
	list->segment = NULL;
	pthread_mutex_lock(&buffer->segment_lock);
	list->next = buffer->spare;
	buffer->spare = list;
	pthread_mutex_unlock(&buffer->segment_lock);
}

/* Oldest first: an object of a list may be in older lists, too. */
static struct segment_list *take_unused(struct hm_buffer *buffer)
{
	struct segment_list *list;

	pthread_mutex_lock(&buffer->segment_lock);
	list = buffer->oldest;
	if (list == atomic_load(&buffer->segments) || atomic_load(&list->n_user))
		list = NULL;
	else
		buffer->oldest = list->next;
	pthread_mutex_unlock(&buffer->segment_lock);
	return list;
}

static void end_objects(struct hm_buffer *buffer, const struct segment_list *list,
			uint32_t n_kept)
{
	struct hm_device *device = buffer->device;
	uint32_t n = list->n;

	while (n-- > n_kept)
		device->ops->object_destroy(list->link->backend, &list->segment[n]);
	link_put(device, list->link);
}

void segments_sweep(struct hm_buffer *buffer)
{
	struct segment_list *list;

	while ((list = take_unused(buffer))) {
		end_objects(buffer, list, list->n_kept);
		free_segments(buffer, list);
		put_spare(buffer, list);
	}
}

static struct segment_list *take_spare(struct hm_buffer *buffer)
{
	struct segment_list *list;

	pthread_mutex_lock(&buffer->segment_lock);
	list = buffer->spare;
	if (list)
		buffer->spare = list->next;
	pthread_mutex_unlock(&buffer->segment_lock);
	return list ? list : sys_calloc(1, sizeof(*list));
}

int segments_create(struct hm_buffer *buffer, uint32_t n, struct segment_list **ret_list)
{
	struct hm_segment *segment = sys_calloc(n, sizeof(*segment));
	struct segment_list *list;

	if (!segment)
		goto err_memory;
	list = take_spare(buffer);
	if (!list)
		goto err_segment;
	list->segment = segment;
	*ret_list = list;
	return 0;

err_segment:
	free(segment);
err_memory:
	return err_set(-ENOMEM, "%s: no memory for the description of %u objects", buffer->name,
		       n);
}

void segments_abandon(struct hm_buffer *buffer, struct segment_list *list)
{
	free(list->segment);
	put_spare(buffer, list);
}

static void publish(struct hm_buffer *buffer, struct segment_list *list, uint32_t n,
		    struct device_link *link)
{
	list->n = n;
	list->link = link;
	list->serial = ++buffer->n_list;
	list->n_kept = 0;
	list->next = NULL;
	buffer->segment = list->segment;
	buffer->n_segment = n;
	atomic_store(&buffer->segments, list);
}

void segments_begin(struct hm_buffer *buffer, const struct hm_segment *segment,
		    struct device_link *link)
{
	struct segment_list *list = &buffer->first_list;

	buffer->first_segment = *segment;
	list->segment = &buffer->first_segment;
	buffer->oldest = list;
	publish(buffer, list, 1, link);
}

static void swap(struct hm_buffer *buffer, struct segment_list *list, uint32_t n,
		 uint32_t n_kept, struct device_link *link)
{
	struct segment_list *old = atomic_load(&buffer->segments);
	struct hm_map *map;

	pthread_mutex_lock(&buffer->segment_lock);
	old->n_kept = n_kept;
	old->next = list;
	publish(buffer, list, n, link);
	pthread_mutex_unlock(&buffer->segment_lock);
	/* The published table must not name an object that ends. */
	cds_list_for_each_entry(map, &buffer->maps, buffer_link)
		publish_change(map);
	segments_sweep(buffer);
}

void segments_swap(struct hm_buffer *buffer, struct segment_list *list, uint32_t n,
		   uint32_t n_kept)
{
	swap(buffer, list, n, n_kept, link_hold(segments_link(buffer)));
}

void segments_renew(struct hm_buffer *buffer, struct segment_list *list,
		    struct device_link *link)
{
	swap(buffer, list, 1, 0, link);
}

void segments_end(struct hm_buffer *buffer)
{
	struct segment_list *list = atomic_load(&buffer->segments), *next;

	/* Ends objects that a handler has left. */
	segments_sweep(buffer);
	end_objects(buffer, list, 0);
	free_segments(buffer, list);
	list->next = buffer->spare;
	for (; list; list = next) {
		next = list->next;
		if (list != &buffer->first_list)
			free(list);
	}
}
